//! Why a conversation does not go on.

use thiserror::Error;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::transcript::TranscriptError;

use crate::store::{InvalidConversationId, State, StoreError};

/// Why a conversation does not go on. No model was called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConversationError {
    /// Somebody works on it (contract 7.9).
    #[error("the conversation {id:?} is being worked on; try again when that run has ended")]
    Busy {
        /// The conversation.
        id: String,
        /// When the other's lease runs out unless it is renewed, in unix milliseconds.
        until_ms: Option<i64>,
    },
    /// There is no such conversation.
    #[error("there is no conversation {id:?} in the store")]
    NotFound {
        /// The conversation.
        id: String,
    },
    /// There is one of that id already.
    #[error("there is a conversation {id:?} already; choose another id, or delete it first")]
    Exists {
        /// The conversation.
        id: String,
    },
    /// Nobody left it in the middle of a run.
    #[error("the conversation {id:?} is {}: no worker died on it, and there is nothing to recover", state.as_str())]
    NothingToRecover {
        /// The conversation.
        id: String,
        /// What goes on with it.
        state: State,
    },
    /// The same answer is being worked on (contract 7.4).
    #[error("this answer to request {request} is being worked on; ask again when that run has ended")]
    AnswerInProgress {
        /// The request.
        request: String,
    },
    /// Another answer came first, or the conversation went on behind this one (contract 7.4).
    #[error("request {request} is already settled; this answer changes nothing")]
    AlreadyAnswered {
        /// The request.
        request: String,
    },
    /// Another worker took the conversation over.
    #[error("the lease on the conversation {id:?} was lost to another worker; nothing more was written")]
    LeaseLost {
        /// The conversation.
        id: String,
    },
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness for ids: {reason}")]
    Entropy {
        /// What it says.
        reason: String,
    },
    /// The prompt cannot start a run.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The answer does not resume it.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The stored messages cannot be read.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The id is none.
    #[error(transparent)]
    Id(#[from] InvalidConversationId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
