//! A streamed Gemini reply, put together. Only the first candidate counts.
//!
//! Each event is a reply of its own with the next parts. Neighbouring texts of one kind are joined, unless
//! they say more than text: a part with a signature stays as it is. The reply is complete when a finish
//! reason was seen; what comes after it is still taken until the end.

use std::borrow::Cow;

use super::arguments::Growing;
use crate::json::scan::Scan;
use crate::json::{mend_escapes, unquoted};
use crate::wire::failure::ProviderFailure;
use crate::wire::growing::{Object, Text, Value};
use crate::wire::stream::{Assembly, Delta, Event, each_field, unreadable};

/// What came so far. Values are JSON texts.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    /// The candidate but for its parts, and the rest of the reply but for the candidate and the counts.
    candidate: Object,
    rest: Object,
    usage: Object,
    parts: Vec<Part>,
    /// How many calls there are.
    calls: usize,
    is_finished: bool,
    /// How many bytes of content came.
    content: usize,
}

#[derive(Debug)]
enum Part {
    /// Text that the next part may go on with.
    Text { text: Text, is_thought: bool },
    /// A call whose arguments come in pieces.
    Growing(Growing),
    /// Anything that came whole.
    Whole(String),
}

/// One event. Values are JSON texts, none of them null; of the candidates only the first counts.
#[derive(Default)]
struct Read<'a> {
    parts: Vec<&'a str>,
    /// What the candidate says of its end.
    end: Vec<(&'a str, &'a str)>,
    /// Counts are totals: a later one counts.
    usage: Vec<(&'a str, &'a str)>,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Read<'a> {
    fn of(data: &'a str) -> Option<Self> {
        let mut read = Self::default();
        let mut scan = Scan::new(data);
        scan.object(|key, scan| match key {
            _ if scan.next_is(b'n') => scan.value().map(drop),
            r#""candidates""# => scan.array(|scan| read.candidate(scan)),
            r#""usageMetadata""# if scan.next_is(b'{') => scan.object(|key, scan| {
                let value = scan.value()?;
                read.usage.extend(Some((key, value)).filter(|_| value != "null"));
                Some(())
            }),
            r#""promptFeedback""# | r#""modelVersion""# => {
                read.rest.push((key, scan.value()?));
                Some(())
            }
            _ => scan.value().map(drop),
        })?;
        scan.is_over().then_some(read)
    }

    fn candidate(&mut self, scan: &mut Scan<'a>) -> Option<()> {
        let (parts, end) = (self.parts.len(), self.end.len());
        let mut is_first = true;
        scan.object(|key, scan| {
            if key == r#""content""# && !scan.next_is(b'n') {
                return scan.object(|key, scan| self.content(key, scan));
            }
            let value = scan.value()?;
            let is_said = value.starts_with('"') && value != r#""""#;
            match key {
                r#""index""# => is_first = matches!(value, "0" | "null"),
                r#""finishReason""# | r#""finishMessage""# if is_said => self.end.push((key, value)),
                _ => {}
            }
            Some(())
        })?;
        if !is_first {
            self.parts.truncate(parts);
            self.end.truncate(end);
        }
        Some(())
    }

    fn content(&mut self, key: &str, scan: &mut Scan<'a>) -> Option<()> {
        if key != r#""parts""# || scan.next_is(b'n') {
            return scan.value().map(drop);
        }
        scan.array(|scan| {
            self.parts.push(scan.value()?);
            Some(())
        })
    }
}

