//! `NativeClient`: the settings of a client, and the start of its segments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use toolrelay_core::answer::Answer;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::OnPending;
use toolrelay_runtime::client::{Client, Place, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::http_model::HttpModel;
use toolrelay_runtime::model::Model;
use toolrelay_runtime::translate::OnceModel;

use crate::bridge::Port;
use crate::host::{self, Objects, PyHost};
use crate::life::{Due, Life, tell};
use crate::model::PyModel;
use crate::seal::PySealKeys;
use crate::segment::Segment;
use crate::settings::{http_model, seconds};
use crate::stores::{AnyStore, GivenCursor, GivenOrder};
use crate::toolkit::NativeToolkit;
use crate::transcript::PyTranscript;
use crate::{convert, errors};

/// The settings of a client.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct NativeClient {
    reached: Reached,
    store: AnyStore,
    owner: String,
    lease: Duration,
    max_turns: u32,
    timeout: Option<Duration>,
    wait_for: Option<Py<PyAny>>,
    expires_after: Option<Duration>,
}

/// How the model is reached.
enum Reached {
    Http(Arc<HttpModel>),
    InProcess { generate: Py<PyAny>, system: Option<String> },
}

#[pymethods]
impl NativeClient {
    /// `model` is the function of an in-process model, or a dict with the settings of a provider.
    #[new]
    #[pyo3(signature = (model, *, system_prompt, max_turns, timeout, lease, owner, wait_for, requests_expire_after, store))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        model: &Bound<'_, PyAny>,
        system_prompt: Option<String>,
        max_turns: u32,
        timeout: Option<f64>,
        lease: f64,
        owner: String,
        wait_for: Option<Py<PyAny>>,
        requests_expire_after: Option<f64>,
        store: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let reached = match model.cast::<PyDict>() {
            Ok(settings) => Reached::Http(Arc::new(http_model(settings, system_prompt)?)),
            Err(_) => Reached::InProcess { generate: model.clone().unbind(), system: system_prompt },
        };
        let py = model.py();
        host::module(py)?;
        Ok(Self {
            reached,
            store: AnyStore::of(store)?,
            owner,
            lease: seconds(py, "lease", lease)?,
            max_turns,
            timeout: timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?,
            wait_for,
            expires_after: requests_expire_after
                .map(|after| seconds(py, "requests_expire_after", after))
                .transpose()?,
        })
    }

    /// Starts a segment from a prompt: `prompt` is the JSON of a text or of a list of parts.
    #[pyo3(signature = (toolkit, context, history, conversation, prompt, supersede, in_turn, is_watched))]
    #[expect(clippy::too_many_arguments, reason = "one call from the Python facade")]
    fn prompt(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        history: Option<&Bound<'_, PyAny>>,
        conversation: Option<String>,
        prompt: Option<&str>,
        supersede: bool,
        in_turn: bool,
        is_watched: bool,
    ) -> PyResult<Segment> {
        let start = prompted(toolkit.py(), prompt, supersede)?;
        match conversation {
            Some(id) if in_turn => self.start_at(toolkit, context, Place::InTurn(id), start, is_watched),
            conversation => self.start(toolkit, context, history, conversation, start, is_watched),
        }
    }

    /// Starts a segment from an answer: `pending`, which may be left to the answer to name, and `answer` are JSON.
    #[pyo3(signature = (toolkit, context, history, conversation, pending, answer, wait, is_watched))]
    #[expect(clippy::too_many_arguments, reason = "one call from the Python facade")]
    fn answer(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        history: Option<&Bound<'_, PyAny>>,
        conversation: Option<String>,
        pending: Option<&[u8]>,
        answer: &[u8],
        wait: bool,
        is_watched: bool,
    ) -> PyResult<Segment> {
        let start = answered(toolkit.py(), pending, answer, wait)?;
        self.start(toolkit, context, history, conversation, start, is_watched)
    }

    /// Makes a prompt durable and leaves the run to others.
    fn submit<'py>(
        &self,
        toolkit: &Bound<'py, NativeToolkit>,
        context: Py<PyAny>,
        conversation: String,
        prompt: Option<&str>,
        supersede: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.leave(toolkit, context, conversation, prompted(toolkit.py(), prompt, supersede)?)
    }

    /// Makes an answer durable and leaves the run to others.
    fn submit_answer<'py>(
        &self,
        toolkit: &Bound<'py, NativeToolkit>,
        context: Py<PyAny>,
        conversation: String,
        pending: Option<&[u8]>,
        answer: &[u8],
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.leave(toolkit, context, conversation, answered(toolkit.py(), pending, answer, wait)?)
    }

    /// Starts a segment from a sealed halt and an answer in JSON.
    #[pyo3(signature = (toolkit, context, token, keys, audience, answer, wait, once, is_watched))]
    #[expect(clippy::too_many_arguments, reason = "one call from the Python facade")]
    fn answer_sealed(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        token: &str,
        keys: &Bound<'_, PySealKeys>,
        audience: Option<&str>,
        answer: &[u8],
        wait: bool,
        once: bool,
        is_watched: bool,
    ) -> PyResult<Segment> {
        let py = toolkit.py();
        let answer: Answer = convert::read(py, "the answer", answer)?;
        let (place, pending) = keys.get().open(py, token, audience, &answer, once)?;
        let missing = if wait { Missing::Wait } else { Missing::Error };
        self.start_at(toolkit, context, place, Start::Answer { pending, answer, missing }, is_watched)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.wait_for)?;
        if let AnyStore::Own(store) = &self.store {
            visit.call(store)?;
        }
        match &self.reached {
            Reached::Http(_) => Ok(()),
            Reached::InProcess { generate, .. } => visit.call(generate),
        }
    }

    /// Takes over what a dead worker left of a conversation.
    fn recover(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        conversation: String,
        is_watched: bool,
    ) -> PyResult<Segment> {
        self.start(toolkit, context, None, Some(conversation), Start::Recover, is_watched)
    }

    /// The stored conversation of this id, or none.
    fn get<'py>(&self, py: Python<'py>, context: Py<PyAny>, id: String) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.get(py, id)
    }

    /// Calls a conversation off.
    fn cancel<'py>(&self, py: Python<'py>, context: Py<PyAny>, id: String) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.cancel(py, id)
    }

    /// Deletes a conversation; whether there was one.
    fn delete<'py>(&self, py: Python<'py>, context: Py<PyAny>, id: String) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.delete(py, id)
    }

    /// Copies a conversation.
    fn fork<'py>(
        &self,
        py: Python<'py>,
        context: Py<PyAny>,
        id: String,
        new_id: String,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.fork(py, id, new_id)
    }

    /// Puts a transcript under a new id.
    fn restore<'py>(
        &self,
        py: Python<'py>,
        context: Py<PyAny>,
        id: String,
        messages: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.restore(py, id, PyTranscript::of(Some(messages))?)
    }

    /// Settles what expired in a conversation; whether there was anything.
    fn expire<'py>(&self, py: Python<'py>, context: Py<PyAny>, id: String) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.expire(py, id)
    }

    /// Conversations that somebody has to look after for this reason, and the cursor behind them.
    fn due<'py>(
        &self,
        py: Python<'py>,
        context: Py<PyAny>,
        why: Due,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.due(py, why, after, limit)
    }

    /// Requests that wait: conversation, request, unix milliseconds of its making; and the cursor behind them.
    fn waiting<'py>(
        &self,
        py: Python<'py>,
        context: Py<PyAny>,
        order: GivenOrder,
        after: Option<GivenCursor>,
        limit: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.life(py, context)?.waiting(py, order, after, limit)
    }
}

