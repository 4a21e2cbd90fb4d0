//! What an error body says, whoever wrote it.

use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The parts of an error body that some provider or gateway fills in.
#[derive(Default)]
pub(super) struct Reported {
    pub(super) error_type: Option<String>,
    pub(super) code: Option<String>,
    pub(super) numeric_code: Option<u16>,
    pub(super) message: String,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    reasons: Vec<String>,
}

/// The keys by which a success can turn out to be an error. Everything else is skipped unread.
#[derive(Deserialize)]
struct Marks<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

impl Reported {
    /// Reads a body that is known to be an error.
    pub(super) fn parse(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => Self::from_object(&object),
            // A stream of one error arrives as an array when it was asked for as a whole.
            Ok(Value::Array(items)) => match items.first() {
                Some(Value::Object(object)) => Self::from_object(object),
                _ => Self::from_text(body),
            },
            Ok(_) | Err(_) => Self::from_text(body),
        }
    }

    /// Reads a body that came with a success, if it is an error all the same.
    pub(super) fn within_success(body: &[u8]) -> Option<Self> {
        ERROR.find(body)?;
        let marks: Marks = match body.trim_ascii_start().first() {
            Some(b'[') => serde_json::from_slice::<Vec<Marks>>(body).ok()?.into_iter().next()?,
            _ => serde_json::from_slice(body).ok()?,
        };
        let says_error = |mark: Option<&RawValue>| mark.is_some_and(|mark| mark.get() == "\"error\"");
        let has_error = marks
            .error
            .is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\"") && !is_empty_object(error.get()));
        (has_error || says_error(marks.kind) || says_error(marks.object)).then(|| Self::parse(body))
    }

    /// The identifiers of the error in lower case, the most particular first.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(String::as_str)
    }

    fn from_object(outer: &Map<String, Value>) -> Self {
        let nested = outer.get("error");
        let error = nested.and_then(Value::as_object).unwrap_or(outer);
        let code = scalar(error.get("code"));
        let error_type = text(error.get("type"))
            .filter(|word| word != "error")
            .or_else(|| text(error.get("status")))
            .or_else(|| text(error.get("__type")));
        let details = error.get("details").and_then(Value::as_array);
        let details = details.map(Vec::as_slice).unwrap_or_default();

        let mut reasons: Vec<String> = code.iter().cloned().collect();
        reasons.extend(details.iter().filter_map(|detail| text(detail.get("reason"))));
        reasons.extend(error_type.iter().cloned());
        reasons.extend(text(error.get("status")));
        reasons.extend(text(nested));
        for reason in &mut reasons {
            reason.make_ascii_lowercase();
        }

        let message = ["message", "detail", "title"]
            .iter()
            .find_map(|key| said(error.get(*key)))
            .or_else(|| said(nested.filter(|nested| nested.is_string())))
            .or_else(|| ["message", "detail"].iter().find_map(|key| said(outer.get(*key))));
        Self {
            numeric_code: code.as_ref().and_then(|code| code.parse().ok()),
            message: bounded(&message.unwrap_or_default()),
            request_id: text(outer.get("request_id")).map(|id| bounded(&id)),
            retry_after: details.iter().find_map(|detail| delay(detail.get("retryDelay"))),
            error_type: error_type.map(|word| bounded(&word)),
            code: code.map(|word| bounded(&word)),
            reasons,
        }
    }

    fn from_text(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_READ)]);
        let text = title(&text).unwrap_or(&text);
        Self { message: bounded(text), ..Self::default() }
    }
}

fn is_empty_object(json: &str) -> bool {
    json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|inner| inner.trim().is_empty())
}

fn text(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn scalar(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_number).map(ToString::to_string).or_else(|| text(value))
}

/// A message that is no string (validation errors are lists) is given as its JSON.
fn said(value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (!message.is_empty()).then_some(message)
}

/// A protobuf duration in JSON: seconds with an `s` behind.
fn delay(value: Option<&Value>) -> Option<Duration> {
    let seconds: f64 = value?.as_str()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The title of a page, which is all that a gateway's error page has to say.
fn title(page: &str) -> Option<&str> {
    if !page.trim_start().starts_with('<') {
        return None;
    }
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(title).filter(|title| !title.trim().is_empty())
}

/// One line of at most [`MESSAGE_CHARS`] characters, without control characters.
fn bounded(text: &str) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split_whitespace() {
        if chars > 0 {
            line.push(' ');
            chars += 1;
        }
        for char in word.chars() {
            if chars >= MESSAGE_CHARS {
                line.push('…');
                return line;
            }
            line.push(if char.is_control() { char::REPLACEMENT_CHARACTER } else { char });
            chars += 1;
        }
    }
    line
}

const MESSAGE_CHARS: usize = 1_000;
const TEXT_READ: usize = 16 * 1_024;

/// What every body that may be an error holds. It is looked for in every event of a stream.
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));
