//! The lines of one process to one server: so many seats, and the lines that wait for their next use.

use std::mem;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant};

use super::Line;

/// Lines that are used by one at a time.
pub(super) struct Lines<L: Line> {
    most: u16,
    /// Without a lock, because a lock that is held at a fork stays held in the child.
    switchboard: ArcSwap<Switchboard<L>>,
}

struct Switchboard<L: Line> {
    process: u32,
    seats: Arc<Semaphore>,
    idle: Mutex<Vec<Idle<L>>>,
}

struct Idle<L> {
    line: L,
    since: Instant,
    /// A line lives and dies with the runtime whose driver watches it.
    runtime: Id,
}

/// The right to use one line.
pub(super) struct Seat<L: Line> {
    switchboard: Arc<Switchboard<L>>,
    _permit: OwnedSemaphorePermit,
}

impl<L: Line> Lines<L> {
    pub(super) fn new(most: u16) -> Self {
        Self { most, switchboard: ArcSwap::from_pointee(Switchboard::new(most)) }
    }

    /// Waits for a seat; `None` when there will be none any more.
    pub(super) async fn seat(&self) -> Option<Seat<L>> {
        let switchboard = self.switchboard();
        let permit = Arc::clone(&switchboard.seats).acquire_owned().await.ok()?;
        Some(Seat { switchboard, _permit: permit })
    }

    /// Hangs up when nobody is seated any more.
    pub(super) async fn close(&self) {
        let switchboard = self.switchboard();
        let Ok(_all) = switchboard.seats.acquire_many(self.most.into()).await else { return };
        switchboard.seats.close();
        let idle = mem::take(&mut *switchboard.idle());
        for Idle { line, .. } in idle {
            line.hang_up().await;
        }
    }

    /// That of this process. What a forked child inherits is not for use.
    fn switchboard(&self) -> Arc<Switchboard<L>> {
        let current = self.switchboard.load_full();
        if current.is_own() {
            return current;
        }
        self.switchboard.compare_and_swap(&current, Arc::new(Switchboard::new(self.most)));
        self.switchboard.load_full()
    }
}

impl<L: Line> Seat<L> {
    /// The line that was used last: it is the least likely to have been closed by the other side.
    pub(super) fn take(&mut self) -> Option<L> {
        let runtime = Handle::current().id();
        loop {
            let idle = self.switchboard.idle().pop()?;
            if idle.runtime == runtime && !idle.line.is_closed() && idle.since.elapsed() < LONGEST_IDLE {
                return Some(idle.line);
            }
        }
    }

    /// Leaves a line for the next one.
    pub(super) fn keep(self, line: L) {
        if !line.is_closed() {
            let idle = Idle { line, since: Instant::now(), runtime: Handle::current().id() };
            self.switchboard.idle().push(idle);
        }
    }
}

impl<L: Line> Switchboard<L> {
    fn new(most: u16) -> Self {
        Self { process: process::id(), seats: Arc::new(Semaphore::new(most.into())), idle: Mutex::default() }
    }

    fn is_own(&self) -> bool {
        self.process == process::id()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle<L>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In a forked child the parent's driver still watches the inherited lines, through a handle that both share: closing
/// them would make the parent deaf to them. The child forgets them.
impl<L: Line> Drop for Switchboard<L> {
    fn drop(&mut self) {
        if !self.is_own() {
            mem::forget(mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}

/// Shorter than what lies between lets an unused connection live.
const LONGEST_IDLE: Duration = Duration::from_mins(1);
