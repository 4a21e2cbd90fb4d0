//! Plays a fixture: starts each segment, feeds its steps to the machine, compares the end.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolrelay_core::answer::Answer;
use toolrelay_core::id::{CallId, EffectId};
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop};
use toolrelay_core::request::Request;
use toolrelay_core::run::io::{Effect, Failure, Input, Limit, ModelFailure, Outcome, Output, Park};
use toolrelay_core::run::{Run, RunConfig, StartError};
use toolrelay_core::tool::{self as tools, ToolOutput};
use toolrelay_core::transcript::Transcript;

use crate::fixture::{Expect, Says, Scenario, Segment, Step};
use crate::render::{self, Names};
use crate::tools::Toolkit;

/// When the state of a run goes through its JSON form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    Never,
    EveryStep,
}

type Played<T = ()> = Result<T, String>;

/// What is carried from segment to segment.
struct Stage<'a> {
    scenario: &'a Scenario,
    tools: Toolkit,
    reload: Reload,
    history: Transcript,
    requests: Vec<Request>,
    names: Names,
    seed: u8,
}

/// A segment under way: the machine and the effects that wait for their end.
struct Playing {
    run: Run,
    open: Vec<Effect>,
    done: Option<Outcome>,
}

/// How a segment ended, in the words of fixtures.
#[derive(Default)]
struct Ending {
    status: &'static str,
    limit: Option<&'static str>,
    error: Option<(&'static str, String)>,
    run: Option<Run>,
    warnings: Vec<String>,
}

pub(crate) fn play(scenario: &Scenario, reload: Reload) -> Played {
    let mut stage = Stage {
        scenario,
        tools: scenario.toolkit(),
        reload,
        history: Transcript::default(),
        requests: Vec::new(),
        names: Names::default(),
        seed: 0,
    };
    for (number, segment) in scenario.segments.iter().enumerate() {
        stage.play(segment).map_err(|difference| format!("segment {}: {difference}", number + 1))?;
    }
    Ok(())
}

impl Stage<'_> {
    fn play(&mut self, segment: &Segment) -> Played {
        if let Some(history) = &segment.history {
            let json = Bytes::from(history.to_string());
            self.history = Transcript::from_json(json).map_err(|error| error.to_string())?;
        }
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
        self.compare(&segment.expect, ending)
    }

    /// The run, or how starting it was refused.
    fn start(&mut self, segment: &Segment) -> Played<Result<(Run, Vec<String>), Ending>> {
        self.seed += 1;
        let config =
            RunConfig { max_turns: self.scenario.max_turns, inline: self.scenario.wait_for, seed: [self.seed; 32] };
        let history = self.history.clone();
        let Some(answer) = &segment.answer else {
            let prompt = segment.prompt.as_deref().map(Message::user);
            let started = Run::start(history, prompt, segment.on_pending, &config);
            return Ok(started.map(|(run, warnings)| (run, texts(warnings))).map_err(|error| {
                let kind = match error {
                    StartError::Pending { .. } => "PendingError",
                    StartError::NothingToDo | StartError::Broken(_) => "TranscriptError",
                };
                Ending { status: "error", error: Some((kind, error.to_string())), ..Ending::default() }
            }));
        };
        let to = answer.get("to").and_then(Value::as_u64).unwrap_or(0);
        let asked = self.requests.get(usize::try_from(to).unwrap_or(usize::MAX));
        let mut pending = asked.map_or(json!({}), |request| serde_json::to_value(request).unwrap());
        for (key, value) in segment.pending.iter().flatten() {
            pending[key] = value.clone();
        }
        let pending: Request = parse(&self.names.show(&pending.to_string()))?;
        let answer = self.answer(answer, pending.id.as_str())?;
        let now = segment.now.as_ref().map(|now| now.parse::<jiff::Timestamp>().unwrap().as_millisecond());
        let resumed = Run::resume(history, &pending, &answer, segment.missing, now, &config, &self.tools);
        Ok(resumed.map(|(run, warnings)| (run, texts(warnings))).map_err(|error| Ending {
            status: "error",
            error: Some(("ResumeError", error.to_string())),
            ..Ending::default()
        }))
    }

    /// An answer as fixtures write it: `output`, `isError`, `parts` and `results` ride in `data`.
    fn answer(&self, spec: &Map<String, Value>, request: &str) -> Played<Answer> {
        let mut answer = json!({ "id": request, "ok": true });
        for (key, value) in spec {
            match key.as_str() {
                "to" => {}
                "output" | "isError" | "parts" | "results" => answer["data"][key] = value.clone(),
                _ => answer[key] = value.clone(),
            }
        }
        parse(&self.names.show(&answer.to_string()))
    }

