//! What a strict provider would say of a request body.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolrelay_core::wire::Style;

/// Whether a provider would take the request. `paused`: its own reply was paused before, so that
/// the model's message may come last.
pub(crate) fn check(style: Style, body: &[u8], paused: bool) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
    if has_key(&body, "toolrelay") {
        return Err("it holds an extra of this library".to_owned());
    }
    let messages = match style {
        Style::OpenAi | Style::Anthropic => list(&body, "messages")?,
        Style::OpenAiResponses => list(&body, "input")?,
        Style::Gemini => list(&body, "contents")?,
    };
    if messages.is_empty() {
        return Err("it has no messages".to_owned());
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant" || last["role"] == "model") && !paused {
        return Err("the model's message comes last".to_owned());
    }
    match style {
        Style::OpenAi => openai(messages),
        Style::OpenAiResponses => responses(messages),
        Style::Anthropic => anthropic(&body, messages),
        Style::Gemini => gemini(messages),
    }
}

/// How much of a body must be the start of the next one: all up to the end of its last message, or
/// of its last block.
pub(crate) fn kept(style: Style, body: &[u8]) -> &[u8] {
    let end: &[u8] = match style {
        Style::OpenAi | Style::OpenAiResponses => b"]}",
        Style::Anthropic | Style::Gemini => b"]}]}",
    };
    body.strip_suffix(end).unwrap_or(body)
}

fn openai(messages: &[Value]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut due: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = text(message, "tool_call_id")?;
            if due.is_empty() || due.remove(0) != id {
                return Err(format!("the result of {id} does not stand where it must"));
            }
            if message["content"].as_str().is_none_or(str::is_empty) {
                return Err(format!("the result of {id} has no text"));
            }
            continue;
        }
        if let Some(id) = due.first() {
            return Err(format!("the call {id} has no result"));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = text(call, "id")?;
            check_call(id, text(&call["function"], "name")?, 40, &mut ids)?;
            let arguments = text(&call["function"], "arguments")?;
            serde_json::from_str::<Map<String, Value>>(arguments).map_err(|error| format!("{id}: {error}"))?;
            due.push(id);
        }
        if message["tool_calls"].as_array().is_some_and(Vec::is_empty) {
            return Err("a list of calls is empty".to_owned());
        }
        if due.is_empty() && !message["content"].is_string() && !message["content"].is_array() {
            return Err(format!("a message says nothing: {message}"));
        }
    }
    due.first().map_or(Ok(()), |id| Err(format!("the call {id} has no result")))
}

fn responses(items: &[Value]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut due: Vec<&str> = Vec::new();
    let mut reasoned = false;
    for item in items {
        if item["type"] == "function_call_output" {
            let id = text(item, "call_id")?;
            if due.is_empty() || due.remove(0) != id {
                return Err(format!("the result of {id} does not stand where it must"));
            }
            if item["output"].as_str().is_none_or(str::is_empty) {
                return Err(format!("the result of {id} has no text"));
            }
        } else if item["type"] == "function_call" {
            let id = text(item, "call_id")?;
            check_call(id, text(item, "name")?, 64, &mut ids)?;
            let arguments = text(item, "arguments")?;
            serde_json::from_str::<Map<String, Value>>(arguments).map_err(|error| format!("{id}: {error}"))?;
            if item.get("id").is_some_and(|id| !id.as_str().is_some_and(|id| id.starts_with("fc_"))) {
                return Err(format!("the item of {id} has an id that is none: {item}"));
            }
            due.push(id);
        } else if let Some(id) = due.first()
            && item["role"] == "user"
        {
            return Err(format!("the call {id} has no result"));
        }
        let ours = item["role"] == "user" || item["type"] == "function_call_output";
        if reasoned && ours {
            return Err("nothing follows the reasoning that led to it".to_owned());
        }
        reasoned = item["type"] == "reasoning";
    }
    due.first().map_or(Ok(()), |id| Err(format!("the call {id} has no result")))
}

