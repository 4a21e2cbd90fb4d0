//! Why a conversation does not go on.

use thiserror::Error;
use toolrelay_core::request::rfc3339;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::transcript::TranscriptError;

use crate::store::{InvalidConversationId, Lease, State, StoreError};

/// Why a conversation does not go on. No model was called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConversationError {
    /// Somebody works on it (contract 7.9).
    #[error("the conversation {id:?} {}; try again when that run has ended", worked_on(lease.as_ref()))]
    Busy {
        /// The conversation.
        id: String,
        /// Whose it is, where that is known; nobody's yet if it has no owner.
        lease: Option<Lease>,
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
    #[error("this answer to request {request} {}; ask again when that run has ended", worked_on(Some(lease)))]
    AnswerInProgress {
        /// The request.
        request: String,
        /// Who works on it; nobody yet if it has no owner.
        lease: Lease,
    },
    /// Another answer came first, or the conversation went on behind this one (contract 7.4).
    #[error("request {request} is already settled; this answer changes nothing")]
    AlreadyAnswered {
        /// The request.
        request: String,
    },
    /// The conversation is this run's no more.
    #[error("the conversation {id:?} {}; nothing more was written", how.as_str())]
    LeaseLost {
        /// The conversation.
        id: String,
        /// How that came.
        how: Loss,
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

/// How a run lost its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its lease was over, and another run took the conversation.
    TakenOver,
    /// Somebody called the conversation off.
    Cancelled,
    /// Somebody deleted it.
    Deleted,
}

impl Loss {
    fn as_str(self) -> &'static str {
        match self {
            Self::TakenOver => "was lost to another worker, as the lease of this run was over",
            Self::Cancelled => "was cancelled under this run",
            Self::Deleted => "was deleted under this run",
        }
    }
}

fn worked_on(lease: Option<&Lease>) -> String {
    let Some(Lease { owner, until_ms, .. }) = lease else { return "is being worked on".to_owned() };
    let until = rfc3339(*until_ms).unwrap_or_default();
    if owner.is_empty() {
        format!("was submitted and nobody has taken its run up yet, which a sweep does from {until} on")
    } else {
        format!("is being worked on by {owner}, whose lease holds until {until} and may be renewed")
    }
}
