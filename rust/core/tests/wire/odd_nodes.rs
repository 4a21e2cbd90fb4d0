//! Good replies with one node changed: each is read or refused, plain and streamed alike.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolrelay_core::reply::Reply;
use toolrelay_core::wire::Style;

use crate::stream_properties::is_told;
use crate::streamed::{Streamed, events, feed};
use crate::{answered, asked, messages_of, turn};

/// A reply of each style that has everything that is read, plain and as events.
fn good(style: Style) -> (Value, Vec<Value>) {
    match style {
        Style::OpenAi => (
            json!({"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
                "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "hi",
                    "reasoning_content": "hm", "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "tally", "arguments": "{}"}}]}}]}),
            vec![
                json!({"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "hm"}}]}),
                json!({"choices": [{"index": 0, "delta": {"content": "hi"}}]}),
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "k1", "type": "function", "function": {"name": "tally", "arguments": "{"}}]}}]}),
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}}]}),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}}),
            ],
        ),
        Style::OpenAiResponses => {
            let output = json!([{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "q"},
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "hi", "annotations": []}]},
                {"type": "function_call", "id": "fc_1", "call_id": "k1", "name": "tally", "arguments": "{}", "status": "completed"}]);
            let response = json!({"status": "completed", "model": "m", "output": output, "incomplete_details": null, "error": null,
                "usage": {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}});
            let events = vec![
                json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
                json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "hm"}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": output[0]}),
                json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []}}),
                json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "hi"}),
                json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 1, "content_index": 0, "text": "hi"}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": output[1]}),
                json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "fc_1", "call_id": "k1", "name": "tally", "arguments": ""}}),
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": "{}"}),
                json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 2, "arguments": "{}"}),
                json!({"type": "response.output_item.done", "output_index": 2, "item": output[2]}),
                json!({"type": "response.completed", "response": response}),
            ];
            (response, events)
        }
        Style::Anthropic => (
            json!({"type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 2, "output_tokens": 2, "cache_read_input_tokens": 1},
                "content": [{"type": "thinking", "thinking": "hm", "signature": "q"}, {"type": "text", "text": "hi"},
                    {"type": "tool_use", "id": "k1", "name": "tally", "input": {}}]}),
            vec![
                json!({"type": "message_start", "message": {"model": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 2, "cache_read_input_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "q"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}}),
                json!({"type": "content_block_stop", "index": 1}),
                json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "k1", "name": "tally", "input": {}}}),
                json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
                json!({"type": "content_block_stop", "index": 2}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ],
        ),
        Style::Gemini => {
            let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 1, "thoughtsTokenCount": 1, "cachedContentTokenCount": 1});
            let parts = [
                json!({"text": "hm", "thought": true}),
                json!({"text": "hi"}),
                json!({"functionCall": {"id": "k1", "name": "tally", "args": {}}, "thoughtSignature": "q"}),
            ];
            let chunk =
                |part: &Value| json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]});
            let mut events: Vec<Value> = parts.iter().map(chunk).collect();
            events.push(json!({"candidates": [{"index": 0, "content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m"}));
            let plain = json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m"});
            (plain, events)
        }
    }
}

/// The places of all nodes.
fn places(value: &Value, place: &str, out: &mut Vec<String>) {
    out.push(place.to_owned());
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                places(item, &format!("{place}/{at}"), out);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                places(item, &format!("{place}/{key}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What stands in a node's place, as JSON text.
fn odd() -> Vec<String> {
    let short =
        ["null", "{}", "[]", r#""""#, "0", "-1", "1e400", "true", "[null]", r#""\ud83d""#, r#""\u0000""#, "[[{}]]"];
    let long = [
        "9".repeat(5_000),
        format!("\"{}\"", "x".repeat(3_000)),
        format!("{}{}", "[".repeat(1_000), "]".repeat(1_000)),
        format!("{}1{}", r#"{"a":"#.repeat(1_000), "}".repeat(1_000)),
    ];
    short.into_iter().map(ToOwned::to_owned).chain(long).collect()
}

/// The JSON text with another in the node's place; if that is short, also beside it under the same key.
fn changed(value: &Value, place: &str, odd: &str) -> Vec<String> {
    const MARK: &str = "mark";
    let mut copy = value.clone();
    let Some(node) = copy.pointer_mut(place) else { return Vec::new() };
    let own = std::mem::replace(node, Value::from(MARK));
    let (text, mark) = (copy.to_string(), Value::from(MARK).to_string());
    let mut all = vec![text.replace(&mark, odd)];
    let key = place.rsplit('/').next().unwrap_or_default();
    let field = format!("\"{key}\":{mark}");
    if odd.len() < 20 {
        all.push(text.replace(&field, &format!("\"{key}\":{odd},\"{key}\":{own}")));
        all.push(text.replace(&field, &format!("\"{key}\":{own},\"{key}\":{odd}")));
    }
    all
}

fn all_changed(value: &Value) -> Vec<String> {
    let mut nodes = Vec::new();
    places(value, "", &mut nodes);
    let odd = odd();
    nodes.iter().flat_map(|place| odd.iter().flat_map(|odd| changed(value, place, odd))).collect()
}

/// What was read can be sent in any style, with every call in its place.
fn is_sound(reply: &Reply) -> bool {
    let ids: Vec<String> = (0..reply.calls.len()).map(|at| format!("call_{at}")).collect();
    let messages = turn(reply, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    Style::ALL.into_iter().all(|style| {
        let sent = messages_of(style, &messages);
        match serde_json::from_slice::<Value>(&sent) {
            Ok(shown) => asked(style, &shown).len() == ids.len() && asked(style, &shown) == answered(style, &shown),
            // Deeper than values go, or a number larger than they hold.
            Err(_) => serde_json::from_slice::<&RawValue>(&sent).is_ok(),
        }
    })
}

/// Contract 9.5.
#[test]
fn replies_with_an_odd_node_are_read_or_refused() {
    for style in Style::ALL {
        let (good, _) = good(style);
        let whole = style.decode(good.to_string().as_bytes()).unwrap();
        for body in all_changed(&good) {
            let reply = style.decode(body.as_bytes());
            assert!(reply.is_err() || reply == Ok(whole.clone()) || is_sound(&reply.unwrap()), "{style:?} {body:.500}");
        }
    }
}

/// Contracts 8.7 and 9.5. Of a reply that the provider sends in pieces alone, what was told is what it says.
#[test]
fn streams_with_an_odd_node_are_read_or_refused() {
    for style in Style::ALL {
        let (_, good) = good(style);
        let good_texts: Vec<String> = good.iter().map(ToString::to_string).collect();
        let whole = feed(style, [&events(&good_texts)[..]]).reply.unwrap();
        for (at, event) in good.iter().enumerate() {
            for changed in all_changed(event) {
                let mut texts = good_texts.clone();
                texts[at] = changed;
                let Streamed { deltas, reply } = feed(style, [&events(&texts)[..]]);
                let Ok(reply) = reply else { continue };
                assert!(reply == whole || is_sound(&reply), "{style:?} {:.500}", texts[at]);
                if matches!(style, Style::OpenAi | Style::Anthropic) {
                    assert!(is_told(&deltas, &reply), "{style:?} {:.500}", texts[at]);
                }
            }
        }
    }
}
