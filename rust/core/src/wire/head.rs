//! What stands before the first message of a request. Made once per client and toolkit.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::json::{Json, push_str};
use crate::message::Message;
use crate::tool::ToolSpec;
use crate::wire::choice::{self, ToolChoice};
use crate::wire::profile::{CacheControl, Profile};
use crate::wire::{Body, Style, WireError, anthropic, balance, gemini, openai, responses};

/// Everything about a request but its messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The system prompt.
    pub system: Option<&'a str>,
    /// The tools, in the order in which the model reads them.
    pub tools: &'a [ToolSpec],
    /// More request parameters. They win over what this library would send, the last of two equal
    /// keys over the first; `null` leaves the key out; `tools` adds the provider's own tools.
    pub params: &'a [(String, Json)],
    /// Whether the reply shall be streamed.
    pub stream: bool,
    /// Whether the model may call tools; left out, as it likes.
    pub tool_choice: Option<&'a ToolChoice>,
    /// Whether it may make several calls at once; left out, as the provider has it.
    pub parallel_tool_calls: Option<bool>,
    /// How the server differs from its style.
    pub profile: Option<&'a Arc<Profile>>,
    /// Whether prompts are marked for the cache of Messages; left out, they are where that saves money:
    /// where there are tools, so that more requests follow, and the server is known to take the marks.
    pub prompt_cache: Option<bool>,
}

/// The encoded start of a request of one style. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    style: Style,
    pub(super) bytes: Bytes,
    /// Whether the request declares tools.
    pub(super) has_tools: bool,
    /// Whether the list left open at the end (the messages of Chat Completions, the system blocks of
    /// Messages, the system parts of Gemini) holds something. Without them, the latter two have none open.
    pub(super) is_occupied: bool,
    /// Responses: whether the provider keeps its replies.
    pub(super) is_stored: bool,
    /// What stands behind the last message, from the end of their list on.
    pub(super) tail: Bytes,
    /// How the server differs from its style.
    pub(super) profile: Option<Arc<Profile>>,
    /// How the end of the prompt is marked for the cache.
    pub(super) cache: Option<CacheControl>,
}

impl Style {
    /// Encodes what stands before the first message: the model, the tools, the parameters and the
    /// system prompt, in this order; and what stands behind the last. Gemini has the model and the
    /// streaming in its address.
    pub fn head(self, head: &Head<'_>) -> Result<Prefix, WireError> {
        let params = Params::read(self, head.params)?;
        let own_tools = params.list("tools")?;
        let found = head.tools.len() + own_tools.len();
        if let Some(most) = head.profile.and_then(|profile| profile.max_tools).filter(|most| found > *most) {
            return Err(WireError::TooManyTools { found, most });
        }
        let has_tools = found > 0;
        let cache = anthropic::cache::wanted(head, has_tools).filter(|_| self == Self::Anthropic);
        let mut out = b"{".to_vec();
        if self != Self::Gemini {
            push_key(&mut out, "model");
            match params.get("model") {
                Some(model) => out.extend_from_slice(model.as_bytes()),
                None => push_str(&mut out, head.model),
            }
        }
        if has_tools {
            let is_end = cache.is_some() && head.system.is_none() && params.get("system").is_none();
            self.push_tools(&mut out, head.tools, &own_tools, is_end);
        }
        match self {
            Self::OpenAi | Self::Gemini => {}
            Self::OpenAiResponses => responses::push_defaults(&mut out, head.model, &params)?,
            Self::Anthropic => {
                if params.get("max_tokens").is_none() {
                    out.extend_from_slice(format!(",\"max_tokens\":{}", anthropic::DEFAULT_MAX_TOKENS).as_bytes());
                }
            }
        }
        params.push_to(&mut out, self, has_tools, head.stream);
        if head.stream && self != Self::Gemini {
            out.extend_from_slice(br#","stream":true"#);
            let is_taken = head.profile.is_none_or(|profile| profile.stream_options);
            if self == Self::OpenAi && !params.names("stream_options") && is_taken {
                out.extend_from_slice(br#","stream_options":{"include_usage":true}"#);
            }
        }
        if cache == Some(CacheControl::Request) {
            out.extend_from_slice(anthropic::cache::OF_REQUEST);
        }
        let is_occupied = match self {
            Self::OpenAi => openai::open_messages(&mut out, head.system),
            Self::OpenAiResponses => {
                responses::open_input(&mut out, head.system, params.get("instructions"));
                false
            }
            Self::Anthropic => {
                let is_open = anthropic::open_system(&mut out, head.system, params.get("system"))?;
                if is_open && cache.is_some() {
                    anthropic::cache::mark(&mut out);
                }
                is_open
            }
            Self::Gemini => gemini::open_system(&mut out, head.system, params.get(gemini::SYSTEM))?,
        };
        let is_stored = self == Self::OpenAiResponses && responses::is_stored(&params);
        let mut tail = match self {
            Self::OpenAi | Self::OpenAiResponses => b"]".to_vec(),
            Self::Anthropic | Self::Gemini => b"]}]".to_vec(),
        };
        if has_tools {
            choice::push(&mut tail, self, head, |key| params.get(key).is_some())?;
        }
        tail.push(b'}');
        Ok(Prefix {
            style: self,
            bytes: out.into(),
            has_tools,
            is_occupied,
            is_stored,
            tail: tail.into(),
            profile: head.profile.cloned(),
            cache,
        })
    }

    /// Appends the tools, this library's before the provider's own. `is_end`: the last of the former ends
    /// what conversations share, which is marked for the cache.
    fn push_tools(self, out: &mut Vec<u8>, tools: &[ToolSpec], own: &[&RawValue], is_end: bool) {
        push_key(out, "tools");
        out.push(b'[');
        let is_nested = self == Self::Gemini && !tools.is_empty();
        if is_nested {
            out.extend_from_slice(br#"{"functionDeclarations":["#);
        }
        for (at, tool) in tools.iter().enumerate() {
            match self {
                Self::OpenAi => openai::push_tool(out, tool),
                Self::OpenAiResponses => responses::push_tool(out, tool),
                Self::Anthropic => anthropic::push_tool(out, tool),
                Self::Gemini => gemini::push_tool(out, tool),
            }
            if is_end && at + 1 == tools.len() {
                anthropic::cache::mark(out);
            }
            out.push(b',');
        }
        if is_nested {
            out.pop();
            out.extend_from_slice(b"]},");
        }
        for tool in own {
            out.extend_from_slice(tool.get().as_bytes());
            out.push(b',');
        }
        out.pop();
        out.push(b']');
    }

    /// The request parameter that stands for the client's system prompt.
    fn system_param(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => None,
            Self::OpenAiResponses => Some("instructions"),
            Self::Anthropic => Some("system"),
            Self::Gemini => Some(gemini::SYSTEM),
        }
    }

    /// The request parameters that this library sets itself.
    fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi | Self::Anthropic => &["messages", "stream"],
            Self::OpenAiResponses => &["input", "messages", "stream"],
            Self::Gemini => &["contents", "model", "stream"],
        }
    }
}

