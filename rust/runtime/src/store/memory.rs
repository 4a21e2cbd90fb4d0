//! The store of a process that keeps nothing: conversations in a map, gone with the last clone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::sqlite::put_off_forks;
use super::{Conversation, ConversationId, Cursor, Lease, Order, State, Store, StoreError, StoredRequest, Write};

/// Conversations in memory, shared by all clones. The default store.
#[derive(Clone, Default)]
pub struct MemoryStore {
    conversations: Arc<Mutex<BTreeMap<ConversationId, Kept>>>,
}

struct Kept {
    version: u64,
    written_at_ms: i64,
    epoch: u64,
    state: State,
    lease: Option<Lease>,
    messages: BTreeMap<u64, Bytes>,
    requests: BTreeMap<String, StoredRequest>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every change under this lock is a whole one, so a panic elsewhere leaves nothing to distrust.
    fn conversations(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Kept>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let _unforked = put_off_forks();
        Ok(self.conversations().get(id).map(Kept::snapshot))
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        let _unforked = put_off_forks();
        Ok(self.conversations().get(id).and_then(|kept| kept.requests.get(request)).cloned())
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        let _unforked = put_off_forks();
        let mut conversations = self.conversations();
        let kept = conversations.get_mut(id);
        let found = kept.as_ref().map_or(0, |kept| kept.version);
        if found != write.expect {
            return Err(StoreError::Conflict { expected: write.expect, found });
        }
        let mut fresh = BTreeMap::new();
        for (seq, body) in write.append {
            let taken = kept.as_ref().is_some_and(|kept| kept.messages.contains_key(&seq));
            if taken || fresh.insert(seq, body).is_some() {
                return Err(StoreError::SeqTaken { seq });
            }
        }
        let requests = write.requests.into_iter().map(|request| (request.id.clone(), request));
        if let Some(kept) = kept {
            kept.version = write.version;
            kept.written_at_ms = write.at_ms;
            kept.epoch = write.epoch;
            kept.state = write.state;
            kept.lease = write.lease;
            kept.messages.append(&mut fresh);
            kept.requests.extend(requests);
        } else {
            let kept = Kept {
                version: write.version,
                written_at_ms: write.at_ms,
                epoch: write.epoch,
                state: write.state,
                lease: write.lease,
                messages: fresh,
                requests: requests.collect(),
            };
            conversations.insert(id.clone(), kept);
        }
        Ok(())
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        let _unforked = put_off_forks();
        let mut conversations = self.conversations();
        let found = conversations.get(id).map_or(0, |kept| kept.version);
        if found != expect {
            return Err(StoreError::Conflict { expected: expect, found });
        }
        conversations.remove(id);
        Ok(())
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        let _unforked = put_off_forks();
        let conversations = self.conversations();
        let leased = conversations.iter().filter_map(|(id, kept)| Some((id, kept.lease.as_ref()?)));
        let placed = leased.map(|(id, lease)| {
            let place = Cursor { at_ms: lease.until_ms, conversation: id.clone(), request: String::new() };
            (place, lease)
        });
        let page = page(placed, after, limit).into_iter();
        Ok(page.map(|(place, lease)| (place.conversation, lease.clone())).collect())
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        let _unforked = put_off_forks();
        let conversations = self.conversations();
        let all = conversations.iter().flat_map(|(id, kept)| kept.requests.values().map(move |row| (id, row)));
        let placed = all.filter(|(_, row)| !row.settled).filter_map(|(id, row)| {
            let at_ms = order.time_of(row)?;
            Some((Cursor { at_ms, conversation: id.clone(), request: row.id.clone() }, row))
        });
        let page = page(placed, after, limit).into_iter();
        Ok(page.map(|(place, row)| (place.conversation, row.clone())).collect())
    }
}

/// The first entries behind a place, in order.
fn page<T>(entries: impl Iterator<Item = (Cursor, T)>, after: Option<&Cursor>, limit: usize) -> Vec<(Cursor, T)> {
    let mut page: Vec<_> = entries.filter(|(place, _)| after.is_none_or(|after| place > after)).collect();
    page.sort_by(|(one, _), (other, _)| one.cmp(other));
    page.truncate(limit);
    page
}

impl Kept {
    fn snapshot(&self) -> Conversation {
        let mut requests: Vec<_> = self.requests.values().filter(|request| !request.settled).cloned().collect();
        requests.sort_by_key(StoredRequest::place);
        Conversation {
            version: self.version,
            written_at_ms: self.written_at_ms,
            epoch: self.epoch,
            state: self.state,
            lease: self.lease.clone(),
            messages: self.messages.iter().map(|(seq, body)| (*seq, body.clone())).collect(),
            requests,
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("conversations", &self.conversations().len()).finish()
    }
}

#[cfg(test)]
mod tests;
