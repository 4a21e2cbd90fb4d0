//! A model's reply, decoded: the same shape for every provider style.

use serde::{Deserialize, Serialize};

use crate::wire::Style;

/// One complete reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The visible text, joined.
    pub text: String,
    /// The calls in order, as the provider named them.
    pub calls: Vec<ReplyCall>,
    /// Whether the reply holds reasoning of any form.
    pub reasoned: bool,
    /// Why the reply ended.
    pub stop: Stop,
    /// What the reply cost.
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's own blocks, where the canonical message cannot hold all of them.
    pub provider: Option<Provider>,
}

/// One call in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyCall {
    /// The provider's id; absent when it gave none or an empty one.
    pub id: Option<String>,
    /// The name on the wire.
    pub name: String,
    /// The argument text, byte for byte.
    pub arguments: String,
}

/// A provider's own form of an assistant message, byte for byte (contract 8.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Whose form it is.
    pub style: Style,
    /// Chat Completions: the message object. Responses: the output array. Messages: the content array.
    pub raw: String,
    /// Whether the provider paused its own tools here: such a message may be the last one sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Why a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model was done.
    #[default]
    End,
    /// The model says that it wants calls executed. What the calls are decides (contract 3.3).
    Calls,
    /// The output limit cut the reply.
    Length,
    /// A content filter cut the reply.
    Filtered,
    /// The model refused.
    Refused,
    /// The provider could not read the model's call.
    Malformed,
    /// The provider paused its own tools; the turn goes on when it is sent back.
    Paused,
    /// The context window is full.
    ContextOverflow,
    /// A word nobody knows yet; handled as a plain end.
    Other(String),
}

impl Stop {
    /// The word that users see as `finish_reason`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::End => "stop",
            Self::Calls => "tool_calls",
            Self::Length => "length",
            Self::Filtered => "content_filter",
            Self::Refused => "refusal",
            Self::Malformed => "malformed_call",
            Self::Paused => "pause",
            Self::ContextOverflow => "context_overflow",
            Self::Other(word) => word,
        }
    }

    /// Whether the calls of such a reply must not run (contract 3.3).
    pub fn cuts_calls(&self) -> bool {
        matches!(self, Self::Length | Self::Filtered | Self::Refused | Self::Malformed | Self::ContextOverflow)
    }
}

/// Tokens, as the provider counts them. Counts add up over turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens that were read from a prompt cache.
    pub cached_tokens: u64,
    /// Input tokens that were written to a prompt cache.
    pub cache_write_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(more.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(more.cache_write_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(more.reasoning_tokens);
    }
}
