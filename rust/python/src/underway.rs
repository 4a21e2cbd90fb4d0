//! `Underway`: work that goes on by itself on the runtime, and what its caller has of it: the wait for its end, and the
//! way to stop it. Letting go of it stops the work.

use std::mem;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bridge::{Port, future_into_py};
use crate::feed::{Feed, Item};
use crate::host::{self, Objects};

/// Work under way, with what came of it.
pub(crate) struct Underway<E> {
    ended: watch::Receiver<Option<E>>,
    /// Stops the work with its caller: a coroutine that is closed, not cancelled, lets go of both without a word.
    stop: Option<DropGuard>,
    port: Arc<Port>,
}

impl<E> Underway<E>
where
    E: Clone + Send + Sync + for<'py> IntoPyObject<'py> + 'static,
{
    /// Begins work that heeds the token; what it tells meanwhile is in the feed.
    pub(crate) fn begin<T: Item, F>(
        port: Arc<Port>,
        feed: Option<&Feed<T>>,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Self
    where
        F: Future<Output = E> + Send + 'static,
    {
        let (tell, ended) = watch::channel(None);
        let stop = port.closing();
        port.at_close(host::abandon);
        let (work, ending) = (work(stop.clone()), feed.map(Feed::ending));
        port.spawn(async move {
            let _ = tell.send(Some(work.await));
            // Whoever reads to the end finds the outcome there.
            drop(ending);
        });
        Self { ended, stop: Some(stop.drop_guard()), port }
    }

    /// The caller's future. Cancelling it stops the work.
    pub(crate) fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let guard = self.stop.as_ref().map(|stop| stop.token().clone().drop_guard());
        future_into_py(py, wait(self.ended.clone(), guard))
    }

    /// The end, for a caller who has stopped the work, or read to its end. A forked child gets none: the work is its
    /// parent's.
    pub(crate) fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.port.is_of_this_process() {
            return Ok(None);
        }
        future_into_py(py, wait(self.ended.clone(), None)).map(Some)
    }

    /// Asks the work to stop. In a forked child it is the parent's.
    pub(crate) fn stop(&self) {
        if let Some(stop) = self.stop.as_ref().filter(|_| self.port.is_of_this_process()) {
            stop.token().cancel();
        }
    }

    /// Looks at what came of it, if it has ended.
    pub(crate) fn end<T>(&self, look: impl FnOnce(&E) -> T) -> Option<T> {
        self.ended.borrow().as_ref().map(look)
    }
}

impl<E> Underway<E> {
    /// Shows to the collector what ended work still holds, if nobody else has it. What goes on is reachable.
    pub(crate) fn traverse(
        &self,
        held: impl FnOnce(&E) -> &Arc<Objects>,
        visit: &PyVisit<'_>,
    ) -> Result<(), PyTraverseError> {
        if !self.port.is_of_this_process() {
            // In a forked child the lock may be one of the parent's threads'.
            return Ok(());
        }
        let ended = self.ended.borrow();
        let objects = ended.as_ref().map(held).filter(|objects| Arc::strong_count(objects) == 1);
        objects.map_or(Ok(()), |objects| objects.traverse(visit))
    }
}

impl<E> Drop for Underway<E> {
    fn drop(&mut self) {
        if !self.port.is_of_this_process() {
            // In a forked child the work is the parent's, and so are the locks of its token.
            mem::forget(self.stop.take());
        }
    }
}

/// Waits for the end. Dropped before, it stops the work.
async fn wait<E: Clone>(mut ended: watch::Receiver<Option<E>>, guard: Option<DropGuard>) -> PyResult<E> {
    let known = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    if let Some(guard) = guard {
        guard.disarm();
    }
    known.ok_or_else(|| PyRuntimeError::new_err("the run was given up"))
}
