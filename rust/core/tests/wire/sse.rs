//! Server-sent events, as they are seen through a style.

use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;

use crate::streamed::{feed, reply, streamed};

const STYLE: Style = Style::OpenAi;
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn text(body: &[u8]) -> String {
    reply(STYLE, body).text
}

fn said(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
}

/// Fault D14: a character that two pieces of the network share.
#[test]
fn d14_split_characters_are_whole() {
    let body = format!("data: {}\n\n{STOP}data: [DONE]\n\n", said("帆 😀 \\ud83d\\ude00")).into_bytes();
    for cut in 0..=body.len() {
        assert_eq!(feed(STYLE, [&body[..cut], &body[cut..]]).reply.unwrap().text, "帆 😀 😀");
    }
}

/// Fault D15: what some languages take for line ends is text.
#[test]
fn d15_only_cr_and_lf_end_a_line() {
    assert_eq!(
        text(format!("data: {}\n\n{STOP}", said("a\u{2028}b\u{85}c\\u000bd")).as_bytes()),
        "a\u{2028}b\u{85}c\u{b}d"
    );
    let raw = format!("data: {}\n\n", said("a\u{b}b"));
    assert_eq!(streamed(STYLE, raw.as_bytes()).reply.unwrap_err().kind, FailureKind::Malformed);
}

/// Fault D16.
#[test]
fn d16_every_line_end_is_one() {
    let event = said("x");
    let (start, end) = event.split_at(13);
    for line_end in ["\n", "\r", "\r\n"] {
        let body = format!("event: message\ndata: {start}\ndata: {end}\n\n{STOP}").replace('\n', line_end);
        assert_eq!(text(body.as_bytes()), "x");
        let bytes = body.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(feed(STYLE, [&bytes[..cut], b"", &bytes[cut..]]).reply.unwrap().text, "x");
        }
    }
}

/// Fault D17: one mark at the start is dropped, one later is text.
#[test]
fn d17_byte_order_mark_is_dropped_once() {
    let body = format!("\u{feff}data: {}\n\n{STOP}", said("\u{feff}x"));
    assert_eq!(text(body.as_bytes()), "\u{feff}x");
    let body = format!("\u{feff}\u{feff}data: {}\n\n{STOP}", said("x"));
    assert_eq!(text(body.as_bytes()), "");
    let body = format!("\n\u{feff}data: {}\n\n{STOP}", said("x"));
    assert_eq!(text(body.as_bytes()), "");
}

/// Fault D18: comments, no blank behind the colon, fields that nobody needs, an end without a blank line.
#[test]
fn d18_odd_lines_are_read() {
    let event = said("x");
    let body = format!(
        ": PROCESSING\n\ndata:{event}\n\nid: 7\nretry: 10\ndatum: no\ndata\n\nevent: x\n\n:\n{STOP}data:  \n\ndata: [DONE]"
    );
    assert_eq!(text(body.as_bytes()), "x");
}

/// Fault D18: what is unfinished at the end is no event.
#[test]
fn d18_unfinished_event_is_none() {
    for end in ["", "\n"] {
        let body = format!("data: {}\n\n{}{end}", said("x"), STOP.trim_end());
        assert_eq!(streamed(STYLE, body.as_bytes()).reply.unwrap_err().kind, FailureKind::Connection);
    }
}

#[test]
fn event_over_the_limit_is_a_failure() {
    let event = format!("data: {}\n\n", said(&"x".repeat(100)));
    for body in [event.as_str(), &event[..event.len() - 2], &format!("event: x\n{}", &event[..100]), &"x".repeat(120)] {
        for size in [1, 7, body.len()] {
            let mut decoder = STYLE.stream(100);
            let mut feed = || body.as_bytes().chunks(size).try_for_each(|piece| decoder.feed(piece, &mut |_| {}));
            let failure = feed().unwrap_err();
            assert_eq!(failure.kind, FailureKind::TooLarge);
            assert_eq!(failure.message, "an event of the stream has more than 100 bytes");
            assert_eq!(feed().unwrap_err(), failure);
            assert_eq!(decoder.finish().unwrap_err(), failure);
        }
    }
    let mut decoder = STYLE.stream(200);
    decoder.feed(format!("{event}{event}{STOP}").as_bytes(), &mut |_| {}).unwrap();
    assert_eq!(decoder.finish().unwrap().text.len(), 200);
}

#[test]
fn what_follows_the_end_is_not_read() {
    let body = format!("data: {}\n\n{STOP}data: [DONE]\n\ndata: {{\n\ndata: {}", said("x"), "x".repeat(1_000));
    let mut decoder = STYLE.stream(200);
    decoder.feed(body.as_bytes(), &mut |_| {}).unwrap();
    assert!(decoder.is_complete());
    decoder.feed(body.as_bytes(), &mut |_| {}).unwrap();
    assert_eq!(decoder.finish().unwrap().text, "x");
}

#[test]
fn unreadable_events_are_failures() {
    for data in [&b"{"[..], b"<html>", b"[]", b"\xff", b"{}{}", b"{\"choices\":[{]}", b"data"] {
        let body = [b"data: ", data, b"\n\n", STOP.as_bytes()].concat();
        assert_eq!(streamed(STYLE, &body).reply.unwrap_err().kind, FailureKind::Malformed);
    }
}

/// Fault D21: what becomes a part of the reply is content, told or not; the rest are signs of life.
#[test]
fn d21_signs_of_life_are_no_content() {
    let openai = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#);
    let gemini = |parts: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}}}}]}}"#);
    let table: [(Style, &[String], &[String]); 4] = [
        (
            Style::OpenAi,
            &[
                openai("{}"),
                openai(r#"{"role":"assistant","content":"","tool_calls":[],"x":null}"#),
                r#"{"choices":[]}"#.into(),
            ],
            &[openai(r#"{"content":"x"}"#), openai(r#"{"mystery":7}"#), openai(r#"{"tool_calls":[{"id":"k"}]}"#)],
        ),
        (
            Style::Anthropic,
            &[r#"{"type":"ping"}"#.into(), r#"{"type":"message_start","message":{"model":"m"}}"#.into()],
            &[
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"mystery"}}"#.into(),
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"mystery_delta","x":"y"}}"#.into(),
            ],
        ),
        (
            Style::OpenAiResponses,
            &[r#"{"type":"response.created","response":{"output":[]}}"#.into(), r#"{"type":"keepalive"}"#.into()],
            &[
                r#"{"type":"response.output_item.added","item":{"id":"x","type":"mystery"}}"#.into(),
                r#"{"type":"response.output_text.delta","item_id":"y","delta":"x"}"#.into(),
            ],
        ),
        (
            Style::Gemini,
            &[gemini(""), gemini(r#"{"text":""}"#), r#"{"usageMetadata":{"promptTokenCount":3}}"#.into()],
            &[gemini(r#"{"text":"x"}"#), gemini(r#"{"mystery":1}"#)],
        ),
    ];
    for (style, alive, said) in table {
        let mut decoder = style.stream(1_000);
        let mut grown = |event: &String| {
            let before = decoder.content();
            decoder.feed(format!(": ping\n\ndata: {event}\n\n").as_bytes(), &mut drop).unwrap();
            decoder.content() > before
        };
        assert!(!alive.iter().any(&mut grown), "{style:?}");
        assert!(said.iter().all(&mut grown), "{style:?}");
    }
}
