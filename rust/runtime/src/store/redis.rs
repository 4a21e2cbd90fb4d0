//! The store for many machines that keep little: a Redis server or cluster. It owns what is said to it, and no decision.

mod address;
mod call;
mod fault;
mod keys;
mod line;
mod list;
mod nodes;
mod read;
mod write;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;

use super::remote::{PATIENCE, name_of_write};
use super::{Conversation, ConversationId, Cursor, InvalidUrl, Lease, Order, Store, StoreError, StoredRequest, Write};
use address::Address;
use call::{COMMIT, Call, DELETE, LOOK};
use keys::Keys;
use nodes::Nodes;
use read::Reader;

/// Conversations in Redis 5 or newer, or Valkey, for any number of processes and machines.
///
/// - **As durable as the server.** A commit that was answered is lost with the server unless it runs with `appendonly yes`
///   and `appendfsync always`; with `everysec` the last second is. A replica that takes over may lack the last commits.
///   Set `maxmemory-policy noeviction`: conversations that are evicted are gone.
/// - **One script** for a commit: it is applied whole, or refused before anything was changed. A load is one command.
/// - **For a cluster.** Conversations are spread over 64 slots, and redirections are followed. `Sentinel` is not spoken.
/// - **Lazy.** The first use connects, in each process that uses it. A forked child connects for itself.
/// - **Patient.** A server that was there and is away (it restarts, another takes over) is waited for; a commit that was
///   lost on the way is made again, and applied once.
/// - **Clones share** their connections.
///
/// ```no_run
/// use toolrelay_runtime::store::{ConversationId, RedisStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = RedisStore::open("rediss://app:secret@redis.example.org:6380/0").unwrap();
/// assert_eq!(store.load(&ConversationId::new("c-1").unwrap()).await, Ok(None));
/// # });
/// ```
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

/// How a server is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// What the names of all keys begin with.
    pub prefix: String,
    /// The most connections that one process has to a server at once.
    pub connections: u16,
    /// How long a server may be away that was there before.
    pub patience: Duration,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self { prefix: "toolrelay".into(), connections: 8, patience: PATIENCE }
    }
}

struct Shared {
    address: Address,
    keys: Keys,
    nodes: Nodes,
}

impl RedisStore {
    /// A store on the server at `url`: `redis://user:password@host:port/0`, with `rediss://` for TLS. Connects to nothing
    /// yet.
    pub fn open(url: &str) -> Result<Self, InvalidUrl> {
        Self::open_with(url, RedisOptions::default())
    }

    /// Like [`open`](Self::open), with other options.
    pub fn open_with(url: &str, options: RedisOptions) -> Result<Self, InvalidUrl> {
        let RedisOptions { prefix, connections, patience } = options;
        if prefix.contains(['{', '}']) {
            let reason = "a cluster reads braces in the name of a key".into();
            return Err(InvalidUrl { expected: "accompanied by a prefix without braces", reason });
        }
        let address = Address::parse(url)?;
        let name = format!("{}, prefix {prefix}", address.name());
        let nodes = Nodes::new(address.clone(), name, connections.max(1), patience);
        Ok(Self { shared: Arc::new(Shared { address, keys: Keys::new(prefix), nodes }) })
    }

    /// The server, database and prefix, without anything secret.
    pub fn name(&self) -> &str {
        self.shared.nodes.name()
    }

    async fn ask(&self, call: Call<'_>) -> Result<Value, StoreError> {
        self.shared.nodes.ask(&self.shared.address, &call).await.map(|said| said.value)
    }

    fn reader(&self) -> Reader<'_> {
        Reader { store: self.name() }
    }

    /// What came of a script that changes a conversation.
    fn changed(&self, said: Value, expected: u64) -> Result<(), StoreError> {
        let reader = self.reader();
        let Some([Value::BulkString(word), Value::BulkString(about)]) = array(said) else {
            return Err(reader.damaged("the answer of a script"));
        };
        match word.as_slice() {
            b"done" => Ok(()),
            b"conflict" => Err(StoreError::Conflict { expected, found: reader.number(Some(about))? }),
            b"taken" => {
                Err(StoreError::SeqTaken { seq: reader.number(about.strip_prefix(b"m:").map(<[u8]>::to_vec))? })
            }
            b"newer" => reader.check(Some(&about)),
            _ => Err(StoreError::NotAStore { store: self.name().into() }),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let key = self.shared.keys.conversation(id);
        self.reader().conversation(self.ask(Call::Fields { key }).await?)
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        let arguments = vec![Cow::Borrowed(request.as_bytes())];
        let keys = vec![self.shared.keys.conversation(id), self.shared.keys.settled(id)];
        let found = self.ask(Call::Script { script: &LOOK, keys, arguments }).await?;
        let reader = self.reader();
        let Value::Array(found) = found else { return Err(reader.damaged("a request")) };
        let (settled, frames) = match <[Value; 3]>::try_from(found) {
            Ok([Value::BulkString(format), open, settled]) => {
                reader.check(Some(&format))?;
                match (open, settled) {
                    (Value::BulkString(open), _) => (false, open),
                    (_, Value::BulkString(settled)) => (true, settled),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        reader.request(request.as_bytes(), settled, frames).map(Some)
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        let store = self.name();
        let too_large = || StoreError::TooLarge {
            store: store.into(),
            what: "a message or request".into(),
            limit: MOST_BYTES as u64,
        };
        let bodies = write.append.iter().map(|(_, body)| body.len());
        let largest = bodies.chain(write.requests.iter().map(StoredRequest::bytes)).max();
        if largest.is_some_and(|bytes| bytes > MOST_BYTES) {
            return Err(too_large());
        }
        let arguments = write::arguments(id, &write, name_of_write(store)?).ok_or_else(too_large)?;
        let call = Call::Script { script: &COMMIT, keys: self.shared.keys.all(id), arguments };
        self.changed(self.ask(call).await?, write.expect)
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        let arguments = write::deletion(id, expect);
        let call = Call::Script { script: &DELETE, keys: self.shared.keys.all(id), arguments };
        let said = self.shared.nodes.ask(&self.shared.address, &call).await?;
        match self.changed(said.value, expect) {
            // There is none any more.
            Err(StoreError::Conflict { found: 0, .. }) if said.again => Ok(()),
            changed => changed,
        }
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        self.list_leases(after, limit).await
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        self.list_requests(order, after, limit).await
    }

    async fn close(&self) {
        self.shared.nodes.close().await;
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The values of an array of that many.
fn array<const N: usize>(value: Value) -> Option<[Value; N]> {
    let Value::Array(values) = value else { return None };
    values.try_into().ok()
}

/// The format of a conversation that this version reads and writes.
const FORMAT: u32 = 1;

/// The longest value that a server takes, unless `proto-max-bulk-len` says otherwise.
const MOST_BYTES: usize = 512 << 20;

#[cfg(test)]
mod tests;
