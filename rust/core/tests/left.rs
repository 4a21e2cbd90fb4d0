//! Runs that another worker left: what goes on, what runs again, what was interrupted (contract 7.6), and calls that were
//! changed while they waited (contract 6.2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

#[path = "support/tools.rs"]
mod tools;

use bytes::Bytes;
use serde_json::{Value, json};
use toolrelay_core::answer::{Answer, Reason};
use toolrelay_core::id::{CallId, EffectId, IdSource, RequestId};
use toolrelay_core::message::{Call, Message};
use toolrelay_core::repair::Warning;
use toolrelay_core::reply::{Reply, ReplyCall};
use toolrelay_core::request::Request;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::io::{Effect, Input, Limit, Outcome, Output, Park};
use toolrelay_core::run::{self, Left, OnPending, Run, RunConfig, StartError};
use toolrelay_core::suspension::{self, Suspension};
use toolrelay_core::tool::{self, ToolKind, ToolOutput, Tools};
use toolrelay_core::transcript::Transcript;
use tools::{Tool, Toolkit};

const CONFIG: RunConfig = RunConfig { max_turns: 10, inline: false, events: false, seed: [5; 32] };

/// `tally` runs here and may run again, `pay` runs here, and `moor` at the host.
struct Dock(Toolkit);

impl Tools for Dock {
    fn resolve(&self, wire_name: &str) -> Option<&str> {
        self.0.resolve(wire_name)
    }

    fn kind(&self, name: &str) -> Option<ToolKind> {
        self.0.kind(name)
    }

    fn check(&self, name: &str, input: &Value) -> Result<(), String> {
        self.0.check(name, input)
    }

    fn names(&self) -> Vec<&str> {
        self.0.names()
    }

    fn is_retry_safe(&self, name: &str) -> bool {
        name == "tally"
    }
}

fn dock() -> Dock {
    let tool = |(name, kind): (&str, _)| Tool { name: name.to_owned(), kind, required: vec![] };
    let tools = [("tally", ToolKind::Local), ("pay", ToolKind::Local), ("moor", ToolKind::Relay)];
    Dock(Toolkit(tools.map(tool).into()))
}

fn call(id: &str, name: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{ }" } })
}

fn result(id: &str, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": text })
}

fn placeholder(id: &str, pending: &Value) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "[pending]", "toolrelay": { "pending": pending } })
}

/// An earlier exchange, a prompt, a whole turn, and a turn of these calls with what is known of them.
fn left(calls: &[Value], results: &[Value]) -> Transcript {
    let mut messages = vec![
        json!({ "role": "user", "content": "an earlier prompt" }),
        json!({ "role": "assistant", "content": "an earlier reply" }),
        json!({ "role": "user", "content": "go" }),
        json!({ "role": "assistant", "content": null, "tool_calls": [call("k0", "tally")] }),
        result("k0", "7"),
    ];
    if !calls.is_empty() {
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    }
    messages.extend(results.iter().cloned());
    Transcript::from_json(Bytes::from(json!(messages).to_string())).unwrap()
}

fn left_at(first: usize) -> Left {
    Left { first, ..Left::default() }
}

fn go_on(transcript: &Transcript) -> (Run, Vec<Warning>) {
    Run::go_on(transcript, &left_at(2), &CONFIG, &dock()).unwrap()
}

fn next(run: &mut Run) -> Effect {
    let Some(Output::Effect(effect)) = run.poll() else { panic!("an effect is due") };
    effect
}

fn outcomes(run: &Run) -> Vec<tool::Outcome> {
    run.transcript().messages().iter().filter_map(|message| Some(message.result()?.outcome)).skip(1).collect()
}

#[test]
fn a_run_that_another_worker_left_keeps_its_budget_and_its_results() {
    let transcript = left(&[call("k1", "pay"), call("k2", "pay")], &[result("k2", "9")]);
    let (mut run, warnings) = go_on(&transcript);
    assert_eq!(warnings, [Warning::NoResult { call: CallId::new("k1"), name: "pay".into() }]);
    assert_eq!(outcomes(&run), [tool::Outcome::Interrupted, tool::Outcome::Ok]);
    assert_eq!((run.first(), run.turns()), (2, 2));
    let Effect::CallModel { id } = next(&mut run) else { panic!("the model is asked") };
    let reply = Reply { text: "done".into(), ..Reply::default() };
    run.handle(Input::ModelEnded { effect: id, reply }, &dock()).unwrap();
    assert_eq!((run.outcome(), run.turns()), (Some(&Outcome::Finished), 3));

    let config = RunConfig { max_turns: 2, ..CONFIG };
    let (run, _) = Run::go_on(&transcript, &left_at(2), &config, &dock()).unwrap();
    assert_eq!(run.outcome(), Some(&Outcome::Exhausted(Limit::MaxTurns)));
    let spent = Left { turns: 9, ..left_at(2) };
    let (run, _) = Run::go_on(&transcript, &spent, &CONFIG, &dock()).unwrap();
    assert_eq!((run.turns(), run.outcome()), (11, Some(&Outcome::Exhausted(Limit::MaxTurns))));
}

