//! A claimed conversation: the log of the run that works on it. Every write is fenced by the
//! version that the claim made (contract 7.2).

mod doubt;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use toolrelay_core::repair::Warning;
use toolrelay_core::run::Run;

use crate::conversation::{Claimed, Conversations, stored};
use crate::drive::{Log, now_ms};
use crate::store::{Conversation, ConversationId, Lease, State, Store, StoreError, StoredRequest, Write};

/// A claim on a conversation.
#[derive(Debug)]
pub struct Held {
    store: Arc<dyn Store>,
    id: ConversationId,
    /// No other claim has it. Empty: nobody works on it yet.
    owner: String,
    length: Duration,
    epoch: u64,
    version: u64,
    /// The version that a new conversation begins at.
    birth: u64,
    /// When the lease ends, as the store has it.
    until_ms: i64,
    /// The end of the run is written.
    closed: bool,
    /// A write that the store may or may not have taken.
    doubt: Option<Write>,
    /// Every place below is written.
    floor: u64,
    /// Places above `floor` that are written.
    written: BTreeSet<u64>,
    /// The requests that are not settled, as the store has them.
    open: BTreeMap<String, StoredRequest>,
    /// Requests whose row changes with the claim.
    changed: Vec<StoredRequest>,
    /// The answers that this run works on: the request's id, and the place among its answers.
    works_on: Vec<(String, usize)>,
}

impl Held {
    pub(super) fn new(conversations: &Conversations, id: ConversationId, stored: &Conversation) -> Self {
        let in_place = stored.messages.iter().zip(0..).take_while(|((seq, _), at)| seq == at).count();
        Self {
            store: Arc::clone(&conversations.store),
            id,
            owner: match conversations.owner.as_str() {
                "" => String::new(),
                owner => format!("{owner}/{}", CLAIMS.fetch_add(1, Ordering::Relaxed)),
            },
            length: conversations.lease,
            epoch: stored.epoch + 1,
            version: stored.version,
            birth: birth(),
            until_ms: i64::MIN,
            closed: false,
            doubt: None,
            floor: in_place as u64,
            written: stored.messages[in_place..].iter().map(|(seq, _)| *seq).collect(),
            open: stored.requests.iter().map(|request| (request.id.clone(), request.clone())).collect(),
            changed: Vec::new(),
            works_on: Vec::new(),
        }
    }

    /// The conversation's id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// These rows change with the claim.
    pub(super) fn changing(mut self, rows: impl IntoIterator<Item = StoredRequest>) -> Self {
        self.changed.extend(rows);
        self
    }

    /// The run works on the answers that a dead worker had taken.
    pub(super) fn work_on_all(&mut self, requests: &[StoredRequest]) {
        for row in requests.iter().filter(|row| stored::is_worked_on(row)) {
            self.work_on(&row.id, row.answers.len().saturating_sub(1));
        }
    }

    /// The run works on the answer at place `at` of a request's answers.
    pub(super) fn work_on(&mut self, request: &str, at: usize) {
        self.works_on.push((request.to_owned(), at));
    }

    /// The compare-and-set that takes the lease; `None` when somebody else was faster. A run that is
    /// over already is written whole.
    pub(super) async fn claim(mut self, run: Run, warnings: Vec<Warning>) -> Result<Option<Claimed>, StoreError> {
        let append = self.unwritten(&run);
        let requests = self.rows(&run, &append);
        match self.write(&run, append, requests).await {
            Ok(()) => Ok(Some(Claimed { run, warnings, held: self })),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &mut self,
        run: &Run,
        append: Vec<(u64, Bytes)>,
        requests: Vec<StoredRequest>,
    ) -> Result<(), StoreError> {
        let (state, lease) = match run.outcome() {
            None => (State::Running, Some(self.lease())),
            Some(_) if run.suspensions().is_empty() => (State::Idle, None),
            Some(_) => (State::Pending, None),
        };
        let places: Vec<u64> = append.iter().map(|(seq, _)| *seq).collect();
        self.commit(Write { append, requests: requests.clone(), ..self.bare(state, lease) }).await?;
        self.take_rows(requests);
        self.closed = run.outcome().is_some();
        self.changed.clear();
        self.written.extend(places);
        while self.written.remove(&self.floor) {
            self.floor += 1;
        }
        Ok(())
    }

    /// A write without messages and requests.
    fn bare(&self, state: State, lease: Option<Lease>) -> Write {
        Write {
            expect: self.version,
            version: self.next_version(),
            at_ms: now_ms(),
            state,
            epoch: self.epoch,
            lease,
            append: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn next_version(&self) -> u64 {
        if self.version == 0 { self.birth } else { self.version + 1 }
    }

    fn lease(&self) -> Lease {
        let length = i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX);
        Lease { owner: self.owner.clone(), epoch: self.epoch, until_ms: now_ms().saturating_add(length) }
    }

    /// What the store does not have yet: everything but placeholders.
    fn unwritten(&self, run: &Run) -> Vec<(u64, Bytes)> {
        let below = usize::try_from(self.floor).unwrap_or(usize::MAX);
        let closed = run.transcript().messages().iter().enumerate().skip(below);
        let real = closed.chain(run.settled()).filter(|(_, message)| !message.is_placeholder());
        let rows = real.map(|(at, message)| (at as u64, message.to_bytes()));
        rows.filter(|(seq, _)| *seq >= self.floor && !self.written.contains(seq)).collect()
    }
}

#[async_trait]
impl Log for Held {
    async fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        if self.closed {
            return Ok(());
        }
        let append = self.unwritten(run);
        let requests = self.rows(run, &append);
        if run.outcome().is_none() && append.is_empty() && requests.is_empty() {
            return Ok(());
        }
        self.write(run, append, requests).await
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        match self.commit(self.bare(State::Running, Some(self.lease()))).await {
            // The lease lasts; the next renewal may come through.
            Err(error) if doubt::may_pass(&error) && now_ms() < self.until_ms => Ok(()),
            ended => ended,
        }
    }

    fn renewal(&self) -> Option<Duration> {
        Some((self.length / 3).max(MOST_OFTEN))
    }

    fn name(&self) -> Option<String> {
        Some(format!("{}:{:x}", self.id, self.version >> COUNTED_BITS))
    }
}

/// Random above the bits that count, so that each new conversation of one id counts from elsewhere, and is told from
/// those before it. With 52 bits in all every store and language holds the number exactly.
pub(super) fn birth() -> u64 {
    // The ids of the run were drawn from the same source just before, so it does not fail.
    let drawn = getrandom::u64().unwrap_or_else(|_| now_ms().cast_unsigned());
    ((drawn >> 12) >> COUNTED_BITS).max(1) << COUNTED_BITS
}

/// So many bits of a version count the writes: a million.
const COUNTED_BITS: u32 = 20;

/// However short a lease is, its renewal leaves time for the run.
const MOST_OFTEN: Duration = Duration::from_millis(1);

/// Tells the claims of this process apart.
static CLAIMS: AtomicU64 = AtomicU64::new(0);
