//! What SQLite says went wrong, told as a [`StoreError`].
//!
//! Only codes are read, never SQLite's own texts, so no part of a message can get into an error.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi;

use super::super::StoreError;
use super::schema::NEWEST;

/// A failure inside a transaction, before it is told to anybody.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    /// The file is of another program.
    Foreign,
    Newer {
        found: u32,
    },
    /// A row holds what this library never wrote.
    Damaged(&'static str),
    TooLarge {
        what: &'static str,
        limit: u64,
    },
    /// The file was there when the store was first used.
    Gone,
    /// The process was forked while the file was open.
    Forked,
    /// The file can be read but not written.
    ReadOnly,
    /// The file system cannot carry SQLite's log.
    NoLog,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// SQLite's primary result code.
    fn code(&self) -> Option<i32> {
        let Self::Sqlite(error) = self else { return None };
        error.sqlite_error().map(|error| error.extended_code & 0xff)
    }

    /// Somebody else is at it; waiting helps.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL))
    }

    /// A row is there already.
    pub(super) fn is_constraint(&self) -> bool {
        self.code() == Some(ffi::SQLITE_CONSTRAINT)
    }

    /// The connection is as good as before: the trouble was the write's own, or will pass.
    pub(super) fn spares_connection(&self) -> bool {
        self.is_busy()
            || matches!(self, Self::TooLarge { .. })
            || matches!(self.code(), Some(ffi::SQLITE_FULL | ffi::SQLITE_TOOBIG))
    }

    /// What the caller is told.
    pub(super) fn tell(self, path: &Path, waited: Duration) -> StoreError {
        let store = path.display().to_string();
        let code = self.code();
        match self {
            Self::Foreign => StoreError::NotAStore { store },
            Self::Newer { found } => StoreError::NewerSchema { store, found, supported: NEWEST },
            Self::Damaged(reason) => StoreError::Corrupt { store, reason: reason.into() },
            Self::TooLarge { what, limit } => StoreError::TooLarge { store, what: what.into(), limit },
            Self::Gone => StoreError::Gone { store },
            Self::Forked => StoreError::Unavailable {
                store,
                reason: "this process was forked while the file was open, hold the stores over the fork".into(),
            },
            Self::ReadOnly => StoreError::ReadOnly { store },
            Self::NoLog => StoreError::Unavailable {
                store,
                reason: "its file system cannot share memory between processes, use a local disk".into(),
            },
            Self::Sqlite(error) => match code {
                Some(ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL) => {
                    StoreError::Locked { store, waited }
                }
                Some(ffi::SQLITE_FULL) => StoreError::Full { store },
                Some(ffi::SQLITE_READONLY | ffi::SQLITE_PERM) => StoreError::ReadOnly { store },
                Some(ffi::SQLITE_NOTADB) => StoreError::NotAStore { store },
                Some(ffi::SQLITE_CORRUPT) => StoreError::Corrupt { store, reason: "its pages do not fit".into() },
                Some(ffi::SQLITE_TOOBIG) => {
                    StoreError::TooLarge { store, what: "a message or request".into(), limit: MOST_BYTES }
                }
                Some(ffi::SQLITE_CANTOPEN) => cannot_open(path, store),
                Some(code) => {
                    let code = error.sqlite_error().map_or(code, |error| error.extended_code);
                    let reason = format!("{} (sqlite code {code})", ffi::code_to_str(code));
                    StoreError::Unavailable { store, reason }
                }
                // The rest is rusqlite's own: a column that is not of the type that was written.
                None => StoreError::Corrupt { store, reason: "a column has the wrong type".into() },
            },
        }
    }
}

/// Why SQLite could not open the file or its companions, found without opening the file itself: to close it again
/// would drop every lock that this process holds on it.
fn cannot_open(path: &Path, store: String) -> StoreError {
    let folder = path.parent().unwrap_or(path);
    let unavailable = |reason: String| StoreError::Unavailable { store: store.clone(), reason };
    match fs::read_dir(folder) {
        Ok(_) if path.is_dir() => unavailable("it is a folder, name a file".into()),
        Ok(_) => StoreError::ReadOnly { store },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            unavailable(format!("the folder {} does not exist, create it", folder.display()))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => StoreError::ReadOnly { store },
        Err(error) => unavailable(error.kind().to_string()),
    }
}

/// SQLite's own limit for one value, as it is built by default.
const MOST_BYTES: u64 = 1_000_000_000;
