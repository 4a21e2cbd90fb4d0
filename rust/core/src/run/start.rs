//! The two ways a run begins: from a prompt, or from a halted transcript and an answer.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::Answer;
use crate::id::{CallId, IdSource, RequestId};
use crate::message::{Body, Message, Pending};
use crate::repair::{self, Conflict, Warning};
use crate::reply::Usage;
use crate::request::Request;
use crate::resume::{self, Missing, ResumeError};
use crate::run::turn::{Slot, Turn};
use crate::run::{Phase, Run, RunConfig, texts};
use crate::suspension::{NotSuspended, Parked, Suspension};
use crate::tool::{Outcome, ToolOutput, Tools};
use crate::transcript::Transcript;

/// What a new prompt does to a halted transcript (contract 6.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPending {
    /// It is refused.
    #[default]
    Refuse,
    /// Each parked call is settled as superseded.
    Supersede,
}

/// Why a run cannot start. Nothing was changed or sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// Calls of the transcript wait for answers.
    #[error(
        "the transcript waits for answers to {}; resume it with run_with_answer or ask_with_answer, \
         or pass on_pending=\"supersede\"",
        names(calls)
    )]
    Pending {
        /// The waiting calls: id and tool.
        calls: Vec<(String, String)>,
        /// Their requests.
        requests: Vec<Request>,
    },
    /// No prompt, and nothing that the model could go on from.
    #[error("there is nothing to go on from: pass a prompt, or a transcript that ends with tool results or a prompt")]
    NothingToDo,
    /// The history cannot be paired.
    #[error(transparent)]
    Broken(#[from] Conflict),
    /// A waiting call was changed after it had parked.
    #[error("the call {call} of {tool} is not the one that parked: its tool or arguments were changed since")]
    CallChanged {
        /// The call.
        call: CallId,
        /// Its tool, as the transcript now names it.
        tool: String,
    },
}

impl Run {
    /// Starts from a prompt, or without one goes on from a settled transcript. Gives the run and
    /// what mending the history changed.
    pub fn start(
        history: Transcript,
        prompt: Option<Message>,
        on_pending: OnPending,
        config: &RunConfig,
    ) -> Result<(Self, Vec<Warning>), StartError> {
        let repair::Mended { transcript, mut warnings } = repair::mend(history)?;
        let mut transcript = if transcript.is_halted() {
            if on_pending == OnPending::Refuse {
                return Err(pending_error(&transcript));
            }
            settle_placeholders(&transcript)
        } else {
            settle_unanswered(transcript, &mut warnings)
        };
        let first = transcript.len();
        match prompt {
            Some(prompt) => transcript.push(prompt),
            None if has_open_end(&transcript) => {}
            None => return Err(StartError::NothingToDo),
        }
        let mut run = Self::new(transcript, first, config);
        run.ask_model();
        Ok((run, warnings))
    }

    /// Resumes a halted transcript with an answer (contract 6). All checks come before any change.
    pub fn resume(
        history: Transcript,
        pending: &Request,
        answer: &Answer,
        missing: Missing,
        now_ms: Option<i64>,
        config: &RunConfig,
        tools: &dyn Tools,
    ) -> Result<(Self, Vec<Warning>), ResumeError> {
        let broken = |conflict: Conflict| ResumeError::Broken { reason: conflict.to_string() };
        let repair::Mended { transcript, warnings } = repair::mend(history).map_err(broken)?;
        let passed_over = warnings.iter().any(|warning| matches!(warning, Warning::PassedOver { .. }));
        let suspension = Suspension::from_transcript(transcript).map_err(|why| match why {
            NotSuspended::Settled if passed_over => NotSuspended::Stale,
            NotSuspended::Empty | NotSuspended::Settled | NotSuspended::Stale => why,
        })?;
        let steps = resume::plan(&suspension, pending, answer, missing, now_ms)?;
        let mut run = Self::restore(suspension, Some(pending), config);
        for (at, step) in steps {
            run.take_step(at, step, answer, tools);
        }
        run.tell_outstanding();
        run.close_turn_if_over();
        Ok((run, warnings))
    }

