//! One immutable message: its canonical JSON and the facts that the machine needs of it.

mod build;
mod canonical;
mod check;
mod read;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::id::{CallId, RequestId};
use crate::json::Json;
use crate::reply::Provider;
use crate::request::Request;
use crate::tool::Outcome;
use crate::wire::{Encoded, Profile, Style};

pub(crate) use canonical::{read, read_from};
use read::Extras;
pub(crate) use read::Fields;

/// An immutable message. Clones share it.
#[derive(Clone)]
pub struct Message(Arc<Inner>);

struct Inner {
    /// The text that the message stands in: its own, or that of a whole transcript.
    document: Bytes,
    /// Its place there.
    place: Range<usize>,
    body: Body,
    is_plain: bool,
    wire: [OnceLock<Kept>; Style::COUNT],
}

/// An encoding, and the server that it was made for if that differs from its style.
struct Kept {
    encoded: Encoded,
    profile: Option<Arc<Profile>>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Instructions (`system` or `developer`).
    System,
    /// A prompt.
    User,
    /// A model's reply.
    Assistant(Assistant),
    /// The result of a call, or the placeholder of one.
    Tool(ToolResult),
}

/// The facts of a model's reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assistant {
    /// The calls in order.
    pub calls: Vec<Call>,
    /// The provider's own form of the message.
    pub provider: Option<Provider>,
}

/// One tool call of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Unique in the transcript.
    pub id: CallId,
    /// The host's name of the tool.
    pub name: String,
    /// The model's argument text, byte for byte.
    pub arguments: String,
}

/// The facts of a call's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// Whose result it is.
    pub call: CallId,
    /// How the call ended; `Ok` on a placeholder.
    pub outcome: Outcome,
    /// Set on a placeholder.
    pub pending: Option<Box<Pending>>,
}

/// The mark of a placeholder (contract 5.4): it binds the parked call to its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The request the call waits for.
    pub id: RequestId,
    /// Model turns used so far since the prompt: budgets add up over suspensions.
    pub turns: u32,
    /// What the call was when it parked ([`Call::check`]), where its own tool is to run it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The whole request, on the first placeholder that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

impl Pending {
    /// Whether the call is the host's to execute.
    pub fn is_relay(&self) -> bool {
        self.check.is_none()
    }
}

/// Content of a message: text, or a list of content parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No content (`null` or absent).
    Empty,
    /// Plain text.
    Text(String),
    /// A JSON array of content parts, as it stands.
    Parts(Json),
}

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Not an object of the expected shape.
    #[error("a message cannot be read: {reason}")]
    Shape {
        /// What the parser says, without the content.
        reason: String,
    },
    /// A role nobody knows.
    #[error("a message has the unknown role {role:?}; expected system, developer, user, assistant or tool")]
    Role {
        /// The role.
        role: String,
    },
}

impl Message {
    pub(crate) fn from_parts(json: Bytes, body: Body, is_plain: bool) -> Self {
        let place = 0..json.len();
        Self(Arc::new(Inner { document: json, place, body, is_plain, wire: Default::default() }))
    }

    /// A message that stands at a place of a longer text.
    pub(crate) fn within(document: &Bytes, place: Range<usize>, body: Body, is_plain: bool) -> Self {
        Self(Arc::new(Inner { document: document.clone(), place, body, is_plain, wire: Default::default() }))
    }

    /// The canonical JSON.
    pub fn json(&self) -> &[u8] {
        self.0.document.get(self.0.place.clone()).unwrap_or_default()
    }

    /// The canonical JSON; not copied.
    pub fn to_bytes(&self) -> Bytes {
        self.0.document.slice(self.0.place.clone())
    }

    /// Whether this message stands right behind another in one text, with nothing but a comma between.
    pub(crate) fn follows(&self, other: &Self) -> bool {
        let (document, behind) = (&self.0.document, other.0.place.end);
        document.as_ptr() == other.0.document.as_ptr()
            && document.len() == other.0.document.len()
            && self.0.place.start == behind + 1
            && document.get(behind) == Some(&b',')
    }

    /// The canonical JSON of this message and of those that follow it up to `last`, commas between.
    pub(crate) fn through(&self, last: &Self) -> Bytes {
        self.0.document.slice(self.0.place.start..last.0.place.end)
    }

    /// Whether the JSON has nothing of this library's own, and says something if it is a result.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.is_plain
    }

    /// What the message is.
    pub fn body(&self) -> &Body {
        &self.0.body
    }

    /// The facts of a model's reply, if it is one.
    pub fn assistant(&self) -> Option<&Assistant> {
        match &self.0.body {
            Body::Assistant(assistant) => Some(assistant),
            Body::System | Body::User | Body::Tool(_) => None,
        }
    }

    /// The calls of a model's reply; none for any other message.
    pub fn calls(&self) -> &[Call] {
        self.assistant().map_or(&[], |assistant| &assistant.calls)
    }

    /// The facts of a call's result, if it is one.
    pub fn result(&self) -> Option<&ToolResult> {
        match &self.0.body {
            Body::Tool(result) => Some(result),
            Body::System | Body::User | Body::Assistant(_) => None,
        }
    }

    /// Whether this is the placeholder of a parked call.
    pub fn is_placeholder(&self) -> bool {
        self.result().is_some_and(|result| result.pending.is_some())
    }

    /// The content, read from the JSON.
    pub fn content(&self) -> Content {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
        }
        let shape: Option<Shape<'_>> = serde_json::from_slice(self.json()).ok();
        shape.and_then(|shape| shape.content).map_or(Content::Empty, Content::read)
    }

    /// The text of the content; parts that are not text are left out.
    pub fn text(&self) -> String {
        self.content().text()
    }

    /// The images and files beside a result's text: a JSON array.
    pub fn parts(&self) -> Option<Json> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default)]
            toolrelay: Option<Extras<'a>>,
        }
        let shape: Shape<'_> = serde_json::from_slice(self.json()).ok()?;
        shape.toolrelay?.parts.map(Json::from)
    }

    /// The encoding for one provider style, made at first use and kept.
    pub(crate) fn encoded(&self, style: Style, encode: impl FnOnce(&Self) -> Encoded) -> &Encoded {
        &self.0.wire[style.index()].get_or_init(|| Kept { encoded: encode(self), profile: None }).encoded
    }

    /// The same for a server that may differ from its style. One encoding is kept, that of the server which
    /// came first; another server's is made each time.
    pub(crate) fn encoded_for(
        &self,
        style: Style,
        profile: Option<&Arc<Profile>>,
        encode: impl Fn(&Self) -> Encoded,
    ) -> Cow<'_, Encoded> {
        let make = || Kept { encoded: encode(self), profile: profile.cloned() };
        let kept = self.0.wire[style.index()].get_or_init(make);
        let fits = match (&kept.profile, profile) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other) || own == other,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if fits { Cow::Borrowed(&kept.encoded) } else { Cow::Owned(encode(self)) }
    }
}

impl Content {
    pub(crate) fn read(raw: &RawValue) -> Self {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).map_or(Self::Empty, Self::Text),
            Some(b'[') => Self::Parts(Json::from(raw)),
            _ => Self::Empty,
        }
    }

    /// The text; text parts are joined.
    pub fn text(&self) -> String {
        #[derive(Deserialize)]
        struct Part {
            #[serde(default)]
            text: Option<String>,
        }
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let parts: Vec<Part> = serde_json::from_str(parts.get()).unwrap_or_default();
                parts.into_iter().filter_map(|part| part.text).collect()
            }
        }
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Message {}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", String::from_utf8_lossy(self.json()))
    }
}
