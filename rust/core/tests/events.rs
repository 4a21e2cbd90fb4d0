//! What those who watch a run are told, and in which order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

#[path = "support/tools.rs"]
mod tools;

use toolrelay_core::answer::Answer;
use toolrelay_core::id::EffectId;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop, Usage};
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::event::Event;
use toolrelay_core::run::io::{Effect, Input, Outcome, Output, Park};
use toolrelay_core::run::{Left, OnPending, Run, RunConfig};
use toolrelay_core::tool::{ToolKind, ToolOutput};
use toolrelay_core::transcript::Transcript;
use tools::{Tool, Toolkit};

const CONFIG: RunConfig = RunConfig { max_turns: 10, inline: false, events: true, seed: [5; 32] };
const INLINE: RunConfig = RunConfig { inline: true, ..CONFIG };

fn toolkit() -> Toolkit {
    let tool = |name: &str, kind| Tool { name: name.to_owned(), kind, required: vec![] };
    Toolkit(vec![tool("tally", ToolKind::Local), tool("moor", ToolKind::Relay), tool("save", ToolKind::Relay)])
}

/// A run, and what was drained of it in the words of `line`.
struct Watched {
    run: Run,
    lines: Vec<String>,
    effects: Vec<Effect>,
}

impl Watched {
    fn of(run: Run) -> Self {
        let mut watched = Self { run, lines: Vec::new(), effects: Vec::new() };
        watched.drain();
        watched
    }

    fn start(config: &RunConfig) -> Self {
        let prompt = Some(Message::user("go"));
        Self::of(Run::start(Transcript::default(), prompt, OnPending::Refuse, config).unwrap().0)
    }

    fn resume(halted: &Self, request: &Request, data: &str, missing: Missing) -> Self {
        let data = Some(Json::parse(data).unwrap());
        let answer = Answer { id: request.id.clone(), ok: true, data, reason: None };
        let history = halted.run.transcript().clone();
        let resumed = Run::resume(history, request, &answer, missing, None, &CONFIG, &toolkit());
        Self::of(resumed.unwrap().0)
    }

