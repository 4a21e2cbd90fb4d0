//! What happens to stored conversations besides prompts and answers: awaitables for `NativeClient`.

use std::sync::Arc;

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::{ConversationError, Conversations, Known, Page, Waiting};
use toolrelay_runtime::store::{ConversationId, Cursor};

use crate::bridge::future_into_py;
use crate::conversation::PyConversation;
use crate::host::Objects;
use crate::stores::{GivenCursor, GivenOrder, cursor};
use crate::{convert, errors};

/// Conversations, as reached from the loop that calls.
pub(crate) struct Life {
    pub(crate) conversations: Conversations,
    /// Let go of on the loop's thread, behind the outcome.
    pub(crate) objects: Arc<Objects>,
}

impl Life {
    pub(crate) fn get(self, py: Python<'_>, id: String) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| {
            let known = conversations.get(&id).await?;
            Ok(known.map(|known| PyConversation { id, known }))
        })
    }

    pub(crate) fn cancel(self, py: Python<'_>, id: String) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| {
            let known = conversations.cancel(&id).await?;
            Ok(PyConversation { id, known })
        })
    }

    pub(crate) fn delete(self, py: Python<'_>, id: String) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| conversations.delete(&id).await)
    }

    pub(crate) fn fork(self, py: Python<'_>, id: String, new_id: String) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| {
            let known = conversations.fork(&id, &new_id).await?;
            Ok(PyConversation { id: new_id, known })
        })
    }

    pub(crate) fn restore(self, py: Python<'_>, id: String, messages: Transcript) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| {
            let known: Known = conversations.restore(&id, &messages).await?;
            Ok(PyConversation { id, known })
        })
    }

    pub(crate) fn expire(self, py: Python<'_>, id: String) -> PyResult<Bound<'_, PyAny>> {
        self.tell(py, async move |conversations| conversations.expire(&id).await)
    }

    pub(crate) fn due(
        self,
        py: Python<'_>,
        why: Due,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'_, PyAny>> {
        let after = after.map(Cursor::from);
        self.tell(py, async move |conversations| {
            let page = match why {
                Due::Expired => conversations.overdue(after.as_ref(), limit).await,
                Due::Abandoned => conversations.abandoned(after.as_ref(), limit).await,
                Due::Spent => conversations.spent(after.as_ref(), limit).await,
            };
            Ok(Listed(page?))
        })
    }

    pub(crate) fn waiting(
        self,
        py: Python<'_>,
        order: GivenOrder,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'_, PyAny>> {
        let after = after.map(Cursor::from);
        self.tell(py, async move |conversations| {
            Ok(Listed(conversations.waiting(order.0, after.as_ref(), limit).await?))
        })
    }

    fn tell<'py, T, F>(self, py: Python<'py>, work: impl FnOnce(Conversations) -> F) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Result<T, ConversationError>> + Send + 'static,
        T: for<'a> IntoPyObject<'a> + Send + 'static,
    {
        let Self { conversations, objects } = self;
        let work = work(conversations);
        tell(py, objects, async move { Ok(work.await?) })
    }
}

/// Why somebody has to look after a conversation.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// The time of one of its requests is over.
    Expired,
    /// Its worker's lease is over.
    Abandoned,
    /// It is a mark that nobody needs any more.
    Spent,
}

impl<'py> FromPyObject<'_, 'py> for Due {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<&str>()? {
            "expired" => Ok(Self::Expired),
            "abandoned" => Ok(Self::Abandoned),
            "spent" => Ok(Self::Spent),
            other => Err(PyValueError::new_err(format!("nothing is due because it is {other:?}"))),
        }
    }
}

/// Waits for work on a conversation. The objects are let go of behind its outcome.
pub(crate) fn tell<'py, T>(
    py: Python<'py>,
    objects: Arc<Objects>,
    work: impl Future<Output = Result<T, RunError>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    future_into_py(py, async move { Ok::<_, PyErr>(Told { outcome: work.await, objects }) })
}

/// What came of it, turned into Python on the loop's thread.
struct Told<T> {
    outcome: Result<T, RunError>,
    objects: Arc<Objects>,
}

impl<'py, T: IntoPyObject<'py>> IntoPyObject<'py> for Told<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Self { outcome, objects } = self;
        let value = outcome.map_err(|error| errors::run_error(py, &error, objects.take_store_failure()))?;
        value.into_bound_py_any(py)
    }
}

/// The entries of a page and the cursor behind them.
struct Listed<T>(Page<T>);

/// An entry of a page.
trait Entry {
    fn into_entry(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

impl Entry for ConversationId {
    fn into_entry(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        self.as_str().into_bound_py_any(py)
    }
}

impl Entry for Waiting {
    fn into_entry(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let request = convert::relay(py, "Request", &self.request)?;
        (self.conversation, request, self.made_at_ms).into_bound_py_any(py)
    }
}

impl<'py, T: Entry> IntoPyObject<'py> for Listed<T> {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let entries = self.0.entries.into_iter().map(|entry| entry.into_entry(py));
        let entries = PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?;
        (entries, cursor(py, self.0.next.as_ref())?).into_pyobject(py)
    }
}
