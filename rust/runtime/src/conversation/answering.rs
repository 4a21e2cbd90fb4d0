//! Answers to stored conversations: exactly one works, the same one again gets the same outcome,
//! another one is told so (contract 7.2 to 7.4).

use toolrelay_core::answer::Answer;
use toolrelay_core::repair::Warning;
use toolrelay_core::request::Request;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::{Left, Run, RunConfig};
use toolrelay_core::tool::Tools;
use toolrelay_core::transcript::Transcript;

use crate::conversation::same::same;
use crate::conversation::{ATTEMPTS, Claimed, ConversationError, Conversations, Held, Replay};
use crate::conversation::{check_free, lease_left, settling, stored};
use crate::drive::now_ms;
use crate::store::{Conversation, ConversationId, StoreError, StoredRequest};

/// What an answer leads to.
#[derive(Debug)]
pub enum Answered {
    /// This caller works on it.
    Claimed(Box<Claimed>),
    /// This caller first ends what a dead worker left; the answer is then to be given anew.
    Left(Box<Claimed>),
    /// It was worked on before; this is what came of it.
    Before {
        /// How that run ended.
        replay: Replay,
        /// The transcript as that run left it.
        transcript: Transcript,
        /// Its outstanding requests.
        suspensions: Vec<Request>,
    },
}

impl Conversations {
    /// Claims a halted conversation with an answer to this request, or without one to that which the answer names. The answer is durable when this returns a
    /// claim; all checks come before.
    pub async fn answer(
        &self,
        id: &str,
        pending: Option<&Request>,
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
            let asked = pending.map_or(&answer.id, |pending| &pending.id);
            let Some(row) = self.row_of(&id, &stored, asked.as_str()).await? else {
                let waiting = stored.requests.iter().filter(|row| !stored::is_worked_on(row));
                let expected = waiting.map(|row| row.id.clone()).collect();
                return Err(ResumeError::WrongRequest { expected, found: asked.clone() }.into());
            };
            let mut held = Held::new(self, id.clone(), &stored);
            let (run, warnings) = if let Some(at) = place_of(answer, &row) {
                if let Some(replay) = Replay::read(&row, at) {
                    return self.tell_again(&id, replay).await;
                }
                let started = match go_on(&stored, &row, config, tools) {
                    // What was loaded may be from before the claim that the row tells of.
                    Err(ConversationError::AlreadyAnswered { .. }) if !self.is_current(&id, &stored).await? => continue,
                    started => started?,
                };
                held.work_on_all(&stored.requests);
                if !stored::is_worked_on(&row) {
                    held.work_on(&row.id, at);
                }
                held = held.changing([StoredRequest { settled: false, ..row }]);
                started
            } else {
                if row.settled || stored::is_worked_on(&row) {
                    return Err(settling::too_late(&row));
                }
                check_free(&id, &stored)?;
                if stored.requests.iter().any(stored::is_worked_on) {
                    match self.take_over(&id, stored, config, tools).await? {
                        Some(claimed) => return Ok(Answered::Left(Box::new(claimed))),
                        None => continue,
                    }
                }
                let (stored, expired) = settling::without_expired(stored, Some(&row.id));
                let history = stored::transcript(&stored)?;
                let pending = pending.map_or_else(|| stored::request_of(&row), |pending| Ok(pending.clone()))?;
                let started = Run::resume(history, &pending, answer, missing, Some(now_ms()), config, tools)?;
                held.work_on(&row.id, row.answers.len());
                held = held.changing(expired).changing([stored::with_answer(row, answer)]);
                started
            };
            if let Some(claimed) = held.claim(run, warnings).await? {
                return Ok(Answered::Claimed(Box::new(claimed)));
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// A request of a loaded conversation.
    async fn row_of(
        &self,
        id: &ConversationId,
        stored: &Conversation,
        asked: &str,
    ) -> Result<Option<StoredRequest>, StoreError> {
        match stored.requests.iter().find(|row| row.id == asked && !stored::is_worked_on(row)) {
            Some(waiting) => Ok(Some(waiting.clone())),
            // Read after the conversation, so that it is never the older of the two. When it is the
            // newer one, what follows does not fit or its claim is a conflict, and all is read anew.
            None => self.store.request(id, asked).await,
        }
    }

    /// Whether nobody has written to the conversation since it was loaded.
    async fn is_current(&self, id: &ConversationId, loaded: &Conversation) -> Result<bool, StoreError> {
        Ok(self.store.load(id).await?.is_some_and(|now| now.version == loaded.version))
    }

    /// The recorded outcome of an answer, with the transcript as that run left it.
    async fn tell_again(&self, id: &ConversationId, replay: Replay) -> Result<Answered, ConversationError> {
        // Loaded after the outcome was read, so that all of its messages are there.
        let Some(stored) = self.store.load(id).await? else {
            return Err(ConversationError::NotFound { id: id.to_string() });
        };
        let mut halted = Vec::new();
        for waiting in &replay.waiting {
            let row = self.store.request(id, &waiting.request).await?;
            halted.extend(row.map(|row| StoredRequest { slots: waiting.slots(), ..row }));
        }
        let transcript = stored::transcript_until(&stored, replay.end, &halted)?;
        let suspensions = stored::outstanding(&transcript);
        Ok(Answered::Before { replay, transcript, suspensions })
    }
}

/// Goes on where the run of an answer was cut off, or where its model call failed: the answer is
/// settled in the transcript already.
fn go_on(
    stored: &Conversation,
    row: &StoredRequest,
    config: &RunConfig,
    tools: &dyn Tools,
) -> Result<(Run, Vec<Warning>), ConversationError> {
    if let Some(lease) = lease_left(stored) {
        return Err(ConversationError::AnswerInProgress { request: row.id.clone(), lease: lease.clone() });
    }
    let gone_on = || ConversationError::AlreadyAnswered { request: row.id.clone() };
    let transcript = stored::transcript(stored)?;
    let place = row.slots.first().and_then(|slot| usize::try_from(slot.seq).ok()).unwrap_or(0);
    let (before, after) = transcript.messages().split_at_checked(place).ok_or_else(gone_on)?;
    let first = before.iter().rposition(|message| message.assistant().is_some()).unwrap_or(0);
    if after.iter().any(stored::is_prompt) {
        return Err(gone_on());
    }
    let left = Left {
        first,
        turns: stored::turns_of(row)?,
        answers: stored::answers(stored),
        unstarted: stored::is_unowned(stored),
    };
    Run::go_on(&transcript, &left, config, tools).map_err(|_| gone_on())
}

/// Where among the answers of the request this very one stands.
fn place_of(answer: &Answer, row: &StoredRequest) -> Option<usize> {
    let new = serde_json::to_vec(answer).ok()?;
    row.answers.iter().position(|old| same(old, &new))
}