    fn step(&mut self, playing: &mut Playing, step: &Step) -> Played {
        let input = if let Some(says) = &step.model {
            let effect =
                playing.close("no model call is under way", |effect| matches!(effect, Effect::CallModel { .. }))?;
            Input::ModelEnded { effect: effect.id(), reply: reply(says) }
        } else if let Some(message) = &step.model_fails {
            let effect =
                playing.close("no model call is under way", |effect| matches!(effect, Effect::CallModel { .. }))?;
            let failure = ModelFailure::InProcess { message: message.clone() };
            Input::ModelFailed { effect: effect.id(), failure }
        } else if let Some(call) = &step.tool {
            tool(playing, &self.names.show(call), step)?
        } else if let Some(call) = &step.host {
            self.host(playing, &self.names.show(call), step)?
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
            self.learn(&playing.run, says);
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
            Some(spec) => Input::Answered { effect: id, answer: self.answer(spec, request.id.as_str())? },
            None if step.not_here => Input::NotHere { effect: id },
            None if step.fails => Input::AskFailed { effect: id },
            None if step.expires => Input::AskExpired { effect: id },
            None => return Err("the host does nothing".to_owned()),
        })
    }

    /// Learns the ids that labelled calls got.
    fn learn(&mut self, run: &Run, says: &Says) {
        let calls = run.transcript().messages().iter().rev().map(Message::calls).find(|calls| !calls.is_empty());
        for (call, said) in calls.unwrap_or_default().iter().zip(&says.calls) {
            if let Some(label) = &said.label {
                self.names.label(label, call.id.as_str());
            }
        }
    }

    fn compare(&mut self, expect: &Expect, ending: Ending) -> Played {
        same("status", expect.status.as_str(), ending.status)?;
        same("limit", &expect.limit.as_deref(), &ending.limit)?;
        match (&expect.error, &ending.error) {
            (None, None) => {}
            (Some(expected), Some((kind, text))) => {
                same("error", expected.kind.as_str(), kind)?;
                let text = self.names.hide(text);
                if let Some(missing) = expected.says.iter().find(|part| !text.contains(part.as_str())) {
                    return Err(format!("the error does not say {missing:?}: {text}"));
                }
            }
            (expected, found) => return Err(format!("error: {} expected, found {found:?}", expected.is_some())),
        }
        lines("warnings", &expect.warnings, &ending.warnings)?;
        let Some(run) = ending.run else { return Ok(()) };
        for request in run.suspensions() {
            self.names.number(request.id.as_str());
        }
        let waits: Vec<String> = run.suspensions().iter().map(render::wait).collect();
        lines("waits", &expect.waits, &self.hidden(&waits))?;
        if let Some(requests) = &expect.requests {
            same("requests", requests, &self.hidden_json(&serde_json::to_value(run.suspensions()).unwrap()))?;
        }
        if let Some(text) = &expect.text {
            same("text", text.as_str(), run.text())?;
        }
        if let Some(reason) = &expect.finish_reason {
            same("finish_reason", reason.as_str(), run.finish_reason().unwrap_or_default())?;
        }
        if let Some(turns) = expect.turns {
            same("turns", &turns, &run.turns())?;
        }
        if let Some(records) = &expect.tool_calls {
            let found = render::records(&run.transcript().call_records(run.first()));
            same("tool_calls", records, &self.hidden_json(&found))?;
        }
        if let Some(expected) = &expect.transcript {
            lines("transcript", expected, &self.hidden(&render::transcript(run.transcript())))?;
        }
        self.requests = run.suspensions().to_vec();
        self.history = run.into_transcript();
        Ok(())
    }

    fn hidden(&self, lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| self.names.hide(line)).collect()
    }

    fn hidden_json(&self, value: &Value) -> Value {
        parse(&self.names.hide(&value.to_string())).unwrap()
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
        let (status, limit, error) = match outcome {
            Outcome::Finished => ("done", None, None),
            Outcome::Suspended => ("pending", None, None),
            Outcome::Exhausted(Limit::MaxTurns) => ("incomplete", Some("max_turns"), None),
            Outcome::Exhausted(Limit::Timeout) => ("incomplete", Some("timeout"), None),
            Outcome::Cancelled => ("cancelled", None, None),
            Outcome::Failed(failure) => ("error", None, Some((kind_of(&failure), failure.to_string()))),
        };
        Ok(Ending { status, limit, error, run: Some(self.run), warnings })
    }
}

fn kind_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::Model(ModelFailure::InProcess { .. }) => "GenerateError",
        Failure::Model(ModelFailure::Provider(_)) => "ProviderError",
        Failure::CutReply { .. } | Failure::EmptyReply { .. } => "ModelReplyError",
        Failure::ContextOverflow => "ContextOverflowError",
        Failure::BadAnswer(_) | Failure::AskFailed => "WaitForError",
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
    if let Some(given) = &step.given {
        let found: Value = parse(input.get())?;
        same("given", given, &found)?;
    }
    let after = answer.as_ref().map(|answer| {
        let mut answer = serde_json::to_value(answer).unwrap();
        answer.as_object_mut().unwrap().remove("id");
        answer
    });
    same("after", &step.after, &after)?;
    tool_input(effect.id(), step)
}

fn tool_input(effect: EffectId, step: &Step) -> Played<Input> {
    if let Some(text) = &step.returns {
        return Ok(Input::ToolFinished { effect, output: ToolOutput::text(text) });
    }
    if let Some(text) = &step.raises {
        return Ok(Input::ToolFinished { effect, output: ToolOutput::failed(tools::Outcome::Error, text) });
    }
    let Some(parks) = &step.parks else { return Err("the tool does nothing".to_owned()) };
    let park: Park = parse(&Value::Object(parks.clone()).to_string())?;
    Ok(Input::ToolParked { effect, park })
}

fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Played<T> {
    serde_json::from_str(json).map_err(|error| format!("{error} in {json}"))
}

fn texts(items: Vec<impl ToString>) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, expected: &T, found: &T) -> Played {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:#?}, found {found:#?}")) }
}

fn lines(what: &str, expected: &[String], found: &[String]) -> Played {
    let alike =
        expected.len() == found.len() && expected.iter().zip(found).all(|(line, text)| render::matches(line, text));
    if alike { Ok(()) } else { Err(format!("{what}: expected\n{}\nfound\n{}", expected.join("\n"), found.join("\n"))) }
}
