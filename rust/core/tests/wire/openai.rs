//! Chat Completions, encoded and decoded.

use std::ops::Range;

use serde_json::json;
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::wire::{Head, Style, WireError};

use crate::{body_of, call, head, history, joined, messages_of, parts, prefix, read, sent, tool_spec};

const STYLE: Style = Style::OpenAi;

#[test]
fn head_comes_first_in_stable_order() {
    let tools = [tool_spec("tally", "Counts.", r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#)];
    let params = [("temperature".to_owned(), parts("0.5")), ("model".to_owned(), parts(r#""other""#))];
    let body = body_of(STYLE, &head(Some("be brief"), &tools, &params), &[Message::user("hi")]);
    let expected = concat!(
        r#"{"model":"other","tools":[{"type":"function","function":{"name":"tally","description":"Counts.","#,
        r#""parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}],"temperature":0.5,"#,
        r#""messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}"#
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn canonical_messages_go_out_as_their_own_bytes() {
    let text = concat!(
        r#"[{"role": "user",  "content": "caf\u00e9"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":"#,
        r#"{"name":"tally","arguments":"{ \"z\": 1, \"a\": 1.0 }"}}]},"#,
        r#"{"role":"tool","content":"7","tool_call_id":"k1"}]"#
    );
    let messages = history(text);
    let body = prefix(STYLE).body(&messages).unwrap();
    let slices: Vec<Range<*const u8>> = body.chunks.iter().map(|chunk| chunk.as_ptr_range()).collect();
    let is_sent = |message: &Message| slices.iter().any(|slice| slice.contains(&message.json().as_ptr()));
    assert!(messages.iter().all(is_sent));
    assert_eq!(slices.len(), 3, "messages that stand in one text go out as one slice");
    assert_eq!(joined(&body).len(), body.len);
    assert_eq!(messages_of(STYLE, &messages), text.as_bytes());
}

/// The bytes already sent stay the start of the next request.
#[test]
fn request_stays_a_prefix_of_the_next() {
    let mut messages = vec![Message::user("hi")];
    let first = joined(&prefix(STYLE).body(&messages).unwrap());
    messages.push(Message::assistant_reply("", vec![call("k1", "tally", "{}")], None));
    messages.push(Message::tool_result(&CallId::new("k1"), &ToolOutput::text("7")));
    let second = joined(&prefix(STYLE).body(&messages).unwrap());
    assert!(second.starts_with(first.strip_suffix(b"]}").unwrap()));
}

/// Contract 5.4: extras never reach a wire, and a halted transcript would be accepted.
#[test]
fn extras_stay_here() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"hi","toolrelay":{"note":1}},
            {"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"moor","arguments":"{}"}},
              {"id":"k2","type":"function","function":{"name":"moor","arguments":"{}"}}],
              "toolrelay":{"provider":{"style":"anthropic","raw":"[{\"type\":\"tool_use\",\"id\":\"k1\",\"name\":\"moor\",\"input\":{}}]"}}},
            {"role":"tool","tool_call_id":"k1","content":"no","toolrelay":{"outcome":"declined"}},
            {"role":"tool","tool_call_id":"k2","content":"[pending]","toolrelay":{"pending":{"id":"req_1","turns":1}}}]"#,
    );
    assert_eq!(
        shown,
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "k1", "type": "function", "function": {"name": "moor", "arguments": "{}"}},
                {"id": "k2", "type": "function", "function": {"name": "moor", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "k1", "content": "no"},
            {"role": "tool", "tool_call_id": "k2", "content": "[pending]"},
        ])
    );
}

/// Fault B1: a call and its result carry one short id; ids that begin alike stay apart.
#[test]
fn long_ids_are_shortened_alike_for_call_and_result() {
    let long = "run-2031-step-0007-attempt-0003-tool-moor_boat-occurrence-000";
    let calls = vec![call(&format!("{long}1"), "moor", "{}"), call(&format!("{long}2"), "moor", "{}")];
    let mut messages = vec![Message::user("hi"), Message::assistant_reply("", calls.clone(), None)];
    messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("ok"))));
    let shown = read(&messages_of(STYLE, &messages));
    let ids = [&shown[1]["tool_calls"][0]["id"], &shown[1]["tool_calls"][1]["id"]];
    assert_eq!(ids, [&shown[2]["tool_call_id"], &shown[3]["tool_call_id"]]);
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| id.as_str().unwrap().len() <= 40));
}

