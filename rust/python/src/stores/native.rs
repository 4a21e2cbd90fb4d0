//! The operations of a native store for Python: awaitables that give the classes of
//! `toolrelay.stores`. Each store is a class that extends this one.

use std::convert::Infallible;
use std::sync::Arc;

use pyo3::PyClass;
use pyo3::prelude::*;
use toolrelay_runtime::store::{
    Conversation, ConversationId, Cursor, InvalidConversationId, Lease, Store, StoreError, StoredRequest,
};

use super::values::{self, GivenCursor, GivenOrder, GivenWrite};
use crate::bridge::{future_into_py, wait_here};
use crate::errors;

/// What the stores of the package have in common.
#[pyclass(module = "toolrelay._core", frozen, subclass)]
pub(crate) struct NativeStore {
    store: Arc<dyn Store>,
    /// Says which one it is.
    shown: String,
}

impl NativeStore {
    /// An object of a class that extends this one.
    pub(super) fn under<C>(store: impl Store + 'static, shown: String, class: C) -> PyClassInitializer<C>
    where
        C: PyClass<BaseType = Self>,
    {
        PyClassInitializer::from(Self { store: Arc::new(store), shown }).add_subclass(class)
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}

#[pymethods]
impl NativeStore {
    #[pyo3(signature = (id, /))]
    fn load<'py>(&self, py: Python<'py>, id: String) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        future_into_py(py, on(id, async move |id| Ok(store.load(&id).await?.map(Loaded))))
    }

    #[pyo3(signature = (id, request_id, /))]
    fn request<'py>(&self, py: Python<'py>, id: String, request_id: String) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        future_into_py(py, on(id, async move |id| Ok(store.request(&id, &request_id).await?.map(Requested))))
    }

    #[pyo3(signature = (id, write, /))]
    fn commit<'py>(&self, py: Python<'py>, id: String, write: GivenWrite) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        future_into_py(py, on(id, async move |id| store.commit(&id, write.into()).await.map(|()| Nothing)))
    }

    #[pyo3(signature = (id, expect, /))]
    fn delete<'py>(&self, py: Python<'py>, id: String, expect: u64) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        future_into_py(py, on(id, async move |id| store.delete(&id, expect).await.map(|()| Nothing)))
    }

    #[pyo3(signature = (after, limit, /))]
    fn leases<'py>(&self, py: Python<'py>, after: Option<GivenCursor>, limit: usize) -> PyResult<Bound<'py, PyAny>> {
        let (store, after) = (self.store(), after.map(Cursor::from));
        future_into_py(py, async move { store.leases(after.as_ref(), limit).await.map(Leases).map_err(Unlisted) })
    }

    #[pyo3(signature = (order, after, limit, /))]
    fn open_requests<'py>(
        &self,
        py: Python<'py>,
        order: GivenOrder,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (store, after) = (self.store(), after.map(Cursor::from));
        let listing = async move { store.open_requests(order.0, after.as_ref(), limit).await };
        future_into_py(py, async move { listing.await.map(OpenRequests).map_err(Unlisted) })
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store();
        future_into_py(py, async move {
            store.close().await;
            Ok::<_, PyErr>(Nothing)
        })
    }

    fn close_sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store();
        wait_here(py, async move { store.close().await })
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.shown)
    }
}

/// Does something with a conversation; a failure names it.
async fn on<T, F>(id: String, work: impl FnOnce(ConversationId) -> F) -> Result<T, Failed>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let ended = match ConversationId::new(id.as_str()) {
        Ok(id) => work(id).await.map_err(Trouble::Store),
        Err(invalid) => Err(Trouble::Id(invalid)),
    };
    ended.map_err(|trouble| Failed { id, trouble })
}

/// `None`, for what gives nothing.
struct Nothing;

struct Loaded(Conversation);

struct Requested(StoredRequest);

struct Leases(Vec<(ConversationId, Lease)>);

struct OpenRequests(Vec<(ConversationId, StoredRequest)>);

/// Why there is no listing.
struct Unlisted(StoreError);

/// What went wrong with a conversation, turned into Python on the loop's thread.
struct Failed {
    id: String,
    trouble: Trouble,
}

enum Trouble {
    Id(InvalidConversationId),
    Store(StoreError),
}

impl<'py> IntoPyObject<'py> for Nothing {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(py.None().into_bound(py))
    }
}

impl<'py> IntoPyObject<'py> for Loaded {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        values::conversation(py, &self.0)
    }
}

impl<'py> IntoPyObject<'py> for Requested {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        values::request(py, &self.0)
    }
}

impl<'py> IntoPyObject<'py> for Leases {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        values::leases(py, &self.0)
    }
}

impl<'py> IntoPyObject<'py> for OpenRequests {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        values::open_requests(py, &self.0)
    }
}

impl From<Unlisted> for PyErr {
    fn from(unlisted: Unlisted) -> Self {
        Python::attach(|py| errors::store_error(py, &unlisted.0, None))
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        Python::attach(|py| {
            let error = match failed.trouble {
                Trouble::Id(invalid) => errors::raise(py, "StoreError", &invalid.to_string()),
                Trouble::Store(error) => errors::store_error(py, &error, None),
            };
            let named = error.value(py).setattr("conversation", failed.id);
            named.err().unwrap_or(error)
        })
    }
}
