//! `Reply`: how a task on the loop tells its run the end.

use std::sync::{Arc, Weak};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use serde::Deserialize;
use toolrelay_core::answer::Answer;
use toolrelay_core::json::Json;
use toolrelay_core::reply::{Reply as ModelReply, Stop};
use toolrelay_core::run::io::{ModelFailure, Park};
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_runtime::host::{AskEnd, ToolEnd};

use super::{Objects, Work, lock};
use crate::speech::{Part, Speech};
use crate::stores::{self, Kept, Raised};
use crate::{convert, errors};

/// The end of one thing that the loop did for a run.
pub(crate) enum End {
    /// Of a tool call.
    Tool(ToolEnd),
    /// Of asking the host inline.
    Ask(AskEnd),
    /// Of a call of the in-process model.
    Model(Result<ModelReply, ModelFailure>),
    /// Of using the host's own store.
    Store(Result<Box<Kept>, Raised>),
}

/// Tells a run the end, once. Dropped unused, it says that the task was given up.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Reply {
    work: Arc<Work>,
    /// Not held: an exception that is kept there has a traceback, whose frames have this reply.
    objects: Weak<Objects>,
}

impl Reply {
    pub(super) fn new(work: Arc<Work>, objects: &Arc<Objects>) -> Self {
        Self { work, objects: Arc::downgrade(objects) }
    }

    /// Keeps an exception of the host's code for the caller of the run: the first one.
    fn keep_failure(&self, error: &Bound<'_, PyAny>) {
        if let Some(objects) = self.objects.upgrade() {
            lock(&objects.failure).get_or_insert_with(|| PyErr::from_value(error.clone()));
        }
    }

    fn tell(&self, end: End) {
        lock(&self.work.task).take();
        if let Some(sender) = lock(&self.work.sender).take() {
            // A run that has ended does not listen any more.
            let _ = sender.send(end);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[pymethods]
impl Reply {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While its run waits for the task, the task is reachable.
        if Arc::strong_count(&self.work) > 1 {
            return Ok(());
        }
        let Ok(task) = self.work.task.try_lock() else { return Ok(()) };
        visit.call(&*task)
    }

    /// The task ends without more to say: it was cancelled, or what it raised is not for the run.
    fn give_up(&self) {
        lock(&self.work.task).take();
        lock(&self.work.sender).take();
    }

    /// The tool gave a result; `parts` is a JSON list.
    fn finish(&self, py: Python<'_>, text: String, parts: Option<&str>, is_error: bool) -> PyResult<()> {
        let parts = parts.map(Json::parse).transpose();
        let parts = parts.map_err(|error| errors::raise(py, "PayloadError", &format!("parts: {error}")))?;
        let outcome = if is_error { Outcome::Error } else { Outcome::Ok };
        self.tell(End::Tool(ToolEnd::Finished(ToolOutput { text, parts, outcome })));
        Ok(())
    }

    /// The tool parked itself.
    fn park(&self, py: Python<'_>, parked: &[u8]) -> PyResult<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            kind: String,
            prompt: String,
            url: Option<String>,
            data: Option<Json>,
            expires_at: Option<String>,
        }
        let shape: Shape = convert::read(py, "the parked request", parked)?;
        let Shape { kind, prompt, url, data, expires_at } = shape;
        self.tell(End::Tool(ToolEnd::Parked(Park { kind, prompt, url, data, expires_at })));
        Ok(())
    }

    /// The host answered inline.
    fn answer(&self, py: Python<'_>, answer: &[u8]) -> PyResult<()> {
        let answer: Answer = convert::read(py, "the answer", answer)?;
        self.tell(End::Ask(AskEnd::Answered(answer)));
        Ok(())
    }

    /// The host cannot answer inline.
    fn not_here(&self) {
        self.tell(End::Ask(AskEnd::NotHere));
    }

    /// The host's `wait_for` raised.
    fn ask_failed(&self, error: &Bound<'_, PyAny>) {
        self.keep_failure(error);
        self.tell(End::Ask(AskEnd::Failed));
    }

    /// The in-process model replied.
    fn model(&self, py: Python<'_>, reply: &[u8]) -> PyResult<()> {
        let Part { text, calls, finish_reason, usage, model } = convert::read(py, "the model's reply", reply)?;
        let stop = finish_reason.unwrap_or(if calls.is_empty() { Stop::End } else { Stop::Calls });
        let usage = usage.unwrap_or_default();
        let reply = ModelReply { text, calls, reasoned: false, stop, usage, model, provider: None };
        self.tell(End::Model(Ok(reply)));
        Ok(())
    }

    /// The in-process model has said all of its reply.
    fn spoken(&self, py: Python<'_>, speech: &Bound<'_, Speech>) -> PyResult<()> {
        let reply = speech.get().end().map_err(|failure| errors::raise(py, "PayloadError", &failure.to_string()))?;
        self.tell(End::Model(Ok(reply)));
        Ok(())
    }

    /// The in-process model raised, or replied what is no reply; `text` says so.
    fn model_failed(&self, error: &Bound<'_, PyAny>, message: String, speech: &Bound<'_, Speech>) {
        self.keep_failure(error);
        let partial_text = speech.get().partial_text();
        self.tell(End::Model(Err(ModelFailure::InProcess { message, partial_text })));
    }

    /// A method of the host's own store gave this.
    fn kept(&self, method: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let kept = stores::read(method, given)?;
        if let Some(objects) = self.objects.upgrade() {
            objects.take_store_failure();
        }
        self.tell(End::Store(Ok(Box::new(kept))));
        Ok(())
    }

    /// A method of the host's own store raised, or gave what cannot be read.
    fn store_failed(&self, error: &Bound<'_, PyAny>) {
        let raised = Raised::of(error);
        if let Some(objects) = self.objects.upgrade() {
            lock(&objects.store_failure).replace(PyErr::from_value(error.clone()));
        }
        self.tell(End::Store(Err(raised)));
    }
}
