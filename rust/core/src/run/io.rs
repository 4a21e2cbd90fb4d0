//! What goes into a run and what comes out of it. Effects are imperatives, inputs are past
//! participles.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::Answer;
use crate::id::{CallId, EffectId};
use crate::json::Json;
use crate::reply::{Reply, Stop};
use crate::request::Request;
use crate::resume::ResumeError;
use crate::run::event::Event;
use crate::tool::ToolOutput;
use crate::wire::failure::ProviderFailure;

/// What happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A model call ended with a complete reply.
    ModelEnded {
        /// The call's effect.
        effect: EffectId,
        /// The reply.
        reply: Reply,
    },
    /// A model call failed for good; retries are over.
    ModelFailed {
        /// The call's effect.
        effect: EffectId,
        /// Why.
        failure: ModelFailure,
    },
    /// A tool gave a result.
    ToolFinished {
        /// The tool call's effect.
        effect: EffectId,
        /// The result.
        output: ToolOutput,
    },
    /// A tool parked itself until somebody answers.
    ToolParked {
        /// The tool call's effect.
        effect: EffectId,
        /// What it waits for.
        park: Park,
    },
    /// The host answered inline.
    Answered {
        /// The effect that asked.
        effect: EffectId,
        /// The answer.
        answer: Answer,
    },
    /// The host cannot answer inline: the call stays parked (contract 4.4).
    NotHere {
        /// The effect that asked.
        effect: EffectId,
    },
    /// Asking the host failed: the call stays parked and the run fails with the halted transcript.
    AskFailed {
        /// The effect that asked.
        effect: EffectId,
    },
    /// The request's time is over while the host was being asked.
    AskExpired {
        /// The effect that asked.
        effect: EffectId,
    },
    /// The run's time is over.
    TimedOut,
    /// The caller wants the run to end.
    Cancelled,
}

/// What a tool that parks itself waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    /// Such as `approval` or `input`; `tool_call` is the relay's own.
    pub kind: String,
    /// A line for a person.
    pub prompt: String,
    /// Where a person can settle it.
    pub url: Option<String>,
    /// The tool's own data.
    pub data: Option<Json>,
    /// RFC 3339.
    pub expires_at: Option<String>,
}

/// What a run wants done, or tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Something to do; its end comes back as an input.
    Effect(Effect),
    /// Something that happened; only where the run's config asks for it.
    Event(Event),
    /// The run is over.
    Done(Outcome),
}

/// Something the driver must do. Every effect is answered by one input or aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Send the transcript as it now stands to the model.
    CallModel {
        /// Names this effect.
        id: EffectId,
    },
    /// Run a local tool.
    CallTool {
        /// Names this effect.
        id: EffectId,
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// The prepared arguments.
        input: Json,
        /// The answer to the request with which the call parked before.
        answer: Option<Answer>,
    },
    /// Ask the host inline.
    Ask {
        /// Names this effect.
        id: EffectId,
        /// What is asked.
        request: Request,
    },
    /// Stop what was started under this id; no input is taken for it any more.
    Abort {
        /// The effect to stop.
        id: EffectId,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The model is done.
    Finished,
    /// Calls are parked (contract 5).
    Suspended,
    /// A limit ended the run (contract 3.6).
    Exhausted(Limit),
    /// The run cannot go on. The transcript stays valid.
    Failed(Failure),
    /// The caller ended it.
    Cancelled,
}

/// A limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Model turns.
    MaxTurns,
    /// The time of the whole run.
    Timeout,
}

/// Why a run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Failure {
    /// The model call failed.
    #[error(transparent)]
    Model(ModelFailure),
    /// Replies were cut or refused too often in a row.
    #[error("the model's reply was cut or refused {turns} times in a row ({}); its calls did not run", stop.as_str())]
    CutReply {
        /// How the last one ended.
        stop: Stop,
        /// How many there were.
        turns: u32,
    },
    /// Replies were empty too often in a row.
    #[error("the model's reply was empty {turns} times in a row: no text and no call")]
    EmptyReply {
        /// How many there were.
        turns: u32,
    },
    /// The conversation does not fit the model's context window.
    #[error("the conversation does not fit the model's context window; shorten it or use another model")]
    ContextOverflow,
    /// An inline answer did not pass the checks.
    #[error(transparent)]
    BadAnswer(ResumeError),
    /// Asking the host inline failed.
    #[error("wait_for failed; the call stays parked")]
    AskFailed,
}

/// Why a model call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum ModelFailure {
    /// The provider or the way to it.
    #[error(transparent)]
    Provider(ProviderFailure),
    /// The transcript cannot be put in the provider's form; nothing was sent.
    #[error("the transcript cannot be sent: {reason}")]
    Unsendable {
        /// What is wrong with it.
        reason: String,
    },
    /// The in-process model raised or gave something unusable.
    #[error("the in-process model failed: {message}")]
    InProcess {
        /// What happened.
        message: String,
        /// The visible text of a reply in pieces, if a watcher was told any of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial_text: Option<String>,
    },
}

impl ModelFailure {
    /// A failure of the in-process model before anybody was told of its reply.
    pub fn in_process(message: impl Into<String>) -> Self {
        Self::InProcess { message: message.into(), partial_text: None }
    }
}

/// Why an input was refused. The run is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The run has ended.
    #[error("the run has ended; it takes no more input")]
    Ended,
    /// No such effect is under way, or it takes another kind of input.
    #[error("no effect {} of that kind is under way", .0.0)]
    UnknownEffect(EffectId),
}
