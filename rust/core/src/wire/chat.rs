//! What callers of Chat Completions say beside the messages, read for every style: tools, and request
//! parameters in the words of the style.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::json::Json;
use crate::tool::ToolSpec;
use crate::wire::{Profile, Style, WireError};

/// Why a list of tools cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ToolsError {
    /// Not a tool of Chat Completions.
    #[error("tools[{at}] is no function tool of Chat Completions: {reason}")]
    Shape {
        /// Its place.
        at: usize,
        /// What is wrong.
        reason: String,
    },
    /// Not a list.
    #[error("tools must be a list")]
    List,
}

/// The tools of a JSON list as Chat Completions declares them. `strict` is not looked at.
pub fn tools(list: &str) -> Result<Vec<ToolSpec>, ToolsError> {
    #[derive(Deserialize)]
    struct Tool {
        r#type: String,
        function: Option<Function>,
    }
    #[derive(Deserialize)]
    struct Function {
        name: String,
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        parameters: Option<Json>,
    }
    let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).map_err(|_| ToolsError::List)?;
    let read = |(at, tool): (usize, &&serde_json::value::RawValue)| {
        let refuse = |reason: &str| ToolsError::Shape { at, reason: reason.to_owned() };
        let tool: Tool = serde_json::from_str(tool.get()).map_err(|error| refuse(&place(&error)))?;
        let Some(function) = tool.function.filter(|_| tool.r#type == "function") else {
            return Err(refuse(&format!("its type is {:?}", tool.r#type)));
        };
        if function.name.is_empty() {
            return Err(refuse("its name is empty"));
        }
        Ok(ToolSpec {
            name: function.name,
            description: function.description.unwrap_or_default(),
            schema: function.parameters.filter(|schema| schema.get() != "null").unwrap_or_else(Json::empty_object),
        })
    };
    list.iter().enumerate().map(read).collect()
}

/// Request parameters of Chat Completions in a style's words, behind the client's own in the provider's
/// words. What a style has no word for is an error: nothing is left out silently.
pub fn params(
    style: Style,
    profile: Option<&Profile>,
    own: &[(String, Json)],
    chat: &[(String, Json)],
) -> Result<Vec<(String, Json)>, WireError> {
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

fn place(error: &serde_json::Error) -> String {
    format!("{:?} error at column {}", error.classify(), error.column())
}

const GENERATION: &str = "generationConfig";

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
