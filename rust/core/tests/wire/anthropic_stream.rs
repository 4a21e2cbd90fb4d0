//! Messages, streamed.

use toolrelay_core::reply::{Provider, Reply, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::streamed::{Streamed, asked, events, reply, streamed};
use crate::{messages_of, turn};

const STYLE: Style = Style::Anthropic;
const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":1000,"cache_read_input_tokens":100,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

/// A message with these events between its start and its end.
fn message(between: &[&str], reason: &str) -> Vec<u8> {
    let end = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":5,"input_tokens":0}}}}"#
    );
    events(&[&[START], between, &[&end, STOP]].concat())
}

/// The content that the reply keeps, and the reply.
fn kept(between: &[&str]) -> (String, Reply) {
    let reply = reply(STYLE, &message(between, "tool_use"));
    (reply.provider.clone().map(|provider| provider.raw).unwrap_or_default(), reply)
}

fn start(index: u8, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u8, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn stop(index: u8) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn all(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

#[test]
fn whole_reply_is_read() {
    let list = [
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        r#"{"type": "ping"}"#.to_owned(),
        delta(0, r#"{"type":"thinking_delta","thinking":"h"}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"m"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        stop(0),
        start(1, r#"{"type":"text","text":""}"#),
        delta(1, r#"{"type":"text_delta","text":"so "}"#),
        delta(1, r#"{"type":"text_delta","text":"b\u00e9"}"#),
        stop(1),
        r#"{"type":"unheard_of","index":1}"#.to_owned(),
        start(2, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":""}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{ \"n\""}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":":1.0}"}"#),
        stop(2),
    ];
    let raw = r#"[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"so b\u00e9"},{"type":"tool_use","id":"toolu_1","name":"tally","input":{ "n":1.0}}]"#;
    let expected = Streamed {
        deltas: vec![
            Delta::Reasoning("hm".into()),
            Delta::Text("so bé".into()),
            Delta::CallStarted { index: 0, id: Some("toolu_1".into()), name: "tally".into() },
            Delta::Arguments { index: 0, text: r#"{ "n":1.0}"#.into() },
        ],
        reply: Ok(Reply {
            text: "so bé".into(),
            calls: vec![asked(Some("toolu_1"), "tally", r#"{ "n":1.0}"#)],
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
            provider: Some(Provider { style: STYLE, raw: raw.into(), paused: false }),
        }),
    };
    assert_eq!(streamed(STYLE, &message(&all(&list), "tool_use")), expected);
}

/// Faults D12 and D13: the input at the start, in pieces, or both; what goes back holds no deltas.
#[test]
fn d12_d13_input_is_put_together_once() {
    let table: [(&str, &[&str], &str); 5] = [
        (r#"{"n":1}"#, &[], r#"{"n":1}"#),
        ("{}", &["", r#"{\"n\""#, ":1}"], r#"{"n":1}"#),
        ("{}", &[], "{}"),
        ("{}", &[""], "{}"),
        (r#"{"n":1}"#, &[r#"{\"n\":1}"#], r#"{"n":1}"#),
    ];
    for (input, pieces, expected) in table {
        let mut list =
            vec![start(0, &format!(r#"{{"type":"tool_use","id":"toolu_1","name":"tally","input":{input}}}"#))];
        list.extend(
            pieces.iter().map(|piece| delta(0, &format!(r#"{{"type":"input_json_delta","partial_json":"{piece}"}}"#))),
        );
        for end in [vec![stop(0)], vec![]] {
            let list = [list.clone(), end].concat();
            let (_, reply) = kept(&all(&list));
            assert_eq!(reply.calls, [asked(Some("toolu_1"), "tally", expected)]);
            let sent = String::from_utf8(messages_of(STYLE, &turn(&reply, &["toolu_1"]))).unwrap();
            let block = format!(r#"[{{"type":"tool_use","id":"toolu_1","name":"tally","input":{expected}}}]"#);
            assert!(sent.contains(&block), "{sent}");
        }
    }
}

/// Fault D24, and a call that was cut by the output limit.
#[test]
fn d24_broken_input_is_the_text_of_the_call() {
    for (piece, text) in [(r#"{\"n\":11}}"#, r#"{"n":11}}"#), (r#"{\"n\":"#, r#"{"n":"#)] {
        let list = [
            start(0, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}"#),
            delta(0, &format!(r#"{{"type":"input_json_delta","partial_json":"{piece}"}}"#)),
            stop(0),
        ];
        let (_, reply) = kept(&all(&list));
        assert_eq!(reply.calls, [asked(Some("toolu_1"), "tally", text)]);
        let sent = String::from_utf8(messages_of(STYLE, &turn(&reply, &["toolu_1"]))).unwrap();
        assert!(sent.contains(r#"[{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}]"#), "{sent}");
    }
}

/// Faults F1 to F3: every block as it was, at its own place.
#[test]
fn f1_f2_f3_thinking_is_kept() {
    let list = [
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        start(1, r#"{"type":"redacted_thinking","data":"q0=="}"#),
        start(2, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(2, r#"{"type":"thinking_delta","thinking":" then b "}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"first a"}"#),
        delta(2, r#"{"type":"signature_delta","signature":"c2lnMg=="}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        start(3, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(3, r#"{"type":"signature_delta","signature":"c2lnMw=="}"#),
        start(4, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}"#),
    ];
    let blocks = concat!(
        r#"[{"type":"thinking","thinking":"first a","signature":"c2ln"},{"type":"redacted_thinking","data":"q0=="},"#,
        r#"{"type":"thinking","thinking":" then b ","signature":"c2lnMg=="},{"type":"thinking","thinking":"","signature":"c2lnMw=="},"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}]"#,
    );
    let (raw, reply) = kept(&all(&list));
    assert_eq!(raw, blocks);
    let sent = String::from_utf8(messages_of(STYLE, &turn(&reply, &["toolu_1"]))).unwrap();
    assert!(sent.contains(blocks), "{sent}");
}

/// Contract 8.2: citations, the provider's own tools, block and delta types of tomorrow.
#[test]
fn unknown_blocks_and_deltas_are_kept() {
    let list = [
        start(0, r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"{\"query\":"}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"\"tide\"}"}"#),
        start(
            1,
            r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type": "web_search_result", "encrypted_content":"q0"}]}"#,
        ),
        start(2, r#"{"type":"text","text":"","citations":[]}"#),
        delta(2, r#"{"type":"citations_delta","citation":{"type":"page_location", "cited_text":"a"}}"#),
        delta(2, r#"{"type":"text_delta","text":"x"}"#),
        delta(2, r#"{"type":"citations_delta","citation":{"type":"page_location", "cited_text":"a"}}"#),
        start(3, r#"{"type":"text","text":"y"}"#),
        delta(3, r#"{"type":"citations_delta","citation":1}"#),
        start(4, r#"{"type":"compaction","content":null}"#),
        delta(4, r#"{"type":"compaction_delta","content":"so far"}"#),
        start(5, r#"{"type":"dream","pictures":[1]}"#),
        delta(5, r#"{"type":"dream_delta","pictures":[{"a":1}],"mood":"b"}"#),
        delta(5, r#"{"type":"dream_delta","mood":"lue"}"#),
    ];
    let blocks = concat!(
        r#"[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"tide"}},"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type": "web_search_result", "encrypted_content":"q0"}]},"#,
        r#"{"type":"text","text":"x","citations":[{"type":"page_location", "cited_text":"a"},{"type":"page_location", "cited_text":"a"}]},"#,
        r#"{"type":"text","text":"y","citations":[1]},{"type":"compaction","content":"so far"},"#,
        r#"{"type":"dream","pictures":[1,{"a":1}],"mood":"blue"}]"#,
    );
    let (raw, reply) = kept(&all(&list));
    assert_eq!((raw.as_str(), reply.text.as_str(), reply.calls.len()), (blocks, "xy", 0));
}

/// Fault D19: complete with its stop reason, even where the last event is missing.
#[test]
fn d19_reply_without_a_stop_reason_was_cut() {
    let call = start(0, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{"n":1}}"#);
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#;
    let cut = streamed(STYLE, &events(&[START, &call, &stop(0)])).reply.unwrap_err();
    assert_eq!((cut.kind, cut.is_retryable()), (FailureKind::Connection, true));
    for ends in [&[end][..], &[STOP], &[end, "[DONE]"]] {
        let body = events(&[&[START, &call, &stop(0)], ends].concat());
        assert_eq!(reply(STYLE, &body).calls, [asked(Some("toolu_1"), "tally", r#"{"n":1}"#)]);
    }
    let empty = r#"{"type":"message_delta","delta":{"stop_reason":null}}"#;
    assert_eq!(streamed(STYLE, &events(&[START, &call, empty])).reply.unwrap_err(), cut);
}

/// Fault D20.
#[test]
fn d20_error_events_are_failures() {
    let text = [start(0, r#"{"type":"text","text":""}"#), delta(0, r#"{"type":"text_delta","text":"half"}"#)];
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let mut body = events(&[&[START], &all(&text)[..]].concat());
    body.extend_from_slice(format!("event: error\ndata: {error}\n\n").as_bytes());
    let Streamed { deltas, reply } = streamed(STYLE, &body);
    let failure = reply.unwrap_err();
    assert_eq!(
        (failure.kind, failure.message.as_str(), failure.is_retryable()),
        (FailureKind::Overloaded, "busy", true)
    );
    assert_eq!(deltas, [Delta::Text("half".into())]);
    assert_eq!(streamed(STYLE, &events(&[START, error])).reply.unwrap_err(), failure);
}

/// Faults E3 to E5, E9.
#[test]
fn e_stop_reasons_are_read() {
    let table = [
        ("end_turn", Stop::End),
        ("tool_use", Stop::Calls),
        ("max_tokens", Stop::Length),
        ("refusal", Stop::Refused),
        ("pause_turn", Stop::Paused),
        ("model_context_window_exceeded", Stop::ContextOverflow),
        ("tide", Stop::Other("tide".into())),
    ];
    for (reason, stop) in table {
        let reply = reply(STYLE, &message(&[&start(0, r#"{"type":"text","text":"x"}"#)], reason));
        assert_eq!(reply.stop, stop);
        assert_eq!(reply.provider.is_some(), reason == "pause_turn");
    }
}

#[test]
fn events_about_unknown_blocks_are_failures() {
    let list = [start(0, r#"{"type":"text","text":"x"}"#), delta(1, r#"{"type":"text_delta","text":"y"}"#)];
    let failure = streamed(STYLE, &message(&all(&list), "end_turn")).reply.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Malformed);
    for event in [r#"{"type":"content_block_start","index":0}"#, r#"{"type":"content_block_delta","delta":{}}"#] {
        assert_eq!(streamed(STYLE, &message(&[event], "end_turn")).reply.unwrap_err().kind, FailureKind::Malformed);
    }
}

/// Some gateways give every block the same index, or none.
#[test]
fn blocks_with_one_index_are_told_apart() {
    let list = [
        start(0, r#"{"type":"text","text":""}"#),
        delta(0, r#"{"type":"text_delta","text":"x"}"#),
        start(0, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}"#),
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}"#.to_owned(),
    ];
    let (_, reply) = kept(&all(&list));
    assert_eq!((reply.text.as_str(), reply.calls), ("x", vec![asked(Some("toolu_1"), "tally", "{}")]));
}

#[test]
fn event_name_stands_in_for_the_type() {
    let body = concat!(
        "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\n",
        "event: message_stop\ndata: {}\n\n",
    );
    assert_eq!(reply(STYLE, body.as_bytes()).text, "x");
}

/// Contract 8.7: halves of a character in two events are one, lone ones are mended.
#[test]
fn split_surrogates_are_one_character() {
    let list = [
        start(0, r#"{"type":"text","text":"\ud83d"}"#),
        delta(0, r#"{"type":"text_delta","text":"\ude00\ud83d"}"#),
        stop(0),
        start(1, r#"{"type":"text","text":"\ude00"}"#),
        start(2, r#"{"type":"tool_use","id":"toolu_1","name":"tally","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"\ude00\\ud83d"}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"\\ude00\"}"}"#),
    ];
    let (_, reply) = kept(&all(&list));
    assert_eq!(
        (reply.text.as_str(), reply.calls[0].arguments.as_str()),
        ("😀\u{fffd}\u{fffd}", r#"{"a":"😀\ud83d\ude00"}"#)
    );
}
