//! Writing: a commit in one statement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio_postgres::types::{ToSql, Type};

use super::super::remote::{Fault, Question, Remedy, name_of_write};
use super::super::{State, StoreError, StoredRequest, Write, frame};
use super::line::Wire;
use super::schema::NEWEST;
use super::{Shared, fault};

/// The wish for a commit.
pub(super) struct Commit<'s> {
    shared: &'s Shared,
    id: &'s str,
    write: &'s Write,
    /// By which the conversation tells that this very write was the last: it may be sent twice.
    name: [u8; 16],
    expect: i64,
    version: i64,
    epoch: i64,
    lease_epoch: Option<i64>,
    seqs: Vec<i64>,
    requests: Requests<'s>,
    patience: String,
}

/// The requests of a write, by columns.
#[derive(Default)]
struct Requests<'s> {
    ids: Vec<&'s [u8]>,
    settled: Vec<bool>,
    made_at_ms: Vec<i64>,
    expires_at_ms: Vec<Option<i64>>,
    slots: Vec<Vec<u8>>,
    bodies: Vec<&'s [u8]>,
    answers: Vec<Vec<u8>>,
    outcomes: Vec<Option<&'s [u8]>>,
}

impl<'s> Commit<'s> {
    pub(super) fn new(shared: &'s Shared, id: &'s str, write: &'s Write) -> Result<Self, StoreError> {
        let integer = |what: &str, value: u64| {
            i64::try_from(value).map_err(|_| shared.too_large(what, i64::MAX.cast_unsigned()).error)
        };
        let bytes: usize = write.append.iter().map(|(_, body)| body.len()).sum::<usize>()
            + write.requests.iter().map(StoredRequest::bytes).sum::<usize>();
        if bytes > MOST_BYTES {
            return Err(shared.too_large("a write", MOST_BYTES as u64).error);
        }
        Ok(Self {
            shared,
            id,
            write,
            name: name_of_write(shared.remote.name())?,
            expect: version(write.expect),
            version: integer("a version", write.version)?,
            epoch: integer("an epoch", write.epoch)?,
            lease_epoch: write.lease.as_ref().map(|lease| integer("an epoch", lease.epoch)).transpose()?,
            seqs: write
                .append
                .iter()
                .map(|(seq, _)| integer("the seq of a message", *seq))
                .collect::<Result<_, _>>()?,
            requests: Requests::new(&write.requests)
                .ok_or_else(|| shared.too_large("an answer", u32::MAX.into()).error)?,
            patience: shared.remote.patience().as_millis().to_string(),
        })
    }
}

#[async_trait]
impl Question<Wire> for Commit<'_> {
    type Answer = ();

    async fn ask(&self, wire: &mut Wire) -> Result<(), Fault> {
        let Self { shared, id, write, expect, .. } = self;
        let statement = if *expect == 0 { &shared.schema.create } else { &shared.schema.update };
        let lease = write.lease.as_ref();
        let (owner, until_ms) = (lease.map(|lease| &lease.owner), lease.map(|lease| lease.until_ms));
        let bodies: Vec<&[u8]> = write.append.iter().map(|(_, body)| body.as_ref()).collect();
        let asked = &self.requests;
        let given: [(&(dyn ToSql + Sync), Type); 22] = [
            (&NEWEST, Type::INT4),
            (&self.patience, Type::TEXT),
            (id, Type::TEXT),
            (expect, Type::INT8),
            (&self.version, Type::INT8),
            (&self.name.as_slice(), Type::BYTEA),
            (&write.at_ms, Type::INT8),
            (&self.epoch, Type::INT8),
            (&number_of(write.state), Type::INT2),
            (&owner, Type::TEXT),
            (&self.lease_epoch, Type::INT8),
            (&until_ms, Type::INT8),
            (&self.seqs, Type::INT8_ARRAY),
            (&bodies, Type::BYTEA_ARRAY),
            (&asked.ids, Type::BYTEA_ARRAY),
            (&asked.settled, Type::BOOL_ARRAY),
            (&asked.made_at_ms, Type::INT8_ARRAY),
            (&asked.expires_at_ms, Type::INT8_ARRAY),
            (&asked.slots, Type::BYTEA_ARRAY),
            (&asked.bodies, Type::BYTEA_ARRAY),
            (&asked.answers, Type::BYTEA_ARRAY),
            (&asked.outcomes, Type::BYTEA_ARRAY),
        ];
        match wire.client.query_typed(statement, &given).await {
            Ok(rows) if rows.is_empty() => match shared.found(wire, id).await? {
                // This very write, of which no answer came the first time.
                (found, Some(last)) if last == self.name && found == write.version => Ok(()),
                (found, _) => Err(conflict(write.expect, found)),
            },
            Ok(_) => Ok(()),
            Err(error) if fault::is_taken(&error) => Err(self.taken(wire).await?.into()),
            Err(error) => Err(shared.fault(error)),
        }
    }
}

