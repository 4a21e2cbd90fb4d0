//! Answers, right and wrong ones: either refused with nothing changed, or they settle exactly what
//! they say. The oracle is written here from the contract (6.2 to 6.9).

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrelay_core::answer::Answer;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop};
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::io::{Effect, Input, Output};
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::transcript::Transcript;

use crate::choices::Choices;
use crate::world;

const CONFIG: RunConfig = RunConfig { max_turns: 9, inline: false, events: false, seed: [3; 32] };

/// A halted turn of some relay calls, with settled calls between them.
fn halted(choices: &mut Choices) -> (Transcript, Request, Vec<String>, Vec<String>) {
    let tools = world::tools();
    let prompt = Some(Message::user("go"));
    let (mut run, _) = Run::start(Transcript::default(), prompt, OnPending::Refuse, &CONFIG).unwrap();
    let Some(Output::Effect(Effect::CallModel { id })) = run.poll() else { panic!("the model is called first") };
    let kinds: Vec<bool> = (0..=choices.below(4)).map(|at| at == 0 || choices.once_in(2)).collect();
    let call = |(at, relay): (usize, &bool)| ReplyCall {
        id: Some(format!("k{at}")),
        name: if *relay { "moor" } else { "tally" }.to_owned(),
        arguments: format!("{{ \"n\": {at} }}"),
    };
    let reply = Reply { calls: kinds.iter().enumerate().map(call).collect(), stop: Stop::Calls, ..Reply::default() };
    run.handle(Input::ModelEnded { effect: id, reply }, &tools).unwrap();
    while let Some(output) = run.poll() {
        if let Output::Effect(Effect::CallTool { id, .. }) = output {
            run.handle(Input::ToolFinished { effect: id, output: ToolOutput::text("done") }, &tools).unwrap();
        }
    }
    let named = |relay: bool| (0..kinds.len()).filter(|at| kinds[*at] == relay).map(|at| format!("k{at}")).collect();
    (run.transcript().clone(), run.suspensions()[0].clone(), named(true), named(false))
}

/// What an answer must do: `None` when it must be refused, else each relay call's outcome and text;
/// a call without one stays parked.
fn oracle(
    pending: &Request,
    id: &str,
    answer: &Value,
    relayed: &[String],
    wait: bool,
) -> Option<Vec<Option<(Outcome, String)>>> {
    if pending.id.as_str() != id || answer["id"] != id || !pending.is_relay() {
        return None;
    }
    if answer["ok"] == false {
        let (outcome, start) = match answer["reason"].as_str() {
            Some("expired") => (Outcome::Expired, "expired: "),
            Some("cancelled") => (Outcome::Cancelled, "cancelled: "),
            _ => (Outcome::Declined, "declined: "),
        };
        return Some(relayed.iter().map(|_| Some((outcome, start.to_owned()))).collect());
    }
    let data = answer.get("data")?.as_object()?;
    let read = |entry: &Value| {
        let output = entry.get("output")?;
        let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
        let failed = match entry.get("isError") {
            None | Some(Value::Null) => false,
            Some(flag) => flag.as_bool()?,
        };
        Some((if failed { Outcome::Error } else { Outcome::Ok }, text))
    };
    let missing = |_: &String| (!wait).then(|| (Outcome::Missing, "no result supplied on resume for moor".to_owned()));
    let Some(results) = data.get("results") else {
        let single = read(answer.get("data")?)?;
        return (relayed.len() == 1).then(|| vec![Some(single)]);
    };
    if data.contains_key("output") {
        return None;
    }
    let mut settled: Vec<Option<(Outcome, String)>> = relayed.iter().map(missing).collect();
    let mut seen = Vec::new();
    for entry in results.as_array()? {
        let id = entry.get("id")?.as_str()?.to_owned();
        let at = relayed.iter().position(|call| *call == id)?;
        if seen.contains(&id) {
            return None;
        }
        seen.push(id);
        settled[at] = Some(read(entry)?);
    }
    Some(settled)
}

/// A right answer, as JSON.
fn right(request: &Request, relayed: &[String], choices: &mut Choices) -> Value {
    let value =
        |choices: &mut Choices| choices.of(&[json!("7"), json!(0), json!(null), json!(""), json!({ "b": 1, "a": [] })]);
    if choices.once_in(6) {
        let reason = choices.of(&[json!("declined"), json!("expired"), json!("cancelled"), json!(null)]);
        return json!({ "id": request.id.as_str(), "ok": false, "reason": reason });
    }
    let data = if relayed.len() == 1 && choices.once_in(2) {
        json!({ "output": value(choices), "isError": choices.once_in(2) })
    } else {
        let results: Vec<Value> = relayed
            .iter()
            .map(|id| json!({ "id": id, "output": value(choices), "isError": choices.once_in(3) }))
            .collect();
        json!({ "results": results })
    };
    json!({ "id": request.id.as_str(), "ok": true, "data": data })
}

