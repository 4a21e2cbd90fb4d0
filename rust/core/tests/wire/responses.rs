//! Responses, encoded.

use serde_json::{Value, json};
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::wire::{Style, WireError};

use crate::{body_of, call, head, joined, messages_of, parts, prefix, read, sent, tool_spec};

const STYLE: Style = Style::OpenAiResponses;

#[test]
fn head_comes_first_in_stable_order() {
    let tools = [tool_spec("tally", "Counts.", r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#)];
    let params = [
        ("tools".to_owned(), parts(r#"[{"type":"web_search"}]"#)),
        ("reasoning".to_owned(), parts(r#"{"effort":"low"}"#)),
    ];
    let body = body_of(STYLE, &head(Some("be brief"), &tools, &params), &[Message::user("hi")]);
    let expected = concat!(
        r#"{"model":"m","tools":[{"type":"function","name":"tally","description":"Counts.","#,
        r#""parameters":{"type":"object","properties":{"n":{"type":"integer"}}},"strict":false},"#,
        r#"{"type":"web_search"}],"store":false,"include":["reasoning.encrypted_content"],"#,
        r#""reasoning":{"effort":"low"},"instructions":"be brief","#,
        r#""input":[{"role":"user","content":"hi"}]}"#
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn parameters_win_over_defaults() {
    let include = json!(["reasoning.encrypted_content"]);
    let table = [
        (("store", "true"), json!({"model": "m", "store": true, "include": include, "instructions": "s"})),
        (("store", "null"), json!({"model": "m", "include": include, "instructions": "s"})),
        (("include", "null"), json!({"model": "m", "store": false, "instructions": "s"})),
        (
            ("include", r#"["web_search_call.results"]"#),
            json!({"model": "m", "store": false, "include": ["web_search_call.results"], "instructions": "s"}),
        ),
        (("instructions", "\"b\""), json!({"model": "m", "store": false, "include": include, "instructions": "b"})),
        (("model", "\"gpt-4o\""), json!({"model": "gpt-4o", "store": false, "instructions": "s"})),
    ];
    for ((key, value), expected) in table {
        let params = [(key.to_owned(), parts("1")), (key.to_owned(), parts(value))];
        let mut body = read(&body_of(STYLE, &head(Some("s"), &[], &params), &[Message::user("hi")]));
        body.as_object_mut().unwrap().remove("input");
        assert_eq!(body, expected);
    }
}

/// A model that does not reason refuses the whole request when its reasoning is asked for.
#[test]
fn reasoning_is_asked_of_models_that_may_have_some() {
    for (model, asks) in [
        ("gpt-5.1", true),
        ("o4-mini", true),
        ("gpt-oss-120b", true),
        ("my-deployment", true),
        ("gpt-4.1-mini", false),
        ("openai/gpt-4o", false),
        ("ft:gpt-4o-mini:org::id", false),
        ("gpt-5-chat-latest", false),
    ] {
        let head = toolrelay_core::wire::Head { model, ..head(None, &[], &[]) };
        assert_eq!(read(&body_of(STYLE, &head, &[Message::user("hi")])).get("include").is_some(), asks, "{model}");
    }
}

#[test]
fn parameters_that_cannot_be_are_refused() {
    for key in ["input", "messages", "stream"] {
        let params = [(key.to_owned(), parts("1"))];
        assert_eq!(STYLE.head(&head(None, &[], &params)), Err(WireError::Reserved { key: key.to_owned() }));
    }
    for key in ["previous_response_id", "conversation"] {
        let params = [(key.to_owned(), parts("\"resp_1\""))];
        let expected = "left out: every request holds the whole transcript";
        let expected = WireError::Parameter { key: key.to_owned(), expected };
        assert_eq!(STYLE.head(&head(None, &[], &params)), Err(expected));
    }
}

/// Fault J8.
#[test]
fn tool_choice_without_tools_is_left_out() {
    let params = [
        ("tools".to_owned(), parts("[]")),
        ("tool_choice".to_owned(), parts("\"none\"")),
        ("parallel_tool_calls".to_owned(), parts("false")),
    ];
    let body = read(&body_of(STYLE, &head(None, &[], &params), &[Message::user("hi")]));
    assert_eq!(body["tools"].as_array(), None);
    assert_eq!((body.get("tool_choice"), body.get("parallel_tool_calls")), (None, None));
}

/// Faults A8, B9: one item per result, in call order; no item has an id that the provider did not give.
#[test]
fn messages_become_items() {
    let failed = ToolOutput::failed(Outcome::Declined, "no");
    let messages = [
        Message::system("be kind"),
        Message::user("hi"),
        Message::assistant_reply("so", vec![call("k1", "tally", r#"{"n": 1}"#), call("k2", "dock.moor", "")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text("7")),
        Message::tool_result(&CallId::new("k2"), &failed),
        Message::user("hurry"),
    ];
    let shown = read(&messages_of(STYLE, &messages));
    let mapped = &shown[4]["name"];
    assert!(mapped.as_str().unwrap().starts_with("dock_moor_"));
    assert_eq!(
        shown,
        json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "so"},
            {"type": "function_call", "call_id": "k1", "name": "tally", "arguments": r#"{"n": 1}"#},
            {"type": "function_call", "call_id": "k2", "name": mapped, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "k1", "output": "7"},
            {"type": "function_call_output", "call_id": "k2", "output": "no"},
            {"role": "user", "content": "hurry"},
        ])
    );
}

#[test]
fn keys_that_the_provider_does_not_take_are_left_out() {
    let shown = sent(
        STYLE,
        r#"[{"role":"developer","content":"be kind","name":"x"},{"role":"user","name":"ann","content":"hi"},
            {"role":"assistant","content":"ho","refusal":null,"annotations":[]},
            {"role":"user","content":"go","toolrelay":{}}]"#,
    );
    let expected = json!([
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "go"},
    ]);
    assert_eq!(shown, expected);
}

#[test]
fn request_stays_a_prefix_of_the_next() {
    let mut messages = vec![Message::user("hi")];
    let first = joined(&prefix(STYLE).body(&messages).unwrap());
    messages.push(Message::assistant_reply("ho", vec![], None));
    messages.push(Message::user("go"));
    let second = joined(&prefix(STYLE).body(&messages).unwrap());
    assert!(second.starts_with(first.strip_suffix(b"]}").unwrap()));
}

/// Fault C2.
#[test]
fn broken_arguments_are_sent_as_an_object() {
    for (arguments, expected) in [(r#"{"path": "a.tx"#, "{}"), ("5", "{}"), (r#""{\"n\":1}""#, r#"{"n":1}"#)] {
        let reply = Message::assistant_reply("", vec![call("k1", "tally", arguments)], None);
        let result = Message::tool_result(&CallId::new("k1"), &ToolOutput::failed(Outcome::Error, "bad"));
        let shown = read(&messages_of(STYLE, &[Message::user("x"), reply, result]));
        assert_eq!(shown[1]["arguments"], expected);
    }
}

/// Faults B1, B2.
#[test]
fn foreign_ids_are_mapped_alike_for_call_and_result() {
    let long = |end: &str| format!("run-2031-step-0007-attempt-0003-tool-moor_boat-occurrence-0001-of-{end}");
    let ids = [long("0001"), long("0002"), "functions.moor:0".into(), "k\u{e9}".into(), "a".repeat(64)];
    let calls: Vec<_> = ids.iter().map(|id| call(id, "moor", "{}")).collect();
    let mut messages = vec![Message::user("x"), Message::assistant_reply("", calls.clone(), None)];
    messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("ok"))));
    let shown = read(&messages_of(STYLE, &messages));
    let shown = shown.as_array().unwrap();
    let sent: Vec<&str> = shown[1..6].iter().map(|item| item["call_id"].as_str().unwrap()).collect();
    let answered: Vec<&str> = shown[6..].iter().map(|item| item["call_id"].as_str().unwrap()).collect();
    assert_eq!(sent, answered);
    assert!(sent.iter().all(|id| id.len() <= 64 && id.is_ascii()));
    assert_ne!(sent[0], sent[1]);
    assert_eq!((sent[2], sent[4]), ("functions.moor:0", ids[4].as_str()));
}

/// Faults C13, E7.
#[test]
fn nothing_said_is_left_out_or_named() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":""},{"role":"user","content":"still there?"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"ring","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":""}]"#,
    );
    assert_eq!(
        shown,
        json!([
            {"role": "user", "content": "hi"},
            {"role": "user", "content": "still there?"},
            {"type": "function_call", "call_id": "k1", "name": "ring", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "k1", "output": "(no output)"},
        ])
    );
}

/// Fault F10: images and files in the result, failed or not.
#[test]
fn images_of_results_stay_in_the_result() {
    let list = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"file","file":{"file_id":"file_1"}}]"#;
    let output = |outcome, text: &str| ToolOutput { parts: Some(parts(list)), outcome, text: text.into() };
    let calls = vec![call("k1", "snap", "{}"), call("k2", "snap", "{}")];
    let messages = [
        Message::user("x"),
        Message::assistant_reply("", calls, None),
        Message::tool_result(&CallId::new("k1"), &output(Outcome::Error, "torn")),
        Message::tool_result(&CallId::new("k2"), &output(Outcome::Ok, "")),
    ];
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"});
    let file = json!({"type": "input_file", "file_id": "file_1"});
    assert_eq!(
        read(&messages_of(STYLE, &messages)).as_array().unwrap()[3..],
        [
            json!({"type": "function_call_output", "call_id": "k1",
                "output": [{"type": "input_text", "text": "torn"}, image, file]}),
            json!({"type": "function_call_output", "call_id": "k2", "output": [image, file]}),
        ]
    );
}

#[test]
fn parts_of_a_prompt_become_input() {
    let message = Message::user_parts(&parts(
        r#"[{"type":"text","text":"caf\u00e9","cache_control":{"type":"ephemeral"}},
            {"type":"image_url","image_url":{"url":"https://h/a.png","detail":"low"}},
            {"type":"image_url","image_url":"data:image\/png;base64,iVBORw0KGgo="},
            {"type":"file","file":{"filename":"tide.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},
            {"type":"file","file":{"filename":"a.pdf","file_data":"https://h/a.pdf"}},
            {"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERg=="}},
            {"type":"file","file":{"file_data":"data:text/csv;base64,YSxi"}},
            {"type":"file","file":{"file_id":"file_1"}},
            {"type":"input_audio","input_audio":{"data":"x","format":"wav"}},
            {"type":"input_image","file_id":"file_2","detail":"high"},
            {"type":"video_note","n": 1.0}]"#,
    ));
    let body = messages_of(STYLE, &[message]);
    assert!(String::from_utf8_lossy(&body).contains(r#"{"type":"video_note","n": 1.0}"#));
    assert_eq!(
        read(&body)[0]["content"],
        json!([
            {"type": "input_text", "text": "café"},
            {"type": "input_image", "image_url": "https://h/a.png", "detail": "low"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
            {"type": "input_file", "filename": "tide.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "a.pdf", "file_url": "https://h/a.pdf"},
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "file.txt", "file_data": "data:text/csv;base64,YSxi"},
            {"type": "input_file", "file_id": "file_1"},
            {"type": "input_text", "text": "[audio is left out: this provider takes none]"},
            {"type": "input_image", "file_id": "file_2", "detail": "high"},
            {"type": "video_note", "n": 1.0},
        ])
    );
}

/// Contract 8.3: what another provider made, or what no longer fits the calls, is left out.
#[test]
fn foreign_blocks_are_left_out() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"x"},
            {"role":"assistant","content":"so","reasoning_content":"hm","tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":"7"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"and"}]},
            {"role":"assistant","content":"then","toolrelay":{"provider":{"style":"openai-responses","raw":"[{\"type\":\"function_call\",\"call_id\":\"k9\",\"name\":\"tally\",\"arguments\":\"{}\"}]"}}},
            {"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]},
            {"role":"user","content":"y"}]"#,
    );
    let expected = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "so"},
        {"type": "function_call", "call_id": "k1", "name": "tally", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k1", "output": "7"},
        {"role": "assistant", "content": "and"},
        {"role": "assistant", "content": "then"},
        {"role": "assistant", "content": "ano"},
        {"role": "user", "content": "y"},
    ]);
    assert_eq!(shown, expected);
}

#[test]
fn addresses_are_understood() {
    for (base, url) in [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        ("https://h/v1/responses/", "https://h/v1/responses"),
        ("https://h/openai/v1?api-version=1", "https://h/openai/v1/responses?api-version=1"),
    ] {
        assert_eq!(STYLE.url(base, "m", true), url);
    }
    assert_eq!(STYLE.auth_headers("k"), [("authorization", "Bearer k".to_owned())]);
    assert_eq!((STYLE.auth_headers(""), STYLE.as_str()), (vec![], "openai-responses"));
    assert_eq!(serde_json::to_value(STYLE).unwrap(), Value::from(STYLE.as_str()));
}
