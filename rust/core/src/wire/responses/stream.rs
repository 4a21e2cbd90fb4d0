//! A streamed Responses reply, put together.
//!
//! The reply is complete with `response.completed` or `response.incomplete`, which bring it once more as a
//! whole. That is the reply; what it leaves out comes from the events before: fields of items, items that were
//! done, and where it has no items all of them.

mod item;

use std::collections::BTreeMap;
use std::mem;

use self::item::Item;
use crate::json::scan::{elements, fields};
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::stream::{Assembly, Delta, Event, content_of, each_field, unreadable};

/// What came so far.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    items: Vec<Item>,
    /// The last item with an index.
    by_index: BTreeMap<u64, usize>,
    /// The item with an id, which is kept with its quotes.
    by_id: BTreeMap<String, usize>,
    /// How many calls were told.
    calls: usize,
    /// The body of the plain reply.
    body: Option<String>,
    /// How many bytes of content came.
    content: usize,
}

/// One event. Values are JSON texts.
#[derive(Default)]
struct Read<'a> {
    kind: Option<&'a str>,
    index: Option<u64>,
    id: Option<&'a str>,
    /// The place of a part in its list.
    part: Option<u64>,
    delta: Option<&'a str>,
    /// What the pieces came to.
    whole: Option<&'a str>,
    item: Option<&'a str>,
    response: Option<&'a str>,
}

