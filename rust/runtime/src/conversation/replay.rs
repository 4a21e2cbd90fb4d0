//! How an answered run ended: kept with its request, so that the same answer gets the same outcome
//! (contract 7.4). What the messages tell already is not kept.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use toolrelay_core::message::Message;
use toolrelay_core::reply::Usage;
use toolrelay_core::run::Run;
use toolrelay_core::run::io::{Limit, Outcome};
use toolrelay_core::transcript::Transcript;

use crate::store::{Slot, StoredRequest};

/// How an answered run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The limit that ended it, if one did.
    pub limit: Option<Limit>,
    /// Why its last reply ended.
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
    /// The requests it left, in call order.
    pub waiting: Vec<Waiting>,
}

/// A request that was outstanding when a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its id.
    pub request: String,
    /// The places of the results it stands for, and their calls.
    pub calls: Vec<(u64, String)>,
}

impl Replay {
    /// What there is to tell again of a run; nothing of one that failed or was cancelled, so that
    /// the same answer goes on from where it stood.
    pub(super) fn of(run: &Run, open: &[StoredRequest]) -> Option<Self> {
        let limit = match run.outcome()? {
            Outcome::Finished | Outcome::Suspended => None,
            Outcome::Exhausted(limit) => Some(*limit),
            Outcome::Failed(_) | Outcome::Cancelled => return None,
        };
        Some(Self {
            limit,
            finish_reason: run.finish_reason().map(str::to_owned),
            model: run.model().map(str::to_owned),
            turns: run.turns(),
            usage: run.usage(),
            first: run.first(),
            end: run.transcript().len(),
            waiting: open.iter().map(Waiting::of).collect(),
        })
    }

    /// The outcome of the answer at place `at` of a request's answers.
    pub(super) fn read(row: &StoredRequest, at: usize) -> Option<Self> {
        outcomes(row).into_iter().nth(at).flatten()
    }

    /// The outcomes of a request with this one, of the answer at place `at`, among them.
    pub(super) fn written(self, row: &StoredRequest, at: usize) -> Bytes {
        let mut outcomes = outcomes(row);
        outcomes.resize(row.answers.len().max(at + 1), None);
        outcomes[at] = Some(self);
        serde_json::to_vec(&outcomes).unwrap_or_default().into()
    }

    /// The text of the run's last reply.
    pub fn text(&self, transcript: &Transcript) -> String {
        let made = transcript.messages().get(self.first + 1..).unwrap_or_default();
        made.iter().rfind(|message| message.assistant().is_some()).map(Message::text).unwrap_or_default()
    }
}

/// One place per answer, in the order of the answers.
fn outcomes(row: &StoredRequest) -> Vec<Option<Replay>> {
    row.outcome.as_ref().and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
}

impl Waiting {
    fn of(row: &StoredRequest) -> Self {
        Self { request: row.id.clone(), calls: row.slots.iter().map(|slot| (slot.seq, slot.call.clone())).collect() }
    }

    pub(super) fn slots(&self) -> Vec<Slot> {
        self.calls.iter().map(|(seq, call)| Slot { seq: *seq, call: call.clone() }).collect()
    }
}
