//! The provider styles: pure functions from messages to bytes and back. A style's own file knows
//! its shape; this module knows which styles there are and what they have in common.
//!
//! A request is a [`Prefix`] (model, tools, parameters: made once and reused), then the messages,
//! each encoded once per style, then a tail. Nothing of the history is copied, and the bytes of a
//! request stay the start of the next one.

mod address;
mod anthropic;
mod arguments;
mod balance;
pub mod chat;
mod choice;
pub mod completion;
mod content;
mod counts;
pub mod failure;
mod gemini;
mod growing;
mod head;
pub(crate) mod import;
mod media;
pub mod names;
mod openai;
pub mod profile;
mod reasoning;
mod responses;
mod schema;
mod sse;
pub mod stream;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::choice::ToolChoice;
pub use self::head::{Head, Prefix};
pub use self::profile::Profile;
use crate::id::CallId;
use crate::json;
use crate::reply::Reply;
use crate::wire::failure::{FailureKind, ProviderFailure};

/// A provider style (contract 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Chat Completions.
    OpenAi,
    /// Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Messages.
    Anthropic,
    /// generateContent.
    Gemini,
}

/// The body of a request: slices to be sent one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The slices in order.
    pub chunks: Vec<Bytes>,
    /// How many bytes they are.
    pub len: usize,
}

/// Why no request can be made of these messages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A call has no result where it must stand (contract 8.5).
    #[error("the call {call} of {name:?} has no result right after the message that made it")]
    Unanswered {
        /// The call.
        call: CallId,
        /// The tool's name.
        name: String,
    },
    /// A result has no call.
    #[error("the result of call {call} does not stand right after the message that made the call")]
    Uncalled {
        /// The call that the result names.
        call: CallId,
    },
    /// The last message is the model's own.
    #[error("the transcript ends with the model's own message: add a prompt or a tool result")]
    EndsWithAssistant,
    /// There is nothing to send.
    #[error("the transcript holds no message that says anything: add a prompt")]
    Empty,
    /// A request parameter that the wire sets itself.
    #[error("the request parameter {key:?} is set by toolrelay: leave it out")]
    Reserved {
        /// The parameter.
        key: String,
    },
    /// A request parameter of another type than the provider's.
    #[error("the request parameter {key:?} must be {expected}")]
    Parameter {
        /// The parameter.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A request parameter of Chat Completions that a style has no word for.
    #[error(
        "the request parameter {key:?} of Chat Completions has no form in style {}: leave it out, or say it in the \
         provider's own words in request_params", style.as_str()
    )]
    Untranslated {
        /// The parameter.
        key: String,
        /// The style.
        style: Style,
    },
    /// More tools than the server takes (fault J11).
    #[error("there are {found} tools, and this server takes at most {most} in a request")]
    TooManyTools {
        /// How many there are.
        found: usize,
        /// How many it takes.
        most: usize,
    },
    /// The tool that must be called is not there.
    #[error("the tool choice names {tool:?}, which is no tool of this run")]
    UnknownTool {
        /// The tool.
        tool: String,
    },
}

impl WireError {
    /// The request parameter that is wrong, if it is one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Reserved { key } | Self::Parameter { key, .. } | Self::Untranslated { key, .. } => Some(key),
            Self::UnknownTool { .. } => Some("tool_choice"),
            Self::TooManyTools { .. } => Some("tools"),
            Self::Unanswered { .. } | Self::Uncalled { .. } | Self::EndsWithAssistant | Self::Empty => None,
        }
    }
}

impl Style {
    /// All styles.
    pub const ALL: [Self; Self::COUNT] = [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini];

    /// How many styles there are.
    pub const COUNT: usize = 4;

