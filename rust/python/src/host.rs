//! The Python program around a run. What the run wants done is left for the loop, which starts it
//! as an ordinary task; the end comes back through a [`Reply`].

mod reply;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use tokio::sync::oneshot;
use toolrelay_core::request::Request;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_runtime::host::{AskEnd, Host, ToolCall, ToolEnd};
use toolrelay_runtime::toolkit::Toolkit;

use crate::bridge::Port;
use crate::convert;
use crate::once::{intern, once};
use crate::toolkit::NativeToolkit;

pub(crate) use reply::{End, Reply};

/// The Python objects of one segment. The last reference is let go of on the loop's thread.
pub(crate) struct Objects {
    /// The caller's context variables.
    pub(crate) context: Py<PyAny>,
    /// Has the tools.
    pub(crate) toolkit: Option<Py<NativeToolkit>>,
    /// The host's `wait_for`.
    pub(crate) wait_for: Option<Py<PyAny>>,
    /// The host's in-process model.
    pub(crate) generate: Option<Py<PyAny>>,
    /// The host's own store.
    pub(crate) store: Option<Py<PyAny>>,
    /// The exception of the host's code that ended the run.
    pub(crate) failure: Mutex<Option<PyErr>>,
    /// Cancelled tasks that may not be done with their cleaning up.
    pub(crate) given_up: Mutex<Vec<Py<PyAny>>>,
    /// The exception that the last use of the host's own store ended with.
    pub(crate) store_failure: Mutex<Option<PyErr>>,
}

impl Objects {
    /// The exception of the host's code that ended the run.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        lock(&self.failure).take()
    }

    /// The tasks that were cancelled since the last time.
    pub(crate) fn take_given_up(&self) -> Vec<Py<PyAny>> {
        mem::take(&mut *lock(&self.given_up))
    }

    /// Shows what a run that has ended still holds to the collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context)?;
        visit.call(&self.toolkit)?;
        visit.call(&self.wait_for)?;
        visit.call(&self.generate)?;
        visit.call(&self.store)?;
        let Ok(given_up) = self.given_up.try_lock() else { return Ok(()) };
        given_up.iter().try_for_each(|task| visit.call(task))
    }

    /// The exception that the last use of the host's own store ended with.
    pub(crate) fn take_store_failure(&self) -> Option<PyErr> {
        lock(&self.store_failure).take()
    }
}

/// The way from a run to the loop of its caller.
#[derive(Clone)]
pub(crate) struct PyHost {
    pub(crate) port: Arc<Port>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) toolkit: Arc<Toolkit>,
}

/// One thing that the loop does for a run.
struct Work {
    sender: Mutex<Option<oneshot::Sender<End>>>,
    /// Touched only on the loop's thread.
    task: Mutex<Option<Py<PyAny>>>,
}

/// Work that waits for the loop. If the loop is closed before it comes by, the work has ended.
struct Unstarted(Option<Arc<Work>>);

impl Unstarted {
    fn start(mut self) -> Option<Arc<Work>> {
        self.0.take()
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            lock(&work.sender).take();
        }
    }
}

impl PyHost {
    /// Has the loop call `toolrelay._host.<starter>(context, *arguments, reply)`, which gives the
    /// task. Dropping the future cancels the task. `None`: the task ended without a reply.
    pub(crate) fn pull<A>(&self, starter: &'static str, arguments: A) -> BoxFuture<'static, Option<End>>
    where
        A: for<'py> FnOnce(Python<'py>, &Objects) -> PyResult<Vec<Bound<'py, PyAny>>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let work = Arc::new(Work { sender: Mutex::new(Some(sender)), task: Mutex::new(None) });
        let (segment, unstarted) = (Arc::clone(&self.objects), Unstarted(Some(Arc::clone(&work))));
        self.port.post(move |py| {
            let Some(begun) = unstarted.start() else { return Ok(()) };
            let reply = Reply::new(Arc::clone(&begun), &segment);
            let task = start(py, starter, &segment, arguments, reply);
            if task.is_err() {
                lock(&begun.sender).take();
            }
            task.map(|task| *lock(&begun.task) = Some(task))
        });
        let mut guard = Guard { port: Arc::clone(&self.port), objects: Arc::clone(&self.objects), work: Some(work) };
        Box::pin(async move {
            let end = receiver.await.ok();
            guard.forget();
            end
        })
    }
}