    /// The run as it was at its halt. Unmarked calls wait for `pending`, or for nothing yet.
    pub(super) fn restore(suspension: Suspension, pending: Option<&Request>, config: &RunConfig) -> Self {
        let calls = suspension.calls().to_vec();
        let mut requests = suspension.requests;
        requests.extend(
            pending
                .filter(|pending| requests.iter().all(|known| known.id != pending.id))
                .cloned()
                .map(Request::cleaned),
        );
        let unmarked = pending.map_or_else(|| RequestId::new(""), |pending| pending.id.clone());
        let slot = |parked| match parked {
            Parked::Settled(message) => Slot::Done(message),
            Parked::Waiting(request) => Slot::Waiting { request },
            Parked::Unanswered => Slot::Waiting { request: unmarked.clone() },
        };
        let slots = suspension.slots.into_iter().map(slot).collect();
        let first = suspension.prefix.len().saturating_sub(1);
        let mut run = Self::new(suspension.prefix, first, config);
        run.turns = suspension.turns;
        run.phase = Phase::Turn(Turn { calls, slots, requests });
        run
    }

    pub(super) fn new(transcript: Transcript, first: usize, config: &RunConfig) -> Self {
        Self {
            ids: IdSource::new(config.seed),
            max_turns: config.max_turns,
            inline: config.inline,
            events: config.events,
            effects: 0,
            transcript,
            first,
            phase: Phase::Turn(Turn::default()),
            turns: 0,
            wasted: 0,
            pauses: 0,
            ask_failure: None,
            suspensions: Vec::new(),
            text: String::new(),
            stop: None,
            model: None,
            usage: Usage::default(),
            outputs: VecDeque::new(),
        }
    }
}

fn pending_error(transcript: &Transcript) -> StartError {
    let parked: Vec<(&Message, &Pending)> = transcript
        .messages()
        .iter()
        .filter_map(|message| Some((message, message.result()?.pending.as_deref()?)))
        .collect();
    let name = |id: &str| {
        let calls = transcript.messages().iter().rev().flat_map(Message::calls);
        calls.into_iter().find(|call| call.id.as_str() == id).map(|call| call.name.clone()).unwrap_or_default()
    };
    let ids = parked.iter().filter_map(|(message, _)| Some(message.result()?.call.to_string()));
    let calls = ids.map(|id| (id.clone(), name(&id))).collect();
    let requests = match Suspension::from_transcript(transcript.clone()) {
        Ok(suspension) => suspension.outstanding(),
        Err(_) => parked.into_iter().filter_map(|(_, pending)| pending.request.clone()).collect(),
    };
    StartError::Pending { calls, requests }
}

/// Settles each parked call as superseded.
fn settle_placeholders(transcript: &Transcript) -> Transcript {
    let settle = |message: &Message| match message.result().and_then(|result| Some((result, result.pending.as_ref()?)))
    {
        Some((result, pending)) => Message::tool_result(&result.call, &texts::superseded(pending)),
        None => message.clone(),
    };
    Transcript::new(transcript.messages().iter().map(settle).collect())
}

/// Calls of an open last turn that nobody marked: they may have run.
fn settle_unanswered(mut transcript: Transcript, warnings: &mut Vec<Warning>) -> Transcript {
    let Ok(suspension) = Suspension::from_transcript(transcript.clone()) else { return transcript };
    transcript = suspension.prefix.clone();
    for (call, slot) in suspension.calls().iter().zip(suspension.slots.clone()) {
        transcript.push(match slot {
            Parked::Settled(message) => message,
            Parked::Waiting(_) | Parked::Unanswered => {
                warnings.push(Warning::NoResult { call: call.id.clone(), name: call.name.clone() });
                Message::tool_result(&call.id, &ToolOutput::failed(Outcome::Interrupted, texts::INTERRUPTED))
            }
        });
    }
    transcript
}

/// Whether the model can go on from the last message: a prompt, results, or its own reply that the
/// provider paused.
pub(super) fn has_open_end(transcript: &Transcript) -> bool {
    transcript.messages().last().is_some_and(|last| match last.body() {
        Body::User | Body::Tool(_) => true,
        Body::Assistant(_) => is_paused(last),
        Body::System => false,
    })
}

pub(super) fn is_turn(message: &Message) -> bool {
    message.assistant().is_some() && !is_paused(message)
}

fn is_paused(message: &Message) -> bool {
    message.assistant().and_then(|reply| reply.provider.as_ref()).is_some_and(|provider| provider.paused)
}

fn names(calls: &[(String, String)]) -> String {
    calls.iter().map(|(id, name)| format!("{name} ({id})")).collect::<Vec<_>>().join(", ")
}