    fn drain(&mut self) {
        while let Some(output) = self.run.poll() {
            self.lines.push(line(&output));
            if let Output::Effect(effect) = output {
                self.effects.push(effect);
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.run.handle(input, &toolkit()).unwrap();
        self.drain();
    }

    /// The model says this; the lines so far are forgotten.
    fn says(&mut self, reply: Reply) {
        self.lines.clear();
        let effect = self.effect(|effect| matches!(effect, Effect::CallModel { .. }));
        self.handle(Input::ModelEnded { effect, reply });
    }

    fn tool_ends(&mut self, id: &str, text: &str) {
        let effect = self.effect(|effect| matches!(effect, Effect::CallTool { call, .. } if call.as_str() == id));
        self.handle(Input::ToolFinished { effect, output: ToolOutput::text(text) });
    }

    fn effect(&mut self, fits: impl Fn(&Effect) -> bool) -> EffectId {
        let at = self.effects.iter().position(fits).unwrap();
        self.effects.remove(at).id()
    }

    fn suspension(&self, at: usize) -> &Request {
        &self.run.suspensions()[at]
    }
}

fn line(output: &Output) -> String {
    match output {
        Output::Effect(Effect::CallModel { .. }) => "> model".to_owned(),
        Output::Effect(Effect::CallTool { call, .. }) => format!("> tool {call}"),
        Output::Effect(Effect::Ask { request, .. }) => format!("> ask {}", waiting(request)),
        Output::Effect(Effect::Abort { .. }) => "> abort".to_owned(),
        Output::Done(outcome) => format!("> {outcome:?}"),
        Output::Event(Event::Usage(usage)) => format!("usage {}", usage.output_tokens),
        Output::Event(Event::CallReady { index, id, name, arguments }) => {
            format!("ready {index} {id} {name} {arguments}")
        }
        Output::Event(Event::ToolStarted { id, name, input }) => format!("started {id} {name} {}", input.get()),
        Output::Event(Event::ToolEnded { id, name, output, is_error }) => {
            format!("ended {id} {name} {}{output}", if *is_error { "! " } else { "" })
        }
        Output::Event(Event::Parked(request)) => format!("parked {}", waiting(request)),
    }
}

/// The calls that a request is for, or its prompt.
fn waiting(request: &Request) -> String {
    if request.is_relay() {
        return request.relay_calls().iter().map(|call| call.id.to_string()).collect::<Vec<_>>().join(" ");
    }
    request.prompt.clone()
}

fn calls(calls: &[(&str, &str)]) -> Reply {
    let call = |(at, (name, arguments)): (usize, &(&str, &str))| ReplyCall {
        id: Some(format!("k{at}")),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    };
    let usage = Usage { output_tokens: 7, ..Usage::default() };
    Reply { calls: calls.iter().enumerate().map(call).collect(), stop: Stop::Calls, usage, ..Reply::default() }
}

fn text(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

fn approval() -> Park {
    Park { kind: "approval".to_owned(), prompt: "sure?".to_owned(), url: None, data: None, expires_at: None }
}

#[test]
fn every_call_of_a_reply_is_ready_before_any_tool_starts() {
    let mut run = Watched::start(&CONFIG);
    assert_eq!(run.lines, ["> model"]);
    run.says(calls(&[("tally", r#"{"n": 1}"#), ("nobody", "{}"), ("moor", ""), ("tally", "[]"), ("save", "{}")]));
    let unknown = r#"ended k1 nobody ! unknown tool "nobody": the tools are tally, moor, save"#;
    assert_eq!(
        run.lines[..10],
        [
            "usage 7",
            r#"ready 0 k0 tally {"n": 1}"#,
            "ready 1 k1 nobody {}",
            "ready 2 k2 moor ",
            "ready 3 k3 tally []",
            "ready 4 k4 save {}",
            "> tool k0",
            r#"started k0 tally {"n": 1}"#,
            unknown,
            run.lines[9].as_str(),
        ]
    );
    assert!(run.lines[9].starts_with("ended k3 tally ! invalid arguments"), "{}", run.lines[9]);
    assert_eq!(run.lines[10..], ["parked k2 k4"]);
    run.lines.clear();
    run.tool_ends("k0", "5");
    assert_eq!(run.lines, ["ended k0 tally 5", "> Suspended"]);
}

#[test]
fn nothing_is_told_where_nobody_watches() {
    let mut run = Watched::start(&RunConfig { events: false, ..CONFIG });
    run.says(calls(&[("tally", "{}"), ("moor", "{}")]));
    run.tool_ends("k0", "5");
    assert_eq!(run.lines, ["> tool k0", "> Suspended"]);
}

#[test]
fn calls_of_a_cut_reply_are_ready_and_end_without_a_start() {
    let mut run = Watched::start(&CONFIG);
    run.says(Reply { stop: Stop::Length, ..calls(&[("tally", "{"), ("moor", "{}")]) });
    let cut =
        "not run: the output limit cut the reply, so the call may be incomplete; make it again, smaller if needed";
    let ended = |call: &str| format!("ended {call} ! {cut}");
    let expected =
        ["usage 7".to_owned(), "ready 0 k0 tally {".to_owned(), "ready 1 k1 moor {}".to_owned(), ended("k0 tally")];
    assert_eq!(run.lines[..4], expected);
    assert_eq!(run.lines[4..], [ended("k1 moor"), "> model".to_owned()]);
}

#[test]
fn an_answer_ends_its_calls_and_what_is_left_is_told_again() {
    let mut halted = Watched::start(&CONFIG);
    halted.says(calls(&[("moor", "{}"), ("save", "{}"), ("tally", "{}")]));
    let effect = halted.effect(|effect| matches!(effect, Effect::CallTool { .. }));
    halted.lines.clear();
    halted.handle(Input::ToolParked { effect, park: approval() });
    assert_eq!(halted.lines, ["parked sure?", "> Suspended"]);

    let results = r#"{"results":[{"id":"k1","output":"saved"}]}"#;
    let waits = Watched::resume(&halted, halted.suspension(0), results, Missing::Wait);
    assert_eq!(waits.lines, ["ended k1 save saved", "parked k0", "parked sure?", "> Suspended"]);

    let mut approved = Watched::resume(&waits, waits.suspension(1), "true", Missing::Error);
    assert_eq!(approved.lines, ["> tool k2", "started k2 tally {}", "parked k0"]);
    approved.lines.clear();
    approved.tool_ends("k2", "5");
    assert_eq!(approved.lines, ["ended k2 tally 5", "> Suspended"]);
    assert_eq!(approved.run.outcome(), Some(&Outcome::Suspended));
}

#[test]
fn a_question_is_parked_when_it_is_asked_and_its_tool_starts_twice() {
    let mut run = Watched::start(&INLINE);
    run.says(calls(&[("tally", "{}")]));
    let effect = run.effect(|effect| matches!(effect, Effect::CallTool { .. }));
    run.handle(Input::ToolParked { effect, park: approval() });
    let Effect::Ask { id, request } = run.effects.pop().unwrap() else { panic!("the host is asked") };
    run.handle(Input::Answered { effect: id, answer: Answer { id: request.id, ok: true, data: None, reason: None } });
    run.tool_ends("k0", "5");
    assert_eq!(
        run.lines,
        [
            "usage 7",
            "ready 0 k0 tally {}",
            "> tool k0",
            "started k0 tally {}",
            "> ask sure?",
            "parked sure?",
            "> tool k0",
            "started k0 tally {}",
            "ended k0 tally 5",
            "> model",
        ]
    );
}

#[test]
fn relay_calls_that_nobody_answered_inline_halt_as_one_request_that_is_told() {
    let mut run = Watched::start(&INLINE);
    run.says(calls(&[("moor", "{}"), ("save", "{}")]));
    assert_eq!(run.lines[3..], ["> ask k0", "parked k0", "> ask k1", "parked k1"]);
    run.lines.clear();
    for _ in 0..2 {
        let effect = run.effect(|effect| matches!(effect, Effect::Ask { .. }));
        run.handle(Input::NotHere { effect });
    }
    assert_eq!(run.lines, ["parked k0 k1", "> Suspended"]);
}

#[test]
fn a_tool_that_was_not_started_ends_without_a_start() {
    let mut run = Watched::start(&CONFIG);
    let effect = run.effect(|effect| matches!(effect, Effect::CallModel { .. }));
    run.run
        .handle(Input::ModelEnded { effect, reply: calls(&[("tally", "{}"), ("tally", "{}")]) }, &toolkit())
        .unwrap();
    run.lines.clear();
    while run.lines.last().is_none_or(|line| line != "> tool k0") {
        run.lines.push(line(&run.run.poll().unwrap()));
    }
    run.lines.clear();
    run.handle(Input::Cancelled);
    let interrupted = "interrupted: the call had started and may have run; its result is not known";
    let not_run = "not run: the run was stopped before this call started";
    assert_eq!(
        run.lines,
        [
            "started k0 tally {}",
            &format!("ended k0 tally ! {interrupted}"),
            &format!("ended k1 tally ! {not_run}"),
            "> abort",
            "> Cancelled",
        ]
    );
}

#[test]
fn each_reply_tells_what_it_cost_even_one_that_is_asked_again() {
    let usage = |output_tokens| Usage { output_tokens, ..Usage::default() };
    let mut run = Watched::start(&CONFIG);
    run.says(Reply { usage: usage(3), reasoned: true, ..text("") });
    assert_eq!(run.lines, ["usage 3", "> model"]);
    run.says(Reply { usage: usage(0), stop: Stop::Paused, ..text("looking") });
    assert_eq!(run.lines, ["usage 0", "> model"]);
    run.says(Reply { usage: usage(4), ..text("done") });
    assert_eq!(run.lines, ["usage 4", "> Finished"]);
}

#[test]
fn a_run_that_another_worker_left_halted_tells_what_it_waits_for() {
    let mut halted = Watched::start(&CONFIG);
    halted.says(calls(&[("moor", "{}"), ("save", "{}")]));
    let (run, _) = Run::go_on(halted.run.transcript(), &Left::default(), &CONFIG, &toolkit()).unwrap();
    assert_eq!(Watched::of(run).lines, ["parked k0 k1", "> Suspended"]);
}

#[test]
fn what_was_not_told_yet_is_told_by_the_reloaded_run() {
    let mut run = Watched::start(&CONFIG);
    let effect = run.effect(|effect| matches!(effect, Effect::CallModel { .. }));
    run.run.handle(Input::ModelEnded { effect, reply: calls(&[("tally", "{}"), ("moor", "{}")]) }, &toolkit()).unwrap();
    let reloaded = Run::from_json(&run.run.to_json().unwrap()).unwrap();
    run.lines.clear();
    run.drain();
    assert_eq!(Watched::of(reloaded).lines, run.lines);
    assert_eq!(run.lines.last().unwrap(), "parked k1");
}
