//! Why a model call failed, as one value for every provider.
//!
//! It owns how an error body is read and what a failure means for a retry. It does not own waiting:
//! the runtime decides when, with the delay that a provider asked for at hand.

mod body;
mod kind;
mod redact;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use kind::FailureKind;

/// A model call that gave no reply: what happened, in the provider's words where it had some.
///
/// ```
/// use toolrelay_core::wire::failure::{FailureKind, ProviderFailure, ReplyHints};
///
/// let body = br#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
/// let failure = ProviderFailure::from_response(529, body, ReplyHints::default());
/// assert_eq!(failure.kind, FailureKind::Overloaded);
/// assert!(failure.is_retryable());
/// assert_eq!(failure.to_string(), "the provider is overloaded (status 529, overloaded_error): busy");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct ProviderFailure {
    /// The status of the HTTP response; absent when none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What kind of failure this is.
    pub kind: FailureKind,
    /// The error's type in the provider's own spelling, such as `rate_limit_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The error's code in the provider's own spelling, such as `insufficient_quota` or `502`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the provider, or the transport, says about it; bounded in length.
    pub message: String,
    /// The provider's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider asks to wait before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The visible text of a reply that broke off when a watcher had been told of some of it. No other attempt
    /// follows then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_text: Option<String>,
}

/// What the headers of a response say about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyHints {
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl ProviderFailure {
    /// A failure that is known without an error body.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            status: None,
            kind,
            error_type: None,
            code: None,
            message: message.into(),
            request_id: None,
            retry_after: None,
            partial_text: None,
        }
    }

    /// Reads a response whose status is no success.
    ///
    /// It understands the error bodies of the OpenAI, Anthropic and Gemini styles and what gateways
    /// put before them. The code and the type decide what it is, then the status; the words of the
    /// message never decide whether to try again. A body of any other form becomes a bounded excerpt.
    pub fn from_response(status: u16, body: &[u8], hints: ReplyHints) -> Self {
        let reported = body::Reported::parse(body);
        let mut failure = Self { kind: kind::classify(Some(status), &reported), ..Self::reported(reported, hints) };
        failure.status = Some(status);
        if failure.message.is_empty() {
            kind::message_for(status).clone_into(&mut failure.message);
        }
        failure
    }

    /// Finds the error in the body of a response whose status says success.
    ///
    /// `None` means that the body reports none; whether it is a reply is for the style to say.
    pub fn in_body(body: &[u8]) -> Option<Self> {
        body::Reported::within_success(body).map(Self::without_status)
    }

    /// Reads a body that is known to be an error, though the status said success.
    pub(super) fn of_error(body: &[u8]) -> Self {
        Self::without_status(body::Reported::parse(body))
    }

    /// Adds what the response around a body says, where the failure does not know better.
    #[must_use]
    pub fn within(mut self, status: u16, hints: ReplyHints) -> Self {
        self.status = self.status.or(Some(status));
        self.request_id = self.request_id.or(hints.request_id);
        self.retry_after = hints.retry_after.or(self.retry_after);
        self
    }

    /// Whether another attempt may succeed (contract 8.6).
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }

    /// Takes every trace of the given secrets out: the secrets themselves, the beginning of one at
    /// the end of a cut message, and the forms that providers mask in part (`sk-ab***yz`).
    #[must_use]
    pub fn redact<S: AsRef<str>>(mut self, secrets: &[S]) -> Self {
        for secret in secrets {
            let secret = secret.as_ref().trim();
            redact::clean(&mut self.message, secret);
            let fields = [&mut self.error_type, &mut self.code, &mut self.request_id];
            for text in fields.into_iter().flatten() {
                redact::clean(text, secret);
            }
        }
        self
    }

    fn without_status(reported: body::Reported) -> Self {
        let mut failure =
            Self { kind: kind::classify(None, &reported), ..Self::reported(reported, ReplyHints::default()) };
        if failure.message.is_empty() {
            "the reply is an error without a message".clone_into(&mut failure.message);
        }
        failure
    }

    fn reported(reported: body::Reported, hints: ReplyHints) -> Self {
        Self {
            error_type: reported.error_type,
            code: reported.code,
            request_id: hints.request_id.or(reported.request_id),
            retry_after: hints.retry_after.or(reported.retry_after),
            ..Self::new(FailureKind::Server, reported.message)
        }
    }
}

impl fmt::Display for ProviderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.phrase())?;
        let status = self.status.map(|status| format!("status {status}"));
        let request = self.request_id.as_ref().map(|id| format!("request {id}"));
        let code = self.code.as_ref().filter(|code| Some(*code) != self.error_type.as_ref());
        let parts = [status.as_ref(), self.error_type.as_ref(), code, request.as_ref()];
        let mut opened = false;
        for part in parts.into_iter().flatten() {
            f.write_str(if opened { ", " } else { " (" })?;
            f.write_str(part)?;
            opened = true;
        }
        f.write_str(if opened { "): " } else { ": " })?;
        f.write_str(&self.message)
    }
}
