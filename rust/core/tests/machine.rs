//! What a driver relies on and no dialogue shows: what was started and what was not, places,
//! saved states, runs that another worker left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

#[path = "support/tools.rs"]
mod tools;

use serde_json::{Value, json};
use toolrelay_core::id::EffectId;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use toolrelay_core::resume::Missing;
use toolrelay_core::run::io::{Effect, Input, Limit, Outcome, Output, Refused};
use toolrelay_core::run::{OnPending, Run, RunConfig, SavedError, StartError};
use toolrelay_core::tool::{self, ToolKind, ToolOutput};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;
use tools::{Tool, Toolkit};

const CONFIG: RunConfig = RunConfig { max_turns: 10, inline: false, events: false, seed: [5; 32] };

fn toolkit() -> Toolkit {
    let tool = |name: &str, kind| Tool { name: name.to_owned(), kind, required: vec![] };
    Toolkit(vec![tool("tally", ToolKind::Local), tool("moor", ToolKind::Relay)])
}

fn started() -> Run {
    let prompt = Some(Message::user("go"));
    Run::start(Transcript::default(), prompt, OnPending::Refuse, &CONFIG).unwrap().0
}

fn calls(names: &[&str]) -> Reply {
    let call = |(at, name): (usize, &&str)| ReplyCall {
        id: Some(format!("k{at}")),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
    };
    Reply { calls: names.iter().enumerate().map(call).collect(), stop: Stop::Calls, ..Reply::default() }
}

