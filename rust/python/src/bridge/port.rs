//! The mailbox of one asyncio loop: what Rust threads leave for it, and the futures of it that wait for Rust.
//!
//! Any thread posts, without the GIL; the loop's thread takes what was posted, in order. Python objects stay on the loop's side
//! (`Desk`): a Rust thread holds the number of a future, never the future, so it never has one to drop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pyo3::exceptions::{PyAttributeError, PyException, PyNotImplementedError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use slab::Slab;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::bell::Bell;
use super::{lock, panicked, runtime};

/// What is left for the loop: run on its thread, with the GIL.
type Parcel = Box<dyn FnOnce(Python<'_>) -> PyResult<()> + Send>;

/// The mailbox of one asyncio loop in one process.
pub(crate) struct Port {
    process: u32,
    /// The address of the loop, to know it by. It cannot be used again while the port is open: the desk keeps the loop alive.
    event_loop: usize,
    pub(super) runtime: Handle,
    /// Empty for a loop that cannot watch a descriptor.
    bell: OnceLock<Bell>,
    open: AtomicBool,
    queue: Mutex<VecDeque<Parcel>>,
    /// Locked only with the GIL held and never over a call into Python. `None` once the port is closed.
    desk: Mutex<Option<Desk>>,
}

/// The Python objects of a port.
struct Desk {
    event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    waiting: Slab<Waiting>,
}

/// A future of the loop and the Rust task that is to settle it.
struct Waiting {
    /// `None` once the waiter is gone. The number stays taken until the task has come back.
    future: Option<Py<PyAny>>,
    task: Option<AbortHandle>,
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
    /// asyncio's own `RuntimeError` when no loop runs here; `OSError` when the process has no descriptor or thread left.
    pub(crate) fn of_running_loop(py: Python<'_>) -> PyResult<Arc<Self>> {
        static GET_RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = GET_RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?.call0()?;
        let process = std::process::id();
        let is_its_own = |port: &Arc<Self>| {
            port.event_loop == event_loop.as_ptr() as usize
                && port.process == process
                && port.open.load(Ordering::Acquire)
        };
        if let Some(port) = LAST.with_borrow(Weak::upgrade).filter(is_its_own) {
            return Ok(port);
        }
        let known = lock(&PORTS).iter().filter_map(|known| known.port.upgrade()).find(is_its_own);
        let port = match known {
            Some(port) => port,
            None => Self::open(&event_loop, process)?,
        };
        LAST.set(Arc::downgrade(&port));
        Ok(port)
    }

    fn open(event_loop: &Bound<'_, PyAny>, process: u32) -> PyResult<Arc<Self>> {
        let py = event_loop.py();
        forget_closed(py)?;
        let desk = Desk {
            event_loop: event_loop.clone().unbind(),
            create_future: event_loop.getattr(intern!(py, "create_future"))?.unbind(),
            waiting: Slab::new(),
        };
        let port = Arc::new(Self {
            process,
            event_loop: event_loop.as_ptr() as usize,
            runtime: runtime(py)?,
            bell: OnceLock::new(),
            open: AtomicBool::new(true),
            queue: Mutex::default(),
            desk: Mutex::new(Some(desk)),
        });
        let drain = Bound::new(py, Drain { port: Arc::clone(&port) })?;
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

    /// Leaves a parcel for the loop. Any thread, no GIL. A closed port drops it.
    pub(crate) fn post<P>(self: &Arc<Self>, parcel: P)
    where
        P: FnOnce(Python<'_>) -> PyResult<()> + Send + 'static,
    {
        let was_empty = {
            let mut queue = lock(&self.queue);
            if !self.open.load(Ordering::Acquire) {
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
    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let create_future = lock(&self.desk).as_ref().map(|desk| desk.create_future.clone_ref(py));
        create_future.ok_or_else(closed)?.into_bound(py).call0()
    }

    /// Takes a future in. The ticket is for the task that settles it.
    pub(super) fn admit(self: &Arc<Self>, future: &Bound<'_, PyAny>) -> PyResult<Ticket> {
        let waiting = Waiting { future: Some(future.clone().unbind()), task: None };
        let number = lock(&self.desk).as_mut().ok_or_else(closed)?.waiting.insert(waiting);
        Ok(Ticket { port: Some(Arc::clone(self)), number })
    }

    /// Says which task settles the future of this number, and has it dropped when the future is done before that.
    pub(super) fn assign(
        self: &Arc<Self>,
        number: usize,
        future: &Bound<'_, PyAny>,
        task: AbortHandle,
    ) -> PyResult<()> {
        let py = future.py();
        // Only this thread takes parcels, so the task cannot have come back yet and the number is still its own.
        if let Some(waiting) = lock(&self.desk).as_mut().and_then(|desk| desk.waiting.get_mut(number)) {
            waiting.task = Some(task);
        }
        let farewell = Farewell { port: Arc::downgrade(self), number };
        future.call_method1(intern!(py, "add_done_callback"), (farewell,))?;
        Ok(())
    }

    /// The future of a task that has come back; `None` when its waiter is gone.
    fn redeem(&self, number: usize) -> Option<Py<PyAny>> {
        lock(&self.desk).as_mut().and_then(|desk| desk.waiting.try_remove(number)).and_then(|waiting| waiting.future)
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
        let (Some(event_loop), Some(drain)) = (event_loop, drain) else {
            return;
        };
        if event_loop.call_method1(py, intern!(py, "call_soon_threadsafe"), (drain,)).is_err() {
            self.close();
        }
    }

    /// Settles what was posted, in order, at most `BATCH` parcels at a time.
    fn drain(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            // A forked child that still runs its parent's loop: these parcels are the parent's.
            return Ok(());
        }
        if let Some(bell) = self.bell.get() {
            bell.silence();
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

    /// The loop is gone: drops what was left for it and the tasks that nobody waits for any more. Called with the GIL held.
    fn close(&self) {
        let parcels = {
            let mut queue = lock(&self.queue);
            self.open.store(false, Ordering::Release);
            mem::take(&mut *queue)
        };
        let desk = lock(&self.desk).take();
        // Dropped outside the locks: a Python object that dies here may call back.
        drop(parcels);
        let Some(mut desk) = desk else { return };
        for waiting in desk.waiting.drain() {
            if let Some(task) = waiting.task {
                task.abort();
            }
        }
    }
}

/// The right of one task to settle one future. Dropped unused, it says that the task was given up.
pub(super) struct Ticket {
    /// `None` once used.
    port: Option<Arc<Port>>,
    number: usize,
}

impl Ticket {
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Settles the future with what `outcome` makes on the loop's side. A waiter that is gone is skipped.
    pub(super) fn settle<O>(mut self, outcome: O)
    where
        O: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    {
        let (Some(port), number) = (self.port.take(), self.number) else {
            return;
        };
        let postman = Arc::clone(&port);
        postman.post(move |py| match port.redeem(number) {
            Some(future) => settle(future.bind(py), catch_unwind(AssertUnwindSafe(|| outcome(py)))),
            None => Ok(()),
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (Some(port), number) = (self.port.take(), self.number) else {
            return;
        };
        let postman = Arc::clone(&port);
        postman.post(move |py| match port.redeem(number) {
            Some(future) => settle(future.bind(py), Ok(Err(PyRuntimeError::new_err("the runtime was shut down")))),
            None => Ok(()),
        });
    }
}

/// Settles a future unless it is done already.
fn settle<'py>(future: &Bound<'py, PyAny>, outcome: std::thread::Result<PyResult<Bound<'py, PyAny>>>) -> PyResult<()> {
    let py = future.py();
    let settled = match outcome.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)),
    };
    match settled {
        Ok(_) => Ok(()),
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        Err(_) if future.call_method0(intern!(py, "done"))?.is_truthy()? => Ok(()),
        // An exception that a future refuses to carry, such as `StopIteration`.
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)).map(drop),
    }
}

/// The callback of a loop that settles what was posted. It lives as long as the loop wants it, and closes the port when it goes.
#[pyclass(frozen, module = "toolrelay._core", name = "_Drain")]
struct Drain {
    port: Arc<Port>,
}

#[pymethods]
impl Drain {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.port.drain(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(desk) = self.port.desk.try_lock() else {
            return Ok(());
        };
        let Some(desk) = desk.as_ref() else {
            return Ok(());
        };
        visit.call(&desk.event_loop)?;
        visit.call(&desk.create_future)?;
        desk.waiting.iter().filter_map(|(_, waiting)| waiting.future.as_ref()).try_for_each(|future| visit.call(future))
    }

    fn __clear__(&self) {
        self.port.close();
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if self.port.process == std::process::id() {
            self.port.close();
        } else {
            // In a forked child: another thread of the parent may have held the queue's lock, so it is never looked at again.
            mem::forget(Arc::clone(&self.port));
        }
    }
}

/// The callback of a future that is done: drops the task if the future was not settled by it.
#[pyclass(frozen, module = "toolrelay._core", name = "_Farewell")]
struct Farewell {
    port: Weak<Port>,
    number: usize,
}

#[pymethods]
impl Farewell {
    fn __call__(&self, future: &Bound<'_, PyAny>) {
        let Some(port) = self.port.upgrade() else {
            return;
        };
        let gone = {
            let mut desk = lock(&port.desk);
            // After a settlement the number may be another future's.
            let waiting = desk.as_mut().and_then(|desk| desk.waiting.get_mut(self.number));
            let waiting = waiting.filter(|waiting| waiting.future.as_ref().is_some_and(|mine| mine.is(future)));
            waiting.and_then(|waiting| waiting.future.take().zip(waiting.task.take()))
        };
        if let Some((_future, task)) = gone {
            task.abort();
        }
    }
}

/// Has the loop call `drain` when a bell rings; `None` if this loop watches no descriptors.
fn watch(event_loop: &Bound<'_, PyAny>, drain: &Bound<'_, Drain>) -> PyResult<Option<Bell>> {
    static CONTEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = event_loop.py();
    let bell = match Bell::new() {
        Ok(bell) => bell,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let watched = event_loop.getattr(intern!(py, "add_reader")).and_then(|add_reader| {
        // In an empty context: the loop would keep the context variables of whoever came first.
        let context = CONTEXT.import(py, "contextvars", "Context")?.call0()?;
        context.call_method1(intern!(py, "run"), (add_reader, bell.descriptor(), drain))
    });
    match watched {
        Ok(_) => Ok(Some(bell)),
        Err(error)
            if error.is_instance_of::<PyNotImplementedError>(py) || error.is_instance_of::<PyAttributeError>(py) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Closes the ports of loops that were closed and could not say so, and forgets those that are gone.
fn forget_closed(py: Python<'_>) -> PyResult<()> {
    let kept: Vec<_> =
        lock(&PORTS).iter().filter_map(|known| known.kept.as_ref()).map(|drain| drain.clone_ref(py)).collect();
    for drain in kept {
        let port = &drain.get().port;
        let event_loop = lock(&port.desk).as_ref().map(|desk| desk.event_loop.clone_ref(py));
        let Some(event_loop) = event_loop else {
            continue;
        };
        if event_loop.call_method0(py, intern!(py, "is_closed"))?.is_truthy(py)? {
            port.close();
        }
    }
    let is_closed = |known: &mut Known| !known.port.upgrade().is_some_and(|port| port.open.load(Ordering::Acquire));
    let forgotten: Vec<_> = lock(&PORTS).extract_if(.., is_closed).collect();
    drop(forgotten);
    Ok(())
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("the event loop of this call is closed")
}

/// How many parcels one turn of the loop settles at most, so that a flood leaves the loop time for its other work.
const BATCH: usize = 256;
