//! What a conversation is made of at rest, and the [`Store`] that keeps it.
//!
//! The store owns durability and one compare-and-set. It decides nothing: who may answer, what a late answer is told,
//! when a lease is stale — all that is worked out above it, from what [`Store::load`] and [`Store::request`] gave.

mod conversation;
mod error;
mod frame;
mod memory;
mod postgres;
mod redis;
mod remote;
mod sqlite;

#[cfg(test)]
mod testing;

use std::fmt::Debug;

use async_trait::async_trait;

pub use conversation::{Conversation, ConversationId, Cursor, InvalidConversationId, Lease, Order, Slot, State};
pub use conversation::{StoredRequest, Write};
pub use error::{InvalidUrl, StoreError};
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore};
pub use redis::{RedisOptions, RedisStore};
pub use sqlite::{ForkHold, SqliteStore, hold_for_fork};

/// Where conversations are kept.
///
/// A caller loads, decides, and commits against the version that it loaded; of all callers that commit against one
/// version exactly one wins, and the others get [`StoreError::Conflict`] with nothing of theirs applied. The listings
/// find what nobody asks for: the leases of dead workers, and requests that wait.
///
/// An implementation keeps these promises (the suite in `toolrelay.testing` checks them):
///
/// - **All or nothing.** A write or deletion that fails with [`Conflict`](StoreError::Conflict) or
///   [`SeqTaken`](StoreError::SeqTaken) changed nothing. The version is checked first.
/// - **Durable before it is told.** When `commit` returns `Ok`, the write survives the end of the process, however it
///   ends (for a store that is durable at all).
/// - **Byte for byte.** Messages, request bodies, answers and outcomes come back as they went in. They are JSON by
///   convention of the caller; a store does not look inside.
/// - **A snapshot.** What one `load` returns was true at one instant.
/// - **Cancel-safe.** A dropped `commit` is applied in full or not at all.
///
/// After any other error of `commit` ([`Unavailable`](StoreError::Unavailable), say) the outcome is not known: load
/// again and look at the version.
#[async_trait]
pub trait Store: Send + Sync + Debug {
    /// The conversation as it stands; `None` when there is none of that id.
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError>;

    /// One request of a conversation, settled or not, by which late and repeated answers are told apart.
    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError>;

    /// Applies a write if the conversation is still at the version that the write expects.
    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError>;

    /// Takes the conversation away, with its messages and requests, if it is at version `expect`. After it the id is
    /// as if it had never been used.
    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError>;

    /// The conversations that have a lease, up to `limit` of them, those behind `after` if it is given. The order is
    /// that of [`Cursor`], by when the lease ends.
    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError>;

    /// The unsettled requests of all conversations, up to `limit` of them, those behind `after` if it is given. The
    /// order is that of [`Cursor`], by the time that `order` names.
    ///
    /// The time that this takes grows with `limit`, not with the number of conversations.
    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError>;

    /// Ends the store for all who have it: what was asked for is still done, then what it holds open is let go of. Whatever
    /// comes later is [`StoreError::Closed`], where there was something to let go of.
    async fn close(&self) {}
}
