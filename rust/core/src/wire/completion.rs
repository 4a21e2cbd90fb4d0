//! A reply in the shape of Chat Completions, whatever style it came in: as a whole, or in chunks while
//! it is streamed. One call is one completion: nothing is kept for the next.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::id::{CallId, IdSource};
use crate::json::{self, push_str, quoted};
use crate::message::{Call, Message};
use crate::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use crate::tool::ToolSpec;
use crate::wire::names;
use crate::wire::stream::Delta;

/// Writes one completion.
#[derive(Debug)]
pub struct Completion {
    id: String,
    created: u64,
    model: String,
    /// Whether it may hold more than Chat Completions has, under the key `toolrelay`.
    extras: bool,
    /// Whether the last chunk tells the cost, and the others that it is still to come.
    with_usage: bool,
    /// The caller's names of tools by those on the wire, where they differ.
    names: HashMap<String, String>,
    /// The ids of the calls in the messages, and of those that this reply made.
    taken: HashSet<CallId>,
    ids: IdSource,
    /// For each call that was told in chunks, the blanks before its arguments, until those begin.
    told: Vec<Option<String>>,
    is_begun: bool,
}

impl Completion {
    /// A completion of these messages, with tools under the caller's names. `seed` makes its ids;
    /// `created` is in seconds since 1970.
    pub fn new(seed: [u8; 32], created: u64, model: &str, tools: &[ToolSpec], messages: &[Message]) -> Self {
        let mut ids = IdSource::new(seed);
        Self {
            id: ids.completion(),
            created,
            model: model.to_owned(),
            extras: true,
            with_usage: false,
            names: names::renamed(tools),
            taken: messages.iter().flat_map(Message::calls).map(|call| call.id.clone()).collect(),
            ids,
            told: Vec::new(),
            is_begun: false,
        }
    }

