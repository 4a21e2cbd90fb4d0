//! The wires: what is sent and what is read, for every style. Each test is named after the outcome;
//! the fault that it guards against stands beside it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "wire/anthropic.rs"]
mod anthropic;
#[path = "wire/anthropic_reply.rs"]
mod anthropic_reply;
#[path = "wire/anthropic_stream.rs"]
mod anthropic_stream;
#[path = "wire/cache.rs"]
mod cache;
#[path = "wire/chat.rs"]
mod chat;
#[path = "wire/choice.rs"]
mod choice;
#[path = "wire/completion.rs"]
mod completion;
#[path = "wire/gemini.rs"]
mod gemini;
#[path = "wire/gemini_reply.rs"]
mod gemini_reply;
#[path = "wire/gemini_schema.rs"]
mod gemini_schema;
#[path = "wire/gemini_stream.rs"]
mod gemini_stream;
#[path = "wire/import.rs"]
mod import;
#[path = "wire/moved.rs"]
mod moved;
#[path = "wire/names.rs"]
mod names;
#[path = "wire/odd_nodes.rs"]
mod odd_nodes;
#[path = "wire/openai.rs"]
mod openai;
#[path = "wire/openai_reply.rs"]
mod openai_reply;
#[path = "wire/openai_stream.rs"]
mod openai_stream;
#[path = "wire/openai_stream_calls.rs"]
mod openai_stream_calls;
#[path = "wire/profile.rs"]
mod profile;
#[path = "wire/properties.rs"]
mod properties;
#[path = "wire/responses.rs"]
mod responses;
#[path = "wire/responses_reply.rs"]
mod responses_reply;
#[path = "wire/responses_stream.rs"]
mod responses_stream;
#[path = "wire/schema.rs"]
mod schema;
#[path = "wire/sse.rs"]
mod sse;
#[path = "wire/stream_properties.rs"]
mod stream_properties;
#[path = "wire/streamed.rs"]
mod streamed;
#[path = "wire/written.rs"]
mod written;

use bytes::Bytes;
use serde_json::Value;
use toolrelay_core::id::CallId;
use toolrelay_core::json::Json;
use toolrelay_core::message::{Call, Message};
use toolrelay_core::reply::Reply;
use toolrelay_core::tool::{ToolOutput, ToolSpec};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::{Body, Head, Prefix, Style};

fn parts(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn tool_spec(name: &str, description: &str, schema: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: description.into(), schema: parts(schema) }
}

fn head<'a>(system: Option<&'a str>, tools: &'a [ToolSpec], params: &'a [(String, Json)]) -> Head<'a> {
    Head { model: "m", system, tools, params, ..Head::default() }
}

fn prefix(style: Style) -> Prefix {
    style.head(&head(None, &[], &[])).unwrap()
}

fn history(json: &str) -> Vec<Message> {
    Transcript::from_json(Bytes::copy_from_slice(json.as_bytes())).unwrap().messages().to_vec()
}

fn joined(body: &Body) -> Vec<u8> {
    body.chunks.concat()
}

fn body_of(style: Style, head: &Head<'_>, messages: &[Message]) -> Vec<u8> {
    let body = style.head(head).unwrap().body(messages).unwrap();
    assert_eq!(body.len, body.chunks.iter().map(Bytes::len).sum::<usize>());
    joined(&body)
}

/// The messages, or what a style has for them, in the body of a request without tools, system prompt
/// and parameters.
fn messages_of(style: Style, messages: &[Message]) -> Vec<u8> {
    let body = joined(&prefix(style).body(messages).unwrap());
    let key: &[u8] = match style {
        Style::OpenAi | Style::Anthropic => b"\"messages\":",
        Style::OpenAiResponses => b"\"input\":",
        Style::Gemini => b"\"contents\":",
    };
    let start = body.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    body[start..body.len() - 1].to_vec()
}

fn read(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

/// What a history looks like on the wire of a style.
fn sent(style: Style, json: &str) -> Value {
    read(&messages_of(style, &history(json)))
}

/// The ids of the calls on the wire of a style, in order; of Gemini, which may have none, the names.
fn asked(style: Style, shown: &Value) -> Vec<String> {
    let messages = shown.as_array().unwrap().iter();
    let ids: Vec<&Value> = match style {
        Style::OpenAi => messages
            .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
            .map(|call| &call["id"])
            .collect(),
        Style::OpenAiResponses => {
            messages.filter(|item| item["type"] == "function_call").map(|item| &item["call_id"]).collect()
        }
        Style::Anthropic => blocks(messages, "tool_use").map(|block| &block["id"]).collect(),
        Style::Gemini => found(messages, "functionCall"),
    };
    texts(&ids)
}

/// The ids of the results on the wire of a style, in order; of Gemini the names.
fn answered(style: Style, shown: &Value) -> Vec<String> {
    let messages = shown.as_array().unwrap().iter();
    let ids: Vec<&Value> = match style {
        Style::OpenAi => {
            messages.filter(|message| message["role"] == "tool").map(|message| &message["tool_call_id"]).collect()
        }
        Style::OpenAiResponses => {
            messages.filter(|item| item["type"] == "function_call_output").map(|item| &item["call_id"]).collect()
        }
        Style::Anthropic => blocks(messages, "tool_result").map(|block| &block["tool_use_id"]).collect(),
        Style::Gemini => found(messages, "functionResponse"),
    };
    texts(&ids)
}

fn blocks<'a>(messages: impl Iterator<Item = &'a Value>, kind: &str) -> impl Iterator<Item = &'a Value> {
    messages
        .flat_map(|message| message["content"].as_array().into_iter().flatten())
        .filter(move |block| block["type"] == kind)
}

fn found<'a>(contents: impl Iterator<Item = &'a Value>, key: &str) -> Vec<&'a Value> {
    let parts = contents.flat_map(|content| content["parts"].as_array().unwrap());
    parts.filter_map(|part| part.get(key)).filter(|found| found.is_object()).map(|found| &found["name"]).collect()
}

fn texts(values: &[&Value]) -> Vec<String> {
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call { id: CallId::new(id), name: name.into(), arguments: arguments.into() }
}

/// A prompt, a reply whose calls got these ids, and what follows it: results, or a prompt.
fn turn(reply: &Reply, ids: &[&str]) -> Vec<Message> {
    let calls = reply.calls.iter().zip(ids).map(|(asked, id)| call(id, &asked.name, &asked.arguments));
    let calls: Vec<Call> = calls.collect();
    let mut messages = vec![Message::user("x")];
    messages.push(Message::assistant_reply(&reply.text, calls.clone(), reply.provider.clone()));
    messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("7"))));
    if calls.is_empty() {
        messages.push(Message::user("y"));
    }
    messages
}
