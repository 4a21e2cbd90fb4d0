//! The content of a canonical message, borrowed from its JSON: strings stay escaped as they are.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::json::unquoted;
use crate::message::{Fields, Message};

/// The fields of a message that an encoder looks at.
pub(super) struct View<'a> {
    pub(super) content: Shown<'a>,
    /// The parts beside the text of a result.
    pub(super) parts: Vec<&'a RawValue>,
}

/// Content: none, a JSON string, or content parts.
pub(super) enum Shown<'a> {
    None,
    Text(&'a str),
    Parts(Vec<&'a RawValue>),
}

/// One content part or block, as far as it is read here. Anything of another type is left alone.
#[derive(Default, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) image_url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) file: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) citations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) is_error: Option<&'a RawValue>,
}

/// Keeps `null` apart from an absent key: only the latter has no place in the text.
pub(super) fn present<'de: 'a, 'a, D: Deserializer<'de>>(reader: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(reader).map(Some)
}

impl<'a> Part<'a> {
    /// Reads an object; any other value is a part that says nothing.
    pub(super) fn read(raw: &'a RawValue) -> Self {
        if !raw.get().starts_with('{') {
            return Self::default();
        }
        serde_json::from_str(raw.get()).unwrap_or_else(|_| Self::of(&Loose::read(raw.get())))
    }

    /// Whether it is a text of no character.
    pub(super) fn is_empty_text(&self) -> bool {
        self.kind == "text" && self.text.is_none_or(|text| text.get() == r#""""#)
    }

    fn of(fields: &Loose<'a>) -> Self {
        Self {
            kind: string(fields.get("type")).unwrap_or_default(),
            text: fields.filled("text"),
            refusal: fields.filled("refusal"),
            id: fields.get("id"),
            name: fields.get("name"),
            input: fields.get("input"),
            image_url: fields.filled("image_url"),
            file: fields.filled("file"),
            thinking: fields.filled("thinking"),
            citations: fields.filled("citations"),
            source: fields.filled("source"),
            title: fields.filled("title"),
            tool_use_id: fields.filled("tool_use_id"),
            content: fields.filled("content"),
            is_error: fields.filled("is_error"),
        }
    }
}

/// The fields of an object that names a key twice, where the last one counts, or that has a value of an
/// odd type: what else it says must not get lost, as a call in it would go without a result.
pub(super) struct Loose<'a>(Option<Fields<'a>>);

impl<'a> Loose<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        Self(serde_json::from_str(text).ok())
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.as_ref()?.get(key)
    }

    /// A field that is not null.
    pub(super) fn filled(&self, key: &str) -> Option<&'a RawValue> {
        self.get(key).filter(|value| value.get() != "null")
    }
}

impl<'a> View<'a> {
    pub(super) fn of(message: &'a Message) -> Self {
        #[derive(Deserialize)]
        struct Extras<'a> {
            #[serde(borrow, default)]
            parts: Option<Vec<&'a RawValue>>,
        }
        let Ok(fields) = serde_json::from_slice::<Fields<'_>>(message.json()) else {
            return Self { content: Shown::None, parts: Vec::new() };
        };
        let extras = fields.get("toolrelay").and_then(|extras| serde_json::from_str::<Extras<'_>>(extras.get()).ok());
        Self {
            content: fields.get("content").map_or(Shown::None, Shown::read),
            parts: extras.and_then(|extras| extras.parts).unwrap_or_default(),
        }
    }
}

impl<'a> Shown<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        match raw.get().as_bytes().first() {
            Some(b'"') => Self::Text(raw.get()),
            Some(b'[') => serde_json::from_str(raw.get()).map_or(Self::None, Self::Parts),
            _ => Self::None,
        }
    }
}

/// The text of a JSON string; nothing for any other value.
pub(super) fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    unquoted(raw?.get())
}

/// Whether a JSON string says nothing; true for any other value.
pub(super) fn is_blank(raw: &str) -> bool {
    match raw.as_bytes() {
        [b'"', b'"'] => true,
        [b'"', first, ..] if !first.is_ascii_whitespace() && *first != b'\\' && first.is_ascii() => false,
        [b'"', ..] => serde_json::from_str::<Cow<'_, str>>(raw).is_ok_and(|text| text.trim().is_empty()),
        _ => true,
    }
}

/// The place of `inner` in `outer`, of which it is a slice.
pub(super) fn span(outer: &str, inner: &RawValue) -> std::ops::Range<usize> {
    let start = (inner.get().as_ptr() as usize).saturating_sub(outer.as_ptr() as usize);
    start..start + inner.get().len()
}
