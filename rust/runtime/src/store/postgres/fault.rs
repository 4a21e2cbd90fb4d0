//! What PostgreSQL says went wrong, told as a [`StoreError`].

use std::error::Error as _;
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use super::super::StoreError;
use super::super::remote::{Fault, Remedy};

/// A failure of the library or of the server, and what may help.
pub(super) fn of(store: &str, patience: Duration, error: &Error) -> Fault {
    match error.as_db_error() {
        Some(error) => of_server(store, patience, error),
        None => of_library(store, error),
    }
}

fn of_server(store: &str, waited: Duration, error: &DbError) -> Fault {
    let unavailable = |remedy| {
        // An error about values may quote them.
        let quotes = ["22", "23"].iter().any(|class| error.code().code().starts_with(class));
        let told = if quotes { "a value that it refuses" } else { error.message() };
        let reason = format!("{told} (SQLSTATE {})", error.code().code());
        Fault::new(StoreError::Unavailable { store: store.into(), reason }, remedy)
    };
    let store = store.to_owned();
    match *error.code() {
        SqlState::DISK_FULL => StoreError::Full { store }.into(),
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => StoreError::ReadOnly { store }.into(),
        SqlState::LOCK_NOT_AVAILABLE => StoreError::Locked { store, waited }.into(),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt { store, reason: error.message().into() }.into()
        }
        // The statement left no trace; or the server lets nobody in at the moment.
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS => unavailable(Remedy::Wait),
        // It stops, or a pooler before it has lost it.
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::IDLE_SESSION_TIMEOUT
        | SqlState::CONNECTION_EXCEPTION
        | SqlState::CONNECTION_DOES_NOT_EXIST
        | SqlState::CONNECTION_FAILURE
        | SqlState::PROTOCOL_VIOLATION => unavailable(Remedy::Redial),
        _ => unavailable(Remedy::Nothing),
    }
}

fn of_library(store: &str, error: &Error) -> Fault {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(told) = cause {
        reason = format!("{reason}: {told}");
        cause = told.source();
    }
    Fault::new(StoreError::Unavailable { store: store.into(), reason }, Remedy::Redial)
}

/// A place among the messages that is taken.
pub(super) fn is_taken(error: &Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| *error.code() == SqlState::UNIQUE_VIOLATION && error.table() == Some("message"))
}

/// The tables are not there.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(&(SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN))
    )
}

/// What should be made is there already.
pub(super) fn is_there(error: &Error) -> bool {
    matches!(error.code(), Some(&(SqlState::DUPLICATE_TABLE | SqlState::DUPLICATE_OBJECT)))
}
