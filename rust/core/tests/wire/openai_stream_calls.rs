//! The calls of a streamed Chat Completions reply: which piece belongs to which.

use toolrelay_core::reply::ReplyCall;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::openai_stream::deltas;
use crate::streamed::{Streamed, asked, reply, streamed};

const STYLE: Style = Style::OpenAi;
pub(crate) const TALLY: &str = r#"{"index":0,"id":"k1","type":"function","function":{"name":"tally","arguments":""}}"#;

/// A stream with these entries of `tool_calls`, one in an event.
fn entries(entries: &[&str]) -> Vec<u8> {
    let all: Vec<String> = entries.iter().map(|entry| format!(r#"{{"tool_calls":[{entry}]}}"#)).collect();
    deltas(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(crate) fn calls(list: &[&str]) -> Vec<ReplyCall> {
    reply(STYLE, &entries(list)).calls
}

/// Fault D1.
#[test]
fn d1_calls_without_index_are_told_apart() {
    let one = [asked(Some("k1"), "tally", r#"{"n":1}"#)];
    let rest = r#"{"function":{"arguments":":1}"}}"#;
    assert_eq!(calls(&[r#"{"id":"k1","function":{"name":"tally","arguments":"{\"n\""}}"#, rest]), one);
    assert_eq!(calls(&[r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{\"n\""}}"#, rest]), one);
    let first = r#"{"id":"k1","function":{"name":"tally","arguments":"{\"n\":1}"}}"#;
    let second = r#"{"id":"k2","function":{"name":"tally","arguments":"{}"}}"#;
    let two = [one[0].clone(), asked(Some("k2"), "tally", "{}")];
    assert_eq!(calls(&[first, second]), two);
    let second_in_two =
        [first, r#"{"id":"k2","function":{"name":"tally","arguments":"{"}}"#, r#"{"function":{"arguments":"}"}}"#];
    assert_eq!(calls(&second_in_two), two);
    let without_ids = [
        r#"{"function":{"name":"tally","arguments":"{\"n\":1}"}}"#,
        r#"{"function":{"name":"tally","arguments":"{}"}}"#,
    ];
    assert_eq!(calls(&without_ids), [asked(None, "tally", r#"{"n":1}"#), asked(None, "tally", "{}")]);
}

/// Fault D2.
#[test]
fn d2_new_id_at_a_known_index_is_a_new_call() {
    let two = [
        r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"id":"k2","function":{"name":"tally","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"n\":2}"}}"#,
    ];
    let expected = [asked(Some("k1"), "tally", r#"{"n":1}"#), asked(Some("k2"), "tally", r#"{"n":2}"#)];
    assert_eq!(calls(&two), expected);
    let whole = [
        r#"{"index":0,"id":"","function":{"name":"tally","arguments":"{\"n\":1}"}}"#,
        r#"{"index":0,"id":"","function":{"name":"tally","arguments":"{\"n\":2}"}}"#,
    ];
    assert_eq!(calls(&whole), [asked(None, "tally", r#"{"n":1}"#), asked(None, "tally", r#"{"n":2}"#)]);
    let by_name = [
        r#"{"index":0,"function":{"name":"tally","arguments":"{}"}}"#,
        r#"{"index":0,"function":{"name":"moor","arguments":"{}"}}"#,
    ];
    assert_eq!(calls(&by_name), [asked(None, "tally", "{}"), asked(None, "moor", "{}")]);
}

/// A new id with every piece of one call is no new call.
#[test]
fn changing_ids_without_names_are_one_call() {
    let one = [
        TALLY,
        r#"{"index":0,"id":"k-7","function":{"arguments":"{\"n\""}}"#,
        r#"{"index":0,"id":"k-8","function":{"arguments":":1}"}}"#,
    ];
    assert_eq!(calls(&one), [asked(Some("k1"), "tally", r#"{"n":1}"#)]);
}

/// Fault D3.
#[test]
fn d3_two_entries_of_one_event_are_one_call() {
    let both = format!(r#"{TALLY},{{"index":0,"function":{{"arguments":"{{\"n\":1}}"}}}}"#);
    assert_eq!(calls(&[&both]), [asked(Some("k1"), "tally", r#"{"n":1}"#)]);
}

/// Fault D4.
#[test]
fn d4_piece_with_a_wrong_index_is_of_the_only_open_call() {
    let start = r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{\"n\""}}"#;
    let rest = r#"{"index":1,"function":{"arguments":":1}"}}"#;
    assert_eq!(calls(&[start, rest]), [asked(Some("k1"), "tally", r#"{"n":1}"#)]);

    let whole = r#"{"index":0,"id":"k0","function":{"name":"moor","arguments":"{}"}}"#;
    let start = start.replace(":0", ":1");
    let rest = r#"{"index":2,"function":{"arguments":":1}"}}"#;
    assert_eq!(
        calls(&[whole, &start, rest]),
        [asked(Some("k0"), "moor", "{}"), asked(Some("k1"), "tally", r#"{"n":1}"#)]
    );
}

/// Fault D4: of two open calls none is guessed.
#[test]
fn d4_piece_of_no_one_call_is_a_failure() {
    let body = entries(&[
        r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{\"n\""}}"#,
        r#"{"index":1,"id":"k2","function":{"name":"moor","arguments":"{\"b\""}}"#,
        r#"{"index":2,"function":{"arguments":":1}"}}"#,
    ]);
    let failure = streamed(STYLE, &body).reply.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Malformed);
    assert_eq!(failure.message, "a piece of a call in the stream belongs to no one call");
}

/// Fault D5.
#[test]
fn d5_interleaved_calls_are_told_apart() {
    let Streamed { deltas, reply } = streamed(
        STYLE,
        &entries(&[
            r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{\"n\":"}}"#,
            r#"{"index":1,"id":"k2","function":{"name":"moor","arguments":"{\"b\":"}}"#,
            r#"{"index":0,"function":{"arguments":"1}"}}"#,
            r#"{"index":1,"function":{"arguments":"2}"}}"#,
        ]),
    );
    assert_eq!(
        reply.unwrap().calls,
        [asked(Some("k1"), "tally", r#"{"n":1}"#), asked(Some("k2"), "moor", r#"{"b":2}"#)]
    );
    let piece = |index, text: &str| Delta::Arguments { index, text: text.into() };
    let started =
        |index, name: &str| Delta::CallStarted { index, id: Some(format!("k{}", index + 1)), name: name.into() };
    let expected = [
        started(0, "tally"),
        piece(0, r#"{"n":"#),
        started(1, "moor"),
        piece(1, r#"{"b":"#),
        piece(0, "1}"),
        piece(1, "2}"),
    ];
    assert_eq!(deltas, expected);
}

/// Fault D6.
#[test]
fn d6_name_in_pieces_or_repeated_is_one_name() {
    let expected = [asked(Some("k1"), "tally", "{}")];
    let end = r#"{"index":0,"function":{"arguments":"{}"}}"#;
    let pieces = [r#"{"index":0,"id":"k1","function":{"name":"tal"}}"#, r#"{"index":0,"function":{"name":"ly"}}"#, end];
    assert_eq!(calls(&pieces), expected);
    let repeated = [
        TALLY,
        r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"{"}}"#,
        r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":"}"}}"#,
    ];
    assert_eq!(calls(&repeated), expected);
}

/// A call is told by its name: where its arguments come first, it waits for that.
#[test]
fn a_call_whose_name_comes_late_is_told_with_it() {
    let late = [
        r#"{"index":0,"function":{"arguments":"{\"n\""}}"#,
        r#"{"index":1,"id":"k2","function":{"name":"moor","arguments":"{}"}}"#,
        r#"{"index":0,"id":"k1","function":{"name":"tally","arguments":":1}"}}"#,
    ];
    let expected = [asked(Some("k1"), "tally", r#"{"n":1}"#), asked(Some("k2"), "moor", "{}")];
    assert_eq!(calls(&late), expected);
    let never = [late[0], r#"{"index":0,"function":{"arguments":":1}"}}"#];
    assert_eq!(calls(&never), [asked(None, "", r#"{"n":1}"#)]);
}

/// Fault D7.
#[test]
fn d7_null_and_empty_overwrite_nothing() {
    let rest = [
        r#"{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":"{}"}}"#,
        r#"{"index":0,"id":"","type":"","function":{"name":"","arguments":"{}"}}"#,
    ];
    for rest in rest {
        assert_eq!(calls(&[TALLY, rest]), [asked(Some("k1"), "tally", "{}")]);
    }
}

/// Fault D24: what makes no JSON is the text of the call.
#[test]
fn d24_broken_arguments_stay_as_they_are() {
    let pieces =
        [TALLY, r#"{"index":0,"function":{"arguments":"{\"n\":1"}}"#, r#"{"index":0,"function":{"arguments":"1}}"}}"#];
    assert_eq!(calls(&pieces), [asked(Some("k1"), "tally", r#"{"n":11}}"#)]);
}

/// Fault B4.
#[test]
fn b4_empty_ids_are_absent() {
    let three = [
        r#"{"index":0,"id":"","type":"function","function":{"name":"tally","arguments":"{}"}}"#,
        r#"{"index":1,"id":null,"type":"function","function":{"name":"tally","arguments":"{}"}}"#,
        r#"{"index":2,"type":"function","function":{"name":"tally","arguments":"{}"}}"#,
    ];
    assert_eq!(calls(&three), vec![asked(None, "tally", "{}"); 3]);
}

/// Fault B5: one id for two calls is not one call.
#[test]
fn b5_calls_with_one_id_are_two() {
    let two = [
        r#"{"index":0,"id":"k","function":{"name":"tally","arguments":"{}"}}"#,
        r#"{"index":1,"id":"k","function":{"name":"tally","arguments":"{\"n\":1}"}}"#,
    ];
    assert_eq!(calls(&two), [asked(Some("k"), "tally", "{}"), asked(Some("k"), "tally", r#"{"n":1}"#)]);
}

/// Fault C5, and servers with the function's fields in the call, or with the old form.
#[test]
fn c5_odd_calls_are_read() {
    let table = [
        (
            r#"{"tool_calls":[{"id":"k1","function":{"name":"tally","arguments":{"n": 1.0}}}]}"#,
            Some("k1"),
            r#"{"n": 1.0}"#,
        ),
        (r#"{"tool_calls":[{"id":"k1","function":{"name":"tally","arguments":null}}]}"#, Some("k1"), ""),
        (r#"{"tool_calls":[{"id":"k1","name":"tally","arguments":"{}"}]}"#, Some("k1"), "{}"),
        (r#"{"function_call":{"name":"tally","arguments":"{\"n\":1}"}}"#, None, r#"{"n":1}"#),
    ];
    for (delta, id, arguments) in table {
        assert_eq!(reply(STYLE, &deltas(&[delta])).calls, [asked(id, "tally", arguments)]);
    }
    let legacy = [
        r#"{"function_call":{"name":"tally"}}"#,
        r#"{"function_call":{"arguments":"{"}}"#,
        r#"{"function_call":{"arguments":"}"}}"#,
    ];
    assert_eq!(reply(STYLE, &deltas(&legacy)).calls, [asked(None, "tally", "{}")]);
}
