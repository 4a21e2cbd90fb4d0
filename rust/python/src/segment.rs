//! `Segment`: one run under way. It goes on by itself; the caller's future waits for it, and
//! cancelling that future, or letting go of the segment, asks the run to stop and leave a valid
//! transcript.

use std::mem;
use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};

use crate::bridge::{Port, future_into_py};
use crate::errors;
use crate::host::{self, Objects, PyHost};
use crate::result::RunResult;

/// A run under way.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Segment {
    future: Py<PyAny>,
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
    pub(crate) fn start(py: Python<'_>, client: Client, place: Place, start: Start, host: PyHost) -> PyResult<Self> {
        let (tell, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let port = Arc::clone(&host.port);
        port.at_close(host::abandon);
        let run = stop.clone();
        port.spawn(async move {
            let outcome = client.run(place, start, &host, &host.toolkit, run).await;
            drop(client);
            let PyHost { objects, .. } = host;
            let _ = tell.send(Some(Ended { outcome: outcome.map(Arc::new).map_err(Arc::new), objects }));
        });
        let future = future_into_py(py, wait(ended.clone(), Some(guard)))?.unbind();
        Ok(Self { future, ended, stop: Some(stop.drop_guard()), port })
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
    /// The caller's future: the result, or the exception.
    #[getter]
    fn future(&self, py: Python<'_>) -> Py<PyAny> {
        self.future.clone_ref(py)
    }

    /// The end of the run once more, for a caller whose future was cancelled. A forked child gets none: the run is its
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

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.future)
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
