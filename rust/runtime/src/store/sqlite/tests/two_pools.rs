//! The whole conformance suite once more, with every other operation going through another store on the same file.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::store::{Conversation, ConversationId, Cursor, Lease, Order};

conformance!(two_on_one_file());

#[derive(Debug)]
struct Alternating {
    stores: [SqliteStore; 2],
    turn: AtomicUsize,
}

fn two_on_one_file() -> (Alternating, TempDir) {
    let (store, folder) = fresh();
    let stores = [SqliteStore::open(store.path()).unwrap(), store];
    (Alternating { stores, turn: AtomicUsize::new(0) }, folder)
}

impl Alternating {
    fn next(&self) -> &SqliteStore {
        &self.stores[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl Store for Alternating {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.next().load(id).await
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        self.next().request(id, request).await
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        self.next().commit(id, write).await
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        self.next().delete(id, expect).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        self.next().leases(after, limit).await
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        self.next().open_requests(order, after, limit).await
    }
}
