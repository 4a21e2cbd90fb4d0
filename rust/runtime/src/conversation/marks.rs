//! Marks that a token was used: empty conversations with a lease that nobody holds, by which they are found when the token
//! has ended.

use crate::conversation::{ConversationError, Conversations, Page};
use crate::drive::now_ms;
use crate::store::{ConversationId, Cursor, Lease, State, StoreError, Write};

impl Conversations {
    /// Leaves a mark in the store, until some time after the end of what it marks. Of all callers with one id exactly one
    /// is told that it was the first.
    pub async fn mark(&self, id: &str, until_ms: Option<i64>) -> Result<bool, ConversationError> {
        let lease = until_ms.map(|until_ms| Lease {
            owner: OWNER.to_owned(),
            epoch: 1,
            until_ms: until_ms.saturating_add(CLOCKS_DIFFER_MS),
        });
        let write = Write {
            expect: 0,
            version: 1,
            at_ms: now_ms(),
            state: State::Idle,
            epoch: 1,
            lease,
            append: Vec::new(),
            requests: Vec::new(),
        };
        match self.store.commit(&ConversationId::new(id)?, write).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The marks that nobody needs any more: they may be deleted.
    pub async fn spent(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<ConversationId>, StoreError> {
        self.leases_over(after, limit, is_mark).await
    }
}

/// Whether this is no worker's lease.
pub(super) fn is_mark(lease: &Lease) -> bool {
    lease.owner == OWNER
}

/// Who holds a mark's lease. No worker has this name: theirs have a colon, and that of nobody is empty.
const OWNER: &str = "sealed";
/// A token is good for a worker whose clock is behind, when another one's says that it has ended.
const CLOCKS_DIFFER_MS: i64 = 3_600_000;
