//! Messages, encoded and decoded.

use serde_json::{Value, json};
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::wire::{Style, WireError};

use crate::{body_of, call, head, history, joined, messages_of, parts, prefix, read, sent, tool_spec};

const STYLE: Style = Style::Anthropic;

#[test]
fn head_comes_first_in_stable_order() {
    let tools = [tool_spec("tally", "Counts.", r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#)];
    let params = [
        ("tools".to_owned(), parts(r#"[{"type":"web_search_20250305","name":"web_search"}]"#)),
        ("temperature".to_owned(), parts("0.5")),
    ];
    let body = body_of(STYLE, &head(Some("be brief"), &tools, &params), &[Message::user("hi")]);
    let expected = concat!(
        r#"{"model":"m","tools":[{"name":"tally","description":"Counts.","#,
        r#""input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}},"#,
        r#"{"type":"web_search_20250305","name":"web_search"}],"max_tokens":8192,"temperature":0.5,"#,
        r#""system":[{"type":"text","text":"be brief"}],"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn parameters_win_over_defaults() {
    let blocks = r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]"#;
    let table = [
        (("max_tokens", "5"), json!({"model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "s"}]})),
        (("max_tokens", "null"), json!({"model": "m", "max_tokens": 8192, "system": [{"type": "text", "text": "s"}]})),
        (("system", "\"b\""), json!({"model": "m", "max_tokens": 8192, "system": [{"type": "text", "text": "b"}]})),
        (("system", "\"\""), json!({"model": "m", "max_tokens": 8192})),
        (("system", blocks), json!({"model": "m", "max_tokens": 8192, "system": read(blocks.as_bytes())})),
        (("model", "\"n\""), json!({"model": "n", "max_tokens": 8192, "system": [{"type": "text", "text": "s"}]})),
    ];
    for ((key, value), expected) in table {
        let params = [(key.to_owned(), parts("1")), (key.to_owned(), parts(value))];
        let mut body = read(&body_of(STYLE, &head(Some("s"), &[], &params), &[Message::user("hi")]));
        body.as_object_mut().unwrap().remove("messages");
        assert_eq!(body, expected);
    }
    let params = [("system".to_owned(), parts("5"))];
    let expected = WireError::Parameter { key: "system".to_owned(), expected: "text or a list of blocks" };
    assert_eq!(STYLE.head(&head(None, &[], &params)), Err(expected));
}

#[test]
fn system_messages_join_the_system_blocks_or_the_user() {
    let messages = [
        Message::system("one"),
        Message::system(""),
        Message::user("hi"),
        Message::assistant_reply("ho", vec![], None),
        Message::system("late"),
        Message::user("go"),
    ];
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
        {"role": "user", "content": [{"type": "text", "text": "late"}, {"type": "text", "text": "go"}]},
    ]);
    for (prompt, system) in [
        (None, json!([{"type": "text", "text": "one"}])),
        (Some("zero"), json!([{"type": "text", "text": "zero"}, {"type": "text", "text": "one"}])),
    ] {
        let body = read(&body_of(STYLE, &head(prompt, &[], &[]), &messages));
        assert_eq!((&body["system"], &body["messages"]), (&system, &expected));
    }
}

/// Faults A8, A7, A6: one user message holds the results in call order, then what the user says.
#[test]
fn results_of_a_turn_are_one_user_message() {
    let failed = ToolOutput::failed(Outcome::Declined, "no");
    let messages = [
        Message::user("hi"),
        Message::assistant_reply("so", vec![call("k1", "tally", r#"{"n": 1}"#), call("k2", "tally", "")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text("7")),
        Message::tool_result(&CallId::new("k2"), &failed),
        Message::user("hurry"),
        Message::user("please"),
    ];
    assert_eq!(
        read(&messages_of(STYLE, &messages)),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "k1", "name": "tally", "input": {"n": 1}},
                {"type": "tool_use", "id": "k2", "name": "tally", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "k1", "content": "7"},
                {"type": "tool_result", "tool_use_id": "k2", "content": "no", "is_error": true},
                {"type": "text", "text": "hurry"},
                {"type": "text", "text": "please"},
            ]},
        ])
    );
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
    for (arguments, expected) in
        [(r#"{"path": "a.tx"#, json!({})), ("5", json!({})), (r#""{\"n\":1}""#, json!({"n": 1}))]
    {
        let reply = Message::assistant_reply("", vec![call("k1", "tally", arguments)], None);
        let result = Message::tool_result(&CallId::new("k1"), &ToolOutput::failed(Outcome::Error, "bad"));
        let shown = read(&messages_of(STYLE, &[Message::user("x"), reply, result]));
        assert_eq!(shown[1]["content"][0]["input"], expected);
    }
}

/// Faults B1, B2.
#[test]
fn foreign_ids_are_mapped_alike_for_call_and_result() {
    let calls = vec![call("functions.moor:0", "moor", "{}"), call("functions_moor_0", "moor", "{}")];
    let mut messages = vec![Message::user("x"), Message::assistant_reply("", calls.clone(), None)];
    messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("ok"))));
    let shown = read(&messages_of(STYLE, &messages));
    let ids = |message: usize, key: &str| -> Vec<Value> {
        shown[message]["content"].as_array().unwrap().iter().map(|block| block[key].clone()).collect()
    };
    assert_eq!(ids(1, "id"), ids(2, "tool_use_id"));
    assert_ne!(ids(1, "id")[0], ids(1, "id")[1]);
}

/// Faults C13, E7: what says nothing is left out, or is a documented text in a result.
#[test]
fn empty_text_is_left_out() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":""}]},
            {"role":"user","content":"still there?"},
            {"role":"assistant","content":" \n","tool_calls":[{"id":"k1","type":"function","function":{"name":"ring","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":""},
            {"role":"user","content":[{"type":"text","text":"  "},{"type":"text","text":" x"}]}]"#,
    );
    assert_eq!(
        shown,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "still there?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "k1", "name": "ring", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "k1", "content": "(no output)"}, {"type": "text", "text": " x"}]},
        ])
    );
    assert_eq!(prefix(STYLE).body(&[Message::user(" ")]), Err(WireError::Empty));
    let ends = [Message::user("x"), Message::assistant_reply("y", vec![], None), Message::user("")];
    assert_eq!(prefix(STYLE).body(&ends), Err(WireError::EndsWithAssistant));
}

