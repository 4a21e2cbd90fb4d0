//! What callers of Chat Completions say beside the messages, read for every style: tools, and request
//! parameters in the words of the style.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::json::Json;
use crate::tool::ToolSpec;
use crate::wire::{Head, Prefix, Profile, Style, ToolChoice, WireError};

/// What is wrong with a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {reason}")]
pub struct ToolsError {
    /// The place, such as `tools[0].function.name`.
    pub key: String,
    /// What is wrong there.
    pub reason: String,
}

/// The tools of a JSON list as Chat Completions declares them. `strict` is not looked at.
pub fn tools(list: &str) -> Result<Vec<ToolSpec>, ToolsError> {
    let list: Vec<&RawValue> = serde_json::from_str(list).map_err(|_| refused("tools", "expected a list"))?;
    list.iter().enumerate().map(|(at, tool)| tool_spec(&format!("tools[{at}]"), tool)).collect()
}

fn tool_spec(place: &str, json: &RawValue) -> Result<ToolSpec, ToolsError> {
    let within = |key: &str| format!("{place}.{key}");
    let tool = object(place, json)?;
    let function_place = within("function");
    let declared = match tool.get("type") {
        Some(given) if text(given).as_deref() != Some("function") => {
            let reason = format!("expected \"function\", got {}: there are only function tools here", told(given));
            return Err(refused(within("type"), reason));
        }
        declared => declared,
    };
    let Some(function) = tool.get("function") else {
        let reason = "missing: Chat Completions has a tool's name, description and parameters under this key";
        return Err(refused(function_place, reason));
    };
    if declared.is_none() {
        return Err(refused(within("type"), "missing: expected \"function\""));
    }
    let function = object(&function_place, function)?;
    let within = |key: &str| format!("{function_place}.{key}");
    let said = |key: &str| function.get(key).filter(|value| value.get() != "null");
    let read = |key: &str| match said(key) {
        None => Ok(None),
        Some(value) => {
            text(value).map(Some).ok_or_else(|| refused(within(key), format!("expected text, got {}", told(value))))
        }
    };
    let Some(name) = read("name")?.filter(|name| !name.is_empty()) else {
        return Err(refused(within("name"), "missing: a tool needs a name"));
    };
    let schema = match said("parameters") {
        Some(schema) if schema.get().starts_with('{') => Json::from(*schema),
        Some(other) => {
            return Err(refused(
                within("parameters"),
                format!("expected a JSON Schema as an object, got {}", told(other)),
            ));
        }
        None => {
            // A schema under another name would be lost.
            let beside = tool.iter().filter(|(key, _)| !matches!(key.as_str(), "type" | "function"));
            let mut lost = beside.map(|of| (place, of)).chain(function.iter().map(|of| (function_place.as_str(), of)));
            if let Some((place, (key, _))) = lost.find(|(_, (key, value))| is_like_a_schema(key, value)) {
                let reason = "not a key of Chat Completions: a tool's schema stands under function.parameters";
                return Err(refused(format!("{place}.{key}"), reason));
            }
            Json::empty_object()
        }
    };
    Ok(ToolSpec { name, description: read("description")?.unwrap_or_default(), schema })
}

fn refused(key: impl Into<String>, reason: impl Into<String>) -> ToolsError {
    ToolsError { key: key.into(), reason: reason.into() }
}

fn object<'a>(place: &str, json: &'a RawValue) -> Result<BTreeMap<String, &'a RawValue>, ToolsError> {
    serde_json::from_str(json.get()).map_err(|_| refused(place, format!("expected an object, got {}", told(json))))
}

