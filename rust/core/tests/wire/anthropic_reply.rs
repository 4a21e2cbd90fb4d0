//! Messages, decoded, and what goes back of a reply.

use toolrelay_core::message::Message;
use toolrelay_core::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::{Style, WireError};

use crate::{history, messages_of, prefix, turn};

const STYLE: Style = Style::Anthropic;

fn decode(content: &str, reason: &str) -> Reply {
    let body = format!(r#"{{"type":"message","role":"assistant","content":{content},"stop_reason":{reason}}}"#);
    STYLE.decode(body.as_bytes()).unwrap()
}

#[test]
fn whole_reply_is_read() {
    let content = r#"[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"so "},{"type":"text","text":"be it"},
        {"type":"tool_use","id":"toolu_1","name":"tally","input":{ "n":1.0, "n2": 12345678901234567890123 }}]"#;
    let body = format!(
        r#"{{"model":"m-1","content":{content},"stop_reason":"tool_use","usage":{{"input_tokens":10,"output_tokens":5,
            "cache_read_input_tokens":100,"cache_creation_input_tokens":1000,"cache_creation":null}}}}"#
    );
    let expected = Reply {
        text: "so be it".into(),
        calls: vec![ReplyCall {
            id: Some("toolu_1".into()),
            name: "tally".into(),
            arguments: r#"{ "n":1.0, "n2": 12345678901234567890123 }"#.into(),
        }],
        reasoned: true,
        stop: Stop::Calls,
        usage: Usage {
            input_tokens: 1110,
            output_tokens: 5,
            cached_tokens: 100,
            cache_write_tokens: 1000,
            reasoning_tokens: 0,
        },
        model: Some("m-1".into()),
        provider: Some(Provider { style: STYLE, raw: content.into(), paused: false }),
    };
    assert_eq!(STYLE.decode(body.as_bytes()).unwrap(), expected);
}

/// Faults E3 to E5, E9.
#[test]
fn stop_reasons_are_read() {
    let table = [
        ("\"end_turn\"", Stop::End),
        ("\"stop_sequence\"", Stop::End),
        ("\"tool_use\"", Stop::Calls),
        ("\"max_tokens\"", Stop::Length),
        ("\"refusal\"", Stop::Refused),
        ("\"pause_turn\"", Stop::Paused),
        ("\"model_context_window_exceeded\"", Stop::ContextOverflow),
        ("\"\"", Stop::End),
        ("null", Stop::End),
        ("\"tide\"", Stop::Other("tide".into())),
    ];
    for (reason, stop) in table {
        assert_eq!(decode(r#"[{"type":"text","text":"x"}]"#, reason).stop, stop);
    }
}

#[test]
fn empty_reply_is_a_reply() {
    let reply = decode("[]", "\"end_turn\"");
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.reasoned), ("", 0, false));
}

/// Fault G2.
#[test]
fn error_in_a_success_is_a_failure() {
    let overloaded =
        STYLE.decode(br#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#).unwrap_err();
    assert_eq!((overloaded.kind, overloaded.message.as_str()), (FailureKind::Overloaded, "busy"));
    for body in [r#"{"type":"message"}"#, r#"{"content":null}"#, r#"{"content":"x"}"#, "{", "[]"] {
        assert_eq!(STYLE.decode(body.as_bytes()).unwrap_err().kind, FailureKind::Malformed, "{body}");
    }
}

/// Contract 8.2, faults F1 and F3: the blocks go back as they came.
#[test]
fn blocks_go_back_byte_for_byte() {
    let contents = [
        r#"[{"type":"thinking","thinking":"first a ","signature":"c2ln"},{"type":"text","text":"x"},{"type":"thinking","thinking":"","signature":"c2lnMg=="},{"type":"tool_use","id":"k1","name":"tally","input":{}}]"#,
        r#"[{"type":"redacted_thinking","data":"ZW5j"}, {"type":"tool_use","id":"k1","name":"tally","input":{"b":1.0,"a":1e2}}]"#,
        r#"[{"type":"text","text":"x","citations":[{"cited_text":"caf\u00e9"}]},{"type":"mystery","b":[],"a":null}]"#,
        r#"[{"type":"text","text":"plain"},{"type":"tool_use","id":"k1","name":"tally","input":{ }}]"#,
    ];
    for content in contents {
        let messages = turn(&decode(content, "\"tool_use\""), &["k1"]);
        let body = String::from_utf8(messages_of(STYLE, &messages)).unwrap();
        assert!(body.contains(&format!(r#"{{"role":"assistant","content":{content}}}"#)), "{body}");
    }
}

/// What the canonical message gives back by itself is not kept twice.
#[test]
fn plain_reply_keeps_no_blocks() {
    for content in [
        r#"[{"type":"text","text":"caf\"é\""}]"#,
        r#"[{"type":"text","text":"x"},{"type":"tool_use","id":"k1","name":"tally","input":{ "n":1}},{"type":"tool_use","id":"k2","name":"tally","input":{}}]"#,
        "[]",
    ] {
        assert_eq!(decode(content, "\"end_turn\"").provider, None, "{content}");
    }
}

/// Faults B4, B5: an id that was minted anew is changed in its own block and nowhere else.
#[test]
fn only_minted_ids_are_changed() {
    let thinking = r#"{"type":"thinking", "thinking":"hm","signature":"c2ln"}"#;
    let content = format!(
        r#"[{thinking},{{ "id" : "k1","type":"tool_use","name":"tally","input":{{ "n":1 }}}},{{"type":"tool_use", "name":"tally","id":"k1","input":{{}}}},{{"type":"tool_use","name":"tally","input":{{}}}},{{"type":"text","text":"\n"}}]"#
    );
    let reply = decode(&content, "\"tool_use\"");
    assert_eq!(reply.calls[2].id, None);
    let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &["k1", "call_b", "call_c"]))).unwrap();
    let expected = format!(
        r#"[{thinking},{{ "id" : "k1","type":"tool_use","name":"tally","input":{{ "n":1 }}}},{{"type":"tool_use", "name":"tally","id":"call_b","input":{{}}}},{{"id":"call_c","type":"tool_use","name":"tally","input":{{}}}}]"#
    );
    assert!(body.contains(&expected), "{body}");
}

/// Fault E4: a paused turn goes back as it is, and may be the last message; another may not.
#[test]
fn paused_turn_goes_back_as_it_is() {
    let content = r#"[{"type":"text","text":"looking"}, {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"tide"}}]"#;
    let reply = decode(content, "\"pause_turn\"");
    let messages = [Message::user("x"), Message::assistant_reply(&reply.text, vec![], reply.provider.clone())];
    let body = String::from_utf8(messages_of(STYLE, &messages)).unwrap();
    assert!(body.ends_with(&format!(r#"{{"role":"assistant","content":{content}}}]"#)), "{body}");
    let again = history(&format!("[{}]", String::from_utf8_lossy(messages[1].json())));
    assert_eq!(messages_of(STYLE, &[messages[0].clone(), again[0].clone()]), body.into_bytes());
    assert_eq!(prefix(Style::OpenAi).body(&messages), Err(WireError::EndsWithAssistant));
    let plain = decode(content, "\"end_turn\"");
    let ended = [Message::user("x"), Message::assistant_reply(&plain.text, vec![], plain.provider)];
    assert_eq!(prefix(STYLE).body(&ended), Err(WireError::EndsWithAssistant));
}
