//! The stores that come with the package, and the way to a store of the host's own.

mod native;
mod python;
mod values;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use toolrelay_runtime::store::{ForkHold, MemoryStore, SqliteStore, Store, hold_for_fork};

use crate::bridge::future_into_py;
use crate::errors;
use crate::host::PyHost;
use crate::once::intern;
use values::{GivenCursor, GivenOrder, GivenWrite};

pub(crate) use python::{Kept, PyStore, Raised, read};

/// Conversations in memory, for one process.
#[pyclass(name = "MemoryStore", module = "toolrelay", frozen)]
pub(crate) struct PyMemoryStore(Arc<MemoryStore>);

#[pymethods]
impl PyMemoryStore {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        hold_over_forks(py)?;
        Ok(Self(Arc::new(MemoryStore::new())))
    }

    #[pyo3(signature = (id, /))]
    fn load<'py>(&self, py: Python<'py>, id: String) -> PyResult<Bound<'py, PyAny>> {
        native::load(py, Arc::clone(&self.0) as Arc<dyn Store>, id)
    }

    #[pyo3(signature = (id, request_id, /))]
    fn request<'py>(&self, py: Python<'py>, id: String, request_id: String) -> PyResult<Bound<'py, PyAny>> {
        native::request(py, Arc::clone(&self.0) as Arc<dyn Store>, id, request_id)
    }

    #[pyo3(signature = (id, write, /))]
    fn commit<'py>(&self, py: Python<'py>, id: String, write: GivenWrite) -> PyResult<Bound<'py, PyAny>> {
        native::commit(py, Arc::clone(&self.0) as Arc<dyn Store>, id, write)
    }

    #[pyo3(signature = (id, expect, /))]
    fn delete<'py>(&self, py: Python<'py>, id: String, expect: u64) -> PyResult<Bound<'py, PyAny>> {
        native::delete(py, Arc::clone(&self.0) as Arc<dyn Store>, id, expect)
    }

    #[pyo3(signature = (after, limit, /))]
    fn leases<'py>(&self, py: Python<'py>, after: Option<GivenCursor>, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        native::leases(py, Arc::clone(&self.0) as Arc<dyn Store>, after, limit)
    }

    #[pyo3(signature = (order, after, limit, /))]
    fn open_requests<'py>(
        &self,
        py: Python<'py>,
        order: GivenOrder,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        native::open_requests(py, Arc::clone(&self.0) as Arc<dyn Store>, order, after, limit)
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
        let store = opened.map_err(|error| errors::store_error(py, &error, None))?;
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
            Ok::<_, PyErr>(native::Nothing)
        })
    }

    #[pyo3(signature = (id, /))]
    fn load<'py>(&self, py: Python<'py>, id: String) -> PyResult<Bound<'py, PyAny>> {
        native::load(py, Arc::clone(&self.0) as Arc<dyn Store>, id)
    }

    #[pyo3(signature = (id, request_id, /))]
    fn request<'py>(&self, py: Python<'py>, id: String, request_id: String) -> PyResult<Bound<'py, PyAny>> {
        native::request(py, Arc::clone(&self.0) as Arc<dyn Store>, id, request_id)
    }

    #[pyo3(signature = (id, write, /))]
    fn commit<'py>(&self, py: Python<'py>, id: String, write: GivenWrite) -> PyResult<Bound<'py, PyAny>> {
        native::commit(py, Arc::clone(&self.0) as Arc<dyn Store>, id, write)
    }

    #[pyo3(signature = (id, expect, /))]
    fn delete<'py>(&self, py: Python<'py>, id: String, expect: u64) -> PyResult<Bound<'py, PyAny>> {
        native::delete(py, Arc::clone(&self.0) as Arc<dyn Store>, id, expect)
    }

    #[pyo3(signature = (after, limit, /))]
    fn leases<'py>(&self, py: Python<'py>, after: Option<GivenCursor>, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        native::leases(py, Arc::clone(&self.0) as Arc<dyn Store>, after, limit)
    }

    #[pyo3(signature = (order, after, limit, /))]
    fn open_requests<'py>(
        &self,
        py: Python<'py>,
        order: GivenOrder,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        native::open_requests(py, Arc::clone(&self.0) as Arc<dyn Store>, order, after, limit)
    }

    fn __repr__(&self) -> String {
        format!("<SqliteStore {}>", self.0.path().display())
    }
}

/// Has Python hold all stores still around each of its forks; see [`hold_for_fork`].
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

/// A store as a client has it.
pub(crate) enum AnyStore {
    /// One of ours.
    Native(Arc<dyn Store>),
    /// The host's own.
    Own(Py<PyAny>),
}

impl AnyStore {
    pub(crate) fn of(store: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(memory) = store.cast::<PyMemoryStore>() {
            return Ok(Self::Native(Arc::clone(&memory.get().0) as Arc<dyn Store>));
        }
        if let Ok(sqlite) = store.cast::<PySqliteStore>() {
            return Ok(Self::Native(Arc::clone(&sqlite.get().0) as Arc<dyn Store>));
        }
        for method in ["load", "request", "commit", "delete", "leases", "open_requests"] {
            if !store.getattr(method).is_ok_and(|method| method.is_callable()) {
                let text = format!(
                    "store must have the methods of toolrelay.stores.Store, and {} has no {method}",
                    store.get_type().name()?
                );
                return Err(errors::raise(store.py(), "ConfigurationError", &text));
            }
        }
        Ok(Self::Own(store.clone().unbind()))
    }

    /// The host's own store, for the objects of a run.
    pub(crate) fn own(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self {
            Self::Native(_) => None,
            Self::Own(store) => Some(store.clone_ref(py)),
        }
    }

    /// The store for one run, whose objects hold the host's own.
    pub(crate) fn reached_by(&self, py: Python<'_>, host: &PyHost) -> PyResult<Arc<dyn Store>> {
        match self {
            Self::Native(store) => Ok(Arc::clone(store)),
            Self::Own(store) => Ok(Arc::new(PyStore::new(host.clone(), store.bind(py).get_type().name()?.to_string()))),
        }
    }
}
