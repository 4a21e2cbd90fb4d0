//! A run as JSON, at any point: what a reload needs to go on with the same effects.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::message::{self, Message};
use crate::run::Run;

/// The version of the JSON form of a run.
const FORMAT: u32 = 1;

/// Why a saved run cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    /// Not a saved run.
    #[error("this is not a saved run: {reason}")]
    Shape {
        /// What the parser says, without the content.
        reason: String,
    },
    /// Written by another version of the library.
    #[error("the saved run has format {found}; this version reads {FORMAT}")]
    Format {
        /// The format that was found.
        found: u32,
    },
}

impl Run {
    /// The whole state as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, SavedError> {
        #[derive(Serialize)]
        struct Saved<'a> {
            format: u32,
            run: &'a Run,
        }
        serde_json::to_vec(&Saved { format: FORMAT, run: self }).map_err(shape)
    }

    /// Loads a state that [`Run::to_json`] gave. Effects that were under way keep their ids.
    pub fn from_json(json: &[u8]) -> Result<Self, SavedError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        #[derive(Deserialize)]
        struct Saved {
            run: Run,
        }
        let version: Version = serde_json::from_slice(json).map_err(shape)?;
        if version.format != FORMAT {
            return Err(SavedError::Format { found: version.format });
        }
        serde_json::from_slice(json).map(|saved: Saved| saved.run).map_err(shape)
    }
}

fn shape(error: serde_json::Error) -> SavedError {
    SavedError::Shape {
        reason: format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()),
    }
}

/// A message inside a saved run is its JSON text as a string, so that its bytes stay.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&String::from_utf8_lossy(self.json()))
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let text = String::deserialize(reader)?;
        let mut messages = Vec::with_capacity(1);
        let json = bytes::Bytes::copy_from_slice(text.as_bytes());
        message::read(&json, &text, &mut messages).map_err(serde::de::Error::custom)?;
        messages.pop().ok_or_else(|| serde::de::Error::custom("no message"))
    }
}

/// The transcript of a saved run.
pub(super) mod transcript {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::message::Message;
    use crate::transcript::Transcript;

    pub(in crate::run) fn serialize<S: Serializer>(transcript: &Transcript, out: S) -> Result<S::Ok, S::Error> {
        transcript.messages().serialize(out)
    }

    pub(in crate::run) fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Transcript, D::Error> {
        Vec::<Message>::deserialize(reader).map(Transcript::new)
    }
}
