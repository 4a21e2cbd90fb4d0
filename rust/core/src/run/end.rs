//! The ends of a run: stopped from outside, or over by itself.

use std::collections::VecDeque;

use crate::id::EffectId;
use crate::run::event::Event;
use crate::run::io::{Effect, Outcome, Output};
use crate::run::turn::Slot;
use crate::run::{Phase, Run, texts};
use crate::tool::{self, ToolOutput};

impl Run {
    /// Stops what is under way: calls that run are interrupted, calls that wait stay parked.
    pub(super) fn stop(&mut self, outcome: Outcome) {
        let under_way: Vec<(EffectId, bool)> = match &mut self.phase {
            Phase::Model(id) => vec![(*id, is_started(*id, &self.outputs))],
            Phase::Turn(turn) => {
                let effects = turn.slots.iter().filter_map(Slot::effect);
                effects.map(|id| (id, is_started(id, &self.outputs))).collect()
            }
            Phase::Ended(_) => return,
        };
        for (id, is_started) in &under_way {
            self.stop_call(*id, *is_started);
        }
        for (id, is_started) in under_way {
            if is_started {
                self.want(Effect::Abort { id });
            } else {
                self.take_back(id);
            }
        }
        self.end(outcome);
    }

    fn stop_call(&mut self, effect: EffectId, is_started: bool) {
        let Ok((turn, at)) = self.slot(effect, |_| true) else { return };
        match &turn.slots[at] {
            Slot::Asking { request, .. } => turn.slots[at] = Slot::Waiting { request: request.clone() },
            Slot::Running { .. } if is_started => {
                self.settle(at, &ToolOutput::failed(tool::Outcome::Interrupted, texts::INTERRUPTED));
            }
            Slot::Running { .. } => {
                self.settle(at, &ToolOutput::failed(tool::Outcome::NotRun, texts::NOT_STARTED));
            }
            Slot::Waiting { .. } | Slot::Done(_) => {}
        }
    }

    /// Takes an effect back that was not drained, and that it was started.
    fn take_back(&mut self, id: EffectId) {
        let Some(at) = self.outputs.iter().position(|output| is_effect(output, id)) else { return };
        self.outputs.remove(at);
        if matches!(self.outputs.get(at), Some(Output::Event(Event::ToolStarted { .. }))) {
            self.outputs.remove(at);
        }
    }

    /// Ends the run with a balanced transcript.
    pub(super) fn end(&mut self, outcome: Outcome) {
        let ended = Phase::Ended(outcome.clone());
        if let Phase::Turn(mut turn) = std::mem::replace(&mut self.phase, ended) {
            let told = if self.events { turn.outstanding() } else { Vec::new() };
            turn.merge_relay_requests();
            self.suspensions = turn.outstanding();
            if self.events {
                let merged = self.suspensions.iter().filter(|request| !told.contains(request));
                self.outputs.extend(merged.cloned().map(|request| Output::Event(Event::Parked(request))));
            }
            for message in turn.into_messages(self.turns) {
                self.transcript.push(message);
            }
        }
        self.outputs.push_back(Output::Done(outcome));
    }
}

fn is_started(id: EffectId, outputs: &VecDeque<Output>) -> bool {
    !outputs.iter().any(|output| is_effect(output, id))
}

fn is_effect(output: &Output, id: EffectId) -> bool {
    matches!(output, Output::Effect(effect) if effect.id() == id)
}
