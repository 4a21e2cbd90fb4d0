//! generateContent, streamed.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrelay_core::reply::{Provider, Reply, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::streamed::{Streamed, asked, events, feed, reply, streamed, told};
use crate::{messages_of, turn};

const STYLE: Style = Style::Gemini;

/// An event with these parts.
fn parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},"index":0}}]}}"#)
}

const END: &str = r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}"#;

/// A stream with an event for each list of parts, and its end.
fn ending(lists: &[&str]) -> Vec<u8> {
    let mut list: Vec<String> = lists.iter().map(|list| parts(list)).collect();
    list.push(r#"{"candidates":[{"finishReason":"STOP"}]}"#.to_owned());
    events(&list)
}

/// The parts that the reply keeps, and the reply.
fn kept(lists: &[&str]) -> (String, Reply) {
    let reply = reply(STYLE, &ending(lists));
    (reply.provider.clone().map(|provider| provider.raw).unwrap_or_default(), reply)
}

#[test]
fn whole_reply_is_read() {
    let list = [
        r#"{"candidates":[{"content":{"parts":[{"text":"h","thought":true}],"role":"model"},"index":0}],"modelVersion":"m-1","usageMetadata":{"promptTokenCount":10,"thoughtsTokenCount":1}}"#.to_owned(),
        parts(r#"{"thought": true, "text":"m"}"#),
        parts(r#"{"text":"so "},{"text":"b\u00e9"}"#),
        parts(r#"{"text":"","thoughtSignature":"c2ln\/"}"#),
        parts(r#"{"functionCall":{"name":"tally","args":{ "n":1.0}},"thoughtSignature":"Zm4="}"#),
        parts(r#"{"functionCall":{"id":"fc 2","name":"moor"}}"#),
        r#"{"candidates":[{"content":{"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m-1","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"cachedContentTokenCount":4}}"#.to_owned(),
    ];
    let raw = concat!(
        r#"[{"text":"hm","thought":true},{"text":"so b\u00e9"},{"text":"","thoughtSignature":"c2ln\/"},"#,
        r#"{"functionCall":{"name":"tally","args":{ "n":1.0}},"thoughtSignature":"Zm4="},{"functionCall":{"id":"fc 2","name":"moor"}}]"#
    );
    let expected = Streamed {
        deltas: vec![
            Delta::Reasoning("hm".into()),
            Delta::Text("so bé".into()),
            Delta::CallStarted { index: 0, id: None, name: "tally".into() },
            Delta::Arguments { index: 0, text: r#"{ "n":1.0}"#.into() },
            Delta::CallStarted { index: 1, id: Some("fc 2".into()), name: "moor".into() },
        ],
        reply: Ok(Reply {
            text: "so bé".into(),
            calls: vec![asked(None, "tally", r#"{ "n":1.0}"#), asked(Some("fc 2"), "moor", "")],
            reasoned: true,
            stop: Stop::Calls,
            usage: Usage {
                input_tokens: 10,
                output_tokens: 12,
                cached_tokens: 4,
                cache_write_tokens: 0,
                reasoning_tokens: 7,
            },
            model: Some("m-1".into()),
            provider: Some(Provider { style: STYLE, raw: raw.into(), paused: false }),
        }),
    };
    assert_eq!(streamed(STYLE, &events(&list)), expected);
}

/// Faults F6 and F7: a signature stays on the part on which it came, and apart from other text.
#[test]
fn f6_f7_signatures_stay_where_they_came() {
    let lists = [
        r#"{"text":"the "}"#,
        r#"{"text":"tide"}"#,
        r#"{"text":" is","thoughtSignature":"c2ln"}"#,
        r#"{"thoughtSignature":null,"text":" high","functionCall":null}"#,
        r#"{"text":"!"}"#,
        r#"{"text":"","thoughtSignature":"ZW5k"}"#,
        r#"{"executableCode":{"code":"1"},"mystery":[1.0]}"#,
        r#"{"text":"?","x":1}"#,
    ];
    let raw = concat!(
        r#"[{"text":"the tide"},{"text":" is","thoughtSignature":"c2ln"},{"text":" high!"},{"text":"","thoughtSignature":"ZW5k"},"#,
        r#"{"executableCode":{"code":"1"},"mystery":[1.0]},{"text":"?","x":1}]"#
    );
    let (shown, reply) = kept(&lists);
    assert_eq!((shown.as_str(), reply.text.as_str(), reply.reasoned), (raw, "the tide is high!?", false));
    let sent = String::from_utf8(messages_of(STYLE, &turn(&reply, &[]))).unwrap();
    assert!(sent.contains(raw), "{sent}");
}

#[test]
fn plain_text_needs_no_parts_of_its_own() {
    let reply = reply(STYLE, &events(&[parts(r#"{"text":"a"}"#).as_str(), &parts(r#"{"text":"b"}"#), END]));
    let expected =
        Reply { text: "ab".into(), usage: Usage { input_tokens: 3, ..Usage::default() }, ..Reply::default() };
    assert_eq!(reply, expected);
}

/// Fault D19: complete with its finish reason.
#[test]
fn d19_reply_without_a_finish_reason_was_cut() {
    let call = parts(r#"{"functionCall":{"name":"moor","args":{"b":2}}}"#);
    let unfinished = r#"{"candidates":[{"finishReason":""}],"promptFeedback":{"safetyRatings":[]}}"#;
    for list in [vec![call.as_str()], vec![&call, unfinished], vec![&call, "[DONE]"], vec![]] {
        let cut = streamed(STYLE, &events(&list)).reply.unwrap_err();
        assert_eq!((cut.kind, cut.is_retryable()), (FailureKind::Connection, true));
    }
    let late = r#"{"usageMetadata":{"candidatesTokenCount":9}}"#;
    let reply = reply(STYLE, &events(&[&call, END, late]));
    assert_eq!((reply.calls.len(), reply.usage.input_tokens, reply.usage.output_tokens), (1, 3, 9));
}

/// Faults D20, G2.
#[test]
fn d20_error_events_are_failures() {
    let error = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let Streamed { deltas, reply } = streamed(STYLE, &events(&[parts(r#"{"text":"half"}"#).as_str(), error]));
    let failure = reply.unwrap_err();
    assert_eq!(
        (failure.kind, failure.message.as_str(), failure.is_retryable()),
        (FailureKind::Overloaded, "busy", true)
    );
    assert_eq!(deltas, [Delta::Text("half".into())]);
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let failure = streamed(STYLE, &events(&[blocked])).reply.unwrap_err();
    assert_eq!((failure.kind, failure.error_type.as_deref()), (FailureKind::Filtered, Some("SAFETY")));
}

/// Faults E3, E6, E8, E9.
#[test]
fn e_finish_reasons_are_read() {
    let table = [
        ("MAX_TOKENS", Stop::Length),
        ("SAFETY", Stop::Filtered),
        ("MALFORMED_FUNCTION_CALL", Stop::Malformed),
        ("TIDE", Stop::Other("TIDE".into())),
    ];
    for (reason, stop) in table {
        let end = format!(r#"{{"candidates":[{{"finishReason":"{reason}","finishMessage":"so"}}]}}"#);
        assert_eq!(reply(STYLE, &events(&[end])).stop, stop);
    }
    let unsigned = r#"{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE","finishMessage":"so"}]}"#;
    let failure = streamed(STYLE, &events(&[unsigned])).reply.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::BadRequest, "so"));
}

#[test]
fn other_candidates_are_left_out() {
    let two = r#"{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"a"}]}}]}"#;
    let end = r#"{"candidates":[{"index":0,"finishReason":"STOP"}]}"#;
    assert_eq!(reply(STYLE, &events(&[two, end])).text, "a");
    assert_eq!(streamed(STYLE, &events(&[two])).reply.unwrap_err().kind, FailureKind::Connection);
}

/// Contract 8.7: halves of a character in two events are one, lone ones are mended.
#[test]
fn split_surrogates_are_one_character() {
    let lists = [r#"{"text":"a\ud83d"}"#, r#"{"text":"\ude00\ud83d"}"#, r#"{"text":"x","thoughtSignature":"eA=="}"#];
    let (_, reply) = kept(&lists);
    assert_eq!(reply.text, "a😀\u{fffd}x");
    let deltas = streamed(STYLE, &ending(&lists)).deltas;
    assert_eq!(deltas, [Delta::Text("a😀\u{fffd}x".into())]);
}

/// A call whose arguments come in pieces goes back as if it had come whole.
#[test]
fn arguments_in_pieces_are_put_together() {
    let lists = [
        r#"{"text":"so"}"#,
        r#"{"functionCall":{"name":"moor","id":"fc-1","willContinue":true},"thoughtSignature":"c2ln"}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.name","stringValue":"\ud83d","willContinue":true}],"willContinue":true}}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.name","stringValue":"\ude00 \"Bree\"","willContinue":true},{"jsonPath":"$.name","stringValue":""}],"willContinue":true}}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.boats[0].size","numberValue":50},{"jsonPath":"$.boats[0]['big one']","boolValue":true}],"willContinue":true}}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$[\"boats\"][1]","nullValue":"NULL_VALUE"},{"jsonPath":"$.grid[0][0]","numberValue":1.50},{"jsonPath":"$.grid[0][1]","stringValue":"a"}],"willContinue":true}}"#,
        r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.grid[0][1]","stringValue":"b"},{"jsonPath":"$.none","listValue":[]}]}}"#,
        r#"{"functionCall":{}}"#,
        r#"{"functionCall":{"name":"tally","args":{"n":1}}}"#,
    ];
    let arguments =
        r#"{"name":"\ud83d\ude00 \"Bree\"","boats":[{"size":50,"big one":true},null],"grid":[[1.50,"ab"]],"none":[]}"#;
    let raw = format!(
        r#"[{{"text":"so"}},{{"functionCall":{{"name":"moor","id":"fc-1","args":{arguments}}},"thoughtSignature":"c2ln"}},{{"functionCall":{{"name":"tally","args":{{"n":1}}}}}}]"#
    );
    let (shown, reply) = kept(&lists);
    assert_eq!(shown, raw);
    assert_eq!(reply.calls, [asked(Some("fc-1"), "moor", arguments), asked(None, "tally", r#"{"n":1}"#)]);
}

/// The end of a call whose arguments come in pieces is what says so: an empty call, one that does not
/// go on, another part, or the end of the reply.
#[test]
fn arguments_in_pieces_end() {
    let start =
        r#"{"functionCall":{"name":"moor","partialArgs":[{"jsonPath":"$.b","numberValue":2}],"willContinue":true}}"#;
    let moor = asked(None, "moor", r#"{"b":2}"#);
    let tally = r#"{"functionCall":{"name":"tally","args":{}}}"#;
    for more in
        [&[][..], &[r#"{"functionCall":{}}"#], &[r#"{"functionCall":{"willContinue":false}}"#], &[r#"{"text":"x"}"#]]
    {
        let (_, reply) = kept(&[&[start], more].concat());
        assert_eq!(reply.calls, std::slice::from_ref(&moor), "{more:?}");
        let (_, reply) = kept(&[&[start], more, &[tally]].concat());
        assert_eq!(reply.calls, [moor.clone(), asked(None, "tally", "{}")], "{more:?}");
    }
    let none = r#"{"functionCall":{"name":"ring","willContinue":true}}"#;
    let (shown, reply) = kept(&[none]);
    assert_eq!(
        (shown.as_str(), reply.calls),
        (r#"[{"functionCall":{"name":"ring","args":{}}}]"#, vec![asked(None, "ring", "{}")])
    );
}

/// Fault D8: some servers write out every key.
#[test]
fn d8_null_fields_say_nothing() {
    let nulls = r#""partialArgs":null,"willContinue":null"#;
    let whole = format!(
        r#"{{"text":null,"functionCall":{{"id":null,"name":"tally","args":{{"n":1}},{nulls}}},"thought":null}}"#
    );
    assert_eq!(kept(&[&whole]).1.calls, [asked(None, "tally", r#"{"n":1}"#)]);

    let start = r#"{"functionCall":{"name":"moor","args":null,"partialArgs":null,"willContinue":true}}"#;
    let piece = |value: &str| {
        format!(
            r#"{{"functionCall":{{"name":null,"partialArgs":[{{"jsonPath":"$.b","nullValue":null,"stringValue":null,{value}}}],"willContinue":true}}}}"#
        )
    };
    let end = format!(r#"{{"functionCall":{{"name":null,"args":null,{nulls}}}}}"#);
    for (value, arguments) in [(r#""numberValue":2"#, r#"{"b":2}"#), (r#""numberValue":null"#, r#"{"b":null}"#)] {
        assert_eq!(kept(&[start, &piece(value), &end]).1.calls, [asked(None, "moor", arguments)]);
    }
}

#[test]
fn pieces_that_have_no_place_are_a_failure() {
    for piece in [
        r#"{"jsonPath":"$.a[1]","numberValue":1}"#,
        r#"{"jsonPath":"$","stringValue":"x"}"#,
        r#"{"jsonPath":"$[0]","stringValue":"x"}"#,
        r#"{"jsonPath":"a.b","stringValue":"x"}"#,
        r#"{"jsonPath":"$.a..b","stringValue":"x"}"#,
        r#"{"jsonPath":"$.a[*]","stringValue":"x"}"#,
        r#"{"jsonPath":"$['a","stringValue":"x"}"#,
        r#"{"stringValue":"x"}"#,
        r#"{"jsonPath":"$.a"}"#,
        "5",
    ] {
        let part = format!(r#"{{"functionCall":{{"name":"moor","partialArgs":[{piece}]}}}}"#);
        let failure = streamed(STYLE, &ending(&[&part])).reply.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Malformed, "{piece}");
    }
    let deep = format!(r#"{{"jsonPath":"$.a{}","numberValue":1}}"#, "[0]".repeat(100_000));
    let part = format!(r#"{{"functionCall":{{"name":"moor","partialArgs":[{deep}]}}}}"#);
    assert_eq!(feed(STYLE, [&ending(&[&part])[..]]).reply.unwrap_err().kind, FailureKind::Malformed);
}

#[test]
fn events_that_cannot_be_read_are_failures() {
    for event in [
        "5",
        r#"{"candidates":5}"#,
        r#"{"candidates":[5]}"#,
        r#"{"candidates":[{"content":5}]}"#,
        r#"{"candidates":[{"content":{"parts":5}}]}"#,
        r#"{"candidates":[{"#,
    ] {
        assert_eq!(streamed(STYLE, &events(&[event, END])).reply.unwrap_err().kind, FailureKind::Malformed, "{event}");
    }
    for event in
        ["{}", r#"{"candidates":null}"#, r#"{"candidates":[]}"#, r#"{"candidates":[{"content":null}]}"#, r#"{"x":1}"#]
    {
        assert_eq!(reply(STYLE, &events(&[event, END])).text, "", "{event}");
    }
}

/// Any JSON value under an arguments object, and the pieces in which it may come.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..1_000).prop_map(Value::from),
        "[a-z\"é😀]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let named = proptest::collection::btree_map("(name|id|type|[a-z ]{1,3})", inner.clone(), 1..4);
        prop_oneof![
            proptest::collection::vec(inner, 1..4).prop_map(Value::from),
            named.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn pieces(path: &str, value: &Value, out: &mut Vec<Value>) {
    match value {
        Value::Null => out.push(json!({"jsonPath": path, "nullValue": "NULL_VALUE"})),
        Value::Bool(flag) => out.push(json!({"jsonPath": path, "boolValue": flag})),
        Value::Number(number) => out.push(json!({"jsonPath": path, "numberValue": number})),
        Value::String(text) => {
            out.push(json!({"jsonPath": path, "stringValue": "", "willContinue": true}));
            out.extend(text.chars().map(|c| json!({"jsonPath": path, "stringValue": c, "willContinue": true})));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| pieces(&format!("{path}[{at}]"), item, out));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| pieces(&format!("{path}['{key}']"), field, out));
        }
    }
}

proptest! {
    /// Arguments in pieces are the arguments, however many pieces an event has.
    #[test]
    fn pieces_of_arguments_add_up(fields in proptest::collection::btree_map("(name|id|[a-z]{1,3})", value(), 1..4), size in 1usize..5) {
        let args = Value::Object(fields.into_iter().collect());
        let mut all = Vec::new();
        pieces("$", &args, &mut all);
        let mut lists = vec![json!({"functionCall": {"name": "moor", "willContinue": true}}).to_string()];
        lists.extend(all.chunks(size).map(|pieces| json!({"functionCall": {"partialArgs": pieces, "willContinue": true}}).to_string()));
        lists.push(r#"{"functionCall":{}}"#.to_owned());
        let lists: Vec<&str> = lists.iter().map(String::as_str).collect();
        let (_, reply) = kept(&lists);
        prop_assert_eq!(serde_json::from_str::<Value>(&reply.calls[0].arguments).unwrap(), args);
    }

    /// A reply that is cut into events anywhere between its parts, and its texts anywhere between their
    /// characters, is the plain reply; and so is what was told of it.
    #[test]
    fn streamed_reply_is_the_plain_one(texts in proptest::collection::vec(("[a-zé😀]{1,8}", 0..4usize), 1..6)) {
        let mut whole: Vec<Value> = Vec::new();
        let mut lists: Vec<String> = Vec::new();
        for (at, (text, kind)) in texts.iter().enumerate() {
            let part = |text: &str| match kind {
                0 => json!({"text": text}),
                1 => json!({"text": text, "thought": true}),
                2 => json!({"text": text, "thoughtSignature": "c2ln"}),
                _ => json!({"functionCall": {"name": text, "args": {"n": at}}}),
            };
            if *kind > 1 {
                lists.push(part(text).to_string());
            } else {
                lists.extend(text.chars().map(|c| part(&c.to_string()).to_string()));
            }
            match whole.last_mut() {
                Some(last) if *kind < 2 && last.get("thoughtSignature").is_none() && last.get("text").is_some() && last.get("thought").is_some() == (*kind == 1) => {
                    let joined = format!("{}{text}", last["text"].as_str().unwrap());
                    last["text"] = joined.into();
                }
                _ => whole.push(part(text)),
            }
        }
        let plain = json!({"candidates": [{"content": {"role": "model", "parts": whole}, "finishReason": "STOP"}]});
        let plain = STYLE.decode(plain.to_string().as_bytes()).unwrap();
        let lists: Vec<&str> = lists.iter().map(String::as_str).collect();
        let body = ending(&lists);
        let Streamed { deltas, reply } = streamed(STYLE, &body);
        prop_assert_eq!(&reply.unwrap(), &plain);
        let (text, calls) = told(&deltas);
        prop_assert_eq!(text, plain.text);
        prop_assert_eq!(calls.len(), plain.calls.len());
    }

    /// Fault D19: every cut gives the reply or the failure that says it was cut, never less of a reply.
    #[test]
    fn cuts_are_failures_or_the_reply(at in 0usize..2_000) {
        let lists = [r#"{"text":"so é😀"}"#, r#"{"functionCall":{"name":"moor","args":{"b":2}},"thoughtSignature":"c2ln"}"#];
        let body = ending(&lists);
        let whole = reply(STYLE, &body);
        let cut = feed(STYLE, [&body[..at.min(body.len())]]).reply;
        match cut {
            Ok(reply) => prop_assert_eq!(reply, whole),
            Err(failure) => prop_assert_eq!(failure.kind, FailureKind::Connection),
        }
    }
}
