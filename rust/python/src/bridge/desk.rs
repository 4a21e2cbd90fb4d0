//! The loop's side of a port: its Python objects and the futures that wait for Rust. It never leaves the GIL.
//!
//! A Rust thread holds the number of a waiting future (`Ticket`), never the future: so it never has a Python object to drop.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::AbortHandle;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use slab::Slab;
use tokio::runtime::Handle;

use super::ENDING;
use super::port::Port;
use crate::once::intern;

/// A Rust future that the loop's thread wants done.
pub(super) type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The Python objects of a port, and what the loop's thread has not handed to the runtime yet.
pub(super) struct Desk {
    pub(super) event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    waiting: Slab<Py<Waiter>>,
    outbox: Vec<Errand>,
    /// Whether the runtime was woken since the loop last came by.
    sent: bool,
}

/// What is to be done after an errand was put on the desk.
pub(super) enum Put {
    /// Nothing: it was sent, or it lies among others for which the loop comes by anyway.
    Done,
    /// The loop has to come by once more.
    First,
}

impl Desk {
    pub(super) fn new(event_loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            event_loop: event_loop.clone().unbind(),
            create_future: event_loop.getattr(intern!(event_loop.py(), "create_future"))?.unbind(),
            waiting: Slab::new(),
            outbox: Vec::new(),
            sent: false,
        })
    }

    pub(super) fn create_future(&self, py: Python<'_>) -> Py<PyAny> {
        self.create_future.clone_ref(py)
    }

    pub(super) fn admit(&mut self, waiter: Py<Waiter>) -> usize {
        self.waiting.insert(waiter)
    }

    pub(super) fn redeem(&mut self, number: usize) -> Option<Py<Waiter>> {
        self.waiting.try_remove(number)
    }

    /// Waking the runtime costs as much as the rest of an await. So the first errand goes at once, and those that the same turn of the
    /// loop puts behind it go together.
    pub(super) fn put(&mut self, errand: Errand, runtime: &Handle) -> Put {
        if !self.sent {
            self.sent = true;
            runtime.spawn(errand);
            return Put::Done;
        }
        self.outbox.push(errand);
        if self.outbox.len() == 1 {
            return Put::First;
        }
        if self.outbox.len() >= LETTERS {
            self.send(runtime);
        }
        Put::Done
    }

    /// The loop came by: everything goes, and the next errand may go at once again.
    pub(super) fn clear(&mut self, runtime: &Handle) {
        self.send(runtime);
        self.sent = false;
    }

    fn send(&mut self, runtime: &Handle) {
        let errands = std::mem::take(&mut self.outbox);
        if !errands.is_empty() {
            runtime.spawn(async move {
                for errand in errands {
                    tokio::spawn(errand);
                }
            });
        }
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        visit.call(&self.create_future)?;
        self.waiting.iter().try_for_each(|(_, waiter)| visit.call(waiter))
    }

    /// Drops the Rust futures that nobody waits for any more.
    pub(super) fn give_up(self) {
        for (_, waiter) in &self.waiting {
            waiter.get().errand.abort();
        }
    }
}

/// A future of the loop and the Rust future that is to settle it; as a callback of the former it drops the latter.
#[pyclass(frozen, module = "toolrelay._core", name = "_Waiter")]
pub(super) struct Waiter {
    future: Py<PyAny>,
    errand: AbortHandle,
}

#[pymethods]
impl Waiter {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.errand.abort();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.future)
    }
}

impl Waiter {
    /// Waits from now on: when `future` is done by somebody else, `errand` is dropped.
    pub(super) fn new<'py>(future: &Bound<'py, PyAny>, errand: AbortHandle) -> PyResult<Bound<'py, Self>> {
        let waiter = Bound::new(future.py(), Self { future: future.clone().unbind(), errand })?;
        future.call_method1(intern!(future.py(), "add_done_callback"), (&waiter,))?;
        Ok(waiter)
    }

    fn settle<'py>(waiter: &Bound<'py, Self>, outcome: PyResult<Bound<'py, PyAny>>) -> PyResult<()> {
        let py = waiter.py();
        let future = waiter.get().future.bind(py);
        // The loop would call it for nothing, which costs more than to take it off.
        future.call_method1(intern!(py, "remove_done_callback"), (waiter,))?;
        let settled = match outcome {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)),
        };
        match settled {
            Ok(_) => Ok(()),
            Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
            Err(_) if is_done(future)? => Ok(()),
            // An exception that a future refuses to carry, such as `StopIteration`.
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)).map(drop),
        }
    }
}

fn is_done(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    future.call_method0(intern!(future.py(), "done"))?.is_truthy()
}

/// The right to settle one future. Dropped unused, it says that the Rust future was given up.
pub(crate) struct Ticket {
    /// `None` once used.
    port: Option<Arc<Port>>,
    number: usize,
}

impl Ticket {
    pub(super) fn new(port: Arc<Port>, number: usize) -> Self {
        Self { port: Some(port), number }
    }

    /// Settles the future with what `outcome` makes on the loop's side. A waiter that is gone is skipped.
    pub(crate) fn settle<O>(mut self, outcome: O)
    where
        O: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    {
        self.hand_in(move |waiter| Waiter::settle(waiter, outcome(waiter.py())));
    }

    fn hand_in<S>(&mut self, settle: S)
    where
        S: FnOnce(&Bound<'_, Waiter>) -> PyResult<()> + Send + 'static,
    {
        let (Some(port), number) = (self.port.take(), self.number) else { return };
        if ENDING.load(Ordering::Relaxed) {
            // Only a daemon thread still waits, and it ends with the process.
            return;
        }
        let postman = Arc::clone(&port);
        postman.post(move |py| port.redeem(number).map_or(Ok(()), |waiter| settle(waiter.bind(py))));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.hand_in(|waiter| {
            if is_done(waiter.get().future.bind(waiter.py()))? {
                return Ok(());
            }
            Waiter::settle(waiter, Err(PyRuntimeError::new_err("the runtime was shut down")))
        });
    }
}

/// How many errands the loop's thread collects before it wakes the runtime for them.
const LETTERS: usize = 32;
