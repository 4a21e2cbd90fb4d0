//! Reading a Messages reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{push_call, push_text};
use crate::json::quoted;
use crate::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use crate::wire::content::{Part, string};
use crate::wire::counts::Counts;
use crate::wire::failure::ProviderFailure;
use crate::wire::{Style, malformed, unreadable};

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
}

/// Reads a reply whose escapes are mended.
pub(in crate::wire) fn decode(body: &str) -> Result<Reply, ProviderFailure> {
    let message: Message<'_> = serde_json::from_str(body).map_err(|error| unreadable(&error))?;
    let Some(content) = message.content else { return Err(malformed("the reply holds no content")) };
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).map_err(|error| unreadable(&error))?;
    let said = Said::read(&blocks);
    let stop = stop(message.stop_reason);
    let paused = stop == Stop::Paused;
    // What the canonical message gives back byte for byte needs no second copy.
    let provider = (paused || !said.is_all_of(content)).then(|| Provider {
        style: Style::Anthropic,
        raw: content.get().to_owned(),
        paused,
    });
    Ok(Reply {
        text: said.text,
        calls: said.calls,
        reasoned: said.reasoned,
        stop,
        usage: usage(&Counts::read(message.usage)),
        model: string(message.model).map(Cow::into_owned),
        provider,
    })
}

/// What a content array says.
#[derive(Default)]
pub(in crate::wire) struct Said {
    pub(in crate::wire) text: String,
    pub(in crate::wire) calls: Vec<ReplyCall>,
    reasoned: bool,
}

impl Said {
    pub(in crate::wire) fn read(blocks: &[&RawValue]) -> Self {
        let mut said = Self::default();
        for block in blocks.iter().map(|block| Part::read(block)) {
            match block.kind.as_ref() {
                "text" => said.text.push_str(&string(block.text).unwrap_or_default()),
                "tool_use" => said.calls.push(ReplyCall {
                    id: string(block.id).filter(|id| !id.is_empty()).map(Cow::into_owned),
                    name: string(block.name).unwrap_or_default().into_owned(),
                    // An object, or the model's text where that is none (fault C5).
                    arguments: string(block.input).unwrap_or(block.input.map_or("", RawValue::get).into()).into_owned(),
                }),
                "thinking" | "redacted_thinking" => said.reasoned = true,
                _ => {}
            }
        }
        said
    }

    /// Whether text and calls are the whole content, in the very bytes that this style would send.
    pub(in crate::wire) fn is_all_of(&self, content: &RawValue) -> bool {
        let mut blocks = Vec::with_capacity(content.get().len());
        push_text(&mut blocks, &quoted(&self.text));
        for call in &self.calls {
            push_call(&mut blocks, call.id.as_deref().unwrap_or_default(), &call.name, &call.arguments);
        }
        content.get().as_bytes().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) == Some(&blocks)
    }
}

fn stop(reason: Option<&RawValue>) -> Stop {
    let word = string(reason).unwrap_or_default();
    match word.as_ref() {
        "" | "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::Calls,
        "max_tokens" => Stop::Length,
        "refusal" => Stop::Refused,
        "pause_turn" => Stop::Paused,
        "model_context_window_exceeded" => Stop::ContextOverflow,
        _ => Stop::Other(word.into_owned()),
    }
}

/// The provider counts cached tokens beside the input; here they are part of it.
fn usage(counts: &Counts<'_>) -> Usage {
    let count = |key| counts.get(key).unwrap_or(0);
    let (cached, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    Usage {
        input_tokens: count("input_tokens").saturating_add(cached).saturating_add(written),
        output_tokens: count("output_tokens"),
        cached_tokens: cached,
        cache_write_tokens: written,
        reasoning_tokens: counts.nested("output_tokens_details").get("thinking_tokens").unwrap_or(0),
    }
}
