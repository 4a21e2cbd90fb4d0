//! Writing: a group of changes in one transaction, each with a savepoint of its own.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params};

use super::super::{State, StoreError, StoredRequest, Write, frame};
use super::fault::Fault;
use super::read::{SEQ_BITS, places};
use super::schema;

/// One change of a conversation as it was asked for.
pub(super) struct Change {
    pub(super) id: String,
    pub(super) what: What,
}

pub(super) enum What {
    Commit(Write),
    Delete { expect: u64 },
}

/// What became of one change: nothing to tell, or the refusal.
pub(super) type Outcome = Result<(), StoreError>;

/// Applies the changes in order and makes them durable together. A refused one leaves no trace and the others stand;
/// a fault undoes them all.
pub(super) fn commit_all<'a>(
    connection: &mut Connection,
    changes: impl IntoIterator<Item = &'a Change>,
) -> Result<Vec<Outcome>, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::still_ours(&transaction)?;
    let mut outcomes = Vec::new();
    for change in changes {
        transaction.prepare_cached("SAVEPOINT one")?.execute([])?;
        let outcome = apply(&transaction, change)?;
        if outcome.is_err() {
            transaction.prepare_cached("ROLLBACK TO one")?.execute([])?;
        }
        transaction.prepare_cached("RELEASE one")?.execute([])?;
        outcomes.push(outcome);
    }
    transaction.commit()?;
    Ok(outcomes)
}

fn apply(connection: &Connection, Change { id, what }: &Change) -> Result<Outcome, Fault> {
    let found = connection
        .prepare_cached("SELECT number, version FROM conversation WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?)))
        .optional()?;
    let version = found.map_or(0, |(_, version)| version);
    let expected = match what {
        What::Commit(write) => write.expect,
        What::Delete { expect } => *expect,
    };
    if version != expected {
        return Ok(Err(StoreError::Conflict { expected, found: version }));
    }
    let number = found.map(|(number, _)| number);
    match what {
        What::Commit(write) => commit(connection, id, number, write),
        What::Delete { .. } => number.map_or(Ok(()), |number| delete(connection, number)).map(Ok),
    }
}

fn commit(connection: &Connection, id: &str, found: Option<i64>, write: &Write) -> Result<Outcome, Fault> {
    let number = match found {
        Some(number) => number,
        None => create(connection, id)?,
    };
    update(connection, number, write)?;
    for (seq, body) in &write.append {
        let place = place(number, *seq)?;
        let inserted = connection
            .prepare_cached("INSERT INTO message (place, body) VALUES (?1, ?2)")?
            .execute((place, body.as_ref()))
            .map_err(Fault::from);
        match inserted {
            Err(fault) if fault.is_constraint() => return Ok(Err(StoreError::SeqTaken { seq: *seq })),
            other => other?,
        };
    }
    for request in &write.requests {
        replace(connection, number, request)?;
    }
    Ok(Ok(()))
}

/// A row for a conversation that is new, and its number.
fn create(connection: &Connection, id: &str) -> Result<i64, Fault> {
    connection
        .prepare_cached("INSERT INTO conversation (id, version, epoch, state) VALUES (?1, 0, 0, 0)")?
        .execute([id])?;
    Ok(connection.last_insert_rowid())
}

fn update(connection: &Connection, number: i64, write: &Write) -> Result<(), Fault> {
    let lease = write.lease.as_ref();
    connection
        .prepare_cached(
            "UPDATE conversation SET version = :version, written_at_ms = :at, epoch = :epoch, state = :state,
             lease_owner = :owner, lease_epoch = :lease_epoch, lease_until_ms = :until WHERE number = :number",
        )?
        .execute(named_params! {
            ":number": number,
            ":version": integer("a version", write.version)?,
            ":at": write.at_ms,
            ":epoch": integer("an epoch", write.epoch)?,
            ":state": number_of(write.state),
            ":owner": lease.map(|lease| &lease.owner),
            ":lease_epoch": lease.map(|lease| integer("an epoch", lease.epoch)).transpose()?,
            ":until": lease.map(|lease| lease.until_ms),
        })?;
    Ok(())
}

fn delete(connection: &Connection, number: i64) -> Result<(), Fault> {
    let (first, last) = places(number);
    connection.prepare_cached("DELETE FROM message WHERE place BETWEEN ?1 AND ?2")?.execute([first, last])?;
    connection.prepare_cached("DELETE FROM request WHERE conversation = ?1")?.execute([number])?;
    connection.prepare_cached("DELETE FROM conversation WHERE number = ?1")?.execute([number])?;
    Ok(())
}

/// Adds a request, or changes the one that is there, which stands where it stood.
fn replace(connection: &Connection, number: i64, request: &StoredRequest) -> Result<(), Fault> {
    const LONG: Fault = Fault::TooLarge { what: "an answer", limit: u32::MAX as u64 };
    let row = named_params! {
        ":conversation": number,
        ":settled": request.settled,
        ":id": request.id,
        ":made": request.made_at_ms,
        ":expires": request.expires_at_ms,
        ":slots": frame::join_slots(&request.slots).ok_or(LONG)?,
        ":body": request.body.as_ref(),
        ":answers": frame::join(request.answers.iter().map(AsRef::as_ref)).ok_or(LONG)?,
        ":outcome": request.outcome.as_deref(),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE request SET settled = :settled, made_at_ms = :made, expires_at_ms = :expires, slots = :slots,
             body = :body, answers = :answers, outcome = :outcome
             WHERE conversation = :conversation AND settled IN (0, 1) AND id = :id",
        )?
        .execute(row)?;
    if changed == 0 {
        connection
            .prepare_cached(
                "INSERT INTO request (conversation, settled, id, made_at_ms, expires_at_ms, slots, body, answers, outcome)
                 VALUES (:conversation, :settled, :id, :made, :expires, :slots, :body, :answers, :outcome)",
            )?
            .execute(row)?;
    }
    Ok(())
}

/// The row id of a message.
fn place(number: i64, seq: u64) -> Result<i64, Fault> {
    const MOST: u64 = u32::MAX as u64;
    if number > i64::from(i32::MAX) {
        return Err(Fault::TooLarge { what: "the number of conversations", limit: 1 << 31 });
    }
    match u32::try_from(seq) {
        Ok(seq) => Ok(number << SEQ_BITS | i64::from(seq)),
        Err(_) => Err(Fault::TooLarge { what: "the seq of a message", limit: MOST }),
    }
}

/// SQLite's integers are signed.
fn integer(what: &'static str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::TooLarge { what, limit: i64::MAX.cast_unsigned() })
}

fn number_of(state: State) -> i64 {
    match state {
        State::Idle => 0,
        State::Running => 1,
        State::Pending => 2,
    }
}
