#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use bytes::Bytes;
use proptest::prelude::*;

use super::{canonical, read};
use crate::json::scan::Scan;
use crate::message::Message;
use crate::wire::{Head, Style};

/// What both readings make of a message; `None` where the quick one leaves it to the full one.
fn both(text: &str) -> Option<(Message, Vec<Message>)> {
    let json = Bytes::copy_from_slice(text.as_bytes());
    let mut scan = Scan::new(text);
    let (body, is_plain) = canonical(&mut scan).filter(|_| scan.is_over())?;
    let mut full = Vec::new();
    read::read(&json, text, &mut full).unwrap();
    Some((Message::from_parts(json, body, is_plain), full))
}

const CANONICAL: [&str; 9] = [
    r#"{"role":"system","content":"be kind"}"#,
    r#"{"role":"developer","content":""}"#,
    r#" { "content" : "h\u0069 \"toolrelay\"", "role" : "user" } "#,
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{ \"z\": 1.0 }"}}]}"#,
    r#"{"role":"tool","tool_call_id":"k1","content":"7"}"#,
    r#"{"role":"assistant","content":"two","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"k\u0032","type":"function"},{"id":"a b","type":"function","function":{"name":"a b","arguments":"{"}}]}"#,
    r#"{"role":"tool","content":"","tool_call_id":"k2","toolrelay":{"outcome":"error"}}"#,
    r#"{"role":"tool","content":"","tool_call_id":"a b"}"#,
    r#"{"role":"assistant","content":"","toolrelay":{"provider":{"style":"anthropic","raw":"[]"}}}"#,
];

#[test]
fn canonical_messages_are_read_quickly() {
    for text in CANONICAL {
        let (quick, full) = both(text).unwrap();
        assert_eq!((quick.json(), quick.body()), (full[0].json(), full[0].body()), "{text}");
        assert_eq!(full.len(), 1);
    }
}

#[test]
fn other_messages_are_left_to_the_full_reading() {
    for text in [
        r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user","content":"hi","name":"bob"}"#,
        r#"{"role":"user","content":"hi","toolrelay":{}}"#,
        r#"{"role":"user","content":"hi","content":"ho"}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"us\u0065r","content":"hi"}"#,
        r#"{"role":"oracle","content":"hi"}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"assistant","content":"hi","tool_calls":[]}"#,
        r#"{"role":"assistant","content":"hi","tool_call_id":"k1"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":null,"type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"k1","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":{}}}]}"#,
        r#"{"role":"tool","tool_call_id":"k1","content":null}"#,
        r#"{"role":"tool","tool_call_id":"k1","content":"7","toolrelay":{"outcome":"odd"}}"#,
        "{}",
        "[]",
    ] {
        assert!(both(text).is_none(), "{text}");
    }
}

/// The bodies of requests with these messages in each style.
fn bodies(messages: &[Message]) -> Vec<Vec<u8>> {
    let head = Head { model: "m", ..Head::default() };
    let body = |style: Style| style.head(&head).unwrap().body(messages).unwrap();
    Style::ALL.map(|style| body(style).chunks.concat()).into()
}

#[test]
fn both_readings_go_out_alike() {
    let texts: Vec<&str> = CANONICAL[..8].iter().map(|text| text.trim()).collect();
    let mut full = Vec::new();
    for text in &texts {
        read::read(&Bytes::copy_from_slice(text.as_bytes()), text, &mut full).unwrap();
    }
    let mut quick = Vec::new();
    let document = texts.join(",");
    let json = Bytes::copy_from_slice(document.as_bytes());
    let mut scan = Scan::new(&document);
    while !scan.is_over() {
        super::read_from(&json, &mut scan, &mut quick).unwrap().unwrap();
        let _ = scan.take(b',');
    }
    assert_eq!(bodies(&quick), bodies(&full));
    let mut rows = Vec::new();
    for text in texts {
        read(&Bytes::copy_from_slice(text.as_bytes()), text, &mut rows).unwrap();
    }
    assert_eq!(bodies(&rows), bodies(&full));
}

/// An object of some of these fields, in any order and any number.
fn object(fields: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    let most = fields.len();
    let some = prop::sample::subsequence(fields, most.saturating_sub(2)..=most).prop_shuffle();
    some.prop_flat_map(|fields| fields).prop_map(|fields| format!("{{{}}}", fields.join(","))).boxed()
}

fn field(key: &'static str, values: &[&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(values.to_vec()).prop_map(move |value| format!("{key:?}:{value}")).boxed()
}

fn message() -> impl Strategy<Value = String> {
    let texts = [
        r#""""#,
        r#""k1""#,
        r#""a\nb""#,
        r#""{}""#,
        r#""\ud83d\ude00""#,
        "null",
        "[]",
        r#"[{"type":"text","text":"x"}]"#,
        "{}",
        "7",
    ];
    let function = object(vec![field("name", &texts), field("arguments", &texts)]);
    let call = object(vec![
        field("id", &texts),
        field("type", &[r#""function""#, "null"]),
        function.prop_map(|function| format!(r#""function":{function}"#)).boxed(),
        field("index", &["0"]),
    ]);
    let calls = prop::collection::vec(call, 0..3).prop_map(|calls| format!(r#""tool_calls":[{}]"#, calls.join(",")));
    let roles =
        [r#""system""#, r#""user""#, r#""assistant""#, r#""assistant""#, r#""tool""#, r#""tool""#, r#""other""#];
    let extras = [
        "null",
        "{}",
        r#"{"outcome":"error"}"#,
        r#"{"provider":{"style":"openai","raw":"{}"}}"#,
        r#"{"pending":{"id":"req_1","turns":2}}"#,
        r#"{"parts":[]}"#,
        r#"{"outcome":1}"#,
    ];
    object(vec![
        field("role", &roles),
        field("role", &roles),
        field("content", &texts),
        field("tool_call_id", &texts),
        calls.boxed(),
        field("toolrelay", &extras),
        field("name", &texts),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_read_quickly_is_read_alike(text in message()) {
        if let Some((quick, full)) = both(&text) {
            prop_assert_eq!(full.len(), 1);
            prop_assert_eq!((quick.json(), quick.body()), (full[0].json(), full[0].body()));
        }
    }
}