/// Fault A10, in this shape: the first message must be the user's.
#[test]
fn history_that_begins_with_the_model_gets_a_note() {
    let shown = sent(STYLE, r#"[{"role":"assistant","content":"ho"},{"role":"user","content":"hi"}]"#);
    assert_eq!(
        shown[0],
        json!({"role": "user", "content": [{"type": "text", "text": "[earlier messages are left out]"}]})
    );
    assert_eq!(shown[1]["role"], "assistant");
}

/// Fault F10: images in the result, but text only when it failed.
#[test]
fn images_of_results_stay_in_the_result() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#;
    let output =
        |outcome, text: &str| ToolOutput { parts: Some(parts(&format!("[{image}]"))), outcome, text: text.into() };
    let calls = vec![call("k1", "snap", "{}"), call("k2", "snap", "{}"), call("k3", "snap", "{}")];
    let messages = [
        Message::user("x"),
        Message::assistant_reply("", calls, None),
        Message::tool_result(&CallId::new("k1"), &output(Outcome::Ok, "chart")),
        Message::tool_result(&CallId::new("k2"), &output(Outcome::Error, "torn")),
        Message::tool_result(&CallId::new("k3"), &output(Outcome::Ok, "")),
    ];
    let block =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    assert_eq!(
        read(&messages_of(STYLE, &messages))[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "k1", "content": [{"type": "text", "text": "chart"}, block]},
            {"type": "tool_result", "tool_use_id": "k2", "is_error": true, "content": [
                {"type": "text", "text": "torn"},
                {"type": "text", "text": "[attachments are left out: a failed result takes text only]"}]},
            {"type": "tool_result", "tool_use_id": "k3", "content": [block]},
        ])
    );
}

#[test]
fn parts_of_a_prompt_become_blocks() {
    let message = Message::user_parts(&parts(
        r#"[{"type":"text","text":"look", "cache_control":{"type":"ephemeral"}},
            {"type":"image_url","image_url":{"url":"https://h/a.png","detail":"low"}},
            {"type":"image_url","image_url":"data:image\/png;base64,iVBORw0KGgo="},
            {"type":"file","file":{"filename":"tide.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},
            {"type":"file","file":{"file_data":"data:text/csv;base64,YSxi"}},
            {"type":"file","file":{"file_id":"file_1"}},
            {"type":"input_audio","input_audio":{"data":"x","format":"wav"}},
            {"type":"video_note","n": 1.0}]"#,
    ));
    let body = messages_of(STYLE, &[message]);
    assert!(String::from_utf8_lossy(&body).contains(r#"{"type":"video_note","n": 1.0}"#));
    assert_eq!(
        read(&body)[0]["content"],
        json!([
            {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}, "title": "tide.pdf"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "text", "text": "[audio is left out: this provider takes none]"},
            {"type": "video_note", "n": 1.0},
        ])
    );
}

/// Fault J9: the tools of the history are declared, and none of them may be called.
#[test]
fn tools_of_the_history_are_declared_when_there_are_no_others() {
    let messages = history(
        r#"[{"role":"user","content":"x"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}},
                {"id":"k2","type":"function","function":{"name":"dock.moor","arguments":"{}"}},
                {"id":"k3","type":"function","function":{"name":"tally","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":"7"},{"role":"tool","tool_call_id":"k2","content":"7"},
            {"role":"tool","tool_call_id":"k3","content":"7"}]"#,
    );
    let params = [("tool_choice".to_owned(), parts(r#"{"type":"any"}"#))];
    let body = read(&body_of(STYLE, &head(Some("s"), &[], &params), &messages));
    let mapped = &body["messages"][1]["content"][1]["name"];
    let schema = json!({"type": "object", "properties": {}});
    assert_eq!(
        body["tools"],
        json!([{"name": "tally", "input_schema": schema}, {"name": mapped, "input_schema": schema}])
    );
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let tools = [tool_spec("ring", "", "{}")];
    let body = read(&body_of(STYLE, &head(None, &tools, &params), &messages));
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["tool_choice"]), (1, &json!({"type": "any"})));
}

/// Contract 8.3: blocks of another provider, or ones that no longer fit the calls, are left out.
#[test]
fn foreign_blocks_are_left_out() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"x"},
            {"role":"assistant","content":"so","reasoning_content":"hm","tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":"7"},
            {"role":"assistant","content":"so","toolrelay":{"provider":{"style":"anthropic","raw":"[{\"type\":\"tool_use\",\"id\":\"k9\",\"name\":\"tally\",\"input\":{}}]"}}},
            {"role":"assistant","content":[{"type":"text","text":"and"},{"type":"refusal","refusal":"no"}]},
            {"role":"user","content":"y"}]"#,
    );
    assert_eq!(
        shown[1]["content"],
        json!([{"type": "text", "text": "so"}, {"type": "tool_use", "id": "k1", "name": "tally", "input": {}}])
    );
    assert_eq!(
        shown[3]["content"],
        json!([{"type": "text", "text": "so"}, {"type": "text", "text": "and"}, {"type": "text", "text": "no"}])
    );
}
