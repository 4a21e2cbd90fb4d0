//! The provider styles: pure functions from messages to bytes and back. A style's own file knows
//! its shape; this module knows which styles there are and how a body is put together.

pub mod failure;
pub mod import;

use serde::{Deserialize, Serialize};

/// A provider style (contract 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Chat Completions.
    OpenAi,
    /// Messages.
    Anthropic,
}

impl Style {
    /// How many styles there are.
    pub const COUNT: usize = 2;

    /// The style's name, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}
