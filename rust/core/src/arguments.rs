//! The arguments of a call, prepared once before anything runs or is shown (contract 2.4).

use serde_json::Value;
use thiserror::Error;

use crate::json::{self, Json};

/// Arguments that are one JSON object: the text to hand on, and its parsed form for a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The object as text. Integers of any size stay exact here.
    pub input: Json,
    /// The object, parsed. Numbers past 64 bits are floats here: look at it, do not hand it on.
    pub value: Value,
}

/// Why a model's argument text is not usable. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidArguments {
    /// Not JSON, or a number, key or depth that cannot be held.
    #[error("invalid arguments: {reason}; the arguments must be one JSON object, got {excerpt}")]
    NotJson {
        /// What the parser says.
        reason: String,
        /// The start of the text.
        excerpt: String,
    },
    /// JSON, but another type.
    #[error("invalid arguments: expected a JSON object, got {found}: {excerpt}")]
    NotObject {
        /// The type that was found.
        found: &'static str,
        /// The start of the text.
        excerpt: String,
    },
    /// An object that the tool's schema refuses.
    #[error("invalid arguments for {tool}: {reason}")]
    Refused {
        /// The tool's name.
        tool: String,
        /// What the schema says.
        reason: String,
    },
}

/// Reads a call's argument text. Empty, blank and `null` are `{}`; a string that holds exactly one
/// JSON object is unwrapped once (fault C3); anything else that is not an object is refused.
pub fn prepare(text: &str) -> Result<Prepared, InvalidArguments> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return Ok(Prepared { input: Json::empty_object(), value: Value::Object(serde_json::Map::new()) });
    }
    let mended = json::mend_escapes(trimmed);
    let value = read(&mended)?;
    if let Value::String(inner) = &value {
        let inner = json::mend_escapes(inner);
        if let Ok(unwrapped) = read(&inner)
            && unwrapped.is_object()
        {
            return finish(&inner, unwrapped);
        }
    }
    finish(&mended, value)
}

fn read(text: &str) -> Result<Value, InvalidArguments> {
    json::read_strict(text)
        .map_err(|error| InvalidArguments::NotJson { reason: error.to_string(), excerpt: excerpt(text) })
}

fn finish(text: &str, value: Value) -> Result<Prepared, InvalidArguments> {
    let found = match &value {
        Value::Object(_) => {
            let input = Json::parse(text)
                .map_err(|error| InvalidArguments::NotJson { reason: error.to_string(), excerpt: excerpt(text) })?;
            return Ok(Prepared { input, value });
        }
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
    };
    Err(InvalidArguments::NotObject { found, excerpt: excerpt(text) })
}

/// The first characters of a text, quoted, for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    let mut start: String = text.chars().take(EXCERPT_CHARS).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("`{start}`")
}

const EXCERPT_CHARS: usize = 80;
