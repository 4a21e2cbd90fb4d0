//! The stores that come with the package.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use toolrelay_runtime::store::{MemoryStore, SqliteStore, Store};

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
