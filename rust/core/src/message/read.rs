//! Reading messages that somebody else wrote, or an earlier process. Canonical ones keep their
//! bytes; others are brought into the canonical shape.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::id::CallId;
use crate::json::{self, Json};
use crate::message::{Assistant, Body, Call, Message, MessageError, Pending, ToolResult};
use crate::reply::Provider;
use crate::tool::Outcome;
use crate::wire::{Style, import};

/// The namespaced extras of a message.
#[derive(Default, Deserialize)]
pub(crate) struct Extras<'a> {
    #[serde(default)]
    pub(super) provider: Option<Provider>,
    #[serde(default)]
    pub(super) outcome: Outcome,
    #[serde(borrow, default)]
    pub(crate) parts: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) pending: Option<Box<Pending>>,
}

/// Reads one message of any shape: see [`read`](super::read), which tries the canonical shape first.
pub(super) fn read(json: &Bytes, text: &str, out: &mut Vec<Message>) -> Result<(), MessageError> {
    let fields: Fields<'_> = serde_json::from_str(text).map_err(unreadable)?;
    fields.each_once()?;
    let Some(role) = fields.get("role") else {
        return Err(MessageError::Shape { reason: "it has no role".to_owned() });
    };
    let role: Cow<'_, str> = field(role, "role")?;
    let content = fields.get("content");
    let is_canonical = fields.get("tool_calls").is_some() || fields.get("toolrelay").is_some();
    if let Some(content) = content.filter(|content| !is_canonical && import::is_blocks(content)) {
        out.extend(import::from_blocks(&role, content)?);
        return Ok(());
    }
    let body = match role.as_ref() {
        "system" | "developer" => Body::System,
        "user" => Body::User,
        "assistant" => {
            out.push(assistant(json, &fields)?);
            return Ok(());
        }
        "tool" => {
            out.push(tool(json, &fields)?);
            return Ok(());
        }
        _ => return Err(MessageError::Role { role: role.into_owned() }),
    };
    if content.is_none_or(|content| !is_content(content.get())) {
        return Err(MessageError::Shape {
            reason: format!("the content of a {role} message must be text or a list of parts"),
        });
    }
    out.push(Message::from_parts(json.clone(), body, false));
    Ok(())
}

fn assistant(json: &Bytes, fields: &Fields<'_>) -> Result<Message, MessageError> {
    let mut canonical = true;
    let mut extra = false;
    let mut calls = Vec::new();
    let mut provider = None;
    for (key, value) in &fields.0 {
        match key.as_ref() {
            "role" | "content" => {}
            "toolrelay" => provider = field::<Extras<'_>>(value, "toolrelay")?.provider,
            "tool_calls" => {
                let entries: Option<Vec<Fields<'_>>> = field(value, "tool_calls")?;
                canonical &= entries.as_ref().is_some_and(|entries| !entries.is_empty());
                for entry in entries.iter().flatten() {
                    let read = read_call(entry)?;
                    canonical &= read.is_canonical;
                    extra |= read.has_extras;
                    calls.push(read.call);
                }
            }
            // The words of a refusal once more.
            "refusal" if fields.get("content").is_some_and(|content| content.get() == value.get()) => canonical = false,
            _ => {
                canonical = false;
                extra |= !matches!(value.get(), "null" | "[]");
            }
        }
    }
    let content = fields.get("content").map(RawValue::get);
    if content.is_some_and(|text| text != "null" && !is_content(text)) {
        return Err(MessageError::Shape {
            reason: "the content of an assistant message must be text, a list of parts or null".to_owned(),
        });
    }
    if canonical && !extra && content.is_some_and(|text| text != "null" || !calls.is_empty()) {
        let body = Body::Assistant(Assistant { calls, provider });
        return Ok(Message::from_parts(json.clone(), body, false));
    }
    if extra && provider.is_none() {
        let raw = String::from_utf8_lossy(json).into_owned();
        provider = Some(Provider { style: Style::OpenAi, raw, paused: false });
    }
    let refusal = fields.get("refusal").map(RawValue::get).filter(|text| text.starts_with('"') && text.len() > 2);
    let content = match content {
        None | Some("null" | "\"\"") if refusal.is_some() => refusal.unwrap_or_default(),
        None | Some("null") if calls.is_empty() => "\"\"",
        None => "null",
        Some(text) => text,
    };
    Ok(Message::assistant_with(content.as_bytes(), calls, provider))
}

struct ReadCall {
    call: Call,
    /// Whether the entry has the canonical shape but for extras.
    is_canonical: bool,
    /// Whether it has keys that the canonical shape does not know.
    has_extras: bool,
}

