//! Chat Completions, decoded, and what goes back of a reply.

use toolrelay_core::reply::{Reply, ReplyCall, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;

use crate::streamed::{events, streamed};
use crate::{messages_of, turn};

const STYLE: Style = Style::OpenAi;

fn decode(message: &str, reason: &str) -> Reply {
    let body = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":{reason}}}]}}"#);
    STYLE.decode(body.as_bytes()).unwrap()
}

#[test]
fn whole_reply_is_read() {
    let body = r#"{"id":"x","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,
        "annotations":[],"tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{ \"n\":1.0}"}}]},
        "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,
        "prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}"#;
    let reply = STYLE.decode(body.as_bytes()).unwrap();
    let expected = Reply {
        text: String::new(),
        calls: vec![ReplyCall { id: Some("k1".into()), name: "tally".into(), arguments: r#"{ "n":1.0}"#.into() }],
        reasoned: false,
        stop: Stop::Calls,
        usage: Usage {
            input_tokens: 10,
            output_tokens: 5,
            cached_tokens: 4,
            cache_write_tokens: 0,
            reasoning_tokens: 2,
        },
        model: Some("m-1".into()),
        provider: None,
    };
    assert_eq!(reply, expected);
}

/// Fault B4: three calls without an id, none of them lost.
#[test]
fn empty_ids_are_absent() {
    let reply = decode(
        r#"{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"tally","arguments":"{}"}},
            {"index":1,"id":null,"type":"function","function":{"name":"tally","arguments":"{}"}},
            {"index":2,"type":"function","function":{"name":"tally","arguments":"{}"}}]}"#,
        "\"stop\"",
    );
    let ids: Vec<_> = reply.calls.iter().map(|call| call.id.as_deref()).collect();
    assert_eq!((ids, reply.provider), (vec![None, None, None], None));
}

/// Faults E1 to E3, E5, E6, E9: the word is read, the calls are kept whatever it is.
#[test]
fn finish_reasons_are_read() {
    let with_call =
        r#"{"content":"","tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}}]}"#;
    let table = [
        (with_call, "\"stop\"", Stop::End, 1),
        (with_call, "\"tool_calls\"", Stop::Calls, 1),
        (with_call, "\"length\"", Stop::Length, 1),
        (with_call, "\"content_filter\"", Stop::Filtered, 1),
        (with_call, "\"\"", Stop::End, 1),
        (with_call, "null", Stop::End, 1),
        (with_call, "7", Stop::End, 1),
        (r#"{"content":"all set","tool_calls":[]}"#, "\"tool_calls\"", Stop::Calls, 0),
        (r#"{"content":"x"}"#, "\"STOP\"", Stop::End, 0),
        (r#"{"content":"x"}"#, "\"model_context_window_exceeded\"", Stop::ContextOverflow, 0),
        (with_call, "\"model_length\"", Stop::ContextOverflow, 1),
        (with_call, "\"function_call_filter: MALFORMED_FUNCTION_CALL\"", Stop::Malformed, 1),
        (r#"{"content":"x"}"#, "\"content_filter: RECITATION\"", Stop::Filtered, 0),
        (with_call, "\"sensitive\"", Stop::Filtered, 1),
        (with_call, "\"Tide\"", Stop::Other("Tide".into()), 1),
    ];
    for (message, reason, stop, calls) in table {
        let reply = decode(message, reason);
        assert_eq!((reply.stop, reply.calls.len()), (stop, calls), "{reason}");
    }
}

/// Fault E5.
#[test]
fn refusal_is_the_text() {
    for message in [
        r#"{"role":"assistant","content":"","refusal":"cannot do that"}"#,
        r#"{"role":"assistant","content":[{"type":"refusal","refusal":"cannot do that"}]}"#,
    ] {
        let reply = decode(message, "\"stop\"");
        assert_eq!((reply.text.as_str(), reply.stop), ("cannot do that", Stop::Refused));
    }
}

/// Fault E5: what stood beside the refusal is kept, and so are its words.
#[test]
fn words_of_a_refusal_stand_behind_the_text() {
    for message in [
        r#"{"role":"assistant","refusal":"No.","content":"Well. "}"#,
        r#"{"role":"assistant","content":[{"type":"refusal","refusal":"No."},{"type":"text","text":"Well. "}]}"#,
    ] {
        let reply = decode(message, "\"stop\"");
        assert_eq!((reply.text.as_str(), reply.stop), ("Well. No.", Stop::Refused));
    }
}

/// Fault C5, and servers that leave out the function, the type or the whole new form.
#[test]
fn odd_calls_are_read() {
    let table = [
        (
            r#"{"tool_calls":[{"id":"k1","function":{"name":"tally","arguments":{"n": 1.0}}}]}"#,
            Some("k1"),
            r#"{"n": 1.0}"#,
        ),
        (r#"{"tool_calls":[{"id":"k1","function":{"name":"tally","arguments":null}}]}"#, Some("k1"), ""),
        (r#"{"tool_calls":[{"id":"k1","function":{"name":"tally"}}]}"#, Some("k1"), ""),
        (r#"{"tool_calls":[{"id":"k1","name":"tally","arguments":"{}"}]}"#, Some("k1"), "{}"),
        (r#"{"function_call":{"name":"tally","arguments":"{\"n\":1}"}}"#, None, r#"{"n":1}"#),
    ];
    for (message, id, arguments) in table {
        let reply = decode(message, "\"stop\"");
        let expected = ReplyCall { id: id.map(Into::into), name: "tally".into(), arguments: arguments.into() };
        assert_eq!(reply.calls, [expected]);
    }
}

/// Fault G2: a success that is an error.
#[test]
fn error_in_a_success_is_a_failure() {
    let table = [
        (r#"{"error":{"message":"upstream down","code":502}}"#, "upstream down"),
        (r#"{"choices":[{"index":0,"message":null,"error":{"message":"upstream down","code":502}}]}"#, "upstream down"),
        (r#"{"id":"x","choices":null}"#, "the reply holds no choice"),
        (r#"{"id":"x","choices":[]}"#, "the reply holds no choice"),
        (r#"{"id":"x"}"#, "the reply holds no choice"),
        (r#"{"choices":[{"message":null}]}"#, "the choice holds no message"),
        (r#"[[{"message":{}}]]"#, "the reply is a list, not an object"),
        ("<html>", "the reply cannot be read: Syntax error at line 1 column 1"),
        ("\u{feff}{\"choices\":[]}", "the reply holds no choice"),
    ];
    for (body, message) in table {
        assert_eq!(STYLE.decode(body.as_bytes()).unwrap_err().message, message);
    }
    assert_eq!(STYLE.decode(b"\xff").unwrap_err().kind, FailureKind::Malformed);
}

/// A reply that the server broke off may be asked for again, and no call of it runs.
#[test]
fn broken_off_reply_is_a_failure() {
    for word in ["error", "abort", "aborted", "insufficient_system_resource", "network_error"] {
        let message = r#"{"tool_calls":[{"id":"k1","function":{"name":"tally","arguments":"{}"}}]}"#;
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"{word}"}}]}}"#);
        let failure = STYLE.decode(body.as_bytes()).unwrap_err();
        let chunk = body.replace("message", "delta");
        assert_eq!(streamed(STYLE, &events(&[chunk])).reply, Err(failure.clone()));
        assert_eq!((failure.kind, failure.error_type.as_deref()), (FailureKind::Server, Some(word)));
    }
}

#[test]
fn cached_tokens_are_found_where_servers_put_them() {
    for usage in [
        r#"{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4},"cached_tokens":5}"#,
        r#"{"prompt_tokens":9,"prompt_tokens_details":null,"prompt_cache_hit_tokens":4}"#,
        r#"{"prompt_tokens":9,"cached_tokens":4}"#,
    ] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"x"}}}}],"usage":{usage}}}"#);
        let expected = Usage { input_tokens: 9, cached_tokens: 4, ..Usage::default() };
        assert_eq!(STYLE.decode(body.as_bytes()).unwrap().usage, expected);
    }
}

/// Fault C6, C7: escapes that poison later requests are mended, also inside argument text.
#[test]
fn lone_surrogates_and_nul_are_mended() {
    let reply = decode(r#"{"content":"a\ud83d b\u0000c \\u0000","tool_calls":[]}"#, "\"stop\"");
    assert_eq!(reply.text, "a\u{fffd} b\u{fffd}c \\u0000");
}

/// Contract 8.2, faults F11 and F6: what nobody here knows goes back as it came.
#[test]
fn unknown_fields_go_back_unchanged() {
    let messages = [
        r#"{"role":"assistant","content":"",  "reasoning_content":"", "tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"extra_content":{"google":{"thought_signature":"c2ln"}},"id":"k1","type":"function","function":{"arguments":"{}","name":"tally"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"}]}"#,
        r#"{"role":"assistant","content":"x","mystery":{"b": 1.0,"a":[]}}"#,
    ];
    for message in messages {
        let reply = decode(message, "\"stop\"");
        let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &["k1"]))).unwrap();
        assert!(body.contains(message), "{body}");
    }
}

