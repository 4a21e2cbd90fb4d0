//! The ordered messages of a conversation, cheap to share.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::json;
use crate::json::scan::{self, Scan};
use crate::message::{self, Message, MessageError};

/// The version of the JSON form that this library writes.
pub const FORMAT: u32 = 1;

/// What this library writes before the messages, and behind them.
const OPENING: &str = r#"{"format":1,"messages":["#;
const CLOSING: &str = "]}";

/// A message of a long conversation is seldom shorter than this.
const USUAL_SIZE: usize = 128;

/// The ordered messages of a conversation. A clone shares them until one of the two grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    messages: Arc<Vec<Message>>,
}

/// Why a transcript cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranscriptError {
    /// Not JSON, or not a transcript.
    #[error("the transcript is not a JSON list of messages or an object with `messages`: {reason}")]
    Shape {
        /// What the parser says, without the content.
        reason: String,
    },
    /// Written by a newer version of the library.
    #[error("the transcript has format {found}; this version reads {FORMAT}: update toolrelay")]
    Format {
        /// The format that was found.
        found: u32,
    },
    /// A message cannot be read.
    #[error("message {at} of the transcript: {source}")]
    Message {
        /// Its place, from 0.
        at: usize,
        /// What is wrong with it.
        source: MessageError,
    },
}

impl Transcript {
    /// A transcript of these messages.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages: Arc::new(messages) }
    }

    /// Reads the JSON form: `{"format": 1, "messages": […]}`, or a bare list of messages in the
    /// OpenAI or Anthropic shape.
    pub fn from_json(json: Bytes) -> Result<Self, TranscriptError> {
        let mended = match json::mend_escapes(text_of(&json)?) {
            Cow::Borrowed(text) => return read(&json, text).map(Self::new),
            Cow::Owned(mended) => Bytes::from(mended),
        };
        read(&mended, text_of(&mended)?).map(Self::new)
    }

    /// Reads messages that stand apart, such as the rows of a store.
    pub fn from_messages(rows: impl IntoIterator<Item = Bytes>) -> Result<Self, TranscriptError> {
        let mut messages = Vec::new();
        for (at, row) in rows.into_iter().enumerate() {
            let text = text_of(&row)?;
            message::read(&row, text, &mut messages).map_err(|source| TranscriptError::Message { at, source })?;
        }
        Ok(Self::new(messages))
    }

    /// The JSON form.
    pub fn to_json(&self) -> Vec<u8> {
        self.json_slices().concat()
    }

    /// The JSON form as slices that are to follow each other: those of the messages are not copied.
    pub fn json_slices(&self) -> Vec<Bytes> {
        let mut slices = vec![Bytes::from_static(OPENING.as_bytes())];
        for run in self.messages.chunk_by(|before, message| message.follows(before)) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                slices.push(first.through(last));
                slices.push(Bytes::from_static(b","));
            }
        }
        if !self.is_empty() {
            slices.pop();
        }
        slices.push(Bytes::from_static(CLOSING.as_bytes()));
        slices
    }

    /// The messages in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: Message) {
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// Takes off everything from place `at` on.
    pub fn split_off(&mut self, at: usize) -> Vec<Message> {
        let at = at.min(self.messages.len());
        Arc::make_mut(&mut self.messages).split_off(at)
    }

    /// Whether the last turn waits for answers.
    pub fn is_halted(&self) -> bool {
        let tail = self.messages.iter().rev();
        tail.take_while(|message| message.assistant().is_none()).any(Message::is_placeholder)
    }
}

/// The messages of a JSON form without lone surrogates. `text` is `json` as text.
fn read(json: &Bytes, text: &str) -> Result<Vec<Message>, TranscriptError> {
    if let Some(messages) = read_in_one_pass(json, text) {
        return Ok(messages);
    }
    let list = if text.trim_ascii_start().starts_with('[') { text } else { enveloped(text)? };
    let elements = scan::elements(list).ok_or_else(|| malformed(text))?;
    let mut messages = Vec::with_capacity(elements.len());
    for (at, element) in elements.into_iter().enumerate() {
        let bytes = json.slice_ref(element.as_bytes());
        message::read(&bytes, element, &mut messages).map_err(|source| {
            let not_json = serde_json::from_str::<IgnoredAny>(text).err().map(shape);
            not_json.unwrap_or(TranscriptError::Message { at, source })
        })?;
    }
    Ok(messages)
}

/// Reads a bare list, or an envelope as it is written here. `None` where anything is wrong or odd.
fn read_in_one_pass(json: &Bytes, text: &str) -> Option<Vec<Message>> {
    let begin = if text.starts_with(OPENING) { OPENING.len() } else { text.starts_with('[').then_some(1)? };
    let mut scan = Scan::from(text, begin);
    let mut messages = Vec::with_capacity(text.len() / USUAL_SIZE);
    if scan.take(b']').is_none() {
        loop {
            message::read_from(json, &mut scan, &mut messages)?.ok()?;
            if scan.next_of(b",]")? == b']' {
                break;
            }
        }
    }
    if begin > 1 {
        scan.take(b'}')?;
    }
    scan.is_over().then_some(messages)
}

/// The messages in an envelope of a format that this version reads.
fn enveloped(text: &str) -> Result<&str, TranscriptError> {
    let fields = scan::fields(text).ok_or_else(|| malformed(text))?;
    let mut format = None;
    let mut messages = None;
    for (key, value) in fields {
        let repeated = match key {
            "\"format\"" => format.replace(serde_json::from_str::<u32>(value).map_err(shape)?).is_some(),
            "\"messages\"" => messages.replace(value).is_some(),
            _ => serde_json::from_str::<IgnoredAny>(value).map(|_| false).map_err(shape)?,
        };
        if repeated {
            return Err(TranscriptError::Shape { reason: format!("the key {key} stands twice") });
        }
    }
    let missing = |name: &str| TranscriptError::Shape { reason: format!("it has no {name}") };
    let format = format.ok_or_else(|| missing("format"))?;
    if format != FORMAT {
        return Err(TranscriptError::Format { found: format });
    }
    messages.ok_or_else(|| missing("messages"))
}

fn text_of(json: &Bytes) -> Result<&str, TranscriptError> {
    std::str::from_utf8(json).map_err(|error| TranscriptError::Shape { reason: error.to_string() })
}

/// What a whole parser says of a text that could not be split.
fn malformed(text: &str) -> TranscriptError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => shape(error),
        Ok(_) => TranscriptError::Shape { reason: "it is JSON of another shape".to_owned() },
    }
}

fn shape(error: serde_json::Error) -> TranscriptError {
    TranscriptError::Shape {
        reason: format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()),
    }
}