impl NativeClient {
    fn life(&self, py: Python<'_>, context: Py<PyAny>) -> PyResult<Life> {
        let host = self.host(py, context, None)?;
        Ok(Life { conversations: self.conversations(py, &host)?, objects: host.objects })
    }

    fn conversations(&self, py: Python<'_>, host: &PyHost) -> PyResult<Conversations> {
        Ok(Conversations::new(self.store.reached_by(py, host)?, self.owner.clone(), self.lease))
    }

    /// The model for a single call, on a host that may have to make it.
    pub(crate) fn once_model(&self, host: &PyHost) -> Arc<dyn OnceModel> {
        match &self.reached {
            Reached::Http(model) => Arc::clone(model) as Arc<dyn OnceModel>,
            Reached::InProcess { system, .. } => Arc::new(PyModel { host: host.clone(), system: system.clone() }),
        }
    }

    /// The time of a whole run.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The way to the running loop, with what it calls for this client.
    pub(crate) fn host(
        &self,
        py: Python<'_>,
        context: Py<PyAny>,
        toolkit: Option<&Bound<'_, NativeToolkit>>,
    ) -> PyResult<PyHost> {
        let generate = match &self.reached {
            Reached::Http(_) => None,
            Reached::InProcess { generate, .. } => Some(generate.clone_ref(py)),
        };
        let objects = Objects {
            context,
            toolkit: toolkit.map(|toolkit| toolkit.clone().unbind()),
            wait_for: self.wait_for.as_ref().map(|wait_for| wait_for.clone_ref(py)),
            generate,
            store: self.store.own(py),
            failure: Mutex::default(),
            given_up: Mutex::default(),
            store_failure: Mutex::default(),
        };
        let port = Port::of_running_loop(py)?;
        let toolkit = toolkit.map(|toolkit| Arc::clone(&toolkit.get().tools)).unwrap_or_default();
        Ok(PyHost { port, objects: Arc::new(objects), toolkit })
    }