#[test]
fn a_tool_that_is_safe_to_retry_runs_again_beside_what_is_finished() {
    let (mut run, warnings) = go_on(&left(&[call("k1", "tally"), call("k2", "pay")], &[result("k2", "paid")]));
    assert_eq!(warnings, []);
    let Effect::CallTool { id, call, name, input, answer } = next(&mut run) else { panic!("a tool is called") };
    assert_eq!((call.as_str(), name.as_str(), input.get(), answer), ("k1", "tally", "{ }", None));
    assert_eq!(run.poll(), None, "nothing else runs");
    run.handle(Input::ToolFinished { effect: id, output: ToolOutput::text("8") }, &dock()).unwrap();
    assert!(matches!(next(&mut run), Effect::CallModel { .. }));
    let texts: Vec<_> = run.transcript().messages()[6..].iter().map(Message::text).collect();
    assert_eq!((texts, run.turns()), (vec!["8".to_owned(), "paid".to_owned()], 2));
}

#[test]
fn a_tool_that_had_an_answer_gets_it_again_and_may_not_park_once_more() {
    let answer = Answer { id: RequestId::new("req_1"), ok: true, data: None, reason: None };
    let left_so = Left { answers: vec![(CallId::new("k1"), answer.clone())], ..left_at(5) };
    let (mut run, _) = Run::go_on(&left(&[call("k1", "tally")], &[]), &left_so, &CONFIG, &dock()).unwrap();
    assert_eq!(run.answers(), [&answer]);
    let Effect::CallTool { id, answer: Some(given), .. } = next(&mut run) else { panic!("a tool is called") };
    assert_eq!(given, answer);
    let park = Park { kind: "approval".into(), prompt: "sure?".into(), url: None, data: None, expires_at: None };
    run.handle(Input::ToolParked { effect: id, park }, &dock()).unwrap();
    assert_eq!(outcomes(&run), [tool::Outcome::Error]);
}

#[test]
fn a_relay_call_that_nobody_saw_parks_again() {
    let (mut run, warnings) = go_on(&left(&[call("k1", "moor"), call("k2", "pay"), call("k3", "moor")], &[]));
    assert_eq!(warnings.len(), 1);
    assert_eq!(run.poll(), Some(Output::Done(Outcome::Suspended)));
    let [request] = run.suspensions() else { panic!("{:?}", run.suspensions()) };
    let named: Vec<_> = request.relay_calls().into_iter().map(|call| (call.id.to_string(), call.arguments)).collect();
    assert_eq!(named, [("k1".to_owned(), "{ }".to_owned()), ("k3".to_owned(), "{ }".to_owned())]);
    let settled: Vec<_> = run.transcript().messages()[6..].iter().map(Message::is_placeholder).collect();
    assert_eq!(settled, [true, false, true]);

    let config = RunConfig { inline: true, ..CONFIG };
    let (mut run, _) = Run::go_on(&left(&[call("k1", "moor")], &[]), &left_at(2), &config, &dock()).unwrap();
    assert!(matches!(next(&mut run), Effect::Ask { .. }));
}

#[test]
fn a_tool_that_is_gone_or_refuses_its_arguments_by_now_may_have_run() {
    let (run, warnings) = go_on(&left(&[call("k1", "scuttle")], &[]));
    assert_eq!((outcomes(&run), warnings.len()), (vec![tool::Outcome::Interrupted], 1));
}

