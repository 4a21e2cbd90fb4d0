//! Responses, streamed.

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolrelay_core::reply::{Provider, Reply, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::properties;
use crate::streamed::{Streamed, asked, events, reply, streamed, told};

const STYLE: Style = Style::OpenAiResponses;
const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}}"#;

fn item(event: &str, index: usize, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.{event}","output_index":{index},"item":{item}}}"#)
}

fn delta(event: &str, index: usize, id: &str, delta: &str) -> String {
    format!(
        r#"{{"type":"response.{event}.delta","output_index":{index},"item_id":"{id}","content_index":0,"delta":{delta}}}"#
    )
}

fn ended(status: &str, output: &str) -> String {
    format!(
        r#"{{"type":"response.{status}","response":{{"id":"resp_1","object":"response","status":"{status}","model":"m-1","error":null,"output":{output},"usage":{{"input_tokens":10,"output_tokens":5,"output_tokens_details":{{"reasoning_tokens":4}}}}}}}}"#
    )
}

fn body(between: &[String], end: &str) -> Vec<u8> {
    let between = between.iter().map(String::as_str);
    events(&[CREATED].into_iter().chain(between).chain([end]).collect::<Vec<_>>())
}

fn raw(reply: &Reply) -> &str {
    reply.provider.as_ref().map(|provider| provider.raw.as_str()).unwrap_or_default()
}

const REASONING: &str =
    r#"{"id":"rs_1","type":"reasoning","encrypted_content":"q0","summary":[{"type":"summary_text","text":"hm so"}]}"#;
const TEXT: &str = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"be it"}]}"#;
const CALL: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"n\": 1}","call_id":"k1","name":"tally"}"#;

