//! Chat Completions. A canonical message has this shape already: what needs no change goes out as
//! the canonical bytes themselves.

mod adapt;
mod assistant;
mod decode;
mod stream;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use self::assistant::assistant;
pub(super) use self::assistant::is_noise;
pub(super) use self::decode::decode;
pub(super) use self::stream::Stream;
use crate::json::{push_str, quoted};
use crate::message::{self, Fields, Message, ToolResult};
use crate::tool::ToolSpec;
use crate::wire::content::{Part, Shown, View};
use crate::wire::names::wire_name;
use crate::wire::profile::{PLAIN, Profile};
use crate::wire::{Anew, Body, Encoded, NO_OUTPUT, Prefix, Style, schema};

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
    let profile = prefix.profile.as_deref().unwrap_or(&PLAIN);
    let mut list = List { body, is_occupied: prefix.is_occupied, run: None, after: Vec::new() };
    let mut is_parted = true;
    for message in messages {
        let is_result = message.result().is_some();
        if !is_result && !list.after.is_empty() {
            list.push_after(profile);
            is_parted = true;
        }
        if !is_parted && !is_result && message.assistant().is_none() {
            list.push(Bytes::from_static(BETWEEN));
        }
        is_parted = !is_result || profile.user_after_results;
        match &*message.encoded_for(Style::OpenAi, prefix.profile.as_ref(), |message| encode(message, profile)) {
            Encoded::AsItIs => list.push_as_it_is(message),
            Encoded::Anew(own) => {
                list.push(own.body.clone());
                list.after.extend((!own.after.is_empty()).then(|| own.after.clone()));
            }
        }
    }
    list.push_after(profile);
}

/// The list of messages in a body.
struct List<'a> {
    body: &'a mut Body,
    is_occupied: bool,
    /// The first and the last of messages that go out as one slice, as they follow each other in one text.
    run: Option<(&'a Message, &'a Message)>,
    /// Content parts that wait for the end of the turn's results.
    after: Vec<Bytes>,
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
    fn push_after(&mut self, profile: &Profile) {
        self.end_run();
        if self.after.is_empty() {
            return;
        }
        if !profile.user_after_results {
            self.push(Bytes::from_static(BETWEEN));
        }
        for (at, parts) in self.after.drain(..).enumerate() {
            self.body.push_static(if at == 0 { r#",{"role":"user","content":["# } else { "," });
            self.body.push(parts);
        }
        self.body.push_static("]}");
    }
}

fn encode(message: &Message, profile: &Profile) -> Encoded {
    match message.body() {
        message::Body::System if !profile.developer_role => {
            adapt::instructions(message).unwrap_or_else(|| plain(message))
        }
        message::Body::System | message::Body::User => plain(message),
        message::Body::Assistant(facts) => adapt::reply(message, assistant(message, facts, profile), profile),
        message::Body::Tool(result) => tool(message, result, profile),
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

fn tool(message: &Message, result: &ToolResult, profile: &Profile) -> Encoded {
    let id = profile.call_id(Style::OpenAi, result.call.as_str());
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
            let says_nothing = texts.iter().all(|part| Part::read(part).is_empty_text());
            if says_nothing { String::new() } else { list(texts.iter().map(|part| part.get().to_owned())) }
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

/// What stands between results and what the user says next, where a server wants the model's word there.
const BETWEEN: &[u8] = br#"{"role":"assistant","content":"I have the results."}"#;