/// A turn that halted: `tally` for an approval, `moor` and `moor` for the host.
fn halted() -> Run {
    let prompt = Some(Message::user("go"));
    let (mut run, _) = Run::start(Transcript::default(), prompt, OnPending::Refuse, &CONFIG).unwrap();
    let Effect::CallModel { id } = next(&mut run) else { panic!("the model is asked") };
    let named = |(at, name): (usize, &str)| ReplyCall {
        id: Some(format!("k{at}")),
        name: name.to_owned(),
        arguments: r#"{"to":"Ann"}"#.to_owned(),
    };
    let calls = ["pay", "moor", "moor"].into_iter().enumerate().map(named).collect();
    run.handle(Input::ModelEnded { effect: id, reply: Reply { calls, ..Reply::default() } }, &dock()).unwrap();
    let Effect::CallTool { id, .. } = next(&mut run) else { panic!("a tool is called") };
    let park = Park { kind: "approval".into(), prompt: "sure?".into(), url: None, data: None, expires_at: None };
    run.handle(Input::ToolParked { effect: id, park }, &dock()).unwrap();
    run
}

#[test]
fn a_halted_run_that_another_worker_left_still_waits_for_the_same() {
    let halted = halted();
    let (mut run, warnings) = Run::go_on(halted.transcript(), &Left::default(), &CONFIG, &dock()).unwrap();
    assert_eq!(run.poll(), Some(Output::Done(Outcome::Suspended)));
    assert_eq!(warnings, []);
    assert_eq!((run.suspensions(), run.transcript()), (halted.suspensions(), halted.transcript()));
    assert_eq!((run.first(), run.turns()), (0, 1));

    // Where the host can be asked inline it is, for each request that stands for one call.
    let config = RunConfig { inline: true, ..CONFIG };
    let (mut run, _) = Run::go_on(halted.transcript(), &Left::default(), &config, &dock()).unwrap();
    let Effect::Ask { id, request } = next(&mut run) else { panic!("the host is asked") };
    assert_eq!((&request, run.poll()), (&halted.suspensions()[0], None));
    run.handle(Input::NotHere { effect: id }, &dock()).unwrap();
    assert_eq!((run.suspensions(), run.transcript()), (halted.suspensions(), halted.transcript()));
}

#[test]
fn a_call_under_way_beside_waiting_ones_is_taken_up_and_they_wait_on() {
    let request = Request::relay(RequestId::new("req_1"), &[]);
    let waits = placeholder("k2", &json!({ "id": "req_1", "turns": 2, "request": request }));
    let (mut run, warnings) = go_on(&left(&[call("k1", "pay"), call("k2", "moor"), call("k3", "tally")], &[waits]));
    assert_eq!(warnings.len(), 1);
    let Effect::CallTool { id, .. } = next(&mut run) else { panic!("a tool is called") };
    run.handle(Input::ToolFinished { effect: id, output: ToolOutput::text("8") }, &dock()).unwrap();
    assert_eq!(run.outcome(), Some(&Outcome::Suspended));
    assert_eq!(run.suspensions(), [request]);
    assert_eq!(outcomes(&run), [tool::Outcome::Interrupted, tool::Outcome::Ok, tool::Outcome::Ok]);
}

#[test]
fn there_is_nothing_to_go_on_from_behind_a_finished_reply() {
    let done = Transcript::new(vec![Message::user("go"), Message::assistant_reply("done", Vec::new(), None)]);
    for transcript in [Transcript::default(), done] {
        let refused = Run::go_on(&transcript, &Left::default(), &CONFIG, &dock()).unwrap_err();
        assert_eq!(refused, StartError::NothingToDo);
    }
}

#[test]
fn what_is_parked_is_told_before_the_turn_is_over() {
    let mut run = halted();
    assert!(run.parked().is_empty(), "a run that has ended says it in its transcript");
    let transcript = left(&[call("k1", "moor"), call("k2", "tally")], &[]);
    run = go_on(&transcript).0;
    let [(place, placeholder)] = &run.parked()[..] else { panic!("{:?}", run.parked()) };
    let pending = placeholder.result().unwrap().pending.clone().unwrap();
    assert_eq!((*place, pending.turns, pending.check), (6, 2, None));
    assert_eq!(pending.request.unwrap().relay_calls()[0].id, CallId::new("k1"));
}

#[test]
fn settling_without_a_reason_interrupts_what_was_under_way_and_lets_the_rest_wait() {
    let halted = halted().into_transcript();
    assert_eq!(run::settle(&halted, None).unwrap().transcript, halted);
    let waits = placeholder("k2", &json!({ "id": "req_1", "turns": 2 }));
    let settled = run::settle(&left(&[call("k1", "tally"), call("k2", "moor")], &[waits]), None).unwrap();
    let [.., interrupted, waiting] = settled.transcript.messages() else { panic!("two results") };
    assert_eq!(interrupted.result().unwrap().outcome, tool::Outcome::Interrupted);
    assert!(waiting.is_placeholder());
}

