//! A random world around the machine: models, tools and hosts that do anything they may.

use serde_json::{Value, json};
use toolrelay_core::answer::{Answer, Reason};
use toolrelay_core::id::{EffectId, RequestId};
use toolrelay_core::json::Json;
use toolrelay_core::reply::{Reply, ReplyCall, Stop, Usage};
use toolrelay_core::request::Request;
use toolrelay_core::run::io::{Effect, Input, ModelFailure, Park};
use toolrelay_core::tool::{Outcome, ToolKind, ToolOutput};

use crate::choices::Choices;
use crate::tools::{Tool, Toolkit};

pub(crate) fn tools() -> Toolkit {
    let tool = |name: &str, kind, required: &[&str]| Tool {
        name: name.to_owned(),
        kind,
        required: required.iter().map(|field| (*field).to_owned()).collect(),
    };
    Toolkit(vec![
        tool("tally", ToolKind::Local, &[]),
        tool("pay", ToolKind::Local, &["to"]),
        tool("moor", ToolKind::Relay, &[]),
        tool("save", ToolKind::Relay, &["path"]),
    ])
}

/// What a model may say: anything, more often calls than not.
pub(crate) fn reply(choices: &mut Choices) -> Reply {
    let count = choices.of(&[0, 1, 2, 3, 4, 1, 2]);
    let calls = (0..count).map(|_| call(choices)).collect();
    let stop = choices.of(&[
        Stop::End,
        Stop::Calls,
        Stop::Calls,
        Stop::End,
        Stop::Length,
        Stop::Refused,
        Stop::Paused,
        Stop::Malformed,
        Stop::Other("moon\0".to_owned()),
        Stop::ContextOverflow,
        Stop::Calls,
        Stop::Calls,
    ]);
    Reply {
        text: choices.of(&["", "ok", "hm \0 \u{2028}"]).to_owned(),
        calls,
        reasoned: choices.once_in(4),
        stop,
        usage: Usage { input_tokens: 3, output_tokens: 1, ..Usage::default() },
        model: choices.once_in(2).then(|| "m-1".to_owned()),
        provider: None,
    }
}

fn call(choices: &mut Choices) -> ReplyCall {
    ReplyCall {
        id: choices.of(&[Some("k1"), Some("k2"), Some("k3"), None, Some(""), Some("k\0")]).map(str::to_owned),
        name: choices.of(&["tally", "moor", "pay", "save", "moor", "moor_bote"]).to_owned(),
        arguments: choices
            .of(&[
                "{}",
                r#"{ "to": "Ann", "path":"x" }"#,
                "",
                r#""{\"to\":\"Bob\",\"path\":1}""#,
                "{",
                "[]",
                "{\"a\":\"\0\"}",
                r#"{"path":"\ud83d","to":1e2}"#,
            ])
            .to_owned(),
    }
}

/// The end of an effect, as its executor may report it.
pub(crate) fn end_of(effect: &Effect, choices: &mut Choices) -> Input {
    match effect {
        Effect::CallModel { id } if choices.once_in(20) => {
            let failure = ModelFailure::in_process("no route");
            Input::ModelFailed { effect: *id, failure }
        }
        Effect::CallModel { id } => Input::ModelEnded { effect: *id, reply: reply(choices) },
        Effect::CallTool { id, .. } if choices.once_in(3) => Input::ToolParked { effect: *id, park: park(choices) },
        Effect::CallTool { id, .. } => Input::ToolFinished { effect: *id, output: output(choices) },
        Effect::Ask { id, request } => match choices.below(8) {
            0 => Input::NotHere { effect: *id },
            1 => Input::AskExpired { effect: *id },
            2 if choices.once_in(4) => Input::AskFailed { effect: *id },
            3 if choices.once_in(4) => Input::Answered { effect: *id, answer: bad_answer(request, choices) },
            _ => Input::Answered { effect: *id, answer: answer(request, choices) },
        },
        Effect::Abort { .. } => panic!("an abort has no end"),
    }
}

