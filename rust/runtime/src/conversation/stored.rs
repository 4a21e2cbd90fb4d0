//! Between stored rows and a transcript. A parked call has no row of its own: its place is empty,
//! and an open request says what it waits for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolrelay_core::id::{CallId, RequestId};
use toolrelay_core::message::{Message, Pending};
use toolrelay_core::request::Request;
use toolrelay_core::run::Run;
use toolrelay_core::suspension::Suspension;
use toolrelay_core::transcript::{Transcript, TranscriptError};

use crate::store::{Conversation, Slot, StoredRequest};

/// The transcript of a stored conversation, with placeholders for what its open requests wait for.
/// A gap that no request explains stays open: its call was under way when a worker died.
pub(super) fn transcript(stored: &Conversation) -> Result<Transcript, TranscriptError> {
    let is_empty = |slot: &Slot| stored.messages.binary_search_by_key(&slot.seq, |(seq, _)| *seq).is_err();
    let waiting = stored.requests.iter().map(|row| StoredRequest {
        slots: row.slots.iter().filter(|slot| is_empty(slot)).cloned().collect(),
        ..row.clone()
    });
    transcript_until(stored, usize::MAX, &waiting.collect::<Vec<_>>())
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
pub(super) fn outstanding(transcript: &Transcript) -> Vec<Request> {
    if !transcript.is_halted() {
        return Vec::new();
    }
    Suspension::from_transcript(transcript.clone()).map_or_else(|_| Vec::new(), |halted| halted.outstanding())
}

fn placeholders(row: &StoredRequest) -> Result<Vec<(u64, Message)>, TranscriptError> {
    let Body { turns, request } = body_of(row)?;
    let mut whole = Some(request);
    let placeholder = |slot: &Slot| {
        let pending = Pending { id: RequestId::new(&row.id), turns, request: whole.take() };
        (slot.seq, Message::placeholder(&CallId::new(&slot.call), pending))
    };
    Ok(row.slots.iter().map(placeholder).collect())
}

/// The requests that the placeholders of a run stand for, as rows made at this time.
pub(super) fn open_requests(run: &Run, made_at_ms: i64) -> Vec<StoredRequest> {
    let mut open: Vec<StoredRequest> = Vec::new();
    for (at, message) in run.transcript().messages().iter().enumerate().skip(run.first()) {
        let Some((result, pending)) = message.result().and_then(|result| Some((result, result.pending.as_ref()?)))
        else {
            continue;
        };
        let slot = Slot { seq: at as u64, call: result.call.to_string() };
        match open.iter_mut().find(|row| row.id == pending.id.as_str()) {
            Some(row) => row.slots.push(slot),
            None => {
                open.extend(pending.request.as_ref().map(|request| new_row(request, pending.turns, slot, made_at_ms)));
            }
        }
    }
    open
}

fn new_row(request: &Request, turns: u32, slot: Slot, made_at_ms: i64) -> StoredRequest {
    let body = Body { turns, request: request.clone() };
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

fn body_of(row: &StoredRequest) -> Result<Body, TranscriptError> {
    serde_json::from_slice(&row.body)
        .map_err(|error| TranscriptError::Shape { reason: format!("request {}: {:?} error", row.id, error.classify()) })
}

/// The body of a stored request.
#[derive(Serialize, Deserialize)]
struct Body {
    turns: u32,
    request: Request,
}
