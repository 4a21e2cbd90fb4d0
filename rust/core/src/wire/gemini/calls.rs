//! Calls of the model as parts: encoded anew, or the provider's own parts with what must change.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::push_part;
use crate::json::{push_str, quoted};
use crate::message::{Call, Fields};
use crate::reply::Provider;
use crate::wire::content::{Loose, present, span, string};
use crate::wire::names::{gemini_name, wire_id};
use crate::wire::{Anew, Style, arguments};

/// A part of the provider, as far as it is read here. Anything else is left alone.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnPart<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    /// Whether the text is the model's thought; a signature alone does not say so (fault F7).
    #[serde(borrow, default)]
    pub(super) thought: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) function_call: Option<&'a RawValue>,
}

/// A call in a part.
#[derive(Default, Deserialize)]
pub(super) struct OwnCall<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) args: Option<&'a RawValue>,
}

impl<'a> OwnPart<'a> {
    /// Reads an object; any other value is a part that says nothing.
    pub(super) fn read(text: &'a str) -> Self {
        if !text.starts_with('{') {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_else(|_| {
            let fields = Loose::read(text);
            Self {
                text: fields.filled("text"),
                thought: fields.filled("thought"),
                thought_signature: fields.get("thoughtSignature"),
                function_call: fields.filled("functionCall"),
            }
        })
    }

    pub(super) fn call(&self) -> Option<OwnCall<'a>> {
        self.function_call.map(|call| OwnCall::read(call.get()))
    }

    pub(super) fn is_thought(&self) -> bool {
        self.thought.is_some_and(|thought| thought.get() == "true")
    }

    /// Text without a character and without a signature: the provider gives such parts and takes none.
    fn is_empty_text(&self) -> bool {
        self.text.is_some_and(|text| text.get() == r#""""#) && self.thought_signature.is_none()
    }
}

impl<'a> OwnCall<'a> {
    fn read(text: &'a str) -> Self {
        if !text.starts_with('{') {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_else(|_| {
            let fields = Loose::read(text);
            Self { id: fields.get("id"), name: fields.get("name"), args: fields.get("args") }
        })
    }

    /// The id, where the provider gave one.
    pub(super) fn given_id(&self) -> Option<Cow<'_, str>> {
        string(self.id).filter(|id| !id.is_empty())
    }
}

/// Appends a call that the provider did not sign. The first of a turn must have a signature, and this
/// is the one that the provider documents for calls of other models (fault F6).
pub(super) fn push(out: &mut Vec<u8>, name: &str, arguments: &str, is_first: bool) {
    let mut part = br#"{"functionCall":{"name":"#.to_vec();
    push_str(&mut part, &gemini_name(name));
    part.extend_from_slice(br#","args":"#);
    part.extend_from_slice(arguments::for_wire(arguments).as_bytes());
    part.extend_from_slice(if is_first { UNSIGNED_TAIL.as_bytes() } else { b"}}" });
    push_part(out, &part);
}

/// How the result of a call begins. It has an id only if the provider gave the call one: some of its
/// servers refuse any other (fault B7).
pub(super) fn head(id: Option<&str>, name: &str) -> Bytes {
    let id = id.map(|id| format!(r#""id":{},"#, quoted(id))).unwrap_or_default();
    format!(r#"{{"functionResponse":{{{id}"name":{},"#, quoted(&gemini_name(name))).into()
}

/// The provider's own parts, byte for byte but for what it would refuse: empty texts, empty
/// signatures, an id that stood twice, a name or arguments that are none, a first call without a
/// signature. `None` when they do not hold the message's calls.
pub(super) fn from_raw(provider: &Provider, calls: &[Call]) -> Option<Anew> {
    if provider.style != Style::Gemini {
        return None;
    }
    let parts: Vec<&RawValue> = serde_json::from_str(&provider.raw).ok()?;
    let mut heads = Vec::with_capacity(calls.len());
    let mut out = Vec::with_capacity(provider.raw.len());
    let mut is_whole = true;
    for raw in parts {
        let part = without_empty_signature(raw.get());
        let facts = OwnPart::read(&part);
        if facts.is_empty_text() {
            is_whole = false;
            continue;
        }
        let sent = match facts.call() {
            Some(own) => {
                let call = calls.get(heads.len())?;
                let id = own.given_id().map(|_| wire_id(Style::Gemini, call.id.as_str()));
                let patched = patched(&part, &facts, &own, call, heads.is_empty());
                heads.push(head(id.as_deref(), &call.name));
                patched
            }
            None => Cow::Borrowed(part.as_ref()),
        };
        is_whole &= sent == raw.get();
        push_part(&mut out, sent.as_bytes());
    }
    if heads.len() != calls.len() {
        return None;
    }
    if is_whole {
        let inner = provider.raw.trim_ascii().strip_prefix('[')?.strip_suffix(']')?;
        out = inner.trim_ascii().as_bytes().to_vec();
    }
    Some(Anew { body: out.into(), heads, ..Anew::default() })
}

/// A part without a signature that is empty, which the provider refuses.
fn without_empty_signature(part: &str) -> Cow<'_, str> {
    let is_empty = |key: &str, value: &RawValue| key == "thoughtSignature" && matches!(value.get(), r#""""# | "null");
    let fields = Fields::of(part.as_bytes()).filter(|fields| fields.0.iter().any(|(key, value)| is_empty(key, value)));
    let Some(fields) = fields else { return Cow::Borrowed(part) };
    let kept = fields.0.iter().filter(|(key, value)| !is_empty(key, value));
    let kept: Vec<String> = kept.map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    Cow::Owned(format!("{{{}}}", kept.join(",")))
}

/// A part with a call whose id, name, arguments or signature must be others; the rest of it stays.
fn patched<'a>(part: &'a str, facts: &OwnPart<'a>, own: &OwnCall<'a>, call: &Call, is_first: bool) -> Cow<'a, str> {
    let is_empty = |inner: &RawValue| Fields::of(inner.get().as_bytes()).is_none_or(|fields| fields.0.is_empty());
    let Some(inner) = facts.function_call.filter(|inner| !is_empty(inner)) else {
        let mut anew = Vec::new();
        push(&mut anew, &call.name, &call.arguments, is_first);
        return Cow::Owned(String::from_utf8(anew).unwrap_or_default());
    };
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let start = span(part, inner).start + 1;
    let mut put = |old: Option<&RawValue>, key: &str, new: String| match old {
        Some(old) => edits.push((span(part, old), new)),
        None => edits.push((start..start, format!(r#""{key}":{new},"#))),
    };
    let id = wire_id(Style::Gemini, call.id.as_str());
    if own.given_id().is_some_and(|given| given != id) {
        put(own.id, "id", quoted(&id));
    }
    let name = gemini_name(&call.name);
    if string(own.name).is_none_or(|own| own != name) {
        put(own.name, "name", quoted(&name));
    }
    if own.args.is_some_and(|args| !args.get().starts_with('{')) {
        put(own.args, "args", arguments::for_wire(&call.arguments).into_owned());
    }
    if is_first && facts.thought_signature.is_none() {
        edits.push((1..1, format!("{SIGNATURE},")));
    }
    // From the end on, so that the places before an edit stay true.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut text = Cow::Borrowed(part);
    for (place, new) in edits {
        text.to_mut().replace_range(place, &new);
    }
    text
}

const SIGNATURE: &str = r#""thoughtSignature":"skip_thought_signature_validator""#;

const UNSIGNED_TAIL: &str = r#"},"thoughtSignature":"skip_thought_signature_validator"}"#;
