//! Replies in the shape of Chat Completions, as a whole and in chunks.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop, Usage};
use toolrelay_core::tool::ToolSpec;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::completion::Completion;
use toolrelay_core::wire::names::wire_name;
use toolrelay_core::wire::stream::Delta;

use crate::streamed::{Streamed, feed};
use crate::written::written;
use crate::{messages_of, tool_spec};

fn completion(tools: &[ToolSpec], messages: &[Message]) -> Completion {
    Completion::new([7; 32], 1_700_000_000, "m-1", tools, messages)
}

fn whole(reply: Reply) -> Value {
    serde_json::from_str(&completion(&[], &[]).whole(reply)).unwrap()
}

fn called(id: Option<&str>, name: &str, arguments: &str) -> ReplyCall {
    ReplyCall { id: id.map(str::to_owned), name: name.into(), arguments: arguments.into() }
}

/// What a client of the official package puts together from chunks.
fn put_together(chunks: &[String]) -> Value {
    let mut message = json!({});
    let mut calls: Vec<Value> = Vec::new();
    let mut finish_reason = Value::Null;
    for chunk in chunks {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let Some(choice) = chunk["choices"].get(0) else { continue };
        assert!(finish_reason.is_null(), "nothing follows the end");
        finish_reason = choice["finish_reason"].clone();
        for (key, value) in choice["delta"].as_object().unwrap() {
            match (key.as_str(), value) {
                ("tool_calls", pieces) => {
                    for piece in pieces.as_array().unwrap() {
                        let at = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
                        if piece.get("id").is_some() {
                            assert_eq!(at, calls.len());
                            let mut call = piece.clone();
                            call.as_object_mut().unwrap().remove("index");
                            calls.push(call);
                        } else {
                            let more = piece["function"]["arguments"].as_str().unwrap();
                            let known = &mut calls[at]["function"]["arguments"];
                            *known = Value::from(known.as_str().unwrap().to_owned() + more);
                        }
                    }
                }
                (_, Value::String(more)) => {
                    let known = message[key].as_str().unwrap_or_default().to_owned();
                    message[key] = Value::from(known + more);
                }
                _ => message[key] = value.clone(),
            }
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls);
    }
    json!({"message": message, "finish_reason": finish_reason})
}

fn in_chunks(deltas: &[Delta], reply: &Reply, with_usage: bool) -> Vec<String> {
    let mut completion = completion(&[], &[]);
    if with_usage {
        completion = completion.with_usage();
    }
    let mut chunks = completion.chunks(deltas);
    chunks.extend(completion.end(reply));
    chunks
}

