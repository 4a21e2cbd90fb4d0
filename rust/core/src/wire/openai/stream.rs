//! A streamed Chat Completions reply, put together. Only the first choice counts.
//!
//! The reply is whole when a finish reason was seen; what comes after it is still taken until `[DONE]`, the end,
//! or an event of usage alone, the last that means anything.

mod calls;

use self::calls::Calls;
use super::decode::choice_error;
use crate::json::scan::{Scan, elements, fields};
use crate::wire::failure::ProviderFailure;
use crate::wire::growing::{Object, Text, Value};
use crate::wire::malformed;
use crate::wire::stream::{Assembly, Delta, Event, content_of, unreadable};

/// What came so far. Values are JSON texts.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    model: Option<String>,
    usage: Option<String>,
    finish_reason: Option<String>,
    /// Whether nothing more can come.
    is_over: bool,
    /// The message but for its calls.
    message: Object,
    calls: Calls,
    /// The field whose reasoning is told: some servers send it twice.
    reasoning: Option<String>,
    told_parts: ToldParts,
    /// How many bytes of content came.
    content: usize,
}

impl Assembly for Stream {
    fn take(&mut self, event: Event<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let chunk = Chunk::read(event.data).ok_or_else(unreadable)?;
        if self.model.is_none() {
            self.model = chunk.model.filter(|model| is_said(model)).map(ToOwned::to_owned);
        }
        let usage = chunk.usage.filter(|usage| usage.starts_with('{') && usage.len() > 2);
        let is_usage_alone = usage.is_some() && chunk.choice.says_nothing();
        self.is_over = is_usage_alone && self.finish_reason.is_some();
        if let Some(usage) = usage.or(chunk.choice.usage.filter(|usage| usage.starts_with('{'))) {
            self.usage = Some(usage.to_owned());
        }
        if let Some(error) = chunk.choice.error {
            return Err(choice_error(error));
        }
        // Some gateways send a whole reply as one event.
        let whole = chunk.choice.message.filter(|_| self.message.is_empty() && self.calls.is_empty());
        if let Some(delta) = chunk.choice.delta.or(whole).filter(|delta| delta.starts_with('{')) {
            self.delta(delta, tell)?;
        }
        if let Some(reason) = chunk.choice.finish_reason.filter(|reason| is_said(reason)) {
            self.finish_reason = Some(reason.to_owned());
        }
        if self.finish_reason.is_some() {
            self.tell_rest(tell);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_over
    }

    fn is_whole(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn content(&self) -> usize {
        self.content
    }

    fn into_body(mut self: Box<Self>) -> Option<String> {
        let reason = self.finish_reason?;
        if !self.calls.is_empty() {
            let mut calls = String::new();
            self.calls.write(&mut calls);
            self.message.set(r#""tool_calls""#, Value::Plain(calls));
        }
        let mut body = String::from("{");
        for (key, value) in [("model", self.model), ("usage", self.usage)] {
            if let Some(value) = value {
                body.extend(["\"", key, "\":", &value, ","]);
            }
        }
        body.push_str(r#""choices":[{"message":{"#);
        self.message.write_fields(&mut body);
        body.extend([r#"},"finish_reason":"#, &reason, "}]}"]);
        Some(body)
    }
}

impl Stream {
    fn delta(&mut self, delta: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        for (key, value) in fields(delta).ok_or_else(unreadable)? {
            self.content += if key == r#""role""# { 0 } else { content_of(value) };
            match key {
                r#""content""# => self.say(value, tell),
                r#""tool_calls""# if value != "null" => {
                    for entry in elements(value).ok_or_else(unreadable)? {
                        if self.calls.is_empty() {
                            // The place of the calls among the fields.
                            self.message.set(key, Value::new("[]"));
                        }
                        self.calls.take(entry, tell)?;
                    }
                }
                r#""tool_calls""# => {}
                r#""function_call""# => self.calls.take_legacy(value, tell),
                r#""reasoning_content""# | r#""reasoning""# => self.reasoning(key, value, tell),
                _ => {
                    self.message.merge(key, value);
                }
            }
        }
        if self.message.is_full() { Err(malformed("the message in the stream has too many fields")) } else { Ok(()) }
    }

    /// Text, or a list of parts; text among parts is a part. Anything else says nothing.
    fn say(&mut self, piece: &str, tell: &mut dyn FnMut(Delta)) {
        if !piece.starts_with(['"', '[']) && piece != "null" {
            return;
        }
        let key = r#""content""#;
        let own = self.message.get(key);
        if let Some(Value::Text(text)) = own
            && piece.starts_with('[')
        {
            let text = std::mem::take(text);
            let mut parts = Value::List(if text.is_empty() { Vec::new() } else { vec![text_part(text)] });
            parts.merge(piece);
            self.message.set(key, parts);
        } else if let Some(own @ Value::List(_)) = own
            && piece.starts_with('"')
        {
            if piece != r#""""# {
                own.merge(&format!(r#"[{{"type":"text","text":{piece}}}]"#));
            }
        } else {
            self.message.merge(key, piece);
        }
        let Some(content) = self.message.get(key) else { return };
        if let Some(text) = content.text() {
            text.news().map(Delta::Text).into_iter().for_each(tell);
        } else if let Some(parts) = content.list() {
            self.told_parts.tell(parts, tell);
        }
    }

    fn reasoning(&mut self, key: &str, piece: &str, tell: &mut dyn FnMut(Delta)) {
        let Some(text) = self.message.merge(key, piece).and_then(Value::text) else { return };
        if self.reasoning.is_none() && !text.is_empty() {
            self.reasoning = Some(key.to_owned());
        }
        if self.reasoning.as_deref() == Some(key) {
            text.news().map(Delta::Reasoning).into_iter().for_each(tell);
        }
    }

    /// Tells what waited for more: none will come. The words of a refusal are told now: they stand behind the text.
    fn tell_rest(&mut self, tell: &mut dyn FnMut(Delta)) {
        if let Some(text) = self.reasoning.as_deref().and_then(|key| self.message.get(key)).and_then(Value::text) {
            text.last_news().map(Delta::Reasoning).into_iter().for_each(&mut *tell);
        }
        let content = self.message.get(r#""content""#);
        let text = content.and_then(|content| match content {
            Value::List(parts) => parts.last_mut().and_then(text_of),
            Value::Text(text) => Some(text),
            Value::Plain(_) | Value::Object(_) => None,
        });
        text.and_then(Text::last_news).map(Delta::Text).into_iter().for_each(&mut *tell);
        let parts = self.message.get(r#""content""#).and_then(Value::list);
        for part in parts.into_iter().flatten() {
            refusal_of(part).and_then(Text::last_news).map(Delta::Text).into_iter().for_each(&mut *tell);
        }
        let refusal = self.message.get(r#""refusal""#).and_then(Value::text);
        refusal.and_then(Text::last_news).map(Delta::Text).into_iter().for_each(&mut *tell);
        self.calls.tell_rest(tell);
    }
}

fn text_part(text: Text) -> Value {
    let mut part = Object::default();
    part.set(r#""type""#, Value::new(r#""text""#));
    part.set(r#""text""#, Value::Text(text));
    Value::Object(part)
}

/// How much of the content is told where it is a list of parts.
#[derive(Debug, Default)]
struct ToldParts {
    /// So many parts are told for good.
    parts: usize,
    /// And so many parts of the thinking in the next one.
    inner: usize,
}

impl ToldParts {
    /// Tells what is new in the parts. Half a character at the end of a part waits while it is the last.
    fn tell(&mut self, parts: &mut [Value], tell: &mut dyn FnMut(Delta)) {
        let count = parts.len();
        for part in parts.iter_mut().skip(self.parts) {
            let is_last = self.parts + 1 == count;
            if let Some(text) = text_of(part) {
                text.news_if(is_last).map(Delta::Text).into_iter().for_each(&mut *tell);
            } else if let Some(inner) = part.object().and_then(|part| part.get(r#""thinking""#)).and_then(Value::list) {
                let count = inner.len();
                for (at, part) in inner.iter_mut().enumerate().skip(self.inner) {
                    let text = text_of(part).and_then(|text| text.news_if(is_last && at + 1 == count));
                    text.map(Delta::Reasoning).into_iter().for_each(&mut *tell);
                }
                self.inner = count.saturating_sub(1);
            }
            if !is_last {
                *self = Self { parts: self.parts + 1, inner: 0 };
            }
        }
    }
}

fn text_of(part: &mut Value) -> Option<&mut Text> {
    part.object()?.get(r#""text""#)?.text()
}

fn refusal_of(part: &mut Value) -> Option<&mut Text> {
    let part = part.object()?;
    part.get(r#""type""#).and_then(Value::text).filter(|kind| kind.is(r#""refusal""#))?;
    part.get(r#""refusal""#)?.text()
}

/// Whether a JSON value is a string that says something (fault D10).
fn is_said(json: &str) -> bool {
    json.starts_with('"') && json != r#""""#
}

/// One event. Values are JSON texts.
#[derive(Default)]
struct Chunk<'a> {
    model: Option<&'a str>,
    usage: Option<&'a str>,
    choice: Choice<'a>,
}

/// What an event says of the first choice (fault D9: often nothing).
#[derive(Default)]
struct Choice<'a> {
    delta: Option<&'a str>,
    message: Option<&'a str>,
    finish_reason: Option<&'a str>,
    usage: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Chunk<'a> {
    fn read(data: &'a str) -> Option<Self> {
        let mut scan = Scan::new(data);
        let mut chunk = Self::default();
        scan.object(|key, scan| {
            match key {
                r#""choices""# if scan.next_is(b'[') => scan.array(|scan| {
                    if !scan.next_is(b'{') {
                        return scan.value().map(drop);
                    }
                    let (choice, is_first) = Choice::read(scan)?;
                    if is_first {
                        chunk.choice = choice;
                    }
                    Some(())
                })?,
                r#""model""# => chunk.model = Some(scan.value()?),
                r#""usage""# => chunk.usage = Some(scan.value()?),
                _ => drop(scan.value()?),
            }
            Some(())
        })?;
        scan.is_over().then_some(chunk)
    }
}

impl<'a> Choice<'a> {
    fn says_nothing(&self) -> bool {
        self.delta.or(self.message).or(self.finish_reason).is_none()
    }

    /// Tells whether it is the first choice, too.
    fn read(scan: &mut Scan<'a>) -> Option<(Self, bool)> {
        let mut choice = Self::default();
        let mut is_first = true;
        scan.object(|key, scan| {
            let value = scan.value()?;
            let field = match key {
                r#""delta""# => &mut choice.delta,
                r#""message""# => &mut choice.message,
                r#""finish_reason""# => &mut choice.finish_reason,
                r#""usage""# => &mut choice.usage,
                r#""error""# => &mut choice.error,
                r#""index""# => {
                    is_first = matches!(value, "0" | "null");
                    return Some(());
                }
                _ => return Some(()),
            };
            *field = Some(value).filter(|value| *value != "null");
            Some(())
        })?;
        Some((choice, is_first))
    }
}
