//! Listing across conversations: leases, and open requests. Each is one walk along an index.

use rusqlite::{Connection, Row, TransactionBehavior, named_params};

use super::super::{ConversationId, Cursor, Lease, Order, StoredRequest};
use super::fault::Fault;
use super::read::{request_columns, stored_request};
use super::schema;

pub(super) fn leases(
    connection: &mut Connection,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Vec<(ConversationId, Lease)>, Fault> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    schema::still_ours(&snapshot)?;
    let mut list = snapshot.prepare_cached(LEASES)?;
    let mut rows = list.query(named_params! {
        ":at": at(after),
        ":conversation": after.map_or("", |place| place.conversation.as_str()),
        ":limit": most(limit),
    })?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let lease = Lease { owner: row.get(0)?, epoch: row.get(1)?, until_ms: row.get(2)? };
        found.push((id_of(row, 3)?, lease));
    }
    Ok(found)
}

pub(super) fn open_requests(
    connection: &mut Connection,
    order: Order,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Vec<(ConversationId, StoredRequest)>, Fault> {
    let snapshot = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    schema::still_ours(&snapshot)?;
    let mut list = snapshot.prepare_cached(match order {
        Order::Age => BY_AGE,
        Order::Expiry => BY_EXPIRY,
    })?;
    let mut rows = list.query(named_params! {
        ":at": at(after),
        ":conversation": after.map_or("", |place| place.conversation.as_str()),
        ":request": after.map_or("", |place| place.request.as_str()),
        ":limit": most(limit),
    })?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((id_of(row, 8)?, stored_request(row)?));
    }
    Ok(found)
}

pub(super) const LEASES: &str = "SELECT lease_owner, lease_epoch, lease_until_ms, id FROM conversation
         WHERE lease_until_ms IS NOT NULL AND lease_until_ms >= :at AND (lease_until_ms, id) > (:at, :conversation)
         ORDER BY lease_until_ms, id LIMIT :limit";

/// `CROSS JOIN` has SQLite walk along the index of requests and stop at the limit.
macro_rules! open_requests {
    ($time:literal) => {
        concat!(
            request_columns!(", conversation.id"),
            " CROSS JOIN conversation ON number = request.conversation
             WHERE settled = 0 AND ",
            $time,
            " IS NOT NULL AND ",
            $time,
            " >= :at AND (",
            $time,
            ", conversation.id, request.id) > (:at, :conversation, :request)
             ORDER BY ",
            $time,
            ", conversation.id, request.id LIMIT :limit"
        )
    };
}

pub(super) const BY_AGE: &str = open_requests!("made_at_ms");
pub(super) const BY_EXPIRY: &str = open_requests!("expires_at_ms");

fn at(after: Option<&Cursor>) -> i64 {
    after.map_or(i64::MIN, |place| place.at_ms)
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn id_of(row: &Row<'_>, column: usize) -> Result<ConversationId, Fault> {
    let text: String = row.get(column)?;
    ConversationId::new(text).map_err(|_| Fault::Damaged("the id of a conversation"))
}
