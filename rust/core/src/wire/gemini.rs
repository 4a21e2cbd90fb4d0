//! generateContent. A message encodes to its parts; the contents around them are put up when a body
//! is made. The results of a turn are a content of their own, with exactly as many parts as the
//! turn has calls: the provider counts them (faults A8, A9).

mod arguments;
mod calls;
mod decode;
mod media;
mod schema;
mod stream;

use bytes::Bytes;
use serde_json::value::RawValue;

pub(super) use self::decode::decode;
pub(super) use self::stream::Stream;
use crate::json::{push_str, quoted};
use crate::message::{self, Assistant, Call, Message, ToolResult};
use crate::tool::ToolSpec;
use crate::wire::content::{Part, Shown, View, string};
use crate::wire::head::push_key;
use crate::wire::names::gemini_name;
use crate::wire::{Anew, Body, Encoded, NO_OUTPUT, Prefix, Style, WireError};

/// Appends the declaration of a tool.
///
/// The schema goes out as JSON Schema (`parametersJsonSchema`): the older `parameters` is a closed
/// subset of `OpenAPI`, where one unknown key, a list of types or an empty object makes the provider
/// refuse the whole request.
pub(super) fn push_tool(out: &mut Vec<u8>, tool: &ToolSpec) {
    out.extend_from_slice(br#"{"name":"#);
    push_str(out, &gemini_name(&tool.name));
    if !tool.description.is_empty() {
        out.extend_from_slice(br#","description":"#);
        push_str(out, &tool.description);
    }
    if let Some(schema) = schema::for_wire(&tool.schema) {
        out.extend_from_slice(br#","parametersJsonSchema":"#);
        out.extend_from_slice(schema.as_bytes());
    }
    out.push(b'}');
}

/// Opens the list of system parts if there are any. The request parameter of that name, text or a
/// content, wins over the client's system prompt. Tells whether a list is open.
pub(super) fn open_system(out: &mut Vec<u8>, prompt: Option<&str>, param: Option<&str>) -> Result<bool, WireError> {
    let mut parts = Vec::new();
    match param {
        Some(text) if text.starts_with('"') => push_text(&mut parts, text),
        Some(content) => {
            let list = decode::parts_of_content(content);
            let expected = "text or an object with parts";
            let list = list.ok_or_else(|| WireError::Parameter { key: SYSTEM.to_owned(), expected })?;
            for part in list {
                push_part(&mut parts, part.get().as_bytes());
            }
        }
        None => prompt.into_iter().for_each(|prompt| push_text(&mut parts, &quoted(prompt))),
    }
    if !parts.is_empty() {
        push_key(out, SYSTEM);
        out.extend_from_slice(br#"{"parts":["#);
        out.extend_from_slice(&parts);
    }
    Ok(!parts.is_empty())
}

/// Appends the contents, all but the end of the last one and of their list. System messages at the
/// start join the system parts; later ones are the user's text.
pub(super) fn push_messages(body: &mut Body, prefix: &Prefix, messages: &[Message]) -> Result<(), WireError> {
    let leading = messages.iter().take_while(|message| *message.body() == message::Body::System).count();
    let mut is_first = prefix.bytes.last() == Some(&b'{');
    let mut is_open = prefix.is_occupied;
    for message in &messages[..leading] {
        let parts = &encoded(message).body;
        if !parts.is_empty() {
            body.push_static(match (is_open, is_first) {
                (true, _) => ",",
                (false, true) => &OPENS_SYSTEM[1..],
                (false, false) => OPENS_SYSTEM,
            });
            body.push(parts.clone());
            (is_open, is_first) = (true, false);
        }
    }
    if is_open {
        body.push_static("]}");
    }
    body.push_static(if is_first { r#""contents":["# } else { r#","contents":["# });
    let mut contents = Contents { body, last: None, calls: &[], heads: &[], after: Vec::new() };
    for message in &messages[leading..] {
        contents.add(message);
    }
    contents.end()
}

/// The list of contents in a body.
struct Contents<'a> {
    body: &'a mut Body,
    last: Option<Turn>,
    /// The calls whose results are due, and how each of these begins.
    calls: &'a [Call],
    heads: &'a [Bytes],
    /// The images and files of the turn's results, each behind the name of its tool.
    after: Vec<(&'a str, &'a Bytes)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    User,
    Model,
    Results,
}

impl<'a> Contents<'a> {
    fn add(&mut self, message: &'a Message) {
        let own = encoded(message);
        if message.result().is_some() {
            let (Some((call, calls)), Some((head, heads))) = (self.calls.split_first(), self.heads.split_first())
            else {
                return;
            };
            (self.calls, self.heads) = (calls, heads);
            self.open(Turn::Results);
            self.body.push(head.clone());
            self.body.push(own.body.clone());
            if !own.after.is_empty() {
                self.after.push((&call.name, &own.after));
            }
            return;
        }
        self.push_after();
        if !own.body.is_empty() {
            self.open(if message.assistant().is_some() { Turn::Model } else { Turn::User });
            self.body.push(own.body.clone());
        }
        (self.calls, self.heads) = (message.calls(), &own.heads);
    }

    /// What stands before a part of a turn. The first content must be the user's (fault A10).
    fn open(&mut self, turn: Turn) {
        self.body.push_static(match (self.last, turn) {
            (Some(last), turn) if last == turn => ",",
            (None, Turn::Model) => STARTS_WITH_MODEL,
            (None, Turn::User | Turn::Results) => r#"{"role":"user","parts":["#,
            (Some(_), Turn::Model) => r#"]},{"role":"model","parts":["#,
            (Some(_), Turn::User | Turn::Results) => r#"]},{"role":"user","parts":["#,
        });
        self.last = Some(turn);
    }

    /// Brings what waited for the end of the results.
    fn push_after(&mut self) {
        for (name, parts) in std::mem::take(&mut self.after) {
            self.open(Turn::User);
            let label = quoted(&format!("attached to the result of {}:", gemini_name(name)));
            self.body.push(format!(r#"{{"text":{label}}},"#).into());
            self.body.push(parts.clone());
        }
    }

    fn end(mut self) -> Result<(), WireError> {
        self.push_after();
        match self.last {
            None => Err(WireError::Empty),
            Some(Turn::Model) => Err(WireError::EndsWithAssistant),
            Some(Turn::User | Turn::Results) => Ok(()),
        }
    }
}

/// The parts of a message, joined by commas.
fn encoded(message: &Message) -> &Anew {
    static NONE: Anew = Anew { body: Bytes::new(), after: Bytes::new(), stored: Bytes::new(), heads: Vec::new() };
    match message.encoded(Style::Gemini, encode) {
        Encoded::Anew(own) => own,
        Encoded::AsItIs => &NONE,
    }
}

fn encode(message: &Message) -> Encoded {
    Encoded::Anew(Box::new(match message.body() {
        message::Body::System | message::Body::User => {
            let mut out = Vec::with_capacity(message.json().len() + 64);
            push_content(&mut out, &View::of(message).content);
            Anew { body: out.into(), ..Anew::default() }
        }
        message::Body::Assistant(facts) => {
            let own = facts.provider.as_ref().and_then(|provider| calls::from_raw(provider, &facts.calls));
            own.unwrap_or_else(|| assistant(message, facts))
        }
        message::Body::Tool(result) => response(message, result),
    }))
}

fn push_content(out: &mut Vec<u8>, content: &Shown<'_>) {
    match content {
        Shown::None => {}
        Shown::Text(text) => push_text(out, text),
        Shown::Parts(list) => list.iter().for_each(|part| media::push(out, part)),
    }
}

/// A reply without parts of this provider: its text, then its calls.
fn assistant(message: &Message, facts: &Assistant) -> Anew {
    let mut out = Vec::with_capacity(message.json().len() + 64);
    match View::of(message).content {
        Shown::None => {}
        Shown::Text(text) => push_text(&mut out, text),
        Shown::Parts(list) => {
            for part in list.into_iter().map(Part::read) {
                if let Some(text) = part.text.or(part.refusal) {
                    push_text(&mut out, text.get());
                }
            }
        }
    }
    for (at, call) in facts.calls.iter().enumerate() {
        calls::push(&mut out, &call.name, &call.arguments, at == 0);
    }
    let heads = facts.calls.iter().map(|call| calls::head(None, &call.name)).collect();
    Anew { body: out.into(), heads, ..Anew::default() }
}

/// A result but for its beginning, which the call knows. The text is data: it stands as one string
/// below a key of its own, so that nothing in it is read as the provider's (contract 8.5).
fn response(message: &Message, result: &ToolResult) -> Anew {
    let view = View::of(message);
    let mut texts = Vec::new();
    let mut after = Vec::new();
    match &view.content {
        Shown::None => {}
        Shown::Text(text) => texts.push((*text).to_owned()),
        Shown::Parts(list) => list.iter().for_each(|part| sort(part, &mut texts, &mut after)),
    }
    view.parts.iter().for_each(|part| sort(part, &mut texts, &mut after));
    texts.retain(|text| text != r#""""#);
    let text = match texts.as_slice() {
        [] => quoted(if after.is_empty() { NO_OUTPUT } else { "(attached below)" }),
        [text] => text.clone(),
        texts => {
            let texts = texts.iter().filter_map(|text| serde_json::from_str::<String>(text).ok());
            quoted(&texts.collect::<Vec<_>>().join("\n"))
        }
    };
    let key = if result.outcome.is_ok() { "output" } else { "error" };
    let body = format!(r#""response":{{"{key}":{text}}}}}}}"#);
    Anew { body: body.into(), after: after.into(), ..Anew::default() }
}

/// Sorts a part of a result: the text into the response, anything else behind the results.
fn sort(part: &RawValue, texts: &mut Vec<String>, after: &mut Vec<u8>) {
    let read = Part::read(part);
    match (read.kind.as_ref(), read.text) {
        ("text", text) if string(text).is_some() => texts.extend(text.map(|text| text.get().to_owned())),
        _ => media::push(after, part),
    }
}

/// Appends a text part for a JSON string, unless it is empty: the provider takes no such part.
fn push_text(out: &mut Vec<u8>, text: &str) {
    if text.len() > 2 {
        push_part(out, format!(r#"{{"text":{text}}}"#).as_bytes());
    }
}

/// Appends a part to parts.
fn push_part(out: &mut Vec<u8>, part: &[u8]) {
    if !out.is_empty() && !part.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(part);
}

/// The request parameter that stands for the client's system prompt.
pub(super) const SYSTEM: &str = "systemInstruction";

const OPENS_SYSTEM: &str = r#","systemInstruction":{"parts":["#;

const STARTS_WITH_MODEL: &str =
    concat!(r#"{"role":"user","parts":[{"text":"[earlier messages are left out]"}]},"#, r#"{"role":"model","parts":["#);
