//! One server, or the servers of a cluster as far as they have named each other.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::{Instant, sleep};

use super::super::StoreError;
use super::super::remote::Remote;
use super::address::Address;
use super::call::{Answer, Asked, Call, Said};
use super::line::Dialler;

/// The servers.
pub(super) struct Nodes {
    name: String,
    connections: u16,
    patience: Duration,
    /// The first is the one of the URL.
    known: ArcSwap<Vec<Node>>,
    /// Which of the known ones has a slot, once a server has said that another one has any.
    slots: OnceLock<Box<[AtomicU16]>>,
    /// A server that is heard of later on is closed, too.
    closed: AtomicBool,
}

#[derive(Clone)]
struct Node {
    /// As the others name it.
    host: String,
    remote: Arc<Remote<Dialler>>,
}

impl Nodes {
    pub(super) fn new(address: Address, name: String, connections: u16, patience: Duration) -> Self {
        let remote = Remote::new(Dialler { address, name: name.clone() }, name.clone(), connections, patience);
        let first = Node { host: String::new(), remote: Arc::new(remote) };
        let known = ArcSwap::from_pointee(vec![first]);
        Self { name, connections, patience, known, slots: OnceLock::new(), closed: AtomicBool::new(false) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks the server that has the keys of the call.
    pub(super) async fn ask(&self, address: &Address, call: &Call<'_>) -> Result<Said, StoreError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::Closed { store: self.name.clone() });
        }
        let (slot, start) = (slot_of(call.key()), Instant::now());
        let (mut at, mut is_asking, lost) = (self.place_of(slot), false, AtomicBool::new(false));
        let mut pause = Duration::ZERO;
        loop {
            let remote = self.remote(at);
            match remote.ask(&Asked { store: &self.name, call, is_asking, lost: &lost }).await {
                Ok(Answer::Value(value)) => return Ok(Said { value, again: lost.into_inner() }),
                Ok(Answer::Moved { to }) => {
                    (at, is_asking) = (self.learn(address, &to), false);
                    self.slots()[usize::from(slot)].store(at, Ordering::Relaxed);
                }
                Ok(Answer::Elsewhere { to }) => (at, is_asking) = (self.learn(address, &to), true),
                // The server of the URL knows where the slot is now.
                Err(StoreError::Unavailable { .. } | StoreError::ReadOnly { .. }) if at != 0 => {
                    (at, is_asking) = (0, false);
                    self.slots()[usize::from(slot)].store(0, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
            if start.elapsed() > self.patience {
                let reason = "its servers send from one to another, is the cluster whole?".into();
                return Err(StoreError::Unavailable { store: self.name.clone(), reason });
            }
            // The first servers that a call is sent to are in no trouble.
            sleep(pause).await;
            pause = (2 * pause + Duration::from_millis(1)).min(LONGEST_PAUSE);
        }
    }

    fn remote(&self, at: u16) -> Arc<Remote<Dialler>> {
        let known = self.known.load();
        Arc::clone(&known.get(usize::from(at)).unwrap_or(&known[0]).remote)
    }

    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for node in self.known.load_full().iter() {
            node.remote.close().await;
        }
    }

    fn place_of(&self, slot: u16) -> u16 {
        self.slots.get().map_or(0, |slots| slots[usize::from(slot)].load(Ordering::Relaxed))
    }

    fn slots(&self) -> &[AtomicU16] {
        self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU16::new(0)).collect())
    }

    /// The place of the server of this name among the known ones.
    fn learn(&self, address: &Address, host: &str) -> u16 {
        let place = |known: &[Node]| known.iter().position(|node| node.host == host);
        if place(&self.known.load()).is_none()
            && let Some(address) = address.neighbour(host)
        {
            let dialler = Dialler { address, name: self.name.clone() };
            // The patience with all of them is kept above.
            let remote = Arc::new(Remote::new(dialler, self.name.clone(), self.connections, Duration::ZERO));
            let node = Node { host: host.to_owned(), remote };
            self.known.rcu(|known| {
                let mut known = known.to_vec();
                if place(&known).is_none() {
                    known.push(node.clone());
                }
                known
            });
        }
        place(&self.known.load()).and_then(|at| u16::try_from(at).ok()).unwrap_or(0)
    }
}

/// The slot of a key: of what stands in its first braces.
fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
    crc16(tag) % SLOTS
}

/// The checksum by which Redis spreads keys.
pub(super) fn crc16(text: &str) -> u16 {
    let shift = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    text.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| shift(crc)))
}

const SLOTS: u16 = 16_384;
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
