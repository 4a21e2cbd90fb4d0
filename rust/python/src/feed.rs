//! `Feed`: the way from what is watched to its reader: the events of a run, the chunks of a single call. What came
//! waits here until the reader's loop comes by and takes all of it at once; a reader that waits is woken once for each
//! batch.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::Notify;

use crate::bridge::{Port, Ticket};

/// One thing on the way to a reader.
pub(crate) trait Item: Send + 'static {
    /// About how much memory it holds beside itself.
    fn weight(&self) -> usize;
    /// It, as Python sees it.
    fn show(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

/// A feed. Clones are the same one.
pub(crate) struct Feed<T>(Arc<Shared<T>>);

struct Shared<T> {
    port: Arc<Port>,
    state: Mutex<State<T>>,
    /// Notified when the reader has taken what lay here.
    taken: Notify,
}

struct State<T> {
    waiting: Vec<T>,
    /// About how much memory that is.
    weight: usize,
    /// Nothing more will be told.
    is_over: bool,
    /// The reader, if it waits.
    reader: Option<Ticket>,
}

/// Ends a feed when it goes, however that comes.
pub(crate) struct Ending<T: Item>(Feed<T>);

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Item> Feed<T> {
    pub(crate) fn new(port: Arc<Port>) -> Self {
        let state = State { waiting: Vec::new(), weight: 0, is_over: false, reader: None };
        Self(Arc::new(Shared { port, state: Mutex::new(state), taken: Notify::new() }))
    }

    pub(crate) fn ending(&self) -> Ending<T> {
        Ending(self.clone())
    }

    /// Adds items. Any thread, no GIL.
    pub(crate) fn add(&self, items: Vec<T>) {
        let mut state = self.state();
        state.weight += items.iter().map(|item| mem::size_of::<T>() + item.weight()).sum::<usize>();
        if state.waiting.is_empty() {
            state.waiting = items;
        } else {
            state.waiting.extend(items);
        }
        let reader = Self::reader_of(&mut state);
        drop(state);
        self.wake(reader);
    }

    /// Ready when there is room for more.
    pub(crate) fn room(&self) -> BoxFuture<'static, ()> {
        let feed = self.clone();
        async move {
            while feed.state().weight >= ROOM {
                feed.0.taken.notified().await;
            }
        }
        .boxed()
    }

    /// The next items as a list, or a future of it where there are none yet; `None` at the end.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.0.port.is_of_this_process() {
            // In a forked child the run is the parent's, and so may be the lock.
            return Ok(None);
        }
        let state = self.state();
        let (is_empty, is_over) = (state.waiting.is_empty(), state.is_over);
        drop(state);
        if !is_empty {
            return self.take(py).map(|items| Some(items.into_any()));
        }
        if is_over {
            return Ok(None);
        }
        let (future, ticket) = self.0.port.promise(py)?;
        let mut state = self.state();
        state.reader = Some(ticket);
        // What came in between is for it.
        let reader = Self::reader_of(&mut state);
        drop(state);
        self.wake(reader);
        Ok(Some(future))
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let waiting = {
            let mut state = self.state();
            state.weight = 0;
            mem::take(&mut state.waiting)
        };
        self.0.taken.notify_one();
        let items = waiting.into_iter().map(|item| item.show(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, items)
    }

    /// The reader, if it waits for what is there.
    fn reader_of(state: &mut State<T>) -> Option<Ticket> {
        if state.waiting.is_empty() && !state.is_over { None } else { state.reader.take() }
    }

    fn wake(&self, reader: Option<Ticket>) {
        let Some(reader) = reader else { return };
        let feed = self.clone();
        reader.settle(move |py| feed.take(py).map(Bound::into_any));
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Item> Drop for Ending<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let reader = Feed::reader_of(&mut state);
        drop(state);
        self.0.wake(reader);
    }
}

/// So much lies here before nothing more is read for a slow reader, in bytes.
const ROOM: usize = 256 * 1_024;