fn text(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

/// Ends the model call that comes next.
fn says(run: &mut Run, reply: Reply) {
    let Some(Output::Effect(Effect::CallModel { id })) = run.poll() else { panic!("a model call is due") };
    run.handle(Input::ModelEnded { effect: id, reply }, &toolkit()).unwrap();
}

fn outcomes(run: &Run) -> Vec<tool::Outcome> {
    run.transcript().messages().iter().filter_map(|message| Some(message.result()?.outcome)).collect()
}

#[test]
fn a2_what_was_not_started_did_not_run_and_needs_no_abort() {
    let mut run = started();
    says(&mut run, calls(&["tally", "tally", "tally"]));
    let Some(Output::Effect(Effect::CallTool { id: first, .. })) = run.poll() else { panic!("a tool call is due") };
    run.handle(Input::Cancelled, &toolkit()).unwrap();
    assert_eq!(outcomes(&run), [tool::Outcome::Interrupted, tool::Outcome::NotRun, tool::Outcome::NotRun]);
    assert_eq!(run.poll(), Some(Output::Effect(Effect::Abort { id: first })));
    assert_eq!(run.poll(), Some(Output::Done(Outcome::Cancelled)));
    assert_eq!(run.poll(), None);
}

#[test]
fn a_model_call_that_was_not_started_is_taken_back() {
    let mut run = started();
    run.handle(Input::TimedOut, &toolkit()).unwrap();
    assert_eq!(run.poll(), Some(Output::Done(Outcome::Exhausted(Limit::Timeout))));
    assert_eq!(run.poll(), None);
}

#[test]
fn results_that_are_known_have_their_places_before_the_turn_ends() {
    let mut run = started();
    says(&mut run, calls(&["tally", "nobody", "tally"]));
    let places = |run: &Run| run.settled().iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert_eq!(places(&run), [3], "user, assistant, then one place per call");
    let effects: Vec<EffectId> = std::iter::from_fn(|| run.poll())
        .map(|output| match output {
            Output::Effect(effect) => effect.id(),
            Output::Event(_) | Output::Done(_) => panic!("the run goes on, and nobody watches"),
        })
        .collect();
    run.handle(Input::ToolFinished { effect: effects[1], output: ToolOutput::text("7") }, &toolkit()).unwrap();
    assert_eq!(places(&run), [3, 4]);
    let (at, message) = run.settled()[1];
    let (at, message) = (at, message.clone());
    run.handle(Input::ToolFinished { effect: effects[0], output: ToolOutput::text("5") }, &toolkit()).unwrap();
    assert_eq!(places(&run), Vec::<usize>::new());
    assert_eq!(run.transcript().messages()[at], message);
}

#[test]
fn an_input_for_nothing_says_so() {
    let mut run = started();
    let input = || Input::NotHere { effect: EffectId(7) };
    assert_eq!(run.handle(input(), &toolkit()), Err(Refused::UnknownEffect(EffectId(7))));
    says(&mut run, text("hi"));
    assert_eq!(run.handle(input(), &toolkit()), Err(Refused::Ended));
    assert_eq!(Refused::UnknownEffect(EffectId(7)).to_string(), "no effect 7 of that kind is under way");
}

#[test]
fn usage_and_model_are_of_the_whole_run() {
    let usage = Usage { input_tokens: 10, output_tokens: 2, reasoning_tokens: 1, ..Usage::default() };
    let mut run = started();
    says(&mut run, Reply { usage, model: Some("m-1".to_owned()), ..calls(&["nobody"]) });
    says(&mut run, Reply { usage, stop: Stop::Calls, ..Reply::default() });
    says(&mut run, Reply { usage, model: Some("m-2".to_owned()), ..text("done") });
    assert_eq!(run.usage(), Usage { input_tokens: 30, output_tokens: 6, reasoning_tokens: 3, ..Usage::default() });
    assert_eq!((run.model(), run.text(), run.turns()), (Some("m-2"), "done", 3));
}

#[test]
fn e4_a_reply_that_the_provider_paused_can_be_gone_on_from() {
    let provider = |paused| Some(Provider { style: Style::Anthropic, raw: "[]".to_owned(), paused });
    let paused = Message::assistant_reply("looking", vec![], provider(true));
    let ended = Message::assistant_reply("found", vec![], provider(false));
    let start = |last: Message| {
        let history = Transcript::new(vec![Message::user("search"), last]);
        Run::start(history, None, OnPending::Refuse, &CONFIG).map(|(run, _)| run)
    };
    let mut run = start(paused).unwrap();
    says(&mut run, text("found"));
    assert_eq!(run.outcome(), Some(&Outcome::Finished));
    assert_eq!(start(ended).unwrap_err(), StartError::NothingToDo);
}

#[test]
fn e4_pauses_are_bounded_in_a_row_and_only_so() {
    let paused = || Reply { stop: Stop::Paused, ..text("looking") };
    let mut run = started();
    for _ in 0..2 {
        for _ in 0..16 {
            says(&mut run, paused());
        }
        says(&mut run, calls(&["nobody"]));
    }
    assert_eq!((run.turns(), run.outcome()), (2, None));
    for _ in 0..17 {
        says(&mut run, paused());
    }
    assert_eq!((run.outcome(), run.finish_reason()), (Some(&Outcome::Finished), Some("pause")));
}

#[test]
fn h11_a_saved_run_of_another_format_is_a_typed_error() {
    let saved = started().to_json().unwrap();
    let mut value: Value = serde_json::from_slice(&saved).unwrap();
    assert!(Run::from_json(&saved).is_ok());
    value["format"] = json!(99);
    assert_eq!(Run::from_json(value.to_string().as_bytes()).unwrap_err(), SavedError::Format { found: 99 });
    value["run"] = json!("in a shape to come");
    assert_eq!(Run::from_json(value.to_string().as_bytes()).unwrap_err(), SavedError::Format { found: 99 });
    for broken in ["", "{}", "[]", r#"{"format":1}"#, r#"{"format":1,"run":{}}"#, r#"{"format":"secret"}"#] {
        let error = Run::from_json(broken.as_bytes()).unwrap_err();
        assert!(matches!(error, SavedError::Shape { .. }), "{broken}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[test]
fn an_effect_under_way_can_end_in_another_process() {
    let mut run = started();
    says(&mut run, calls(&["tally"]));
    let Some(Output::Effect(Effect::CallTool { id, .. })) = run.poll() else { panic!("a tool call is due") };
    let mut elsewhere = Run::from_json(&run.to_json().unwrap()).unwrap();
    assert_eq!(elsewhere.poll(), None, "what was started is not asked for again");
    elsewhere.handle(Input::ToolFinished { effect: id, output: ToolOutput::text("7") }, &toolkit()).unwrap();
    says(&mut elsewhere, text("seven"));
    assert_eq!(elsewhere.outcome(), Some(&Outcome::Finished));
}

#[test]
fn parts_ride_beside_the_output_and_are_never_guessed_from_it() {
    let mut halted = started();
    says(&mut halted, calls(&["moor"]));
    let request = halted.suspensions()[0].clone();
    let resume = |data: &str| {
        let answer = serde_json::from_str(&format!(r#"{{"id":"{}","ok":true,"data":{data}}}"#, request.id)).unwrap();
        let history = halted.transcript().clone();
        let resumed = Run::resume(history, &request, &answer, Missing::Error, None, &CONFIG, &toolkit());
        resumed.map(|(run, _)| run.transcript().messages()[2].clone())
    };
    let image = r#"[ {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}} ]"#;

    let message = resume(&format!(r#"{{"output":"a chart","parts":{image}}}"#)).unwrap();
    assert_eq!((message.text().as_str(), message.parts().unwrap().get()), ("a chart", image));

    let message = resume(&format!(r#"{{"output":{image},"parts":null}}"#)).unwrap();
    assert_eq!((message.text().as_str(), message.parts()), (image, None));

    for parts in [r#""chart""#, "{}", "5", "false"] {
        let refused = resume(&format!(r#"{{"output":"a chart","parts":{parts}}}"#)).unwrap_err();
        assert!(refused.to_string().contains("found the keys output, parts"), "{refused}");
    }
}
