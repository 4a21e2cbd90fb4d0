//! Canonical messages, read in the one pass that finds their end. Whatever is not as this library
//! writes it (another key, parts, an escape where none is needed) is left to the full reading.

use std::borrow::Cow;

use bytes::Bytes;

use crate::id::CallId;
use crate::json;
use crate::json::scan::{Quoted, Scan};
use crate::message::read::{self, Extras};
use crate::message::{Assistant, Body, Call, Message, MessageError, ToolResult};

/// Reads one message and appends what it holds: one canonical message, or several where another
/// shape packs several into one. `json` is one JSON value without lone surrogates, `text` the same
/// bytes as text.
pub(crate) fn read(json: &Bytes, text: &str, out: &mut Vec<Message>) -> Result<(), MessageError> {
    let mut scan = Scan::new(text);
    match canonical(&mut scan) {
        Some((body, is_plain)) if scan.is_over() => out.push(Message::from_parts(json.clone(), body, is_plain)),
        Some(_) | None => return read::read(json, text, out),
    }
    Ok(())
}

/// Reads the message at a place of `document`, whose text `scan` goes over, and appends what it holds.
/// `None`: what stands there is no JSON value.
pub(crate) fn read_from(
    document: &Bytes,
    scan: &mut Scan<'_>,
    out: &mut Vec<Message>,
) -> Option<Result<(), MessageError>> {
    scan.skip_blanks();
    let begin = scan.clone();
    if let Some((body, is_plain)) = canonical(scan) {
        out.push(Message::within(document, begin.at()..scan.at(), body, is_plain));
        return Some(Ok(()));
    }
    *scan = begin;
    let text = scan.value()?;
    Some(read::read(&document.slice_ref(text.as_bytes()), text, out))
}

/// The fields that have been met.
#[derive(Default)]
struct Seen<'a> {
    role: Option<&'a str>,
    content: Option<&'a str>,
    call: Option<&'a str>,
    calls: Option<Vec<Call>>,
    extras: Option<&'a str>,
}

/// A canonical message, and whether it goes over an OpenAI wire as it stands.
fn canonical(scan: &mut Scan<'_>) -> Option<(Body, bool)> {
    let mut seen = Seen::default();
    scan.take(b'{')?;
    loop {
        if scan.key(r#""role""#) {
            once(&mut seen.role, scan.string()?.plain()?)?;
        } else if scan.key(r#""content""#) {
            once(&mut seen.content, text_or_null(scan)?)?;
        } else if scan.key(r#""tool_call_id""#) {
            once(&mut seen.call, scan.string()?.plain()?)?;
        } else if scan.key(r#""tool_calls""#) {
            once(&mut seen.calls, calls(scan)?)?;
        } else if scan.key(r#""toolrelay""#) {
            once(&mut seen.extras, scan.value()?)?;
        } else {
            return None;
        }
        if scan.next_of(b",}")? == b'}' {
            break;
        }
    }
    seen.body()
}

impl Seen<'_> {
    fn body(self) -> Option<(Body, bool)> {
        let is_plain = self.extras.is_none();
        let text = self.content?;
        match (self.role?, self.call, self.calls) {
            ("system" | "developer", None, None) if is_plain && text != "null" => Some((Body::System, true)),
            ("user", None, None) if is_plain && text != "null" => Some((Body::User, true)),
            ("assistant", None, calls) if text != "null" || calls.is_some() => {
                let provider = extras(self.extras)?.provider;
                Some((Body::Assistant(Assistant { calls: calls.unwrap_or_default(), provider }), is_plain))
            }
            ("tool", Some(call), None) if text != "null" => {
                let Extras { outcome, pending, .. } = extras(self.extras)?;
                let result = ToolResult { call: CallId::new(call), outcome, pending };
                Some((Body::Tool(result), is_plain && text != r#""""#))
            }
            _ => None,
        }
    }
}

fn extras(text: Option<&str>) -> Option<Extras<'_>> {
    text.map_or_else(|| Some(Extras::default()), |text| serde_json::from_str(text).ok())
}

/// The list of calls, if it has any.
fn calls(scan: &mut Scan<'_>) -> Option<Vec<Call>> {
    let mut calls = Vec::with_capacity(1);
    scan.take(b'[')?;
    loop {
        calls.push(call(scan)?);
        if scan.next_of(b",]")? == b']' {
            return Some(calls);
        }
    }
}

fn call(scan: &mut Scan<'_>) -> Option<Call> {
    let (mut id, mut kind, mut named) = (None, None, None);
    scan.take(b'{')?;
    loop {
        if scan.key(r#""id""#) {
            once(&mut id, said(scan.string()?)?)?;
        } else if scan.key(r#""type""#) {
            once(&mut kind, scan.string()?)?;
        } else if scan.key(r#""function""#) {
            once(&mut named, function(scan)?)?;
        } else {
            return None;
        }
        if scan.next_of(b",}")? == b'}' {
            break;
        }
    }
    kind?;
    let (name, arguments) = named?;
    Some(Call { id: CallId::new(id?), name, arguments })
}

/// The name and the arguments of a call.
fn function(scan: &mut Scan<'_>) -> Option<(String, String)> {
    let (mut name, mut arguments) = (None, None);
    scan.take(b'{')?;
    loop {
        if scan.key(r#""name""#) {
            once(&mut name, said(scan.string()?)?)?;
        } else if scan.key(r#""arguments""#) {
            once(&mut arguments, said(scan.string()?)?)?;
        } else {
            return None;
        }
        if scan.next_of(b",}")? == b'}' {
            return Some((name?, arguments?));
        }
    }
}

/// Content that is text or `null`, as it stands.
fn text_or_null<'a>(scan: &mut Scan<'a>) -> Option<&'a str> {
    if scan.next_is(b'"') { Some(scan.string()?.quoted) } else { scan.value().filter(|value| *value == "null") }
}

/// What a string says.
fn said(string: Quoted<'_>) -> Option<String> {
    match string.plain() {
        Some(text) => Some(text.to_owned()),
        None => json::unquoted(string.quoted).map(Cow::into_owned),
    }
}

/// Keeps a value that was not met before.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests;
