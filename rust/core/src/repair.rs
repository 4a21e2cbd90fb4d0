//! Mending histories that come in broken (contract 6.12). This module owns the pairing of calls
//! and results; it does not decide what an open last turn means to a run.
//!
//! The rules: a call and its results are one unit; results stand in call order right behind their
//! assistant message; a real result beats a stand-in; two different real results for one call are
//! an error; what stood between moves behind; a result without a call is dropped, with a warning;
//! ids are unique. Mending twice changes nothing.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::id::CallId;
use crate::message::{Body, Call, Message, Pending};
use crate::request::Request;
use crate::run::texts;
use crate::tool::{Outcome, ToolOutput};
use crate::transcript::Transcript;

/// A history in which every call but those of an open last turn has exactly one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The history. Messages that needed no mending are the same objects.
    pub transcript: Transcript,
    /// What was changed, in order.
    pub warnings: Vec<Warning>,
}

/// One change that mending made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// A result whose call is not in the history was left out.
    #[error("a result for the unknown call {call} was left out")]
    ResultWithoutCall {
        /// The id that the result names.
        call: CallId,
    },
    /// A call without a result got a stand-in.
    #[error("the call {call} of {name} had no result; it is marked as interrupted")]
    NoResult {
        /// The call.
        call: CallId,
        /// Its tool.
        name: String,
    },
    /// A parked call that the conversation went past is settled as superseded.
    #[error("the parked call {call} of {name} was passed over; it is marked as superseded")]
    PassedOver {
        /// The call.
        call: CallId,
        /// Its tool.
        name: String,
    },
    /// A missing or repeated id was replaced.
    #[error("the call id {was:?} is missing or repeated; the call is now {now}")]
    NewId {
        /// The id before.
        was: String,
        /// The id after.
        now: CallId,
    },
    /// Results or messages stood in the wrong place.
    #[error("results of the turn of call {call} were brought into call order behind their calls")]
    Moved {
        /// The first call of the turn.
        call: CallId,
    },
}

/// Why a history cannot be mended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the call {call} of {name} has two different results; remove the wrong one")]
pub struct Conflict {
    /// The call.
    pub call: CallId,
    /// Its tool.
    pub name: String,
}

/// Mends a history. A last turn that nothing follows, and of which no call is parked, keeps its unanswered calls.
pub fn mend(history: Transcript) -> Result<Mended, Conflict> {
    if is_sound(history.messages()) {
        return Ok(Mended { transcript: history, warnings: Vec::new() });
    }
    mend_with(&history, false)
}

/// Mends the history of a run that was cut off: unanswered calls of a last turn that nothing follows
/// were under way, beside parked ones too, and keep open.
pub(crate) fn mend_cut_off(history: &Transcript) -> Result<Mended, Conflict> {
    mend_with(history, true)
}

fn mend_with(history: &Transcript, under_way: bool) -> Result<Mended, Conflict> {
    let mut warnings = Vec::new();
    let units = pair(history.messages(), &mut warnings)?;
    let before: Vec<Message> = history.messages().to_vec();
    let messages = lay_out(units, under_way, &mut warnings);
    if warnings.is_empty()
        && messages != before
        && let Some(call) = messages.iter().flat_map(Message::calls).next()
    {
        warnings.push(Warning::Moved { call: call.id.clone() });
    }
    Ok(Mended { transcript: Transcript::new(messages), warnings })
}

/// Whether every call has its one result in place and every id is new.
fn is_sound(messages: &[Message]) -> bool {
    let mut seen: HashSet<&CallId> = HashSet::with_capacity(messages.len() / 2);
    let mut due: &[Call] = &[];
    for message in messages {
        match message.body() {
            Body::Tool(result) => match due.split_first() {
                Some((next, rest)) if next.id == result.call => due = rest,
                _ => return false,
            },
            Body::System | Body::User | Body::Assistant(_) if !due.is_empty() => return false,
            Body::Assistant(assistant) => {
                due = &assistant.calls;
                if !due.iter().all(|call| !call.id.as_str().is_empty() && seen.insert(&call.id)) {
                    return false;
                }
            }
            Body::System | Body::User => {}
        }
    }
    let last = messages.iter().rposition(|message| message.assistant().is_some()).unwrap_or(0);
    let (earlier, turn) = messages.split_at(last);
    let parked = |messages: &[Message]| messages.iter().any(Message::is_placeholder);
    !parked(earlier) && (due.is_empty() || !parked(turn))
}

/// An assistant message (absent before the first), its results by call, and what follows.
#[derive(Default)]
struct Unit {
    assistant: Option<Message>,
    results: Vec<Option<Message>>,
    /// Requests whose placeholder gave way to a result.
    requests: Vec<Request>,
    followed_by: Vec<Message>,
}

impl Unit {
    fn calls(&self) -> &[Call] {
        self.assistant.as_ref().map_or(&[], Message::calls)
    }

    /// The place of a result for `call`: a call of that id without a result if there is one.
    fn place(&self, call: &CallId) -> Option<usize> {
        let matching = || self.calls().iter().enumerate().filter(|(_, c)| c.id == *call).map(|(at, _)| at);
        matching().find(|at| self.results[*at].is_none()).or_else(|| matching().next())
    }
}

