//! `Speech`: what an in-process model has said so far of a reply that it gives in pieces.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::FutureExt;
use pyo3::prelude::*;
use toolrelay_core::reply::{Reply, ReplyCall, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::ProviderFailure;
use toolrelay_core::wire::stream::{Delta, StreamDecoder};
use toolrelay_runtime::watch::{Told, Watcher};

use crate::bridge::future_into_py;
use crate::{convert, errors};

/// A reply in pieces: pieces of ours, or chunks of Chat Completions. Each method gives a future for when there is room
/// for more, or `None` if there is.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Speech(Arc<Mutex<Spoken>>);

/// What was said so far.
#[derive(Default)]
struct Spoken {
    watcher: Option<Arc<dyn Watcher>>,
    reply: Reply,
    stop: Option<Stop>,
    /// Where the reply comes in chunks.
    chunks: Option<StreamDecoder>,
    is_begun: bool,
    /// The visible text that the watcher was told, if it was told anything.
    told: Option<String>,
}

type Room<'py> = PyResult<Option<Bound<'py, PyAny>>>;

impl Speech {
    pub(crate) fn to(watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self(Arc::new(Mutex::new(Spoken { watcher, ..Spoken::default() })))
    }

    /// The same speech, for whoever waits for it.
    pub(crate) fn twin(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.spoken().is_begun
    }

    /// The reply, once nothing follows.
    pub(crate) fn end(&self) -> Result<Reply, ProviderFailure> {
        let mut spoken = self.spoken();
        if let Some(decoder) = spoken.chunks.take() {
            return decoder.finish();
        }
        let (mut reply, stop) = (mem::take(&mut spoken.reply), spoken.stop.take());
        reply.stop = stop.unwrap_or(if reply.calls.is_empty() { Stop::End } else { Stop::Calls });
        Ok(reply)
    }

    pub(crate) fn partial_text(&self) -> Option<String> {
        self.spoken().told.take()
    }

    fn spoken(&self) -> MutexGuard<'_, Spoken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say<'py>(&self, py: Python<'py>, say: impl FnOnce(&mut Spoken) -> Vec<Delta>) -> Room<'py> {
        let mut spoken = self.spoken();
        if spoken.chunks.is_some() {
            drop(spoken);
            return Err(mixed(py));
        }
        spoken.is_begun = true;
        let deltas = say(&mut spoken);
        spoken.tell(deltas);
        drop(spoken);
        self.room(py)
    }

    fn room<'py>(&self, py: Python<'py>) -> Room<'py> {
        let watcher = self.spoken().watcher.clone();
        let Some(mut room) = watcher.map(|watcher| watcher.room()) else { return Ok(None) };
        if (&mut room).now_or_never().is_some() {
            return Ok(None);
        }
        future_into_py(py, room.map(Ok::<_, PyErr>)).map(Some)
    }
}

#[pymethods]
impl Speech {
    fn text<'py>(&self, py: Python<'py>, text: String) -> Room<'py> {
        self.say(py, |spoken| {
            spoken.reply.text.push_str(&text);
            vec![Delta::Text(text)]
        })
    }

    fn reasoning<'py>(&self, py: Python<'py>, text: String) -> Room<'py> {
        self.say(py, |spoken| {
            spoken.reply.reasoned = true;
            vec![Delta::Reasoning(text)]
        })
    }

    /// A reply in the JSON of `Reply.model`: its text and calls follow those said before, what else it has holds for all.
    fn part<'py>(&self, py: Python<'py>, part: &[u8]) -> Room<'py> {
        let Part { text, calls, finish_reason, usage, model } = convert::read(py, "the model's reply", part)?;
        self.say(py, |spoken| {
            spoken.reply.text.push_str(&text);
            let mut deltas = vec![Delta::Text(text)];
            for call in calls {
                let index = spoken.reply.calls.len();
                deltas.push(Delta::CallStarted { index, id: call.id.clone(), name: call.name.clone() });
                deltas.push(Delta::Arguments { index, text: call.arguments.clone() });
                spoken.reply.calls.push(call);
            }
            spoken.stop = finish_reason.or(spoken.stop.take());
            spoken.reply.usage = usage.unwrap_or(spoken.reply.usage);
            spoken.reply.model = model.or(spoken.reply.model.take());
            deltas
        })
    }

    /// A chunk of Chat Completions, as JSON.
    fn chunk<'py>(&self, py: Python<'py>, json: &[u8]) -> Room<'py> {
        let mut spoken = self.spoken();
        if spoken.is_begun && spoken.chunks.is_none() {
            drop(spoken);
            return Err(mixed(py));
        }
        spoken.is_begun = true;
        let decoder = spoken.chunks.get_or_insert_with(|| Style::OpenAi.stream(usize::MAX));
        let mut deltas = Vec::new();
        let event: [&[u8]; 3] = [b"data: ", json, b"\n\n"];
        let fed = event.into_iter().try_for_each(|bytes| decoder.feed(bytes, &mut |delta| deltas.push(delta)));
        spoken.tell(deltas);
        drop(spoken);
        fed.map_err(|failure| errors::raise(py, "PayloadError", &failure.to_string()))?;
        self.room(py)
    }
}

impl Spoken {
    fn tell(&mut self, deltas: Vec<Delta>) {
        let Some(watcher) = &self.watcher else { return };
        let is_said = |delta: &Delta| match delta {
            Delta::Text(text) | Delta::Reasoning(text) | Delta::Arguments { text, .. } => !text.is_empty(),
            Delta::CallStarted { .. } => true,
        };
        let told: Vec<Told> = deltas.into_iter().filter(is_said).map(Told::Delta).collect();
        if told.is_empty() {
            return;
        }
        let so_far = self.told.get_or_insert_default();
        for told in &told {
            if let Told::Delta(Delta::Text(text)) = told {
                so_far.push_str(text);
            }
        }
        watcher.tell(told);
    }
}

/// A reply of our own shape, whole or the rest of one, as `toolrelay.inprocess` writes it.
#[derive(serde::Deserialize)]
pub(crate) struct Part {
    pub(crate) text: String,
    pub(crate) calls: Vec<ReplyCall>,
    pub(crate) finish_reason: Option<Stop>,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
}

fn mixed(py: Python<'_>) -> PyErr {
    let text = "a reply comes in chunks of Chat Completions or in pieces of toolrelay's own, not in both";
    errors::raise(py, "PayloadError", text)
}
