//! Between tokio and asyncio: the only code that knows both. It owns the runtime of the process and the way back from it.
//!
//! A Rust future becomes a future of asyncio (`future_into_py`); what a Rust thread has to say to Python it posts to the `Port` of a
//! loop. Rust threads never take the GIL for that. Nothing here decides anything.

mod bell;
mod port;
mod probe;

use std::any::Any;
use std::future::Future;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

pub(crate) use port::Port;
pub(crate) use probe::_bridge_probe;

/// A Rust future as a future of the running asyncio loop.
///
/// It runs from now on. Its outcome is turned into Python on the loop's thread. Cancelling the asyncio future drops it; a panic of it is a
/// `RuntimeError` there.
///
/// # Errors
/// `RuntimeError` when no loop runs in this thread.
pub(crate) fn future_into_py<'py, F, T, E>(py: Python<'py>, future: F) -> PyResult<Bound<'py, PyAny>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: for<'a> IntoPyObject<'a> + Send + 'static,
    E: Into<PyErr> + Send + 'static,
{
    let port = Port::of_running_loop(py)?;
    let waiter = port.create_future(py)?;
    let ticket = port.admit(&waiter)?;
    let number = ticket.number();
    let task = port.runtime.spawn(async move {
        let outcome = AssertUnwindSafe(future).catch_unwind().await;
        ticket.settle(move |py| match outcome {
            Ok(Ok(value)) => value.into_bound_py_any(py),
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => Err(panicked(&*panic)),
        });
    });
    port.assign(number, &waiter, task.abort_handle())?;
    Ok(waiter)
}

/// The tokio runtime of this process, built at first use.
///
/// A forked child has none of its parent's threads, so it gets a runtime of its own and never touches the parent's again.
///
/// # Errors
/// `OSError` when the process has no thread or descriptor left.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<Handle> {
    let process = std::process::id();
    // Locked only with the GIL held and never over a call into Python: a fork with the GIL never finds it taken.
    if let Some(of_process) = &*lock(&RUNTIME)
        && of_process.process == process
    {
        return Ok(of_process.runtime.handle().clone());
    }
    let farewell = pyo3::wrap_pyfunction!(shut_down, py)?;
    py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (farewell,))?;
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("toolrelay").enable_all().build()?;
    let handle = runtime.handle().clone();
    let former = lock(&RUNTIME).replace(OfProcess { process, runtime });
    mem::forget(former);
    Ok(handle)
}

/// Ends the runtime at exit, with its tasks. A task that does not let itself be dropped is left behind after the time limit.
#[pyfunction]
fn shut_down(py: Python<'_>) {
    let taken = lock(&RUNTIME).take();
    let Some(OfProcess { process, runtime }) = taken else {
        return;
    };
    if process == std::process::id() {
        py.detach(|| runtime.shutdown_timeout(SHUTDOWN_LIMIT));
    } else {
        mem::forget(runtime);
    }
}

/// A panic as an ordinary exception.
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    PyRuntimeError::new_err(format!("toolrelay panicked, please report this: {}", text.unwrap_or("no message")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct OfProcess {
    process: u32,
    runtime: Runtime,
}

static RUNTIME: Mutex<Option<OfProcess>> = Mutex::new(None);

const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
