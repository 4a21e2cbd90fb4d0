//! The stores that come with the package, and the way to a store of the host's own.

mod native;
mod python;
mod values;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use toolrelay_runtime::store::{
    ForkHold, MemoryStore, PostgresOptions, PostgresStore, RedisOptions, RedisStore, SqliteStore, Store, hold_for_fork,
};

use crate::errors;
use crate::host::PyHost;
use crate::once::intern;
pub(crate) use native::NativeStore;
pub(crate) use python::{Kept, PyStore, Raised, read};
pub(crate) use values::{GivenCursor, GivenOrder, cursor};

/// Conversations in memory, for one process.
#[pyclass(name = "MemoryStore", module = "toolrelay", frozen, extends = NativeStore)]
pub(crate) struct PyMemoryStore;

#[pymethods]
impl PyMemoryStore {
    #[new]
    fn new(py: Python<'_>) -> PyResult<PyClassInitializer<Self>> {
        hold_over_forks(py)?;
        Ok(NativeStore::under(MemoryStore::new(), "MemoryStore".to_owned(), Self))
    }
}

/// Conversations in one SQLite file.
#[pyclass(name = "SqliteStore", module = "toolrelay", frozen, extends = NativeStore)]
pub(crate) struct PySqliteStore {
    #[pyo3(get)]
    path: PathBuf,
}

#[pymethods]
impl PySqliteStore {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<PyClassInitializer<Self>> {
        hold_over_forks(py)?;
        let opened = py.detach(|| SqliteStore::open(path));
        let store = opened.map_err(|error| errors::store_error(py, &error, None))?;
        let path = store.path().to_owned();
        Ok(NativeStore::under(store, format!("SqliteStore {}", path.display()), Self { path }))
    }
}

/// Conversations in a PostgreSQL database.
#[pyclass(name = "PostgresStore", module = "toolrelay", frozen, extends = NativeStore)]
pub(crate) struct PyPostgresStore;

#[pymethods]
impl PyPostgresStore {
    #[new]
    #[pyo3(signature = (url, *, schema = None, connections = None))]
    fn new(
        py: Python<'_>,
        url: &str,
        schema: Option<String>,
        connections: Option<i64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let usual = PostgresOptions::default();
        let options = PostgresOptions {
            schema: schema.unwrap_or(usual.schema),
            connections: number_of(py, connections, usual.connections)?,
            patience: usual.patience,
        };
        let store = PostgresStore::open_with(url, options).map_err(|error| misconfigured(py, &error.to_string()))?;
        let shown = format!("PostgresStore: {}", store.name());
        Ok(NativeStore::under(store, shown, Self))
    }
}

/// Conversations in Redis.
#[pyclass(name = "RedisStore", module = "toolrelay", frozen, extends = NativeStore)]
pub(crate) struct PyRedisStore;

#[pymethods]
impl PyRedisStore {
    #[new]
    #[pyo3(signature = (url, *, prefix = None, connections = None))]
    fn new(
        py: Python<'_>,
        url: &str,
        prefix: Option<String>,
        connections: Option<i64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let usual = RedisOptions::default();
        let options = RedisOptions {
            prefix: prefix.unwrap_or(usual.prefix),
            connections: number_of(py, connections, usual.connections)?,
            patience: usual.patience,
        };
        let store = RedisStore::open_with(url, options).map_err(|error| misconfigured(py, &error.to_string()))?;
        let shown = format!("RedisStore: {}", store.name());
        Ok(NativeStore::under(store, shown, Self))
    }
}

fn number_of(py: Python<'_>, connections: Option<i64>, usual: u16) -> PyResult<u16> {
    let Some(given) = connections else { return Ok(usual) };
    let number = u16::try_from(given).ok().filter(|number| *number > 0);
    number.ok_or_else(|| misconfigured(py, &format!("connections must be from 1 to {}, not {given}", u16::MAX)))
}

fn misconfigured(py: Python<'_>, text: &str) -> PyErr {
    errors::raise(py, "ConfigurationError", text)
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
        if let Ok(native) = store.cast::<NativeStore>() {
            return Ok(Self::Native(native.get().store()));
        }
        for method in ["load", "request", "commit", "delete", "leases", "open_requests"] {
            if !store.getattr(method).is_ok_and(|method| method.is_callable()) {
                let text = format!(
                    "store must have the methods of toolrelay.stores.Store, and {} has no {method}",
                    store.get_type().name()?
                );
                return Err(misconfigured(store.py(), &text));
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
