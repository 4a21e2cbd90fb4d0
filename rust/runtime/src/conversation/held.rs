//! A claimed conversation: the log of the run that works on it. Every write is fenced by the
//! version that the claim made (contract 7.2).

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use toolrelay_core::message::Message;
use toolrelay_core::run::Run;

use crate::conversation::stored::Body;
use crate::conversation::{Conversations, Replay};
use crate::drive::{Log, now_ms};
use crate::store::{Conversation, ConversationId, Lease, Slot, State, StoreError, StoredRequest, Write};

/// A claim on a conversation.
#[derive(Debug)]
pub struct Held {
    conversations: Conversations,
    id: ConversationId,
    version: u64,
    epoch: u64,
    /// Every place below is written.
    floor: u64,
    /// Places at or above `floor` that are written.
    written: BTreeSet<u64>,
    /// Open requests that the store has.
    known: BTreeSet<String>,
    /// Requests whose row changes with the next write.
    changed: Vec<StoredRequest>,
    /// The request that this run answers; it gets the run's outcome.
    answered: Option<StoredRequest>,
}

impl Held {
    pub(super) fn new(conversations: &Conversations, id: ConversationId, stored: &Conversation) -> Self {
        let mut held = Self {
            conversations: conversations.clone(),
            id,
            version: stored.version,
            epoch: stored.epoch + 1,
            floor: 0,
            written: stored.messages.iter().map(|(seq, _)| *seq).collect(),
            known: stored.requests.iter().map(|request| request.id.clone()).collect(),
            changed: Vec::new(),
            answered: None,
        };
        held.raise_floor();
        held
    }

    /// The conversation's id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Settles every open request without an answer.
    pub(super) fn settle_all(&mut self, requests: &[StoredRequest]) {
        self.changed.extend(requests.iter().map(|request| StoredRequest { settled: true, ..request.clone() }));
    }

    /// The next write carries this request, with the answer that the run works on.
    pub(super) fn answer(&mut self, request: StoredRequest) {
        self.changed.push(request.clone());
        self.answered = Some(request);
    }

    /// The compare-and-set that takes the lease. A run that is over already is written whole.
    pub(super) async fn claim(&mut self, run: &Run) -> Result<(), StoreError> {
        self.write(run).await
    }

    async fn write(&mut self, run: &Run) -> Result<(), StoreError> {
        let append = self.unwritten(run);
        let over = run.outcome().is_some();
        if over {
            self.close_requests(run);
        }
        let parked = over && !run.suspensions().is_empty();
        let (state, lease) = match (over, parked) {
            (true, true) => (State::Pending, None),
            (true, false) => (State::Idle, None),
            (false, _) => (State::Running, Some(self.lease())),
        };
        let places: Vec<u64> = append.iter().map(|(seq, _)| *seq).collect();
        let requests = std::mem::take(&mut self.changed);
        let write = Write { expect: self.version, state, epoch: self.epoch, lease, append, requests: requests.clone() };
        match self.conversations.store.commit(&self.id, write).await {
            Ok(version) => {
                self.version = version;
                self.written.extend(places);
                self.raise_floor();
                Ok(())
            }
            Err(error) => {
                self.changed = requests;
                Err(error)
            }
        }
    }

    fn lease(&self) -> Lease {
        let length = i64::try_from(self.conversations.lease.as_millis()).unwrap_or(i64::MAX);
        Lease { owner: self.conversations.owner.clone(), epoch: self.epoch, until_ms: now_ms().saturating_add(length) }
    }

    /// What the store does not have yet: everything but placeholders.
    fn unwritten(&self, run: &Run) -> Vec<(u64, Bytes)> {
        let known = usize::try_from(self.floor).unwrap_or(usize::MAX);
        let closed = run.transcript().messages().iter().enumerate().skip(known);
        let rows = closed.chain(run.settled()).filter(|(_, message)| !message.is_placeholder());
        let new = rows.map(|(at, message): (usize, &Message)| (at as u64, message.json().clone()));
        new.filter(|(seq, _)| !self.written.contains(seq)).collect()
    }

    fn raise_floor(&mut self) {
        while self.written.remove(&self.floor) {
            self.floor += 1;
        }
    }

    /// At the end: a row for each outstanding request, and the outcome with the answered one.
    fn close_requests(&mut self, run: &Run) {
        let messages = run.transcript().messages();
        let mut open: Vec<StoredRequest> = Vec::new();
        for (at, message) in messages.iter().enumerate().skip(run.first()) {
            let Some((result, pending)) = message.result().and_then(|r| Some((r, r.pending.as_ref()?))) else {
                continue;
            };
            let slot = Slot { seq: at as u64, call: result.call.to_string() };
            match open.iter_mut().find(|row| row.id == pending.id.as_str()) {
                Some(row) => row.slots.push(slot),
                None => open.extend(pending.request.as_ref().map(|request| StoredRequest {
                    id: request.id.to_string(),
                    slots: vec![slot],
                    body: body_of(&Body { turns: pending.turns, request: request.clone() }),
                    expires_at_ms: request.expires_at_ms(),
                    settled: false,
                    answers: Vec::new(),
                    outcome: None,
                })),
            }
        }
        if let Some(answered) = self.answered.take() {
            let outcome = Replay::of(run).map(|replay| replay.to_bytes());
            let settled = open.iter().all(|row| row.id != answered.id);
            self.known.insert(answered.id.clone());
            self.changed.retain(|row| row.id != answered.id);
            self.changed.push(StoredRequest { settled, outcome, ..answered });
        }
        self.changed.extend(open.into_iter().filter(|row| !self.known.contains(&row.id)));
    }
}

fn body_of(body: &Body) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}

#[async_trait]
impl Log for Held {
    async fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        if run.outcome().is_none() && self.unwritten(run).is_empty() {
            return Ok(());
        }
        self.write(run).await
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        let (state, lease) = (State::Running, Some(self.lease()));
        let write =
            Write { expect: self.version, state, epoch: self.epoch, lease, append: Vec::new(), requests: Vec::new() };
        self.version = self.conversations.store.commit(&self.id, write).await?;
        Ok(())
    }

    fn renewal(&self) -> Option<Duration> {
        Some(self.conversations.lease / 3)
    }
}
