//! `RunResult` and what hangs on it: a run that has ended, for Python to look at.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};
use serde::{Deserialize, Serialize};
use toolrelay_core::reply::Usage;
use toolrelay_core::request::Request;
use toolrelay_core::run::CallRecord;
use toolrelay_core::run::io::{Limit, Outcome};
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::Report;

use crate::convert;
use crate::transcript::PyTranscript;

/// A run that has ended.
#[pyclass(module = "toolrelay", frozen)]
pub(crate) struct RunResult {
    report: Arc<Report>,
    messages: PyOnceLock<Py<PyTranscript>>,
    calls: PyOnceLock<Py<PyTuple>>,
    suspensions: PyOnceLock<Py<PyTuple>>,
}

impl RunResult {
    pub(crate) fn new(report: Arc<Report>) -> Self {
        Self { report, messages: PyOnceLock::new(), calls: PyOnceLock::new(), suspensions: PyOnceLock::new() }
    }
}

#[pymethods]
impl RunResult {
    #[getter]
    fn text(&self) -> &str {
        &self.report.text
    }

    #[getter]
    fn status(&self) -> &'static str {
        match self.report.outcome {
            Outcome::Finished => "done",
            Outcome::Suspended => "pending",
            Outcome::Exhausted(_) => "incomplete",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }

    #[getter]
    fn limit(&self) -> Option<&'static str> {
        match self.report.outcome {
            Outcome::Exhausted(Limit::MaxTurns) => Some("max_turns"),
            Outcome::Exhausted(Limit::Timeout) => Some("timeout"),
            Outcome::Finished | Outcome::Suspended | Outcome::Failed(_) | Outcome::Cancelled => None,
        }
    }

    #[getter]
    fn messages(&self, py: Python<'_>) -> PyResult<Py<PyTranscript>> {
        let make = || Py::new(py, PyTranscript::from(self.report.transcript.clone()));
        self.messages.get_or_try_init(py, make).map(|messages| messages.clone_ref(py))
    }

    #[getter]
    fn tool_calls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = || {
            let records = self.report.transcript.call_records(self.report.first);
            PyTuple::new(py, records.into_iter().map(ToolCallRecord)).map(Bound::unbind)
        };
        self.calls.get_or_try_init(py, make).map(|calls| calls.bind(py).clone())
    }

    #[getter]
    fn suspensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = || {
            let requests = self.report.suspensions.iter().map(|request| convert::relay(py, "Request", request));
            PyTuple::new(py, requests.collect::<PyResult<Vec<_>>>()?).map(Bound::unbind)
        };
        self.suspensions.get_or_try_init(py, make).map(|suspensions| suspensions.bind(py).clone())
    }

    #[getter]
    fn pending<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.suspensions(py)?.iter().next().map_or(Ok(None), |request| Ok(Some(request)))
    }

    #[getter]
    fn turns(&self) -> u32 {
        self.report.turns
    }

    #[getter]
    fn usage(&self) -> PyUsage {
        PyUsage(self.report.usage)
    }

    #[getter]
    fn model(&self) -> Option<&str> {
        self.report.model.as_deref()
    }

    #[getter]
    fn finish_reason(&self) -> Option<&str> {
        self.report.finish_reason.as_deref()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text: String = self.report.text.chars().take(REPR_CHARS).collect();
        let cut = if text.len() < self.report.text.len() { "…" } else { "" };
        let limit = self.limit().map(|limit| format!(" ({limit})")).unwrap_or_default();
        let waiting: Vec<String> = self.report.suspensions.iter().map(describe).collect();
        let waiting = if waiting.is_empty() { String::new() } else { format!(", waits for {}", waiting.join(" and ")) };
        let text = text.into_pyobject(py)?.repr()?;
        let turns = self.report.turns;
        Ok(format!("<RunResult {}{limit}: {text}{cut}, turns={turns}{waiting}>", self.status()))
    }

    #[classmethod]
    fn _restore(_class: &Bound<'_, PyType>, py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        let saved: Saved = convert::read(py, "the saved result", json)?;
        let transcript = Transcript::from_json(saved.messages.into_bytes().into());
        let transcript = transcript.map_err(|error| crate::errors::transcript_error(py, &error))?;
        Ok(Self::new(Arc::new(Report {
            outcome: saved.outcome,
            transcript,
            first: saved.first,
            text: saved.text,
            finish_reason: saved.finish_reason,
            model: saved.model,
            turns: saved.turns,
            usage: saved.usage,
            suspensions: saved.suspensions,
            warnings: Vec::new(),
        })))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let report = &slf.get().report;
        let saved = Saved {
            outcome: report.outcome.clone(),
            messages: String::from_utf8_lossy(&report.transcript.to_json()).into_owned(),
            first: report.first,
            text: report.text.clone(),
            finish_reason: report.finish_reason.clone(),
            model: report.model.clone(),
            turns: report.turns,
            usage: report.usage,
            suspensions: report.suspensions.clone(),
        };
        let json = serde_json::to_vec(&saved)
            .map_err(|error| crate::errors::raise(slf.py(), "PayloadError", &error.to_string()))?;
        Ok((slf.get_type().getattr("_restore")?, (PyBytes::new(slf.py(), &json),)))
    }
}

