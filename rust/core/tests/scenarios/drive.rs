//! Plays a fixture: starts each segment, feeds its steps to the machine, compares the end.

use serde_json::Value;
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop};
use toolrelay_core::run::io::{Effect, Input, ModelFailure, Outcome, Output};
use toolrelay_core::run::{Run, RunConfig};
use toolrelay_core::tool::ToolKind;

use crate::fixture::{Says, Scenario, Segment, Step};
use crate::stage::{Ended, Ending, Played, Stage, same, texts};
use crate::tools::{Tool, Toolkit};

/// When the state of a run goes through its JSON form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    Never,
    EveryStep,
}

/// The machine as a driver.
struct Machine<'a> {
    scenario: &'a Scenario,
    tools: Toolkit,
    reload: Reload,
    stage: Stage,
    seed: u8,
}

/// A segment under way: the machine and the effects that wait for their end.
struct Playing {
    run: Run,
    open: Vec<Effect>,
    done: Option<Outcome>,
}

pub(crate) fn play(scenario: &Scenario, reload: Reload) -> Played {
    let tools = toolkit(scenario);
    let mut machine = Machine { scenario, tools, reload, stage: Stage::default(), seed: 0 };
    for (number, segment) in scenario.segments.iter().enumerate() {
        machine.play(segment).map_err(|difference| format!("segment {}: {difference}", number + 1))?;
    }
    Ok(())
}

fn toolkit(scenario: &Scenario) -> Toolkit {
    let tool = |(name, spec): (&String, &Value)| {
        let required = spec.pointer("/schema/required").and_then(Value::as_array);
        Tool {
            name: name.clone(),
            kind: if spec["kind"] == "relay" { ToolKind::Relay } else { ToolKind::Local },
            required: required.into_iter().flatten().filter_map(|field| Some(field.as_str()?.to_owned())).collect(),
        }
    };
    Toolkit(scenario.tools.iter().map(tool).collect())
}

impl Machine<'_> {
    fn play(&mut self, segment: &Segment) -> Played {
        self.stage.open(segment)?;
        let ending = match self.start(segment)? {
            Ok((run, warnings)) => {
                let mut playing = Playing { run, open: Vec::new(), done: None };
                playing.drain();
                for (number, step) in segment.steps.iter().enumerate() {
                    self.step(&mut playing, step).map_err(|why| format!("step {}: {why}", number + 1))?;
                }
                playing.end(warnings)?
            }
            Err(ending) => ending,
        };
        self.stage.compare(&segment.expect, ending)
    }

    /// The run, or how starting it was refused.
    fn start(&mut self, segment: &Segment) -> Played<Result<(Run, Vec<String>), Ending>> {
        self.seed += 1;
        let config = RunConfig {
            max_turns: self.scenario.max_turns,
            inline: self.scenario.wait_for,
            events: false,
            seed: [self.seed; 32],
        };
        let history = self.stage.history.clone();
        let started = match self.stage.resume(segment)? {
            None => {
                let prompt = segment.prompt.as_deref().map(Message::user);
                let started = Run::start(history, prompt, segment.on_pending, &config);
                started.map_err(|error| Ending::not_started(&error))
            }
            Some((pending, answer)) => {
                let now = segment.now.as_ref().map(|now| now.parse::<jiff::Timestamp>().unwrap().as_millisecond());
                let resumed = Run::resume(history, &pending, &answer, segment.missing, now, &config, &self.tools);
                resumed.map_err(|error| Ending::not_resumed(&error))
            }
        };
        Ok(started.map(|(run, warnings)| (run, texts(&warnings))))
    }

    fn step(&mut self, playing: &mut Playing, step: &Step) -> Played {
        let input = if let Some(says) = &step.model {
            let effect =
                playing.close("no model call is under way", |effect| matches!(effect, Effect::CallModel { .. }))?;
            Input::ModelEnded { effect: effect.id(), reply: reply(says) }
        } else if let Some(message) = &step.model_fails {
            let effect =
                playing.close("no model call is under way", |effect| matches!(effect, Effect::CallModel { .. }))?;
            let failure = ModelFailure::in_process(message.as_str());
            Input::ModelFailed { effect: effect.id(), failure }
        } else if let Some(call) = &step.tool {
            tool(playing, &self.stage.names.show(call), step)?
        } else if let Some(call) = &step.host {
            self.host(playing, &self.stage.names.show(call), step)?
        } else if step.timeout {
            Input::TimedOut
        } else if step.cancel {
            Input::Cancelled
        } else {
            return Err("it says nothing".to_owned());
        };
        if self.reload == Reload::EveryStep {
            playing.reload()?;
        }
        playing.run.handle(input, &self.tools).map_err(|refused| refused.to_string())?;
        if let Some(says) = &step.model {
            self.stage.learn(playing.run.transcript(), says);
        }
        playing.drain();
        Ok(())
    }

    fn host(&self, playing: &mut Playing, asked: &str, step: &Step) -> Played<Input> {
        let open = |effect: &Effect| match effect {
            Effect::Ask { request, .. } if request.is_relay() => {
                request.relay_calls().iter().map(|call| &call.id).eq([&CallId::new(asked)])
            }
            Effect::Ask { request, .. } => request.prompt == asked,
            Effect::CallModel { .. } | Effect::CallTool { .. } | Effect::Abort { .. } => false,
        };
        let effect = playing.close(&format!("the host is not asked about {asked}"), open)?;
        let Effect::Ask { id, request } = effect else { return Err("not asked".to_owned()) };
        Ok(match &step.answers {
            Some(spec) => Input::Answered { effect: id, answer: self.stage.answer(spec, request.id.as_str())? },
            None if step.not_here => Input::NotHere { effect: id },
            None if step.fails => Input::AskFailed { effect: id },
            None if step.expires => Input::AskExpired { effect: id },
            None => return Err("the host does nothing".to_owned()),
        })
    }
}

