//! `Feed`: the way from a watched run to its reader. What happened waits here until the reader's loop comes by and
//! takes all of it at once; a reader that waits is woken once for each batch.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::Notify;
use toolrelay_core::run::event::Event;
use toolrelay_core::wire::stream::Delta;
use toolrelay_runtime::watch::{Told, Watcher};

use crate::bridge::{Port, Ticket};
use crate::events;

/// A feed. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Feed(Arc<Shared>);

struct Shared {
    port: Arc<Port>,
    state: Mutex<State>,
    /// Notified when the reader has taken what lay here.
    taken: Notify,
}

#[derive(Default)]
struct State {
    told: Vec<Told>,
    /// About how much memory that is.
    weight: usize,
    /// Nothing more will be told.
    is_over: bool,
    /// The reader, if it waits.
    reader: Option<Ticket>,
}

/// Ends a feed when it goes, however that comes.
pub(crate) struct Ending(Feed);

impl Feed {
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self(Arc::new(Shared { port, state: Mutex::default(), taken: Notify::new() }))
    }

    pub(crate) fn ending(&self) -> Ending {
        Ending(self.clone())
    }

    /// The next events as a list, or a future of it where there are none yet; `None` at the end.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.0.port.is_of_this_process() {
            // In a forked child the run is the parent's, and so may be the lock.
            return Ok(None);
        }
        let state = self.state();
        let (is_empty, is_over) = (state.told.is_empty(), state.is_over);
        drop(state);
        if !is_empty {
            return self.take(py).map(|events| Some(events.into_any()));
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
        let told = {
            let mut state = self.state();
            state.weight = 0;
            mem::take(&mut state.told)
        };
        self.0.taken.notify_one();
        let events = told.into_iter().map(|told| events::show(py, told)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, events)
    }

    /// The reader, if it waits for what is there.
    fn reader_of(state: &mut State) -> Option<Ticket> {
        if state.told.is_empty() && !state.is_over { None } else { state.reader.take() }
    }

    fn wake(&self, reader: Option<Ticket>) {
        let Some(reader) = reader else { return };
        let feed = self.clone();
        reader.settle(move |py| feed.take(py).map(Bound::into_any));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Feed {
    fn tell(&self, told: Vec<Told>) {
        let mut state = self.state();
        state.weight += told.iter().map(weight).sum::<usize>();
        if state.told.is_empty() {
            state.told = told;
        } else {
            state.told.extend(told);
        }
        let reader = Self::reader_of(&mut state);
        drop(state);
        self.wake(reader);
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        let feed = self.clone();
        async move {
            while feed.state().weight >= ROOM {
                feed.0.taken.notified().await;
            }
        }
        .boxed()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let reader = Feed::reader_of(&mut state);
        drop(state);
        self.0.wake(reader);
    }
}

fn weight(told: &Told) -> usize {
    let text = match told {
        Told::Delta(Delta::Text(text) | Delta::Reasoning(text) | Delta::Arguments { text, .. }) => text.len(),
        Told::Delta(Delta::CallStarted { name, .. }) => name.len(),
        Told::Event(Event::CallReady { arguments, .. }) => arguments.len(),
        Told::Event(Event::ToolEnded { output, .. }) => output.len(),
        Told::Event(Event::ToolStarted { input, .. }) => input.get().len(),
        Told::Event(Event::Usage(_) | Event::Parked(_)) => 0,
    };
    mem::size_of::<Told>() + text
}

/// So much lies here before nothing more is read for a slow reader, in bytes.
const ROOM: usize = 256 * 1_024;
