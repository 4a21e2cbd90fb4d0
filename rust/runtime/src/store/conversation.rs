//! The values that pass between a store and its caller. They own no behaviour beyond telling valid ids from others.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// The host's name for a conversation: 1 to [`MAX_BYTES`](Self::MAX_BYTES) bytes of text without NUL.
///
/// The limits are those that every store can hold as a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(Arc<str>);

impl ConversationId {
    /// The longest id, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 1024;

    /// Takes `text` as an id.
    ///
    /// ```
    /// use toolrelay_runtime::store::{ConversationId, InvalidConversationId};
    ///
    /// assert_eq!(ConversationId::new("c-1").unwrap().as_str(), "c-1");
    /// assert_eq!(ConversationId::new(""), Err(InvalidConversationId::Empty));
    /// ```
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidConversationId> {
        let text = text.into();
        if text.is_empty() {
            return Err(InvalidConversationId::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidConversationId::TooLong { bytes: text.len() });
        }
        if text.contains('\0') {
            return Err(InvalidConversationId::Nul);
        }
        Ok(Self(text))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no conversation id. The caller's mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConversationId {
    /// The text is empty.
    #[error("conversation id is empty, give it at least one character")]
    Empty,
    /// The text is longer than [`ConversationId::MAX_BYTES`].
    #[error("conversation id has {bytes} bytes, shorten it to at most {}", ConversationId::MAX_BYTES)]
    TooLong {
        /// Its length in UTF-8.
        bytes: usize,
    },
    /// The text holds a NUL, which some stores cannot keep.
    #[error("conversation id contains a NUL character, remove it")]
    Nul,
}

/// What a conversation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing: a prompt may start a segment.
    Idle,
    /// A segment runs, under the lease.
    Running,
    /// It waits for answers to its unsettled requests.
    Pending,
}

impl State {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Pending => "pending",
        }
    }
}

/// Who works on a conversation, and for how long that may be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The worker.
    pub owner: String,
    /// The epoch in which the lease was taken.
    pub epoch: u64,
    /// When it ends, in milliseconds since the Unix epoch.
    pub until_ms: i64,
}

/// The place in the transcript that the result of a parked call will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The result's place among the messages.
    pub seq: u64,
    /// The call's id.
    pub call: String,
}

/// A request that parked calls wait for, or waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// The request's id, unique within its conversation.
    pub id: String,
    /// The calls that wait, in call order.
    pub slots: Vec<Slot>,
    /// The request itself, as JSON.
    pub body: Bytes,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: i64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<i64>,
    /// Whether every call has its answer (or its substitute).
    pub settled: bool,
    /// The answers that were taken, as JSON, in the order of their arrival.
    pub answers: Vec<Bytes>,
    /// What came of it, as JSON of the caller.
    pub outcome: Option<Bytes>,
}

impl StoredRequest {
    /// Where the request stands among others: the place of its first slot.
    pub(super) fn place(&self) -> Option<u64> {
        self.slots.first().map(|slot| slot.seq)
    }

    /// By what requests that come in no order are put in order.
    pub(super) fn order(&self) -> (Option<u64>, &str) {
        (self.place(), &self.id)
    }

    /// How much there is to keep, about.
    pub(super) fn bytes(&self) -> usize {
        let slots = self.slots.iter().map(|slot| slot.call.len() + size_of::<u64>());
        let json = self.answers.iter().chain(&self.outcome).chain([&self.body]).map(Bytes::len);
        self.id.len() + slots.chain(json).sum::<usize>()
    }
}

/// A conversation at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// What the last write made it.
    pub version: u64,
    /// When the last write was made, in milliseconds since the Unix epoch.
    pub written_at_ms: i64,
    /// The epoch of the last write.
    pub epoch: u64,
    /// What it is doing.
    pub state: State,
    /// Who works on it.
    pub lease: Option<Lease>,
    /// The messages with their places, ascending. There may be gaps: a parked call's result is absent until settled.
    pub messages: Vec<(u64, Bytes)>,
    /// The unsettled requests, by the place of their first slot.
    pub requests: Vec<StoredRequest>,
}

/// One change of a conversation, applied as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The version that the conversation must have; 0 means that it must not exist yet.
    pub expect: u64,
    /// The version that it gets. The caller raises it by one, but a new conversation begins at a random one, so that
    /// whoever still works on a deleted conversation of the same id never meets the version that it expects.
    pub version: u64,
    /// When the write was made, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The new state.
    pub state: State,
    /// The new epoch.
    pub epoch: u64,
    /// The new lease.
    pub lease: Option<Lease>,
    /// Messages to add. A place that is taken, in the store or twice in here, fails the write.
    pub append: Vec<(u64, Bytes)>,
    /// Requests to add, or to replace when their id is known.
    pub requests: Vec<StoredRequest>,
}

/// By what open requests are listed, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// By when they were made.
    Age,
    /// By when they expire; those that never do are left out.
    Expiry,
}

impl Order {
    /// The time that a request is listed by.
    pub fn time_of(self, request: &StoredRequest) -> Option<i64> {
        match self {
            Self::Age => Some(request.made_at_ms),
            Self::Expiry => request.expires_at_ms,
        }
    }
}

/// Where an entry of a listing stands. Listings are in this order: by time, then by the bytes of the ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time that the entry is listed by, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The conversation.
    pub conversation: ConversationId,
    /// The request; empty in a listing of leases.
    pub request: String,
}