    /// The style's name, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Where requests go, for a base URL as the official SDK of the provider takes it: for Chat
    /// Completions and Responses with the version (`https://api.openai.com/v1`), for Messages and Gemini
    /// without it (`https://api.anthropic.com`). A base with a version, a slash at the end, a whole endpoint
    /// and a query string are understood too. Gemini has the model and the streaming in its address.
    pub fn url(self, base_url: &str, model: &str, stream: bool) -> String {
        let (base, query) = base_url.split_once('?').map_or((base_url, None), |(base, query)| (base, Some(query)));
        let base = base.trim_end_matches('/');
        let (mut url, more) = match self {
            Self::OpenAi => (address::endpoint(base, "", "/chat/completions"), None),
            Self::OpenAiResponses => (address::endpoint(base, "", "/responses"), None),
            Self::Anthropic => (address::endpoint(base, "/v1", "/messages"), None),
            Self::Gemini => (address::gemini(base, model, stream), stream.then_some("alt=sse")),
        };
        for (at, part) in query.into_iter().chain(more).enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(part);
        }
        url
    }

    /// The headers that carry the key, and those that the provider wants on every request. An
    /// empty key is left out: local servers want none.
    pub fn auth_headers(self, key: &str) -> Vec<(&'static str, String)> {
        let mut headers = Vec::with_capacity(2);
        match self {
            Self::OpenAi | Self::OpenAiResponses | Self::Gemini if key.is_empty() => {}
            Self::OpenAi | Self::OpenAiResponses => headers.push(("authorization", format!("Bearer {key}"))),
            Self::Gemini => headers.push(("x-goog-api-key", key.to_owned())),
            Self::Anthropic => {
                headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
                if !key.is_empty() {
                    headers.push(("x-api-key", key.to_owned()));
                }
            }
        }
        headers
    }

    /// Reads a whole reply. An error that came with a success status is a failure (fault G2), and
    /// so is what this style cannot read.
    pub fn decode(self, body: &[u8]) -> Result<Reply, ProviderFailure> {
        let body = body.strip_prefix(UTF8_BOM).unwrap_or(body);
        if let Some(failure) = ProviderFailure::in_body(body) {
            return Err(failure);
        }
        let text = std::str::from_utf8(body).map_err(|_| malformed("the reply is not UTF-8"))?;
        let text = json::mend_escapes(text);
        // What is derived would take the items of a list for fields.
        if text.trim_ascii_start().starts_with('[') {
            return Err(malformed("the reply is a list, not an object"));
        }
        match self {
            Self::OpenAi => openai::decode(&text),
            Self::OpenAiResponses => responses::decode(&text),
            Self::Anthropic => anthropic::decode(&text),
            Self::Gemini => gemini::decode(&text),
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl Body {
    /// Takes a slice at the end.
    fn push(&mut self, chunk: Bytes) {
        self.len += chunk.len();
        self.chunks.push(chunk);
    }

    /// Takes text of this library at the end.
    fn push_static(&mut self, chunk: &'static str) {
        self.push(Bytes::from_static(chunk.as_bytes()));
    }
}

/// One message as a style sends it, kept with the message.
#[derive(Clone, Debug)]
pub(crate) enum Encoded {
    /// Its canonical JSON.
    AsItIs,
    /// Other bytes.
    Anew(Box<Anew>),
}

/// The bytes of a message that a style has in another shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anew {
    /// Chat Completions: the message object. Responses: its items, Messages: its content blocks, Gemini: its
    /// parts, joined
    /// by commas; empty when there is nothing to send.
    pub(crate) body: Bytes,
    /// Chat Completions and Gemini: content parts that go out as the user's after all results of the turn.
    pub(crate) after: Bytes,
    /// Responses: the items for a provider that keeps its replies, where they are others.
    pub(crate) stored: Bytes,
    /// Gemini: how the results of the message's calls begin, as a result does not know its tool's name.
    pub(crate) heads: Vec<Bytes>,
}

impl Encoded {
    /// Other bytes with nothing to follow them.
    fn anew(body: impl Into<Bytes>) -> Self {
        Self::Anew(Box::new(Anew { body: body.into(), ..Anew::default() }))
    }
}

fn malformed(message: impl Into<String>) -> ProviderFailure {
    ProviderFailure::new(FailureKind::Malformed, message)
}

/// Names the place in an unreadable reply but never the content.
fn unreadable(error: &serde_json::Error) -> ProviderFailure {
    let (kind, line, column) = (error.classify(), error.line(), error.column());
    malformed(format!("the reply cannot be read: {kind:?} error at line {line} column {column}"))
}

/// What stands for a result without any text, which providers refuse or misread (faults C13, 8.5).
pub(crate) const NO_OUTPUT: &str = "(no output)";

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

const ANTHROPIC_VERSION: &str = "2023-06-01";
