#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod file;
mod migrations;
mod processes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use super::SqliteStore;
use super::line::File;
use crate::store::testing::{append, body, id, touch};
use crate::store::{Slot, State, Store, StoreError, StoredRequest, Write};

/// A store in a folder of its own, which lives as long as the second value.
fn fresh() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (SqliteStore::open(folder.path().join("c.db")).unwrap(), folder)
}

/// A look into the file beside the store, through the same copy of SQLite.
fn beside(store: &SqliteStore) -> Connection {
    Connection::open(store.path()).unwrap()
}

/// The log's length, or `None` when there is no log.
fn log_bytes(store: &SqliteStore) -> Option<u64> {
    let mut log = store.path().as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).ok().map(|log| log.len())
}
