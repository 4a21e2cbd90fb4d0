//! Connections that wait for their next request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

use super::exchange::Connection;

/// The idle connections of one transport in one process, by origin.
pub(super) struct Pool {
    idle: Mutex<HashMap<Arc<str>, VecDeque<Idle>>>,
    idle_timeout: Duration,
    process: u32,
}

struct Idle {
    connection: Connection,
    since: Instant,
    /// A connection lives and dies with the runtime whose driver watches it.
    runtime: Id,
}

impl Pool {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self { idle: Mutex::default(), idle_timeout, process: std::process::id() }
    }

    /// Whether this process made it. What a forked child inherits is not for use.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// The connection that was used last: it is the least likely to have been closed by the other side.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let runtime = Handle::current().id();
        loop {
            let idle = self.lock().get_mut(origin)?.pop_back()?;
            if idle.runtime == runtime && idle.since.elapsed() < self.idle_timeout {
                return Some(idle.connection);
            }
        }
    }

    pub(super) fn put(&self, origin: &Arc<str>, connection: Connection) {
        let now = Instant::now();
        let idle = Idle { connection, since: now, runtime: Handle::current().id() };
        let mut by_origin = self.lock();
        let queue = match by_origin.get_mut(origin) {
            Some(queue) => queue,
            None => by_origin.entry(Arc::clone(origin)).or_default(),
        };
        queue.push_back(idle);
        let is_full = queue.len() > MAX_IDLE;
        let surplus = queue.pop_front_if(|oldest| is_full || now - oldest.since >= self.idle_timeout);
        drop(by_origin);
        drop(surplus);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, VecDeque<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In a forked child the parent's driver still watches the inherited connections, through a handle
/// that both share: closing them would make the parent deaf to them. The child forgets them.
impl Drop for Pool {
    fn drop(&mut self) {
        if !self.is_own() {
            std::mem::forget(std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}

const MAX_IDLE: usize = 1_024;
