//! What single servers want that differs from their style.

use std::sync::Arc;

use serde_json::{Value, json};
use toolrelay_core::message::Message;
use toolrelay_core::tool::{ToolOutput, ToolSpec};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::names::exact_id;
use toolrelay_core::wire::profile::{CallContent, NAMES, Profile};
use toolrelay_core::wire::{Head, Style, WireError};

use crate::{body_of, call, head, history, parts, read, tool_spec};

fn profile(name: &str) -> Arc<Profile> {
    Arc::new(Profile::named(name).unwrap().1)
}

fn sent_to(profile: &Arc<Profile>, messages: &[Message]) -> Value {
    let head = Head { profile: Some(profile), ..head(None, &[], &[]) };
    read(&body_of(Style::OpenAi, &head, messages))["messages"].take()
}

const TURN: &str = r#"[
    {"role":"user","content":"go"},
    {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
        {"id":"call_9f_A-2","type":"function","function":{"name":"tally","arguments":"{}"},"extra_content":{"google":1}},
        {"id":"abcDEF123","type":"function","function":{"name":"tally","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"call_9f_A-2","content":"7"},
    {"role":"tool","tool_call_id":"abcDEF123","content":"8"}]"#;

/// Fault B3: nine letters and digits, the same for call and result and at each replay; one that fits stays.
#[test]
fn ids_have_the_length_and_alphabet_that_a_server_wants() {
    let shown = sent_to(&profile("mistral"), &history(TURN));
    let id = exact_id(9, "call_9f_A-2").into_owned();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(exact_id(9, &id), id);
    assert_eq!(
        shown.as_array().unwrap()[1..],
        [
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "tally", "arguments": "{}"}},
                {"id": "abcDEF123", "type": "function", "function": {"name": "tally", "arguments": "{}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": id, "content": "7"}),
            json!({"role": "tool", "tool_call_id": "abcDEF123", "content": "8"}),
        ]
    );
    assert_eq!(shown, sent_to(&profile("mistral"), &history(TURN)));
}

#[test]
fn ids_that_begin_alike_stay_apart() {
    let ids: std::collections::BTreeSet<_> =
        (0..10_000).map(|at| exact_id(9, &format!("call_of_a_very_long_run_{at}")).into_owned()).collect();
    assert_eq!(ids.len(), 10_000);
}

