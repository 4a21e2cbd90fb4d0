//! The numbered migrations of the file, and how a file is told from one of another program.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fault::Fault;

/// Marks the file as ours in its header: the letters `TlRl`.
const APPLICATION_ID: i32 = 0x546c_526c;

/// The migrations; number N brings a file from schema N - 1 to schema N.
const MIGRATIONS: &[&str] =
    &[include_str!("0001_conversations.sql"), include_str!("0002_listings.sql"), include_str!("0003_requests.sql")];

/// The schema that this version reads and writes.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 migrations")]
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Refuses a file that is not ours or that a newer version wrote. Changes nothing.
///
/// Returns whether the file has the newest schema. All looks are in one transaction: another process may be just now
/// making the file ours.
pub(super) fn check(snapshot: &Transaction<'_>) -> Result<bool, Fault> {
    let application: i32 = snapshot.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found: u32 = snapshot.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if application != APPLICATION_ID {
        let tables: u32 = snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        return if application == 0 && found == 0 && tables == 0 { Ok(false) } else { Err(Fault::Foreign) };
    }
    still_ours(snapshot).map(|()| found == NEWEST)
}

/// Refuses a file that a newer version has taken over, as it may at any time while it is open here.
pub(super) fn still_ours(connection: &Connection) -> Result<(), Fault> {
    let found = connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found > NEWEST { Err(Fault::Newer { found }) } else { Ok(()) }
}

/// Brings the file to the newest schema, in one transaction under the write lock.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have done it while this one waited for the lock.
    if !check(&transaction)? {
        let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for (number, migration) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", number)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    Ok(transaction.commit()?)
}
