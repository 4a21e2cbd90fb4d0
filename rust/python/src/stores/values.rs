//! The values of a store as the classes of `toolrelay.stores`, and back.

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use toolrelay_runtime::store::{Conversation, ConversationId, Cursor, Lease, Order, Slot, State, StoredRequest, Write};

use crate::once::once;

/// `StoredConversation`.
pub(super) fn conversation<'py>(py: Python<'py>, value: &Conversation) -> PyResult<Bound<'py, PyAny>> {
    let Conversation { version, written_at_ms, epoch, state, lease, messages, requests } = value;
    let lease = lease.as_ref().map(|lease| self::lease(py, lease)).transpose()?;
    let (messages, requests) = (rows(py, messages)?, self::requests(py, requests)?);
    let fields = (version, written_at_ms, epoch, state_name(*state), lease, messages, requests);
    class(py, "StoredConversation")?.call1(fields)
}

/// `StoredRequest`.
pub(super) fn request<'py>(py: Python<'py>, value: &StoredRequest) -> PyResult<Bound<'py, PyAny>> {
    let StoredRequest { id, slots, body, made_at_ms, expires_at_ms, settled, answers, outcome } = value;
    let slots = slots.iter().map(|slot| class(py, "Slot")?.call1((slot.seq, &slot.call)));
    let slots = PyTuple::new(py, slots.collect::<PyResult<Vec<_>>>()?)?;
    let answers = PyTuple::new(py, answers.iter().map(|answer| PyBytes::new(py, answer)))?;
    let outcome = outcome.as_ref().map(|outcome| PyBytes::new(py, outcome));
    let body = PyBytes::new(py, body);
    let fields = (id, slots, body, made_at_ms, expires_at_ms, settled, answers, outcome);
    class(py, "StoredRequest")?.call1(fields)
}

/// `Write`.
pub(super) fn write<'py>(py: Python<'py>, value: &Write) -> PyResult<Bound<'py, PyAny>> {
    let Write { expect, version, at_ms, state, epoch, lease, append, requests } = value;
    let lease = lease.as_ref().map(|lease| self::lease(py, lease)).transpose()?;
    let (append, requests) = (rows(py, append)?, self::requests(py, requests)?);
    let fields = (expect, version, at_ms, state_name(*state), epoch, lease, append, requests);
    class(py, "Write")?.call1(fields)
}

/// A `Cursor`, or none.
pub(crate) fn cursor<'py>(py: Python<'py>, value: Option<&Cursor>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let fields = |cursor: &Cursor| (cursor.at_ms, cursor.conversation.to_string(), cursor.request.clone());
    value.map(|cursor| class(py, "Cursor")?.call1(fields(cursor))).transpose()
}

/// Ids of conversations with their leases.
pub(super) fn leases<'py>(py: Python<'py>, leases: &[(ConversationId, Lease)]) -> PyResult<Bound<'py, PyAny>> {
    let pairs = leases.iter().map(|(id, lease)| Ok((id.as_str(), self::lease(py, lease)?)));
    Ok(PyTuple::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// Ids of conversations with their requests.
pub(super) fn open_requests<'py>(
    py: Python<'py>,
    open: &[(ConversationId, StoredRequest)],
) -> PyResult<Bound<'py, PyAny>> {
    let pairs = open.iter().map(|(id, request)| Ok((id.as_str(), self::request(py, request)?)));
    Ok(PyTuple::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// The name of an order.
pub(super) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Age => "age",
        Order::Expiry => "expiry",
    }
}

fn lease<'py>(py: Python<'py>, lease: &Lease) -> PyResult<Bound<'py, PyAny>> {
    class(py, "Lease")?.call1((&lease.owner, lease.epoch, lease.until_ms))
}

fn rows<'py>(py: Python<'py>, rows: &[(u64, Bytes)]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, rows.iter().map(|(seq, json)| (seq, PyBytes::new(py, json))))
}

fn requests<'py>(py: Python<'py>, requests: &[StoredRequest]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, requests.iter().map(|value| request(py, value)).collect::<PyResult<Vec<_>>>()?)
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static STORES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    once(&STORES, py, || py.import("toolrelay.stores"))?.getattr(name)
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Running => "running",
        State::Pending => "pending",
    }
}

/// What a store of Python gave for a conversation.
#[derive(FromPyObject)]
pub(crate) struct GivenConversation {
    version: u64,
    written_at_ms: i64,
    epoch: u64,
    state: GivenState,
    lease: Option<GivenLease>,
    messages: Vec<(u64, GivenJson)>,
    requests: Vec<GivenRequest>,
}