impl Playing {
    /// Takes the first open effect that fits.
    fn close(&mut self, otherwise: &str, fits: impl Fn(&Effect) -> bool) -> Played<Effect> {
        let at = self.open.iter().position(fits).ok_or_else(|| otherwise.to_owned())?;
        Ok(self.open.remove(at))
    }

    fn drain(&mut self) {
        while let Some(output) = self.run.poll() {
            match output {
                Output::Effect(Effect::Abort { id }) => self.open.retain(|effect| effect.id() != id),
                Output::Effect(effect) => self.open.push(effect),
                Output::Event(_) => {}
                Output::Done(outcome) => self.done = Some(outcome),
            }
        }
    }

    fn reload(&mut self) -> Played {
        let saved = self.run.to_json().map_err(|error| error.to_string())?;
        self.run = Run::from_json(&saved).map_err(|error| error.to_string())?;
        same("reloaded state", &saved, &self.run.to_json().unwrap())
    }

    fn end(self, warnings: Vec<String>) -> Played<Ending> {
        let Some(outcome) = self.done else { return Err(format!("the run goes on: {:?}", self.open)) };
        if !self.open.is_empty() {
            return Err(format!("the run has ended, but nothing ends {:?}", self.open));
        }
        let run = self.run;
        let ended = Ended {
            first: run.first(),
            suspensions: run.suspensions().to_vec(),
            text: run.text().to_owned(),
            finish_reason: run.finish_reason().unwrap_or_default().to_owned(),
            turns: run.turns(),
            transcript: run.into_transcript(),
        };
        Ok(Ending::of(&outcome, warnings, ended))
    }
}

fn reply(says: &Says) -> Reply {
    let calls = says.calls.iter().map(|call| ReplyCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    });
    let stop = match says.stop.as_deref() {
        None if says.calls.is_empty() => Stop::End,
        Some("stop") => Stop::End,
        None | Some("tool_calls") => Stop::Calls,
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::Filtered,
        Some("refusal") => Stop::Refused,
        Some("malformed_call") => Stop::Malformed,
        Some("pause") => Stop::Paused,
        Some("context_overflow") => Stop::ContextOverflow,
        Some(word) => Stop::Other(word.to_owned()),
    };
    Reply { text: says.text.clone(), calls: calls.collect(), reasoned: says.reasoned, stop, ..Reply::default() }
}

fn tool(playing: &mut Playing, id: &str, step: &Step) -> Played<Input> {
    let open = |effect: &Effect| matches!(effect, Effect::CallTool { call, .. } if call.as_str() == id);
    let effect = playing.close(&format!("the tool of call {id} does not run"), open)?;
    let Effect::CallTool { input, answer, .. } = &effect else { return Err("not a tool call".to_owned()) };
    step.check_call(input, answer.as_ref())?;
    let effect = effect.id();
    Ok(match step.tool_end()? {
        Ok(output) => Input::ToolFinished { effect, output },
        Err(park) => Input::ToolParked { effect, park },
    })
}
