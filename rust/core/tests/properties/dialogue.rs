//! A random dialogue over several runs, with every promise about a run checked at every step.

use bytes::Bytes;
use serde_json::Value;
use toolrelay_core::message::Message;
use toolrelay_core::repair::mend;
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::io::{Effect, Input, Limit, Outcome, Output};
use toolrelay_core::run::{OnPending, Run, RunConfig, StartError};
use toolrelay_core::transcript::Transcript;

use crate::choices::Choices;
use crate::told::Told;
use crate::tools::Toolkit;
use crate::{sound, world};

/// What happens to the state on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// It stays in memory.
    None,
    /// Every run goes through its JSON after every step.
    RunAtEveryStep,
    /// Every transcript goes through its JSON between runs.
    TranscriptBetweenRuns,
    /// The same, by a store that sorts keys and spells JSON anew, as `jsonb` does.
    JsonbBetweenRuns,
}

/// Plays a dialogue; gives everything that a driver could see, one line each.
pub(crate) fn play(choices: Choices, storage: Storage) -> Vec<String> {
    play_watched(choices, storage, false)
}

/// The same with events or without; they are checked, and stand in no line.
pub(crate) fn play_watched(mut choices: Choices, storage: Storage, events: bool) -> Vec<String> {
    let mut stage = Stage {
        tools: world::tools(),
        config: RunConfig { max_turns: 0, inline: false, events, seed: [0; 32] },
        storage,
        history: Transcript::default(),
        requests: Vec::new(),
        turns: 0,
        log: Vec::new(),
    };
    stage.config.max_turns = u32::try_from(choices.below(8)).unwrap();
    stage.config.inline = choices.once_in(2);
    for number in 0..6 {
        stage.config.seed = [number; 32];
        let Some(run) = stage.start(&mut choices) else { continue };
        stage.run(run, &mut choices);
        if choices.are_used_up() {
            break;
        }
    }
    stage.log
}

struct Stage {
    tools: Toolkit,
    config: RunConfig,
    storage: Storage,
    history: Transcript,
    requests: Vec<Request>,
    turns: u32,
    log: Vec<String>,
}

impl Stage {
    fn start(&mut self, choices: &mut Choices) -> Option<Run> {
        let history = self.history.clone();
        let prompt = Some(Message::user("go \0 on"));
        if self.requests.is_empty() {
            self.turns = 0;
            return Some(Run::start(history, prompt, OnPending::Refuse, &self.config).unwrap().0);
        }
        match choices.below(6) {
            0 => {
                let refused = Run::start(history, prompt, OnPending::Refuse, &self.config).unwrap_err();
                assert!(matches!(refused, StartError::Pending { .. }));
                self.log.push(refused.to_string());
                None
            }
            1 => {
                self.turns = 0;
                Some(Run::start(history, prompt, OnPending::Supersede, &self.config).unwrap().0)
            }
            _ => {
                let request = choices.of(&self.requests);
                let missing = choices.of(&[Missing::Error, Missing::Wait]);
                let bad = world::bad_answer(&request, choices);
                let refused = Run::resume(history.clone(), &request, &bad, missing, None, &self.config, &self.tools);
                if request.is_relay() || bad.id != request.id {
                    assert!(refused.unwrap_err().to_string().starts_with("cannot resume"));
                }
                let answer = world::answer(&request, choices);
                let resumed = Run::resume(history, &request, &answer, missing, Some(0), &self.config, &self.tools);
                let (run, warnings) = resumed.unwrap();
                assert!(warnings.is_empty(), "{warnings:?}");
                assert_eq!(run.transcript().messages()[..run.first()], self.history.messages()[..run.first()]);
                Some(run)
            }
        }
    }

    fn run(&mut self, mut run: Run, choices: &mut Choices) {
        let mut open: Vec<Effect> = Vec::new();
        let mut started = 0;
        let mut told = Told::default();
        loop {
            while let Some(output) = run.poll() {
                told.take(&output);
                if let Output::Event(_) = output {
                    continue;
                }
                self.log.push(format!("{output:?}"));
                match output {
                    Output::Event(_) => {}
                    Output::Effect(Effect::Abort { id }) => {
                        let before = open.len();
                        open.retain(|effect| effect.id() != id);
                        assert_eq!(open.len() + 1, before, "an abort ends exactly one effect");
                    }
                    Output::Effect(effect) => {
                        assert!(effect.id().0 > started, "effect ids only grow");
                        started = effect.id().0;
                        open.push(effect);
                    }
                    Output::Done(outcome) => {
                        assert!(open.is_empty(), "the run has ended beside {open:?}");
                        assert_eq!(run.poll(), None, "nothing comes after the end");
                        told.check(&run, self.config.events);
                        return self.end(run, &outcome);
                    }
                }
                if choices.once_in(10) && run.outcome().is_none() {
                    break;
                }
            }
            self.refuses(&mut run, &open);
            if self.storage == Storage::RunAtEveryStep {
                run = reloaded(&run);
            }
            let input = match choices.below(40) {
                39 => Input::Cancelled,
                38 => Input::TimedOut,
                _ if open.is_empty() => continue,
                number => world::end_of(&open.remove(number % open.len()), choices),
            };
            self.log.push(format!("{input:?}"));
            run.handle(input, &self.tools).unwrap();
        }
    }