#[test]
fn a_whole_reply_has_the_shape_of_the_response() {
    let tools = [tool_spec("dock/moor.boat", "", "{}")];
    let wire = wire_name("dock/moor.boat");
    let reply = Reply {
        text: "let me see".into(),
        calls: vec![called(Some("k1"), &wire, r#"{ "n":1}"#), called(None, "tally", " ")],
        stop: Stop::Calls,
        usage: Usage {
            input_tokens: 9,
            output_tokens: 4,
            cached_tokens: 3,
            cache_write_tokens: 2,
            reasoning_tokens: 1,
        },
        model: Some("m-1-2026".into()),
        ..Reply::default()
    };
    let mut shown: Value = serde_json::from_str(&completion(&tools, &[]).whole(reply)).unwrap();
    let minted = shown["choices"][0]["message"]["tool_calls"][1]["id"].take();
    assert!(minted.as_str().unwrap().starts_with("call_"));
    let id = shown["id"].take();
    assert!(id.as_str().unwrap().starts_with("chatcmpl-"));
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    assert_eq!(
        shown,
        json!({
            "id": null,
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "m-1-2026",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "let me see", "refusal": null, "tool_calls": [
                    {"id": "k1", "type": "function", "function": function("dock/moor.boat", r#"{ "n":1}"#)},
                    {"id": null, "type": "function", "function": function("tally", "{}")},
                ]},
                "logprobs": null,
                "finish_reason": "tool_calls",
            }],
            "usage": {
                "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        })
    );
}

/// What a reply's calls are decides (faults E1, E2), but for those that must not run (faults E6, E8).
/// This library's own word stands beside where Chat Completions has none (fault E9).
#[test]
fn each_end_has_its_word() {
    let table = [
        (Stop::End, false, "stop", None),
        (Stop::End, true, "tool_calls", None),
        (Stop::Calls, false, "stop", None),
        (Stop::Length, true, "length", None),
        (Stop::ContextOverflow, false, "length", Some("context_overflow")),
        (Stop::Filtered, true, "content_filter", None),
        (Stop::Refused, false, "stop", Some("refusal")),
        (Stop::Refused, true, "content_filter", Some("refusal")),
        (Stop::Malformed, false, "stop", Some("malformed_call")),
        (Stop::Malformed, true, "content_filter", Some("malformed_call")),
        (Stop::Paused, false, "stop", Some("pause")),
        (Stop::Other("odd".into()), false, "stop", Some("odd")),
    ];
    for (stop, has_calls, word, own) in table {
        let calls = if has_calls { vec![called(Some("k1"), "n", "{}")] } else { Vec::new() };
        let shown = whole(Reply { text: "x".into(), calls, stop: stop.clone(), ..Reply::default() });
        let choice = &shown["choices"][0];
        assert_eq!(choice["finish_reason"], word, "{stop:?}");
        assert_eq!(choice["message"].get("tool_calls").is_some(), has_calls, "{stop:?}");
        assert_eq!(choice["message"]["refusal"].is_string(), stop == Stop::Refused);
        assert_eq!(shown.pointer("/toolrelay/finish_reason").and_then(Value::as_str), own, "{stop:?}");
    }
}

/// Contract 1.7.
#[test]
fn ids_are_new_in_the_messages_and_in_the_reply() {
    let before = [Message::assistant_reply("", vec![crate::call("k1", "n", "{}")], None)];
    let made = [called(Some("k1"), "n", "{}"), called(Some("k2"), "n", "{}"), called(Some("k2"), "n", "{}")];
    let reply = Reply { calls: made.to_vec(), stop: Stop::Calls, ..Reply::default() };
    let shown: Value = serde_json::from_str(&completion(&[], &before).whole(reply.clone())).unwrap();
    let calls = &shown["choices"][0]["message"]["tool_calls"];
    let ids: Vec<&str> = calls.as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids[1], "k2");
    assert!(ids[0].starts_with("call_") && ids[2].starts_with("call_") && ids[0] != ids[2], "{ids:?}");

    let mut chunked = completion(&[], &before);
    let started =
        |(index, call): (usize, &ReplyCall)| Delta::CallStarted { index, id: call.id.clone(), name: call.name.clone() };
    let deltas: Vec<Delta> = made.iter().enumerate().map(started).collect();
    let mut chunks = chunked.chunks(&deltas);
    chunks.extend(chunked.end(&reply));
    assert_eq!(put_together(&chunks)["message"]["tool_calls"], *calls);
}

#[test]
fn chunks_begin_with_the_role_and_end_with_why_and_on_request_with_the_cost() {
    let deltas = [Delta::Text("hi".into())];
    let usage = Usage { input_tokens: 2, output_tokens: 1, ..Usage::default() };
    let reply = Reply { text: "hi".into(), usage, ..Reply::default() };
    let with = |with_usage| -> Vec<Value> {
        in_chunks(&deltas, &reply, with_usage).iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    };
    let chunks = with(true);
    let choice =
        |delta: Value, ended: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": ended}]);
    let choices: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"]).collect();
    assert_eq!(
        choices,
        [
            &choice(json!({"role": "assistant", "content": ""}), Value::Null),
            &choice(json!({"content": "hi"}), Value::Null),
            &choice(json!({}), json!("stop")),
            &json!([]),
        ]
    );
    assert_eq!(chunks[3]["usage"]["total_tokens"], 3);
    assert!(chunks[..3].iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["created"] == 1_700_000_000));
    let without = with(false);
    assert!(without.len() == 3 && without.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[test]
fn without_extras_there_is_nothing_but_chat_completions() {
    let body = r#"{"content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"hi"}],"stop_reason":"pause_turn"}"#;
    let reply = Style::Anthropic.decode(body.as_bytes()).unwrap();
    let own = |text: &str| text.contains("toolrelay");
    assert!(own(&completion(&[], &[]).whole(reply.clone())));
    assert!(!own(&completion(&[], &[]).plain().whole(reply.clone())));
    assert!(!completion(&[], &[]).plain().end(&reply).iter().any(|chunk| own(chunk)));
    let shown: Value = serde_json::from_str(&completion(&[], &[]).plain().whole(reply)).unwrap();
    assert_eq!(shown["choices"][0]["message"]["reasoning_content"], "hm");
}

#[test]
fn the_reasoning_of_each_style_is_shown() {
    let bodies = [
        (Style::OpenAi, r#"{"choices":[{"message":{"content":"x","reasoning_content":"so ","reasoning":"so "}}]}"#),
        (
            Style::OpenAi,
            r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"so "}]},{"type":"text","text":"x"}]}}]}"#,
        ),
        (
            Style::OpenAiResponses,
            r#"{"output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"so "}]}]}"#,
        ),
        (
            Style::Anthropic,
            r#"{"content":[{"type":"thinking","thinking":"s","signature":""},{"type":"text","text":"x"},{"type":"thinking","thinking":"o ","signature":""}]}"#,
        ),
        (Style::Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"so ","thought":true},{"text":"x"}]}}]}"#),
    ];
    for (style, body) in bodies {
        let shown = whole(style.decode(body.as_bytes()).unwrap());
        assert_eq!(shown["choices"][0]["message"]["reasoning_content"], "so ", "{style:?}");
    }
}

