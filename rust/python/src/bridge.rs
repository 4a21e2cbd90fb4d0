//! Between tokio and asyncio: the only code that knows both. It owns the runtime of the process and the way back from it.
//!
//! A Rust future becomes a future of asyncio (`future_into_py`); what a Rust thread has to say to Python it posts to the `Port` of a
//! loop. Rust threads never take the GIL for that. Nothing here decides anything.

mod bell;
mod desk;
mod drain;
mod port;
mod probe;

use std::any::Any;
use std::future::Future;
use std::mem;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, Abortable};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict as _;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::once::intern;

pub(crate) use desk::Ticket;
pub(crate) use port::Port;
pub(crate) use probe::{_bridge_probe, _bridge_probes_alive};

/// Makes the classes of the bridge: made at first use, they could be found half made by a fork.
pub(crate) fn prepare(py: Python<'_>) {
    py.get_type::<drain::Drain>();
    py.get_type::<desk::Waiter>();
}

/// A Rust future as a future of the running asyncio loop.
///
/// It runs from now on. Its outcome is turned into Python on the loop's thread. Cancelling the asyncio future drops it; a panic of it is a
/// `RuntimeError` there.
///
/// # Errors
/// `EventLoopError` when no loop runs in this thread.
pub(crate) fn future_into_py<F, T, E>(py: Python<'_>, future: F) -> PyResult<Bound<'_, PyAny>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: for<'py> IntoPyObject<'py> + Send + 'static,
    E: Into<PyErr> + Send + 'static,
{
    let port = Port::of_running_loop(py)?;
    let waiter = port.create_future(py)?;
    let (abort, registration) = AbortHandle::new_pair();
    let ticket = port.admit(&waiter, abort)?;
    let future = Abortable::new(AssertUnwindSafe(future).catch_unwind(), registration);
    port.spawn(async move {
        // An aborted one drops its ticket unused.
        if let Ok(outcome) = future.await {
            ticket.settle(move |py| match outcome {
                Ok(Ok(value)) => value.into_bound_py_any(py),
                Ok(Err(error)) => Err(error.into()),
                Err(panic) => Err(panicked(&*panic)),
            });
        }
    });
    Ok(waiter)
}

/// What comes of a Rust future, waited for in this thread. Nothing of the future may need the interpreter.
///
/// # Errors
/// What a signal handler raises, Control-C above all: the future goes on without a waiter.
pub(crate) fn wait_here<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    let handle = runtime(py)?;
    let mut task = handle.spawn(future);
    loop {
        match py.detach(|| handle.block_on(async { tokio::time::timeout(SIGNALS, &mut task).await })) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(ended)) => return Err(PyRuntimeError::new_err(ended.to_string())),
            Err(_elapsed) => py.check_signals()?,
        }
    }
}

/// How often a thread that waits looks for signals.
const SIGNALS: Duration = Duration::from_millis(100);

/// The tokio runtime of this process, built at first use.
///
/// A forked child has none of its parent's threads, so it gets a runtime of its own and never touches the parent's again.
///
/// # Errors
/// `OSError` when the process has no thread or descriptor left.
fn runtime(py: Python<'_>) -> PyResult<Handle> {
    if let Some(built) = &*lock(&RUNTIME)
        && built.generation == Generation::now()
    {
        return Ok(built.runtime.handle().clone());
    }
    Generation::count_forks(py)?;
    let at_exit = pyo3::wrap_pyfunction!(shut_down, py)?;
    py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (at_exit,))?;
    let runtime =
        Builder::new_multi_thread().worker_threads(workers()).thread_name("toolrelay").enable_all().build()?;
    let handle = runtime.handle().clone();
    let former = lock(&RUNTIME).replace(Built { generation: Generation::now(), runtime });
    mem::forget(former);
    Ok(handle)
}

/// One worker where the machine has up to three cores: a second one costs 0.3 to 1 us of CPU per await, as much as it does itself, in
/// waking each other. On a bigger machine as much as one process can feed: what it does in Python stays on one core.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores / 2).clamp(1, 4)
}

/// Whether the runtime is being ended at exit.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Ends the runtime at exit, with its tasks. A task that does not let itself be dropped is left behind after the time limit.
#[pyfunction]
fn shut_down(py: Python<'_>) {
    let taken = lock(&RUNTIME).take();
    let Some(built) = taken else { return };
    if built.generation == Generation::now() {
        ENDING.store(true, Ordering::Relaxed);
        py.detach(|| built.runtime.shutdown_timeout(SHUTDOWN_LIMIT));
        ENDING.store(false, Ordering::Relaxed);
    } else {
        mem::forget(built);
    }
}

/// Which process this is, by the forks that led to it: what a parent made is not for its child. Cheaper to ask for than the process id.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Generation(u32);

impl Generation {
    fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    fn count_forks(py: Python<'_>) -> PyResult<()> {
        if COUNTING.is_completed() {
            return Ok(());
        }
        let hook = [("after_in_child", pyo3::wrap_pyfunction!(forked, py)?)];
        py.import(intern!(py, "os"))?.call_method(
            intern!(py, "register_at_fork"),
            (),
            Some(&hook.into_py_dict(py)?),
        )?;
        COUNTING.call_once(|| {});
        Ok(())
    }
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A panic as an ordinary exception.
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    PyRuntimeError::new_err(format!("toolrelay panicked, please report this: {}", text.unwrap_or("no message")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Built {
    generation: Generation,
    runtime: Runtime,
}

/// Locked only with the GIL held and never over a call into Python: a fork, which holds the GIL, never finds it taken.
static RUNTIME: Mutex<Option<Built>> = Mutex::new(None);
static FORKS: AtomicU32 = AtomicU32::new(0);
static COUNTING: Once = Once::new();

const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
