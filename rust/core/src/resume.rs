//! The checks of a resume (contract 6.2 to 6.9): all of them come before any change. What passes
//! becomes a plan, one step per call of the request.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::{Answer, Given, RelayData};
use crate::id::{CallId, RequestId};
use crate::message::Call;
use crate::request::{RELAY_KIND, Request};
use crate::run::texts;
use crate::suspension::{NotSuspended, Suspension};
use crate::tool::{Outcome, ToolOutput};

/// What a call gets that the host gave no result for (contract 6.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// An error result.
    #[default]
    Error,
    /// It stays parked.
    Wait,
}

/// Why an answer does not resume a transcript. Nothing was changed, run or sent. Texts name keys
/// and ids, never values.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum ResumeError {
    /// The transcript is empty.
    #[error("cannot resume: the transcript is empty; pass the halted run's messages")]
    NoTranscript,
    /// No call waits.
    #[error("cannot resume: no call of the transcript's last turn waits for an answer")]
    NotHalted,
    /// The conversation went on behind the halt.
    #[error("cannot resume: the halted turn is not the last one; messages follow it (a stale transcript or answer)")]
    Stale,
    /// The history holds two results for one call, or cannot be paired.
    #[error("cannot resume: {reason}")]
    Broken {
        /// What is wrong.
        reason: String,
    },
    /// The answer is for another request.
    #[error("cannot resume: the answer's id must echo the request's: expected {expected}, found {found}")]
    AnswerId {
        /// The request's id.
        expected: RequestId,
        /// The answer's id.
        found: RequestId,
    },
    /// The transcript waits for another request.
    #[error("cannot resume: this transcript does not wait for request {found}; it waits for {}", list(expected))]
    WrongRequest {
        /// The requests the transcript waits for.
        expected: Vec<String>,
        /// The request that was passed.
        found: RequestId,
    },
    /// The request's kind differs from the recorded one.
    #[error("cannot resume: the request has kind {found:?}, expected {expected:?}")]
    WrongKind {
        /// The recorded kind.
        expected: String,
        /// The kind that was passed.
        found: String,
    },
    /// The request's calls and the turn's calls differ.
    #[error(
        "cannot resume: the request's calls and the turn's differ: expected {}, found {}",
        list(expected),
        list(found)
    )]
    CallsDiffer {
        /// The waiting calls of the turn.
        expected: Vec<String>,
        /// The calls in the request.
        found: Vec<String>,
    },
    /// A waiting call was changed after it had parked.
    #[error(
        "cannot resume: the call {call} of {tool} is not the one that parked: its tool or arguments were changed since"
    )]
    CallChanged {
        /// The call.
        call: CallId,
        /// Its tool, as the transcript now names it.
        tool: String,
    },
    /// An `ok` answer whose data is none that the engine reads.
    #[error(
        "cannot resume: the answer is ok but its data has no readable result: expected `results` or `output`, found {}",
        keys(found)
    )]
    Unreadable {
        /// The keys that were seen.
        found: Vec<String>,
    },
    /// The single-result form with several calls waiting.
    #[error("cannot resume: `output` settles one call, but {} wait: {}; answer with `results`", waiting.len(), list(waiting))]
    Shorthand {
        /// The waiting calls.
        waiting: Vec<String>,
    },
    /// A result for a call that is not of this request.
    #[error("cannot resume: a result for the unknown call {found}; the request waits for {}", list(expected))]
    UnknownCall {
        /// The waiting calls.
        expected: Vec<String>,
        /// The id that the result names.
        found: CallId,
    },
    /// A result for a call that already has one.
    #[error("cannot resume: the call {call} is already settled")]
    SettledCall {
        /// The call.
        call: CallId,
    },
    /// Two results for one call.
    #[error("cannot resume: two results for the call {call}")]
    RepeatedCall {
        /// The call.
        call: CallId,
    },
    /// The request's time is over.
    #[error("cannot resume: request {request} expired at {at}")]
    Expired {
        /// The request.
        request: RequestId,
        /// When, RFC 3339.
        at: String,
    },
}

/// What is to happen to one waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It gets this result.
    Settle(ToolOutput),
    /// Its tool runs once more, with the answer.
    RunTool,
}

/// Checks an answer against a suspension. The plan has the place of each call that is settled.
pub(crate) fn plan(
    suspension: &Suspension,
    pending: &Request,
    answer: &Answer,
    missing: Missing,
    now_ms: Option<i64>,
) -> Result<Vec<(usize, Step)>, ResumeError> {
    let waiting = waiting_calls(suspension, pending)?;
    if let Some(call) = suspension.changed.first() {
        return Err(ResumeError::CallChanged { call: call.id.clone(), tool: call.name.clone() });
    }
    let recorded = suspension.requests.iter().find(|request| request.id == pending.id).unwrap_or(pending);
    if answer.ok
        && let (Some(now), Some(until)) = (now_ms, recorded.expires_at_ms())
        && now >= until
    {
        let at = recorded.expires_at.clone().unwrap_or_default();
        return Err(ResumeError::Expired { request: pending.id.clone(), at });
    }
    plan_calls(suspension.calls(), &waiting, pending, answer, missing)
}

