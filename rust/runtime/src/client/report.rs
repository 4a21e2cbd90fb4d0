//! What a caller is told of a run that has ended.

use toolrelay_core::repair::Warning;
use toolrelay_core::reply::Usage;
use toolrelay_core::request::Request;
use toolrelay_core::run::Run;
use toolrelay_core::run::io::Outcome;
use toolrelay_core::transcript::Transcript;

use crate::conversation::Replay;

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The balanced transcript.
    pub transcript: Transcript,
    /// The place of the run's first message.
    pub first: usize,
    /// The text of the last reply.
    pub text: String,
    /// Why the last reply ended.
    pub finish_reason: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Model turns since the prompt.
    pub turns: u32,
    /// Tokens of this run.
    pub usage: Usage,
    /// Outstanding requests in call order.
    pub suspensions: Vec<Request>,
    /// What mending the history changed.
    pub warnings: Vec<Warning>,
}

impl Report {
    pub(super) fn of(run: Run, warnings: Vec<Warning>) -> Self {
        let outcome = run.outcome().cloned().unwrap_or(Outcome::Cancelled);
        let (first, turns, usage) = (run.first(), run.turns(), run.usage());
        let (finish_reason, model) = (run.finish_reason().map(str::to_owned), run.model().map(str::to_owned));
        let suspensions = run.suspensions().to_vec();
        let (transcript, text) = run.into_parts();
        Self { outcome, transcript, first, text, finish_reason, model, turns, usage, suspensions, warnings }
    }

    /// The report of a run that was made before, told again.
    pub(super) fn again(replay: Replay, transcript: Transcript, suspensions: Vec<Request>) -> Self {
        let outcome = match replay.limit {
            Some(limit) => Outcome::Exhausted(limit),
            None if !suspensions.is_empty() => Outcome::Suspended,
            None => Outcome::Finished,
        };
        Self {
            outcome,
            first: replay.first,
            text: replay.text(&transcript),
            transcript,
            finish_reason: replay.finish_reason,
            model: replay.model,
            turns: replay.turns,
            usage: replay.usage,
            suspensions,
            warnings: Vec::new(),
        }
    }
}
