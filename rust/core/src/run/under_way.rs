//! What is under way in a run, for whoever keeps it: nobody is asked and no tool starts before it is kept.

use crate::answer::Answer;
use crate::message::Message;
use crate::run::turn::{Slot, Turn};
use crate::run::{Phase, Run};

impl Run {
    /// Results of the turn under way that are known, with their places in the transcript.
    pub fn settled(&self) -> Vec<(usize, &Message)> {
        let base = self.transcript.len();
        self.turn().map_or_else(Vec::new, |turn| turn.settled().map(|(at, message)| (base + at, message)).collect())
    }

    /// The placeholders that the waiting calls of the turn under way would have, with their places in the transcript.
    pub fn parked(&self) -> Vec<(usize, Message)> {
        let base = self.transcript.len();
        let placed =
            |turn: &Turn| turn.placeholders(self.turns).into_iter().map(|(at, message)| (base + at, message)).collect();
        self.turn().map_or_else(Vec::new, placed)
    }

    /// The answers with which tools of the turn under way run once more.
    pub fn answers<'a>(&'a self) -> Vec<&'a Answer> {
        let answer = |slot: &'a Slot| match slot {
            Slot::Running { answer, .. } => answer.as_deref(),
            Slot::Asking { .. } | Slot::Waiting { .. } | Slot::Done(_) => None,
        };
        self.turn().map_or_else(Vec::new, |turn| turn.slots.iter().filter_map(answer).collect())
    }

    fn turn(&self) -> Option<&Turn> {
        match &self.phase {
            Phase::Turn(turn) => Some(turn),
            Phase::Model(_) | Phase::Ended(_) => None,
        }
    }
}
