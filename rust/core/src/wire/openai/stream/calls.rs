//! The calls of a streamed reply: which call a piece belongs to, and what the calls are in the end.
//!
//! Servers count, name and identify calls in many ways. What a piece says of itself decides: its index, then
//! its id. It begins a new call where it has a name, and the call at its place has another id, has arguments under
//! another name, or came whole. A piece that says nothing goes to the only call, or to the last one if all before
//! it have whole arguments. Anything else is not guessed at: the reply fails.
//!
//! A name comes in pieces, or is said again: a piece is appended unless it is the name so far (fault D6).

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::scan::{Scan, fields};
use crate::json::{quoted, unquoted};
use crate::wire::failure::ProviderFailure;
use crate::wire::growing::{Object, Text, Value};
use crate::wire::malformed;
use crate::wire::stream::{Delta, unreadable};

#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// The last call with an index.
    by_index: BTreeMap<u64, usize>,
    /// The last call with an id, as its JSON text.
    by_id: BTreeMap<String, usize>,
    /// So many calls from the first on have whole arguments.
    whole: usize,
    /// So many calls from the first on were told to have begun.
    started: usize,
}

#[derive(Debug, Default)]
struct Call {
    id: Option<String>,
    kind: Option<String>,
    name: Text,
    arguments: Text,
    /// In how many pieces the arguments came.
    pieces: usize,
    /// Further fields of its function.
    function: Object,
    /// Further fields of its own.
    more: Object,
}

/// One piece. Values are JSON texts; what says nothing is absent (fault D7).
#[derive(Default)]
struct Entry<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    kind: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
    function: Vec<(&'a str, &'a str)>,
    more: Vec<(&'a str, &'a str)>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes an entry of `tool_calls`.
    pub(super) fn take(&mut self, entry: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        self.place(Entry::read(entry).ok_or_else(unreadable)?, tell)
    }

    /// Takes a piece of the one call that the old form knows.
    pub(super) fn take_legacy(&mut self, function: &str, tell: &mut dyn FnMut(Delta)) {
        let mut entry = Entry { index: Some(0), ..Entry::default() };
        if entry.read_function(function).is_some() {
            let at = if self.is_empty() { self.open(&entry, tell) } else { 0 };
            self.join(at, entry, tell);
        }
    }

    fn place(&mut self, entry: Entry<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let by_id = entry.id.and_then(|id| self.by_id.get(id)).copied();
        let known = match entry.index {
            Some(index) => self.by_index.get(&index).copied(),
            None => by_id,
        };
        let at = match known {
            Some(at) if self.list.get(at).is_some_and(|call| entry.begins_after(call)) => self.open(&entry, tell),
            Some(at) => at,
            None if entry.name.is_some() => match self.list.len().checked_sub(1) {
                // The name goes on, or is said again.
                Some(last) if entry.is_anonymous() && entry.arguments.is_none() && self.is_bare(last) => last,
                Some(_) | None => self.open(&entry, tell),
            },
            None => match (by_id, entry.arguments) {
                (Some(at), _) => at,
                (None, None) if entry.id.is_some() => self.open(&entry, tell),
                // Nothing to tell a call from (fault D10).
                (None, None) if self.list.len() != 1 => return Ok(()),
                (None, _) => match self.list.len() {
                    0 => self.open(&entry, tell),
                    1 => 0,
                    count if self.are_whole_before(count - 1) => count - 1,
                    _ => return Err(malformed("a piece of a call in the stream belongs to no one call")),
                },
            },
        };
        self.join(at, entry, tell);
        Ok(())
    }

    fn open(&mut self, entry: &Entry<'_>, tell: &mut dyn FnMut(Delta)) -> usize {
        let at = self.list.len();
        self.start_before(at, tell);
        self.list.push(Call::default());
        if let Some(index) = entry.index {
            self.by_index.insert(index, at);
        }
        at
    }

    fn join(&mut self, at: usize, entry: Entry<'_>, tell: &mut dyn FnMut(Delta)) {
        let Some(call) = self.list.get_mut(at) else { return };
        if let (None, Some(id)) = (&call.id, entry.id) {
            call.id = Some(id.to_owned());
            self.by_id.insert(id.to_owned(), at);
        }
        if let (None, Some(kind)) = (&call.kind, entry.kind) {
            call.kind = Some(kind.to_owned());
        }
        if let Some(name) = entry.name.filter(|name| !call.name.is(name)) {
            call.name.push(name);
        }
        for (key, value) in entry.function {
            call.function.merge(key, value);
        }
        for (key, value) in entry.more {
            call.more.merge(key, value);
        }
        call.pieces += usize::from(entry.arguments.is_some());
        match entry.arguments {
            None => return,
            Some(text) if text.starts_with('"') => call.arguments.push(text),
            // An object where its text is due (fault C5).
            Some(value) => call.arguments.push(&quoted(value)),
        }
        self.start_before(at + 1, tell);
        if at < self.started
            && let Some(text) = self.list.get_mut(at).and_then(|call| call.arguments.news())
        {
            tell(Delta::Arguments { index: at, text });
        }
    }

    /// Whether a call has nothing but a name.
    fn is_bare(&self, at: usize) -> bool {
        self.list.get(at).is_some_and(|call| call.arguments.is_empty())
    }

    /// Whether the arguments of all calls before this one are whole. A call is looked at until it is whole.
    fn are_whole_before(&mut self, end: usize) -> bool {
        while self.whole < end && self.list.get(self.whole).is_some_and(Call::is_whole) {
            self.whole += 1;
        }
        self.whole >= end
    }

    /// Tells of every call before this one that it has begun: its name is known now. Where arguments came before
    /// the name, it waits, and those behind it wait too.
    fn start_before(&mut self, end: usize, tell: &mut dyn FnMut(Delta)) {
        while self.started < end
            && let Some(call) = self.list.get_mut(self.started).filter(|call| !call.name.is_empty())
        {
            call.start(self.started, tell);
            self.started += 1;
        }
    }

    /// Tells what waited for more: none will come.
    pub(super) fn tell_rest(&mut self, tell: &mut dyn FnMut(Delta)) {
        for (index, call) in self.list.iter_mut().enumerate().skip(self.started) {
            call.start(index, tell);
        }
        self.started = self.list.len();
        for (index, call) in self.list.iter_mut().enumerate() {
            if let Some(text) = call.arguments.last_news() {
                tell(Delta::Arguments { index, text });
            }
        }
    }

    /// Appends the list of calls.
    pub(super) fn write(&self, out: &mut String) {
        out.push('[');
        for (at, call) in self.list.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            call.write(out);
        }
        out.push(']');
    }
}