    /// Leaves out what Chat Completions does not have.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { extras: false, ..self }
    }

    /// Tells the cost in a chunk of its own, behind the others.
    #[must_use]
    pub fn with_usage(self) -> Self {
        Self { with_usage: true, ..self }
    }

    /// The response to a request that is not streamed.
    pub fn whole(mut self, reply: Reply) -> String {
        let reasoning = reply.provider.as_ref().map(Provider::reasoning).filter(|text| !text.is_empty());
        let mut calls: Vec<Call> = reply.calls.into_iter().map(|call| self.named(call)).collect();
        // Without arguments, what callers parse is an object all the same (fault C1).
        calls.iter_mut().filter(|call| is_blank(&call.arguments)).for_each(|call| "{}".clone_into(&mut call.arguments));
        let text = json::cleaned(reply.text);
        let provider = reply.provider.filter(|_| self.extras);
        let message = AssistantMessage {
            role: "assistant",
            content: (!text.is_empty() || calls.is_empty()).then_some(text.as_str()),
            refusal: (reply.stop == Stop::Refused).then_some(text.as_str()),
            reasoning_content: reasoning.as_deref(),
            tool_calls: calls.iter().map(ToolCall::of).collect(),
            toolrelay: provider.as_ref().map(|provider| Blocks { provider }),
        };
        let choice =
            Choice { index: 0, message, logprobs: None, finish_reason: finish_reason(&reply.stop, !calls.is_empty()) };
        to_json(&Response {
            id: &self.id,
            object: "chat.completion",
            created: self.created,
            model: reply.model.as_deref().unwrap_or(&self.model),
            choices: [choice],
            usage: TokenCounts::of(&reply.usage),
            toolrelay: self.ended(&reply.stop),
        })
    }

    /// The chunks for pieces of a reply.
    pub fn chunks<'d>(&mut self, deltas: impl IntoIterator<Item = &'d Delta>) -> Vec<String> {
        let mut chunks = Vec::new();
        for delta in deltas {
            self.begin(&mut chunks);
            let delta = match delta {
                Delta::Text(text) => Some(format!(r#"{{"content":{}}}"#, quoted(text))),
                Delta::Reasoning(text) => Some(format!(r#"{{"reasoning_content":{}}}"#, quoted(text))),
                Delta::CallStarted { index, id, name } => Some(self.started(*index, id.clone(), name)),
                Delta::Arguments { index, text } => self.grown(*index, text),
            };
            chunks.extend(delta.map(|delta| self.chunk(&delta, None)));
        }
        chunks
    }

    /// The chunks that end a streamed reply: why it ended, what is left to say, and on request its cost.
    pub fn end(mut self, reply: &Reply) -> Vec<String> {
        let mut chunks = Vec::new();
        self.begin(&mut chunks);
        for index in 0..self.told.len() {
            if let Some(blanks) = &mut self.told[index] {
                blanks.clear();
                let empty = self.grown(index, "{}");
                chunks.extend(empty.map(|empty| self.chunk(&empty, None)));
            }
        }
        let mut last = Vec::new();
        if reply.stop == Stop::Refused {
            last.push(format!(r#""refusal":{}"#, quoted(&reply.text)));
        }
        if let Some(provider) = reply.provider.as_ref().filter(|_| self.extras) {
            last.push(format!(r#""toolrelay":{}"#, to_json(&Blocks { provider })));
        }
        let ended = finish_reason(&reply.stop, !self.told.is_empty());
        let mut chunk = self.chunk(&format!("{{{}}}", last.join(",")), Some(ended));
        if let Some(ended) = self.ended(&reply.stop) {
            chunk.truncate(chunk.len() - 1);
            chunk.extend([r#","toolrelay":"#, &to_json(&ended), "}"]);
        }
        chunks.push(chunk);
        if self.with_usage {
            let usage = to_json(&TokenCounts::of(&reply.usage));
            chunks.push(format!(r#"{}[],"usage":{usage}}}"#, self.head()));
        }
        chunks
    }

    /// A call under the caller's name, with an id that is new (contract 1.7).
    fn named(&mut self, call: ReplyCall) -> Call {
        let id = CallId::fresh(call.id, |id| self.taken.contains(id), &mut self.ids);
        self.taken.insert(id.clone());
        let name = self.names.get(&call.name).cloned().unwrap_or_else(|| json::cleaned(call.name));
        Call { id, name, arguments: json::cleaned(call.arguments) }
    }

    fn begin(&mut self, chunks: &mut Vec<String>) {
        if !self.is_begun {
            self.is_begun = true;
            chunks.push(self.chunk(r#"{"role":"assistant","content":""}"#, None));
        }
    }

    fn started(&mut self, index: usize, id: Option<String>, name: &str) -> String {
        let Call { id, name, .. } = self.named(ReplyCall { id, name: name.to_owned(), arguments: String::new() });
        self.told.resize(self.told.len().max(index + 1), Some(String::new()));
        format!(
            r#"{{"tool_calls":[{{"index":{index},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}]}}"#,
            quoted(id.as_str()),
            quoted(&name)
        )
    }

    fn grown(&mut self, index: usize, text: &str) -> Option<String> {
        let blanks = match self.told.get_mut(index)? {
            Some(blanks) if is_blank(text) => {
                blanks.push_str(text);
                return None;
            }
            blanks => blanks.take().unwrap_or_default(),
        };
        let text = quoted(&(blanks + text));
        Some(format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{text}}}}}]}}"#))
    }

    fn chunk(&self, delta: &str, ended: Option<&str>) -> String {
        let ended = ended.map_or_else(|| "null".to_owned(), quoted);
        let usage = if self.with_usage { r#","usage":null"# } else { "" };
        let choice = format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{ended}}}"#);
        format!("{}[{choice}]{usage}}}", self.head())
    }

    fn head(&self) -> String {
        let mut head = br#"{"id":"#.to_vec();
        push_str(&mut head, &self.id);
        head.extend_from_slice(
            format!(r#","object":"chat.completion.chunk","created":{},"model":"#, self.created).as_bytes(),
        );
        push_str(&mut head, &self.model);
        head.extend_from_slice(br#","choices":"#);
        String::from_utf8_lossy(&head).into_owned()
    }

    /// This library's word for how the reply ended, where Chat Completions has none.
    fn ended<'s>(&self, stop: &'s Stop) -> Option<Ended<'s>> {
        let is_known = matches!(stop, Stop::End | Stop::Calls | Stop::Length | Stop::Filtered);
        (self.extras && !is_known).then(|| Ended { finish_reason: stop.as_str() })
    }
}

/// The word of Chat Completions. What the calls are decides, not what the provider says (faults E1, E2),
/// but those of a reply that was refused or cannot be read must not run (faults E6, E8).
fn finish_reason(stop: &Stop, has_calls: bool) -> &'static str {
    match stop {
        Stop::Length | Stop::ContextOverflow => "length",
        Stop::Filtered => "content_filter",
        Stop::Refused | Stop::Malformed if has_calls => "content_filter",
        Stop::End | Stop::Calls | Stop::Paused | Stop::Other(_) if has_calls => "tool_calls",
        Stop::End | Stop::Calls | Stop::Paused | Stop::Other(_) | Stop::Refused | Stop::Malformed => "stop",
    }
}

fn is_blank(text: &str) -> bool {
    text.trim_ascii().is_empty()
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[derive(Serialize)]
struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: TokenCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolrelay: Option<Ended<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: AssistantMessage<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct AssistantMessage<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolrelay: Option<Blocks<'a>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> ToolCall<'a> {
    fn of(call: &'a Call) -> Self {
        let function = Function { name: &call.name, arguments: &call.arguments };
        Self { id: call.id.as_str(), r#type: "function", function }
    }
}

#[derive(Serialize)]
struct Blocks<'a> {
    provider: &'a Provider,
}

#[derive(Serialize)]
struct Ended<'a> {
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct TokenCounts {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl TokenCounts {
    fn of(usage: &Usage) -> Self {
        let Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens } = *usage;
        Self {
            prompt_tokens: input_tokens,
            completion_tokens: output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
            prompt_tokens_details: PromptDetails { cached_tokens, cache_write_tokens },
            completion_tokens_details: CompletionDetails { reasoning_tokens },
        }
    }
}
