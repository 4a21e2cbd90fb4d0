//! `Segment`: one run under way. It goes on by itself; the caller waits for its end, or reads what
//! happens in it. Cancelling the caller's future, or letting go of the segment, asks the run to stop
//! and leave a valid transcript.

use std::mem;
use std::sync::Arc;

use pyo3::prelude::*;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::watch::Watcher;

use crate::bridge::{Port, future_into_py};
use crate::errors;
use crate::feed::Feed;
use crate::host::{self, Objects, PyHost};
use crate::result::RunResult;

/// A run under way.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Segment {
    /// What happens in it, if somebody reads that.
    feed: Option<Feed>,
    ended: watch::Receiver<Option<Ended>>,
    /// Stops the run with the segment: a coroutine that is closed, not cancelled, lets go of both without a word.
    stop: Option<DropGuard>,
    port: Arc<Port>,
}

/// What came of a run, ready to be shown.
#[derive(Clone)]
struct Ended {
    outcome: Result<Arc<Report>, Arc<RunError>>,
    objects: Arc<Objects>,
}

impl Segment {
    pub(crate) fn start(client: Client, place: Place, start: Start, host: PyHost, is_watched: bool) -> Self {
        let (tell, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let port = Arc::clone(&host.port);
        port.at_close(host::abandon);
        let feed = is_watched.then(|| Feed::new(Arc::clone(&port)));
        let (run, watcher, ending) = (stop.clone(), feed.clone(), feed.as_ref().map(Feed::ending));
        port.spawn(async move {
            let watcher = watcher.map(|feed| Arc::new(feed) as Arc<dyn Watcher>);
            let outcome = client.run_watched(place, start, &host, &host.toolkit, run, watcher).await;
            drop(client);
            let PyHost { objects, .. } = host;
            let _ = tell.send(Some(Ended { outcome: outcome.map(Arc::new).map_err(Arc::new), objects }));
            // Whoever reads to the end finds the outcome there.
            drop(ending);
        });
        Self { feed, ended, stop: Some(stop.drop_guard()), port }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if !self.port.is_of_this_process() {
            // In a forked child the run is the parent's, and so are the locks of its token.
            mem::forget(self.stop.take());
        }
    }
}

/// Waits for the end. Dropped before, it stops the run.
async fn wait(mut ended: watch::Receiver<Option<Ended>>, guard: Option<DropGuard>) -> PyResult<Ended> {
    let known = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    if let Some(guard) = guard {
        guard.disarm();
    }
    known.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the run was given up"))
}

#[pymethods]
impl Segment {
    /// The caller's future: the result, or the exception. Cancelling it stops the run.
    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let guard = self.stop.as_ref().map(|stop| stop.token().clone().drop_guard());
        future_into_py(py, wait(self.ended.clone(), guard))
    }

    /// What happened since the last time, as a list, or a future of it where nothing did yet; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.feed.as_ref().map_or(Ok(None), |feed| feed.next(py))
    }

    /// Asks the run to stop. In a forked child it is the parent's.
    fn stop(&self) {
        if let Some(stop) = self.stop.as_ref().filter(|_| self.port.is_of_this_process()) {
            stop.token().cancel();
        }
    }

    /// The end of the run, for a caller who has stopped it, or read to its end. A forked child gets none: the run is its
    /// parent's.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.port.is_of_this_process() {
            return Ok(None);
        }
        future_into_py(py, wait(self.ended.clone(), None)).map(Some)
    }

    /// The tasks that an ended run gave up and that may not be done with their cleaning up; each is told once.
    fn given_up(&self) -> Vec<Py<PyAny>> {
        self.ended.borrow().as_ref().map_or_else(Vec::new, |ended| ended.objects.take_given_up())
    }
}

impl<'py> IntoPyObject<'py> for Ended {
    type Target = RunResult;
    type Output = Bound<'py, RunResult>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let report = self.outcome.map_err(|error| errors::run_error(py, &error, self.objects.take_store_failure()))?;
        warn(py, &report)?;
        if let Outcome::Failed(failure) = &report.outcome {
            let cause = self.objects.take_failure();
            return Err(errors::failure(py, failure, &report, cause));
        }
        Bound::new(py, RunResult::new(report))
    }
}

/// What mending the history changed, told through Python's logging.
fn warn(py: Python<'_>, report: &Report) -> PyResult<()> {
    if report.warnings.is_empty() {
        return Ok(());
    }
    let logger = py.import("logging")?.call_method1("getLogger", ("toolrelay.history",))?;
    for warning in &report.warnings {
        logger.call_method1("warning", ("%s", warning.to_string()))?;
    }
    Ok(())
}