/// One change to an answer or to the request that is passed with it.
fn mutate(answer: &mut Value, pending: &mut Value, settled: &[String], choices: &mut Choices) {
    let bad_ids: Vec<String> = settled.iter().cloned().chain(["nobody".to_owned(), String::new()]).collect();
    let first = json!({ "id": "k0", "output": "again" });
    if !answer["data"].is_object() {
        answer["data"] = json!({});
    }
    match choices.below(16) {
        0 => answer["id"] = json!("req_other"),
        1 => pending["id"] = json!("req_other"),
        2 => pending["kind"] = json!("approval"),
        3 => answer["ok"] = json!(false),
        4 => answer["data"] = choices.of(&[json!(null), json!([]), json!("7"), json!({}), json!({ "Output": "7" })]),
        5 => drop(answer.as_object_mut().unwrap().remove("data")),
        6 => answer["data"]["output"] = json!("7"),
        7 => answer["data"]["results"] = choices.of(&[json!({}), json!(null), json!("7"), json!([7])]),
        8 => {
            let results = answer["data"]["results"].as_array().cloned().unwrap_or_default();
            answer["data"]["results"] = results.into_iter().chain([first]).collect();
        }
        9 => answer["data"] = json!({ "results": [{ "id": choices.of(&bad_ids), "output": "7" }] }),
        10 => answer["data"] = json!({ "results": [] }),
        11 => answer["data"] = json!({ "results": [first] }),
        12 => answer["data"] = json!({ "results": [{ "id": "k0" }] }),
        13 => answer["data"] = json!({ "results": [{ "output": "7" }] }),
        14 => {
            answer["data"] = json!({ "results": [{ "id": "k0", "output": "7", "isError": choices.of(&[json!("yes"), json!(0), json!(null)]) }] });
        }
        _ => pending["data"]["calls"] = json!([]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_refused_or_settles_exactly_what_it_says(mut choices in Choices::any(40), mutations in 0..3_usize, wait in any::<bool>()) {
        let (transcript, request, relayed, settled) = halted(&mut choices);
        let before = transcript.to_json();
        let mut answer = right(&request, &relayed, &mut choices);
        let mut pending = serde_json::to_value(&request).unwrap();
        for _ in 0..mutations {
            mutate(&mut answer, &mut pending, &settled, &mut choices);
        }
        let passed: Request = serde_json::from_value(pending.clone()).unwrap();
        let mut expected = oracle(&passed, request.id.as_str(), &answer, &relayed, wait);
        if pending["data"] != serde_json::to_value(&request).unwrap()["data"] {
            expected = None;
        }
        let given: Answer = serde_json::from_str(&answer.to_string()).unwrap();
        let missing = if wait { Missing::Wait } else { Missing::Error };
        let resumed = Run::resume(transcript.clone(), &passed, &given, missing, None, &CONFIG, &world::tools());
        prop_assert_eq!(transcript.to_json(), before, "the caller's history is never changed");
        let (mut run, expected) = match (resumed, expected) {
            (Err(error), None) => {
                prop_assert!(error.to_string().starts_with("cannot resume"));
                return Ok(());
            }
            (Ok((run, _)), Some(expected)) => (run, expected),
            (resumed, expected) => {
                return Err(TestCaseError::fail(format!("{answer}: expected {expected:?}, found {resumed:?}")));
            }
        };
        let goes_on = expected.iter().all(Option::is_some);
        let calls_model = matches!(run.poll(), Some(Output::Effect(Effect::CallModel { .. })));
        prop_assert_eq!(calls_model, goes_on, "the model is called when nothing waits any more, else not");
        let (then, now) = (transcript.messages(), run.transcript().messages());
        prop_assert_eq!(then.len(), now.len(), "no user turn is added");
        for (one, other) in then.iter().zip(now) {
            let Some(at) = one.result().and_then(|result| relayed.iter().position(|id| *id == result.call.as_str())) else {
                prop_assert_eq!(one.json(), other.json(), "everything before and between stays byte for byte");
                continue;
            };
            let result = other.result().unwrap();
            match &expected[at] {
                None => prop_assert!(result.pending.is_some()),
                Some((outcome, text)) => {
                    prop_assert!(result.pending.is_none() && result.outcome == *outcome, "{:?}", other);
                    prop_assert!(other.text() == *text || (text.ends_with(": ") && other.text().starts_with(text)), "{:?}", other);
                }
            }
        }
    }
}
