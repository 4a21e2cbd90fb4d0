//! The callback by which a loop empties its port, and how it comes to be called.

use std::io;
use std::mem;
use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyNotImplementedError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::bell::Bell;
use super::port::Port;
use crate::once::{self, intern};

/// It lives as long as the loop wants it, and closes the port when it goes.
#[pyclass(frozen, module = "toolrelay._core", name = "_Drain")]
pub(super) struct Drain {
    port: Arc<Port>,
}

impl Drain {
    pub(super) fn new(port: Arc<Port>) -> Self {
        Self { port }
    }

    pub(super) fn port(&self) -> &Port {
        &self.port
    }
}

#[pymethods]
impl Drain {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        self.port.drain(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.port.traverse(&visit)
    }

    fn __clear__(&self) {
        self.port.close();
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if self.port.is_of_this_process() {
            self.port.close();
        } else {
            // In a forked child: another thread of the parent may have held the queue's lock, so it is never looked at again.
            mem::forget(Arc::clone(&self.port));
        }
    }
}

/// Has the loop call `drain` when a bell rings; `None` if this loop watches no descriptors.
pub(super) fn watch(event_loop: &Bound<'_, PyAny>, drain: &Bound<'_, Drain>) -> PyResult<Option<Bell>> {
    static CONTEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = event_loop.py();
    let bell = match Bell::new() {
        Ok(bell) => bell,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let watched = event_loop.getattr(intern!(py, "add_reader")).and_then(|add_reader| {
        // In an empty context: the loop would keep the context variables of whoever came first.
        let context = once::import(&CONTEXT, py, "contextvars", "Context")?.call0()?;
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
