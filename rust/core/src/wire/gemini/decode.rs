//! Reading a generateContent reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{self, OwnPart};
use super::push_text;
use crate::json::quoted;
use crate::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use crate::wire::content::string;
use crate::wire::counts::Counts;
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::{Style, malformed, unreadable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model_version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_message: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    block_reason_message: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<&'a RawValue>,
}

/// Reads a reply whose escapes are mended. Only its first candidate counts; one without content is
/// an empty reply (fault E8).
pub(in crate::wire) fn decode(body: &str) -> Result<Reply, ProviderFailure> {
    let response: Response<'_> = serde_json::from_str(body).map_err(|error| unreadable(&error))?;
    let Some(candidate) = response.candidates.into_iter().flatten().next() else {
        return Err(blocked(response.prompt_feedback).unwrap_or_else(|| malformed("the reply holds no candidate")));
    };
    let word = match string(candidate.finish_reason).unwrap_or_default() {
        word if word == UNSIGNED => return Err(refused(&word, candidate.finish_message)),
        word => word,
    };
    let content: Content<'_> = match candidate.content {
        Some(content) => serde_json::from_str(content.get()).map_err(|error| unreadable(&error))?,
        None => Content::default(),
    };
    let parts: Vec<&RawValue> = match content.parts {
        Some(parts) => serde_json::from_str(parts.get()).map_err(|error| unreadable(&error))?,
        None => Vec::new(),
    };
    let said = Said::read(&parts);
    let stop = stop(&word, !said.calls.is_empty());
    // What the canonical message gives back byte for byte needs no second copy.
    let raw = content.parts.filter(|raw| !parts.is_empty() && !said.is_all_of(raw));
    let provider = raw.map(|raw| Provider { style: Style::Gemini, raw: raw.get().to_owned(), paused: false });
    Ok(Reply {
        text: said.text,
        calls: said.calls,
        reasoned: said.reasoned,
        stop,
        usage: usage(&Counts::read(response.usage_metadata)),
        model: string(response.model_version).map(Cow::into_owned),
        provider,
    })
}

/// The parts of a content object; `None` for any other value.
pub(super) fn parts_of_content(content: &str) -> Option<Vec<&RawValue>> {
    let content: Content<'_> = serde_json::from_str(content).ok()?;
    serde_json::from_str(content.parts?.get()).ok()
}

/// A prompt that the provider's filter did not let through.
fn blocked(feedback: Option<&RawValue>) -> Option<ProviderFailure> {
    let feedback: Feedback<'_> = serde_json::from_str(feedback?.get()).ok()?;
    let reason = string(feedback.block_reason)?;
    let message = string(feedback.block_reason_message).unwrap_or(Cow::Borrowed("the prompt was blocked"));
    let failure = ProviderFailure::new(FailureKind::Filtered, message);
    Some(ProviderFailure { error_type: Some(reason.into_owned()), ..failure })
}

/// A request that the provider refuses in the form of a reply.
fn refused(word: &str, message: Option<&RawValue>) -> ProviderFailure {
    let message = string(message).unwrap_or(Cow::Borrowed("a call has no thought signature"));
    ProviderFailure { error_type: Some(word.to_owned()), ..ProviderFailure::new(FailureKind::BadRequest, message) }
}

/// What a list of parts says.
#[derive(Default)]
struct Said {
    text: String,
    calls: Vec<ReplyCall>,
    reasoned: bool,
}

impl Said {
    fn read(parts: &[&RawValue]) -> Self {
        let mut said = Self::default();
        for part in parts.iter().map(|part| OwnPart::read(part.get())) {
            if let Some(call) = part.call() {
                said.calls.push(ReplyCall {
                    id: call.given_id().map(Cow::into_owned),
                    name: string(call.name).unwrap_or_default().into_owned(),
                    arguments: call
                        .args
                        .map(RawValue::get)
                        .filter(|args| *args != "null")
                        .unwrap_or_default()
                        .to_owned(),
                });
            } else if part.is_thought() {
                said.reasoned = true;
            } else {
                said.text.push_str(&string(part.text).unwrap_or_default());
            }
        }
        said
    }

    /// Whether text and calls are the whole list, in the very bytes that this style would send.
    fn is_all_of(&self, list: &RawValue) -> bool {
        let mut parts = Vec::with_capacity(list.get().len());
        push_text(&mut parts, &quoted(&self.text));
        for (at, call) in self.calls.iter().enumerate() {
            calls::push(&mut parts, &call.name, &call.arguments, at == 0);
        }
        list.get().as_bytes().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) == Some(&parts)
    }
}

/// The provider has one word for a reply that is done and for one that waits for its calls.
fn stop(word: &str, has_calls: bool) -> Stop {
    match word {
        "" | "STOP" | "FINISH_REASON_UNSPECIFIED" if has_calls => Stop::Calls,
        "" | "STOP" | "FINISH_REASON_UNSPECIFIED" => Stop::End,
        "MAX_TOKENS" | "CONTINUATION" => Stop::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "ESCALATION"
        | "PUP_LIMITED_DISABLED"
        | "MODEL_ARMOR" => Stop::Filtered,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => Stop::Malformed,
        _ => Stop::Other(word.to_owned()),
    }
}

/// The provider counts thoughts beside the output, and the results of its own tools beside the
/// input; here they are part of them.
fn usage(counts: &Counts<'_>) -> Usage {
    let count = |key| counts.get(key).unwrap_or(0);
    let thoughts = count("thoughtsTokenCount");
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(thoughts),
        cached_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        reasoning_tokens: thoughts,
    }
}

/// The word for a request whose calls lack a signature.
const UNSIGNED: &str = "MISSING_THOUGHT_SIGNATURE";
