//! A streamed Responses reply, put together.
//!
//! The reply is complete with `response.completed` or `response.incomplete`, which bring it once more as a
//! whole. That is the reply; what it leaves out comes from the events before, and so do all items where it
//! has none.

mod item;

use std::collections::BTreeMap;

use self::item::Item;
use crate::json::scan::{Scan, elements, fields};
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::stream::{Assembly, Delta, Event, content_of, unreadable};

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
    fn of(data: &'a str) -> Option<Self> {
        let mut read = Self::default();
        let mut scan = Scan::new(data);
        scan.object(|key, scan| {
            let value = scan.value()?;
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
            Some(())
        })?;
        scan.is_over().then_some(read)
    }
}

impl Assembly for Stream {
    fn take(&mut self, event: Event<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        let read = Read::of(event.data).ok_or_else(unreadable)?;
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
        if last.is_empty() {
            for (at, item) in self.items.iter_mut().enumerate() {
                item.tell_rest(&mut self.calls, tell);
                body.push_str(if at == 0 { "" } else { "," });
                item.write(None, status, &mut body);
            }
        }
        for (at, raw) in last.into_iter().enumerate() {
            let place = self.last_form(at, raw);
            let item = &mut self.items[place];
            item.tell_whole(raw, &mut self.calls, tell);
            body.push_str(if at == 0 { "" } else { "," });
            item.write(Some(raw), status, &mut body);
        }
        body.push_str("]}");
        self.body = Some(body);
        Ok(())
    }

    /// The item whose last form stands at a place of the whole reply.
    fn last_form(&mut self, at: usize, raw: &str) -> usize {
        let Some(item) = Item::begun(raw) else { return self.push(Item::of_kind(""), None) };
        let by_id = item.id().and_then(|id| self.by_id.get(id)).copied();
        let is_it = |at: &usize| self.items.get(*at).is_some_and(|known| known.kind() == item.kind());
        by_id.or(Some(at).filter(is_it)).unwrap_or_else(|| self.push(item, None))
    }
}
