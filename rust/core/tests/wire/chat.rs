//! What callers of Chat Completions say beside the messages: tools and parameters.

use serde_json::{Value, json};
use toolrelay_core::json::Json;
use toolrelay_core::wire::chat;
use toolrelay_core::wire::profile::Profile;
use toolrelay_core::wire::{Head, Style, ToolChoice, WireError};

use crate::{parts, tool_spec};

fn params(style: Style, own: &[(&str, &str)], chat: &[(&str, &str)]) -> Result<Value, WireError> {
    let read = |params: &[(&str, &str)]| -> Vec<(String, Json)> {
        params.iter().map(|(key, value)| ((*key).to_owned(), parts(value))).collect()
    };
    let params = chat::params(style, None, &read(own), &read(chat))?;
    Ok(params.into_iter().map(|(key, json)| (key, serde_json::from_str::<Value>(json.get()).unwrap())).collect())
}

#[test]
fn parameters_have_the_words_of_the_style() {
    let chat = [("max_completion_tokens", "5"), ("temperature", "0.5"), ("top_p", "null"), ("n", "1")];
    let stop = [("max_tokens", "5"), ("stop", r#""end""#)];
    let schema =
        [("response_format", r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}"#)];
    let table = [
        (Style::OpenAi, &chat[..], json!({"max_completion_tokens": 5, "temperature": 0.5})),
        (Style::OpenAiResponses, &chat, json!({"max_output_tokens": 5, "temperature": 0.5})),
        (Style::Anthropic, &chat, json!({"max_tokens": 5, "temperature": 0.5})),
        (Style::Gemini, &chat, json!({"generationConfig": {"maxOutputTokens": 5, "temperature": 0.5}})),
        (Style::OpenAi, &stop, json!({"max_tokens": 5, "stop": "end"})),
        (Style::Anthropic, &stop, json!({"max_tokens": 5, "stop_sequences": ["end"]})),
        (Style::Gemini, &stop, json!({"generationConfig": {"maxOutputTokens": 5, "stopSequences": ["end"]}})),
        (
            Style::OpenAiResponses,
            &schema,
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}}),
        ),
        (
            Style::Gemini,
            &schema,
            json!({"generationConfig": {"responseJsonSchema": {"type": "object"}, "responseMimeType": "application/json"}}),
        ),
    ];
    for (style, chat, expected) in table {
        assert_eq!(params(style, &[], chat).unwrap(), expected, "{style:?}");
    }
}

#[test]
fn a_parameter_without_a_word_is_refused_not_left_out() {
    for style in [Style::OpenAiResponses, Style::Anthropic, Style::Gemini] {
        let refused = params(style, &[], &[("logit_bias", "{}")]);
        assert_eq!(refused, Err(WireError::Untranslated { key: "logit_bias".into(), style }));
    }
    for style in Style::ALL {
        let refused = params(style, &[], &[("n", "2")]);
        assert_eq!(refused, Err(WireError::Parameter { key: "n".into(), expected: "1" }));
    }
}

#[test]
fn the_clients_own_parameters_stay_beside_those_of_a_call() {
    let own = [("generationConfig", r#"{"topK":3,"temperature":1}"#), ("safetySettings", "[]")];
    let shown = params(Style::Gemini, &own, &[("temperature", "0")]).unwrap();
    assert_eq!(shown, json!({"generationConfig": {"topK": 3, "temperature": 0}, "safetySettings": []}));
}

#[test]
fn the_limit_of_output_has_the_servers_name() {
    let mistral = Profile::named("mistral").unwrap().1;
    let given = [("max_completion_tokens".to_owned(), parts("5"))];
    let sent = chat::params(Style::OpenAi, Some(&mistral), &[], &given).unwrap();
    assert_eq!(sent, [("max_tokens".to_owned(), parts("5"))]);
}

#[test]
fn tools_are_read_as_chat_completions_declares_them() {
    let list = r#"[{"type":"function","function":{"name":"tally","description":"Counts.","parameters":{"type":"object"},"strict":true}},
        {"type":"function","function":{"name":"ring","parameters":null}}]"#;
    assert_eq!(
        chat::tools(list).unwrap(),
        [tool_spec("tally", "Counts.", r#"{"type":"object"}"#), tool_spec("ring", "", "{}")]
    );
    for (list, told) in [
        ("{}", "tools: expected a list"),
        ("[7]", "tools[0]: expected an object, got a number"),
        (r#"[{"type":"custom","custom":{}}]"#, r#"tools[0].type: expected "function", got "custom": there are only"#),
        (r#"[{"name":"tally","input_schema":{}}]"#, "tools[0].function: missing"),
        (r#"[{"type":"function","name":"tally"}]"#, "tools[0].function: missing"),
        (r#"[{"function":{"name":"tally"}}]"#, "tools[0].type: missing"),
        (r#"[{"type":"function","function":{}}]"#, "tools[0].function.name: missing"),
        (r#"[{"type":"function","function":{"name":""}}]"#, "tools[0].function.name: missing"),
        (r#"[{"type":"function","function":{"name":{}}}]"#, "tools[0].function.name: expected text, got an object"),
    ] {
        let error = chat::tools(list).unwrap_err();
        assert!(error.to_string().starts_with(told), "{error}");
        assert!(told.starts_with(&error.key), "{}", error.key);
    }
}

#[test]
fn a_schema_that_would_be_lost_is_refused() {
    let key = |more: &str, beside: &str| {
        let list = format!(r#"[{{"type":"function","function":{{"name":"tally"{more}}}{beside}}}]"#);
        chat::tools(&list).err().map(|error| error.key)
    };
    let schema = r#"{"type":"object","properties":{}}"#;
    assert_eq!(key(r#","parameters":"{}""#, ""), Some("tools[0].function.parameters".to_owned()));
    assert_eq!(key(&format!(r#","input_schema":{schema}"#), ""), Some("tools[0].function.input_schema".to_owned()));
    assert_eq!(key(&format!(r#","args":{schema}"#), ""), Some("tools[0].function.args".to_owned()));
    assert_eq!(key("", &format!(r#","parameters":{schema}"#)), Some("tools[0].parameters".to_owned()));
    assert_eq!(key(&format!(r#","parameters":{schema},"returns":{schema}"#), ""), None);
    assert_eq!(key(r#","parameters":null,"strict":true"#, r#","cache_control":{"type":"ephemeral"}"#), None);
}

#[test]
fn a_limit_that_is_said_twice_is_refused() {
    for style in Style::ALL {
        let refused = params(style, &[], &[("max_tokens", "5"), ("max_completion_tokens", "6")]);
        assert_eq!(refused.unwrap_err().key(), Some("max_tokens"));
        assert!(params(style, &[], &[("max_tokens", "5"), ("max_completion_tokens", "null")]).is_ok());
    }
}

#[test]
fn a_choice_of_tools_where_there_are_none_is_refused() {
    let own = [("tools".to_owned(), parts("[{}]"))];
    for style in Style::ALL {
        let head = Head { model: "m", ..Head::default() };
        let key = |head: &Head<'_>| chat::head(style, head).err().and_then(|error| error.key().map(str::to_owned));
        let required = Head { tool_choice: Some(&ToolChoice::Required), ..head };
        assert_eq!(key(&required), Some("tool_choice".to_owned()));
        assert_eq!(key(&Head { parallel_tool_calls: Some(false), ..head }), Some("parallel_tool_calls".to_owned()));
        assert_eq!(key(&Head { tool_choice: Some(&ToolChoice::None), ..head }), None);
        assert_eq!(key(&Head { params: &own, ..required }), None);
    }
}