impl Call {
    /// Tells that it has begun, and what came of its arguments.
    fn start(&mut self, index: usize, tell: &mut dyn FnMut(Delta)) {
        let id = self.id.as_deref().and_then(unquoted).map(Cow::into_owned);
        tell(Delta::CallStarted { index, id, name: self.name.said() });
        if let Some(text) = self.arguments.news() {
            tell(Delta::Arguments { index, text });
        }
    }

    fn is_whole(&self) -> bool {
        let text = self.arguments.said();
        let mut scan = Scan::new(&text);
        scan.next_is(b'{') && scan.value().is_some() && scan.is_over()
    }

    /// Appends the call as a plain reply has it: it has no index there.
    fn write(&self, out: &mut String) {
        let mut own = Object::default();
        if let Some(id) = &self.id {
            own.set(r#""id""#, Value::new(id));
        }
        let is_function = !(self.name.is_empty() && self.arguments.is_empty() && self.function.is_empty());
        let kind = self.kind.as_deref().or(is_function.then_some(r#""function""#));
        if let Some(kind) = kind {
            own.set(r#""type""#, Value::new(kind));
        }
        out.push('{');
        own.write_fields(out);
        if is_function {
            out.push_str(if own.is_empty() { r#""function":{"name":"# } else { r#","function":{"name":"# });
            self.name.write(out);
            out.push_str(r#","arguments":"#);
            self.arguments.write(out);
            if !self.function.is_empty() {
                out.push(',');
                self.function.write_fields(out);
            }
            out.push('}');
        }
        if !self.more.is_empty() {
            out.push_str(if is_function || !own.is_empty() { "," } else { "" });
            self.more.write_fields(out);
        }
        out.push('}');
    }
}

impl<'a> Entry<'a> {
    fn read(entry: &'a str) -> Option<Self> {
        let mut read = Self::default();
        let mut function = None;
        for (key, value) in fields(entry)? {
            match key {
                r#""index""# => read.index = value.parse().ok(),
                r#""id""# => read.id = said(value),
                r#""type""# => read.kind = said(value),
                r#""function""# => function = Some(value),
                r#""name""# => read.name = said(value),
                r#""arguments""# => read.arguments = argument(value),
                _ => read.more.push((key, value)),
            }
        }
        if let Some(function) = function.filter(|function| *function != "null") {
            read.read_function(function)?;
        }
        Some(read)
    }

    fn read_function(&mut self, function: &'a str) -> Option<()> {
        for (key, value) in fields(function)? {
            match key {
                r#""name""# => self.name = said(value),
                r#""arguments""# => self.arguments = argument(value),
                _ => self.function.push((key, value)),
            }
        }
        Some(())
    }

    fn is_anonymous(&self) -> bool {
        self.index.is_none() && self.id.is_none()
    }

    /// Whether it begins another call than the one at its place (fault D2). Some servers give every piece
    /// an id of its own: without a name it begins nothing.
    fn begins_after(&self, call: &Call) -> bool {
        let Some(name) = self.name else { return false };
        if let (Some(id), Some(own)) = (self.id, &call.id)
            && id != own
        {
            return true;
        }
        let has_other_name = !call.name.is_empty() && !call.name.is(name);
        let is_object = self.arguments.is_some_and(|arguments| arguments.starts_with("\"{"));
        let came_whole = || self.id.is_none() && call.pieces == 1 && is_object && call.is_whole();
        !call.arguments.is_empty() && (has_other_name || came_whole())
    }
}

/// A string that says something.
fn said(value: &str) -> Option<&str> {
    Some(value).filter(|value| value.starts_with('"') && *value != r#""""#)
}

fn argument(value: &str) -> Option<&str> {
    Some(value).filter(|value| !matches!(*value, "null" | r#""""#))
}