/// Fault C2: arguments that no provider takes back become an object; the record keeps the text.
#[test]
fn broken_arguments_are_sent_as_an_object() {
    let absurd = format!("{{\"{}\":1}}", "k".repeat(2_000));
    let deep = format!("{}1{}", r#"{"a":"#.repeat(5_000), "}".repeat(5_000));
    let table = [
        (r#"{"path": "a.tx"#, "{}"),
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ("[]", "{}"),
        (r#"{"n":1}{"n":2}"#, "{}"),
        (r#"{"x": NaN}"#, "{}"),
        (r#"{"x":1e400}"#, "{}"),
        (absurd.as_str(), "{}"),
        (deep.as_str(), "{}"),
        (r#""{\"n\":1}""#, r#"{"n":1}"#),
        (r#"{"cut":"\ud83d"}"#, r#"{"cut":"\ufffd"}"#),
        (
            r#"{ "n": 123456789012345678901234567890, "x": 1.50 }"#,
            r#"{ "n": 123456789012345678901234567890, "x": 1.50 }"#,
        ),
    ];
    for (arguments, expected) in table {
        let message = Message::assistant_reply("", vec![call("k1", "tally", arguments)], None);
        let result = Message::tool_result(&CallId::new("k1"), &ToolOutput::failed(Outcome::Error, "bad"));
        let body = messages_of(STYLE, &[Message::user("x"), message.clone(), result]);
        let shown = read(&body);
        assert_eq!(shown[1]["tool_calls"][0]["function"]["arguments"], expected, "{arguments:.40}");
        assert_eq!(message.calls()[0].arguments, arguments);
    }
}

/// Fault C5: an object in the history is text on the wire.
#[test]
fn argument_objects_are_sent_as_text() {
    let shown = sent(
        STYLE,
        r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":{"n": 1}}}]},
            {"role":"tool","tool_call_id":"k1","content":"7"}]"#,
    );
    assert_eq!(shown[0]["tool_calls"][0]["function"]["arguments"], r#"{"n": 1}"#);
}

/// Fault C13: an empty result is a documented text.
#[test]
fn empty_result_is_no_output() {
    let calls = vec![call("k1", "ring", "{}")];
    let messages =
        [Message::assistant_reply("", calls, None), Message::tool_result(&CallId::new("k1"), &ToolOutput::text(""))];
    let shown = read(&messages_of(STYLE, &messages));
    assert_eq!(shown[1], json!({"role": "tool", "tool_call_id": "k1", "content": "(no output)"}));
}

/// Fault F10: tool messages hold text, the images of a turn follow all of them.
#[test]
fn images_of_results_follow_in_one_user_message() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#;
    let calls = vec![call("k1", "snap", "{}"), call("k2", "snap", "{}")];
    let mut messages = vec![Message::user("x"), Message::assistant_reply("", calls.clone(), None)];
    for call in &calls {
        let output = ToolOutput { parts: Some(parts(&format!("[{image}]"))), ..ToolOutput::text("chart") };
        messages.push(Message::tool_result(&call.id, &output));
    }
    messages.push(Message::user("well?"));
    let shown = read(&messages_of(STYLE, &messages));
    let image: serde_json::Value = serde_json::from_str(image).unwrap();
    assert_eq!(
        shown.as_array().unwrap()[2..],
        [
            json!({"role": "tool", "tool_call_id": "k1", "content": "chart"}),
            json!({"role": "tool", "tool_call_id": "k2", "content": "chart"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "attached to the result of call k1:"}, image,
                {"type": "text", "text": "attached to the result of call k2:"}, image,
            ]}),
            json!({"role": "user", "content": "well?"}),
        ]
    );
}

/// Fault F9.
#[test]
fn empty_list_of_calls_is_left_out() {
    let shown = sent(STYLE, r#"[{"role":"assistant","content":"hi","tool_calls":[]},{"role":"user","content":"go"}]"#);
    assert_eq!(shown[0], json!({"role": "assistant", "content": "hi"}));
}

/// Fault J8.
#[test]
fn keys_about_tools_are_left_out_without_tools() {
    let params = [
        ("tools".to_owned(), parts("[]")),
        ("tool_choice".to_owned(), parts(r#""none""#)),
        ("parallel_tool_calls".to_owned(), parts("false")),
    ];
    let body = body_of(STYLE, &head(None, &[], &params), &[Message::user("hi")]);
    assert_eq!(String::from_utf8(body).unwrap(), r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
}

/// Fault J6: a name that a provider refuses is mapped where it is declared and in the history.
#[test]
fn tool_names_are_mapped_everywhere_alike() {
    let tools = [tool_spec("dock/moor.boat", "", "{}")];
    let messages = [
        Message::assistant_reply("", vec![call("k1", "dock/moor.boat", "{}")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text("ok")),
    ];
    let body = read(&body_of(STYLE, &head(None, &tools, &[]), &messages));
    let declared = &body["tools"][0]["function"]["name"];
    assert_eq!(declared, &body["messages"][0]["tool_calls"][0]["function"]["name"]);
    assert_eq!(declared, "dock_moor_boat_b939dbccfdba0a5a");
}

/// Contract 8.5, fault A15.
#[test]
fn unbalanced_transcripts_are_refused() {
    let asks = Message::assistant_reply("", vec![call("k1", "tally", "{}"), call("k2", "tally", "{}")], None);
    let result = |id: &str| Message::tool_result(&CallId::new(id), &ToolOutput::text("7"));
    let unanswered = |id: &str| WireError::Unanswered { call: CallId::new(id), name: "tally".into() };
    let table = [
        (vec![], WireError::Empty),
        (vec![asks.clone(), result("k1")], unanswered("k2")),
        (vec![asks.clone(), result("k1"), Message::user("x"), result("k2")], unanswered("k2")),
        (vec![asks.clone(), result("k2"), result("k1")], unanswered("k1")),
        (vec![asks.clone(), result("k1"), result("k2"), result("k2")], WireError::Uncalled { call: CallId::new("k2") }),
        (vec![result("k1")], WireError::Uncalled { call: CallId::new("k1") }),
        (vec![Message::user("x"), Message::assistant_reply("y", vec![], None)], WireError::EndsWithAssistant),
    ];
    for (messages, expected) in table {
        for style in [Style::OpenAi, Style::Anthropic] {
            assert_eq!(prefix(style).body(&messages), Err(expected.clone()));
        }
    }
}

#[test]
fn parameters_of_the_wire_are_refused() {
    for key in ["messages", "stream"] {
        let params = [(key.to_owned(), parts("[]"))];
        assert_eq!(STYLE.head(&head(None, &[], &params)), Err(WireError::Reserved { key: key.to_owned() }));
    }
    let params = [("tools".to_owned(), parts("5"))];
    let expected = WireError::Parameter { key: "tools".to_owned(), expected: "a list" };
    assert_eq!(STYLE.head(&head(None, &[], &params)), Err(expected));
}

/// What is said of streams is said only where there is one.
#[test]
fn streams_are_asked_for() {
    let options = |value: &str| vec![("stream_options".to_owned(), parts(value))];
    let table = [
        (
            Style::OpenAi,
            vec![],
            true,
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":["#,
        ),
        (Style::OpenAi, options("{}"), true, r#"{"model":"m","stream_options":{},"stream":true,"messages":["#),
        (Style::OpenAi, options("null"), true, r#"{"model":"m","stream":true,"messages":["#),
        (Style::OpenAi, options("{}"), false, r#"{"model":"m","messages":["#),
        (Style::Anthropic, vec![], true, r#"{"model":"m","max_tokens":8192,"stream":true,"messages":["#),
    ];
    for (style, params, stream, start) in table {
        let body = body_of(style, &Head { stream, ..head(None, &[], &params) }, &[Message::user("x")]);
        assert!(body.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn addresses_are_what_the_official_sdk_takes() {
    let table = [
        (Style::OpenAi, "https://h/v1", "https://h/v1/chat/completions"),
        (Style::OpenAi, "https://h/v1/", "https://h/v1/chat/completions"),
        (Style::OpenAi, "https://h/openai/v1?api-version=1", "https://h/openai/v1/chat/completions?api-version=1"),
        (Style::OpenAi, "https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        (Style::Anthropic, "https://h", "https://h/v1/messages"),
        (Style::Anthropic, "https://h/v1/", "https://h/v1/messages"),
        (Style::Anthropic, "https://h/v1/messages", "https://h/v1/messages"),
    ];
    for (style, base, url) in table {
        assert_eq!(style.url(base, "m", false), url);
        assert_eq!(style.url(base, "m", true), url);
    }
    assert_eq!(Style::OpenAi.auth_headers("k"), [("authorization", "Bearer k".to_owned())]);
    assert_eq!(Style::OpenAi.auth_headers(""), []);
    let version = ("anthropic-version", "2023-06-01".to_owned());
    assert_eq!(Style::Anthropic.auth_headers("k"), [version.clone(), ("x-api-key", "k".to_owned())]);
    assert_eq!(Style::Anthropic.auth_headers(""), [version]);
}
