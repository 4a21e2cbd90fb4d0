//! Chat Completions, streamed.

use toolrelay_core::reply::{Provider, Reply, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_core::wire::stream::Delta;

use crate::openai_stream_calls::{TALLY, calls};
use crate::streamed::{Streamed, asked, events, feed, reply, streamed, told};

const STYLE: Style = Style::OpenAi;

/// A stream whose deltas are these, then the end.
pub(crate) fn deltas(deltas: &[&str]) -> Vec<u8> {
    ending(deltas, "tool_calls")
}

fn ending(deltas: &[&str], reason: &str) -> Vec<u8> {
    let chunk =
        |delta: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}],"usage":null}}"#);
    let mut all: Vec<String> = deltas.iter().map(chunk).collect();
    all.push(format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#));
    all.push("[DONE]".to_owned());
    events(&all)
}

#[test]
fn whole_reply_is_read() {
    let body = events(&[
        r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{"content":"so "},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{"content":"b\u00e9"},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"k1","type":"function","function":{"name":"tally","arguments":""}}]}}]}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{ \"n\""}}]}}]}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1.0}"}}]}}]}"#,
        r#"{"id":"x","model":"m-1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}"#,
        r#"{"id":"x","model":"m-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
        "[DONE]",
    ]);
    let expected = Streamed {
        deltas: vec![
            Delta::Text("so bé".into()),
            Delta::CallStarted { index: 0, id: Some("k1".into()), name: "tally".into() },
            Delta::Arguments { index: 0, text: r#"{ "n":1.0}"#.into() },
        ],
        reply: Ok(Reply {
            text: "so bé".into(),
            calls: vec![asked(Some("k1"), "tally", r#"{ "n":1.0}"#)],
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
        }),
    };
    assert_eq!(streamed(STYLE, &body), expected);
}

/// Fault D8.
#[test]
fn d8_null_fields_say_nothing() {
    let delta = r#"{"role":null,"content":"hel","tool_calls":null,"function_call":null,"refusal":null}"#;
    assert_eq!(reply(STYLE, &deltas(&[delta, r#"{"content":null}"#, "null"])).text, "hel");
}

/// Fault D9.
#[test]
fn d9_events_without_a_choice_are_read() {
    let body = events(&[
        r#"{"id":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
        r#"{"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"start":0}}]}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[null,7]}"#,
        r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#,
    ]);
    let expected = Reply {
        text: "ok".into(),
        usage: Usage { input_tokens: 3, output_tokens: 1, ..Usage::default() },
        model: Some("m-1".into()),
        ..Reply::default()
    };
    assert_eq!(reply(STYLE, &body), expected);
}

/// Fault D10.
#[test]
fn d10_unexpected_fields_are_no_failure() {
    let odd = r#"{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0}]},"finish_reason":""}],"usage":{},"x_vendor":{"q":1}}"#;
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    assert_eq!(reply(STYLE, &events(&[odd, stop])), Reply { text: "a".into(), ..Reply::default() });
    let filled =
        [r#"{"index":0}"#, r#"{"index":0,"id":"k1"}"#, r#"{"index":0,"function":{"name":"tally","arguments":"{}"}}"#];
    assert_eq!(calls(&filled), [asked(Some("k1"), "tally", "{}")]);
    assert_eq!(streamed(STYLE, &events(&[odd])).reply.unwrap_err().kind, FailureKind::Connection);
}

/// Fault D19: cut before the finish reason, nothing comes of it; after it, the reply is whole.
#[test]
fn d19_reply_without_a_finish_reason_was_cut() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"k1","function":{"name":"moor","arguments":"{\"b\":2}"}}]}}]}"#;
    let cut = streamed(STYLE, &events(&[call])).reply.unwrap_err();
    assert_eq!((cut.kind, cut.is_retryable()), (FailureKind::Connection, true));
    assert_eq!(cut.message, "the stream ended before the reply was complete");
    assert_eq!(streamed(STYLE, &events(&[call, "[DONE]"])).reply.unwrap_err(), cut);
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    assert_eq!(reply(STYLE, &events(&[call, stop])).calls, [asked(Some("k1"), "moor", r#"{"b":2}"#)]);
    assert_eq!(streamed(STYLE, b"").reply.unwrap_err(), cut);
}

/// Faults D20 and G2: an error in a stream is the provider's, whatever was told before it.
#[test]
fn d20_error_events_are_failures() {
    let text = r#"{"choices":[{"index":0,"delta":{"content":"half"}}]}"#;
    let table = [
        (r#"data: {"choices":[],"error":{"code":400,"message":"bad tool"}}"#, FailureKind::BadRequest, "bad tool"),
        (r#"data: {"error":{"message":"upstream down","code":502}}"#, FailureKind::Server, "upstream down"),
        (r#"data: {"object":"error","message":"no","code":404}"#, FailureKind::NotFound, "no"),
        ("event: error\ndata: {\"message\":\"slow\",\"code\":429}", FailureKind::RateLimited, "slow"),
        ("event: error\ndata: gone", FailureKind::Server, "gone"),
        (
            r#"data: {"choices":[{"index":0,"error":{"code":503,"message":"x"},"finish_reason":"error"}]}"#,
            FailureKind::Server,
            "x",
        ),
    ];
    for (event, kind, message) in table {
        let body = format!("data: {text}\n\n{event}\n\ndata: [DONE]\n\n");
        let Streamed { deltas, reply } = streamed(STYLE, body.as_bytes());
        let failure = reply.unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message));
        assert_eq!(deltas, [Delta::Text("half".into())]);
    }
}

/// Faults E1 to E3, E5, E6, E9: the word is read, the calls are there whatever it is.
#[test]
fn e_finish_reasons_are_read() {
    let call = r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"tally","arguments":"{}"}}]}"#;
    let table = [
        (call, "stop", Stop::End, 1),
        (call, "tool_calls", Stop::Calls, 1),
        (call, "length", Stop::Length, 1),
        (call, "content_filter", Stop::Filtered, 1),
        (r#"{"content":"all set","tool_calls":[]}"#, "tool_calls", Stop::Calls, 0),
        (r#"{"content":"x"}"#, "model_context_window_exceeded", Stop::ContextOverflow, 0),
        (r#"{"content":"x"}"#, "Tide", Stop::Other("Tide".into()), 0),
        (r#"{"content":"","refusal":"cannot do that"}"#, "stop", Stop::Refused, 0),
    ];
    for (delta, reason, stop, calls) in table {
        let reply = reply(STYLE, &ending(&[delta], reason));
        assert_eq!((reply.stop, reply.calls.len()), (stop, calls), "{reason}");
    }
}

/// Fault E5: whatever comes first, the words of a refusal are told behind the text.
#[test]
fn words_of_a_refusal_are_told_behind_the_text() {
    let fields =
        [r#"{"refusal":"N"}"#, r#"{"content":"We"}"#, r#"{"refusal":"o."}"#, r#"{"content":"ll. ","refusal":null}"#];
    let parts =
        [r#"{"content":[{"type":"refusal","refusal":"No."}]}"#, r#"{"content":[{"type":"text","text":"Well. "}]}"#];
    for deltas in [&fields[..], &parts] {
        let Streamed { deltas, reply } = feed(STYLE, [&ending(deltas, "stop")[..]]);
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), reply.stop), ("Well. No.", Stop::Refused));
        assert_eq!(told(&deltas).0, reply.text);
    }
}

#[test]
fn other_choices_are_left_out() {
    let chunk = |index: u8, text: &str| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#)
    };
    assert_eq!(reply(STYLE, &events(&[chunk(1, "no"), chunk(0, "yes"), chunk(1, "no")])).text, "yes");
}

#[test]
fn whole_reply_in_one_event_is_read() {
    let event = r#"{"choices":[{"message":{"role":"assistant","content":"x","tool_calls":[{"id":"k1","function":{"name":"tally","arguments":"{}"}},{"id":"k2","function":{"name":"tally","arguments":"{}"}}]},"finish_reason":"stop"}]}"#;
    let reply = reply(STYLE, &events(&[event, event]));
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("x", 2));
}

#[test]
fn usage_of_the_choice_is_read() {
    let event = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3}}],"usage":null}"#;
    assert_eq!(reply(STYLE, &events(&[event])).usage.input_tokens, 3);
}

