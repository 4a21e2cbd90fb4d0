//! Mending any history at all (contract 6.12): sound, the same every time, and once is enough.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolrelay_core::message::Message;
use toolrelay_core::repair::{Warning, mend};
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::transcript::Transcript;

use crate::choices::Choices;
use crate::sound;

const IDS: [&str; 5] = ["k1", "k2", "k3", "k1_2", ""];
const RESULTS: [&str; 4] = ["7", "8", "(interrupted)", "7"];

/// A history of messages in any order: calls without results, results without calls, shared ids,
/// placeholders anywhere.
fn anything(mut choices: Choices) -> Transcript {
    let mut messages = Vec::new();
    while !choices.are_used_up() {
        let text = format!("text {}", messages.len());
        messages.push(match choices.below(8) {
            0 => json!({ "role": "user", "content": text }),
            1 => json!({ "role": "system", "content": text }),
            2 => json!({ "role": "assistant", "content": text }),
            3 | 4 => {
                let calls: Vec<Value> = (0..choices.below(4)).map(|_| call(choices.of(&IDS), &mut choices)).collect();
                json!({ "role": "assistant", "content": text, "tool_calls": calls })
            }
            5 => placeholder(choices.of(&IDS), &mut choices),
            _ => json!({ "role": "tool", "tool_call_id": choices.of(&IDS), "content": choices.of(&RESULTS) }),
        });
    }
    read(&Value::Array(messages))
}

/// A history as it should be, with a few mistakes in it.
fn mangled(mut choices: Choices) -> Transcript {
    let mut messages = Vec::new();
    for turn in 0..=choices.below(3) {
        messages.push(json!({ "role": "user", "content": format!("prompt {turn}") }));
        let ids: Vec<String> = (0..choices.below(4)).map(|number| format!("t{turn}k{number}")).collect();
        let calls: Vec<Value> = ids.iter().map(|id| call(id, &mut choices)).collect();
        messages.push(json!({ "role": "assistant", "content": format!("reply {turn}"), "tool_calls": calls }));
        for id in &ids {
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": format!("result of {id}") }));
        }
    }
    for _ in 0..choices.below(5) {
        let (one, other) = (choices.below(messages.len()), choices.below(messages.len()));
        match choices.below(4) {
            0 => messages.swap(one, other),
            1 => messages.insert(one, messages[other].clone()),
            2 => drop(messages.remove(one)),
            _ => messages.insert(one, json!({ "role": "user", "content": "hurry" })),
        }
        if messages.is_empty() {
            break;
        }
    }
    read(&Value::Array(messages))
}

fn call(id: &str, choices: &mut Choices) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": choices.of(&["tally", "moor"]), "arguments": "{ }" } })
}

fn placeholder(id: &str, choices: &mut Choices) -> Value {
    let request = choices.of(&["req_a", "req_b"]);
    let mut pending = json!({ "id": request, "turns": 1 });
    if choices.once_in(2) {
        pending["request"] = json!({ "id": request, "kind": "approval", "prompt": "sure?" });
    }
    json!({ "role": "tool", "tool_call_id": id, "content": "[pending]", "toolrelay": { "pending": pending } })
}

fn read(messages: &Value) -> Transcript {
    Transcript::from_json(Bytes::from(messages.to_string())).unwrap()
}

fn contents(transcript: &Transcript) -> Vec<String> {
    let said = |message: &&Message| message.result().is_none();
    transcript.messages().iter().filter(said).map(Message::text).collect()
}

fn results(transcript: &Transcript) -> Vec<String> {
    let settled = |message: &&Message| message.result().is_some_and(|result| result.pending.is_none());
    transcript
        .messages()
        .iter()
        .filter(settled)
        .map(Message::text)
        .filter(|text| text.starts_with("result of"))
        .collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts.dedup();
    texts
}

fn holds(history: &Transcript) -> Result<(), TestCaseError> {
    let Ok(mended) = mend(history.clone()) else {
        let conflict = mend(history.clone()).unwrap_err();
        let of_call = |message: &&Message| message.result().is_some_and(|result| result.call == conflict.call);
        let texts = history.messages().iter().filter(of_call).map(Message::text).collect();
        prop_assert!(sorted(texts).len() > 1, "a conflict without two different results: {}", conflict);
        return Ok(());
    };
    prop_assert_eq!(&mended, &mend(history.clone()).unwrap(), "the same every time");
    let again = mend(mended.transcript.clone()).unwrap();
    prop_assert_eq!(&again.transcript, &mended.transcript, "twice is once");
    prop_assert_eq!(again.warnings, vec![], "nothing is left to mend");
    if let Err(fault) = sound::check(&mended.transcript, true) {
        prop_assert!(false, "{}\n{:#?}\n{:#?}", fault, history, mended.transcript);
    }
    prop_assert_eq!(
        sound::prompts(&mended.transcript),
        sound::prompts(history),
        "no text of a user is lost or moved past another"
    );
    prop_assert_eq!(sorted(contents(&mended.transcript)), sorted(contents(history)), "nothing that was said is lost");
    if mended.warnings.is_empty() {
        prop_assert_eq!(&mended.transcript, history, "a change without a warning");
    }
    starts(&mended.transcript, history)
}

/// A run on any history starts with every call settled, or is refused for what is parked.
fn starts(mended: &Transcript, history: &Transcript) -> Result<(), TestCaseError> {
    let config = RunConfig { max_turns: 1, inline: false, events: false, seed: [1; 32] };
    let prompt = || Some(Message::user("next"));
    match Run::start(history.clone(), prompt(), OnPending::Refuse, &config) {
        Ok((run, _)) => prop_assert_eq!(sound::check(run.transcript(), false), Ok(())),
        Err(_) => prop_assert!(mended.is_halted()),
    }
    let (run, _) = Run::start(history.clone(), prompt(), OnPending::Supersede, &config).unwrap();
    prop_assert_eq!(sound::check(run.transcript(), false), Ok(()));
    prop_assert!(!run.transcript().is_halted());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_mended_or_a_conflict(choices in Choices::any(60)) {
        holds(&anything(choices))?;
    }

    #[test]
    fn a_history_with_mistakes_is_mended_and_keeps_its_results(choices in Choices::any(60)) {
        let history = mangled(choices);
        holds(&history)?;
        if let Ok(mended) = mend(history.clone()) {
            let kept = results(&mended.transcript);
            for text in results(&history).into_iter().filter(|text| !kept.contains(text)) {
                let warned = |warning: &Warning| matches!(warning, Warning::ResultWithoutCall { call } if text.ends_with(call.as_str()));
                prop_assert!(mended.warnings.iter().any(warned), "{} is lost without a warning", text);
            }
        }
    }
}