fn anthropic(body: &Value, messages: &[Value]) -> Result<(), String> {
    if !body["max_tokens"].is_u64() {
        return Err("max_tokens is missing".to_owned());
    }
    let mut ids = BTreeSet::new();
    let mut due: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != role {
            return Err(format!("message {at} must be the {role}'s"));
        }
        let mut others = false;
        let blocks = list(message, "content")?;
        if blocks.is_empty() {
            return Err(format!("message {at} is empty"));
        }
        for block in blocks {
            match text(block, "type")? {
                "tool_result" if role == "user" && !others => {
                    let id = text(block, "tool_use_id")?;
                    if due.is_empty() || due.remove(0) != id {
                        return Err(format!("the result of {id} does not stand where it must"));
                    }
                    if matches!(&block["content"], Value::String(text) if text.trim().is_empty()) {
                        return Err(format!("the result of {id} has no text"));
                    }
                }
                "tool_result" => return Err("a result stands behind other blocks".to_owned()),
                "tool_use" => {
                    let id = text(block, "id")?;
                    check_call(id, text(block, "name")?, 64, &mut ids)?;
                    if !block["input"].is_object() {
                        return Err(format!("the input of {id} is no object"));
                    }
                    due.push(id);
                }
                "text" if text(block, "text")?.trim().is_empty() => return Err("a text says nothing".to_owned()),
                _ => others = true,
            }
        }
        if role == "user"
            && let Some(id) = due.first()
        {
            return Err(format!("the call {id} has no result"));
        }
    }
    if !ids.is_empty() && list(body, "tools")?.is_empty() {
        return Err("the history has calls, but no tool is declared".to_owned());
    }
    due.first().map_or(Ok(()), |id| Err(format!("the call {id} has no result")))
}

fn gemini(contents: &[Value]) -> Result<(), String> {
    let mut due: Vec<&Value> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = text(content, "role")?;
        if at == 0 && role != "user" || !["user", "model"].contains(&role) {
            return Err(format!("content {at} may not be the {role}'s"));
        }
        let parts = list(content, "parts")?;
        if parts.is_empty() || parts.iter().any(|part| *part == json!({"text": ""})) {
            return Err(format!("content {at} holds nothing, or an empty part"));
        }
        let found = |key| parts.iter().filter_map(move |part| part.get(key)).collect::<Vec<_>>();
        let (calls, results) = (found("functionCall"), found("functionResponse"));
        let identity = |call: &Value| (call["name"].clone(), call["id"].as_str().unwrap_or_default().to_owned());
        if !due.iter().map(|call| identity(call)).eq(results.iter().map(|result| identity(result)))
            || (!results.is_empty() && results.len() != parts.len())
        {
            return Err(format!("the parts of content {at} are not the results that are due"));
        }
        for call in &calls {
            let name = text(call, "name")?;
            let first = name.bytes().next().unwrap_or_default();
            let starts = first.is_ascii_alphabetic() || first == b'_';
            if !starts || !is_legal(name, 64) || !(call["args"].is_object() || call["args"].is_null()) {
                return Err(format!("the call of {name} is not legal"));
            }
        }
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|part| part["thoughtSignature"].as_str().is_none_or(str::is_empty)) {
            return Err(format!("the first call of content {at} is not signed"));
        }
        if results.iter().any(|result| result["response"].as_object().is_none_or(|response| response.len() != 1)) {
            return Err(format!("a result of content {at} has another shape"));
        }
        due = calls;
    }
    if due.is_empty() { Ok(()) } else { Err("calls have no results".to_owned()) }
}

/// A call's id, new and legal, and its tool's name.
fn check_call<'a>(id: &'a str, name: &str, longest_id: usize, ids: &mut BTreeSet<&'a str>) -> Result<(), String> {
    if !is_legal(name, 64) || !is_legal(id, longest_id) {
        return Err(format!("the call {id} of {name} is not legal"));
    }
    if ids.insert(id) { Ok(()) } else { Err(format!("the id {id} stands twice")) }
}

fn is_legal(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("{key} is no list"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("{key} is no text in {value}"))
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, field)| name == key || has_key(field, key)),
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