proptest! {
    /// A reply in chunks says what the same reply says as a whole.
    #[test]
    fn chunks_put_together_are_the_whole((style, written) in written()) {
        let Streamed { deltas, reply } = feed(style, [written.stream().as_bytes()]);
        let reply = reply.unwrap();
        let mut shown = put_together(&in_chunks(&deltas, &reply, true));
        let mut expected = whole(reply)["choices"][0].take();
        let fields = expected.as_object_mut().unwrap();
        fields.retain(|key, _| key == "message" || key == "finish_reason");
        let message = fields["message"].as_object_mut().unwrap();
        message.retain(|_, value| !value.is_null());
        message.entry("content").or_insert("".into());
        // Half a character at the end of a part is told behind the next one.
        if message.get("reasoning_content").is_some_and(|text| text.as_str().unwrap().contains('\u{fffd}')) {
            shown["message"]["reasoning_content"] = message["reasoning_content"].clone();
        }
        prop_assert_eq!(shown, expected);
    }

    /// Contract 8.2: what came as a message goes back to its provider byte for byte.
    #[test]
    fn a_message_goes_back_as_its_provider_made_it((style, written) in written()) {
        let reply = style.decode(written.plain.as_bytes()).unwrap();
        let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone().unwrap_or_default()).collect();
        let shown = whole(reply.clone());
        let message = shown["choices"][0]["message"].clone();
        let given: Vec<&str> = message["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].as_str().unwrap()).collect();
        prop_assume!(given == ids);
        let results = given.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "7"}));
        let mut messages = vec![json!({"role": "user", "content": "x"}), message.clone()];
        messages.extend(results);
        if given.is_empty() {
            messages.push(json!({"role": "user", "content": "y"}));
        }
        let came = Transcript::from_json(Bytes::from(Value::from(messages).to_string())).unwrap();
        let expected = crate::turn(&reply, &given);
        prop_assert_eq!(
            String::from_utf8(messages_of(style, came.messages())).unwrap(),
            String::from_utf8(messages_of(style, &expected)).unwrap()
        );
    }
}
