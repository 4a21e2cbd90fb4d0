//! The stores that come with the package.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use toolrelay_runtime::store::{ForkHold, MemoryStore, SqliteStore, Store, hold_for_fork};

use crate::bridge::future_into_py;
use crate::errors;

/// Conversations in memory, for one process.
#[pyclass(name = "MemoryStore", module = "toolrelay", frozen)]
pub(crate) struct PyMemoryStore(Arc<MemoryStore>);

#[pymethods]
impl PyMemoryStore {
    #[new]
    fn new() -> Self {
        Self(Arc::new(MemoryStore::new()))
    }
}

/// Conversations in one SQLite file.
#[pyclass(name = "SqliteStore", module = "toolrelay", frozen)]
pub(crate) struct PySqliteStore(Arc<SqliteStore>);

#[pymethods]
impl PySqliteStore {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        hold_over_forks(py)?;
        let opened = py.detach(|| SqliteStore::open(path));
        let store = opened.map_err(|error| errors::raise(py, errors::store_class(&error), &error.to_string()))?;
        Ok(Self(Arc::new(store)))
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = Arc::clone(&self.0);
        future_into_py(py, async move {
            store.close().await;
            Ok::<_, PyErr>(())
        })
    }

    fn __repr__(&self) -> String {
        format!("<SqliteStore {}>", self.0.path().display())
    }
}

/// Has Python close the files of all SQLite stores around each of its forks; see [`hold_for_fork`].
fn hold_over_forks(py: Python<'_>) -> PyResult<()> {
    if HOLDING.is_completed() {
        return Ok(());
    }
    let after = pyo3::wrap_pyfunction!(after_fork, py)?;
    let hooks = [
        ("before", pyo3::wrap_pyfunction!(before_fork, py)?),
        ("after_in_parent", after.clone()),
        ("after_in_child", after),
    ];
    let register = py.import(intern!(py, "os"))?.getattr(intern!(py, "register_at_fork"))?;
    register.call((), Some(&hooks.into_py_dict(py)?))?;
    HOLDING.call_once(|| {});
    Ok(())
}

/// Waits for commits in flight, which never need the interpreter.
#[pyfunction]
fn before_fork() {
    HELD.set(Some(hold_for_fork()));
}

#[pyfunction]
fn after_fork() {
    HELD.take();
}

static HOLDING: Once = Once::new();

thread_local! {
    /// Python calls all three hooks on the thread that forks.
    static HELD: Cell<Option<ForkHold>> = const { Cell::new(None) };
}

/// The store behind a Python object.
pub(crate) fn of(store: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Store>> {
    if let Ok(memory) = store.cast::<PyMemoryStore>() {
        return Ok(Arc::clone(&memory.get().0) as Arc<dyn Store>);
    }
    if let Ok(sqlite) = store.cast::<PySqliteStore>() {
        return Ok(Arc::clone(&sqlite.get().0) as Arc<dyn Store>);
    }
    Err(errors::raise(store.py(), "ConfigurationError", "store must be a MemoryStore or a SqliteStore"))
}
