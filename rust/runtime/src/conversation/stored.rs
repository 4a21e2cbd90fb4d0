//! Between stored rows and a transcript. A parked call has no row of its own: its place is empty,
//! and an open request says what it waits for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolrelay_core::answer::Answer;
use toolrelay_core::id::{CallId, RequestId};
use toolrelay_core::message::{Body, Message, Pending};
use toolrelay_core::request::Request;
use toolrelay_core::run::{Left, Run};
use toolrelay_core::suspension::{self, Suspension};
use toolrelay_core::transcript::{Transcript, TranscriptError};

use crate::conversation::Replay;
use crate::store::{Conversation, Slot, StoredRequest};

/// The transcript of a stored conversation, with placeholders for what its open requests wait for.
/// A gap that no request explains stays open: its call was under way when a worker died.
pub(super) fn transcript(stored: &Conversation) -> Result<Transcript, TranscriptError> {
    let is_empty = |slot: &Slot| stored.messages.binary_search_by_key(&slot.seq, |(seq, _)| *seq).is_err();
    let waiting = stored.requests.iter().filter(|row| !is_worked_on(row)).map(|row| StoredRequest {
        slots: row.slots.iter().filter(|slot| is_empty(slot)).cloned().collect(),
        ..row.clone()
    });
    transcript_until(stored, usize::MAX, &waiting.collect::<Vec<_>>())
}

/// Whether the last answer that was taken is worked on, or its worker died: nothing waits for an answer then.
pub(super) fn is_worked_on(row: &StoredRequest) -> bool {
    !row.settled && row.answers.len().checked_sub(1).is_some_and(|last| Replay::read(row, last).is_none())
}

/// The row of a request that gets an answer.
pub(super) fn with_answer(mut row: StoredRequest, answer: &Answer) -> StoredRequest {
    row.answers.push(serde_json::to_vec(answer).unwrap_or_default().into());
    row
}

/// What a dead worker left, seen from the last prompt.
pub(super) fn left(stored: &Conversation, transcript: &Transcript) -> Left {
    let prompt = transcript.messages().iter().rposition(is_prompt);
    Left { first: prompt.unwrap_or(0), turns: 0, answers: answers(stored), unstarted: is_unowned(stored) }
}

/// Whether a run was left to whoever takes it up, and nobody has.
pub(super) fn is_unowned(stored: &Conversation) -> bool {
    stored.lease.as_ref().is_some_and(|lease| lease.owner.is_empty())
}

pub(super) fn is_prompt(message: &Message) -> bool {
    matches!(message.body(), Body::User)
}

/// The answers that a dead worker had taken, with the calls that they were for.
pub(super) fn answers(stored: &Conversation) -> Vec<(CallId, Answer)> {
    let mut answers = Vec::new();
    for row in stored.requests.iter().filter(|row| is_worked_on(row)) {
        if let Some(answer) = row.answers.last().and_then(|json| serde_json::from_slice::<Answer>(json).ok()) {
            answers.extend(row.slots.iter().map(|slot| (CallId::new(&slot.call), answer.clone())));
        }
    }
    answers
}

/// The transcript as it was when it had `end` messages and these requests waited at their slots.
pub(super) fn transcript_until(
    stored: &Conversation,
    end: usize,
    waiting: &[StoredRequest],
) -> Result<Transcript, TranscriptError> {
    let known = stored.messages.partition_point(|(seq, _)| *seq < end as u64);
    let rows = &stored.messages[..known];
    let messages = Transcript::from_messages(rows.iter().map(|(_, bytes)| bytes.clone()))?;
    if waiting.is_empty() {
        return Ok(messages);
    }
    let mut placed: BTreeMap<u64, Message> =
        rows.iter().map(|(seq, _)| *seq).zip(messages.messages().iter().cloned()).collect();
    for row in waiting {
        placed.extend(placeholders(row)?);
    }
    Ok(Transcript::new(placed.into_values().collect()))
}

