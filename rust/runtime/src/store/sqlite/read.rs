//! Reading: one conversation, or one of its requests, out of one snapshot.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, named_params};

use super::super::{Conversation, Lease, State, StoredRequest, frame};
use super::fault::Fault;
use super::schema;

/// Message places keep the seq in the lower half.
pub(super) const SEQ_BITS: u32 = 32;

/// The columns that [`stored_request`] reads, for the end of a `SELECT`, and others behind them.
macro_rules! request_columns {
    ($($others:literal)?) => {
        concat!(
            "SELECT request.id, slots, body, made_at_ms, expires_at_ms, settled, answers, outcome",
            $($others,)?
            " FROM request "
        )
    };
}
pub(super) use request_columns;

pub(super) fn load(connection: &mut Connection, id: &str) -> Result<Option<Conversation>, Fault> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    schema::still_ours(&snapshot)?;
    let Some((number, mut conversation)) = head(&snapshot, id)? else { return Ok(None) };
    conversation.messages = messages(&snapshot, number)?;
    conversation.requests = open_requests(&snapshot, number)?;
    snapshot.commit()?;
    Ok(Some(conversation))
}

pub(super) fn request(connection: &mut Connection, id: &str, request: &str) -> Result<Option<StoredRequest>, Fault> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    schema::still_ours(&snapshot)?;
    let mut find = snapshot.prepare_cached(concat!(
        request_columns!(),
        "WHERE conversation = (SELECT number FROM conversation WHERE id = :conversation)
         AND settled IN (0, 1) AND id = :id"
    ))?;
    let mut rows = find.query(named_params! {":conversation": id, ":id": request})?;
    rows.next()?.map(stored_request).transpose()
}

/// The conversation without its messages and requests, and its number in the file.
fn head(connection: &Connection, id: &str) -> Result<Option<(i64, Conversation)>, Fault> {
    let mut find = connection.prepare_cached(
        "SELECT number, version, epoch, state, lease_owner, lease_epoch, lease_until_ms, written_at_ms
         FROM conversation WHERE id = ?1",
    )?;
    let found = find.query_row([id], |row| {
        let owner: Option<String> = row.get(4)?;
        let lease = match owner {
            Some(owner) => Some(Lease { owner, epoch: row.get(5)?, until_ms: row.get(6)? }),
            None => None,
        };
        let head = Conversation {
            version: row.get(1)?,
            written_at_ms: row.get(7)?,
            epoch: row.get(2)?,
            state: State::Idle,
            lease,
            messages: Vec::new(),
            requests: Vec::new(),
        };
        Ok((row.get(0)?, row.get(3)?, head))
    });
    let Some((number, state, head)) = found.optional()? else { return Ok(None) };
    Ok(Some((number, Conversation { state: state_of(state)?, ..head })))
}

/// All bodies in one allocation that the slices share: a conversation is read, kept and dropped as a whole.
fn messages(connection: &Connection, number: i64) -> Result<Vec<(u64, Bytes)>, Fault> {
    let (first, last) = places(number);
    let mut read = connection
        .prepare_cached("SELECT place & 4294967295, body FROM message WHERE place BETWEEN ?1 AND ?2 ORDER BY place")?;
    let mut rows = read.query([first, last])?;
    let mut bodies = Vec::new();
    let mut ends = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        bodies.extend_from_slice(body);
        ends.push((row.get(0)?, bodies.len()));
    }
    let bodies = Bytes::from(bodies);
    let mut start = 0;
    let slice = |(seq, end)| {
        let body = bodies.slice(start..end);
        start = end;
        (seq, body)
    };
    Ok(ends.into_iter().map(slice).collect())
}

/// The first and the last place that the messages of a conversation may have.
pub(super) fn places(number: i64) -> (i64, i64) {
    let first = number << SEQ_BITS;
    (first, first | i64::from(u32::MAX))
}

fn open_requests(connection: &Connection, number: i64) -> Result<Vec<StoredRequest>, Fault> {
    let mut read = connection.prepare_cached(concat!(request_columns!(), "WHERE conversation = ?1 AND settled = 0"))?;
    let mut rows = read.query([number])?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        requests.push(stored_request(row)?);
    }
    requests.sort_by_key(StoredRequest::place);
    Ok(requests)
}

pub(super) fn stored_request(row: &Row<'_>) -> Result<StoredRequest, Fault> {
    let outcome: Option<Vec<u8>> = row.get(7)?;
    Ok(StoredRequest {
        id: row.get(0)?,
        slots: frame::split_slots(row.get(1)?).ok_or(Fault::Damaged("the slots of a request"))?,
        body: row.get::<_, Vec<u8>>(2)?.into(),
        made_at_ms: row.get(3)?,
        expires_at_ms: row.get(4)?,
        settled: row.get(5)?,
        answers: frame::split(row.get(6)?).ok_or(Fault::Damaged("the answers of a request"))?,
        outcome: outcome.map(Bytes::from),
    })
}

fn state_of(number: i64) -> Result<State, Fault> {
    match number {
        0 => Ok(State::Idle),
        1 => Ok(State::Running),
        2 => Ok(State::Pending),
        _ => Err(Fault::Damaged("the state of a conversation")),
    }
}