    fn start(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        history: Option<&Bound<'_, PyAny>>,
        conversation: Option<String>,
        start: Start,
        is_watched: bool,
    ) -> PyResult<Segment> {
        let place = match conversation {
            Some(id) => Place::Conversation(id),
            None => Place::History(PyTranscript::of(history)?),
        };
        self.start_at(toolkit, context, place, start, is_watched)
    }

    fn start_at(
        &self,
        toolkit: &Bound<'_, NativeToolkit>,
        context: Py<PyAny>,
        place: Place,
        start: Start,
        is_watched: bool,
    ) -> PyResult<Segment> {
        let py = toolkit.py();
        let host = self.host(py, context, Some(toolkit))?;
        Ok(Segment::start(self.client(py, &host)?, place, start, host, is_watched))
    }

    fn leave<'py>(
        &self,
        toolkit: &Bound<'py, NativeToolkit>,
        context: Py<PyAny>,
        conversation: String,
        start: Start,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = toolkit.py();
        let host = self.host(py, context, Some(toolkit))?;
        let client = self.client(py, &host)?;
        let PyHost { objects, toolkit, .. } = host;
        tell(py, objects, async move { client.submit(&conversation, &start, &toolkit).await })
    }

    fn client(&self, py: Python<'_>, host: &PyHost) -> PyResult<Client> {
        let model: Arc<dyn Model> = match &self.reached {
            Reached::Http(model) => Arc::clone(model) as Arc<dyn Model>,
            Reached::InProcess { system, .. } => Arc::new(PyModel { host: host.clone(), system: system.clone() }),
        };
        Ok(Client {
            model,
            conversations: self.conversations(py, host)?,
            max_turns: self.max_turns,
            timeout: self.timeout,
            inline: self.wait_for.is_some(),
            expires_after: self.expires_after,
        })
    }
}

fn prompted(py: Python<'_>, prompt: Option<&str>, supersede: bool) -> PyResult<Start> {
    let prompt = prompt.map(|prompt| message(py, prompt)).transpose()?;
    Ok(Start::Prompt { prompt, on_pending: if supersede { OnPending::Supersede } else { OnPending::Refuse } })
}

fn answered(py: Python<'_>, pending: Option<&[u8]>, answer: &[u8], wait: bool) -> PyResult<Start> {
    let pending: Option<Request> = pending.map(|json| convert::read(py, "the request", json)).transpose()?;
    let answer: Answer = convert::read(py, "the answer", answer)?;
    let missing = if wait { Missing::Wait } else { Missing::Error };
    Ok(match pending {
        Some(pending) => Start::Answer { pending, answer, missing },
        None => Start::AnswerAlone { answer, missing },
    })
}

fn message(py: Python<'_>, prompt: &str) -> PyResult<Message> {
    let unreadable = |error: serde_json::Error| errors::raise(py, "PayloadError", &format!("the prompt: {error}"));
    let prompt = toolrelay_core::json::mend_escapes(prompt);
    if prompt.starts_with('"') {
        let text: String = serde_json::from_str(&prompt).map_err(unreadable)?;
        return Ok(Message::user(&text));
    }
    Json::parse(&prompt).map(|parts| Message::user_parts(&parts)).map_err(unreadable)
}
