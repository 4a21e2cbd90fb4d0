//! Calls that nobody answers any more: their time is over, or somebody called the conversation off. No model is called,
//! and the transcript stays valid (contract 7.8).

use bytes::Bytes;
use toolrelay_core::answer::{Answer, Reason};
use toolrelay_core::id::{CallId, RequestId};
use toolrelay_core::message::Message;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run;
use toolrelay_core::transcript::Transcript;

use crate::conversation::{ATTEMPTS, ConversationError, Conversations, Known, stored};
use crate::drive::now_ms;
use crate::store::{Conversation, ConversationId, State, StoreError, StoredRequest, Write};

impl Conversations {
    /// Settles the requests of a conversation whose time is over, whatever else it waits for. Gives whether there were
    /// any. A conversation that somebody works on, or died working on, is left to whoever goes on with it.
    pub async fn expire(&self, id: &str) -> Result<bool, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let Some(before) = self.store.load(&id).await? else { return Ok(false) };
            let (after, rows) = without_expired(before.clone(), None);
            if before.state == State::Running || rows.is_empty() {
                return Ok(false);
            }
            let state = if after.requests.is_empty() { State::Idle } else { State::Pending };
            let is_new = |(seq, _): &(u64, Bytes)| before.messages.binary_search_by_key(seq, |(seq, _)| *seq).is_err();
            let append = after.messages.into_iter().filter(is_new).collect();
            if self.settle(&id, &before, state, append, rows).await? {
                return Ok(true);
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// Calls a conversation off: calls that wait are cancelled, and those that run are interrupted. Whoever works on it
    /// has lost it. Gives the conversation as it then stands, ready for a prompt.
    pub async fn cancel(&self, id: &str) -> Result<Known, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let Some(before) = self.store.load(&id).await? else {
                return Err(ConversationError::NotFound { id: id.to_string() });
            };
            if before.state == State::Idle {
                return Ok(Known::of(&before)?);
            }
            let transcript = stored::transcript(&before)?;
            let settled = run::settle(&transcript, Some(Reason::Cancelled)).map_err(run::StartError::from)?.transcript;
            let append = missing(&before, &settled);
            let rows = before.requests.iter().map(|row| StoredRequest { settled: true, ..row.clone() }).collect();
            if self.settle(&id, &before, State::Idle, append, rows).await? {
                let Some(after) = self.store.load(&id).await? else {
                    return Err(ConversationError::NotFound { id: id.to_string() });
                };
                return Ok(Known::of(&after)?);
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// Writes in an epoch of its own what settles calls; whether nobody was faster.
    async fn settle(
        &self,
        id: &ConversationId,
        before: &Conversation,
        state: State,
        append: Vec<(u64, Bytes)>,
        requests: Vec<StoredRequest>,
    ) -> Result<bool, StoreError> {
        let (expect, version, epoch) = (before.version, before.version + 1, before.epoch + 1);
        let write = Write { expect, version, at_ms: now_ms(), state, epoch, lease: None, append, requests };
        match self.store.commit(id, write).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The messages of a transcript that the store has not.
fn missing(stored: &Conversation, transcript: &Transcript) -> Vec<(u64, Bytes)> {
    let is_new = |seq: &u64| stored.messages.binary_search_by_key(seq, |(seq, _)| *seq).is_err();
    let places = (0..).zip(transcript.messages());
    places.filter(|(seq, _)| is_new(seq)).map(|(seq, message)| (seq, message.to_bytes())).collect()
}

/// The conversation with its expired requests settled, but for one that is being answered, and the rows that change so.
pub(super) fn without_expired(mut stored: Conversation, answered: Option<&str>) -> (Conversation, Vec<StoredRequest>) {
    let now = now_ms();
    let mut rows = Vec::new();
    stored.requests.retain(|row| {
        let is_over = row.expires_at_ms.is_some_and(|until| until <= now);
        if !is_over || answered == Some(row.id.as_str()) || stored::is_worked_on(row) {
            return true;
        }
        let is_relay = stored::request_of(row).is_ok_and(|request| request.is_relay());
        for slot in &row.slots {
            if let Err(place) = stored.messages.binary_search_by_key(&slot.seq, |(seq, _)| *seq) {
                let result = Message::tool_result(&CallId::new(&slot.call), &run::refusal(Reason::Expired, is_relay));
                stored.messages.insert(place, (slot.seq, result.to_bytes()));
            }
        }
        rows.push(StoredRequest { settled: true, ..stored::with_answer(row.clone(), &expired(&row.id)) });
        false
    });
    (stored, rows)
}

/// What a request has for an answer that was settled because its time was over.
fn expired(request: &str) -> Answer {
    Answer { id: RequestId::new(request), ok: false, data: None, reason: Some(Reason::Expired) }
}

/// Why an answer to a settled request comes too late.
pub(super) fn too_late(row: &StoredRequest) -> ConversationError {
    let last = row.answers.last().and_then(|json| serde_json::from_slice::<Answer>(json).ok());
    match (last, stored::request_of(row)) {
        (Some(last), Ok(request)) if last == expired(&row.id) => {
            let at = request.expires_at.unwrap_or_default();
            ResumeError::Expired { request: request.id, at }.into()
        }
        _ => ConversationError::AlreadyAnswered { request: row.id.clone() },
    }
}