fn start<A>(py: Python<'_>, starter: &str, objects: &Objects, arguments: A, reply: Reply) -> PyResult<Py<PyAny>>
where
    A: for<'py> FnOnce(Python<'py>, &Objects) -> PyResult<Vec<Bound<'py, PyAny>>>,
{
    let module = module(py)?;
    let mut all = vec![objects.context.bind(py).clone()];
    all.extend(arguments(py, objects)?);
    all.push(Bound::new(py, reply)?.into_any());
    module.getattr(starter)?.call1(PyTuple::new(py, all)?).map(Bound::unbind)
}

/// The Python half of this module. A client imports it when it is made, so that no run does: a fork that finds it half imported by
/// another thread has a child that waits for ever.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    once(&HOST, py, || py.import("toolrelay._host"))
}

/// A loop was closed: ends what it did for runs.
pub(crate) fn abandon(event_loop: &Bound<'_, PyAny>) {
    let py = event_loop.py();
    let Some(module) = HOST.get(py) else { return };
    if let Err(error) = module.call_method1(py, intern!(py, "abandon"), (event_loop,)) {
        error.write_unraisable(py, None);
    }
}

/// Cancels the task of work that is given up.
struct Guard {
    port: Arc<Port>,
    objects: Arc<Objects>,
    /// `None` once the end is known.
    work: Option<Arc<Work>>,
}

impl Guard {
    fn forget(&mut self) {
        self.work = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let objects = Arc::clone(&self.objects);
        self.port.post(move |py| {
            let Some(task) = lock(&work.task).take() else { return Ok(()) };
            if task.call_method0(py, intern!(py, "cancel"))?.is_truthy(py)? {
                lock(&objects.given_up).push(task);
            }
            Ok(())
        });
    }
}

impl Host for PyHost {
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'static, ToolEnd> {
        let at = self.toolkit.position(&call.name);
        let ended = self.pull("start_tool", move |py, objects| {
            let answer = match &call.answer {
                Some(answer) => convert::relay(py, "Answer", answer)?,
                None => py.None().into_bound(py),
            };
            let tools = objects.toolkit.as_ref().map_or(&[][..], |toolkit| &toolkit.get().objects);
            let tool = at.and_then(|at| tools.get(at)).map_or_else(|| py.None(), |tool| tool.clone_ref(py));
            Ok(vec![
                tool.into_bound(py),
                PyBytes::new(py, call.input.get().as_bytes()).into_any(),
                call.id.as_str().into_pyobject(py)?.into_any(),
                answer,
                call.key.into_pyobject(py)?.into_any(),
            ])
        });
        let ended = ended.map(|end| match end {
            Some(End::Tool(end)) => end,
            Some(End::Ask(_) | End::Model(_) | End::Store(_)) | None => {
                ToolEnd::Finished(ToolOutput::failed(Outcome::Interrupted, TOOL_GONE))
            }
        });
        Box::pin(ended)
    }

    fn ask(&self, request: Request) -> BoxFuture<'static, AskEnd> {
        let ended = self.pull("start_ask", move |py, objects| {
            let wait_for = objects.wait_for.as_ref().map_or_else(|| py.None(), |wait_for| wait_for.clone_ref(py));
            Ok(vec![wait_for.into_bound(py), convert::relay(py, "Request", &request)?])
        });
        Box::pin(ended.map(|end| match end {
            Some(End::Ask(end)) => end,
            Some(End::Tool(_) | End::Model(_) | End::Store(_)) | None => AskEnd::Failed,
        }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static HOST: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

const TOOL_GONE: &str = "interrupted: the tool was cancelled and may have run; its result is not known";
