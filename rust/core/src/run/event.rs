//! What a run tells those who watch it, in the order in which it happens.
//!
//! Nothing is told unless the config asks for it. For each reply of the model: `Usage`, then a
//! `CallReady` for each of its calls. A call that was ready is told of until it has ended or waits:
//! `ToolStarted` when its tool was started, then `ToolEnded` or `Parked`; a call that is settled
//! without its tool has `ToolEnded` alone.

use serde::{Deserialize, Serialize};

use crate::id::CallId;
use crate::json::Json;
use crate::message::{Call, Message};
use crate::reply::Usage;
use crate::request::Request;
use crate::run::io::{Effect, Output};
use crate::run::{Phase, Run};

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A reply of the model has ended; this is what it alone cost.
    Usage(Usage),
    /// The reply has this call: its id is known and its arguments are whole. It may yet be refused.
    CallReady {
        /// Its place among the calls of the reply.
        index: usize,
        /// Its id in the transcript.
        id: CallId,
        /// The tool, by the host's name.
        name: String,
        /// The model's own argument text.
        arguments: String,
    },
    /// The tool of a call was started; twice for a call that parked and runs once more.
    ToolStarted {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
        /// The prepared arguments.
        input: Json,
    },
    /// A call has its result: its tool's, the host's answer, or why there is none.
    ToolEnded {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
        /// The result's text.
        output: String,
        /// Whether the result is an error.
        is_error: bool,
    },
    /// Calls wait for an answer to this request. At a halt each outstanding request has been told in
    /// the form that the halt shows.
    Parked(Request),
}

impl Event {
    /// What starting an effect means for those who watch. It is told behind the effect: whoever knows of the start has started it.
    pub(super) fn of(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::CallTool { call, name, input, .. } => {
                Some(Self::ToolStarted { id: call.clone(), name: name.clone(), input: input.clone() })
            }
            Effect::Ask { request, .. } => Some(Self::Parked(request.clone())),
            Effect::CallModel { .. } | Effect::Abort { .. } => None,
        }
    }

    /// The end of a call.
    pub(super) fn ended(call: &Call, result: &Message) -> Self {
        Self::ToolEnded {
            id: call.id.clone(),
            name: call.name.clone(),
            output: result.text(),
            is_error: result.result().is_some_and(|result| !result.outcome.is_ok()),
        }
    }
}

impl Run {
    pub(super) fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.events {
            self.outputs.push_back(Output::Event(event()));
        }
    }

    /// The calls of a reply that has ended.
    pub(super) fn tell_ready(&mut self, calls: &[Call]) {
        for (index, Call { id, name, arguments }) in calls.iter().enumerate() {
            let ready = || Event::CallReady { index, id: id.clone(), name: name.clone(), arguments: arguments.clone() };
            self.tell(ready);
        }
    }

    /// What a restored turn still waits for.
    pub(super) fn tell_outstanding(&mut self) {
        if let Phase::Turn(turn) = &self.phase
            && self.events
        {
            self.outputs.extend(turn.outstanding().into_iter().map(|request| Output::Event(Event::Parked(request))));
        }
    }
}
