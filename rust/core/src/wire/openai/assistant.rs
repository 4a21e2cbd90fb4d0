//! A model's message as Chat Completions takes it: its own bytes, or with the ids, names and arguments
//! that a provider would refuse replaced.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{list, object, plain};
use crate::json::quoted;
use crate::message::{Assistant, Call, Fields, Message};
use crate::reply::Provider;
use crate::wire::content::string;
use crate::wire::names::wire_name;
use crate::wire::profile::Profile;
use crate::wire::{Encoded, Style, arguments};

pub(super) fn assistant(message: &Message, facts: &Assistant, profile: &Profile) -> Encoded {
    if let Some(raw) = facts.provider.as_ref().and_then(|provider| from_raw(provider, &facts.calls, profile)) {
        return Encoded::anew(raw);
    }
    if facts.calls.iter().all(|call| is_wire_ready(call, profile)) {
        return plain(message);
    }
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(message.json()) else { return Encoded::anew("") };
    let kept = fields.0.iter().filter(|(key, _)| key != "toolrelay");
    let rebuilt = kept.map(|(key, value)| {
        let value = if key == "tool_calls" { calls(&facts.calls, profile) } else { value.get().to_owned() };
        (key.as_ref(), value)
    });
    Encoded::anew(object(rebuilt))
}

/// Whether a call goes out as it stands in the transcript.
fn is_wire_ready(call: &Call, profile: &Profile) -> bool {
    profile.call_id(Style::OpenAi, call.id.as_str()) == call.id.as_str()
        && wire_name(&call.name) == call.name
        && arguments::for_wire(&call.arguments) == call.arguments
}

fn calls(calls: &[Call], profile: &Profile) -> String {
    list(calls.iter().map(|call| {
        let function = object([
            ("name", quoted(&wire_name(&call.name))),
            ("arguments", quoted(&arguments::for_wire(&call.arguments))),
        ]);
        object([
            ("id", quoted(&profile.call_id(Style::OpenAi, call.id.as_str()))),
            ("type", quoted("function")),
            ("function", function),
        ])
    }))
}

/// The provider's own message, changed only where it must be: empty keys that requests do not take,
/// a minted id, arguments that are no JSON. `None` when it does not hold the message's calls.
fn from_raw(provider: &Provider, calls: &[Call], profile: &Profile) -> Option<Bytes> {
    if provider.style != Style::OpenAi {
        return None;
    }
    let fields: Fields<'_> = serde_json::from_str(&provider.raw).ok()?;
    let entries: Option<Vec<&RawValue>> = match fields.get("tool_calls") {
        Some(entries) => serde_json::from_str(entries.get()).ok()?,
        None => None,
    };
    let entries = entries.unwrap_or_default();
    if entries.len() != calls.len() {
        return None;
    }
    let patched: Option<Vec<Option<String>>> =
        entries.iter().zip(calls).map(|(entry, call)| patched_call(entry, call, profile)).collect();
    let patched = patched?;
    let has_role = fields.get("role").is_some_and(|role| role.get() == r#""assistant""#);
    let has_noise = fields.0.iter().any(|(key, value)| is_noise(key, value));
    if has_role && !has_noise && patched.iter().all(Option::is_none) {
        return Some(Bytes::copy_from_slice(provider.raw.as_bytes()));
    }
    let role = [("role", quoted("assistant"))];
    let kept = fields.0.iter().filter(|(key, value)| key != "role" && !is_noise(key, value));
    let rest = kept.map(|(key, value)| {
        let own =
            |(entry, patched): (&&RawValue, &Option<String>)| patched.clone().unwrap_or_else(|| entry.get().to_owned());
        let value = match key.as_ref() {
            "tool_calls" => list(entries.iter().zip(&patched).map(own)),
            _ => value.get().to_owned(),
        };
        (key.as_ref(), value)
    });
    Some(object(role.into_iter().chain(rest)).into())
}

/// Empty keys that a reply has and a request must not have (fault F9), and this library's extras.
pub(in crate::wire) fn is_noise(key: &str, value: &RawValue) -> bool {
    match key {
        "toolrelay" => true,
        "refusal" | "audio" | "function_call" => value.get() == "null",
        "annotations" | "tool_calls" => {
            let inner = value.get().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            value.get() == "null" || inner.is_some_and(|inner| inner.trim_ascii().is_empty())
        }
        _ => false,
    }
}

/// The provider's entry for a call with what must change; `None` inside when nothing must.
#[expect(clippy::option_option, reason = "unreadable and unchanged are two things")]
fn patched_call(entry: &RawValue, call: &Call, profile: &Profile) -> Option<Option<String>> {
    let fields: Fields<'_> = serde_json::from_str(entry.get()).ok()?;
    let function: Fields<'_> = serde_json::from_str(fields.get("function")?.get()).ok()?;
    let id = profile.call_id(Style::OpenAi, call.id.as_str());
    let name = wire_name(&call.name);
    let sent = arguments::for_wire(&call.arguments);
    let keeps_id = string(fields.get("id")).is_some_and(|own| own == id);
    let keeps_name = string(function.get("name")).is_some_and(|own| own == name);
    let keeps_arguments = string(function.get("arguments")).is_some_and(|own| own == sent);
    if keeps_id && keeps_name && keeps_arguments {
        return Some(None);
    }
    let own = |fields: &Fields<'_>, key: &str, keeps: bool, new: &str| match fields.get(key) {
        Some(value) if keeps => value.get().to_owned(),
        _ => quoted(new),
    };
    let others = |fields: &Fields<'_>, known: &[&str]| -> Vec<(String, String)> {
        let others = fields.0.iter().filter(|(key, _)| !known.contains(&key.as_ref()));
        others.map(|(key, value)| (key.to_string(), value.get().to_owned())).collect()
    };
    let mut inner = vec![
        ("name".to_owned(), own(&function, "name", keeps_name, &name)),
        ("arguments".to_owned(), own(&function, "arguments", keeps_arguments, &sent)),
    ];
    inner.extend(others(&function, &["name", "arguments"]));
    let mut outer = vec![
        ("id".to_owned(), own(&fields, "id", keeps_id, &id)),
        ("type".to_owned(), quoted("function")),
        ("function".to_owned(), object(inner.iter().map(|(key, value)| (key.as_str(), value.clone())))),
    ];
    outer.extend(others(&fields, &["id", "type", "function"]));
    Some(Some(object(outer.iter().map(|(key, value)| (key.as_str(), value.clone())))))
}
