//! Forking without harm: no file of ours is open, and no thread of ours is inside SQLite, while the process forks.
//!
//! SQLite keeps the locks of a file in tables of the process. A forked child inherits the tables but not the locks, so
//! a file that was open at the fork could be opened by the child without its locks, and a writer could pull the log
//! away from under it. What was open at the fork is therefore closed first ([`hold_for_fork`]), and a child of a fork
//! that was not held refuses to open files.

use std::process;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;

/// Taken for reading by a thread that is inside SQLite or a store in memory, for writing by one that forks.
static GATE: RwLock<()> = RwLock::new(());
/// Every place in this process where a connection may be.
static BERTHS: Mutex<Vec<Weak<Berth>>> = Mutex::new(Vec::new());
/// How many connections are open, and in which process.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Holds all stores of this process still, those of SQLite with their files closed, until the returned value is dropped.
///
/// Call it right before a fork, and drop what it gave right after it, on both sides and on the same thread; both sides
/// then open their files anew at the next use. It waits for commits in flight. It is not needed for a fork that is
/// followed by `exec` at once, as `std::process` does it.
///
/// Without it the child of a fork gets [`StoreError::Unavailable`](super::super::StoreError::Unavailable) from every
/// SQLite store, if one was open at the fork, and may wait for ever for a store in memory that was in use.
pub fn hold_for_fork() -> ForkHold {
    if orphaned() {
        return ForkHold { _gate: None };
    }
    let gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    for berth in berths().iter().filter_map(Weak::upgrade) {
        lock(&berth).take();
    }
    ForkHold { _gate: Some(gate) }
}

/// Puts forks off for as long as it lives: for a lock that a child would find taken by a thread it does not have.
pub(in crate::store) fn put_off_forks() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, no SQLite store of this process has a file open. See [`hold_for_fork`].
#[derive(Debug)]
#[must_use = "the stores go on when it is dropped"]
pub struct ForkHold {
    _gate: Option<RwLockWriteGuard<'static, ()>>,
}

/// Where a thread's connection lies between two uses.
type Berth = Mutex<Option<Link>>;

/// A connection, counted while it is open, and what else its line must remember of it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// The file that it has open, by device and inode.
    pub(super) file: (u64, u64),
    _counted: Counted,
}

impl Link {
    pub(super) fn new(open: Opening, file: (u64, u64)) -> Self {
        Self { connection: open.connection, file, _counted: open.counted }
    }
}

/// A connection that is being set up.
pub(super) struct Opening {
    pub(super) connection: Connection,
    counted: Counted,
}

#[derive(Debug)]
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A berth that is registered, and is emptied inside the gate when it is dropped.
#[derive(Debug)]
pub(super) struct Moored(Arc<Berth>);

impl Moored {
    pub(super) fn new() -> Self {
        let berth = Arc::new(Mutex::new(None));
        let mut berths = berths();
        berths.retain(|other| other.strong_count() > 0);
        berths.push(Arc::downgrade(&berth));
        Self(berth)
    }

    /// Lets the thread into SQLite; no fork happens while the visit lasts.
    pub(super) fn visit(&self) -> Visit<'_> {
        let gate = put_off_forks();
        Visit { link: lock(&self.0), _gate: gate }
    }
}

impl Drop for Moored {
    fn drop(&mut self) {
        self.visit().link.take();
    }
}

/// One use of a berth. The lock goes before the gate, by the order of the fields.
pub(super) struct Visit<'a> {
    pub(super) link: MutexGuard<'a, Option<Link>>,
    _gate: RwLockReadGuard<'static, ()>,
}

impl Visit<'_> {
    /// Opens a connection. Being called on a visit is what keeps it out of a fork.
    #[expect(clippy::unused_self, reason = "a visit is the right to open")]
    pub(super) fn open(&self, path: &std::path::Path, flags: OpenFlags) -> Result<Opening, Fault> {
        if orphaned() {
            return Err(Fault::Forked);
        }
        OWNER.store(process::id(), Ordering::Release);
        OPEN.fetch_add(1, Ordering::AcqRel);
        let counted = Counted;
        Ok(Opening { connection: Connection::open_with_flags(path, flags)?, counted })
    }
}

/// Whether connections were open when this process was forked off.
fn orphaned() -> bool {
    OPEN.load(Ordering::Acquire) > 0 && OWNER.load(Ordering::Acquire) != process::id()
}

fn berths() -> MutexGuard<'static, Vec<Weak<Berth>>> {
    BERTHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock(berth: &Berth) -> MutexGuard<'_, Option<Link>> {
    berth.lock().unwrap_or_else(PoisonError::into_inner)
}
