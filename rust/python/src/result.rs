//! `RunResult` and what hangs on it: a run that has ended, for Python to look at.

mod record;
mod usage;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};
use serde::{Deserialize, Serialize};
use toolrelay_core::reply::Usage;
use toolrelay_core::request::Request;
use toolrelay_core::run::io::{Limit, Outcome};
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::Report;

use crate::convert;
use crate::once::once;
use crate::seal::PySealKeys;
use crate::transcript::PyTranscript;

pub(crate) use record::ToolCallRecord;
pub(crate) use usage::PyUsage;

/// A run that has ended.
#[pyclass(module = "toolrelay", frozen, eq)]
pub(crate) struct RunResult {
    report: Arc<Report>,
    messages: PyOnceLock<Py<PyTranscript>>,
    calls: PyOnceLock<Py<PyTuple>>,
    suspensions: PyOnceLock<Py<PyTuple>>,
}

/// What mending the history changed was told when the run ended; it is no part of the result.
impl PartialEq for RunResult {
    fn eq(&self, other: &Self) -> bool {
        let told = |report: &Report| Report { warnings: Vec::new(), ..report.clone() };
        Arc::ptr_eq(&self.report, &other.report) || told(&self.report) == told(&other.report)
    }
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
            // Neither reaches a caller: the one is raised, the other ends with `CancelledError`.
            Outcome::Failed(_) | Outcome::Cancelled => "ended",
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
        let make = || Bound::new(py, PyTranscript::from(self.report.transcript.clone()));
        once(&self.messages, py, make).map(Bound::unbind)
    }

    #[getter]
    fn tool_calls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = || {
            let records = self.report.transcript.call_records(self.report.first);
            PyTuple::new(py, records.into_iter().map(ToolCallRecord))
        };
        once(&self.calls, py, make)
    }

    #[getter]
    fn suspensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = || {
            let requests = self.report.suspensions.iter().map(|request| convert::relay(py, "Request", request));
            PyTuple::new(py, requests.collect::<PyResult<Vec<_>>>()?)
        };
        once(&self.suspensions, py, make)
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

    #[pyo3(signature = (keys, *, audience=None, expires_in=604_800.0))]
    fn seal(&self, keys: &Bound<'_, PySealKeys>, audience: Option<&str>, expires_in: Option<f64>) -> PyResult<String> {
        keys.get().seal(keys.py(), &self.report.transcript, audience, expires_in)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.status(), &self.report.text, self.report.turns).into_pyobject(py)?.hash()
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
        Ok((slf.get_type().getattr("_restore")?, (convert::write(slf.py(), &saved)?,)))
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

const REPR_CHARS: usize = 60;