/// One entry of `tool_calls`. An absent id is left empty for the repair to mint; arguments given
/// as an object become its text (fault C5).
fn read_call(entry: &Fields<'_>) -> Result<ReadCall, MessageError> {
    let has_others =
        |fields: &Fields<'_>, known: &[&str]| fields.0.iter().any(|(key, _)| !known.contains(&key.as_ref()));
    entry.each_once()?;
    let id: Option<String> = entry.get("id").map(|id| field(id, "id")).transpose()?.flatten();
    let function: Fields<'_> = match entry.get("function") {
        Some(function) => field(function, "function")?,
        None => return Err(MessageError::Shape { reason: "a tool call has no function".to_owned() }),
    };
    function.each_once()?;
    let name: String = match function.get("name") {
        Some(name) => field(name, "name")?,
        None => return Err(MessageError::Shape { reason: "a tool call has no name".to_owned() }),
    };
    let (arguments, is_text) = match function.get("arguments").map(RawValue::get) {
        Some(text) if text.starts_with('"') => (serde_json::from_str(text).map_err(unreadable)?, true),
        other => (other.filter(|text| *text != "null").unwrap_or_default().to_owned(), false),
    };
    Ok(ReadCall {
        is_canonical: id.is_some() && is_text && entry.get("index").is_none() && entry.get("type").is_some(),
        has_extras: has_others(entry, &["id", "type", "function", "index"])
            || has_others(&function, &["name", "arguments"]),
        call: Call { id: CallId::new(id.unwrap_or_default()), name, arguments },
    })
}

fn tool(json: &Bytes, fields: &Fields<'_>) -> Result<Message, MessageError> {
    let id: Option<String> = fields.get("tool_call_id").map(|id| field(id, "tool_call_id")).transpose()?.flatten();
    let extras: Extras<'_> =
        fields.get("toolrelay").map(|value| field(value, "toolrelay")).transpose()?.unwrap_or_default();
    let call = CallId::new(id.clone().unwrap_or_default());
    let content = fields.get("content").map(RawValue::get);
    let known =
        fields.0.iter().all(|(key, _)| matches!(key.as_ref(), "role" | "content" | "tool_call_id" | "toolrelay"));
    let readable = content.is_some_and(is_content);
    if id.is_some() && known && readable {
        let result = ToolResult { call, outcome: extras.outcome, pending: extras.pending };
        return Ok(Message::from_parts(json.clone(), Body::Tool(result), false));
    }
    let content = match content {
        Some(content) if readable => Cow::Borrowed(content),
        None | Some("null") => Cow::Borrowed("\"\""),
        Some(value) => Cow::Owned(json::quoted(value)),
    };
    Ok(match extras.pending {
        Some(pending) => Message::placeholder(&call, *pending),
        None => Message::tool_with(&call, &content, extras.outcome, extras.parts.map(Json::from).as_ref()),
    })
}

/// Whether a JSON value is text or a list of parts.
fn is_content(json: &str) -> bool {
    json.starts_with(['"', '['])
}

fn field<'a, T: Deserialize<'a>>(value: &'a RawValue, name: &str) -> Result<T, MessageError> {
    serde_json::from_str(value.get())
        .map_err(|error| MessageError::Shape { reason: format!("{name} is malformed ({:?} error)", error.classify()) })
}

/// Names the place but never the content.
pub(crate) fn unreadable(error: serde_json::Error) -> MessageError {
    MessageError::Shape {
        reason: format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()),
    }
}

/// The fields of an object in order, as they stand. The last of two equal keys counts.
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(crate) fn of(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Refuses an object that names a key twice: two readers could see two different messages.
    fn each_once(&self) -> Result<(), MessageError> {
        let repeats = |at: usize| self.0[..at].iter().any(|(earlier, _)| *earlier == self.0[at].0);
        let repeated = if self.0.len() <= FEW { (0..self.0.len()).find(|at| repeats(*at)) } else { self.repeated() };
        match repeated {
            Some(at) => Err(MessageError::Shape { reason: format!("the key {:?} stands twice", self.0[at].0) }),
            None => Ok(()),
        }
    }

    /// The place of a key that stands twice, among many.
    fn repeated(&self) -> Option<usize> {
        let mut seen = std::collections::HashSet::with_capacity(self.0.len());
        self.0.iter().position(|(key, _)| !seen.insert(key.as_ref()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(4);
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        reader.deserialize_map(Read)
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
        Borrowed::deserialize(reader).map(|key| Self(key.0))
    }
}

/// Fields that are compared one by one.
const FEW: usize = 16;
