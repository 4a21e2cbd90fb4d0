//! What a server's profile changes of a message that is encoded already.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{list, object};
use crate::json::quoted;
use crate::message::{Fields, Message};
use crate::wire::Encoded;
use crate::wire::content::{Part, Shown, string};
use crate::wire::profile::{CallContent, Profile};

/// Instructions in the role that every server knows; `None` where they are.
pub(super) fn instructions(message: &Message) -> Option<Encoded> {
    let fields = Fields::of(message.json())?;
    string(fields.get("role")).filter(|role| role == "developer")?;
    let kept = fields.0.iter().filter(|(key, _)| key != "toolrelay");
    let shown = kept.map(|(key, value)| {
        let value = if key == "role" { quoted("system") } else { value.get().to_owned() };
        (key.as_ref(), value)
    });
    Some(Encoded::anew(object(shown)))
}

/// A model's message as the server takes it.
pub(super) fn reply(message: &Message, encoded: Encoded, profile: &Profile) -> Encoded {
    if !profile.changes_replies() {
        return encoded;
    }
    let changed = match &encoded {
        Encoded::AsItIs => changed(message.json(), !message.calls().is_empty(), profile),
        Encoded::Anew(own) => changed(&own.body, !message.calls().is_empty(), profile),
    };
    changed.map_or(encoded, Encoded::anew)
}

/// The message with what the server wants changed; `None` when that is nothing.
fn changed(json: &[u8], has_calls: bool, profile: &Profile) -> Option<String> {
    let fields = Fields::of(json)?;
    let is_refused = |name: &str| profile.refused_fields.iter().any(|refused| refused == name);
    let mut is_changed = false;
    let mut kept: Vec<(&str, String)> = Vec::with_capacity(fields.0.len() + 1);
    for (key, value) in &fields.0 {
        let new = match key.as_ref() {
            key if is_refused(key) => {
                is_changed = true;
                continue;
            }
            "content" => content(value, is_refused),
            "tool_calls" => calls(value, is_refused),
            _ => None,
        };
        is_changed |= new.is_some();
        kept.push((key, new.unwrap_or_else(|| value.get().to_owned())));
    }
    if has_calls {
        is_changed |= settle_content(&mut kept, profile.call_content);
        for (key, value) in &profile.call_fields {
            match kept.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) if known != "null" => continue,
                Some((_, known)) => *known = value.to_string(),
                None => kept.push((key, value.to_string())),
            }
            is_changed = true;
        }
    }
    is_changed.then(|| object(kept))
}

/// The text of content parts of which one is refused.
fn content(value: &RawValue, is_refused: impl Fn(&str) -> bool) -> Option<String> {
    let Shown::Parts(parts) = Shown::read(value) else { return None };
    let (refused, kept): (Vec<Part<'_>>, Vec<Part<'_>>) =
        parts.into_iter().map(Part::read).partition(|part| is_refused(&part.kind));
    if refused.is_empty() {
        return None;
    }
    let texts = kept.iter().filter_map(|part| string(part.text.or(part.refusal)));
    Some(quoted(&texts.collect::<Vec<Cow<'_, str>>>().concat()))
}

/// The calls without keys of which one is refused.
fn calls(value: &RawValue, is_refused: impl Fn(&str) -> bool) -> Option<String> {
    let entries: Vec<Fields<'_>> = serde_json::from_str(value.get()).ok()?;
    if !entries.iter().any(|entry| entry.0.iter().any(|(key, _)| is_refused(key))) {
        return None;
    }
    Some(list(entries.iter().map(|entry| {
        let kept = entry.0.iter().filter(|(key, _)| !is_refused(key));
        object(kept.map(|(key, value)| (key.as_ref(), value.get().to_owned())))
    })))
}

/// Brings content that says nothing into the wanted form, and tells whether it had another.
fn settle_content(kept: &mut Vec<(&str, String)>, wanted: Option<CallContent>) -> bool {
    let at = kept.iter().position(|(key, _)| *key == "content");
    let text = at.map(|at| kept[at].1.as_str());
    if text.is_some_and(|text| !matches!(text, "null" | r#""""# | "[]")) {
        return false;
    }
    let new = match wanted {
        None => return false,
        Some(CallContent::Null) => Some("null"),
        Some(CallContent::Empty) => Some(r#""""#),
        Some(CallContent::Absent) => None,
    };
    if text == new {
        return false;
    }
    match (at, new) {
        (Some(at), Some(new)) => new.clone_into(&mut kept[at].1),
        (Some(at), None) => drop(kept.remove(at)),
        (None, Some(new)) => kept.push(("content", new.to_owned())),
        (None, None) => {}
    }
    true
}
