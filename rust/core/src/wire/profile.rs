//! What single servers want that differs from their style: data that the encoders look up. A fact
//! stands here when a real server refuses requests without it; the table of the servers that are
//! known by name is at the end.

mod known;

pub use self::known::NAMES;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::Style;
use crate::wire::names::{exact_id, wire_id};

/// How a server differs from its style. The default differs in nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Chat Completions: call ids have exactly so many letters and digits (fault B3).
    pub call_id_length: Option<usize>,
    /// Chat Completions: the content of a message that holds calls and no text (fault F8); left out,
    /// as the transcript has it.
    pub call_content: Option<CallContent>,
    /// Chat Completions: what other servers put into a model's message and this one refuses: keys of the
    /// message and of its calls, and types of content parts.
    pub refused_fields: Vec<String>,
    /// Chat Completions: keys that a message with calls must have, and what stands for a missing one
    /// (fault F11).
    pub call_fields: Vec<(String, Value)>,
    /// Chat Completions: whether the role `developer` is known; otherwise it goes out as `system`.
    pub developer_role: bool,
    /// Chat Completions: whether the user may speak right behind results; otherwise the model has a word
    /// between.
    pub user_after_results: bool,
    /// Chat Completions: whether `stream_options` is taken.
    pub stream_options: bool,
    /// Chat Completions: the name of the limit of output tokens.
    pub output_limit: Option<String>,
    /// How many tools a request may declare (fault J11).
    pub max_tools: Option<usize>,
    /// Messages: how prompts are marked for the cache; left out, they are only when asked for.
    pub cache_control: Option<CacheControl>,
}

/// The content of an assistant message that holds calls and no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallContent {
    /// `null`.
    Null,
    /// `""`.
    Empty,
    /// No such key.
    Absent,
}

/// Where the mark of the end of a prompt to be cached stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheControl {
    /// Once in the request: the provider finds the last block itself.
    Request,
    /// At the last block of the last message.
    Blocks,
}

impl Default for Profile {
    fn default() -> Self {
        PLAIN.clone()
    }
}

impl Profile {
    /// A call's id as the server takes it.
    pub(super) fn call_id<'a>(&self, style: Style, id: &'a str) -> Cow<'a, str> {
        match self.call_id_length {
            Some(length) => exact_id(length, id),
            None => wire_id(style, id),
        }
    }

    /// Whether a model's message may have to be changed.
    pub(super) fn changes_replies(&self) -> bool {
        self.call_content.is_some() || !self.refused_fields.is_empty() || !self.call_fields.is_empty()
    }
}

/// A server that differs from its style in nothing.
pub(super) static PLAIN: Profile = Profile {
    call_id_length: None,
    call_content: None,
    refused_fields: Vec::new(),
    call_fields: Vec::new(),
    developer_role: true,
    user_after_results: true,
    stream_options: true,
    output_limit: None,
    max_tools: None,
    cache_control: None,
};
