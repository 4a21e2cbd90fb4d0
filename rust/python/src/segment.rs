//! `Segment`: one run under way. It goes on by itself; the caller waits for its end, or reads what
//! happens in it. Cancelling the caller's future, or letting go of the segment, asks the run to stop
//! and leave a valid transcript.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::watch::{Told, Watcher};

use crate::errors;
use crate::feed::Feed;
use crate::host::{Objects, PyHost};
use crate::result::RunResult;
use crate::underway::Underway;

/// A run under way.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Segment {
    /// What happens in it, if somebody reads that.
    feed: Option<Feed<Told>>,
    run: Underway<Ended>,
}

/// What came of a run, ready to be shown.
#[derive(Clone)]
struct Ended {
    outcome: Result<Arc<Report>, Arc<RunError>>,
    objects: Arc<Objects>,
    /// The stored conversation's id, if it is one's run.
    conversation: Option<String>,
}

impl Segment {
    pub(crate) fn start(client: Client, place: Place, start: Start, host: PyHost, is_watched: bool) -> Self {
        let port = Arc::clone(&host.port);
        let feed = is_watched.then(|| Feed::new(Arc::clone(&port)));
        let watcher = feed.clone().map(|feed| Arc::new(feed) as Arc<dyn Watcher>);
        let conversation = match &place {
            Place::Conversation(id) | Place::InTurn(id) => Some(id.clone()),
            Place::History(_) | Place::Once { .. } => None,
        };
        let run = Underway::begin(port, feed.as_ref(), |stop| async move {
            let outcome = client.run_watched(place, start, &host, &host.toolkit, stop, watcher).await;
            drop(client);
            let PyHost { objects, .. } = host;
            Ended { outcome: outcome.map(Arc::new).map_err(Arc::new), objects, conversation }
        });
        Self { feed, run }
    }
}

#[pymethods]
impl Segment {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.run.traverse(|ended| &ended.objects, &visit)
    }

    /// The caller's future: the result, or the exception. Cancelling it stops the run.
    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.run.future(py)
    }

    /// What happened since the last time, as a list, or a future of it where nothing did yet; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.feed.as_ref().map_or(Ok(None), |feed| feed.next(py))
    }

    /// Asks the run to stop. In a forked child it is the parent's.
    fn stop(&self) {
        self.run.stop();
    }

    /// The end of the run, for a caller who has stopped it, or read to its end. A forked child gets none: the run is its
    /// parent's.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.run.ended(py)
    }

    /// The tasks that an ended run gave up and that may not be done with their cleaning up; each is told once.
    fn given_up(&self) -> Vec<Py<PyAny>> {
        self.run.end(|ended| ended.objects.take_given_up()).unwrap_or_default()
    }
}

impl<'py> IntoPyObject<'py> for Ended {
    type Target = RunResult;
    type Output = Bound<'py, RunResult>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let report = self.outcome.map_err(|error| errors::run_error(py, &error, self.objects.take_store_failure()))?;
        warn(py, &report, self.conversation.as_deref())?;
        if let Outcome::Failed(failure) = &report.outcome {
            let cause = self.objects.take_failure();
            return Err(errors::failure(py, failure, &report, cause));
        }
        Bound::new(py, RunResult::new(report))
    }
}

/// What mending the history changed, told through Python's logging.
fn warn(py: Python<'_>, report: &Report, conversation: Option<&str>) -> PyResult<()> {
    if report.warnings.is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("toolrelay.history",))?;
    for warning in &report.warnings {
        match conversation {
            Some(id) => logger.call_method1("warning", ("conversation %r: %s", id, warning.to_string()))?,
            None => logger.call_method1("warning", ("%s", warning.to_string()))?,
        };
    }
    Ok(())
}
