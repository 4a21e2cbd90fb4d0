//! `Conversation`: a stored conversation as it stands, for Python to look at.

use std::sync::Arc;

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::conversation::{ConversationError, Known};
use toolrelay_runtime::store::State;

use crate::host::Objects;
use crate::transcript::PyTranscript;
use crate::{convert, errors};

/// A stored conversation as it stands.
#[pyclass(name = "Conversation", module = "toolrelay", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyConversation {
    id: String,
    known: Known,
}

#[pymethods]
impl PyConversation {
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn state(&self) -> &'static str {
        match self.known.state {
            State::Idle => "idle",
            State::Running => "running",
            State::Pending => "pending",
        }
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

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (&self.id, self.known.transcript.len()).into_pyobject(py)?.hash()
    }

    #[classmethod]
    fn _restore(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        id: String,
        state: &str,
        messages: Vec<u8>,
        suspensions: &[u8],
    ) -> PyResult<Self> {
        let state = match state {
            "running" => State::Running,
            "pending" => State::Pending,
            _ => State::Idle,
        };
        let transcript = Transcript::from_json(messages.into());
        let transcript = transcript.map_err(|error| errors::transcript_error(py, &error))?;
        let suspensions = convert::read(py, "the saved requests", suspensions)?;
        Ok(Self { id, known: Known { state, transcript, suspensions } })
    }

    #[expect(clippy::type_complexity, reason = "the shape of Python's protocol")]
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (String, &'static str, Bound<'py, PyBytes>, Bound<'py, PyBytes>))> {
        let (py, Self { id, known }) = (slf.py(), slf.get());
        let messages = PyBytes::new(py, &known.transcript.to_json());
        let suspensions = convert::write(py, &known.suspensions)?;
        Ok((slf.get_type().getattr("_restore")?, (id.clone(), slf.get().state(), messages, suspensions)))
    }

    fn __repr__(&self) -> String {
        format!("<Conversation {:?} {}: {} messages>", self.id, self.state(), self.known.transcript.len())
    }
}

/// What looking at a conversation came to, turned into Python on the loop's thread.
pub(crate) struct Looked {
    pub(crate) id: String,
    pub(crate) known: Result<Option<Known>, ConversationError>,
    pub(crate) objects: Arc<Objects>,
}

impl<'py> IntoPyObject<'py> for Looked {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Self { id, known, objects } = self;
        let known = known.map_err(|error| errors::conversation_error(py, &error, objects.take_store_failure()))?;
        known.map(|known| PyConversation { id, known }).into_bound_py_any(py)
    }
}
