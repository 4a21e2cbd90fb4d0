//! One thread's line to the file: opened at first use, opened anew when the file changed, patient when it is locked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::super::StoreError;
use super::fault::Fault;
use super::fork::{Link, Moored, Visit};
use super::schema;

/// The file, as all lines to it share it.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// How long to wait for a lock of another process.
    pub(super) patience: Duration,
    /// It was open once, so it is not to be made again when it is missing.
    pub(super) seen: AtomicBool,
    /// The most pages that the file may have: a disk that is full.
    #[cfg(test)]
    pub(super) most_pages: Option<u32>,
}

impl File {
    /// Which file lies at the path, by device and inode.
    fn identity(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()))
    }
}

#[derive(Debug)]
pub(super) struct Line {
    file: Arc<File>,
    query_only: bool,
    berth: Moored,
}

impl Line {
    pub(super) fn new(file: Arc<File>, query_only: bool) -> Self {
        Self { file, query_only, berth: Moored::new() }
    }

    /// Does `work` on the connection, again and again while somebody else has the file locked, until the patience ends.
    pub(super) fn run<T>(&self, mut work: impl FnMut(&mut Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            match self.attempt(&mut work) {
                Err(fault) if fault.is_busy() && start.elapsed() < self.file.patience => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result.map_err(|fault| fault.tell(&self.file.path, self.file.patience)),
            }
        }
    }

    fn attempt<T>(&self, work: &mut impl FnMut(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut visit = self.berth.visit();
        if visit.link.as_ref().is_some_and(|link| Some(link.file) != self.file.identity()) {
            *visit.link = None;
        }
        let mut link = match visit.link.take() {
            Some(link) => link,
            None => self.open(&visit)?,
        };
        let result = work(&mut link.connection);
        if result.as_ref().err().is_none_or(Fault::spares_connection) {
            *visit.link = Some(link);
        }
        result
    }

    fn open(&self, visit: &Visit<'_>) -> Result<Link, Fault> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.file.seen.load(Ordering::Acquire) {
            if self.file.identity().is_none() {
                return Err(Fault::Gone);
            }
        } else {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let mut opening = visit.open(&self.file.path, flags)?;
        self.set_up(&mut opening.connection)?;
        let identity = self.file.identity().ok_or(Fault::Gone)?;
        self.file.seen.store(true, Ordering::Release);
        Ok(Link::new(opening, identity))
    }

    fn set_up(&self, connection: &mut Connection) -> Result<(), Fault> {
        // Waiting is done in `run`, outside of the gate that a fork needs.
        connection.busy_timeout(Duration::ZERO)?;
        if connection.is_readonly("main")? {
            return Err(Fault::ReadOnly);
        }
        let newest = schema::check(&connection.transaction()?)?;
        // Heeded only while the file is empty. Half of SQLite's default: a commit writes whole pages, few of them full.
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            return Err(Fault::NoLog);
        }
        // In this mode the log is synced at every commit: what was acknowledged survives a loss of power.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        #[cfg(test)]
        if let Some(pages) = self.file.most_pages {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        }
        if !newest {
            schema::migrate(connection)?;
        }
        connection.pragma_update(None, "query_only", self.query_only)?;
        Ok(())
    }
}

/// The longest sleep between two looks at a lock. Short, so that a process that commits without rest cannot keep
/// another one out for long.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

const PAGE_BYTES: u32 = 2048;

/// What is left of the log after a burst has been copied into the file.
const LOG_BYTES: u32 = 8 << 20;
