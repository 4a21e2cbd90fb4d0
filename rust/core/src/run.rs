//! One run of the agent loop, as a pure machine: from a prompt or an answer to its end.
//!
//! The machine owns the turns, what each call's slot is, when the turn is over and what a halt
//! asks for. The driver owns everything that takes time: it feeds what happened to
//! [`Run::handle`], then drains [`Run::poll`] and does what it is told.
//!
//! One mutation, then drain. Effects carry ids; an input with an unknown id is refused and
//! changes nothing.

mod end;
pub mod event;
pub mod io;
mod left;
mod record;
mod reply;
mod saved;
mod start;
pub(crate) mod texts;
mod turn;
mod under_way;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Reason};
use crate::id::{EffectId, IdSource};
use crate::message::Message;
use crate::reply::{Stop, Usage};
use crate::request::{RELAY_KIND, Request};
use crate::resume::{self, Missing, Step};
use crate::run::event::Event;
use crate::run::io::{Effect, Failure, Input, Limit, Outcome, Output, Park, Refused};
use crate::run::turn::{Slot, Turn};
use crate::tool::{self, ToolOutput, Tools};
use crate::transcript::Transcript;

pub use left::{Left, refusal, settle};
pub use record::CallRecord;
pub use saved::SavedError;
pub use start::{OnPending, StartError};

/// What a run is started with.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Model turns allowed from the prompt on, suspensions included (contract 3.6).
    pub max_turns: u32,
    /// Whether the host can be asked inline (contract 4); otherwise the run halts.
    pub inline: bool,
    /// Whether it tells what happens (`Output::Event`), for somebody who watches.
    pub events: bool,
    /// 256 bits of entropy for ids. No two runs may share them.
    pub seed: [u8; 32],
}

/// A run. Its state is a value: [`Run::to_json`] at any point gives all of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    ids: IdSource,
    max_turns: u32,
    inline: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    events: bool,
    effects: u64,
    #[serde(with = "saved::transcript")]
    transcript: Transcript,
    first: usize,
    phase: Phase,
    turns: u32,
    wasted: u32,
    pauses: u32,
    ask_failure: Option<Failure>,
    suspensions: Vec<Request>,
    text: String,
    stop: Option<Stop>,
    model: Option<String>,
    usage: Usage,
    outputs: VecDeque<Output>,
}

/// What a run awaits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// A model call.
    Model(EffectId),
    /// The calls of a turn.
    Turn(Turn),
    /// Nothing.
    Ended(Outcome),
}

impl Run {
    /// Takes in what happened. A refused input changes nothing.
    pub fn handle(&mut self, input: Input, tools: &dyn Tools) -> Result<(), Refused> {
        if matches!(self.phase, Phase::Ended(_)) {
            return Err(Refused::Ended);
        }
        match input {
            Input::ModelEnded { effect, reply } => {
                self.expect_model(effect)?;
                self.take_reply(reply, tools);
            }
            Input::ModelFailed { effect, failure } => {
                self.expect_model(effect)?;
                self.end(Outcome::Failed(Failure::Model(failure)));
            }
            Input::ToolFinished { effect, output } => self.settle_effect(effect, Slot::is_running, &output)?,
            Input::ToolParked { effect, park } => self.park(effect, park, tools)?,
            Input::Answered { effect, answer } => self.answer(effect, &answer, tools)?,
            Input::NotHere { effect } => self.leave_parked(effect, None)?,
            Input::AskFailed { effect } => self.leave_parked(effect, Some(Failure::AskFailed))?,
            Input::AskExpired { effect } => {
                let (turn, at) = self.slot(effect, Slot::is_asking)?;
                let output = refusal(Reason::Expired, turn.request_of(at).is_some_and(Request::is_relay));
                self.settle_effect(effect, Slot::is_asking, &output)?;
            }
            Input::TimedOut => self.stop(Outcome::Exhausted(Limit::Timeout)),
            Input::Cancelled => self.stop(Outcome::Cancelled),
        }
        Ok(())
    }

