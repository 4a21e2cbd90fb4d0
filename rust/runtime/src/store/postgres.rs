//! The store for many machines: a PostgreSQL database. It owns what is said to the database, and no decision.

mod address;
mod fault;
mod line;
mod list;
mod read;
mod schema;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Error;

use super::remote::{Fault, PATIENCE, Question, Remote};
use super::{Conversation, ConversationId, Cursor, InvalidUrl, Lease, Order, Store, StoreError, StoredRequest, Write};
use address::Address;
use line::{Dialler, Wire};
use list::{Leases, OpenRequests};
use read::{Load, Look};
use schema::{Prepared, Schema};
use write::{Commit, Delete};

/// Conversations in a PostgreSQL database (13 or newer), for any number of processes and machines.
///
/// - **One statement** each: a load, the look at a request, and a commit are one round trip, and a commit is atomic
///   because it is one statement. A commit is durable if `synchronous_commit` is on, as it is unless somebody changed it.
/// - **For a pooler.** Nothing is prepared and no setting of the session is touched, so `PgBouncer` may stand between, in
///   any mode.
/// - **Lazy.** The first use connects, in each process that uses it, and makes the tables if they are not there. A forked
///   child connects for itself.
/// - **Patient.** A server that was there and is away (it restarts, another takes over) is waited for; a commit that was
///   lost on the way is made again, and applied once.
/// - **Clones share** their connections.
///
/// ```no_run
/// use toolrelay_runtime::store::{ConversationId, PostgresStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = PostgresStore::open("postgresql://app:secret@db.example.org/app?sslmode=verify-full").unwrap();
/// assert_eq!(store.load(&ConversationId::new("c-1").unwrap()).await, Ok(None));
/// # });
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// How a database is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The schema of the tables. It is made if it is not there.
    pub schema: String,
    /// The most connections that one process has at once.
    pub connections: u16,
    /// How long a server may be away that was there before, and how long a lock is waited for.
    pub patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { schema: "toolrelay".into(), connections: 8, patience: PATIENCE }
    }
}

struct Shared {
    remote: Remote<Dialler>,
    schema: Schema,
    /// The tables were there once.
    prepared: AtomicBool,
}

impl PostgresStore {
    /// A store in the database at `url`: `postgresql://user:password@host:port/database?sslmode=verify-full`.
    ///
    /// `sslmode` and `sslrootcert` mean what they mean to PostgreSQL's own programs. Connects to nothing yet.
    pub fn open(url: &str) -> Result<Self, InvalidUrl> {
        Self::open_with(url, PostgresOptions::default())
    }

    /// Like [`open`](Self::open), with other options.
    pub fn open_with(url: &str, options: PostgresOptions) -> Result<Self, InvalidUrl> {
        let PostgresOptions { schema, connections, patience } = options;
        let address = Address::parse(url)?;
        let schema = Schema::new(schema)?;
        let name = format!("{}, schema {}", address.name(), schema.name());
        let dialler = Dialler { address, name: name.clone(), patience };
        let remote = Remote::new(dialler, name, connections.max(1), patience);
        Ok(Self { shared: Arc::new(Shared { remote, schema, prepared: AtomicBool::new(false) }) })
    }

    /// The server, database and schema, without anything secret.
    pub fn name(&self) -> &str {
        self.shared.remote.name()
    }

    async fn ask<Q: Question<Wire>>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        self.shared.remote.ask(&Prepared { shared: &self.shared, question }).await
    }
}

impl Shared {
    fn fault(&self, error: Error) -> Fault {
        let store = self.remote.name();
        if fault::is_missing(&error) {
            return StoreError::Gone { store: store.into() }.into();
        }
        fault::of(store, self.remote.patience(), &error)
    }

    /// A row holds what this library never wrote.
    fn damaged(&self, reason: &str) -> Fault {
        StoreError::Corrupt { store: self.remote.name().into(), reason: reason.into() }.into()
    }

    fn too_large(&self, what: &str, limit: u64) -> Fault {
        StoreError::TooLarge { store: self.remote.name().into(), what: what.into(), limit }.into()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.ask(Load { shared: &self.shared, id: id.as_str() }).await
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        self.ask(Look { shared: &self.shared, id: id.as_str(), request }).await
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        self.ask(Commit::new(&self.shared, id.as_str(), &write)?).await
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        let lost = AtomicBool::new(false);
        self.ask(Delete { shared: &self.shared, id: id.as_str(), expect, lost }).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        self.ask(Leases { shared: &self.shared, after, limit }).await
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        self.ask(OpenRequests { shared: &self.shared, order, after, limit }).await
    }

    async fn close(&self) {
        self.shared.remote.close().await;
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name()).finish_non_exhaustive()
    }
}
#[cfg(test)]
mod tests;
