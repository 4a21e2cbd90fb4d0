//! Taking in a model's reply: what the calls are decides, not the finish reason (contract 3.3).

use crate::id::{CallId, RequestId};
use crate::json;
use crate::message::{Call, Message};
use crate::reply::{Reply, ReplyCall, Stop};
use crate::request::{RelayCall, Request};
use crate::run::event::Event;
use crate::run::io::{Effect, Failure, Outcome, Output};
use crate::run::turn::{Slot, Turn, ready};
use crate::run::{Phase, Run, texts};
use crate::tool::{self, ToolKind, ToolOutput, Tools};

impl Run {
    pub(super) fn take_reply(&mut self, mut reply: Reply, tools: &dyn Tools) {
        self.usage += reply.usage;
        self.tell(|| Event::Usage(reply.usage));
        if reply.model.is_some() {
            self.model = reply.model.take();
        }
        self.stop = Some(reply.stop.clone());
        self.text = json::cleaned(std::mem::take(&mut reply.text));
        let calls = self.name_calls(std::mem::take(&mut reply.calls), tools);
        if reply.stop == Stop::Paused && calls.is_empty() && self.pauses < MAX_PAUSES {
            self.pauses += 1;
            self.transcript.push(Message::assistant_reply(&self.text, calls, reply.provider));
            self.ask_model();
            return;
        }
        self.turns += 1;
        self.pauses = 0;
        self.tell_ready(&calls);
        if calls.is_empty() {
            self.take_text(reply);
        } else if reply.stop.cuts_calls() {
            self.refuse_calls(reply, calls);
        } else {
            self.wasted = 0;
            self.transcript.push(Message::assistant_reply(&self.text, calls.clone(), reply.provider));
            self.open_turn(calls, tools);
        }
    }

    fn take_text(&mut self, reply: Reply) {
        let after_results = self.transcript.messages().last().is_some_and(|message| message.result().is_some());
        let promised = matches!(reply.stop, Stop::Calls | Stop::Length | Stop::Malformed);
        let nothing_said = self.text.is_empty() && (reply.reasoned || promised);
        if nothing_said && !(after_results && reply.stop == Stop::End) && reply.stop != Stop::ContextOverflow {
            self.wasted += 1;
            if self.wasted > MAX_WASTED {
                self.end(Outcome::Failed(Failure::EmptyReply { turns: self.wasted }));
            } else {
                self.ask_model();
            }
            return;
        }
        self.wasted = 0;
        let overflow = reply.stop == Stop::ContextOverflow;
        if !(overflow && self.text.is_empty()) {
            self.transcript.push(Message::assistant_reply(&self.text, Vec::new(), reply.provider));
        }
        self.end(if overflow { Outcome::Failed(Failure::ContextOverflow) } else { Outcome::Finished });
    }

    /// A reply that was cut or refused: none of its calls runs.
    fn refuse_calls(&mut self, reply: Reply, calls: Vec<Call>) {
        let output = ToolOutput::failed(tool::Outcome::NotRun, texts::cut(&reply.stop));
        self.transcript.push(Message::assistant_reply(&self.text, calls.clone(), reply.provider));
        for call in &calls {
            let result = Message::tool_result(&call.id, &output);
            self.tell(|| Event::ended(call, &result));
            self.transcript.push(result);
        }
        self.wasted += 1;
        if reply.stop == Stop::ContextOverflow {
            self.end(Outcome::Failed(Failure::ContextOverflow));
        } else if self.wasted > MAX_WASTED {
            self.end(Outcome::Failed(Failure::CutReply { stop: reply.stop, turns: self.wasted }));
        } else {
            self.ask_model();
        }
    }

    /// The calls under the host's names, each with an id that is new in the transcript (1.7).
    fn name_calls(&mut self, calls: Vec<ReplyCall>, tools: &dyn Tools) -> Vec<Call> {
        let Self { transcript, ids, .. } = self;
        let known = transcript.messages().iter().flat_map(Message::calls);
        let mut named: Vec<Call> = Vec::with_capacity(calls.len());
        for call in calls {
            let is_known = |id: &CallId| known.clone().any(|call| call.id == *id);
            let is_taken = |id: &CallId| named.iter().any(|call| call.id == *id) || is_known(id);
            let id = CallId::fresh(call.id, is_taken, ids);
            let name = tools.resolve(&call.name).map_or_else(|| json::cleaned(call.name), str::to_owned);
            named.push(Call { id, name, arguments: json::cleaned(call.arguments) });
        }
        named
    }

    /// Starts all calls of a turn together (contract 3.1). Relay calls park at once: each on a
    /// request of its own where the host is asked inline, else all on one.
    fn open_turn(&mut self, calls: Vec<Call>, tools: &dyn Tools) {
        let mut slots = Vec::with_capacity(calls.len());
        let mut relayed: Vec<(usize, RelayCall)> = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            slots.push(match ready(call, tools) {
                Ok((ToolKind::Local, input)) => {
                    let effect = self.effect_id();
                    let (call, name) = (call.id.clone(), call.name.clone());
                    self.want(Effect::CallTool { id: effect, call, name, input, answer: None });
                    Slot::Running { effect, answer: None }
                }
                Ok((ToolKind::Relay, input)) => {
                    let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
                    relayed.push((at, RelayCall { id, name, input, arguments }));
                    Slot::Waiting { request: RequestId::new("") }
                }
                Err(text) => {
                    let result = Message::tool_result(&call.id, &ToolOutput::failed(tool::Outcome::Error, text));
                    self.tell(|| Event::ended(call, &result));
                    Slot::Done(result)
                }
            });
        }
        self.phase = Phase::Turn(Turn { calls, slots, requests: Vec::new() });
        self.park_relayed(relayed, tools);
        self.close_turn_if_over();
    }

    pub(super) fn park_relayed(&mut self, relayed: Vec<(usize, RelayCall)>, tools: &dyn Tools) {
        let (places, calls): (Vec<usize>, Vec<RelayCall>) = relayed.into_iter().unzip();
        if self.inline {
            for (at, call) in places.into_iter().zip(calls) {
                let expires_at_ms = tools.expires_at_ms(&call.name);
                let request = Request::relay(self.ids.request(), &[call]);
                self.wait_for(at, request.expiring(expires_at_ms));
            }
        } else if !calls.is_empty() {
            let soonest = calls.iter().filter_map(|call| tools.expires_at_ms(&call.name)).min();
            let request = Request::relay(self.ids.request(), &calls).expiring(soonest);
            let Phase::Turn(turn) = &mut self.phase else { return };
            for at in places {
                turn.slots[at] = Slot::Waiting { request: request.id.clone() };
            }
            let told = self.events.then(|| Output::Event(Event::Parked(request.clone())));
            turn.requests.push(request);
            self.outputs.extend(told);
        }
    }
}

/// Cut, refused or empty replies that may follow each other (contract 3.3: "at most twice").
const MAX_WASTED: u32 = 2;
/// Pauses of a provider's own tools that may follow each other.
const MAX_PAUSES: u32 = 16;
