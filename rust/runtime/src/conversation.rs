//! Stored conversations: claim before work, answers durable before use, one winner (contract 7).
//!
//! This module owns the policy over a [`Store`]: what a loaded conversation means, who may go on,
//! and what a loser is told. The store owns durability and the one compare-and-set.

mod answering;
mod copies;
mod error;
mod held;
mod marks;
mod recovery;
mod replay;
mod same;
mod settling;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use toolrelay_core::message::Message;
use toolrelay_core::repair::Warning;
use toolrelay_core::request::Request;
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::tool::Tools;
use toolrelay_core::transcript::{Transcript, TranscriptError};

use crate::drive::now_ms;
use crate::store::{Conversation, ConversationId, Lease, State, Store};

pub use answering::Answered;
pub use error::{ConversationError, Loss};
pub use held::Held;
pub use recovery::{Page, Waiting};
pub use replay::Replay;
pub(crate) use stored::outstanding;

/// The conversations of a store, as one worker sees them.
#[derive(Clone, Debug)]
pub struct Conversations {
    store: Arc<dyn Store>,
    owner: String,
    lease: Duration,
}

/// A claimed conversation and the run that works on it.
#[derive(Debug)]
pub struct Claimed {
    /// The run, not yet driven.
    pub run: Run,
    /// What mending the stored history changed.
    pub warnings: Vec<Warning>,
    /// The claim; it is the run's log.
    pub held: Held,
}

/// A stored conversation as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What goes on with it.
    pub state: State,
    /// Its transcript; calls under way have no result yet.
    pub transcript: Transcript,
    /// The requests it waits for, in call order.
    pub suspensions: Vec<Request>,
    /// Raised by one with each write; where it began says nothing.
    pub version: u64,
    /// When it was last written, in unix milliseconds.
    pub written_at_ms: i64,
    /// Who works on it, or died working on it.
    pub lease: Option<Lease>,
}

impl Conversations {
    /// `owner` names this worker in leases; `lease` is how long a claim lasts without renewal.
    pub fn new(store: Arc<dyn Store>, owner: impl Into<String>, lease: Duration) -> Self {
        Self { store, owner: owner.into(), lease }
    }

    /// The same conversations, for somebody who claims for others: the runs are left to whoever takes them up (a prompt of
    /// `None`), at the end of the lease at the latest.
    #[must_use]
    pub fn for_others(&self) -> Self {
        Self { owner: String::new(), ..self.clone() }
    }

    /// Claims a conversation for a new prompt, or without one to go on from a settled transcript, or
    /// from what a dead worker left. A conversation that does not exist begins with its first prompt.
    pub async fn prompt(
        &self,
        id: &str,
        prompt: Option<&Message>,
        on_pending: OnPending,
        config: &RunConfig,
        tools: &dyn Tools,
    ) -> Result<Claimed, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let stored = match self.store.load(&id).await? {
                Some(stored) => stored,
                None if prompt.is_some() => unborn(),
                None => return Err(ConversationError::NotFound { id: id.to_string() }),
            };
            if prompt.is_some() || !stored::is_unowned(&stored) {
                check_free(&id, &stored)?;
            }
            let claimed = if prompt.is_none() && stored.state == State::Running {
                self.take_over(&id, stored, config, tools).await?
            } else {
                let held = Held::new(self, id.clone(), &stored);
                let (stored, expired) = settling::without_expired(stored, None);
                let transcript = stored::transcript(&stored)?;
                let (run, warnings) = Run::start(transcript, prompt.cloned(), on_pending, config)?;
                held.changing(expired).claim(run, warnings).await?
            };
            if let Some(claimed) = claimed {
                return Ok(claimed);
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// Claims what a dead worker left; `None` when somebody else was faster.
    async fn take_over(
        &self,
        id: &ConversationId,
        stored: Conversation,
        config: &RunConfig,
        tools: &dyn Tools,
    ) -> Result<Option<Claimed>, ConversationError> {
        let mut held = Held::new(self, id.clone(), &stored);
        held.work_on_all(&stored.requests);
        let (stored, expired) = settling::without_expired(stored, None);
        let transcript = stored::transcript(&stored)?;
        let (run, warnings) = Run::go_on(&transcript, &stored::left(&stored, &transcript), config, tools)?;
        Ok(held.changing(expired).claim(run, warnings).await?)
    }

    /// A conversation as it stands, without a claim on it; `None` when there is none of that id.
    pub async fn get(&self, id: &str) -> Result<Option<Known>, ConversationError> {
        let stored = self.store.load(&ConversationId::new(id)?).await?;
        Ok(stored.as_ref().map(Known::of).transpose()?)
    }
}

impl Known {
    fn of(stored: &Conversation) -> Result<Self, TranscriptError> {
        let transcript = stored::transcript(stored)?;
        let suspensions = stored::outstanding(&transcript);
        let (version, written_at_ms, lease) = (stored.version, stored.written_at_ms, stored.lease.clone());
        Ok(Self { state: stored.state, transcript, suspensions, version, written_at_ms, lease })
    }
}

/// What a conversation is before its first prompt.
fn unborn() -> Conversation {
    Conversation {
        version: 0,
        written_at_ms: 0,
        epoch: 0,
        state: State::Idle,
        lease: None,
        messages: Vec::new(),
        requests: Vec::new(),
    }
}

/// A conversation that somebody works on is busy until the lease runs out.
fn check_free(id: &ConversationId, stored: &Conversation) -> Result<(), ConversationError> {
    match lease_left(stored) {
        None => Ok(()),
        Some(lease) => Err(ConversationError::Busy { id: id.to_string(), lease: Some(lease.clone()) }),
    }
}

/// The lease that holds, if one does.
fn lease_left(stored: &Conversation) -> Option<&Lease> {
    let lease = stored.lease.as_ref().filter(|_| stored.state == State::Running)?;
    (lease.until_ms > now_ms()).then_some(lease)
}

/// How often a lost compare-and-set is decided anew before the conversation counts as busy.
const ATTEMPTS: usize = 8;