/// Contract 8.2, faults F11 and F6: what nobody here knows is put together, too.
#[test]
fn unknown_fields_are_kept() {
    let body = deltas(&[
        r#"{"role":"assistant","content":"","reasoning_content":"h"}"#,
        r#"{"role":"assistant","reasoning_content":"m","reasoning_details":[{"type":"reasoning.text","text":"h","format":"f","index":0}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"m","format":"f","index":0}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","index":0},{"type":"reasoning.encrypted","data":"x","index":0}]}"#,
        r#"{"mystery":{"b": 1.0,"a":[]}}"#,
        r#"{"mystery":{"b":2.0,"a":[1],"c":{"d":"e"}}}"#,
        r#"{"mystery":{"a":[2],"c":{"d":"f","type":"g"}},"content":null}"#,
        r#"{"tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":"c2ln"}},"id":"k1","type":"function","function":{"arguments":"{}","name":"tally","strict":true}}]}"#,
    ]);
    let Streamed { deltas, reply } = streamed(STYLE, &body);
    let raw = concat!(
        r#"{"role":"assistant","content":"","reasoning_content":"hm","#,
        r#""reasoning_details":[{"type":"reasoning.text","text":"hm","format":"f","index":0,"signature":"c2ln"},{"type":"reasoning.encrypted","data":"x","index":0}],"#,
        r#""mystery":{"b":2.0,"a":[1,2],"c":{"d":"ef","type":"g"}},"#,
        r#""tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}","strict":true},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}"#,
    );
    let reply = reply.unwrap();
    assert_eq!(reply.provider, Some(Provider { style: STYLE, raw: raw.into(), paused: false }));
    assert!(reply.reasoned);
    assert_eq!(deltas[0], Delta::Reasoning("hm".into()));
}