fn pair(messages: &[Message], warnings: &mut Vec<Warning>) -> Result<Vec<Unit>, Conflict> {
    let mut units = vec![Unit::default()];
    let mut homes: HashMap<&CallId, usize> = HashMap::new();
    for message in messages {
        match message.body() {
            Body::Assistant(assistant) => {
                let results = assistant.calls.iter().map(|_| None).collect();
                homes.extend(assistant.calls.iter().map(|call| (&call.id, units.len())));
                units.push(Unit { assistant: Some(message.clone()), results, ..Unit::default() });
            }
            Body::Tool(result) => {
                let home = homes.get(&result.call).and_then(|unit| units.get_mut(*unit));
                match home.and_then(|unit| unit.place(&result.call).map(|at| (unit, at))) {
                    Some((unit, at)) => settle(unit, at, message)?,
                    None => warnings.push(Warning::ResultWithoutCall { call: result.call.clone() }),
                }
            }
            Body::System | Body::User => {
                if let Some(unit) = units.last_mut() {
                    unit.followed_by.push(message.clone());
                }
            }
        }
    }
    Ok(units)
}

fn settle(unit: &mut Unit, at: usize, new: &Message) -> Result<(), Conflict> {
    let keep = match &unit.results[at] {
        None => true,
        Some(old) if is_stand_in(old) => !is_stand_in(new),
        Some(old) if is_stand_in(new) || (old.content() == new.content() && old.parts() == new.parts()) => false,
        Some(_) => {
            let call = &unit.calls()[at];
            return Err(Conflict { call: call.id.clone(), name: call.name.clone() });
        }
    };
    let gone = if keep { unit.results[at].replace(new.clone()) } else { Some(new.clone()) };
    let request = gone.as_ref().and_then(|gone| gone.result()?.pending.as_ref()?.request.clone());
    unit.requests.extend(request);
    Ok(())
}

/// A placeholder that only names its request gets the whole of it when the one that had it is gone.
fn with_request(message: Message, requests: &mut Vec<Request>) -> Message {
    let Some((result, pending)) = message.result().and_then(|result| Some((result, result.pending.as_ref()?))) else {
        return message;
    };
    match requests.iter().position(|request| request.id == pending.id) {
        Some(at) if pending.request.is_none() => {
            let request = Some(requests.swap_remove(at));
            Message::placeholder(&result.call, Pending { request, ..Pending::clone(pending) })
        }
        Some(_) | None => message,
    }
}

/// Whether a result only stands in for one: a placeholder, a marked stand-in, or one of the texts
/// that other programs write in its place.
fn is_stand_in(message: &Message) -> bool {
    let marked = message.result().is_some_and(|result| result.pending.is_some() || result.outcome.is_stand_in());
    marked || FOREIGN_STAND_INS.contains(&message.text().trim().to_ascii_lowercase().as_str())
}

fn lay_out(units: Vec<Unit>, under_way: bool, warnings: &mut Vec<Warning>) -> Vec<Message> {
    let mut seen: HashSet<CallId> = HashSet::new();
    let mut messages = Vec::new();
    let last = units.len().saturating_sub(1);
    for (number, mut unit) in units.into_iter().enumerate() {
        let calls = unit.calls().to_vec();
        let fresh = fresh_ids(&calls, &mut seen, warnings);
        if let Some(assistant) = unit.assistant.take() {
            messages.push(if fresh == calls { assistant } else { assistant.with_calls(fresh.clone()) });
        }
        let parked = unit.results.iter().flatten().any(Message::is_placeholder);
        let open = number == last && unit.followed_by.is_empty() && (under_way || !parked);
        for (result, (was, now)) in unit.results.into_iter().zip(calls.iter().zip(&fresh)) {
            let passed_over = number < last && result.as_ref().is_some_and(Message::is_placeholder);
            let message = match result {
                Some(result) if !passed_over => with_request(result, &mut unit.requests),
                None if open => continue,
                Some(placeholder) => {
                    warnings.push(Warning::PassedOver { call: now.id.clone(), name: now.name.clone() });
                    let pending = placeholder.result().and_then(|result| result.pending.as_ref());
                    pending.map_or(placeholder.clone(), |pending| {
                        Message::tool_result(&now.id, &texts::superseded(pending))
                    })
                }
                None => {
                    warnings.push(Warning::NoResult { call: now.id.clone(), name: now.name.clone() });
                    Message::tool_result(&now.id, &ToolOutput::failed(Outcome::Interrupted, texts::INTERRUPTED))
                }
            };
            messages.push(if was.id == now.id { message } else { message.with_call_id(&now.id) });
        }
        messages.extend(unit.followed_by);
    }
    messages
}

/// The calls with each missing or repeated id replaced by one derived from it, the same every time.
fn fresh_ids(calls: &[Call], seen: &mut HashSet<CallId>, warnings: &mut Vec<Warning>) -> Vec<Call> {
    let mut fresh = calls.to_vec();
    for call in &mut fresh {
        let was = call.id.as_str().to_owned();
        if !was.is_empty() && seen.insert(call.id.clone()) {
            continue;
        }
        let stem = if was.is_empty() { "call" } else { &was };
        let mut number = 2_u64;
        while !seen.insert(CallId::new(format!("{stem}_{number}"))) {
            number += 1;
        }
        call.id = CallId::new(format!("{stem}_{number}"));
        warnings.push(Warning::NewId { was, now: call.id.clone() });
    }
    fresh
}

const FOREIGN_STAND_INS: [&str; 4] =
    ["(interrupted)", "[interrupted]", "(no result recorded)", "[request interrupted by user for tool use]"];
