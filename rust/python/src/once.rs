//! Python objects that are looked up once. PyO3's own cells let the GIL go while they are filled, so that a fork can find one half
//! filled, and its child waits for ever. These are filled with the GIL held, which a fork needs too.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// What the cell holds, made by `make` if it is empty. Of several threads that make it at once the first fills the cell.
pub(crate) fn once<'py, T>(
    cell: &PyOnceLock<Py<T>>,
    py: Python<'py>,
    make: impl FnOnce() -> PyResult<Bound<'py, T>>,
) -> PyResult<Bound<'py, T>> {
    if let Some(known) = cell.get(py) {
        return Ok(known.bind(py).clone());
    }
    let value = make()?;
    let _ = cell.set(py, value.clone().unbind());
    Ok(value)
}

/// An attribute of a module that is imported now if it was not before.
pub(crate) fn import<'py>(
    cell: &PyOnceLock<Py<PyAny>>,
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    once(cell, py, || py.import(module)?.getattr(name))
}

/// As `pyo3::intern`.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static TEXT: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::types::PyString>> = pyo3::sync::PyOnceLock::new();
        $crate::once::text(&TEXT, $py, $text)
    }};
}
pub(crate) use intern;

/// The text of an `intern!`.
pub(crate) fn text<'py>(cell: &PyOnceLock<Py<PyString>>, py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    if let Some(known) = cell.get(py) {
        return known.bind(py).clone();
    }
    let made = PyString::intern(py, text);
    let _ = cell.set(py, made.clone().unbind());
    made
}
