//! A reply of a style as its provider streams it, in small pieces, and what a watcher must make of the pieces.

use std::sync::Mutex;

use futures_util::future::{BoxFuture, FutureExt, ready};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolrelay_core::run::event::Event;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::stream::Delta;
use toolrelay_runtime::watch::{Told, Watcher};

use crate::support::Reply;

/// The same reply as a stream.
pub(crate) fn of(style: Style, body: &str) -> Reply {
    let read: Value = serde_json::from_str(body).unwrap();
    let events = match style {
        Style::OpenAi => openai(&read),
        Style::OpenAiResponses => responses(&read),
        Style::Anthropic => anthropic(&read, &inputs(body)),
        Style::Gemini => gemini(body),
    };
    Reply::status(200).type_of("text/event-stream").chunks(events, std::time::Duration::ZERO).at_once()
}

fn openai(body: &Value) -> Vec<String> {
    let choice = &body["choices"][0];
    let mut events = Vec::new();
    let mut delta = |delta: Value| {
        let chunk = json!({"id": body["id"], "model": body["model"], "choices": [{"index": 0, "delta": delta}]});
        events.push(format!("data: {chunk}\n\n"));
    };
    delta(json!({"role": "assistant", "content": "", "refusal": null}));
    let message = choice["message"].as_object().unwrap();
    for (key, value) in message {
        match (key.as_str(), value) {
            ("tool_calls", Value::Array(calls)) => {
                for (index, call) in calls.iter().enumerate() {
                    let mut begin = call.clone();
                    begin["index"] = json!(index);
                    begin["function"]["arguments"] = json!("");
                    delta(json!({"tool_calls": [begin]}));
                    for piece in pieces(call["function"]["arguments"].as_str().unwrap()) {
                        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
                    }
                }
            }
            ("role", _) | (_, Value::Null) => {}
            (key, Value::String(text)) => pieces(text).for_each(|piece| delta(json!({(key): piece}))),
            (key, value) => delta(json!({(key): value})),
        }
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]});
    let usage = json!({"choices": [], "usage": body["usage"]});
    events.extend([format!("data: {end}\n\n"), format!("data: {usage}\n\n"), "data: [DONE]\n\n".to_owned()]);
    events
}

