//! Streamed replies: bytes in, pieces for those who watch, and in the end the reply.
//!
//! A style puts together the body that the provider would have sent without streaming, and the reply is
//! decoded from that. So a streamed reply is the plain one, provider blocks and unknown fields included.

use std::fmt;

use crate::json::scan::Scan;
use crate::reply::Reply;
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::sse::Sse;
use crate::wire::{Style, anthropic, gemini, malformed, openai, responses};

/// A piece of a reply under way, for those who watch. The reply itself comes from
/// [`StreamDecoder::finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More of the visible text.
    Text(String),
    /// More of the reasoning, where the provider shows it.
    Reasoning(String),
    /// A call has begun.
    CallStarted {
        /// Its place among the calls of this reply.
        index: usize,
        /// The provider's id, if it came with the start. The call may get another (contract 1.7).
        id: Option<String>,
        /// The name on the wire.
        name: String,
    },
    /// More of a call's argument text. It is complete when the reply is (fault D11).
    Arguments {
        /// The call's place among the calls of this reply.
        index: usize,
        /// The piece.
        text: String,
    },
}

/// Reads the body of a streamed reply.
///
/// ```
/// use toolrelay_core::wire::{Style, stream::Delta};
///
/// let mut decoder = Style::OpenAi.stream(1_000_000);
/// let mut deltas = Vec::new();
/// let body = b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// for piece in body.chunks(7) {
///     decoder.feed(piece, &mut |delta| deltas.push(delta))?;
/// }
/// assert!(decoder.is_complete());
/// assert_eq!(deltas, [Delta::Text("hi".to_owned())]);
/// assert_eq!(decoder.finish()?.text, "hi");
/// # Ok::<(), toolrelay_core::wire::failure::ProviderFailure>(())
/// ```
#[derive(Debug)]
pub struct StreamDecoder {
    style: Style,
    sse: Sse,
    assembly: Box<dyn Assembly>,
    /// Whether the server said that nothing follows.
    is_over: bool,
    /// What went wrong: no reply comes of it, whatever follows.
    failure: Option<ProviderFailure>,
}

/// One event of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    /// Its name, or nothing.
    pub(super) name: &'a str,
    /// What it says: JSON, as a rule.
    pub(super) data: &'a str,
}

/// How a style puts a plain body together. It sees no error events, no `[DONE]` and nothing after the
/// event with which it is complete.
pub(super) trait Assembly: fmt::Debug + Send {
    /// Takes the next event and tells what is new.
    fn take(&mut self, event: Event<'_>, tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure>;

    /// Whether the wire's own last event was seen.
    fn is_complete(&self) -> bool;

    /// Whether it is a whole reply if nothing more comes.
    fn is_whole(&self) -> bool;

    /// How many bytes of content came, told or not.
    fn content(&self) -> usize;

    /// The body as the provider would have sent it without streaming; `None` if the reply was cut.
    fn into_body(self: Box<Self>) -> Option<String>;
}

impl Style {
    /// A decoder for one streamed reply, none of whose events may have more than `event_limit` bytes.
    pub fn stream(self, event_limit: usize) -> StreamDecoder {
        let assembly: Box<dyn Assembly> = match self {
            Self::OpenAi => Box::new(openai::Stream::default()),
            Self::OpenAiResponses => Box::new(responses::Stream::default()),
            Self::Anthropic => Box::new(anthropic::Stream::default()),
            Self::Gemini => Box::new(gemini::Stream::default()),
        };
        StreamDecoder { style: self, sse: Sse::new(event_limit), assembly, is_over: false, failure: None }
    }
}

impl StreamDecoder {
    /// Takes bytes of the body, cut anywhere, and tells what is new in them. An error event of the
    /// provider, an event over the limit and one that cannot be read are failures; no reply comes
    /// after one. What follows the end of the reply is not looked at.
    pub fn feed(&mut self, bytes: &[u8], tell: &mut dyn FnMut(Delta)) -> Result<(), ProviderFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.is_complete() {
            return Ok(());
        }
        let Self { sse, assembly, is_over, .. } = self;
        let fed = sse.feed(bytes, |name, data| {
            let data = std::str::from_utf8(data).map_err(|_| malformed("an event of the stream is not UTF-8"))?;
            let data = data.trim_ascii();
            if data == DONE {
                *is_over = true;
                return Ok(false);
            }
            if name == b"error" {
                return Err(ProviderFailure::of_error(data.as_bytes()));
            }
            if let Some(failure) = ProviderFailure::in_body(data.as_bytes()) {
                return Err(failure);
            }
            if !data.is_empty() {
                assembly.take(Event { name: std::str::from_utf8(name).unwrap_or_default(), data }, tell)?;
            }
            Ok(!assembly.is_complete())
        });
        fed.inspect_err(|failure| self.failure = Some(failure.clone()))
    }

    /// Whether the mark that ends a stream was seen: reading on is not needed.
    pub fn is_complete(&self) -> bool {
        self.is_over || self.assembly.is_complete()
    }

    /// Whether the reply is whole, though more may come: its cost as a rule.
    pub fn is_whole(&self) -> bool {
        self.failure.is_none() && self.assembly.is_whole()
    }

    /// How many bytes of content came so far, told or not, as they stand in the events. It grows with all that
    /// becomes a part of the reply, and not with signs of life (fault D21).
    pub fn content(&self) -> usize {
        self.assembly.content()
    }

    /// The reply, once the body has ended or is complete; or the failure that says it was cut. Nothing
    /// of a cut reply becomes a [`Reply`] (fault D19).
    pub fn finish(self) -> Result<Reply, ProviderFailure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match self.assembly.into_body() {
            Some(body) => self.style.decode(body.as_bytes()),
            None => {
                Err(ProviderFailure::new(FailureKind::Connection, "the stream ended before the reply was complete"))
            }
        }
    }
}

/// An event that cannot be read.
pub(super) fn unreadable() -> ProviderFailure {
    malformed("an event of the stream cannot be read")
}

/// Visits the fields of an object, keys with their quotes.
pub(super) fn each_field<'a>(
    object: &'a str,
    mut visit: impl FnMut(&'a str, &'a str) -> Result<(), ProviderFailure>,
) -> Result<(), ProviderFailure> {
    let mut visited = Ok(());
    let mut scan = Scan::new(object);
    let read = scan.object(|key, scan| {
        let value = scan.value()?;
        if visited.is_ok() {
            visited = visit(key, value);
        }
        Some(())
    });
    read.filter(|()| scan.is_over()).ok_or_else(unreadable)?;
    visited
}

/// How many bytes of a JSON value are content: none of one that says nothing.
pub(super) fn content_of(value: &str) -> usize {
    if matches!(value, "null" | r#""""# | "[]" | "{}") { 0 } else { value.len() }
}

/// What Chat Completions sends last, and some servers on other wires too.
const DONE: &str = "[DONE]";
