//! A streamed Messages reply, put together.
//!
//! The reply is complete with `message_stop`, or when a stop reason was seen and the stream ends. Every block is
//! kept with all its fields; a delta of a type that nobody knows adds its fields to its block.

use std::collections::BTreeMap;

use crate::json::quoted;
use crate::json::scan::{Scan, fields};
use crate::wire::failure::ProviderFailure;
use crate::wire::growing::{Object, Text, Value};
use crate::wire::malformed;
use crate::wire::stream::{Assembly, Delta, Event, content_of, each_field, unreadable};

/// What came so far. Values are JSON texts.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    model: Option<String>,
    usage: Object,
    stop_reason: Option<String>,
    blocks: Vec<Block>,
    /// The last block with an index.
    places: BTreeMap<u64, usize>,
    calls: usize,
    is_complete: bool,
    /// How many bytes of content came.
    content: usize,
}

#[derive(Debug)]
struct Block {
    /// The block as it stands, as long as nothing was added to it.
    whole: Option<String>,
    fields: Object,
    /// The pieces of its input, if any came.
    input: Text,
    kind: Kind,
}

/// What of a block is told.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Thinking,
    /// With its place among the calls.
    Call(usize),
    Other,
}

/// One event. Values are JSON texts.
#[derive(Default)]
struct Read<'a> {
    kind: Option<&'a str>,
    index: Option<u64>,
    message: Option<&'a str>,
    content_block: Option<&'a str>,
    delta: Option<&'a str>,
    usage: Option<&'a str>,
}

