//! Reading a Chat Completions reply, also one of the many servers that imitate it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::is_noise;
use crate::message::Fields;
use crate::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use crate::wire::content::{Part, Shown, string};
use crate::wire::counts::Counts;
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::{Style, malformed, unreadable};

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads a reply whose escapes are mended. Only its first choice counts.
pub(in crate::wire) fn decode(body: &str) -> Result<Reply, ProviderFailure> {
    let completion: Completion<'_> = serde_json::from_str(body).map_err(|error| unreadable(&error))?;
    let Some(choice) = completion.choices.into_iter().flatten().next() else {
        return Err(malformed("the reply holds no choice"));
    };
    if let Some(error) = choice.error {
        return Err(choice_error(error.get()));
    }
    if let Some(failure) = broken_off(choice.finish_reason) {
        return Err(failure);
    }
    let Some(raw) = choice.message else { return Err(malformed("the choice holds no message")) };
    let message = Message::read(raw).map_err(|error| unreadable(&error))?;
    let stop = if message.refusal.is_empty() { stop(choice.finish_reason) } else { Stop::Refused };
    let provider = || Provider { style: Style::OpenAi, raw: raw.get().to_owned(), paused: false };
    Ok(Reply {
        text: message.text + &message.refusal,
        calls: message.calls,
        reasoned: message.reasoned,
        stop,
        usage: usage(&Counts::read(completion.usage)),
        model: string(completion.model).map(Cow::into_owned),
        provider: message.has_extras.then(provider),
    })
}

/// The failure that a choice reports in its `error`.
pub(super) fn choice_error(error: &str) -> ProviderFailure {
    let body = format!(r#"{{"error":{error}}}"#);
    ProviderFailure::in_body(body.as_bytes()).unwrap_or_else(|| malformed("the choice is an error"))
}

#[derive(Default)]
struct Message {
    text: String,
    /// The words of a refusal, which stand behind the text.
    refusal: String,
    calls: Vec<ReplyCall>,
    reasoned: bool,
    /// Whether it holds something that the canonical shape cannot.
    has_extras: bool,
}

impl Message {
    fn read(raw: &RawValue) -> Result<Self, serde_json::Error> {
        let fields: Fields<'_> = serde_json::from_str(raw.get())?;
        let mut message = Self::default();
        let mut legacy = None;
        for (key, value) in &fields.0 {
            match key.as_ref() {
                _ if is_noise(key, value) => {}
                "role" | "refusal" => {}
                "content" => message.content(value),
                "tool_calls" => {
                    for entry in serde_json::from_str::<Vec<&RawValue>>(value.get())? {
                        let entry: Fields<'_> = serde_json::from_str(entry.get())?;
                        message.call(&entry, entry.get("function"))?;
                    }
                }
                "function_call" => legacy = Some(*value),
                "reasoning_content" | "reasoning" | "reasoning_details" => {
                    message.reasoned |= !matches!(value.get(), "null" | r#""""# | "[]" | "{}");
                    message.has_extras |= value.get() != "null";
                }
                _ => message.has_extras |= value.get() != "null",
            }
        }
        message.refusal.push_str(&string(fields.get("refusal")).unwrap_or_default());
        if message.calls.is_empty() && legacy.is_some() {
            message.call(&Fields(Vec::new()), legacy)?;
        }
        Ok(message)
    }

    /// Text, or a list of parts. A list is kept as the provider made it.
    fn content(&mut self, value: &RawValue) {
        match Shown::read(value) {
            Shown::None => {}
            Shown::Text(_) => self.text = string(Some(value)).unwrap_or_default().into_owned(),
            Shown::Parts(parts) => {
                self.has_extras = true;
                for part in parts.into_iter().map(Part::read) {
                    match part.kind.as_ref() {
                        "text" | "output_text" => self.text.push_str(&string(part.text).unwrap_or_default()),
                        "refusal" => self.refusal.push_str(&string(part.refusal).unwrap_or_default()),
                        "thinking" | "reasoning" => self.reasoned = true,
                        _ => {}
                    }
                }
            }
        }
    }

    /// One call. Some servers leave the function's fields in the call itself, or give the arguments
    /// as an object (fault C5); an empty id is none (fault B4).
    fn call(&mut self, entry: &Fields<'_>, function: Option<&RawValue>) -> Result<(), serde_json::Error> {
        let own: Option<Fields<'_>> = function.map(|function| serde_json::from_str(function.get())).transpose()?;
        let function = own.as_ref().unwrap_or(entry);
        let arguments = match function.get("arguments") {
            None => String::new(),
            Some(value) => match string(Some(value)) {
                Some(text) => text.into_owned(),
                None if value.get() == "null" => String::new(),
                None => value.get().to_owned(),
            },
        };
        let has_others = |fields: &Fields<'_>, known: &[&str]| {
            fields.0.iter().any(|(key, value)| !known.contains(&key.as_ref()) && value.get() != "null")
        };
        self.has_extras |= has_others(entry, &["id", "type", "function", "index", "name", "arguments"])
            || own.as_ref().is_some_and(|function| has_others(function, &["name", "arguments"]));
        self.calls.push(ReplyCall {
            id: string(entry.get("id")).filter(|id| !id.is_empty()).map(Cow::into_owned),
            name: string(function.get("name")).unwrap_or_default().into_owned(),
            arguments,
        });
        Ok(())
    }
}

/// The failure of a reply that the server could not bring to its end, and says so by a word alone.
fn broken_off(reason: Option<&RawValue>) -> Option<ProviderFailure> {
    let word = string(reason).filter(|word| BROKEN_OFF.contains(&word.as_ref()))?;
    let message = format!("the server broke the reply off, its finish reason is {word}");
    Some(ProviderFailure { error_type: Some(word.into_owned()), ..ProviderFailure::new(FailureKind::Server, message) })
}

fn stop(reason: Option<&RawValue>) -> Stop {
    let word = string(reason).unwrap_or_default();
    let lower = word.to_ascii_lowercase();
    // Gemini's imitation says what its filter found: `function_call_filter: MALFORMED_FUNCTION_CALL`.
    match lower.split(':').next().unwrap_or(&lower) {
        "" | "stop" | "end_turn" | "stop_sequence" | "eos" => Stop::End,
        "tool_calls" | "function_call" | "tool_use" => Stop::Calls,
        "length" | "max_tokens" => Stop::Length,
        "content_filter" | "safety" | "sensitive" => Stop::Filtered,
        "refusal" => Stop::Refused,
        "malformed_function_call" | "function_call_filter" => Stop::Malformed,
        "model_context_window_exceeded" | "model_length" => Stop::ContextOverflow,
        _ => Stop::Other(word.into_owned()),
    }
}

fn usage(counts: &Counts<'_>) -> Usage {
    let input = counts.nested("prompt_tokens_details");
    let cached = ["cached_tokens", "prompt_cache_hit_tokens"];
    let cached = input.get(cached[0]).or_else(|| cached.iter().find_map(|key| counts.get(key)));
    Usage {
        input_tokens: counts.get("prompt_tokens").unwrap_or(0),
        output_tokens: counts.get("completion_tokens").unwrap_or(0),
        cached_tokens: cached.unwrap_or(0),
        cache_write_tokens: input.get("cache_write_tokens").unwrap_or(0),
        reasoning_tokens: counts.nested("completion_tokens_details").get("reasoning_tokens").unwrap_or(0),
    }
}

/// Finish reasons of a reply that is not whole though no limit cut it.
const BROKEN_OFF: [&str; 5] = ["error", "abort", "aborted", "insufficient_system_resource", "network_error"];