#[test]
fn reasoning_that_is_sent_twice_is_told_once() {
    let body =
        deltas(&[r#"{"reasoning":"h","reasoning_content":"h"}"#, r#"{"reasoning_content":"m","reasoning":"m"}"#]);
    assert_eq!(streamed(STYLE, &body).deltas, [Delta::Reasoning("hm".into())]);
}

#[test]
fn content_in_parts_is_put_together() {
    let body = deltas(&[
        r#"{"role":"assistant","content":""}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]},{"type":"text","text":"s"}]}"#,
        r#"{"content":"o"}"#,
        r#"{"content":""}"#,
        r#"{"content":[{"type":"reference","reference_ids":[1]},{"type":"text","text":"!"}]}"#,
    ]);
    let Streamed { deltas, reply } = streamed(STYLE, &body);
    assert_eq!(deltas, [Delta::Reasoning("hm".into()), Delta::Text("so!".into())]);
    let raw = r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"!"}]}"#;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.provider.unwrap().raw.as_str()), ("so!", raw));
    let halves = deltas_of(&[
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"\ud83d"}]}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"\ude00\ud83d"},{"type":"x"}]}]}"#,
        r#"{"content":[{"type":"text","text":"\ud83d"}]}"#,
    ]);
    assert_eq!(halves, [Delta::Reasoning("😀\u{fffd}".into()), Delta::Text("\u{fffd}".into())]);
    let started_as_text = deltas_of(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"text","text":"b"}]}"#]);
    assert_eq!(started_as_text, [Delta::Text("ab".into())]);
}

#[test]
fn calls_that_cannot_be_read_are_a_failure() {
    for calls in ["{}", "7", r#""x""#, "[null]", "[[]]", r#"[{"index":0,"function":"tally"}]"#] {
        let body = deltas(&[&format!(r#"{{"tool_calls":{calls}}}"#)]);
        assert_eq!(streamed(STYLE, &body).reply.unwrap_err().kind, FailureKind::Malformed, "{calls}");
    }
}

#[test]
fn message_of_too_many_fields_is_a_failure() {
    let fields: Vec<String> = (0..300).map(|at| format!(r#"{{"f{at}":1}}"#)).collect();
    let body = deltas(&fields.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(streamed(STYLE, &body).reply.unwrap_err().kind, FailureKind::Malformed);
}

fn deltas_of(list: &[&str]) -> Vec<Delta> {
    streamed(STYLE, &deltas(list)).deltas
}

/// Contract 8.7 and faults C6, C7: halves of a character in two events are one, lone ones are mended.
#[test]
fn split_surrogates_are_one_character() {
    for (pieces, text) in [
        (vec![r"\ud83d", r"\ude00"], "😀"),
        (vec![r"a\ud83d", r"\ude00b"], "a😀b"),
        (vec![r"a\ud83d", "b"], "a\u{fffd}b"),
        (vec![r"a\ud83d"], "a\u{fffd}"),
        (vec![r"a\\ud83d", r"\ude00"], "a\\ud83d\u{fffd}"),
        (vec![r"\\\ud83d", r"\ude00"], "\\😀"),
        (vec![r"\ud83d\ud83d", r"\ude00"], "\u{fffd}😀"),
        (vec![r"\ud83d", "", r"\ude00\u0000"], "😀\u{fffd}"),
    ] {
        for (key, delta) in [("content", Delta::Text as fn(String) -> Delta), ("reasoning", Delta::Reasoning)] {
            let all: Vec<String> = pieces.iter().map(|piece| format!(r#"{{"{key}":"{piece}"}}"#)).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            assert_eq!(deltas_of(&all), [delta(text.to_owned())]);
        }
        let start = TALLY.to_owned();
        let entry = |piece: &&str| format!(r#"{{"index":0,"function":{{"arguments":"{piece}"}}}}"#);
        let all: Vec<String> = std::iter::once(start).chain(pieces.iter().map(entry)).collect();
        assert_eq!(calls(&all.iter().map(String::as_str).collect::<Vec<_>>())[0].arguments, text);
    }
}