impl<'a> Read<'a> {
    fn of(data: &'a str) -> Result<Self, ProviderFailure> {
        let mut read = Self::default();
        each_field(data, |key, value| {
            match key {
                r#""type""# => read.kind = value.strip_prefix('"').and_then(|kind| kind.strip_suffix('"')),
                r#""index""# => read.index = value.parse().ok(),
                r#""message""# => read.message = Some(value),
                r#""content_block""# => read.content_block = Some(value),
                r#""delta""# => read.delta = Some(value),
                r#""usage""# => read.usage = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        Ok(read)
    }
}

impl Assembly for Stream {
    fn take(&mut self, event: Event<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let read = Read::of(event.data)?;
        match read.kind.unwrap_or(event.name) {
            "content_block_delta" => {
                let fields = read.delta.and_then(fields).ok_or_else(unreadable)?;
                let said = fields.iter().filter(|(key, _)| *key != r#""type""#);
                self.content += said.map(|(_, value)| content_of(value)).sum::<usize>();
                let block = self.block(read.index)?;
                for (key, value) in fields {
                    block.merge(key, value);
                }
                if block.fields.is_full() {
                    return Err(malformed("a content block in the stream has too many fields"));
                }
                block.tell(Text::news, tell);
            }
            "content_block_start" => {
                let block = read.content_block.unwrap_or_default();
                self.content += block.len();
                self.start(read.index, block, Object::new(block).ok_or_else(unreadable)?, tell);
            }
            "content_block_stop" => self.block(read.index)?.tell_rest(tell),
            "message_start" => self.message(read.message),
            "message_delta" => {
                self.message(read.delta);
                self.count(read.usage);
            }
            "message_stop" => {
                self.is_complete = true;
                self.blocks.iter_mut().for_each(|block| block.tell_rest(tell));
            }
            // `ping`, and what nobody knows yet.
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn is_whole(&self) -> bool {
        self.is_complete || self.stop_reason.is_some()
    }

    fn content(&self) -> usize {
        self.content
    }

    fn into_body(self: Box<Self>) -> Option<String> {
        if !self.is_whole() {
            return None;
        }
        let mut body = String::from("{");
        for (key, value) in [("model", self.model), ("stop_reason", self.stop_reason)] {
            if let Some(value) = value {
                body.extend(["\"", key, "\":", &value, ","]);
            }
        }
        body.push_str(r#""usage":{"#);
        self.usage.write_fields(&mut body);
        body.push_str(r#"},"content":["#);
        for (at, block) in self.blocks.into_iter().enumerate() {
            body.push_str(if at == 0 { "" } else { "," });
            block.write(&mut body);
        }
        body.push_str("]}");
        Some(body)
    }
}

impl Stream {
    /// Takes the message at the start, or what is new of it at the end.
    fn message(&mut self, message: Option<&str>) {
        for (key, value) in message.and_then(fields).unwrap_or_default() {
            let is_said = value.starts_with('"') && value != r#""""#;
            match key {
                r#""model""# if is_said => self.model = Some(value.to_owned()),
                r#""stop_reason""# if is_said => self.stop_reason = Some(value.to_owned()),
                r#""usage""# => self.count(Some(value)),
                _ => {}
            }
        }
    }

    /// Counts are totals: a later one counts, but for one that was not made.
    fn count(&mut self, usage: Option<&str>) {
        for (key, value) in usage.and_then(fields).unwrap_or_default() {
            if !matches!(value, "null" | "0") && !self.usage.is_full() {
                self.usage.set(key, Value::new(value));
            }
        }
    }

    /// The block with this index; the last one where none is given.
    fn block(&mut self, index: Option<u64>) -> Result<&mut Block, ProviderFailure> {
        let at = match index {
            Some(index) => self.places.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        };
        let block = at.and_then(|at| self.blocks.get_mut(at));
        block.ok_or_else(|| malformed("an event of the stream is about a content block that did not begin"))
    }

    fn start(&mut self, index: Option<u64>, whole: &str, mut fields: Object, tell: &mut dyn FnMut(Delta)) {
        let mut said = |key| fields.get(key).and_then(Value::text).map(|text| text.said()).unwrap_or_default();
        let kind = match said(r#""type""#).as_str() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "tool_use" => {
                let id = Some(said(r#""id""#)).filter(|id| !id.is_empty());
                tell(Delta::CallStarted { index: self.calls, id, name: said(r#""name""#) });
                self.calls += 1;
                Kind::Call(self.calls - 1)
            }
            _ => Kind::Other,
        };
        if let Some(index) = index {
            self.places.insert(index, self.blocks.len());
        }
        let mut block = Block { whole: Some(whole.to_owned()), fields, input: Text::default(), kind };
        block.tell(Text::news, tell);
        self.blocks.push(block);
    }
}

impl Block {
    fn merge(&mut self, key: &str, value: &str) {
        self.whole = None;
        match key {
            r#""type""# => {}
            r#""partial_json""# if value.starts_with('"') => self.input.push(value),
            // It comes whole.
            r#""signature""# => self.fields.set(key, Value::new(value)),
            r#""citation""# => {
                let citations = r#""citations""#;
                match self.fields.get(citations).and_then(Value::list) {
                    Some(list) => list.push(Value::new(value)),
                    None => self.fields.set(citations, Value::List(vec![Value::new(value)])),
                }
            }
            _ => {
                self.fields.merge(key, value);
            }
        }
    }

    fn tell(&mut self, news: fn(&mut Text) -> Option<String>, tell: &mut dyn FnMut(Delta)) {
        let mut field = |key| self.fields.get(key).and_then(Value::text).and_then(news);
        let delta = match self.kind {
            Kind::Text => field(r#""text""#).map(Delta::Text),
            Kind::Thinking => field(r#""thinking""#).map(Delta::Reasoning),
            Kind::Call(index) => news(&mut self.input).map(|text| Delta::Arguments { index, text }),
            Kind::Other => None,
        };
        delta.into_iter().for_each(tell);
    }

    /// Tells what waited for more; none will come. So it is with an input that came whole (fault D12).
    fn tell_rest(&mut self, tell: &mut dyn FnMut(Delta)) {
        if let (Kind::Call(_), true, Some(input)) = (self.kind, self.input.is_empty(), self.fields.get(r#""input""#)) {
            let mut json = String::new();
            input.write(&mut json);
            self.input.push(&if json.starts_with('"') { json } else { quoted(&json) });
        }
        self.tell(Text::last_news, tell);
    }

    /// Appends the block as a plain reply has it. Pieces of input that make no JSON stay text (fault D24).
    fn write(self, out: &mut String) {
        let Self { whole, mut fields, input, kind: _ } = self;
        if let Some(whole) = whole {
            out.push_str(&whole);
            return;
        }
        let text = input.said();
        let mut scan = Scan::new(&text);
        if scan.value().is_some() && scan.is_over() {
            fields.set(r#""input""#, Value::Plain(text));
        } else if !text.trim().is_empty() {
            fields.set(r#""input""#, Value::Plain(quoted(&text)));
        }
        out.push('{');
        fields.write_fields(out);
        out.push('}');
    }
}
