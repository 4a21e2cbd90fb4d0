//! The embedded store: one SQLite file, durable, shared by processes. It owns the threads and connections to the file,
//! and no decision.

mod crew;
mod fault;
mod fork;

mod line;
mod list;
mod read;
mod schema;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{self, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tokio::sync::oneshot;

pub(super) use fork::put_off_forks;
pub use fork::{ForkHold, hold_for_fork};

use super::{Conversation, ConversationId, Cursor, Lease, Order, Store, StoreError, StoredRequest, Write};
use crew::{Crew, Orders, ReadJob, WriteJob};
use line::File;
use write::{Change, What};

/// Conversations in one SQLite file, for any number of processes of one machine.
///
/// - **Durable.** A commit is answered after SQLite has synced its log (`journal_mode = WAL`, `synchronous = FULL`), so
///   what was acknowledged survives a kill and, on a disk that keeps its word, a loss of power. `NORMAL` would lose
///   the last commits with the power, answers among them.
/// - **Grouped.** One thread writes. Commits that come while it is busy share its next transaction and its one sync;
///   a refused one does not disturb the others. Reads go on beside it.
/// - **Lazy.** Threads and connections come with the first use, in each process of their own. See [`hold_for_fork`] for
///   processes that fork.
/// - **Clones share** the threads, which end after the last clone is dropped.
///
/// Keep the file on a local disk. Do not open it in the same process through another copy of SQLite (Python's `sqlite3`
/// module, say): when that one closes the file, POSIX drops the locks of both, and a write elsewhere can then damage it.
/// From another process it is safe.
///
/// ```
/// use toolrelay_runtime::store::{ConversationId, SqliteStore, State, Store, Write};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("conversations.db");
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = SqliteStore::open(path).unwrap();
/// let id = ConversationId::new("c-1").unwrap();
/// let message = (0, r#"{"role":"user","content":"hello"}"#.into());
/// let write = Write {
///     expect: 0,
///     version: 1,
///     at_ms: 1_764_500_000_000,
///     state: State::Idle,
///     epoch: 0,
///     lease: None,
///     append: vec![message.clone()],
///     requests: vec![],
/// };
/// store.commit(&id, write).await.unwrap();
/// assert_eq!(store.load(&id).await.unwrap().unwrap().messages, [message]);
/// # });
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    file: Arc<File>,
    /// Without a lock, because a lock that is held at a fork stays held in the child.
    crew: ArcSwapOption<Crew>,
    closed: AtomicBool,
}

impl SqliteStore {
    /// How long a commit waits for a lock of another process, unless told otherwise.
    pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

    /// A store in the file at `path`, which the first use makes if it is not there; its folder must be.
    ///
    /// Touches nothing yet: what is wrong with the file is told by the first use.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, Self::BUSY_TIMEOUT)
    }

    /// Like [`open`](Self::open), with another time to wait before [`StoreError::Locked`].
    pub fn open_with(path: impl AsRef<Path>, busy_timeout: Duration) -> Result<Self, StoreError> {
        let given = path.as_ref();
        // Absolute, so that a later change of the working directory does not lead elsewhere, and so that SQLite
        // finds no special name (":memory:", "file:...") in it.
        let path = path::absolute(given).map_err(|error| StoreError::Unavailable {
            store: format!("{:?}", given.display()),
            reason: format!("it is no path: {}", error.kind()),
        })?;
        Ok(Self::of(File {
            path,
            patience: busy_timeout,
            seen: AtomicBool::new(false),
            #[cfg(test)]
            most_pages: None,
        }))
    }

    fn of(file: File) -> Self {
        let shared = Shared { file: Arc::new(file), crew: ArcSwapOption::empty(), closed: AtomicBool::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.shared.file.path
    }

    /// The threads of this process, started if there are none.
    fn crew(&self) -> Result<Arc<Crew>, StoreError> {
        loop {
            let current = self.shared.crew.load_full();
            if let Some(crew) = &current
                && crew.orders().is_some()
            {
                return Ok(crew.clone());
            }
            if self.shared.closed.load(Ordering::SeqCst) {
                return Err(StoreError::Closed { store: self.name() });
            }
            let fresh = Arc::new(Crew::start(&self.shared.file)?);
            let before = self.shared.crew.compare_and_swap(&current, Some(fresh.clone()));
            if before.as_ref().map(Arc::as_ptr) != current.as_ref().map(Arc::as_ptr) {
                continue;
            }
            if self.shared.closed.load(Ordering::SeqCst) {
                self.shared.crew.store(None);
            }
            return Ok(fresh);
        }
    }

    /// Gives a job to the threads and waits for what comes of it.
    async fn ask<T>(
        &self,
        give: impl FnOnce(&Orders, oneshot::Sender<Result<T, StoreError>>),
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        {
            let crew = self.crew()?;
            if let Some(orders) = crew.orders() {
                give(orders, reply);
            }
        }
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable { store: self.name(), reason: "its thread has ended, open it again".into() })
        })
    }

    fn name(&self) -> String {
        self.shared.file.path.display().to_string()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let id = id.as_str().to_owned();
        // A job that cannot be given is dropped, and its reply with it: `ask` tells.
        self.ask(|orders, reply| _ = orders.reads.send(ReadJob::Load { id, reply })).await
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        let (id, request) = (id.as_str().to_owned(), request.to_owned());
        self.ask(|orders, reply| _ = orders.reads.send(ReadJob::Request { id, request, reply })).await
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        let change = Change { id: id.as_str().to_owned(), what: What::Commit(write) };
        self.ask(|orders, reply| _ = orders.writes.send(WriteJob { change, reply })).await
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        let change = Change { id: id.as_str().to_owned(), what: What::Delete { expect } };
        self.ask(|orders, reply| _ = orders.writes.send(WriteJob { change, reply })).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        let after = after.cloned();
        self.ask(|orders, reply| _ = orders.reads.send(ReadJob::Leases { after, limit, reply })).await
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        let after = after.cloned();
        self.ask(|orders, reply| _ = orders.reads.send(ReadJob::OpenRequests { order, after, limit, reply })).await
    }

    async fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let Some(crew) = self.shared.crew.swap(None) else { return };
        let Some(mut ended) = crew.orders().map(|orders| orders.ended.clone()) else { return };
        drop(crew);
        // Nothing is ever sent: this ends when the last thread lets go.
        _ = ended.changed().await;
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.shared.file.path).finish_non_exhaustive()
    }
}
