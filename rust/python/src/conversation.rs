//! `Conversation`: a stored conversation as it stands, for Python to look at.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::conversation::Known;
use toolrelay_runtime::store::{Lease, State};

use crate::transcript::PyTranscript;
use crate::{convert, errors, once};

/// A stored conversation as it stands.
#[pyclass(name = "Conversation", module = "toolrelay", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyConversation {
    pub(crate) id: String,
    pub(crate) known: Known,
}

#[pymethods]
impl PyConversation {
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.known.state.as_str()
    }

    #[getter]
    fn messages(&self) -> PyTranscript {
        PyTranscript::from(self.known.transcript.clone())
    }

    #[getter]
    fn suspensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let requests = self.known.suspensions.iter().map(|request| convert::relay(py, "Request", request));
        PyTuple::new(py, requests.collect::<PyResult<Vec<_>>>()?)
    }

    #[getter]
    fn version(&self) -> u64 {
        self.known.version
    }

    #[getter]
    fn written_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        instant(py, self.known.written_at_ms)
    }

    #[getter]
    fn worker(&self) -> Option<&str> {
        // A run that was left to others has a lease that nobody owns.
        self.known.lease.as_ref().map(|lease| lease.owner.as_str()).filter(|owner| !owner.is_empty())
    }

    #[getter]
    fn lease_until<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.lease.as_ref().map(|lease| instant(py, lease.until_ms)).transpose()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (&self.id, self.known.transcript.len()).into_pyobject(py)?.hash()
    }

    #[classmethod]
    fn _restore(_class: &Bound<'_, PyType>, py: Python<'_>, kept: Kept) -> PyResult<Self> {
        let (id, state, messages, suspensions, version, written_at_ms, lease) = kept;
        let state = match state.as_str() {
            "running" => State::Running,
            "pending" => State::Pending,
            _ => State::Idle,
        };
        let transcript = Transcript::from_json(messages.into());
        let transcript = transcript.map_err(|error| errors::transcript_error(py, &error))?;
        let suspensions = convert::read(py, "the saved requests", &suspensions)?;
        let lease = lease.map(|(owner, epoch, until_ms)| Lease { owner, epoch, until_ms });
        Ok(Self { id, known: Known { state, transcript, suspensions, version, written_at_ms, lease } })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyTuple>,))> {
        let (py, Self { id, known }) = (slf.py(), slf.get());
        let messages = PyBytes::new(py, &known.transcript.to_json());
        let suspensions = convert::write(py, &known.suspensions)?;
        let lease = known.lease.as_ref().map(|lease| (&lease.owner, lease.epoch, lease.until_ms));
        let kept = (id, slf.get().state(), messages, suspensions, known.version, known.written_at_ms, lease);
        Ok((slf.get_type().getattr("_restore")?, (kept.into_pyobject(py)?,)))
    }

    fn __repr__(&self) -> String {
        format!("<Conversation {:?} {}: {} messages>", self.id, self.state(), self.known.transcript.len())
    }
}

/// What a pickle holds.
type Kept = (String, String, Vec<u8>, Vec<u8>, u64, i64, Option<(String, u64, i64)>);

/// A `datetime` in UTC.
pub(crate) fn instant(py: Python<'_>, ms: i64) -> PyResult<Bound<'_, PyAny>> {
    static INSTANT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once::import(&INSTANT, py, "toolrelay.conversations", "instant")?.call1((ms,))
}
