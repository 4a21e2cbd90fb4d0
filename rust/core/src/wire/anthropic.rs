//! Messages. A message encodes to its content blocks; the user and assistant messages around them
//! are put up when a body is made, so that neighbours of one role share a message: the results of a
//! turn, and the prompt after them.

pub(super) mod cache;
mod decode;
mod parts;
mod stream;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

pub(super) use self::decode::{Said, decode};
pub(super) use self::stream::Stream;
use crate::json::{push_str, quoted};
use crate::message::{self, Assistant, Call, Message, ToolResult};
use crate::reply::Provider;
use crate::tool::ToolSpec;
use crate::wire::content::{Part, Shown, View, is_blank, span, string};
use crate::wire::names::{wire_id, wire_name};
use crate::wire::profile::CacheControl;
use crate::wire::{Body, Encoded, NO_OUTPUT, Prefix, Style, WireError, arguments, schema};

/// The provider requires a limit; this one is taken by every model of it that is still served.
pub(super) const DEFAULT_MAX_TOKENS: u32 = 8_192;

/// Appends the declaration of a tool.
pub(super) fn push_tool(out: &mut Vec<u8>, tool: &ToolSpec) {
    out.extend_from_slice(br#"{"name":"#);
    push_str(out, &wire_name(&tool.name));
    if !tool.description.is_empty() {
        out.extend_from_slice(br#","description":"#);
        push_str(out, &tool.description);
    }
    out.extend_from_slice(br#","input_schema":"#);
    out.extend_from_slice(schema::for_wire(&tool.schema).as_bytes());
    out.push(b'}');
}

/// Opens the list of system blocks if there are any. The request parameter of that name, text or
/// blocks, wins over the client's system prompt. Tells whether a list is open.
pub(super) fn open_system(out: &mut Vec<u8>, prompt: Option<&str>, param: Option<&str>) -> Result<bool, WireError> {
    let mut blocks = Vec::new();
    match param {
        Some(text) if text.starts_with('"') => push_text(&mut blocks, text),
        Some(list) => {
            let list: Vec<&RawValue> = serde_json::from_str(list)
                .map_err(|_| WireError::Parameter { key: "system".to_owned(), expected: "text or a list of blocks" })?;
            for block in list {
                push_block(&mut blocks, block.get().as_bytes());
            }
        }
        None => prompt.into_iter().for_each(|prompt| push_text(&mut blocks, &quoted(prompt))),
    }
    if !blocks.is_empty() {
        out.extend_from_slice(br#","system":["#);
        out.extend_from_slice(&blocks);
    }
    Ok(!blocks.is_empty())
}

/// Appends the messages, all but the end of the last one and of their list. System messages at the start join the system blocks;
/// later ones are the user's text. Without tools, those that the history calls are declared, as the
/// provider demands, but the model may not call them (fault J9).
pub(super) fn push_messages(body: &mut Body, prefix: &Prefix, messages: &[Message]) -> Result<(), WireError> {
    let leading = messages.iter().take_while(|message| *message.body() == message::Body::System).count();
    let mut is_open = prefix.is_occupied;
    for message in &messages[..leading] {
        let blocks = blocks(message);
        if !blocks.is_empty() {
            body.push_static(if is_open { "," } else { r#","system":["# });
            body.push(blocks);
            is_open = true;
        }
    }
    if is_open {
        body.push_static("]");
    }
    if !prefix.has_tools
        && let Some(tools) = inert_tools(messages)
    {
        body.push(tools);
    }
    body.push_static(r#","messages":["#);
    let mut last = None;
    let mut may_end = false;
    for message in &messages[leading..] {
        let blocks = blocks(message);
        if blocks.is_empty() {
            continue;
        }
        let role = if message.assistant().is_some() { Role::Assistant } else { Role::User };
        may_end = role == Role::User || is_paused(message);
        body.push_static(match (last, role) {
            (Some(last), role) if last == role => ",",
            (None, Role::User) => r#"{"role":"user","content":["#,
            (None, Role::Assistant) => STARTS_WITH_ASSISTANT,
            (Some(_), Role::User) => r#"]},{"role":"user","content":["#,
            (Some(_), Role::Assistant) => r#"]},{"role":"assistant","content":["#,
        });
        body.push(blocks);
        last = Some(role);
    }
    if prefix.cache == Some(CacheControl::Blocks) && last == Some(Role::User) {
        cache::mark_end(body);
    }
    match last {
        None => Err(WireError::Empty),
        Some(_) if !may_end => Err(WireError::EndsWithAssistant),
        Some(_) => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

fn is_paused(message: &Message) -> bool {
    message.assistant().and_then(|facts| facts.provider.as_ref()).is_some_and(|provider| provider.paused)
}

/// `,"tools":[…],"tool_choice":…` for the tools that the history calls, in the order of their first
/// call, so that a longer history keeps the beginning.
fn inert_tools(messages: &[Message]) -> Option<Bytes> {
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    for call in messages.iter().flat_map(Message::calls) {
        let name = wire_name(&call.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut out = br#","tools":["#.to_vec();
    for (at, name) in names.iter().enumerate() {
        out.extend_from_slice(if at == 0 { br#"{"name":"# } else { br#",{"name":"# });
        push_str(&mut out, name);
        out.extend_from_slice(br#","input_schema":{"type":"object","properties":{}}}"#);
    }
    out.extend_from_slice(br#"],"tool_choice":{"type":"none"}"#);
    Some(out.into())
}

/// The content blocks of a message, joined by commas.
fn blocks(message: &Message) -> Bytes {
    match message.encoded(Style::Anthropic, encode) {
        Encoded::Anew(own) => own.body.clone(),
        Encoded::AsItIs => Bytes::new(),
    }
}

fn encode(message: &Message) -> Encoded {
    let mut out = Vec::with_capacity(message.json().len() + 64);
    match message.body() {
        message::Body::System | message::Body::User => push_content(&mut out, &View::of(message).content),
        message::Body::Assistant(facts) => {
            if let Some(blocks) = facts.provider.as_ref().and_then(|provider| from_raw(provider, &facts.calls)) {
                return Encoded::anew(blocks);
            }
            push_assistant(&mut out, message, facts);
        }
        message::Body::Tool(result) => push_result(&mut out, message, result),
    }
    Encoded::anew(out)
}

fn push_content(out: &mut Vec<u8>, content: &Shown<'_>) {
    match content {
        Shown::None => {}
        Shown::Text(text) => push_text(out, text),
        Shown::Parts(list) => parts::push_all(out, list),
    }
}

/// A reply without blocks of this provider: its text, then its calls.
fn push_assistant(out: &mut Vec<u8>, message: &Message, facts: &Assistant) {
    match View::of(message).content {
        Shown::None => {}
        Shown::Text(text) => push_text(out, text),
        Shown::Parts(list) => {
            for part in list.into_iter().map(Part::read) {
                if let Some(text) = part.text.or(part.refusal) {
                    push_text(out, text.get());
                }
            }
        }
    }
    for call in &facts.calls {
        push_call(out, call.id.as_str(), &call.name, &call.arguments);
    }
}

fn push_call(out: &mut Vec<u8>, id: &str, name: &str, arguments: &str) {
    let mut block = br#"{"type":"tool_use","id":"#.to_vec();
    push_str(&mut block, &wire_id(Style::Anthropic, id));
    block.extend_from_slice(br#","name":"#);
    push_str(&mut block, &wire_name(name));
    block.extend_from_slice(br#","input":"#);
    block.extend_from_slice(arguments::for_wire(arguments).as_bytes());
    block.push(b'}');
    push_block(out, &block);
}

/// The provider's own blocks, byte for byte. Text that says nothing is left out, as the provider
/// gives but does not take it (fault E7); an id that was minted anew is changed in its own block.
/// `None` when they do not hold the message's calls.
fn from_raw(provider: &Provider, calls: &[Call]) -> Option<Bytes> {
    if provider.style != Style::Anthropic {
        return None;
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(&provider.raw).ok()?;
    let mut calls = calls.iter();
    let mut is_whole = true;
    let mut out = Vec::with_capacity(provider.raw.len());
    for block in blocks {
        let facts = Part::read(block);
        let own = block.get();
        let patched = match facts.kind.as_ref() {
            "text" if facts.text.is_none_or(|text| is_blank(text.get())) => {
                is_whole = false;
                continue;
            }
            "tool_use" => patched_call(own, &facts, calls.next()?),
            _ => Cow::Borrowed(own),
        };
        is_whole &= matches!(patched, Cow::Borrowed(_));
        push_block(&mut out, patched.as_bytes());
    }
    if calls.next().is_some() {
        return None;
    }
    if is_whole {
        let inner = provider.raw.trim_ascii().strip_prefix('[')?.strip_suffix(']')?;
        return Some(Bytes::copy_from_slice(inner.trim_ascii().as_bytes()));
    }
    Some(out.into())
}

/// A `tool_use` block whose id, name or input must be others; the rest of it stays as it is.
fn patched_call<'a>(block: &'a str, facts: &Part<'a>, call: &Call) -> Cow<'a, str> {
    let id = wire_id(Style::Anthropic, call.id.as_str());
    let name = wire_name(&call.name);
    let has_input = facts.input.is_some_and(|input| input.get().starts_with('{'));
    let mut text = Cow::Borrowed(block);
    let mut edits: Vec<(Option<&RawValue>, &str, String)> = Vec::new();
    if string(facts.id).is_none_or(|own| own != id) {
        edits.push((facts.id, "id", quoted(&id)));
    }
    if string(facts.name).is_none_or(|own| own != name) {
        edits.push((facts.name, "name", quoted(&name)));
    }
    if !has_input {
        edits.push((facts.input, "input", arguments::for_wire(&call.arguments).into_owned()));
    }
    // From the end on, so that the places before an edit stay true.
    edits.sort_by_key(|(old, _, _)| std::cmp::Reverse(old.map_or(1, |old| span(block, old).start)));
    for (old, key, new) in edits {
        match old {
            Some(old) => text.to_mut().replace_range(span(block, old), &new),
            None => text.to_mut().insert_str(1, &format!(r#""{key}":{new},"#)),
        }
    }
    text
}

/// A result: the text alone as text, with parts as blocks. An error takes text only (fault F10).
fn push_result(out: &mut Vec<u8>, message: &Message, result: &ToolResult) {
    let view = View::of(message);
    let push = if result.outcome.is_ok() { parts::push_all } else { parts::push_texts };
    let mut block = br#"{"type":"tool_result","tool_use_id":"#.to_vec();
    push_str(&mut block, &wire_id(Style::Anthropic, result.call.as_str()));
    block.extend_from_slice(br#","content":"#);
    match &view.content {
        Shown::Text(text) if view.parts.is_empty() && !is_blank(text) => block.extend_from_slice(text.as_bytes()),
        content @ (Shown::None | Shown::Text(_) | Shown::Parts(_)) => {
            let mut blocks = Vec::new();
            match content {
                Shown::None => {}
                Shown::Text(text) => push_text(&mut blocks, text),
                Shown::Parts(list) => push(&mut blocks, list),
            }
            push(&mut blocks, &view.parts);
            if blocks.is_empty() {
                push_str(&mut block, NO_OUTPUT);
            } else {
                block.push(b'[');
                block.extend_from_slice(&blocks);
                block.push(b']');
            }
        }
    }
    if !result.outcome.is_ok() {
        block.extend_from_slice(br#","is_error":true"#);
    }
    block.push(b'}');
    push_block(out, &block);
}

/// Appends a text block for a JSON string, unless it says nothing (fault E7).
fn push_text(out: &mut Vec<u8>, text: &str) {
    if is_blank(text) {
        return;
    }
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(br#"{"type":"text","text":"#);
    out.extend_from_slice(text.as_bytes());
    out.push(b'}');
}

/// Appends blocks to blocks.
fn push_block(out: &mut Vec<u8>, block: &[u8]) {
    if !out.is_empty() && !block.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(block);
}

const STARTS_WITH_ASSISTANT: &str = concat!(
    r#"{"role":"user","content":[{"type":"text","text":"[earlier messages are left out]"}]},"#,
    r#"{"role":"assistant","content":["#
);