impl<'a> Read<'a> {
    fn of(data: &'a str) -> Result<Self, ProviderFailure> {
        let mut read = Self::default();
        each_field(data, |key, value| {
            let text = Some(value).filter(|value| value.starts_with('"'));
            match key {
                r#""type""# => read.kind = value.strip_prefix('"').and_then(|kind| kind.strip_suffix('"')),
                r#""output_index""# => read.index = value.parse().ok(),
                r#""item_id""# => read.id = text.filter(|id| id.len() > 2),
                r#""content_index""# | r#""summary_index""# => read.part = value.parse().ok(),
                r#""delta""# => read.delta = text,
                r#""text""# | r#""refusal""# | r#""arguments""# => read.whole = text,
                r#""item""# => read.item = Some(value),
                r#""response""# => read.response = Some(value),
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
        let kind = read.kind.unwrap_or(event.name);
        self.content += [read.item, read.delta, read.whole].into_iter().flatten().map(content_of).sum::<usize>();
        match kind {
            "response.output_item.added" => self.begin(&read, tell)?,
            "response.output_item.done" => {
                let raw = read.item.ok_or_else(unreadable)?;
                let at = self.finished(&read, raw)?;
                self.items[at].finish(raw, &mut self.calls, tell);
            }
            "response.completed" => self.end("completed", read.response, tell)?,
            "response.incomplete" => self.end("incomplete", read.response, tell)?,
            "response.failed" => {
                let failure = read.response.and_then(|response| ProviderFailure::in_body(response.as_bytes()));
                let silent = || ProviderFailure::new(FailureKind::Server, "the reply failed without saying why");
                return Err(failure.unwrap_or_else(silent));
            }
            _ => {
                if let Some((owner, place)) = item::place_of(kind) {
                    let at = self.grown(&read, owner);
                    let item = &mut self.items[at];
                    item.grow(place, read.part.unwrap_or(0), (read.delta, read.whole), tell);
                }
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.is_some()
    }

    fn is_whole(&self) -> bool {
        self.is_complete()
    }

    fn content(&self) -> usize {
        self.content
    }

    fn into_body(self: Box<Self>) -> Option<String> {
        self.body
    }
}

impl Stream {
    fn push(&mut self, item: Item, index: Option<u64>) -> usize {
        let at = self.items.len();
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        if let Some(id) = item.id() {
            self.by_id.insert(id.to_owned(), at);
        }
        self.items.push(item);
        at
    }

    fn begin(&mut self, read: &Read<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let item = read.item.and_then(Item::begun).ok_or_else(unreadable)?;
        if item.id().is_none_or(|id| !self.by_id.contains_key(id)) {
            let at = self.push(item, read.index);
            self.items[at].start(&mut self.calls, tell);
        }
        Ok(())
    }

    /// The item that an event says is done: some servers give it another id than it began with.
    fn finished(&mut self, read: &Read<'_>, raw: &str) -> Result<usize, ProviderFailure> {
        let item = Item::begun(raw).ok_or_else(unreadable)?;
        let by_id = item.id().and_then(|id| self.by_id.get(id)).copied();
        let by_index = read.index.and_then(|index| self.by_index.get(&index)).copied();
        let is_it = |at: &usize| !self.items[*at].is_done() && self.items[*at].kind() == item.kind();
        Ok(by_id.or(by_index.filter(is_it)).unwrap_or_else(|| self.push(item, read.index)))
    }

    /// The item of a kind that an event has more of; one without a beginning begins here.
    fn grown(&mut self, read: &Read<'_>, kind: &str) -> usize {
        let by_id = read.id.and_then(|id| self.by_id.get(id)).copied();
        let by_index = || read.index.and_then(|index| self.by_index.get(&index)).copied();
        let known = by_id.or_else(by_index).filter(|at| self.items[*at].kind() == kind);
        let last = || self.items.iter().rposition(|item| item.kind() == kind && !item.is_done());
        known.or_else(last).unwrap_or_else(|| self.push(Item::of_kind(kind), read.index))
    }

    fn end(
        &mut self,
        status: &str,
        response: Option<&str>,
        tell: &mut dyn FnMut(Delta),
    ) -> Result<(), ProviderFailure> {
        let response = match response {
            Some(response) => fields(response).ok_or_else(unreadable)?,
            None => Vec::new(),
        };
        let field = |key: &str| response.iter().rfind(|(known, _)| *known == key).map(|(_, value)| *value);
        // Some servers end a reply that was cut with the event of a whole one (fault E3).
        let status = if field(r#""status""#) == Some(r#""incomplete""#) { "incomplete" } else { status };
        let last = field(r#""output""#).and_then(elements).unwrap_or_default();
        let mut body = format!(r#"{{"status":"{status}","#);
        for key in [r#""model""#, r#""usage""#, r#""incomplete_details""#] {
            if let Some(value) = field(key) {
                body.extend([key, ":", value, ","]);
            }
        }
        body.push_str(r#""output":["#);
        for (at, (place, raw)) in self.whole(&last).into_iter().enumerate() {
            let item = &mut self.items[place];
            match raw {
                Some(raw) => item.tell_whole(raw, &mut self.calls, tell),
                None => item.tell_rest(&mut self.calls, tell),
            }
            body.push_str(if at == 0 { "" } else { "," });
            item.write(raw, status, &mut body);
        }
        body.push_str("]}");
        self.body = Some(body);
        Ok(())
    }

    /// The items of the reply in order, with their last forms. Some servers leave out of these what was done before,
    /// and some leave out all.
    fn whole<'r>(&mut self, last: &[&'r str]) -> Vec<(usize, Option<&'r str>)> {
        let streamed = self.items.len();
        let places = self.places_of(last);
        let mut is_named = vec![false; self.items.len()];
        for place in &places {
            is_named[*place] = true;
        }
        let is_kept = |at: &usize| !is_named[*at] && (last.is_empty() || self.items[*at].is_done());
        let mut kept = (0..streamed).filter(is_kept).peekable();
        let mut whole = Vec::with_capacity(last.len());
        for (place, raw) in places.iter().zip(last) {
            while let Some(at) = kept.next_if(|at| at < place && *place < streamed) {
                whole.push((at, None));
            }
            whole.push((*place, Some(*raw)));
        }
        whole.extend(kept.map(|at| (at, None)));
        whole
    }

    /// The items whose last forms these are. Each is the one with its id, or that of its call, or else the next of its
    /// kind, as some servers make new ids for the whole reply: a call is never taken for two.
    fn places_of(&mut self, last: &[&str]) -> Vec<usize> {
        let items: Vec<Option<Item>> = last.iter().map(|raw| Item::begun(raw)).collect();
        let calls = self.items.iter().enumerate().filter_map(|(at, item)| Some((item.call_id()?.to_owned(), at)));
        let by_call: BTreeMap<String, usize> = calls.collect();
        let mut is_free = vec![true; self.items.len()];
        let mut named = |item: &Option<Item>| {
            let item = item.as_ref()?;
            let by_id = item.id().and_then(|id| self.by_id.get(id));
            let at = *by_id.or_else(|| by_call.get(item.call_id()?))?;
            mem::take(&mut is_free[at]).then_some(at)
        };
        let named: Vec<Option<usize>> = items.iter().map(&mut named).collect();
        let mut next: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in (0..is_free.len()).rev().filter(|at| is_free[*at]) {
            next.entry(self.items[at].kind().to_owned()).or_default().push(at);
        }
        let place = |(named, item): (Option<usize>, Option<Item>)| {
            let next = || next.get_mut(item.as_ref()?.kind())?.pop();
            named.or_else(next).unwrap_or_else(|| self.push(item.unwrap_or_else(|| Item::of_kind("")), None))
        };
        named.into_iter().zip(items).map(place).collect()
    }
}