/// The pickled form.
#[derive(Serialize, Deserialize)]
struct Saved {
    outcome: Outcome,
    messages: String,
    first: usize,
    text: String,
    finish_reason: Option<String>,
    model: Option<String>,
    turns: u32,
    usage: Usage,
    suspensions: Vec<Request>,
}

fn describe(request: &Request) -> String {
    let names: Vec<String> = request.relay_calls().into_iter().map(|call| call.name).collect();
    let names = if names.is_empty() { String::new() } else { format!(" {}", names.join(", ")) };
    format!("{}{names} [{}]", request.kind, request.id)
}

/// One call of a run.
#[pyclass(module = "toolrelay", frozen)]
pub(crate) struct ToolCallRecord(CallRecord);

#[pymethods]
impl ToolCallRecord {
    #[getter]
    fn id(&self) -> &str {
        self.0.id.as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn input<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::loads(py, self.0.input.get().as_bytes())
    }

    #[getter]
    fn arguments(&self) -> &str {
        &self.0.arguments
    }

    #[getter]
    fn output(&self) -> &str {
        &self.0.output
    }

    #[getter]
    fn is_error(&self) -> bool {
        self.0.is_error
    }

    #[getter]
    fn pending(&self) -> bool {
        self.0.pending
    }

    fn __repr__(&self) -> String {
        let state = match (self.0.pending, self.0.is_error) {
            (true, _) => "pending",
            (false, true) => "error",
            (false, false) => "ok",
        };
        format!("<ToolCallRecord {} [{}]: {state}>", self.0.name, self.0.id)
    }
}

/// Tokens, as the provider counts them.
#[pyclass(name = "Usage", module = "toolrelay", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyUsage(Usage);

#[pymethods]
impl PyUsage {
    #[getter]
    fn input_tokens(&self) -> u64 {
        self.0.input_tokens
    }

    #[getter]
    fn output_tokens(&self) -> u64 {
        self.0.output_tokens
    }

    #[getter]
    fn cached_tokens(&self) -> u64 {
        self.0.cached_tokens
    }

    #[getter]
    fn cache_write_tokens(&self) -> u64 {
        self.0.cache_write_tokens
    }

    #[getter]
    fn reasoning_tokens(&self) -> u64 {
        self.0.reasoning_tokens
    }

    fn __repr__(&self) -> String {
        let Usage { input_tokens, output_tokens, cached_tokens, .. } = self.0;
        format!("<Usage: {input_tokens} in ({cached_tokens} cached), {output_tokens} out>")
    }
}

const REPR_CHARS: usize = 60;
