#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use tempfile::TempDir;

use super::SqliteStore;
use crate::store::conformance::conformance;

conformance!(fresh());

/// A store in a folder of its own, which lives as long as the second value.
fn fresh() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (SqliteStore::open(folder.path().join("c.db")).unwrap(), folder)
}
