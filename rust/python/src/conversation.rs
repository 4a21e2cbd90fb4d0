//! `Conversation`: a stored conversation as it stands, for Python to look at.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use toolrelay_runtime::conversation::{ConversationError, Known};
use toolrelay_runtime::store::State;

use crate::transcript::PyTranscript;
use crate::{convert, errors};

/// A stored conversation as it stands.
#[pyclass(name = "Conversation", module = "toolrelay", frozen)]
pub(crate) struct PyConversation {
    id: String,
    known: Known,
}

impl PyConversation {
    pub(crate) fn new(id: String, known: Known) -> Self {
        Self { id, known }
    }
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

    fn __repr__(&self) -> String {
        format!("<Conversation {:?} {}: {} messages>", self.id, self.state(), self.known.transcript.len())
    }
}

/// The error of looking at a conversation, turned into Python on the loop's thread.
pub(crate) struct ConversationFailure(pub(crate) ConversationError);

impl From<ConversationFailure> for PyErr {
    fn from(failure: ConversationFailure) -> Self {
        Python::attach(|py| errors::conversation_error(py, &failure.0))
    }
}
