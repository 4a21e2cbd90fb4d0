//! One interpreter per process: what this module keeps in static memory belongs to the one that imported it first.

use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Claims the module for the running interpreter.
///
/// # Errors
/// `ImportError` in any other interpreter of the process.
pub(crate) fn claim(py: Python<'_>) -> PyResult<()> {
    let interpreter = number(py);
    match OWNER.compare_exchange(NOBODY, interpreter, Ordering::SeqCst, Ordering::SeqCst) {
        Err(owner) if owner != interpreter => Err(PyImportError::new_err(
            "toolrelay works in one interpreter of a process, not in subinterpreters: run it in the main interpreter",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[allow(unsafe_code, reason = "Python has no other way to tell interpreters apart in every version")]
fn number(_py: Python<'_>) -> i64 {
    // SAFETY: the token proves that this thread is attached to an interpreter, so there is a current one, which lives as long.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) }
}

static OWNER: AtomicI64 = AtomicI64::new(NOBODY);

const NOBODY: i64 = -1;
