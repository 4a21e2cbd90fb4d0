//! What the model reads when a call did not simply succeed (contract 3.4). Each outcome has words
//! of its own, so that the model never plans on a false fact.

use crate::answer::Reason;
use crate::message::Pending;
use crate::reply::Stop;
use crate::tool::{Outcome, ToolOutput};

pub(crate) const INTERRUPTED: &str = "interrupted: the call had started and may have run; its result is not known";
pub(crate) const NOT_STARTED: &str = "not run: the run was stopped before this call started";

pub(crate) const RELAY_KIND_TAKEN: &str =
    "the tool parked with the kind tool_call, which only relay tools have; it must park with a kind of its own";

/// For a call that a prompt took the place of. The host was shown a relay call, and may be executing it.
pub(crate) fn superseded(pending: &Pending) -> ToolOutput {
    let text = if pending.is_relay() {
        "superseded: a new prompt came before an answer; the call may or may not have been executed"
    } else {
        "superseded: a new prompt came before an answer; the call was not executed"
    };
    ToolOutput::failed(Outcome::Superseded, text)
}

/// The outcome and text for a call of a request that was not answered, or not with a result.
pub(crate) fn refusal(reason: Option<Reason>, is_relay: bool) -> (Outcome, &'static str) {
    match reason {
        None | Some(Reason::Declined) => (Outcome::Declined, "declined: the call was refused and was not executed"),
        Some(Reason::Cancelled) => {
            (Outcome::Cancelled, "cancelled: the host gave up on the call before it had a result")
        }
        // The host was shown a relay call, and may be executing it.
        Some(Reason::Expired) if is_relay => {
            (Outcome::Expired, "expired: nobody answered in time; the call may or may not have been executed")
        }
        Some(Reason::Expired) => (Outcome::Expired, "expired: nobody answered in time; the call was not executed"),
    }
}

pub(crate) fn missing(name: &str) -> String {
    format!("no result supplied on resume for {name}")
}

pub(crate) fn unresolved(prompt: &str) -> String {
    format!("unresolved: {prompt}")
}

/// A call of a reply that was cut or refused (contract 3.3).
pub(crate) fn cut(stop: &Stop) -> String {
    let cause = match stop {
        Stop::Length => "the output limit cut the reply",
        Stop::Filtered => "a content filter cut the reply",
        Stop::Refused => "the reply was a refusal",
        Stop::ContextOverflow => "the context window was full",
        Stop::Malformed | Stop::End | Stop::Calls | Stop::Paused | Stop::Other(_) => {
            "the provider could not read the call"
        }
    };
    format!("not run: {cause}, so the call may be incomplete; make it again, smaller if needed")
}

/// A call of a tool that does not exist; the list of names is bounded.
pub(crate) fn unknown_tool(name: &str, known: &[&str]) -> String {
    let shown = known.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = known.len().saturating_sub(NAMES_SHOWN);
    let name: String = name.chars().take(NAME_CHARS).collect();
    match (known.is_empty(), more) {
        (true, _) => format!("unknown tool {name:?}: there are no tools"),
        (false, 0) => format!("unknown tool {name:?}: the tools are {shown}"),
        (false, _) => format!("unknown tool {name:?}: the tools are {shown} and {more} more"),
    }
}

const NAMES_SHOWN: usize = 40;
const NAME_CHARS: usize = 80;
