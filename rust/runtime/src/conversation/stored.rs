//! From stored rows to a transcript: where a result is absent, an open request says what it waits
//! for.

use std::collections::BTreeMap;

use toolrelay_core::id::{CallId, RequestId};
use toolrelay_core::message::{Message, Pending};
use toolrelay_core::request::Request;
use toolrelay_core::transcript::{Transcript, TranscriptError};

use crate::store::{Conversation, StoredRequest};

/// The transcript of a stored conversation, with placeholders for what its open requests wait for.
/// A gap that no request explains stays open: its call was under way when a worker died.
pub(super) fn transcript(stored: &Conversation) -> Result<Transcript, TranscriptError> {
    let mut parked: BTreeMap<u64, Message> = BTreeMap::new();
    for request in &stored.requests {
        parked.extend(placeholders(stored, request)?);
    }
    let messages = Transcript::from_messages(stored.messages.iter().map(|(_, bytes)| bytes.clone()))?;
    if parked.is_empty() {
        return Ok(messages);
    }
    let settled = stored.messages.iter().map(|(seq, _)| *seq).zip(messages.messages().iter().cloned());
    parked.extend(settled);
    Ok(Transcript::new(parked.into_values().collect()))
}

fn placeholders(stored: &Conversation, request: &StoredRequest) -> Result<Vec<(u64, Message)>, TranscriptError> {
    let body: Body = serde_json::from_slice(&request.body).map_err(|error| TranscriptError::Shape {
        reason: format!("request {}: {:?} error", request.id, error.classify()),
    })?;
    let mut whole = Some(body.request);
    let waiting =
        request.slots.iter().filter(|slot| stored.messages.binary_search_by_key(&slot.seq, |(seq, _)| *seq).is_err());
    Ok(waiting
        .map(|slot| {
            let pending = Pending { id: RequestId::new(&request.id), turns: body.turns, request: whole.take() };
            (slot.seq, Message::placeholder(&CallId::new(&slot.call), pending))
        })
        .collect())
}

/// The body of a stored request: the request, and the turns that were used when it was made.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Body {
    pub(super) turns: u32,
    pub(super) request: Request,
}
