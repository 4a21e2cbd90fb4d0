//! The mailbox of one asyncio loop: what Rust threads leave for it.
//!
//! Any thread posts, without the GIL; the loop's thread takes what was posted, in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use futures_util::future::AbortHandle;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::bell::Bell;
use super::desk::{Desk, Errand, Put, Ticket, Waiter};
use super::drain::{Drain, watch};
use super::{Generation, lock, panicked, runtime};
use crate::errors;
use crate::once::{self, intern};

type Parcel = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// The mailbox of one asyncio loop in one process.
pub(crate) struct Port {
    generation: Generation,
    /// The address of the loop, to know it by. It cannot be used again while the port is open: the desk keeps the loop alive.
    event_loop: usize,
    runtime: Handle,
    /// What is done with the loop once it is closed.
    at_close: OnceLock<fn(&Bound<'_, PyAny>)>,
    /// Cancelled when the loop is closed: nobody goes on with what it waited for.
    closing: CancellationToken,
    /// Empty for a loop that cannot watch a descriptor.
    bell: OnceLock<Bell>,
    open: AtomicBool,
    queue: Mutex<VecDeque<Parcel>>,
    /// Locked only with the GIL held and never over a call into Python. `None` once the port is closed.
    desk: Mutex<Option<Desk>>,
}

thread_local! {
    /// The port of the loop that last ran in this thread.
    static LAST: RefCell<Weak<Port>> = const { RefCell::new(Weak::new()) };
}

/// Every port, so that a loop which moves between threads keeps its own. Locked like a desk.
static PORTS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

struct Known {
    port: Weak<Port>,
    /// A loop that watches the bell keeps the drain and lets go of it when it closes. The drain of any other loop is kept here.
    kept: Option<Py<Drain>>,
}

impl Port {
    /// The port of the loop that runs in this thread.
    ///
    /// # Errors
    /// `EventLoopError` when no loop of asyncio runs here; `OSError` when the process has no descriptor or thread left.
    pub(crate) fn of_running_loop(py: Python<'_>) -> PyResult<Arc<Self>> {
        static GET_RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = once::import(&GET_RUNNING_LOOP, py, "asyncio", "get_running_loop")?.call0();
        let event_loop = event_loop.map_err(|_| errors::raise(py, "EventLoopError", NO_LOOP))?;
        let is_its_own = |port: &Arc<Self>| {
            port.event_loop == event_loop.as_ptr() as usize && port.generation == Generation::now() && port.is_open()
        };
        if let Some(port) = LAST.with_borrow(Weak::upgrade).filter(is_its_own) {
            return Ok(port);
        }
        let known = lock(&PORTS).iter().filter_map(|known| known.port.upgrade()).find(is_its_own);
        let port = match known {
            Some(port) => port,
            None => Self::open(&event_loop)?,
        };
        LAST.set(Arc::downgrade(&port));
        Ok(port)
    }

    fn open(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let py = event_loop.py();
        forget_closed(py)?;
        let port = Arc::new(Self {
            runtime: runtime(py)?,
            generation: Generation::now(),
            event_loop: event_loop.as_ptr() as usize,
            at_close: OnceLock::new(),
            closing: CancellationToken::new(),
            bell: OnceLock::new(),
            open: AtomicBool::new(true),
            queue: Mutex::default(),
            desk: Mutex::new(Some(Desk::new(event_loop)?)),
        });
        let drain = Bound::new(py, Drain::new(Arc::clone(&port)))?;
        let kept = match watch(event_loop, &drain)? {
            Some(bell) => {
                // Nobody else has the port yet, so the cell is empty.
                let _ = port.bell.set(bell);
                None
            }
            None => Some(drain.unbind()),
        };
        lock(&PORTS).push(Known { port: Arc::downgrade(&port), kept });
        Ok(port)
    }

    /// Has `hook` called with the loop once it is closed. The first hook stands.
    pub(crate) fn at_close(&self, hook: fn(&Bound<'_, PyAny>)) {
        let _ = self.at_close.set(hook);
    }

    /// Is cancelled when the loop is closed, or before.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.child_token()
    }

    /// Leaves a parcel for the loop. Any thread, no GIL. A closed port drops it.
    ///
    /// An exception of a parcel goes to `sys.unraisablehook`; `KeyboardInterrupt` and its like go to the loop.
    pub(crate) fn post<P>(self: &Arc<Self>, parcel: P)
    where
        P: FnOnce(Python<'_>) -> PyResult<()> + Send + 'static,
    {
        let was_empty = {
            let mut queue = lock(&self.queue);
            if !self.is_open() {
                drop(queue);
                return;
            }
            queue.push_back(Box::new(parcel));
            queue.len() == 1
        };
        if was_empty {
            self.ring();
        }
    }

    /// A new future of the loop.
    ///
    /// # Errors
    /// `RuntimeError` when the loop is closed.
    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let create_future = lock(&self.desk).as_ref().map(|desk| desk.create_future(py));
        create_future.ok_or_else(closed)?.into_bound(py).call0()
    }

    /// A future of the loop for whoever holds the ticket to settle.
    ///
    /// # Errors
    /// `RuntimeError` when the loop is closed.
    pub(crate) fn promise<'py>(self: &Arc<Self>, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Ticket)> {
        let future = self.create_future(py)?;
        let (nothing, _) = AbortHandle::new_pair();
        let ticket = self.admit(&future, nothing)?;
        Ok((future, ticket))
    }