fn is_like_a_schema(key: &str, value: &RawValue) -> bool {
    let key = key.to_ascii_lowercase();
    let keys = object(&key, value).unwrap_or_default();
    key.ends_with("schema") || key == "properties" || keys.contains_key("properties")
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A JSON value without its content, but for a short text.
fn told(value: &RawValue) -> &str {
    match value.get().as_bytes() {
        [b'"', .., b'"'] if value.get().len() <= LONGEST_TOLD => value.get(),
        [b'"', ..] => "text",
        [b'{', ..] => "an object",
        [b'[', ..] => "a list",
        [b't' | b'f', ..] => "a boolean",
        [b'n', ..] => "null",
        _ => "a number",
    }
}

/// Request parameters of Chat Completions in a style's words, behind the client's own in the provider's
/// words. What a style has no word for is an error: nothing is left out silently.
pub fn params(
    style: Style,
    profile: Option<&Profile>,
    own: &[(String, Json)],
    chat: &[(String, Json)],
) -> Result<Vec<(String, Json)>, WireError> {
    let is_given = |name: &str| chat.iter().any(|(key, json)| key == name && json.get() != "null");
    if is_given("max_tokens") && is_given("max_completion_tokens") {
        let expected = "left out where there is max_completion_tokens";
        return Err(WireError::Parameter { key: "max_tokens".to_owned(), expected });
    }
    let mut all: Vec<(String, Value)> = Vec::with_capacity(own.len() + chat.len());
    for (key, json) in chat {
        let value = value(json);
        if value.is_null() || (key == "n" && value == 1) {
            continue;
        }
        if key == "n" {
            return Err(WireError::Parameter { key: key.clone(), expected: "1" });
        }
        match style {
            Style::OpenAi => all.push((openai(key, profile), value)),
            Style::OpenAiResponses => responses(key, value, &mut all)?,
            Style::Anthropic => anthropic(key, value, &mut all)?,
            Style::Gemini => gemini(key, value, &mut all)?,
        }
    }
    let mut params = own.to_vec();
    for (key, mut value) in all {
        // An object of the same name that the client has stays, key by key.
        let known = params.iter().rev().find(|(known, _)| *known == key).map(|(_, json)| self::value(json));
        if let (Value::Object(new), Some(Value::Object(known))) = (&mut value, known) {
            let mut merged = known;
            merged.append(new);
            *new = merged;
        }
        let json = Json::of(&value).map_err(|_| WireError::Parameter { key: key.clone(), expected: "JSON" })?;
        params.push((key, json));
    }
    Ok(params)
}

/// The start of a single request. What is said about the use of tools where there are none, Chat Completions
/// refuses; in a run it is left out.
pub fn head(style: Style, head: &Head<'_>) -> Result<Prefix, WireError> {
    let prefix = style.head(head)?;
    let is_forced = head.tool_choice.is_some_and(ToolChoice::is_forced);
    let (key, expected) = match head.parallel_tool_calls {
        _ if prefix.has_tools => return Ok(prefix),
        _ if is_forced => ("tool_choice", "\"auto\" or \"none\" where there are no tools"),
        Some(_) => ("parallel_tool_calls", "left out where there are no tools"),
        None => return Ok(prefix),
    };
    Err(WireError::Parameter { key: key.to_owned(), expected })
}

fn openai(key: &str, profile: Option<&Profile>) -> String {
    let limit = profile.and_then(|profile| profile.output_limit.as_deref());
    match (key, limit) {
        ("max_tokens" | "max_completion_tokens", Some(limit)) => limit.to_owned(),
        (key, _) => key.to_owned(),
    }
}

fn responses(key: &str, value: Value, out: &mut Vec<(String, Value)>) -> Result<(), WireError> {
    match key {
        "max_tokens" | "max_completion_tokens" => out.push(("max_output_tokens".to_owned(), value)),
        "reasoning_effort" => nest(out, "reasoning", "effort", value),
        "verbosity" => nest(out, "text", "verbosity", value),
        "response_format" => nest(out, "text", "format", format(value)),
        key if SAME_IN_RESPONSES.contains(&key) => out.push((key.to_owned(), value)),
        _ => return Err(WireError::Untranslated { key: key.to_owned(), style: Style::OpenAiResponses }),
    }
    Ok(())
}

/// `response_format` has the schema one level deeper than Responses.
fn format(value: Value) -> Value {
    let Value::Object(mut format) = value else { return value };
    if let Some(Value::Object(schema)) = format.remove("json_schema") {
        format.extend(schema);
    }
    Value::Object(format)
}

fn anthropic(key: &str, value: Value, out: &mut Vec<(String, Value)>) -> Result<(), WireError> {
    match key {
        "max_tokens" | "max_completion_tokens" => out.push(("max_tokens".to_owned(), value)),
        "stop" => out.push(("stop_sequences".to_owned(), list(value))),
        "user" => nest(out, "metadata", "user_id", value),
        "model" | "temperature" | "top_p" => out.push((key.to_owned(), value)),
        _ => return Err(WireError::Untranslated { key: key.to_owned(), style: Style::Anthropic }),
    }
    Ok(())
}

fn gemini(key: &str, value: Value, out: &mut Vec<(String, Value)>) -> Result<(), WireError> {
    let name = match key {
        "max_tokens" | "max_completion_tokens" => "maxOutputTokens",
        "temperature" => "temperature",
        "top_p" => "topP",
        "seed" => "seed",
        "presence_penalty" => "presencePenalty",
        "frequency_penalty" => "frequencyPenalty",
        "stop" => {
            nest(out, GENERATION, "stopSequences", list(value));
            return Ok(());
        }
        "response_format" => {
            if let Some(schema) = value.pointer("/json_schema/schema") {
                nest(out, GENERATION, "responseJsonSchema", schema.clone());
            }
            if value["type"] != "text" {
                nest(out, GENERATION, "responseMimeType", Value::from("application/json"));
            }
            return Ok(());
        }
        _ => return Err(WireError::Untranslated { key: key.to_owned(), style: Style::Gemini }),
    };
    nest(out, GENERATION, name, value);
    Ok(())
}

/// Puts a value into an object of a name.
fn nest(out: &mut Vec<(String, Value)>, name: &str, key: &str, value: Value) {
    let at = out.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        out.push((name.to_owned(), Value::Object(Map::new())));
        out.len() - 1
    });
    if let Value::Object(object) = &mut out[at].1 {
        object.insert(key.to_owned(), value);
    }
}

fn list(value: Value) -> Value {
    if value.is_array() { value } else { json!([value]) }
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.get()).unwrap_or_default()
}

const GENERATION: &str = "generationConfig";

const LONGEST_TOLD: usize = 40;

const SAME_IN_RESPONSES: [&str; 11] = [
    "model",
    "temperature",
    "top_p",
    "top_logprobs",
    "user",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
];
