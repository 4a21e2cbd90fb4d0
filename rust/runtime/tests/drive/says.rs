//! What a model says, in the reply JSON of a style.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolrelay_core::wire::Style;

use crate::fixture::{Says, SaysCall};

/// The body of a reply; `None` when the style has no words for it.
pub(crate) fn body(style: Style, says: &Says) -> Option<String> {
    match style {
        Style::OpenAi => openai(says),
        Style::OpenAiResponses => responses(says),
        Style::Anthropic => anthropic(says),
        Style::Gemini => gemini(says),
    }
}

fn openai(says: &Says) -> Option<String> {
    let reason = match says.stop.as_deref() {
        None if says.calls.is_empty() => "stop",
        None => "tool_calls",
        Some("malformed_call") => "malformed_function_call",
        Some("context_overflow") => "model_context_window_exceeded",
        Some("pause") => return None,
        Some(word) => word,
    };
    let mut message = json!({"role": "assistant", "content": says.text, "refusal": null});
    if says.text.is_empty() {
        message["content"] = Value::Null;
    }
    if says.reasoned {
        message["reasoning_content"] = json!("hm");
    }
    if !says.calls.is_empty() {
        let call = |call: &SaysCall| {
            let mut entry = json!({
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}
            });
            if let Some(id) = &call.id {
                entry["id"] = json!(id);
            }
            entry
        };
        message["tool_calls"] = says.calls.iter().map(call).collect();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    Some(json!({"id": "c1", "model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 3}}).to_string())
}

fn responses(says: &Says) -> Option<String> {
    let (status, reason) = match says.stop.as_deref() {
        None | Some("stop" | "refusal") => ("completed", Value::Null),
        Some("tool_calls") if !says.calls.is_empty() => ("completed", Value::Null),
        Some("tool_calls" | "malformed_call" | "context_overflow" | "pause") => return None,
        Some("length") => ("incomplete", json!({"reason": "max_output_tokens"})),
        Some(word) => ("incomplete", json!({ "reason": word })),
    };
    let mut items = Vec::new();
    if says.reasoned {
        items.push(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "aG0="}));
    }
    if !says.text.is_empty() || says.stop.as_deref() == Some("refusal") {
        let part = match says.stop.as_deref() {
            Some("refusal") => json!({"type": "refusal", "refusal": says.text}),
            _ => json!({"type": "output_text", "text": says.text, "annotations": []}),
        };
        items.push(json!({"type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": [part]}));
    }
    for (at, call) in says.calls.iter().enumerate() {
        let mut item = json!({"type": "function_call", "name": call.name, "arguments": call.arguments});
        if let Some(id) = &call.id {
            item["call_id"] = json!(id);
            item["id"] = json!(format!("fc_{at}"));
        }
        items.push(item);
    }
    let reply = json!({
        "id": "resp_1", "object": "response", "status": status, "error": null, "incomplete_details": reason,
        "model": "m-1", "output": items, "usage": {"input_tokens": 3}
    });
    Some(reply.to_string())
}

fn anthropic(says: &Says) -> Option<String> {
    let reason = match says.stop.as_deref() {
        None if says.calls.is_empty() => "end_turn",
        Some("stop") => "end_turn",
        None | Some("tool_calls") => "tool_use",
        Some("length") => "max_tokens",
        Some("pause") => "pause_turn",
        Some("context_overflow") => "model_context_window_exceeded",
        Some("content_filter" | "malformed_call") => return None,
        Some(word) => word,
    };
    let mut blocks = Vec::new();
    if says.reasoned {
        blocks.push(r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#.to_owned());
    }
    if !says.text.is_empty() {
        blocks.push(json!({"type": "text", "text": says.text}).to_string());
    }
    for call in &says.calls {
        let id = call.id.as_ref().map(|id| format!(r#""id":{},"#, json!(id))).unwrap_or_default();
        let input = match call.arguments.as_str() {
            "" => String::new(),
            text => {
                let input: &RawValue = serde_json::from_str(text).ok()?;
                // A string is how an input that is no JSON comes: what is read is its text.
                if input.get() != text || text.starts_with('"') {
                    return None;
                }
                format!(r#","input":{input}"#)
            }
        };
        blocks.push(format!(r#"{{"type":"tool_use",{id}"name":{}{input}}}"#, json!(call.name)));
    }
    Some(format!(
        r#"{{"id":"m1","type":"message","role":"assistant","model":"m-1","content":[{}],"stop_reason":{},"usage":{{"input_tokens":3}}}}"#,
        blocks.join(","),
        json!(reason)
    ))
}

fn gemini(says: &Says) -> Option<String> {
    let reason = match says.stop.as_deref() {
        None | Some("stop") => "STOP",
        Some("tool_calls") if !says.calls.is_empty() => "STOP",
        Some("length") => "MAX_TOKENS",
        Some("content_filter") => "SAFETY",
        Some("malformed_call") => "MALFORMED_FUNCTION_CALL",
        Some("tool_calls" | "refusal" | "pause" | "context_overflow") => return None,
        Some(word) => word,
    };
    let mut parts = Vec::new();
    if says.reasoned {
        parts.push(r#"{"text":"hm","thought":true}"#.to_owned());
    }
    if !says.text.is_empty() {
        parts.push(json!({"text": says.text}).to_string());
    }
    for (at, call) in says.calls.iter().enumerate() {
        let id = call.id.as_ref().map(|id| format!(r#""id":{},"#, json!(id))).unwrap_or_default();
        let args = match call.arguments.as_str() {
            "" => String::new(),
            text => {
                let args: &RawValue = serde_json::from_str(text).ok()?;
                if args.get() != text {
                    return None;
                }
                format!(r#","args":{args}"#)
            }
        };
        let signature = if at == 0 { r#","thoughtSignature":"c2ln\/+8=""# } else { "" };
        parts.push(format!(r#"{{"functionCall":{{{id}"name":{}{args}}}{signature}}}"#, json!(call.name)));
    }
    Some(format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{}]}},"finishReason":{},"index":0}}],"modelVersion":"m-1","usageMetadata":{{"promptTokenCount":3}}}}"#,
        parts.join(","),
        json!(reason)
    ))
}