    /// Takes a future in that waits for `errand`. The ticket is for the one who settles it.
    pub(super) fn admit(self: &Arc<Self>, future: &Bound<'_, PyAny>, errand: AbortHandle) -> PyResult<Ticket> {
        let waiter = Waiter::new(future, errand)?.unbind();
        let number = lock(&self.desk).as_mut().ok_or_else(closed)?.admit(waiter);
        Ok(Ticket::new(Arc::clone(self), number))
    }

    /// Starts a Rust future on the runtime, together with those that the same turn of the loop starts. On the loop's thread.
    ///
    /// A closed port drops it.
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let errand: Errand = Box::pin(future);
        let put = lock(&self.desk).as_mut().map(|desk| desk.put(errand, &self.runtime));
        match put {
            Some(Put::First) => self.ring(),
            Some(Put::Done) | None => {}
        }
    }

    /// Who waits for this ticket; `None` when the port is closed.
    pub(super) fn redeem(&self, number: usize) -> Option<Py<Waiter>> {
        lock(&self.desk).as_mut().and_then(|desk| desk.redeem(number))
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == Generation::now()
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    fn ring(self: &Arc<Self>) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
            return;
        }
        // The loop can only be told by calling it. That takes the GIL, so a thread that may wait does it.
        let port = Arc::clone(self);
        self.runtime.spawn_blocking(move || Python::try_attach(|py| port.call_loop(py)));
    }

    fn call_loop(self: &Arc<Self>, py: Python<'_>) {
        let event_loop = lock(&self.desk).as_ref().map(|desk| desk.event_loop.clone_ref(py));
        let is_its_own = |known: &&Known| known.port.as_ptr() == Arc::as_ptr(self);
        let drain =
            lock(&PORTS).iter().find(is_its_own).and_then(|known| known.kept.as_ref()).map(|drain| drain.clone_ref(py));
        let (Some(event_loop), Some(drain)) = (event_loop, drain) else { return };
        if event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), (drain,)).is_err() {
            self.close();
        }
    }

    /// The loop comes by: sends what lies on the desk and settles what was posted, in order, at most `BATCH` parcels at a time.
    pub(super) fn drain(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        if !self.is_of_this_process() {
            // A forked child that still runs its parent's loop: these parcels are the parent's.
            return Ok(());
        }
        if let Some(bell) = self.bell.get() {
            bell.silence();
        }
        if let Some(desk) = &mut *lock(&self.desk) {
            desk.clear(&self.runtime);
        }
        let (mut parcels, more) = {
            let mut queue = lock(&self.queue);
            if queue.len() > BATCH { (queue.drain(..BATCH).collect(), true) } else { (mem::take(&mut *queue), false) }
        };
        if more {
            self.ring();
        }
        while let Some(parcel) = parcels.pop_front() {
            let ended = catch_unwind(AssertUnwindSafe(|| parcel(py))).unwrap_or_else(|panic| Err(panicked(&*panic)));
            match ended {
                Ok(()) => {}
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    error.write_unraisable(py, None);
                }
                Err(interrupt) => {
                    self.put_back(parcels);
                    return Err(interrupt);
                }
            }
        }
        Ok(())
    }

    /// Puts parcels back at the head of the queue: `KeyboardInterrupt` ends a drain, not the parcels behind it.
    fn put_back(self: &Arc<Self>, mut parcels: VecDeque<Parcel>) {
        {
            let mut queue = lock(&self.queue);
            parcels.append(&mut queue);
            *queue = parcels;
        }
        self.ring();
    }

    /// The loop is gone: drops what was left for it and the Rust futures that nobody waits for any more. Called with the GIL held.
    pub(super) fn close(&self) {
        let parcels = {
            let mut queue = lock(&self.queue);
            self.open.store(false, Ordering::Release);
            mem::take(&mut *queue)
        };
        if self.is_of_this_process() {
            self.closing.cancel();
        }
        let desk = lock(&self.desk).take();
        // Dropped outside the locks: a Python object that dies here may call back.
        drop(parcels);
        let Some(desk) = desk else { return };
        if let Some(at_close) = self.at_close.get() {
            Python::try_attach(|py| at_close(desk.event_loop.bind(py)));
        }
        desk.give_up();
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(desk) = self.desk.try_lock() else { return Ok(()) };
        desk.as_ref().map_or(Ok(()), |desk| desk.traverse(visit))
    }
}

/// Closes the ports of loops that were closed and could not say so, and forgets those that are gone.
fn forget_closed(py: Python<'_>) -> PyResult<()> {
    let kept: Vec<_> =
        lock(&PORTS).iter().filter_map(|known| known.kept.as_ref()).map(|drain| drain.clone_ref(py)).collect();
    for drain in kept {
        let port = drain.get().port();
        let event_loop = lock(&port.desk).as_ref().map(|desk| desk.event_loop.clone_ref(py));
        let Some(event_loop) = event_loop else { continue };
        if event_loop.call_method0(py, intern!(py, "is_closed"))?.is_truthy(py)? {
            port.close();
        }
    }
    let is_closed = |known: &mut Known| !known.port.upgrade().is_some_and(|port| port.is_open());
    let forgotten: Vec<_> = lock(&PORTS).extract_if(.., is_closed).collect();
    drop(forgotten);
    Ok(())
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("the event loop of this call is closed")
}

/// How many parcels one turn of the loop settles at most, so that a flood leaves the loop time for its other work.
const BATCH: usize = 256;

const NO_LOOP: &str = "there is no running event loop of asyncio in this thread: await under asyncio (uvloop, or anyio on asyncio), \
    or call the sync twin, such as run_sync";