impl Assembly for Stream {
    fn take(&mut self, event: Event<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let read = Read::of(event.data).ok_or_else(unreadable)?;
        for part in read.parts {
            self.part(part, tell)?;
        }
        for (key, value) in read.end {
            self.is_finished |= key == r#""finishReason""#;
            self.candidate.set(key, Value::new(value));
        }
        for (key, value) in read.usage {
            self.usage.update(key, value);
        }
        for (key, value) in read.rest {
            self.rest.update(key, value);
        }
        if self.is_finished {
            self.end_part(tell);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn is_whole(&self) -> bool {
        self.is_finished
    }

    fn content(&self) -> usize {
        self.content
    }

    fn into_body(mut self: Box<Self>) -> Option<String> {
        if !self.is_finished && !self.is_blocked() {
            return None;
        }
        let mut body = String::from("{");
        if self.is_finished {
            body.push_str(r#""candidates":[{"content":{"role":"model","parts":["#);
            for (at, part) in self.parts.into_iter().enumerate() {
                body.push_str(if at == 0 { "" } else { "," });
                part.write(&mut body);
            }
            body.push_str("]},");
            self.candidate.write_fields(&mut body);
            body.push_str("}],");
        }
        body.push_str(r#""usageMetadata":{"#);
        self.usage.write_fields(&mut body);
        body.push('}');
        if !self.rest.is_empty() {
            body.push(',');
            self.rest.write_fields(&mut body);
        }
        body.push('}');
        Some(body)
    }
}

impl Stream {
    /// Whether the prompt was blocked: then there is no candidate, and nothing to wait for.
    fn is_blocked(&mut self) -> bool {
        let feedback = self.rest.get(r#""promptFeedback""#).and_then(Value::object);
        self.parts.is_empty() && feedback.is_some_and(|feedback| feedback.get(r#""blockReason""#).is_some())
    }

    fn part(&mut self, part: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        self.content += if part == r#"{"text":""}"# { 0 } else { part.len() };
        let (mut text, mut call) = (None, None);
        let (mut is_thought, mut is_text_alone) = (false, true);
        if part.starts_with('{') {
            each_field(part, |key, value| {
                match key {
                    _ if value == "null" => {}
                    r#""text""# if value.starts_with('"') => text = Some(value),
                    r#""thought""# => is_thought = value == "true",
                    _ => is_text_alone = false,
                }
                if key == r#""functionCall""# && value != "null" {
                    call = Some(value);
                }
                Ok(())
            })?;
        }
        if let Some(call) = call {
            return self.call(part, call, tell);
        }
        match (text, self.parts.last_mut()) {
            (Some(piece), Some(Part::Text { text, is_thought: last })) if is_text_alone && *last == is_thought => {
                text.push(piece);
            }
            (Some(piece), _) => {
                self.end_part(tell);
                let mut text = Text::default();
                text.push(piece);
                if is_text_alone {
                    self.parts.push(Part::Text { text, is_thought });
                } else {
                    tell_text(&mut text, is_thought, Text::last_news, tell);
                    self.parts.push(Part::Whole(part.to_owned()));
                    return Ok(());
                }
            }
            (None, _) => {
                self.end_part(tell);
                self.parts.push(Part::Whole(part.to_owned()));
            }
        }
        if let Some(Part::Text { text, is_thought }) = self.parts.last_mut() {
            tell_text(text, *is_thought, Text::news, tell);
        }
        Ok(())
    }

    /// A call that came whole, the start of one that comes in pieces, or more of one.
    fn call(&mut self, part: &str, call: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let (mut id, mut name, mut args) = (None, None, None);
        let (mut is_piece, mut is_empty) = (false, true);
        if call.starts_with('{') {
            each_field(call, |key, value| {
                is_empty &= value == "null";
                match key {
                    _ if value == "null" => {}
                    r#""id""# => id = unquoted(value).map(Cow::into_owned).filter(|id| !id.is_empty()),
                    r#""name""# if value.starts_with('"') && value != r#""""# => name = Some(value),
                    r#""args""# => args = Some(value),
                    r#""partialArgs""# => is_piece = true,
                    r#""willContinue""# => is_piece |= value == "true",
                    _ => {}
                }
                Ok(())
            })?;
        }
        let is_more = match self.parts.last() {
            // An empty call is the end of one, also where its last piece was the end already.
            Some(Part::Growing(growing)) => name.is_none() && (growing.is_open() || is_empty),
            Some(Part::Text { .. } | Part::Whole(_)) | None => false,
        };
        if !is_more {
            self.end_part(tell);
            let mut said = Text::default();
            said.push(name.unwrap_or(r#""""#));
            tell(Delta::CallStarted { index: self.calls, id, name: said.said() });
            self.calls += 1;
            if !is_piece {
                if let Some(args) = args {
                    tell(Delta::Arguments { index: self.calls - 1, text: mend_escapes(args).into_owned() });
                }
                self.parts.push(Part::Whole(part.to_owned()));
                return Ok(());
            }
            self.parts.push(Part::Growing(Growing::default()));
        }
        let Some(Part::Growing(growing)) = self.parts.last_mut() else { return Ok(()) };
        let was_open = growing.is_open();
        growing.take(part, call)?;
        if was_open && !growing.is_open() {
            growing.tell(self.calls - 1, tell);
        }
        Ok(())
    }

    /// Tells what waited for more of the last part; none will come.
    fn end_part(&mut self, tell: &mut dyn FnMut(Delta)) {
        match self.parts.last_mut() {
            Some(Part::Text { text, is_thought }) => tell_text(text, *is_thought, Text::last_news, tell),
            Some(Part::Growing(growing)) if growing.is_open() => {
                growing.end();
                growing.tell(self.calls - 1, tell);
            }
            Some(Part::Growing(_) | Part::Whole(_)) | None => {}
        }
    }
}

impl Part {
    fn write(self, out: &mut String) {
        match self {
            Self::Text { text, is_thought } => {
                out.push_str(r#"{"text":"#);
                text.write(out);
                out.push_str(if is_thought { r#","thought":true}"# } else { "}" });
            }
            Self::Growing(growing) => growing.write(out),
            Self::Whole(part) => out.push_str(&part),
        }
    }
}

fn tell_text(text: &mut Text, is_thought: bool, news: fn(&mut Text) -> Option<String>, tell: &mut dyn FnMut(Delta)) {
    let delta = if is_thought { Delta::Reasoning } else { Delta::Text };
    news(text).map(delta).into_iter().for_each(tell);
}

/// Visits the elements of a list.
pub(super) fn each_element<'a>(
    list: &'a str,
    mut visit: impl FnMut(&'a str) -> Result<(), ProviderFailure>,
) -> Result<(), ProviderFailure> {
    let mut visited = Ok(());
    let mut scan = Scan::new(list);
    let read = scan.array(|scan| {
        let value = scan.value()?;
        if visited.is_ok() {
            visited = visit(value);
        }
        Some(())
    });
    read.filter(|()| scan.is_over()).ok_or_else(unreadable)?;
    visited
}