    /// The next thing the run wants done; `None` when it waits for an input or has ended.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The transcript. While the calls of a turn are under way it ends with their assistant
    /// message; at the end it is balanced, with placeholders for parked calls.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Takes the transcript of a run that has ended.
    pub fn into_transcript(self) -> Transcript {
        self.transcript
    }

    /// Takes the transcript of a run that has ended, and the text of its last reply.
    pub fn into_parts(self) -> (Transcript, String) {
        (self.transcript, self.text)
    }

    /// How the run ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::Model(_) | Phase::Turn(_) => None,
        }
    }

    /// The outstanding requests of a run that has ended, in call order (contract 5.2).
    pub fn suspensions(&self) -> &[Request] {
        &self.suspensions
    }

    /// The place of this run's first message: its prompt, or the halted assistant message.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The text of the last reply.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why the last reply ended, if there was one.
    pub fn finish_reason(&self) -> Option<&str> {
        self.stop.as_ref().map(Stop::as_str)
    }

    /// The model that answered last, as the provider names it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Model turns since the prompt, those before a halt included.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Tokens of this run.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    fn expect_model(&self, effect: EffectId) -> Result<(), Refused> {
        if self.phase == Phase::Model(effect) { Ok(()) } else { Err(Refused::UnknownEffect(effect)) }
    }

    fn effect_id(&mut self) -> EffectId {
        self.effects += 1;
        EffectId(self.effects)
    }

    fn want(&mut self, effect: Effect) {
        let event = if self.events { Event::of(&effect) } else { None };
        self.outputs.push_back(Output::Effect(effect));
        self.outputs.extend(event.map(Output::Event));
    }

    fn ask_model(&mut self) {
        if self.turns >= self.max_turns {
            self.end(Outcome::Exhausted(Limit::MaxTurns));
            return;
        }
        let id = self.effect_id();
        self.phase = Phase::Model(id);
        self.want(Effect::CallModel { id });
    }

    /// The open turn and the place of the slot that this effect stands in.
    fn slot(&mut self, effect: EffectId, fits: fn(&Slot) -> bool) -> Result<(&mut Turn, usize), Refused> {
        let Phase::Turn(turn) = &mut self.phase else { return Err(Refused::UnknownEffect(effect)) };
        match turn.slots.iter().position(|slot| slot.effect() == Some(effect) && fits(slot)) {
            Some(at) => Ok((turn, at)),
            None => Err(Refused::UnknownEffect(effect)),
        }
    }

    fn settle_effect(&mut self, effect: EffectId, fits: fn(&Slot) -> bool, output: &ToolOutput) -> Result<(), Refused> {
        let (_, at) = self.slot(effect, fits)?;
        self.settle(at, output);
        self.close_turn_if_over();
        Ok(())
    }

    /// Gives the call at `at` its result.
    fn settle(&mut self, at: usize, output: &ToolOutput) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        let result = Message::tool_result(&turn.calls[at].id, output);
        if self.events {
            self.outputs.push_back(Output::Event(Event::ended(&turn.calls[at], &result)));
        }
        turn.slots[at] = Slot::Done(result);
    }

    fn park(&mut self, effect: EffectId, park: Park, tools: &dyn Tools) -> Result<(), Refused> {
        let (turn, at) = self.slot(effect, Slot::is_running)?;
        let answered = matches!(turn.slots[at], Slot::Running { answer: Some(_), .. });
        if answered || park.kind == RELAY_KIND {
            let text = if answered { texts::unresolved(&park.prompt) } else { texts::RELAY_KIND_TAKEN.to_owned() };
            self.settle(at, &ToolOutput::failed(tool::Outcome::Error, text));
            self.close_turn_if_over();
            return Ok(());
        }
        let expires_at_ms = tools.expires_at_ms(&turn.calls[at].name);
        let request = Request {
            id: self.ids.request_for(effect),
            kind: park.kind,
            prompt: park.prompt,
            url: park.url,
            data: park.data,
            expires_at: park.expires_at,
        };
        self.wait_for(at, request.cleaned().expiring(expires_at_ms));
        self.close_turn_if_over();
        Ok(())
    }

    /// Parks the call at `at`: asks inline where the host can be asked, else leaves it waiting.
    fn wait_for(&mut self, at: usize, request: Request) {
        let id = self.effect_id();
        let inline = self.inline;
        let Phase::Turn(turn) = &mut self.phase else { return };
        turn.requests.push(request.clone());
        turn.slots[at] = if inline {
            Slot::Asking { effect: id, request: request.id.clone() }
        } else {
            Slot::Waiting { request: request.id.clone() }
        };
        if inline {
            self.want(Effect::Ask { id, request });
        } else {
            self.tell(|| Event::Parked(request));
        }
    }

    fn answer(&mut self, effect: EffectId, answer: &Answer, tools: &dyn Tools) -> Result<(), Refused> {
        let (turn, at) = self.slot(effect, Slot::is_asking)?;
        let Some(request) = turn.request_of(at).cloned() else { return Err(Refused::UnknownEffect(effect)) };
        let call = turn.calls[at].clone();
        let planned = resume::plan_calls(&turn.calls, &[(at, &call)], &request, answer, Missing::Error);
        match planned {
            Ok(steps) => {
                for (at, step) in steps {
                    self.take_step(at, step, answer, tools);
                }
            }
            Err(error) => {
                turn.slots[at] = Slot::Waiting { request: request.id };
                self.ask_failure = Some(Failure::BadAnswer(error));
            }
        }
        self.close_turn_if_over();
        Ok(())
    }

    /// Does one step of a checked answer.
    fn take_step(&mut self, at: usize, step: Step, answer: &Answer, tools: &dyn Tools) {
        let id = self.effect_id();
        let Phase::Turn(turn) = &mut self.phase else { return };
        let output = match step {
            Step::Settle(output) => output,
            Step::RunTool => {
                let call = turn.calls[at].clone();
                match turn::ready(&call, tools) {
                    Ok((tool::ToolKind::Local, input)) => {
                        let answer = Some(answer.clone());
                        turn.slots[at] = Slot::Running { effect: id, answer: answer.clone().map(Box::new) };
                        self.want(Effect::CallTool { id, call: call.id, name: call.name, input, answer });
                        return;
                    }
                    Ok((tool::ToolKind::Relay, _)) => {
                        ToolOutput::failed(tool::Outcome::Error, texts::unknown_tool(&call.name, &tools.names()))
                    }
                    Err(text) => ToolOutput::failed(tool::Outcome::Error, text),
                }
            }
        };
        self.settle(at, &output);
    }

    fn leave_parked(&mut self, effect: EffectId, failure: Option<Failure>) -> Result<(), Refused> {
        let (turn, at) = self.slot(effect, Slot::is_asking)?;
        if let Slot::Asking { request, .. } = &turn.slots[at] {
            turn.slots[at] = Slot::Waiting { request: request.clone() };
        }
        if failure.is_some() {
            self.ask_failure = failure;
        }
        self.close_turn_if_over();
        Ok(())
    }

    /// Nothing running and something parked is a halt; nothing running and nothing parked is the
    /// next turn (contract 3.1).
    fn close_turn_if_over(&mut self) {
        let Phase::Turn(turn) = &mut self.phase else { return };
        if turn.slots.iter().any(|slot| slot.effect().is_some()) {
            return;
        }
        if turn.is_settled() {
            for message in turn.take_results() {
                self.transcript.push(message);
            }
            self.ask_model();
            return;
        }
        let outcome = self.ask_failure.take().map_or(Outcome::Suspended, Outcome::Failed);
        self.end(outcome);
    }
}

impl Effect {
    /// The id that inputs name.
    pub fn id(&self) -> EffectId {
        match self {
            Self::CallModel { id } | Self::CallTool { id, .. } | Self::Ask { id, .. } | Self::Abort { id } => *id,
        }
    }
}