/// The wish for a deletion.
pub(super) struct Delete<'s> {
    pub(super) shared: &'s Shared,
    pub(super) id: &'s str,
    pub(super) expect: u64,
    /// It was asked for before, and no answer came.
    pub(super) lost: AtomicBool,
}

#[async_trait]
impl Question<Wire> for Delete<'_> {
    type Answer = ();

    async fn ask(&self, wire: &mut Wire) -> Result<(), Fault> {
        let Self { shared, id, expect, lost } = self;
        let patience = shared.remote.patience().as_millis().to_string();
        let given: [(&(dyn ToSql + Sync), Type); 4] =
            [(&NEWEST, Type::INT4), (&patience, Type::TEXT), (id, Type::TEXT), (&version(*expect), Type::INT8)];
        let asked = wire.client.query_typed(&shared.schema.delete, &given).await;
        let rows = asked.map_err(|error| {
            lost.fetch_or(error.as_db_error().is_none(), Ordering::Relaxed);
            shared.fault(error)
        })?;
        if !rows.is_empty() {
            return Ok(());
        }
        match shared.found(wire, id).await?.0 {
            // There is none, as was expected, or any more.
            0 if *expect == 0 || lost.load(Ordering::Relaxed) => Ok(()),
            found => Err(conflict(*expect, found)),
        }
    }
}

/// A version that somebody else made.
fn conflict(expected: u64, found: u64) -> Fault {
    // What was in the way when the statement began may be gone by now.
    let remedy = if found == expected { Remedy::Wait } else { Remedy::Nothing };
    Fault::new(StoreError::Conflict { expected, found }, remedy)
}

/// A version as a column has it; one that no conversation has if it is larger than any.
fn version(expected: u64) -> i64 {
    i64::try_from(expected).unwrap_or(-1)
}

impl Shared {
    /// The version that a conversation has, 0 if there is none, and the name of its last write.
    async fn found(&self, wire: &Wire, id: &str) -> Result<(u64, Option<Vec<u8>>), Fault> {
        let asked = wire.client.query_typed_one(&self.schema.why, &[(&id, Type::TEXT)]).await;
        let row = asked.map_err(|error| self.fault(error))?;
        self.still_ours(self.column(&row, 0)?)?;
        let version = self.column::<Option<i64>>(&row, 1)?.unwrap_or_default();
        Ok((version.cast_unsigned(), self.column(&row, 2)?))
    }
}

impl Commit<'_> {
    /// Which of the messages has a place that is taken, in the store or twice in the write.
    async fn taken(&self, wire: &mut Wire) -> Result<StoreError, Fault> {
        let Self { shared, id, .. } = self;
        let given: [(&(dyn ToSql + Sync), Type); 2] = [(id, Type::TEXT), (&self.seqs, Type::INT8_ARRAY)];
        let asked = wire.client.query_typed(&shared.schema.taken, &given).await;
        let rows = asked.map_err(|error| shared.fault(error))?;
        let mut taken = BTreeSet::new();
        for row in &rows {
            taken.insert(shared.column::<i64>(row, 0)?);
        }
        let first = self.seqs.iter().find(|seq| !taken.insert(**seq));
        Ok(StoreError::SeqTaken { seq: first.copied().unwrap_or_default().cast_unsigned() })
    }
}

impl<'s> Requests<'s> {
    /// The last one of each id; `None` when an answer is longer than a frame can tell.
    fn new(requests: &'s [StoredRequest]) -> Option<Self> {
        let last: BTreeMap<&str, &StoredRequest> =
            requests.iter().map(|request| (request.id.as_str(), request)).collect();
        let mut columns = Self::default();
        for request in last.values() {
            columns.ids.push(request.id.as_bytes());
            columns.settled.push(request.settled);
            columns.made_at_ms.push(request.made_at_ms);
            columns.expires_at_ms.push(request.expires_at_ms);
            columns.slots.push(frame::join_slots(&request.slots)?);
            columns.bodies.push(&request.body);
            columns.answers.push(frame::join(request.answers.iter().map(AsRef::as_ref))?);
            columns.outcomes.push(request.outcome.as_deref());
        }
        Some(columns)
    }
}

fn number_of(state: State) -> i16 {
    match state {
        State::Idle => 0,
        State::Running => 1,
        State::Pending => 2,
    }
}

/// PostgreSQL takes a little more in one message.
const MOST_BYTES: usize = 1_000_000_000;
