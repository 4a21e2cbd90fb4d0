//! The reasoning that a provider shows, read out of its own blocks. The same text is told piece by
//! piece while a reply is streamed.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Fields;
use crate::reply::Provider;
use crate::wire::Style;
use crate::wire::content::{Part, Shown, string};

impl Provider {
    /// The text of the reasoning; empty where there is none or it is hidden.
    pub fn reasoning(&self) -> String {
        match self.style {
            Style::OpenAi => of_message(&self.raw),
            Style::OpenAiResponses => of_items(&self.raw),
            Style::Gemini => thoughts(&self.raw),
            Style::Anthropic => parts(&self.raw).filter_map(|block| string(block.thinking)).collect(),
        }
    }
}

/// Of a Chat Completions message: the first field of its kind, as some servers send it twice, or the
/// thinking among its content parts.
fn of_message(raw: &str) -> String {
    let Some(fields) = Fields::of(raw.as_bytes()) else { return String::new() };
    let field = |key| string(fields.get(key)).filter(|text| !text.is_empty());
    if let Some(text) = field("reasoning_content").or_else(|| field("reasoning")) {
        return text.into_owned();
    }
    let thinking = |part: Part<'_>| match part.thinking.map(Shown::read) {
        Some(Shown::Text(_)) => string(part.thinking).unwrap_or_default().into_owned(),
        Some(Shown::Parts(parts)) => parts.iter().filter_map(|part| string(Part::read(part).text)).collect(),
        Some(Shown::None) | None => String::new(),
    };
    fields.get("content").map(|content| parts(content.get()).map(thinking).collect()).unwrap_or_default()
}

/// Of Responses items: what each shows in short, and in full.
fn of_items(raw: &str) -> String {
    let items: Vec<Fields<'_>> = serde_json::from_str(raw).unwrap_or_default();
    let reasoning = items.iter().filter(|item| string(item.get("type")).is_some_and(|kind| kind == "reasoning"));
    let lists = reasoning.flat_map(|item| [item.get("summary"), item.get("content")]).flatten();
    lists
        .flat_map(|list| parts(list.get()).filter_map(|part| string(part.text)).collect::<Vec<Cow<'_, str>>>())
        .collect()
}

/// Of Gemini parts: those that are marked as thoughts.
fn thoughts(raw: &str) -> String {
    #[derive(Default, Deserialize)]
    struct Thought<'a> {
        #[serde(borrow, default)]
        thought: Option<&'a RawValue>,
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    let list: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    let parts = list.iter().map(|part| serde_json::from_str::<Thought<'_>>(part.get()).unwrap_or_default());
    let thoughts = parts.filter(|part| part.thought.is_some_and(|thought| thought.get() == "true"));
    thoughts.filter_map(|part| string(part.text)).collect()
}

/// The parts of a list; none of anything else.
fn parts(list: &str) -> impl Iterator<Item = Part<'_>> {
    let list: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    list.into_iter().map(Part::read)
}
