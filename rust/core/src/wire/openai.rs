//! Chat Completions. A canonical message has this shape already: what needs no change goes out as
//! the canonical bytes themselves.

mod decode;
mod stream;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

pub(super) use self::decode::decode;
pub(super) use self::stream::Stream;
use crate::json::{push_str, quoted};
use crate::message::{self, Assistant, Call, Fields, Message, ToolResult};
use crate::reply::Provider;
use crate::tool::ToolSpec;
use crate::wire::content::{Part, Shown, View, string};
use crate::wire::names::{wire_id, wire_name};
use crate::wire::{Anew, Body, Encoded, NO_OUTPUT, Prefix, Style, arguments, schema};

/// Appends the declaration of a tool.
pub(super) fn push_tool(out: &mut Vec<u8>, tool: &ToolSpec) {
    out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
    push_str(out, &wire_name(&tool.name));
    if !tool.description.is_empty() {
        out.extend_from_slice(br#","description":"#);
        push_str(out, &tool.description);
    }
    out.extend_from_slice(br#","parameters":"#);
    out.extend_from_slice(schema::for_wire(&tool.schema).as_bytes());
    out.extend_from_slice(b"}}");
}

/// Opens the list of messages; the system prompt is its first. Tells whether there is one.
pub(super) fn open_messages(out: &mut Vec<u8>, system: Option<&str>) -> bool {
    out.extend_from_slice(br#","messages":["#);
    let Some(system) = system else { return false };
    out.extend_from_slice(br#"{"role":"system","content":"#);
    push_str(out, system);
    out.push(b'}');
    true
}

/// Appends the messages, all but the end of their list. The images of a turn's results follow all of them, in
/// one user message: a tool message takes text only (fault F10).
pub(super) fn push_messages(body: &mut Body, prefix: &Prefix, messages: &[Message]) {
    let mut list = List { body, is_occupied: prefix.is_occupied, run: None, after: Vec::new() };
    for message in messages {
        if !list.after.is_empty() && message.result().is_none() {
            list.push_after();
        }
        match message.encoded(Style::OpenAi, encode) {
            Encoded::AsItIs => list.push_as_it_is(message),
            Encoded::Anew(own) => {
                list.push(own.body.clone());
                list.after.extend(Some(&own.after).filter(|after| !after.is_empty()));
            }
        }
    }
    list.push_after();
}

/// The list of messages in a body.
struct List<'a> {
    body: &'a mut Body,
    is_occupied: bool,
    /// The first and the last of messages that go out as one slice, as they follow each other in one text.
    run: Option<(&'a Message, &'a Message)>,
    /// Content parts that wait for the end of the turn's results.
    after: Vec<&'a Bytes>,
}

impl<'a> List<'a> {
    fn push_as_it_is(&mut self, message: &'a Message) {
        match &mut self.run {
            Some((_, last)) if message.follows(last) => *last = message,
            Some(_) | None => {
                self.end_run();
                self.run = Some((message, message));
            }
        }
    }

    fn push(&mut self, message: Bytes) {
        self.end_run();
        self.separate();
        self.body.push(message);
    }

    fn end_run(&mut self) {
        if let Some((first, last)) = self.run.take() {
            self.separate();
            self.body.push(first.through(last));
        }
    }

    fn separate(&mut self) {
        if self.is_occupied {
            self.body.push_static(",");
        }
        self.is_occupied = true;
    }

    /// Brings what waited for the end of the results.
    fn push_after(&mut self) {
        self.end_run();
        for (at, parts) in self.after.iter().enumerate() {
            self.body.push_static(if at == 0 { r#",{"role":"user","content":["# } else { "," });
            self.body.push(Bytes::clone(parts));
        }
        if !self.after.is_empty() {
            self.body.push_static("]}");
        }
        self.after.clear();
    }
}

fn encode(message: &Message) -> Encoded {
    match message.body() {
        message::Body::System | message::Body::User => plain(message),
        message::Body::Assistant(facts) => assistant(message, facts),
        message::Body::Tool(result) => tool(message, result),
    }
}

/// The canonical bytes, without the extras if there are any.
fn plain(message: &Message) -> Encoded {
    if message.is_plain() || !has_extras(message) {
        return Encoded::AsItIs;
    }
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(message.json()) else { return Encoded::anew("") };
    let kept = fields.0.iter().filter(|(key, _)| key != "toolrelay");
    Encoded::anew(object(kept.map(|(key, value)| (key.as_ref(), value.get().to_owned()))))
}

fn has_extras(message: &Message) -> bool {
    memmem::find(message.json(), br#""toolrelay""#).is_some()
}

fn assistant(message: &Message, facts: &Assistant) -> Encoded {
    if let Some(raw) = facts.provider.as_ref().and_then(|provider| from_raw(provider, &facts.calls)) {
        return Encoded::anew(raw);
    }
    if facts.calls.iter().all(is_wire_ready) {
        return plain(message);
    }
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(message.json()) else { return Encoded::anew("") };
    let kept = fields.0.iter().filter(|(key, _)| key != "toolrelay");
    let rebuilt = kept.map(|(key, value)| {
        let value = if key == "tool_calls" { calls(&facts.calls) } else { value.get().to_owned() };
        (key.as_ref(), value)
    });
    Encoded::anew(object(rebuilt))
}

/// Whether a call goes out as it stands in the transcript.
fn is_wire_ready(call: &Call) -> bool {
    wire_id(Style::OpenAi, call.id.as_str()) == call.id.as_str()
        && wire_name(&call.name) == call.name
        && arguments::for_wire(&call.arguments) == call.arguments
}

fn calls(calls: &[Call]) -> String {
    list(calls.iter().map(|call| {
        let function = object([
            ("name", quoted(&wire_name(&call.name))),
            ("arguments", quoted(&arguments::for_wire(&call.arguments))),
        ]);
        object([
            ("id", quoted(&wire_id(Style::OpenAi, call.id.as_str()))),
            ("type", quoted("function")),
            ("function", function),
        ])
    }))
}

/// The provider's own message, changed only where it must be: empty keys that requests do not take,
/// a minted id, arguments that are no JSON. `None` when it does not hold the message's calls.
fn from_raw(provider: &Provider, calls: &[Call]) -> Option<Bytes> {
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
        entries.iter().zip(calls).map(|(entry, call)| patched_call(entry, call)).collect();
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
pub(super) fn is_noise(key: &str, value: &RawValue) -> bool {
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
fn patched_call(entry: &RawValue, call: &Call) -> Option<Option<String>> {
    let fields: Fields<'_> = serde_json::from_str(entry.get()).ok()?;
    let function: Fields<'_> = serde_json::from_str(fields.get("function")?.get()).ok()?;
    let id = wire_id(Style::OpenAi, call.id.as_str());
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

fn tool(message: &Message, result: &ToolResult) -> Encoded {
    let id = wire_id(Style::OpenAi, result.call.as_str());
    if message.is_plain() && id == result.call.as_str() {
        return Encoded::AsItIs;
    }
    let view = View::of(message);
    let mut after: Vec<String> = view.parts.iter().map(|part| part.get().to_owned()).collect();
    let mut text = match &view.content {
        Shown::Text(text) if *text != r#""""# => (*text).to_owned(),
        Shown::None | Shown::Text(_) => String::new(),
        Shown::Parts(parts) => {
            let (texts, others): (Vec<&RawValue>, Vec<&RawValue>) =
                parts.iter().partition(|part| Part::read(part).kind == "text");
            after.extend(others.iter().map(|part| part.get().to_owned()));
            if texts.is_empty() { String::new() } else { list(texts.iter().map(|part| part.get().to_owned())) }
        }
    };
    if text.is_empty() {
        text = quoted(if after.is_empty() { NO_OUTPUT } else { "(attached below)" });
    } else if after.is_empty() && id == result.call.as_str() && !has_extras(message) {
        return Encoded::AsItIs;
    }
    let body = object([("role", quoted("tool")), ("tool_call_id", quoted(&id)), ("content", text)]);
    if !after.is_empty() {
        let label = format!("attached to the result of call {id}:");
        after.insert(0, object([("type", quoted("text")), ("text", quoted(&label))]));
    }
    Encoded::Anew(Box::new(Anew { body: body.into(), after: after.join(",").into(), ..Anew::default() }))
}

fn object<'k>(fields: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", fields.join(","))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}
