//! A store of the host's own: its methods are called on the loop, as tasks with the caller's
//! context variables. What they raise is kept beside the run, as the cause of its error.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use toolrelay_runtime::store::{
    Conversation, ConversationId, Cursor, Lease, Order, Store, StoreError, StoredRequest, Write,
};

use super::values::{self, GivenConversation, GivenId, GivenLease, GivenRequest};
use crate::convert;
use crate::host::{End, PyHost};

/// The host's store, reached through the loop of one run.
pub(crate) struct PyStore {
    host: PyHost,
    /// The name of its class, for messages.
    name: String,
}

/// What a method of the store gave.
pub(crate) enum Kept {
    Conversation(Option<Conversation>),
    Request(Option<StoredRequest>),
    Done,
    Leases(Vec<(ConversationId, Lease)>),
    OpenRequests(Vec<(ConversationId, StoredRequest)>),
}

#[derive(Clone, Copy)]
enum Method {
    Load,
    Request,
    Commit,
    Delete,
    Leases,
    OpenRequests,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Request => "request",
            Self::Commit => "commit",
            Self::Delete => "delete",
            Self::Leases => "leases",
            Self::OpenRequests => "open_requests",
        }
    }
}

impl PyStore {
    pub(crate) fn new(host: PyHost, name: String) -> Self {
        Self { host, name }
    }

    async fn call<A>(&self, method: Method, arguments: A) -> Result<Kept, StoreError>
    where
        A: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send + 'static,
    {
        let name = method.name();
        let ended = self.host.pull("start_store", move |py, objects| {
            let store = objects.store.as_ref().map_or_else(|| py.None(), |store| store.clone_ref(py));
            Ok(vec![store.into_bound(py), PyString::new(py, name).into_any(), arguments(py)?.into_any()])
        });
        match ended.await {
            Some(End::Store(Ok(kept))) => Ok(*kept),
            Some(End::Store(Err(raised))) => Err(raised.into_error(&self.name, name)),
            Some(End::Tool(_) | End::Ask(_) | End::Model(_)) | None => Err(self.gone(method)),
        }
    }

    /// Calls a method that gives nothing back.
    async fn change<A>(&self, method: Method, expected: u64, arguments: A) -> Result<(), StoreError>
    where
        A: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send + 'static,
    {
        match self.call(method, arguments).await {
            Ok(_) => Ok(()),
            // The exception does not tell the version that was found.
            Err(StoreError::Conflict { .. }) => Err(StoreError::Conflict { expected, found: expected + 1 }),
            Err(error) => Err(error),
        }
    }

    fn gone(&self, method: Method) -> StoreError {
        let reason = format!("its {} was given up, or the event loop is closed", method.name());
        StoreError::Unavailable { store: self.name.clone(), reason }
    }
}

#[async_trait]
impl Store for PyStore {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let id = id.as_str().to_owned();
        match self.call(Method::Load, move |py| (id,).into_pyobject(py)).await? {
            Kept::Conversation(found) => Ok(found),
            Kept::Request(_) | Kept::Done | Kept::Leases(_) | Kept::OpenRequests(_) => Err(self.gone(Method::Load)),
        }
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        let (id, request) = (id.as_str().to_owned(), request.to_owned());
        match self.call(Method::Request, move |py| (id, request).into_pyobject(py)).await? {
            Kept::Request(found) => Ok(found),
            Kept::Conversation(_) | Kept::Done | Kept::Leases(_) | Kept::OpenRequests(_) => {
                Err(self.gone(Method::Request))
            }
        }
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        let (id, expected) = (id.as_str().to_owned(), write.expect);
        self.change(Method::Commit, expected, move |py| (id, values::write(py, &write)?).into_pyobject(py)).await
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        let id = id.as_str().to_owned();
        self.change(Method::Delete, expect, move |py| (id, expect).into_pyobject(py)).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        let after = after.cloned();
        let called =
            self.call(Method::Leases, move |py| (values::cursor(py, after.as_ref())?, limit).into_pyobject(py));
        match called.await? {
            Kept::Leases(found) => Ok(found),
            Kept::Conversation(_) | Kept::Request(_) | Kept::Done | Kept::OpenRequests(_) => {
                Err(self.gone(Method::Leases))
            }
        }
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        let (name, after) = (values::order_name(order), after.cloned());
        let called = self
            .call(Method::OpenRequests, move |py| (name, values::cursor(py, after.as_ref())?, limit).into_pyobject(py));
        match called.await? {
            Kept::OpenRequests(found) => Ok(found),
            Kept::Conversation(_) | Kept::Request(_) | Kept::Done | Kept::Leases(_) => {
                Err(self.gone(Method::OpenRequests))
            }
        }
    }
}

impl fmt::Debug for PyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyStore").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads what a method of the store gave.
pub(crate) fn read(method: &str, given: &Bound<'_, PyAny>) -> PyResult<Kept> {
    match method {
        "load" => Ok(Kept::Conversation(given.extract::<Option<GivenConversation>>()?.map(Conversation::from))),
        "request" => Ok(Kept::Request(given.extract::<Option<GivenRequest>>()?.map(StoredRequest::from))),
        "leases" => {
            let pairs: Vec<(GivenId, GivenLease)> = given.extract()?;
            Ok(Kept::Leases(pairs.into_iter().map(|(id, lease)| (id.into(), lease.into())).collect()))
        }
        "open_requests" => {
            let pairs: Vec<(GivenId, GivenRequest)> = given.extract()?;
            Ok(Kept::OpenRequests(pairs.into_iter().map(|(id, request)| (id.into(), request.into())).collect()))
        }
        _ => Ok(Kept::Done),
    }
}

/// What the host's store raised, by the class of `toolrelay.errors`; its text stays with the
/// exception, which may hold a part of a message.
pub(crate) struct Raised {
    class: Class,
    /// The name of the exception's own class.
    name: String,
}

enum Class {
    Conflict,
    Full,
    ReadOnly,
    Locked,
    NotAStore,
    Corrupt,
    Other,
}

impl Raised {
    pub(crate) fn of(error: &Bound<'_, PyAny>) -> Self {
        let py = error.py();
        let is =
            |class: &str| convert::error_class(py, class).is_ok_and(|class| error.is_instance(&class).unwrap_or(false));
        let classes = [
            ("StoreConflict", Class::Conflict),
            ("StoreFull", Class::Full),
            ("StoreReadOnly", Class::ReadOnly),
            ("StoreLocked", Class::Locked),
            ("StoreSchemaError", Class::NotAStore),
            ("StoreCorrupt", Class::Corrupt),
        ];
        let class = classes.into_iter().find(|(name, _)| is(name)).map_or(Class::Other, |(_, class)| class);
        let name = error.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        Self { class, name }
    }

    fn into_error(self, store: &str, method: &str) -> StoreError {
        let store = store.to_owned();
        let reason = format!("its {method} raised {}", self.name);
        match self.class {
            Class::Conflict => StoreError::Conflict { expected: 0, found: 0 },
            Class::Full => StoreError::Full { store },
            Class::ReadOnly => StoreError::ReadOnly { store },
            Class::Locked => StoreError::Locked { store, waited: Duration::ZERO },
            Class::NotAStore => StoreError::NotAStore { store },
            Class::Corrupt => StoreError::Corrupt { store, reason },
            Class::Other => StoreError::Unavailable { store, reason },
        }
    }
}
