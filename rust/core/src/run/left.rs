//! A run that another worker left: going on with it (contract 7.6), or settling what it left.

use crate::answer::{Answer, Reason};
use crate::id::CallId;
use crate::message::{Message, Pending};
use crate::repair::{self, Conflict, Mended, Warning};
use crate::request::RelayCall;
use crate::run::event::Event;
use crate::run::io::Effect;
use crate::run::start::{StartError, has_open_end, is_turn};
use crate::run::turn::{Slot, ready};
use crate::run::{Phase, Run, RunConfig, texts};
use crate::suspension::{NotSuspended, Parked, Suspension};
use crate::tool::{Outcome, ToolKind, ToolOutput, Tools};
use crate::transcript::Transcript;

/// What is known of a run that another worker left, beside its transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The place of its first message.
    pub first: usize,
    /// The model turns that it had used before that.
    pub turns: u32,
    /// The answers with which tools of its last turn ran once more.
    pub answers: Vec<(CallId, Answer)>,
    /// Nobody worked on it: none of its tools was started.
    pub unstarted: bool,
}

impl Run {
    /// Takes up a run that another worker left, as its transcript stands. Of the calls that were
    /// under way a relay call parks, a tool that is declared safe to retry runs again, and any other
    /// was interrupted, unless nobody had begun to work. Calls that wait go on waiting for the same requests.
    pub fn go_on(
        history: &Transcript,
        left: &Left,
        config: &RunConfig,
        tools: &dyn Tools,
    ) -> Result<(Self, Vec<Warning>), StartError> {
        let Mended { transcript, mut warnings } = repair::mend_cut_off(history)?;
        let since = transcript.messages().iter().skip(left.first + 1).filter(|message| is_turn(message)).count();
        let turns = left.turns.saturating_add(u32::try_from(since).unwrap_or(u32::MAX));
        let run = match Suspension::from_transcript(transcript.clone()) {
            Ok(suspension) => {
                let slots = suspension.slots.iter().enumerate();
                let open = slots.filter(|(_, slot)| **slot == Parked::Unanswered).map(|(at, _)| at).collect();
                if let Some(call) = suspension.changed.first() {
                    return Err(StartError::CallChanged { call: call.id.clone(), tool: call.name.clone() });
                }
                let mut run = Self::restore(suspension, None, config);
                run.first = left.first;
                run.turns = if run.turns == 0 { turns } else { run.turns };
                run.ask_again();
                run.take_up(open, left, tools, &mut warnings);
                run.close_turn_if_over();
                run
            }
            Err(NotSuspended::Settled) if has_open_end(&transcript) => {
                let mut run = Self::new(transcript, left.first, config);
                run.turns = turns;
                run.ask_model();
                run
            }
            Err(NotSuspended::Settled | NotSuspended::Empty | NotSuspended::Stale) => {
                return Err(StartError::NothingToDo);
            }
        };
        Ok((run, warnings))
    }

    /// Goes on with the calls at these places, which were under way.
    fn take_up(&mut self, open: Vec<usize>, left: &Left, tools: &dyn Tools, warnings: &mut Vec<Warning>) {
        let mut relayed = Vec::new();
        for at in open {
            let id = self.effect_id();
            let Phase::Turn(turn) = &mut self.phase else { return };
            let call = turn.calls[at].clone();
            match ready(&call, tools) {
                Ok((ToolKind::Relay, input)) => {
                    relayed.push((at, RelayCall { id: call.id, name: call.name, input, arguments: call.arguments }));
                }
                Ok((ToolKind::Local, input)) if left.unstarted || tools.is_retry_safe(&call.name) => {
                    let answer = left.answers.iter().find(|(answered, _)| *answered == call.id);
                    let answer = answer.map(|(_, answer)| answer.clone());
                    turn.slots[at] = Slot::Running { effect: id, answer: answer.clone().map(Box::new) };
                    self.want(Effect::CallTool { id, call: call.id, name: call.name, input, answer });
                }
                Ok((ToolKind::Local, _)) | Err(_) => {
                    warnings.push(Warning::NoResult { call: call.id, name: call.name });
                    self.settle(at, &ToolOutput::failed(Outcome::Interrupted, texts::INTERRUPTED));
                }
            }
        }
        self.park_relayed(relayed, tools);
    }

    /// Tells what calls go on waiting for. Where the host can be asked inline, it is asked once more for a call that waits
    /// alone for its request.
    fn ask_again(&mut self) {
        let Phase::Turn(turn) = &self.phase else { return };
        for request in turn.outstanding() {
            let id = self.effect_id();
            let Phase::Turn(turn) = &mut self.phase else { return };
            let mut waiting = turn.slots.iter_mut().filter(|slot| slot.request() == Some(&request.id));
            match (waiting.next(), waiting.next()) {
                (Some(slot), None) if self.inline => {
                    *slot = Slot::Asking { effect: id, request: request.id.clone() };
                    self.want(Effect::Ask { id, request });
                }
                _ => self.tell(|| Event::Parked(request)),
            }
        }
    }
}

/// The history of a run with which nobody goes on: parked calls are settled for this reason or, without
/// one, go on waiting, and those that were under way have been interrupted.
pub fn settle(history: &Transcript, reason: Option<Reason>) -> Result<Mended, Conflict> {
    let Mended { transcript, mut warnings } = repair::mend_cut_off(history)?;
    let Ok(suspension) = Suspension::from_transcript(transcript.clone()) else {
        return Ok(Mended { transcript, warnings });
    };
    let mut parked =
        transcript.messages().iter().skip(suspension.prefix.len()).filter(|message| message.is_placeholder());
    let mut settled = suspension.prefix.clone();
    for (call, slot) in suspension.calls().iter().zip(&suspension.slots) {
        let placeholder = if matches!(slot, Parked::Waiting(_)) { parked.next() } else { None };
        let pending = placeholder.and_then(|message| message.result()?.pending.as_deref());
        let output = reason.map(|reason| refusal(reason, pending.is_some_and(Pending::is_relay)));
        settled.push(match (slot, &output, placeholder) {
            (Parked::Settled(message), _, _) | (Parked::Waiting(_), None, Some(message)) => message.clone(),
            (Parked::Waiting(_), Some(output), _) => Message::tool_result(&call.id, output),
            (Parked::Unanswered, _, _) | (Parked::Waiting(_), None, None) => {
                warnings.push(Warning::NoResult { call: call.id.clone(), name: call.name.clone() });
                Message::tool_result(&call.id, &ToolOutput::failed(Outcome::Interrupted, texts::INTERRUPTED))
            }
        });
    }
    Ok(Mended { transcript: settled, warnings })
}

/// What a call gets for which nobody gave a result; the host was shown a relay call, and may have executed it.
pub fn refusal(reason: Reason, is_relay: bool) -> ToolOutput {
    let (outcome, text) = texts::refusal(Some(reason), is_relay);
    ToolOutput::failed(outcome, text)
}