/// What a store of Python gave for a request.
#[derive(FromPyObject)]
pub(crate) struct GivenRequest {
    id: String,
    slots: Vec<GivenSlot>,
    body: GivenJson,
    made_at_ms: i64,
    expires_at_ms: Option<i64>,
    settled: bool,
    answers: Vec<GivenJson>,
    outcome: Option<GivenJson>,
}

/// A write that a caller of a native store made.
#[derive(FromPyObject)]
pub(super) struct GivenWrite {
    expect: u64,
    version: u64,
    at_ms: i64,
    state: GivenState,
    epoch: u64,
    lease: Option<GivenLease>,
    append: Vec<(u64, GivenJson)>,
    requests: Vec<GivenRequest>,
}

/// A place in a listing that a caller of a native store gave.
#[derive(FromPyObject)]
pub(crate) struct GivenCursor {
    at_ms: i64,
    conversation: GivenId,
    request: String,
}

/// An id that a store of Python gave.
pub(crate) struct GivenId(ConversationId);

impl<'py> FromPyObject<'_, 'py> for GivenId {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let id = ConversationId::new(given.extract::<String>()?);
        id.map(Self).map_err(|invalid| PyValueError::new_err(invalid.to_string()))
    }
}

/// The order that a caller of a native store named.
pub(crate) struct GivenOrder(pub(crate) Order);

impl<'py> FromPyObject<'_, 'py> for GivenOrder {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<String>()?.as_str() {
            "age" => Ok(Self(Order::Age)),
            "expiry" => Ok(Self(Order::Expiry)),
            other => Err(PyValueError::new_err(format!("order must be age or expiry, not {other:?}"))),
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct GivenLease {
    owner: String,
    epoch: u64,
    until_ms: i64,
}

#[derive(FromPyObject)]
struct GivenSlot {
    seq: u64,
    call: String,
}

struct GivenState(State);

impl<'py> FromPyObject<'_, 'py> for GivenState {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<String>()?.as_str() {
            "idle" => Ok(Self(State::Idle)),
            "running" => Ok(Self(State::Running)),
            "pending" => Ok(Self(State::Pending)),
            other => Err(PyValueError::new_err(format!("state must be idle, running or pending, not {other:?}"))),
        }
    }
}

/// A copy, so that no Rust thread ever has a Python object to drop.
struct GivenJson(Bytes);

impl<'py> FromPyObject<'_, 'py> for GivenJson {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Bytes::copy_from_slice(&given.extract::<PyBackedBytes>()?)))
    }
}

impl From<GivenConversation> for Conversation {
    fn from(given: GivenConversation) -> Self {
        Self {
            version: given.version,
            written_at_ms: given.written_at_ms,
            epoch: given.epoch,
            state: given.state.0,
            lease: given.lease.map(Lease::from),
            messages: given.messages.into_iter().map(|(seq, json)| (seq, json.0)).collect(),
            requests: given.requests.into_iter().map(StoredRequest::from).collect(),
        }
    }
}

impl From<GivenRequest> for StoredRequest {
    fn from(given: GivenRequest) -> Self {
        Self {
            id: given.id,
            slots: given.slots.into_iter().map(|slot| Slot { seq: slot.seq, call: slot.call }).collect(),
            body: given.body.0,
            made_at_ms: given.made_at_ms,
            expires_at_ms: given.expires_at_ms,
            settled: given.settled,
            answers: given.answers.into_iter().map(|json| json.0).collect(),
            outcome: given.outcome.map(|json| json.0),
        }
    }
}

impl From<GivenWrite> for Write {
    fn from(given: GivenWrite) -> Self {
        Self {
            expect: given.expect,
            version: given.version,
            at_ms: given.at_ms,
            state: given.state.0,
            epoch: given.epoch,
            lease: given.lease.map(Lease::from),
            append: given.append.into_iter().map(|(seq, json)| (seq, json.0)).collect(),
            requests: given.requests.into_iter().map(StoredRequest::from).collect(),
        }
    }
}

impl From<GivenLease> for Lease {
    fn from(given: GivenLease) -> Self {
        Self { owner: given.owner, epoch: given.epoch, until_ms: given.until_ms }
    }
}

impl From<GivenCursor> for Cursor {
    fn from(given: GivenCursor) -> Self {
        Self { at_ms: given.at_ms, conversation: given.conversation.0, request: given.request }
    }
}

impl From<GivenId> for ConversationId {
    fn from(given: GivenId) -> Self {
        given.0
    }
}