/// The events of the whole reply, as the provider sends them.
fn whole() -> Vec<String> {
    vec![
        item("added", 0, r#"{"id":"rs_1","type":"reasoning","encrypted_content":"q","summary":[]}"#),
        r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#.to_owned(),
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm ","obfuscation":"x"}"#.to_owned(),
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"so"}"#.to_owned(),
        r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"hm so"}"#.to_owned(),
        item("done", 0, REASONING),
        item("added", 1, r#"{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}"#),
        r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}"#.to_owned(),
        delta("output_text", 1, "msg_1", r#""be""#),
        r#"{"type":"response.mystery","output_index":1,"delta":{"a":1}}"#.to_owned(),
        delta("output_text", 1, "msg_1", r#"" it""#),
        r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"be it"}"#.to_owned(),
        item("done", 1, TEXT),
        item("added", 2, r#"{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"k1","name":"tally"}"#),
        delta("function_call_arguments", 2, "fc_1", r#""{\"n\"""#),
        delta("function_call_arguments", 2, "fc_1", r#"": 1}""#),
        r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"n\": 1}"}"#.to_owned(),
        item("done", 2, CALL),
    ]
}

#[test]
fn whole_reply_is_read() {
    let output = format!("[{REASONING}, {TEXT},{CALL}]");
    let kept = format!("[{REASONING},{TEXT},{CALL}]");
    let expected = Streamed {
        deltas: vec![
            Delta::Reasoning("hm so".into()),
            Delta::Text("be it".into()),
            Delta::CallStarted { index: 0, id: Some("k1".into()), name: "tally".into() },
            Delta::Arguments { index: 0, text: r#"{"n": 1}"#.into() },
        ],
        reply: Ok(Reply {
            text: "be it".into(),
            calls: vec![asked(Some("k1"), "tally", r#"{"n": 1}"#)],
            reasoned: true,
            stop: Stop::Calls,
            usage: Usage { input_tokens: 10, output_tokens: 5, reasoning_tokens: 4, ..Usage::default() },
            model: Some("m-1".into()),
            provider: Some(Provider { style: STYLE, raw: kept, paused: false }),
        }),
    };
    assert_eq!(streamed(STYLE, &body(&whole(), &ended("completed", &output))), expected);
    // Some servers leave the items out of the whole reply.
    for output in ["[]", "null"] {
        assert_eq!(streamed(STYLE, &body(&whole(), &ended("completed", output))), expected);
    }
}

/// Servers that send no pieces, or nothing but the whole reply.
#[test]
fn reply_without_pieces_is_told_at_its_end() {
    let output = format!("[{REASONING},{TEXT},{CALL}]");
    let full = streamed(STYLE, &body(&whole(), &ended("completed", &output)));
    let done = [item("done", 0, REASONING), item("done", 1, TEXT), item("done", 2, CALL)];
    assert_eq!(streamed(STYLE, &body(&done, &ended("completed", "[]"))), full);
    assert_eq!(streamed(STYLE, &body(&[], &ended("completed", &output))), full);
}

/// Fault D22: what only the beginning said is not lost; the arguments as they are at the end count.
#[test]
fn d22_name_of_the_beginning_is_kept() {
    let begun = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tally","arguments":""}"#;
    let list = |whole: &str| {
        vec![
            item("added", 0, begun),
            delta("function_call_arguments", 0, "fc_1", r#""{\"n\"""#),
            format!(
                r#"{{"type":"response.function_call_arguments.done","output_index":0,"item_id":"fc_1","arguments":{whole}}}"#
            ),
        ]
    };
    for last in ["[]", r#"[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"","arguments":""}]"#] {
        let Streamed { reply, .. } = streamed(STYLE, &body(&list(r#""{\"n\":1}""#), &ended("completed", last)));
        assert_eq!(reply.unwrap().calls, [asked(Some("call_1"), "tally", r#"{"n":1}"#)]);
        let Streamed { reply, .. } = streamed(STYLE, &body(&list(r#""""#), &ended("completed", last)));
        assert_eq!(reply.unwrap().calls, [asked(Some("call_1"), "tally", r#"{"n""#)]);
    }
}

/// Fault D23: an empty `call_id` overwrites nothing, in the whole reply neither.
#[test]
fn d23_call_id_of_the_beginning_is_kept() {
    let begun = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tally","arguments":""}"#;
    let done = r#"{"type":"function_call","id":"fc_1","call_id":"","name":"tally","arguments":"{}"}"#;
    let healed = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tally","arguments":"{}"}"#;
    let other_id = done.replace("fc_1", "fc_9");
    for (done, last) in [
        (done, format!("[{done}]")),
        (done, "[]".to_owned()),
        (done, format!("[{other_id}]")),
        (&other_id, format!("[{done}]")),
    ] {
        let reply = reply(STYLE, &body(&[item("added", 0, begun), item("done", 0, done)], &ended("completed", &last)));
        assert_eq!(reply.calls, [asked(Some("call_1"), "tally", "{}")]);
        assert_eq!(raw(&reply).replace("fc_9", "fc_1"), format!("[{healed}]"));
    }
}

/// What a later form lacks is taken from the one before; what it says counts.
#[test]
fn poorer_whole_reply_is_healed() {
    let list = [item("added", 0, r#"{"type":"reasoning","id":"rs_1","summary":[]}"#), item("done", 0, REASONING)];
    let poor = r#"{"id":"rs_1","type":"reasoning","encrypted_content":null,"summary":[{"type":"summary_text","text":"else"}],"content":[]}"#;
    let expected = r#"[{"id":"rs_1","type":"reasoning","encrypted_content":"q0","summary":[{"type":"summary_text","text":"else"}],"content":[]}]"#;
    let reply = reply(STYLE, &body(&list, &ended("completed", &format!("[{poor}]"))));
    assert_eq!((raw(&reply), reply.reasoned), (expected, true));
}

/// The whole reply of some servers has not all that they streamed, or has new ids: what was done is in the reply once.
#[test]
fn what_was_done_is_in_the_reply_once() {
    let second = CALL.replace("fc_1", "fc_2").replace("k1", "k2");
    let items = [whole(), vec![item("done", 3, &second)]].concat();
    let expected = format!("[{REASONING},{TEXT},{CALL},{second}]");
    for last in [
        TEXT.to_owned(),
        CALL.to_owned(),
        format!("{REASONING},{second}"),
        TEXT.replace("msg_1", "msg_9"),
        format!("{},{second}", CALL.replace("fc_1", "fc_9")),
    ] {
        let Streamed { deltas, reply } = streamed(STYLE, &body(&items, &ended("completed", &format!("[{last}]"))));
        let reply = reply.unwrap();
        let ids: Vec<&str> = reply.calls.iter().filter_map(|call| call.id.as_deref()).collect();
        assert_eq!((reply.text.as_str(), ids), ("be it", vec!["k1", "k2"]), "{last}");
        assert_eq!(raw(&reply).replace("fc_9", "fc_1").replace("msg_9", "msg_1"), expected, "{last}");
        let (text, calls) = told(&deltas);
        assert_eq!((text, calls.len()), (reply.text, 2), "{last}");
    }
}

/// A call that has other ids in the whole reply is no second call.
#[test]
fn calls_with_new_ids_are_the_same_calls() {
    let second = CALL.replace("fc_1", "fc_2").replace("k1", "k2");
    let renamed = |call: &str| call.replace("fc_", "x_").replace("\"k", "\"y");
    let items = [whole(), vec![item("done", 3, &second)]].concat();
    for last in
        [format!("{},{}", renamed(CALL), renamed(&second)), format!("{TEXT},{},{}", renamed(CALL), renamed(&second))]
    {
        let Streamed { deltas, reply } = streamed(STYLE, &body(&items, &ended("completed", &format!("[{last}]"))));
        let calls = ["y1", "y2"].map(|id| asked(Some(id), "tally", r#"{"n": 1}"#));
        assert_eq!(reply.unwrap().calls, calls);
        assert_eq!(told(&deltas).1.len(), 2);
    }
}

/// Items that are never done are made of their pieces.
#[test]
fn items_are_put_together_from_pieces() {
    let list = [
        item("added", 0, r#"{"type":"reasoning","id":"rs_1","encrypted_content":"half","summary":[]}"#),
        delta("reasoning_text", 0, "rs_1", r#""hm""#),
        item("added", 1, r#"{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}"#),
        delta("output_text", 1, "msg_1", r#""so""#),
        r#"{"type":"response.output_text.delta","output_index":1,"item_id":"msg_1","content_index":1,"delta":" be it"}"#
            .to_owned(),
        item("added", 2, r#"{"type":"function_call","id":"fc_1","call_id":"k1","name":"tally"}"#),
        delta("function_call_arguments", 2, "fc_1", r#""{\"n\":""#),
    ];
    let Streamed { reply, .. } = streamed(STYLE, &body(&list, &ended("incomplete", "[]")));
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), &reply.stop), ("so be it", &Stop::Length));
    assert_eq!(reply.calls, [asked(Some("k1"), "tally", r#"{"n":"#)]);
    let raw: Value = serde_json::from_str(raw(&reply)).unwrap();
    assert_eq!(
        raw,
        json!([
            {"type": "reasoning", "id": "rs_1", "encrypted_content": null, "summary": [], "status": "incomplete",
                "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "incomplete",
                "content": [{"type": "output_text", "text": "so"}, {"type": "output_text", "text": " be it"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "k1", "name": "tally", "arguments": "{\"n\":",
                "status": "incomplete"},
        ])
    );
}

/// Servers that count no items, count all as the first, or begin none.
#[test]
fn items_are_told_apart_by_id_index_and_kind() {
    let call = |id: &str, key: &str| {
        format!(r#"{{"type":"function_call","id":"{id}","call_id":"{key}","name":"tally","arguments":""}}"#)
    };
    let list = [
        delta("output_text", 0, "msg_1", r#""so""#),
        item("added", 0, &call("fc_1", "k1")),
        item("added", 0, &call("fc_2", "k2")),
        delta("function_call_arguments", 0, "fc_1", r#""{}""#),
        delta("function_call_arguments", 0, "fc_2", r#""{\"n\":""#),
        r#"{"type":"response.function_call_arguments.delta","delta":"2}"}"#.to_owned(),
        item("added", 0, &call("fc_2", "k2")),
    ];
    let reply = reply(STYLE, &body(&list, &ended("completed", "[]")));
    let calls = [asked(Some("k1"), "tally", "{}"), asked(Some("k2"), "tally", r#"{"n":2}"#)];
    assert_eq!((reply.text.as_str(), reply.calls.as_slice()), ("so", &calls[..]));
    let done = [item("done", 0, &call("fc_1", "k1")), item("done", 0, &call("fc_2", "k2"))];
    let reply = crate::streamed::reply(STYLE, &body(&done, &ended("completed", "[]")));
    assert_eq!(reply.calls, [asked(Some("k1"), "tally", ""), asked(Some("k2"), "tally", "")]);
}

/// Fault D19: complete with the whole reply; `[DONE]` alone ends nothing.
#[test]
fn d19_reply_without_its_last_event_was_cut() {
    let cut = streamed(STYLE, &body(&whole(), CREATED)).reply.unwrap_err();
    assert_eq!((cut.kind, cut.is_retryable()), (FailureKind::Connection, true));
    assert_eq!(streamed(STYLE, &body(&whole(), "[DONE]")).reply.unwrap_err(), cut);
    let followed = [body(&whole(), &ended("completed", "[]")), events(&["[DONE]"]), b"data: {".to_vec()].concat();
    assert_eq!(reply(STYLE, &followed).calls.len(), 1);
}

/// Fault D20.
#[test]
fn d20_failures_are_told_by_kind() {
    let half = [delta("output_text", 0, "msg_1", r#""half""#)];
    let failed = |error: &str| {
        format!(
            r#"{{"type":"response.failed","response":{{"status":"failed","error":{error},"output":[],"usage":null}}}}"#
        )
    };
    let table = [
        (failed(r#"{"code":"server_error","message":"x"}"#), FailureKind::Server, "x"),
        (failed(r#"{"code":"rate_limit_exceeded","message":"x"}"#), FailureKind::RateLimited, "x"),
        (failed(r#"{"code":"invalid_prompt","message":"x"}"#), FailureKind::BadRequest, "x"),
        (failed("null"), FailureKind::Server, "the reply failed without saying why"),
        (r#"{"type":"response.failed"}"#.to_owned(), FailureKind::Server, "the reply failed without saying why"),
        (
            r#"{"type":"error","code":"server_is_overloaded","message":"busy","param":null,"sequence_number":3}"#.to_owned(),
            FailureKind::Overloaded,
            "busy",
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"long"}}"#.to_owned(),
            FailureKind::ContextOverflow,
            "long",
        ),
    ];
    for (event, kind, message) in table {
        let Streamed { deltas, reply } = streamed(STYLE, &body(&half, &event));
        let failure = reply.unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message), "{event}");
        assert_eq!(deltas, [Delta::Text("half".into())]);
    }
    for event in ["7", r#"{"type":"response.output_item.added"}"#, r#"{"type":"response.output_item.done","item":7}"#] {
        assert_eq!(streamed(STYLE, &body(&[], event)).reply.unwrap_err().kind, FailureKind::Malformed, "{event}");
    }
}

/// Faults E3, E5, E6.
#[test]
fn e_stops_are_read() {
    let incomplete = |reason: &str| {
        ended("incomplete", "[]").replacen(
            "\"usage\"",
            &format!(r#""incomplete_details":{{"reason":"{reason}"}},"usage""#),
            1,
        )
    };
    for (end, stop) in [
        (incomplete("max_output_tokens"), Stop::Length),
        (incomplete("content_filter"), Stop::Filtered),
        // Some servers have one event for the end of every reply.
        (incomplete("max_output_tokens").replacen("response.incomplete", "response.completed", 1), Stop::Length),
        (ended("completed", "[]"), Stop::Calls),
    ] {
        assert_eq!(reply(STYLE, &body(&whole(), &end)).stop, stop);
    }
    let refusal =
        r#"{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"refusal","refusal":"cannot"}]}"#;
    let list = [delta("refusal", 0, "msg_1", r#""can""#), delta("refusal", 0, "msg_1", r#""not""#)];
    let both = r#"{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"refusal","refusal":"can"},{"type":"output_text","text":"not"}]}"#;
    for (pieces, whole) in [(&list[..], ""), (&list, refusal), (&[], refusal), (&[], both)] {
        let refused = reply(STYLE, &body(pieces, &ended("completed", &format!("[{whole}]"))));
        assert_eq!((refused.text.as_str(), refused.stop), ("cannot", Stop::Refused));
    }
}

#[test]
fn event_name_stands_in_for_the_type() {
    let body = concat!(
        "event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n",
        "event: response.completed\ndata: {}\n\n",
    );
    assert_eq!(reply(STYLE, body.as_bytes()).text, "x");
}

/// Contract 8.7: halves of a character in two events are one, lone ones are mended.
#[test]
fn split_surrogates_are_one_character() {
    let list = [
        delta("output_text", 0, "msg_1", r#""\ud83d""#),
        delta("output_text", 0, "msg_1", r#""\ude00\ud83d""#),
        item("added", 1, r#"{"type":"function_call","id":"fc_1","call_id":"k1","name":"tally","arguments":""}"#),
        delta("function_call_arguments", 1, "fc_1", r#""{\"a\":\"\ud83d""#),
        delta("function_call_arguments", 1, "fc_1", r#""\ude00\"}""#),
    ];
    let reply = reply(STYLE, &body(&list, &ended("completed", "[]")));
    assert_eq!((reply.text.as_str(), reply.calls[0].arguments.as_str()), ("😀\u{fffd}", r#"{"a":"😀"}"#));
}

/// The events that the provider sends for an output, texts in pieces of some length.
fn stream_of(output: &str, piece: usize) -> Vec<String> {
    let items: Vec<&RawValue> = serde_json::from_str(output).unwrap();
    let mut list = Vec::new();
    for (index, raw) in items.iter().map(|raw| raw.get()).enumerate() {
        let mut begun: Value = serde_json::from_str(raw).unwrap();
        let id = begun["id"].as_str().unwrap_or_default().to_owned();
        let text = match begun["type"].as_str() {
            Some("message") => begun["content"].take()[0]["text"].as_str().map(|text| ("output_text", text.to_owned())),
            Some("function_call") => {
                begun["arguments"].take().as_str().map(|text| ("function_call_arguments", text.to_owned()))
            }
            _ => None,
        };
        list.push(item("added", index, &begun.to_string()));
        if let Some((event, text)) = text {
            let chars: Vec<char> = text.chars().collect();
            let pieces = chars.chunks(piece).map(|piece| json!(piece.iter().collect::<String>()).to_string());
            list.extend(pieces.map(|piece| delta(event, index, &id, &piece)));
        }
        list.push(item("done", index, raw));
    }
    list
}

proptest! {
    /// Contract 8.1: a streamed reply is the plain one.
    #[test]
    fn streamed_equals_plain(output in properties::output(), piece in 1usize..5, keeps_output in any::<bool>()) {
        let end = ended("completed", if keeps_output { &output } else { "[]" });
        let plain: Value = serde_json::from_str(&end).unwrap();
        let mut plain = STYLE.decode(plain["response"].to_string().as_bytes()).unwrap();
        let items: Vec<&RawValue> = serde_json::from_str(&output).unwrap();
        let raw = format!("[{}]", items.iter().map(|item| item.get()).collect::<Vec<_>>().join(","));
        let own = STYLE.decode(format!(r#"{{"output":{raw}}}"#).as_bytes()).unwrap();
        plain = Reply { usage: plain.usage, model: plain.model, ..own };
        let lines = |event: &String| event.replace('\n', "\ndata: ");
        let list: Vec<String> = stream_of(&output, piece).iter().map(lines).collect();
        prop_assert_eq!(reply(STYLE, &body(&list, &lines(&end))), plain);
    }
}