/// The steps for the calls that wait for `pending`, out of all `calls` of the turn.
pub(crate) fn plan_calls(
    calls: &[Call],
    waiting: &[(usize, &Call)],
    pending: &Request,
    answer: &Answer,
    missing: Missing,
) -> Result<Vec<(usize, Step)>, ResumeError> {
    if answer.id != pending.id {
        return Err(ResumeError::AnswerId { expected: pending.id.clone(), found: answer.id.clone() });
    }
    if !answer.ok {
        let (outcome, text) = texts::refusal(answer.reason, pending.is_relay());
        let settle = || Step::Settle(ToolOutput::failed(outcome, text));
        return Ok(waiting.iter().map(|(at, _)| (*at, settle())).collect());
    }
    if !pending.is_relay() {
        return Ok(waiting.iter().map(|(at, _)| (*at, Step::RunTool)).collect());
    }
    let given = read_results(calls, waiting, answer)?;
    let steps = waiting.iter().zip(given).filter_map(|((at, call), given)| {
        let output = match (given, missing) {
            (Some(given), _) => output_of(given),
            (None, Missing::Error) => ToolOutput::failed(Outcome::Missing, texts::missing(&call.name)),
            (None, Missing::Wait) => return None,
        };
        Some((*at, Step::Settle(output)))
    });
    Ok(steps.collect())
}

/// The result that the host gave for a call.
fn output_of(given: Given) -> ToolOutput {
    let outcome = if given.is_error { Outcome::Error } else { Outcome::Ok };
    ToolOutput { text: given.text, parts: given.parts, outcome }
}

/// The calls that wait for this request, after checking that it is the one on record.
fn waiting_calls<'a>(suspension: &'a Suspension, pending: &Request) -> Result<Vec<(usize, &'a Call)>, ResumeError> {
    let recorded = suspension.requests.iter().find(|request| request.id == pending.id);
    let waiting = match recorded {
        Some(recorded) if recorded.kind != pending.kind => {
            return Err(ResumeError::WrongKind { expected: recorded.kind.clone(), found: pending.kind.clone() });
        }
        Some(_) => suspension.waiting_for(&pending.id),
        None if !suspension.unanswered().is_empty() && suspension.requests.is_empty() => {
            if !pending.is_relay() {
                return Err(ResumeError::WrongKind { expected: RELAY_KIND.to_owned(), found: pending.kind.clone() });
            }
            suspension.unanswered()
        }
        None => {
            let expected = suspension.requests.iter().map(|request| request.id.to_string()).collect();
            return Err(ResumeError::WrongRequest { expected, found: pending.id.clone() });
        }
    };
    if pending.is_relay() {
        check_calls(suspension, pending, &waiting)?;
    }
    Ok(waiting)
}

/// The request must name every waiting call, and no call that the turn does not have; a call that
/// was settled by an earlier part of the answer may still stand in the host's copy.
fn check_calls(suspension: &Suspension, pending: &Request, waiting: &[(usize, &Call)]) -> Result<(), ResumeError> {
    let named = pending.relay_calls();
    let known = |named: &crate::request::RelayCall| {
        suspension
            .calls()
            .iter()
            .any(|call| call.id == named.id && call.name == named.name && call.arguments == named.arguments)
    };
    let complete = waiting.iter().all(|(_, call)| named.iter().any(|named| named.id == call.id));
    if complete && named.iter().all(known) {
        return Ok(());
    }
    Err(ResumeError::CallsDiffer {
        expected: waiting.iter().map(|(_, call)| format!("{} ({})", call.id, call.name)).collect(),
        found: named.iter().map(|call| format!("{} ({})", call.id, call.name)).collect(),
    })
}

/// One entry per waiting call: what the host gave for it, if anything.
fn read_results(
    calls: &[Call],
    waiting: &[(usize, &Call)],
    answer: &Answer,
) -> Result<Vec<Option<Given>>, ResumeError> {
    let ids = || waiting.iter().map(|(_, call)| call.id.to_string()).collect();
    let results = match answer.relay_data() {
        None => return Err(ResumeError::Unreadable { found: answer.data_keys() }),
        Some(RelayData::Single(given)) if waiting.len() == 1 => return Ok(vec![Some(given)]),
        Some(RelayData::Single(_)) => return Err(ResumeError::Shorthand { waiting: ids() }),
        Some(RelayData::Results(results)) => results,
    };
    let mut given: Vec<Option<Given>> = waiting.iter().map(|_| None).collect();
    for (id, result) in results {
        let Some(at) = waiting.iter().position(|(_, call)| call.id == id) else {
            let settled = calls.iter().any(|call| call.id == id);
            return Err(if settled {
                ResumeError::SettledCall { call: id }
            } else {
                ResumeError::UnknownCall { expected: ids(), found: id }
            });
        };
        if given[at].replace(result).is_some() {
            return Err(ResumeError::RepeatedCall { call: id });
        }
    }
    Ok(given)
}

impl From<NotSuspended> for ResumeError {
    fn from(why: NotSuspended) -> Self {
        match why {
            NotSuspended::Empty => Self::NoTranscript,
            NotSuspended::Settled => Self::NotHalted,
            NotSuspended::Stale => Self::Stale,
        }
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn keys(items: &[String]) -> String {
    if items.is_empty() { "no keys".to_owned() } else { format!("the keys {}", items.join(", ")) }
}