#[test]
fn renewed_requests_have_ids_of_their_own_and_nothing_else_changes() {
    let halted = halted().into_transcript();
    let renewed = suspension::renew(&halted, &mut IdSource::new([9; 32]));
    let requests = |transcript: &Transcript| Suspension::from_transcript(transcript.clone()).unwrap().requests;
    let (before, after) = (requests(&halted), requests(&renewed));
    assert_eq!((before.len(), after.len()), (2, 2));
    let ids = before.iter().chain(&after).map(|request| request.id.as_str()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(ids.len(), 4);
    let mut text = String::from_utf8(renewed.to_json()).unwrap();
    for (before, after) in before.iter().zip(&after) {
        text = text.replace(after.id.as_str(), before.id.as_str());
    }
    assert_eq!(text.into_bytes(), halted.to_json());
}

#[test]
fn settling_what_was_left_balances_it_with_the_reason_for_waiting_calls() {
    let transcript = halted().into_transcript();
    let settled = run::settle(&transcript, Some(Reason::Cancelled)).unwrap();
    assert_eq!(settled.warnings, []);
    let of = |transcript: &Transcript| {
        let results = transcript.messages().iter().filter_map(Message::result);
        results.map(|result| result.outcome).collect::<Vec<_>>()
    };
    assert_eq!(of(&settled.transcript), [tool::Outcome::Cancelled; 3]);
    assert!(!settled.transcript.is_halted());

    let transcript = left(&[call("k1", "tally"), call("k2", "moor")], &[result("k2", "moored")]);
    let settled = run::settle(&transcript, Some(Reason::Expired)).unwrap();
    assert_eq!(of(&settled.transcript)[1..], [tool::Outcome::Interrupted, tool::Outcome::Ok]);
    assert_eq!(run::settle(&left(&[], &[]), Some(Reason::Expired)).unwrap().transcript, left(&[], &[]));
}

/// H9: the host approved one thing, and another stands in the stored state when the answer comes.
#[test]
fn h9_a_call_that_was_changed_while_it_waited_is_not_resumed() {
    let halted = halted();
    let text = String::from_utf8(halted.transcript().to_json()).unwrap();
    let approval = &halted.suspensions()[0];
    let yes = Answer { id: approval.id.clone(), ok: true, data: None, reason: None };
    let resume = |text: &str, request: &Request, answer: &Answer| {
        let history = Transcript::from_json(text.to_owned().into()).unwrap();
        Run::resume(history, request, answer, Missing::Error, None, &CONFIG, &dock()).map(|(run, _)| run)
    };
    assert!(resume(&text, approval, &yes).is_ok());

    let (before, after) =
        (r#"{"name":"pay","arguments":"{\"to\":\"Ann\"}"#, r#"{"name":"pay","arguments":"{\"to\":\"Bob\"}"#);
    let arguments = text.replacen(before, after, 1);
    let tool = text.replacen(r#"{"name":"pay""#, r#"{"name":"tally""#, 1);
    for (edited, tool) in [(arguments, "pay"), (tool, "tally")] {
        assert_ne!(edited, text);
        let changed = ResumeError::CallChanged { call: CallId::new("k0"), tool: tool.into() };
        assert_eq!(resume(&edited, approval, &yes).unwrap_err(), changed);
        assert!(changed.to_string().starts_with("cannot resume"), "{changed}");
        // Not by way of another request of the turn either, nor by a worker that goes on.
        let relay = &halted.suspensions()[1];
        let declined = Answer { id: relay.id.clone(), ok: false, data: None, reason: None };
        assert_eq!(resume(&edited, relay, &declined).unwrap_err(), changed);
        let history = Transcript::from_json(edited.clone().into()).unwrap();
        let refused = Run::go_on(&history, &Left::default(), &CONFIG, &dock()).unwrap_err();
        assert_eq!(refused, StartError::CallChanged { call: CallId::new("k0"), tool: tool.into() });
        // A new prompt may pass over it: nothing of it runs.
        assert!(Run::start(history, Some(Message::user("no")), OnPending::Supersede, &CONFIG).is_ok());
    }
}

#[test]
fn a_parked_call_without_a_check_is_resumed_as_before() {
    let halted = halted();
    let text = String::from_utf8(halted.transcript().to_json()).unwrap();
    let check = Call { id: CallId::new("k0"), name: "pay".into(), arguments: r#"{"to":"Ann"}"#.into() }.check();
    let old = text.replacen(&format!(r#""check":"{check}","#), "", 1);
    assert_ne!(old, text);
    let approval = &halted.suspensions()[0];
    let yes = Answer { id: approval.id.clone(), ok: true, data: None, reason: None };
    let history = Transcript::from_json(old.into()).unwrap();
    assert!(Run::resume(history, approval, &yes, Missing::Error, None, &CONFIG, &dock()).is_ok());
}

#[test]
fn the_check_is_the_one_that_is_written_down() {
    let call = Call { id: CallId::new("any"), name: "pay".into(), arguments: r#"{"to": "Ann"}"#.into() };
    // printf 'pay\0{"to": "Ann"}' | sha256sum
    assert_eq!(call.check(), "2629054599083789e8dfb6ac3f8d9426eded9886a374c18ddf0af77b5dd8a35a");
}

/// The calls `moor`, `moor` and `moor` of an inline run; with their requests, as the host is asked.
fn asked() -> (Run, Vec<(EffectId, Request)>) {
    let config = RunConfig { inline: true, ..CONFIG };
    let prompt = Some(Message::user("go"));
    let (mut run, _) = Run::start(Transcript::default(), prompt, OnPending::Refuse, &config).unwrap();
    let Effect::CallModel { id } = next(&mut run) else { panic!("the model is asked") };
    let named = |id: &str| ReplyCall { id: Some(id.to_owned()), name: "moor".to_owned(), arguments: "{}".to_owned() };
    let reply = Reply { calls: ["k1", "k2", "k3"].map(named).into(), ..Reply::default() };
    run.handle(Input::ModelEnded { effect: id, reply }, &dock()).unwrap();
    let asked = (0..3).map(|_| {
        let Effect::Ask { id, request } = next(&mut run) else { panic!("the host is asked") };
        (id, request)
    });
    let asked = asked.collect();
    (run, asked)
}

#[test]
fn a_call_keeps_its_key_whatever_request_it_rides() {
    let key = |request: &Request, id: &str| request.idempotency_key(&CallId::new(id));
    let (mut run, asked) = asked();
    let keys: Vec<_> = asked.iter().zip(["k1", "k2", "k3"]).map(|((_, request), id)| key(request, id)).collect();
    for ((_, request), id) in asked.iter().zip(["k1", "k2", "k3"]) {
        assert_eq!(key(request, id), format!("{}:{id}", request.id));
    }
    for (effect, _) in &asked {
        run.handle(Input::NotHere { effect: *effect }, &dock()).unwrap();
    }
    let [joined] = run.suspensions() else { panic!("{:?}", run.suspensions()) };
    let kept = |request: &Request| ["k1", "k2", "k3"].map(|id| key(request, id));
    assert_eq!((&joined.id, kept(joined).to_vec()), (&asked[0].1.id, keys.clone()));
    assert_eq!(joined.data_keys(), ["calls", "keys"]);

    // A stored request is read, answered in part, and taken up by another worker.
    let read: Request = serde_json::from_str(&serde_json::to_string(joined).unwrap()).unwrap();
    assert_eq!((&read, kept(&read).to_vec()), (joined, keys.clone()));
    let rest = suspension::rest_of(joined, &[&CallId::new("k1"), &CallId::new("k3")]);
    assert_eq!([key(&rest, "k1"), key(&rest, "k3")], [keys[0].clone(), keys[2].clone()]);
    assert_eq!(
        suspension::rest_of(joined, &[&CallId::new("k1")]).data_keys(),
        ["calls"],
        "nothing is said that the ids say"
    );
    let (again, _) = Run::go_on(run.transcript(), &Left::default(), &CONFIG, &dock()).unwrap();
    assert_eq!(again.suspensions(), run.suspensions());

    // A copy is another way: its calls are acts of their own.
    let copy = suspension::renew(run.transcript(), &mut IdSource::new([9; 32]));
    let renewed = Suspension::from_transcript(copy).unwrap().outstanding().remove(0);
    assert_eq!(kept(&renewed).to_vec(), ["k1", "k2", "k3"].map(|id| format!("{}:{id}", renewed.id)).to_vec());
    assert_ne!(renewed.id, joined.id);
}
