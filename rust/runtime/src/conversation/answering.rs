//! Answers to stored conversations: exactly one works, the same one again gets the same outcome,
//! another one is told so (contract 7.2 to 7.4).

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrelay_core::answer::Answer;
use toolrelay_core::id::RequestId;
use toolrelay_core::reply::Usage;
use toolrelay_core::request::Request;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::io::{Limit, Outcome};
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::tool::Tools;
use toolrelay_core::transcript::Transcript;

use crate::conversation::stored::{self, Body};
use crate::conversation::{ATTEMPTS, Claimed, ConversationError, Conversations, Held, check_free, lease_left};
use crate::drive::now_ms;
use crate::store::{Conversation, ConversationId, StoreError, StoredRequest};

/// What an answer leads to.
#[derive(Debug)]
pub enum Answered {
    /// This caller works on it.
    Claimed(Box<Claimed>),
    /// It was worked on before; this is what came of it.
    Before {
        /// How that run ended.
        replay: Replay,
        /// The transcript as far as that run wrote it.
        transcript: Transcript,
        /// Its outstanding requests.
        suspensions: Vec<Request>,
    },
}

/// How an answered run ended, kept with its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The limit that ended it, if one did.
    pub limit: Option<Limit>,
    /// Whether calls were parked.
    pub pending: bool,
    /// The text of its last reply.
    pub text: String,
    /// Why that reply ended.
    pub finish_reason: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Model turns since the prompt.
    pub turns: u32,
    /// Its tokens.
    pub usage: Usage,
    /// The place of its first message.
    pub first: usize,
    /// The place behind its last message.
    pub end: usize,
    /// The requests it left.
    pub requests: Vec<RequestId>,
}

impl Replay {
    /// What there is to tell again of a run; nothing of one that failed or was cancelled, so that
    /// the same answer goes on from where it stood.
    pub(super) fn of(run: &Run) -> Option<Self> {
        let limit = match run.outcome()? {
            Outcome::Finished | Outcome::Suspended => None,
            Outcome::Exhausted(limit) => Some(*limit),
            Outcome::Failed(_) | Outcome::Cancelled => return None,
        };
        Some(Self {
            limit,
            pending: !run.suspensions().is_empty(),
            text: run.text().to_owned(),
            finish_reason: run.finish_reason().map(str::to_owned),
            model: run.model().map(str::to_owned),
            turns: run.turns(),
            usage: run.usage(),
            first: run.first(),
            end: run.transcript().len(),
            requests: run.suspensions().iter().map(|request| request.id.clone()).collect(),
        })
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

impl Conversations {
    /// Claims a halted conversation with an answer. The answer is durable when this returns a
    /// claim; all checks come before.
    pub async fn answer(
        &self,
        id: &str,
        pending: &Request,
        answer: &Answer,
        missing: Missing,
        config: &RunConfig,
        tools: &dyn Tools,
    ) -> Result<Answered, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.store.load(&id).await? else {
                return Err(ConversationError::NotFound { id: id.to_string() });
            };
            let Some(row) = self.store.request(&id, pending.id.as_str()).await? else {
                let expected = stored.requests.iter().map(|row| row.id.clone()).collect();
                return Err(ResumeError::WrongRequest { expected, found: pending.id.clone() }.into());
            };
            if is_given(&row, answer) && !self.is_current(&id, &stored).await? {
                // Somebody claimed the conversation between the two reads: the answer that the row
                // shows is not in what was loaded.
                continue;
            }
            let mut held = Held::new(self, id.clone(), &stored);
            let (run, warnings) = if is_given(&row, answer) {
                if let Some(before) = self.before(&id, &stored, &row).await? {
                    return Ok(before);
                }
                if lease_left(&stored).is_some() {
                    return Err(ConversationError::AnswerInProgress { request: row.id });
                }
                let gone_on = ConversationError::AlreadyAnswered { request: row.id.clone() };
                held.answer(row);
                Run::start(stored::transcript(&stored)?, None, OnPending::Refuse, config).map_err(|_| gone_on)?
            } else {
                if row.settled {
                    return Err(ConversationError::AlreadyAnswered { request: row.id });
                }
                check_free(&id, &stored)?;
                let started =
                    Run::resume(stored::transcript(&stored)?, pending, answer, missing, Some(now_ms()), config, tools)?;
                held.answer(with_answer(row, answer, &started.0));
                started
            };
            match held.claim(&run).await {
                Ok(()) => return Ok(Answered::Claimed(Box::new(Claimed { run, warnings, held }))),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), until_ms: None })
    }

    /// Whether nobody has written to the conversation since it was loaded.
    async fn is_current(&self, id: &ConversationId, loaded: &Conversation) -> Result<bool, StoreError> {
        Ok(self.store.load(id).await?.is_some_and(|now| now.version == loaded.version))
    }

    /// The recorded outcome of an answer that was worked on.
    async fn before(
        &self,
        id: &ConversationId,
        stored: &Conversation,
        row: &StoredRequest,
    ) -> Result<Option<Answered>, ConversationError> {
        let Some(outcome) = &row.outcome else { return Ok(None) };
        let Ok(replay) = serde_json::from_slice::<Replay>(outcome) else { return Ok(None) };
        let mut suspensions = Vec::new();
        for request in &replay.requests {
            let row = self.store.request(id, request.as_str()).await?;
            let body = row.and_then(|row| serde_json::from_slice::<Body>(&row.body).ok());
            suspensions.extend(body.map(|body| body.request));
        }
        let mut transcript = stored::transcript(stored)?;
        transcript.split_off(replay.end);
        Ok(Some(Answered::Before { replay, transcript, suspensions }))
    }
}

/// Whether this very answer was given before; the order of its keys does not matter.
fn is_given(row: &StoredRequest, answer: &Answer) -> bool {
    let Ok(new) = serde_json::to_value(answer) else { return false };
    row.answers.iter().any(|old| serde_json::from_slice::<Value>(old).is_ok_and(|old| old == new))
}

/// The row of a request that this answer was given to; it is settled when nothing of it waits.
fn with_answer(mut row: StoredRequest, answer: &Answer, run: &Run) -> StoredRequest {
    row.answers.push(serde_json::to_vec(answer).unwrap_or_default().into());
    row.settled = run.suspensions().iter().all(|request| request.id.as_str() != row.id);
    row
}