fn responses(body: &Value) -> Vec<String> {
    let mut events = Vec::new();
    let mut event = |event: Value| {
        events.push(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    };
    let mut created = body.clone();
    (created["output"], created["status"]) = (json!([]), json!("in_progress"));
    event(json!({"type": "response.created", "response": created}));
    for (index, item) in body["output"].as_array().unwrap().iter().enumerate() {
        let mut begun = item.clone();
        let (kind, field) = match item["content"][0]["type"].as_str() {
            Some("refusal") => ("refusal", item.pointer("/content/0/refusal")),
            Some(_) => ("output_text", item.pointer("/content/0/text")),
            None => ("function_call_arguments", item.get("arguments")),
        };
        for (key, empty) in [("content", json!([])), ("arguments", json!(""))] {
            if let Some(value) = begun.get_mut(key) {
                *value = empty;
            }
        }
        event(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        for piece in pieces(field.and_then(Value::as_str).unwrap_or_default()) {
            let kind = format!("response.{kind}.delta");
            event(json!({"type": kind, "output_index": index, "content_index": 0, "delta": piece}));
        }
        event(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    event(json!({"type": format!("response.{}", body["status"].as_str().unwrap()), "response": body}));
    events
}

fn anthropic(body: &Value, inputs: &[Option<&RawValue>]) -> Vec<String> {
    let mut events = Vec::new();
    let mut event = |event: Value| {
        events.push(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    };
    let mut message = body.clone();
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    event(json!({"type": "message_start", "message": message}));
    event(json!({"type": "ping"}));
    for (index, (block, input)) in body["content"].as_array().unwrap().iter().zip(inputs).enumerate() {
        let mut begin = block.clone();
        let mut deltas = Vec::new();
        for (field, kind) in [("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")]
        {
            if let Some(text) = block.get(field).and_then(Value::as_str) {
                begin[field] = json!("");
                let whole = field == "signature";
                let parts: Vec<String> = if whole { vec![text.to_owned()] } else { pieces(text).collect() };
                deltas.extend(parts.into_iter().map(|piece| json!({"type": kind, (field): piece})));
            }
        }
        if let Some(input) = input {
            begin["input"] = json!({});
            deltas.extend(pieces(input.get()).map(|piece| json!({"type": "input_json_delta", "partial_json": piece})));
        }
        event(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in deltas {
            event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        event(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"type": "message_delta", "delta": {"stop_reason": body["stop_reason"]}, "usage": body["usage"]});
    event(end);
    event(json!({"type": "message_stop"}));
    events
}

/// The input of each block, byte for byte.
fn inputs(body: &str) -> Vec<Option<&RawValue>> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    let body: Body<'_> = serde_json::from_str(body).unwrap();
    body.content.into_iter().map(|block| block.input).collect()
}

fn gemini(body: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        candidates: Vec<Candidate<'a>>,
    }
    #[derive(Deserialize)]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Content<'a>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Vec<&'a RawValue>,
    }
    let read: Body<'_> = serde_json::from_str(body).unwrap();
    let mut events = Vec::new();
    let mut event = |part: &str| {
        let content = format!(r#"{{"role":"model","parts":[{part}]}}"#);
        events.push(format!("data: {{\"candidates\":[{{\"content\":{content},\"index\":0}}]}}\n\n"));
    };
    for part in &read.candidates[0].content.parts {
        let own: Value = serde_json::from_str(part.get()).unwrap();
        match own["text"].as_str().filter(|_| own.get("thoughtSignature").is_none()) {
            Some(text) => pieces(text).for_each(|piece| {
                let mut part = own.clone();
                part["text"] = json!(piece);
                event(&part.to_string());
            }),
            None => event(part.get()),
        }
    }
    let mut end: Value = serde_json::from_str(body).unwrap();
    end["candidates"][0]["content"] = json!({"role": "model"});
    events.push(format!("data: {end}\n\n"));
    events
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(3).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

/// Puts the pieces of each reply together.
#[derive(Default)]
pub(crate) struct Listener(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    open: Pieces,
    /// The last reply that has ended.
    ended: Pieces,
    mistakes: Vec<String>,
}

#[derive(Default)]
struct Pieces {
    text: String,
    calls: Vec<(String, String)>,
}

impl Listener {
    /// The text of the last reply, as its pieces said it; or how the pieces of a call differ from it.
    pub(crate) fn text(&self) -> Result<String, String> {
        let heard = self.0.lock().unwrap();
        if heard.mistakes.is_empty() { Ok(heard.ended.text.clone()) } else { Err(heard.mistakes.join("; ")) }
    }
}

impl Watcher for Listener {
    fn tell(&self, told: Vec<Told>) {
        let mut heard = self.0.lock().unwrap();
        for told in told {
            heard.take(told);
        }
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

impl Heard {
    fn take(&mut self, told: Told) {
        match told {
            Told::Delta(Delta::Text(more)) => self.open.text.push_str(&more),
            Told::Delta(Delta::CallStarted { index, name, .. }) => {
                if index != self.open.calls.len() {
                    self.mistakes.push(format!("call {index} begins out of order"));
                }
                self.open.calls.push((name, String::new()));
            }
            Told::Delta(Delta::Arguments { index, text }) => self.open.calls[index].1.push_str(&text),
            Told::Event(Event::Usage(_)) => self.ended = std::mem::take(&mut self.open),
            Told::Event(Event::CallReady { index, name, arguments, .. }) => {
                let pieces = &self.ended.calls[index];
                if *pieces != (name.clone(), arguments.clone()) {
                    self.mistakes.push(format!("call {index} is {name} {arguments}, but its pieces are {pieces:?}"));
                }
            }
            Told::Delta(Delta::Reasoning(_))
            | Told::Event(Event::ToolStarted { .. } | Event::ToolEnded { .. } | Event::Parked(_)) => {}
        }
    }
}
