//! Transcripts, requests and call records in the readable form that fixtures hold. Minted ids get
//! names that are the same in every run.

use serde_json::{Value, json};
use toolrelay_core::message::{Body, Message};
use toolrelay_core::request::Request;
use toolrelay_core::run::CallRecord;
use toolrelay_core::tool::Outcome;
use toolrelay_core::transcript::Transcript;

/// Names for ids that nobody chose: `$label` for calls, `$req1`, `$req2`, … for requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    pub(crate) fn label(&mut self, name: &str, id: &str) {
        self.0.push((format!("${name}"), id.to_owned()));
    }

    /// Numbers a request at its first appearance.
    pub(crate) fn number(&mut self, request: &str) {
        if request.starts_with("req_") && !self.0.iter().any(|(_, id)| id == request) {
            let numbered = self.0.iter().filter(|(name, _)| name.starts_with("$req")).count();
            self.0.push((format!("$req{}", numbered + 1), request.to_owned()));
        }
    }

    /// The ids in `text` as names.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, id)| text.replace(id.as_str(), name))
    }

    /// The names in `text` as ids.
    pub(crate) fn show(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name.as_str(), id))
    }
}

/// The transcript, like a play.
pub(crate) fn transcript(transcript: &Transcript) -> Vec<String> {
    transcript.messages().iter().flat_map(message).collect()
}

fn message(message: &Message) -> Vec<String> {
    let text = message.text();
    match message.body() {
        Body::System => vec![format!("system: {text}")],
        Body::User => vec![format!("user: {text}")],
        Body::Assistant(assistant) => {
            let said = if text.is_empty() { "assistant:".to_owned() } else { format!("assistant: {text}") };
            let calls =
                assistant.calls.iter().map(|call| format!("  call {} {} {}", call.id, call.name, call.arguments));
            std::iter::once(said).chain(calls).collect()
        }
        Body::Tool(result) => vec![match (&result.pending, result.outcome) {
            (Some(pending), _) => format!("  {} (pending {})", result.call, pending.id),
            (None, Outcome::Ok) => format!("  {}: {text}", result.call),
            (None, outcome) => {
                let outcome = serde_json::to_value(outcome).unwrap();
                format!("  {} ({}): {text}", result.call, outcome.as_str().unwrap())
            }
        }],
    }
}

/// One line for a request: its id, its kind, and its calls or its prompt.
pub(crate) fn wait(request: &Request) -> String {
    let calls: Vec<String> = request.relay_calls().iter().map(|call| call.id.to_string()).collect();
    let what = if request.is_relay() { calls.join(" ") } else { request.prompt.clone() };
    format!("{} {} {what}", request.id, request.kind)
}

/// The records of a run's calls.
pub(crate) fn records(records: &[CallRecord]) -> Value {
    let record = |record: &CallRecord| {
        json!({
            "id": record.id.as_str(),
            "name": record.name,
            "input": serde_json::from_str::<Value>(record.input.get()).unwrap(),
            "arguments": record.arguments,
            "output": record.output,
            "is_error": record.is_error,
            "pending": record.pending,
        })
    };
    Value::Array(records.iter().map(record).collect())
}

/// Whether a line is as expected; one that ends with `…` expects a beginning.
pub(crate) fn matches(expected: &str, found: &str) -> bool {
    match expected.strip_suffix('…') {
        Some(start) => found.starts_with(start),
        None => expected == found,
    }
}
