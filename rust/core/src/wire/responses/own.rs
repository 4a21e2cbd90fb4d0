//! The provider's own items of a reply, and how they go back to it.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::json::quoted;
use crate::message::{Call, Fields};
use crate::reply::Provider;
use crate::wire::content::{Shown, string};
use crate::wire::names::{wire_id, wire_name};
use crate::wire::{Anew, Encoded, Style, arguments};

/// A key and its new value; `None` leaves the key out.
type Change = (&'static str, Option<String>);

/// One item of an output array, or a part of one.
pub(super) struct Item<'a> {
    raw: &'a RawValue,
    fields: Option<Fields<'a>>,
    pub(super) kind: Cow<'a, str>,
}

impl<'a> Item<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        let fields: Option<Fields<'a>> = serde_json::from_str(raw.get()).ok();
        let kind = string(fields.as_ref().and_then(|fields| fields.get("type"))).unwrap_or_default();
        Self { raw, fields, kind }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.fields.as_ref()?.get(key)
    }

    /// The text of a field, if it says something.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        string(self.get(key)).filter(|text| !text.is_empty())
    }

    /// What names a call: its `call_id`, and where a server leaves that out, the id of the item (fault B9).
    pub(super) fn call_id(&self) -> Option<Cow<'a, str>> {
        self.text("call_id").or_else(|| self.text("id"))
    }

    /// Whether this is reasoning that only a provider which kept it could look up.
    fn is_bare(&self) -> bool {
        let has_content = self.get("content").is_some_and(|content| !matches!(content.get(), "null" | "[]"));
        self.kind == "reasoning" && self.text("encrypted_content").is_none() && !has_content
    }

    /// The item with other values for some keys.
    fn with(&self, changes: &[Change]) -> Cow<'a, str> {
        let Some(fields) = self.fields.as_ref().filter(|_| !changes.is_empty()) else {
            return Cow::Borrowed(self.raw.get());
        };
        let mut shown: Vec<String> = Vec::with_capacity(fields.0.len() + 1);
        let mut push = |key: &str, value: &str| shown.push(format!("{}:{value}", quoted(key)));
        for (key, value) in &fields.0 {
            match changes.iter().find(|(changed, _)| changed == key) {
                None => push(key, value.get()),
                Some((_, Some(new))) => push(key, new),
                Some((_, None)) => {}
            }
        }
        for (key, new) in changes.iter().filter(|(key, _)| self.get(key).is_none()) {
            if let Some(new) = new {
                push(key, new);
            }
        }
        Cow::Owned(format!("{{{}}}", shown.join(",")))
    }

    /// Keys that are null, which a reply may have and a request must not (fault F9): they go.
    fn noise(&self) -> Vec<Change> {
        let keys: &[&str] = match self.kind.as_ref() {
            "message" => &["status"],
            "function_call" => &["async", "namespace", "status"],
            "reasoning" => &["content", "status"],
            "output_text" => &["annotations", "logprobs"],
            _ => &[],
        };
        let is_null = |key: &&str| self.get(key).is_some_and(|value| value.get() == "null");
        let mut changes: Vec<Change> = keys.iter().copied().filter(is_null).map(|key| (key, None)).collect();
        if let Some(Shown::Parts(parts)) = self.get("content").filter(|_| self.kind == "message").map(Shown::read) {
            let parts: Vec<Self> = parts.into_iter().map(Self::read).collect();
            let shown: Vec<Cow<'_, str>> = parts.iter().map(|part| part.with(&part.noise())).collect();
            if shown.iter().any(|part| matches!(part, Cow::Owned(_))) {
                changes.push(("content", Some(format!("[{}]", shown.join(",")))));
            }
        }
        changes
    }

    /// What must be another for a call of the transcript: the id of the item goes when the call got
    /// an id that the provider never gave.
    fn changes_for(&self, call: &Call) -> Vec<Change> {
        let id = wire_id(Style::OpenAiResponses, call.id.as_str());
        let name = wire_name(&call.name);
        let sent = arguments::for_wire(&call.arguments);
        let differs = |key: &str, new: &str| string(self.get(key)).is_none_or(|own| own != new);
        let mut changes = Vec::new();
        if self.get("id").is_some() && self.call_id().is_none_or(|own| own != id) {
            changes.push(("id", None));
        }
        for (key, new) in [("call_id", id), ("name", name), ("arguments", sent)] {
            if differs(key, &new) {
                changes.push((key, Some(quoted(&new))));
            }
        }
        changes
    }
}

/// The items byte for byte, changed only where the provider would refuse them. `None` when they are
/// not the message's calls or another provider's.
///
/// - Reasoning that nothing of its reply follows is left out (fault F4).
/// - Keys are left out that are null (fault F9).
/// - A call whose id was minted, or whose name or arguments are not taken, is changed in its item.
/// - Unless the provider keeps its replies, bare reasoning is left out, and so are the ids of the
///   items beside it, which would ask for it (fault F5).
pub(super) fn items(provider: &Provider, calls: &[Call]) -> Option<Encoded> {
    if provider.style != Style::OpenAiResponses {
        return None;
    }
    let raws: Vec<&RawValue> = serde_json::from_str(&provider.raw).ok()?;
    let all: Vec<Item<'_>> = raws.into_iter().map(Item::read).collect();
    let kept = all.iter().rposition(|item| item.kind != "reasoning").map_or(0, |last| last + 1);
    let has_bare = all[..kept].iter().any(Item::is_bare);
    let mut is_whole = kept == all.len();
    let mut calls = calls.iter();
    let mut stateless = Vec::new();
    let mut stored = Vec::new();
    for item in &all[..kept] {
        let mut changes = item.noise();
        if item.kind == "function_call" {
            changes.extend(item.changes_for(calls.next()?));
        }
        is_whole &= changes.is_empty();
        stored.push(item.with(&changes));
        if has_bare && !item.is_bare() {
            if NAMED.contains(&item.kind.as_ref()) && !changes.iter().any(|(key, _)| *key == "id") {
                changes.push(("id", None));
            }
            stateless.push(item.with(&changes));
        }
    }
    if calls.next().is_some() {
        return None;
    }
    let stored = if is_whole {
        let inner = provider.raw.trim_ascii().strip_prefix('[')?.strip_suffix(']')?;
        Bytes::copy_from_slice(inner.trim_ascii().as_bytes())
    } else {
        stored.join(",").into()
    };
    Some(if has_bare {
        Encoded::Anew(Box::new(Anew { body: stateless.join(",").into(), stored, ..Anew::default() }))
    } else {
        Encoded::anew(stored)
    })
}

/// Items that need no id of their own.
const NAMED: [&str; 3] = ["message", "function_call", "custom_tool_call"];
