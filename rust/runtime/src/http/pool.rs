//! Connections that wait for their next request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

use super::exchange::Connection;

/// The idle connections of one transport, by origin.
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

    /// The connection that was used last: it is the least likely to have been closed by the other side.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let runtime = Handle::current().id();
        loop {
            let idle = self.lock().get_mut(origin)?.pop_back()?;
            if idle.runtime != runtime {
                self.give_up(idle);
            } else if idle.since.elapsed() < self.idle_timeout {
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
            None => by_origin.entry(origin.clone()).or_default(),
        };
        queue.push_back(idle);
        let surplus = queue.pop_front_if(|oldest| now - oldest.since >= self.idle_timeout);
        let surplus = if queue.len() > MAX_IDLE { queue.pop_front() } else { surplus };
        drop(by_origin);
        if let Some(surplus) = surplus {
            self.give_up(surplus);
        }
    }

    /// In a child of a fork the parent's driver still watches the connections: closing them here
    /// would make the parent deaf to its own, so the child forgets them.
    fn give_up(&self, idle: Idle) {
        if std::process::id() == self.process {
            drop(idle);
        } else {
            std::mem::forget(idle);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, VecDeque<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(std::mem::take(&mut *self.lock()));
        }
    }
}

const MAX_IDLE: usize = 1_024;