/// Fault F8: the three forms, and what came in stays where no form is wanted.
#[test]
fn content_beside_calls_has_the_form_that_a_server_wants() {
    let with = |content: &str| {
        history(&format!(
            r#"[{{"role":"assistant"{content},"tool_calls":[{{"id":"k1","type":"function","function":{{"name":"n","arguments":"{{}}"}}}}]}},
                {{"role":"tool","tool_call_id":"k1","content":"7"}}]"#
        ))
    };
    let (null, empty) = (r#","content":null"#, r#","content":"""#);
    let shown = |form: Option<CallContent>, content: &str| {
        let profile = Arc::new(Profile { call_content: form, ..Profile::default() });
        sent_to(&profile, &with(content))[0].get("content").cloned()
    };
    for content in [null, empty] {
        assert_eq!(shown(Some(CallContent::Null), content), Some(Value::Null));
        assert_eq!(shown(Some(CallContent::Empty), content), Some(json!("")));
        assert_eq!(shown(Some(CallContent::Absent), content), None);
        assert_eq!(shown(Some(CallContent::Null), r#","content":"let me see""#), Some(json!("let me see")));
    }
    assert_eq!((shown(None, null), shown(None, empty)), (Some(Value::Null), Some(json!(""))));
}

/// Fault F11: sent back where it must be, also an empty one; refused elsewhere; never a made-up text.
#[test]
fn reasoning_goes_where_it_must_and_nowhere_else() {
    let keys = |shown: &Value| -> Vec<String> { shown[1].as_object().unwrap().keys().cloned().collect() };
    let deepseek = sent_to(&profile("deepseek"), &history(TURN));
    assert_eq!(deepseek[1]["reasoning_content"], "hm");
    for name in ["groq", "openai", "mistral"] {
        assert_eq!(keys(&sent_to(&profile(name), &history(TURN))), ["role", "content", "tool_calls"], "{name}");
    }
    let mut foreign = vec![Message::user("go"), Message::assistant_reply("", vec![call("k1", "n", "{}")], None)];
    foreign.push(Message::tool_result(&foreign[1].calls()[0].id, &ToolOutput::text("7")));
    assert_eq!(sent_to(&profile("deepseek"), &foreign)[1]["reasoning_content"], "");
}

#[test]
fn parts_that_a_server_refuses_leave_their_text() {
    let said = r#"{"choices":[{"message":{"role":"assistant","content":[
        {"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"high "},{"type":"text","text":"tide"}]}}]}"#;
    let reply = Style::OpenAi.decode(said.as_bytes()).unwrap();
    let messages = crate::turn(&reply, &[]);
    assert_eq!(sent_to(&profile("openai"), &messages)[1], json!({"role": "assistant", "content": "high tide"}));
    assert_eq!(sent_to(&profile("mistral"), &messages)[1]["content"][0]["type"], "thinking");
}

#[test]
fn the_models_word_stands_between_results_and_the_user() {
    let mut messages = history(TURN);
    messages.push(Message::user("well?"));
    let shown = sent_to(&profile("mistral"), &messages);
    let roles = |shown: &Value| -> Vec<String> {
        shown.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&shown), ["user", "assistant", "tool", "tool", "assistant", "user"]);

    let image = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]"#;
    let output = ToolOutput { parts: Some(parts(image)), ..ToolOutput::text("chart") };
    let calls = vec![call("k1", "snap", "{}")];
    let results = Message::tool_result(&calls[0].id, &output);
    let messages = [Message::assistant_reply("", calls, None), results, Message::user("well?")];
    assert_eq!(roles(&sent_to(&profile("mistral"), &messages)), ["assistant", "tool", "assistant", "user", "user"]);
}

#[test]
fn a_role_that_a_server_does_not_know_is_system() {
    let messages = history(r#"[{"role":"developer","content":"be brief"},{"role":"user","content":"go"}]"#);
    assert_eq!(sent_to(&profile("deepseek"), &messages)[0], json!({"role": "system", "content": "be brief"}));
    assert_eq!(sent_to(&profile("openai"), &messages)[0], json!({"role": "developer", "content": "be brief"}));
}

/// Fault J11: nothing is cut silently.
#[test]
fn too_many_tools_are_refused_with_both_numbers() {
    let tools: Vec<ToolSpec> = (0..129).map(|at| tool_spec(&format!("t{at}"), "", "{}")).collect();
    let openai = profile("openai");
    let with = |tools: &[ToolSpec]| Style::OpenAi.head(&Head { profile: Some(&openai), ..head(None, tools, &[]) });
    assert_eq!(with(&tools), Err(WireError::TooManyTools { found: 129, most: 128 }));
    assert!(with(&tools[1..]).is_ok());
    assert!(Style::OpenAi.head(&head(None, &tools, &[])).is_ok());
}

#[test]
fn stream_options_are_not_sent_where_they_are_refused() {
    let mistral = profile("mistral");
    let head = Head { profile: Some(&mistral), stream: true, ..head(None, &[], &[]) };
    let body = body_of(Style::OpenAi, &head, &[Message::user("hi")]);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#
    );
}

/// A message that was encoded for one server is encoded anew for another, and comes back the same.
#[test]
fn one_transcript_serves_servers_that_differ() {
    let transcript = Transcript::from_json(bytes::Bytes::from_static(TURN.as_bytes())).unwrap();
    let names = ["mistral", "deepseek", "openai", "mistral"];
    for name in names {
        let fresh = sent_to(&profile(name), &history(TURN));
        assert_eq!(sent_to(&profile(name), transcript.messages()), fresh, "{name}");
    }
    let plain = body_of(Style::OpenAi, &head(None, &[], &[]), &history(TURN));
    assert_eq!(body_of(Style::OpenAi, &head(None, &[], &[]), transcript.messages()), plain);
}

#[test]
fn servers_are_known_by_name_and_by_address() {
    for name in NAMES {
        let (style, profile) = Profile::named(name).unwrap();
        assert_ne!(profile, Profile::default(), "{name}");
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
        assert!(Style::ALL.contains(&style));
    }
    assert_eq!(Profile::named("acme"), None);
    let table = [
        (Style::OpenAi, "https://api.mistral.ai/v1", Some("mistral")),
        (Style::OpenAi, "https://API.OpenAI.com:443/v1?x=1", Some("openai")),
        (Style::OpenAi, "https://boats.openai.azure.com/openai/v1", Some("openai")),
        (Style::OpenAi, "https://notapi.openai.com.example.org/v1", None),
        (Style::OpenAi, "https://xapi.openai.com/v1", None),
        (Style::OpenAi, "https://api.anthropic.com/v1", None),
        (Style::Anthropic, "https://api.anthropic.com", Some("anthropic")),
        (Style::Anthropic, "https://api.deepseek.com/anthropic", None),
        (Style::OpenAi, "http://127.0.0.1:8000/v1", None),
    ];
    for (style, address, name) in table {
        let expected = name.and_then(Profile::named).map(|(_, profile)| profile);
        assert_eq!(Profile::of_address(style, address), expected, "{address}");
    }
}
