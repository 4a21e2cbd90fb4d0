//! What can go wrong in a store. No text here ever holds a part of a message.

use std::time::Duration;

/// Why a store did not do what it was asked.
///
/// [`Conflict`](Self::Conflict) and [`SeqTaken`](Self::SeqTaken) are answers: the store works, and nothing was changed.
/// The rest are troubles of the place where the conversations lie, which `store` names: a file, or a server and what is
/// used of it, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else's commit came first, or the conversation was there already, or it was not there.
    #[error("conversation is at version {found}, not at {expected}, load it again and decide anew")]
    Conflict {
        /// The version that the write expected; 0 for a conversation that must not exist.
        expected: u64,
        /// The version that it has; 0 when it does not exist.
        found: u64,
    },
    /// A message of the write has a place that is taken.
    #[error("message {seq} exists already, messages are only ever added")]
    SeqTaken {
        /// The place.
        seq: u64,
    },
    /// No room for the write.
    #[error("no space left for {store}, free some space and try again")]
    Full {
        /// The store.
        store: String,
    },
    /// The store cannot be written to.
    #[error("{store} is read-only, give this process the right to write to it")]
    ReadOnly {
        /// The store.
        store: String,
    },
    /// Somebody else held the store for longer than the caller would wait.
    #[error("{store} was locked by another process for {waited:?}, try again")]
    Locked {
        /// The store.
        store: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A newer version of this library wrote the store.
    #[error("{store} has schema {found}, this version reads up to {supported}, upgrade toolrelay")]
    NewerSchema {
        /// The store.
        store: String,
        /// Its schema.
        found: u32,
        /// The newest schema that this version knows.
        supported: u32,
    },
    /// The place holds something else.
    #[error("{store} is not a toolrelay store, choose another place")]
    NotAStore {
        /// The store.
        store: String,
    },
    /// The store is damaged.
    #[error("{store} is damaged ({reason}), restore it from a backup")]
    Corrupt {
        /// The store.
        store: String,
        /// What does not fit.
        reason: String,
    },
    /// The store was there, and is not any more.
    #[error("{store} was moved or deleted while in use, put it back or open the store anew")]
    Gone {
        /// The store.
        store: String,
    },
    /// The store cannot be reached, or failed in a way that none of the others tells.
    #[error("{store} is unavailable: {reason}")]
    Unavailable {
        /// The store.
        store: String,
        /// What happened, and what helps.
        reason: String,
    },
    /// A value that the store has no room for, whatever its free space.
    #[error("{what} is too large for {store}, at most {limit}")]
    TooLarge {
        /// The store.
        store: String,
        /// Which value.
        what: String,
        /// The largest that fits.
        limit: u64,
    },
    /// The store was closed by this program.
    #[error("{store} is closed, open it again")]
    Closed {
        /// The store.
        store: String,
    },
}

/// A URL that leads to no store. It is the caller's mistake, and no part of the URL is told: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL is not {expected}: {reason}")]
pub struct InvalidUrl {
    /// What it should look like.
    pub expected: &'static str,
    /// What is wrong with it.
    pub reason: String,
}