/// The requests that a transcript waits for, in call order.
pub(crate) fn outstanding(transcript: &Transcript) -> Vec<Request> {
    if !transcript.is_halted() {
        return Vec::new();
    }
    Suspension::from_transcript(transcript.clone()).map_or_else(|_| Vec::new(), |halted| halted.outstanding())
}

fn placeholders(row: &StoredRequest) -> Result<Vec<(u64, Message)>, TranscriptError> {
    let Kept { turns, check, request } = body_of(row)?;
    let mut whole = Some(request);
    let placeholder = |slot: &Slot| {
        let pending = Pending { id: RequestId::new(&row.id), turns, check: check.clone(), request: whole.take() };
        (slot.seq, Message::placeholder(&CallId::new(&slot.call), pending))
    };
    Ok(row.slots.iter().map(placeholder).collect())
}

/// The requests that calls of a run wait for, as rows made at this time.
pub(super) fn open_requests(run: &Run, made_at_ms: i64) -> Vec<StoredRequest> {
    let mut open = Vec::new();
    if run.outcome().is_none() {
        for (at, message) in run.parked() {
            add_slot(&mut open, at, &message, made_at_ms);
        }
        return open;
    }
    for (at, message) in run.transcript().messages().iter().enumerate().skip(run.first()) {
        add_slot(&mut open, at, message, made_at_ms);
    }
    open
}

/// The requests that a transcript waits for, as rows made at this time.
pub(super) fn parked_in(transcript: &Transcript, made_at_ms: i64) -> Vec<StoredRequest> {
    let mut open = Vec::new();
    for (at, message) in transcript.messages().iter().enumerate() {
        add_slot(&mut open, at, message, made_at_ms);
    }
    open
}

/// Adds the place of a placeholder to the row of its request.
fn add_slot(open: &mut Vec<StoredRequest>, at: usize, message: &Message, made_at_ms: i64) {
    let Some((result, pending)) = message.result().and_then(|result| Some((result, result.pending.as_ref()?))) else {
        return;
    };
    let slot = Slot { seq: at as u64, call: result.call.to_string() };
    match open.iter_mut().find(|row| row.id == pending.id.as_str()) {
        Some(row) => row.slots.push(slot),
        None => open.extend(pending.request.as_ref().map(|request| new_row(request, pending, slot, made_at_ms))),
    }
}

fn new_row(request: &Request, pending: &Pending, slot: Slot, made_at_ms: i64) -> StoredRequest {
    let body = Kept { turns: pending.turns, check: pending.check.clone(), request: request.clone() };
    StoredRequest {
        id: request.id.to_string(),
        slots: vec![slot],
        body: serde_json::to_vec(&body).unwrap_or_default().into(),
        made_at_ms,
        expires_at_ms: request.expires_at_ms(),
        settled: false,
        answers: Vec::new(),
        outcome: None,
    }
}

/// Model turns that were used when the request was made.
pub(super) fn turns_of(row: &StoredRequest) -> Result<u32, TranscriptError> {
    body_of(row).map(|body| body.turns)
}

/// The request of a row, as it was made.
pub(super) fn request_of(row: &StoredRequest) -> Result<Request, TranscriptError> {
    body_of(row).map(|body| body.request)
}

/// The request of a row, with the calls only that still wait.
pub(super) fn rest_of(row: &StoredRequest) -> Result<Request, TranscriptError> {
    let waiting: Vec<CallId> = row.slots.iter().map(|slot| CallId::new(&slot.call)).collect();
    Ok(suspension::rest_of(&request_of(row)?, &waiting.iter().collect::<Vec<_>>()))
}

fn body_of(row: &StoredRequest) -> Result<Kept, TranscriptError> {
    serde_json::from_slice(&row.body)
        .map_err(|error| TranscriptError::Shape { reason: format!("request {}: {:?} error", row.id, error.classify()) })
}

/// The body of a stored request.
#[derive(Serialize, Deserialize)]
struct Kept {
    turns: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    request: Request,
}