#[test]
fn reasoning_is_noticed() {
    for (message, reasoned) in [
        (r#"{"content":"x","reasoning_content":"hm"}"#, true),
        (r#"{"content":"x","reasoning":"hm"}"#, true),
        (r#"{"content":"x","reasoning_content":""}"#, false),
        (r#"{"content":"x","reasoning":null}"#, false),
    ] {
        assert_eq!(decode(message, "\"stop\"").reasoned, reasoned);
    }
}

/// The provider's own message is changed only where it must be.
#[test]
fn own_message_is_changed_only_where_it_must_be() {
    let reply = decode(
        r#"{"role":"assistant","content":null,"refusal":null,"annotations":[ ],"audio":null,"function_call":null,"mystery": {"b":1.0},
            "tool_calls":[{"id":"","index":0,"type":"function","function":{"name":"tally","arguments":"{\"n\":","strict":true}},
            {"id":"k2","type":"function","x": 1.0,"function":{"name":"tally","arguments":"{}"}}]}"#,
        "\"stop\"",
    );
    let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &["call_new", "k2"]))).unwrap();
    let expected = concat!(
        r#"{"role":"assistant","content":null,"mystery":{"b":1.0},"tool_calls":["#,
        r#"{"id":"call_new","type":"function","function":{"name":"tally","arguments":"{}","strict":true},"index":0},"#,
        r#"{"id":"k2","type":"function","x": 1.0,"function":{"name":"tally","arguments":"{}"}}]}"#
    );
    assert!(body.contains(expected), "{body}");
}

#[test]
fn minted_id_alone_is_changed() {
    let message = |id: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"mystery":1.0,"tool_calls":[{{"id":{id},"type":"function","function":{{"name":"tally","arguments":"{{}}"}}}}]}}"#
        )
    };
    let reply = decode(&message("\"\""), "\"stop\"");
    let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &["call_new"]))).unwrap();
    assert!(body.contains(&message("\"call_new\"")), "{body}");
}