    /// An input that fits nothing is refused and changes nothing.
    fn refuses(&self, run: &mut Run, open: &[Effect]) {
        let before = run.to_json().unwrap();
        for input in world::nonsense(open) {
            assert!(run.handle(input.clone(), &self.tools).is_err(), "{input:?}");
        }
        assert_eq!(run.to_json().unwrap(), before);
    }

    fn end(&mut self, mut run: Run, outcome: &Outcome) {
        let last = run.to_json().unwrap();
        assert!(run.handle(Input::Cancelled, &self.tools).is_err(), "an ended run takes no input");
        assert_eq!(run.to_json().unwrap(), last);
        assert_eq!(run.outcome(), Some(outcome));

        sound::check(run.transcript(), false).unwrap();
        sound::check_requests(run.transcript(), run.suspensions()).unwrap();
        let mended = mend(run.transcript().clone()).unwrap();
        assert_eq!((&mended.transcript, mended.warnings), (run.transcript(), vec![]));
        let calls: usize = run.transcript().messages()[run.first()..].iter().map(|message| message.calls().len()).sum();
        let records = run.transcript().call_records(run.first());
        assert_eq!(records.len(), calls);
        assert!(records.iter().all(|record| !(record.pending && record.is_error)));

        assert!(run.turns() <= self.config.max_turns && run.turns() >= self.turns, "budgets add up");
        if *outcome == Outcome::Exhausted(Limit::MaxTurns) {
            assert_eq!(run.turns(), self.config.max_turns);
        }
        assert_eq!(*outcome == Outcome::Suspended, !run.suspensions().is_empty() && is_plain(outcome));
        assert_eq!(run.transcript().is_halted(), !run.suspensions().is_empty());

        self.turns = run.turns();
        self.requests = run.suspensions().to_vec();
        for message in run.transcript().messages() {
            self.log.push(String::from_utf8(message.json().to_vec()).unwrap());
        }
        self.log.push(format!("{:?} {:?} {:?}", run.usage(), run.text(), run.finish_reason()));
        let json = run.transcript().to_json();
        assert!(!contains(&json, "\\u0000", |before| before % 2 == 0), "{}", String::from_utf8_lossy(&json));
        let again = Transcript::from_json(json.clone().into()).unwrap();
        assert_eq!(&again, run.transcript());
        assert!(
            again.messages().iter().zip(run.transcript().messages()).all(|(one, other)| one.body() == other.body())
        );
        self.history = match self.storage {
            Storage::None | Storage::RunAtEveryStep => run.into_transcript(),
            Storage::TranscriptBetweenRuns => again,
            Storage::JsonbBetweenRuns => jsonb(&json),
        };
    }
}

fn is_plain(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Finished | Outcome::Suspended)
}

/// The run, through its JSON.
fn reloaded(run: &Run) -> Run {
    let saved = run.to_json().unwrap();
    let again = Run::from_json(&saved).unwrap();
    assert_eq!(again.to_json().unwrap(), saved);
    again
}

/// The transcript, through a store that sorts keys and drops blanks.
fn jsonb(json: &[u8]) -> Transcript {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
                entries.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
                Value::Object(entries.into_iter().collect())
            }
            Value::Array(items) => items.into_iter().map(sorted).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
        }
    }
    let value = sorted(serde_json::from_slice(json).unwrap());
    Transcript::from_json(Bytes::from(value.to_string())).unwrap()
}

/// Whether an escape stands in a JSON text, with so many backslashes before it.
fn contains(json: &[u8], escape: &str, counts: fn(usize) -> bool) -> bool {
    let text = std::str::from_utf8(json).unwrap();
    text.match_indices(escape).any(|(at, _)| {
        let before = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        counts(before)
    })
}