/// Appends a key of the request, with a comma before it where one is due.
pub(super) fn push_key(out: &mut Vec<u8>, key: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    push_str(out, key);
    out.push(b':');
}

impl Prefix {
    /// The style that it was made for.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The body of a request with these messages, after the check that every call has its result
    /// and that it is the model's turn.
    pub fn body(&self, messages: &[Message]) -> Result<Body, WireError> {
        balance::check(self.style, messages)?;
        let mut body = Body { chunks: Vec::with_capacity(messages.len().min(32) + 8), len: 0 };
        body.push(self.bytes.clone());
        match self.style {
            Style::OpenAi => openai::push_messages(&mut body, self, messages),
            Style::OpenAiResponses => responses::push_messages(&mut body, self, messages),
            Style::Anthropic => anthropic::push_messages(&mut body, self, messages)?,
            Style::Gemini => gemini::push_messages(&mut body, self, messages)?,
        }
        body.push(self.tail.clone());
        Ok(body)
    }
}

/// The request parameters: each key once, none that the wire sets itself.
pub(super) struct Params<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Params<'a> {
    fn read(style: Style, params: &'a [(String, Json)]) -> Result<Self, WireError> {
        let mut read: Vec<(&str, &str)> = Vec::with_capacity(params.len());
        for (key, value) in params {
            if style.reserved().contains(&key.as_str()) {
                return Err(WireError::Reserved { key: key.clone() });
            }
            match read.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => *known = value.get(),
                None => read.push((key, value.get())),
            }
        }
        Ok(Self(read))
    }

    /// The value of a key, if it has one.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, value)| *known == key && *value != "null").map(|(_, value)| *value)
    }

    /// Whether a key is given, be it to leave it out.
    pub(super) fn names(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == key)
    }

    /// Appends what is not placed elsewhere. Without tools, providers refuse what is said about their use
    /// (fault J8); and so with streams.
    fn push_to(&self, out: &mut Vec<u8>, style: Style, has_tools: bool, stream: bool) {
        for (key, value) in self.0.iter().filter(|(_, value)| *value != "null") {
            let is_placed = matches!(*key, "model" | "tools") || style.system_param() == Some(*key);
            let is_idle = (!has_tools && matches!(*key, "tool_choice" | "parallel_tool_calls" | "toolConfig"))
                || (!stream && *key == "stream_options");
            if !is_placed && !is_idle {
                push_key(out, key);
                out.extend_from_slice(value.as_bytes());
            }
        }
    }

    fn list(&self, key: &str) -> Result<Vec<&'a RawValue>, WireError> {
        let Some(text) = self.get(key) else { return Ok(Vec::new()) };
        serde_json::from_str(text).map_err(|_| WireError::Parameter { key: key.to_owned(), expected: "a list" })
    }
}
