//! The three operations of a native store for Python: awaitables that give the classes of
//! `toolrelay.stores`.

use std::sync::Arc;

use pyo3::prelude::*;
use toolrelay_runtime::store::{Conversation, ConversationId, InvalidConversationId, Store, StoreError, StoredRequest};

use super::values::{self, GivenWrite};
use crate::bridge::future_into_py;
use crate::errors;

pub(super) fn load(py: Python<'_>, store: Arc<dyn Store>, id: String) -> PyResult<Bound<'_, PyAny>> {
    future_into_py(py, on(id, async move |id| Ok(store.load(&id).await?.map(Loaded))))
}

pub(super) fn request(
    py: Python<'_>,
    store: Arc<dyn Store>,
    id: String,
    request_id: String,
) -> PyResult<Bound<'_, PyAny>> {
    future_into_py(py, on(id, async move |id| Ok(store.request(&id, &request_id).await?.map(Requested))))
}

pub(super) fn commit(
    py: Python<'_>,
    store: Arc<dyn Store>,
    id: String,
    write: GivenWrite,
) -> PyResult<Bound<'_, PyAny>> {
    future_into_py(py, on(id, async move |id| store.commit(&id, write.into()).await))
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

struct Loaded(Conversation);

struct Requested(StoredRequest);

/// What went wrong with a conversation, turned into Python on the loop's thread.
struct Failed {
    id: String,
    trouble: Trouble,
}

enum Trouble {
    Id(InvalidConversationId),
    Store(StoreError),
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