pub(crate) fn output(choices: &mut Choices) -> ToolOutput {
    let parts = choices
        .once_in(4)
        .then(|| Json::parse(r#"[ {"type":"image_url","image_url":{"url":"data:\u0000"}} ]"#).unwrap());
    ToolOutput {
        text: choices.of(&["7", "", "a\0b \"quoted\" \\u0000", "(interrupted)"]).to_owned(),
        parts,
        outcome: choices.of(&[Outcome::Ok, Outcome::Ok, Outcome::Error]),
    }
}

fn park(choices: &mut Choices) -> Park {
    Park {
        kind: choices.of(&["approval", "input", "tool_call", "odd\0"]).to_owned(),
        prompt: choices.of(&["sure?", "a\0b"]).to_owned(),
        url: choices.once_in(3).then(|| "https://example.org/\0".to_owned()),
        data: choices.once_in(2).then(|| Json::parse(r#"{ "b": 1.0, "a": "\ud83d" }"#).unwrap()),
        expires_at: choices.once_in(3).then(|| "2031-01-01T00:00:00Z".to_owned()),
    }
}

/// An answer that fits its request.
pub(crate) fn answer(request: &Request, choices: &mut Choices) -> Answer {
    if choices.once_in(5) {
        let reason = choices.of(&[None, Some(Reason::Declined), Some(Reason::Cancelled), Some(Reason::Expired)]);
        return Answer { id: request.id.clone(), ok: false, data: None, reason };
    }
    let data =
        if request.is_relay() { Some(relay_data(request, choices)) } else { choices.of(&[Some(json!("yes")), None]) };
    let data = data.map(|data| Json::of(&data).unwrap());
    Answer { id: request.id.clone(), ok: true, data, reason: None }
}

fn relay_data(request: &Request, choices: &mut Choices) -> Value {
    let given = |id: Option<&str>, choices: &mut Choices| {
        let output = choices.of(&[json!("7"), json!(null), json!(""), json!({ "a": [1.5, "\0"] }), json!(false)]);
        let is_error = choices.once_in(3);
        match id {
            None => json!({ "output": output, "isError": is_error }),
            Some(id) => json!({ "id": id, "output": output, "isError": is_error }),
        }
    };
    let calls = request.relay_calls();
    if calls.len() == 1 && choices.once_in(2) {
        return given(None, choices);
    }
    let mut results = Vec::new();
    for call in &calls {
        if !choices.once_in(4) {
            results.push(given(Some(call.id.as_str()), choices));
        }
    }
    if choices.once_in(2) {
        results.reverse();
    }
    json!({ "results": results })
}

/// An answer that fits no request, or not this one.
pub(crate) fn bad_answer(request: &Request, choices: &mut Choices) -> Answer {
    let mut bad = Answer { id: request.id.clone(), ok: true, data: None, reason: None };
    match choices.below(3) {
        0 => bad.id = RequestId::new("req_other"),
        1 => bad.data = Some(Json::parse(r#"{"results":[{"id":"nobody","output":"7"}]}"#).unwrap()),
        _ => bad.data = Some(Json::parse(r#"{"value":1}"#).unwrap()),
    }
    bad
}

/// Inputs that the machine must refuse, whatever it waits for.
pub(crate) fn nonsense(open: &[Effect]) -> Vec<Input> {
    let unknown = EffectId(9_999);
    let mut inputs = vec![
        Input::ModelEnded { effect: unknown, reply: Reply::default() },
        Input::ToolFinished { effect: unknown, output: ToolOutput::default() },
        Input::NotHere { effect: unknown },
        Input::AskFailed { effect: unknown },
        Input::AskExpired { effect: unknown },
    ];
    for effect in open {
        let id = effect.id();
        let model = Input::ModelEnded { effect: id, reply: Reply::default() };
        let tool = Input::ToolFinished { effect: id, output: ToolOutput::text("forged") };
        let host = Input::AskExpired { effect: id };
        match effect {
            Effect::CallModel { .. } => inputs.extend([tool, host]),
            Effect::CallTool { .. } => inputs.extend([model, host]),
            Effect::Ask { .. } => inputs.extend([model, tool]),
            Effect::Abort { .. } => {}
        }
    }
    inputs
}
