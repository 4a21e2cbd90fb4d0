//! The ordered messages of a conversation, cheap to share.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::json;
use crate::message::{self, Message, MessageError};

/// The version of the JSON form that this library writes.
pub const FORMAT: u32 = 1;

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
        #[derive(Deserialize)]
        struct Envelope<'a> {
            format: u32,
            #[serde(borrow)]
            messages: &'a RawValue,
        }
        let text = std::str::from_utf8(&json).map_err(|error| TranscriptError::Shape { reason: error.to_string() })?;
        let json = match json::mend_escapes(text) {
            Cow::Borrowed(_) => json.clone(),
            Cow::Owned(mended) => Bytes::from(mended),
        };
        let list = json.trim_ascii_start().starts_with(b"[");
        let raw: Vec<&RawValue> = if list {
            serde_json::from_slice(&json).map_err(shape)?
        } else {
            let envelope: Envelope<'_> = serde_json::from_slice(&json).map_err(shape)?;
            if envelope.format != FORMAT {
                return Err(TranscriptError::Format { found: envelope.format });
            }
            serde_json::from_str(envelope.messages.get()).map_err(shape)?
        };
        let mut messages = Vec::with_capacity(raw.len());
        for (at, raw) in raw.into_iter().enumerate() {
            let bytes = json.slice_ref(raw.get().as_bytes());
            message::read(&bytes, &mut messages).map_err(|source| TranscriptError::Message { at, source })?;
        }
        Ok(Self::new(messages))
    }

    /// Reads messages that stand apart, such as the rows of a store.
    pub fn from_messages(rows: impl IntoIterator<Item = Bytes>) -> Result<Self, TranscriptError> {
        let mut messages = Vec::new();
        for (at, row) in rows.into_iter().enumerate() {
            message::read(&row, &mut messages).map_err(|source| TranscriptError::Message { at, source })?;
        }
        Ok(Self::new(messages))
    }

    /// The JSON form.
    pub fn to_json(&self) -> Vec<u8> {
        let size: usize = self.messages.iter().map(|message| message.json().len() + 1).sum();
        let mut out = Vec::with_capacity(size + 32);
        out.extend_from_slice(format!(r#"{{"format":{FORMAT},"messages":["#).as_bytes());
        for (at, message) in self.messages.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(message.json());
        }
        out.extend_from_slice(b"]}");
        out
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

fn shape(error: serde_json::Error) -> TranscriptError {
    TranscriptError::Shape {
        reason: format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()),
    }
}
