//! Every error of the runtime as the Python exception that stands for it. The classes are defined
//! in `toolrelay.errors`; the matches here are exhaustive.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use toolrelay_core::request::Request;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::run::io::{Failure, ModelFailure};
use toolrelay_core::transcript::{Transcript, TranscriptError};
use toolrelay_core::wire::WireError;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_runtime::client::{Report, RunError};
use toolrelay_runtime::conversation::ConversationError;
use toolrelay_runtime::seal::SealError;
use toolrelay_runtime::store::{Lease, StoreError};
use toolrelay_runtime::toolkit::ToolkitError;
use toolrelay_runtime::translate::TranslateError;

use crate::conversation::instant;
use crate::convert;
use crate::transcript::PyTranscript;

/// An exception without fields.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    build(py, class, message, &PyDict::new(py))
}

/// The exception for a value that is wrong, at this place.
pub(crate) fn payload_error(py: Python<'_>, message: &str, key: Option<&str>) -> PyErr {
    with(py, "PayloadError", message, &[("key", object(py, key))])
}

fn build(py: Python<'_>, class: &str, message: &str, fields: &Bound<'_, PyDict>) -> PyErr {
    let made = convert::error_class(py, class).and_then(|class| class.call((message,), Some(fields)));
    made.map_or_else(|error| error, PyErr::from_value)
}

fn with(py: Python<'_>, class: &str, message: &str, fields: &[(&str, Option<Py<PyAny>>)]) -> PyErr {
    let kwargs = PyDict::new(py);
    for (name, value) in fields {
        if let Some(value) = value
            && let Err(error) = kwargs.set_item(name, value)
        {
            return error;
        }
    }
    build(py, class, message, &kwargs)
}

/// The exception for a segment that gave no report; `raised` is what the host's own store ended with.
pub(crate) fn run_error(py: Python<'_>, error: &RunError, raised: Option<PyErr>) -> PyErr {
    let text = error.to_string();
    match error {
        RunError::Start(start) => start_error(py, start),
        RunError::Resume(resume) => resume_error(py, resume),
        RunError::Conversation(conversation) => conversation_error(py, conversation, raised),
        RunError::Wire(WireError::TooManyTools { .. }) => raise(py, "ToolkitError", &text),
        RunError::Wire(_) => raise(py, "ConfigurationError", &text),
        RunError::Seal(seal) => seal_error(py, seal),
        RunError::Entropy { .. } => raise(py, "ToolRelayError", &text),
        RunError::Store { error, transcript } => {
            let error = store_error(py, error, raised);
            // An exception of the host's own class may not take it.
            let _ = error.value(py).setattr("transcript", transcript_of(py, transcript));
            error
        }
    }
}

/// The exception for a token that does not open, or a result that is not sealed.
pub(crate) fn seal_error(py: Python<'_>, error: &SealError) -> PyErr {
    with(py, "SealError", &error.to_string(), &[("reason", object(py, error.as_str()))])
}

/// The exception for a run that ended with a failure.
pub(crate) fn failure(py: Python<'_>, failure: &Failure, report: &Report, cause: Option<PyErr>) -> PyErr {
    let text = failure.to_string();
    let (cause, text) = match (failure, cause) {
        (Failure::BadAnswer(resume), _) => (Some(resume_error(py, resume)), text),
        (Failure::AskFailed, Some(cause)) => {
            let text = format!("{text}: {cause}");
            (Some(cause), text)
        }
        (_, cause) => (cause, text),
    };
    let transcript = || ("transcript", transcript_of(py, &report.transcript));
    let error = match failure {
        Failure::Model(ModelFailure::Provider(provider)) => provider_error(py, provider, &text, transcript()),
        Failure::Model(ModelFailure::Unsendable { .. }) => with(py, "TranscriptError", &text, &[transcript()]),
        Failure::Model(ModelFailure::InProcess { partial_text, .. }) => {
            let partial = ("partial_text", object(py, partial_text.clone()));
            with(py, "GenerateError", &text, &[transcript(), partial])
        }
        Failure::CutReply { .. } | Failure::EmptyReply { .. } => {
            let reason = object(py, report.finish_reason.clone());
            with(py, "ModelReplyError", &text, &[transcript(), ("finish_reason", reason)])
        }
        Failure::ContextOverflow => with(py, "ContextOverflowError", &text, &[transcript()]),
        Failure::BadAnswer(_) | Failure::AskFailed => {
            let suspensions = requests(py, &report.suspensions);
            with(py, "WaitForError", &text, &[transcript(), ("suspensions", suspensions)])
        }
    };
    if cause.is_some() {
        error.set_cause(py, cause);
    }
    error
}

/// The exception for a single call that gave no answer; `cause` is what the host's model raised.
pub(crate) fn translate_error(py: Python<'_>, error: &TranslateError, cause: Option<PyErr>) -> PyErr {
    let text = error.to_string();
    let raised = match error {
        TranslateError::Messages { .. } | TranslateError::Model(ModelFailure::Unsendable { .. }) => {
            raise(py, "TranscriptError", &text)
        }
        TranslateError::Tools { tool } => with(py, "ToolkitError", &text, &[("tool", object(py, tool.as_str()))]),
        TranslateError::Wire(WireError::TooManyTools { .. }) => raise(py, "ToolkitError", &text),
        TranslateError::Wire(wire) => payload_error(py, &text, wire.key()),
        TranslateError::Model(ModelFailure::Provider(provider)) => {
            provider_error(py, provider, &text, ("transcript", None))
        }
        TranslateError::Model(ModelFailure::InProcess { partial_text, .. }) => {
            with(py, "GenerateError", &text, &[("partial_text", object(py, partial_text.clone()))])
        }
        TranslateError::Entropy { .. } => raise(py, "ToolRelayError", &text),
    };
    if cause.is_some() {
        raised.set_cause(py, cause);
    }
    raised
}

fn provider_error(
    py: Python<'_>,
    failure: &ProviderFailure,
    text: &str,
    transcript: (&str, Option<Py<PyAny>>),
) -> PyErr {
    let class = match failure.kind {
        FailureKind::Authentication => "AuthenticationError",
        FailureKind::Permission => "PermissionDeniedError",
        FailureKind::NotFound => "ModelNotFoundError",
        FailureKind::BadRequest => "BadRequestError",
        FailureKind::ContextOverflow => "ContextOverflowError",
        FailureKind::Filtered => "ContentFilterError",
        FailureKind::RateLimited => "RateLimitError",
        FailureKind::OutOfQuota => "QuotaError",
        FailureKind::Overloaded => "OverloadedError",
        FailureKind::Server | FailureKind::Conflict => "ProviderServerError",
        FailureKind::Timeout => "ProviderTimeoutError",
        FailureKind::Connection | FailureKind::Setup => "ProviderConnectionError",
        FailureKind::Malformed | FailureKind::TooLarge => "ProviderReplyError",
    };
    let fields = [
        transcript,
        ("kind", object(py, failure.kind.as_str())),
        ("status", object(py, failure.status)),
        ("error_type", object(py, failure.error_type.clone())),
        ("code", object(py, failure.code.clone())),
        ("request_id", object(py, failure.request_id.clone())),
        ("retryable", object(py, failure.is_retryable())),
        ("retry_after", object(py, failure.retry_after.map(|wait| wait.as_secs_f64()))),
        ("partial_text", object(py, failure.partial_text.clone())),
    ];
    with(py, class, text, &fields)
}

fn start_error(py: Python<'_>, error: &StartError) -> PyErr {
    let text = error.to_string();
    match error {
        StartError::Pending { calls, requests: suspensions } => {
            let ids: Vec<&str> = calls.iter().map(|(id, _)| id.as_str()).collect();
            let fields = [("calls", object(py, ids)), ("suspensions", requests(py, suspensions))];
            with(py, "PendingError", &text, &fields)
        }
        StartError::NothingToDo | StartError::Broken(_) | StartError::CallChanged { .. } => {
            raise(py, "TranscriptError", &text)
        }
    }
}

fn resume_error(py: Python<'_>, error: &ResumeError) -> PyErr {
    raise(py, "ResumeError", &error.to_string())
}

/// The exception for a conversation that does not go on.
fn conversation_error(py: Python<'_>, error: &ConversationError, raised: Option<PyErr>) -> PyErr {
    let text = error.to_string();
    let about = |class: &str, request: &str| with(py, class, &text, &[("request_id", object(py, request))]);
    let worker = |lease: &Lease| object(py, Some(lease.owner.as_str()).filter(|owner| !owner.is_empty()));
    let until = |lease: &Lease| instant(py, lease.until_ms).ok().map(Bound::unbind);
    match error {
        ConversationError::Busy { lease: None, .. } => raise(py, "ConversationBusy", &text),
        ConversationError::Busy { lease: Some(lease), .. } => {
            with(py, "ConversationBusy", &text, &[("worker", worker(lease)), ("lease_until", until(lease))])
        }
        ConversationError::NotFound { .. } => raise(py, "ConversationNotFound", &text),
        ConversationError::Entropy { .. } => raise(py, "ToolRelayError", &text),
        ConversationError::Exists { .. } => raise(py, "ConversationExists", &text),
        ConversationError::NothingToRecover { .. } => raise(py, "NothingToRecover", &text),
        ConversationError::LeaseLost { .. } => raise(py, "LeaseLost", &text),
        ConversationError::AnswerInProgress { request, lease } => {
            let request = ("request_id", object(py, request));
            with(py, "AnswerInProgress", &text, &[request, ("worker", worker(lease)), ("lease_until", until(lease))])
        }
        ConversationError::AlreadyAnswered { request } => about("AlreadyAnswered", request),
        ConversationError::Start(start) => start_error(py, start),
        ConversationError::Resume(resume) => resume_error(py, resume),
        ConversationError::Transcript(transcript) => transcript_error(py, transcript),
        ConversationError::Id(_) => raise(py, "StoreError", &text),
        ConversationError::Store(store) => store_error(py, store, raised),
    }
}

/// The exception for a store that failed: what the host's own store raised, if that is one of ours,
/// or else with that as its cause.
pub(crate) fn store_error(py: Python<'_>, error: &StoreError, raised: Option<PyErr>) -> PyErr {
    let is_ours =
        |raised: &PyErr| convert::error_class(py, "StoreError").is_ok_and(|ours| raised.is_instance(py, &ours));
    match raised {
        Some(raised) if is_ours(&raised) => raised,
        raised => {
            let error = raise(py, store_class(error), &error.to_string());
            error.set_cause(py, raised);
            error
        }
    }
}

/// The class for a failure of a store.
fn store_class(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict { .. } | StoreError::SeqTaken { .. } => "StoreConflict",
        StoreError::Full { .. } | StoreError::TooLarge { .. } => "StoreFull",
        StoreError::ReadOnly { .. } => "StoreReadOnly",
        StoreError::Locked { .. } => "StoreLocked",
        StoreError::NewerSchema { .. } | StoreError::NotAStore { .. } => "StoreSchemaError",
        StoreError::Corrupt { .. } => "StoreCorrupt",
        StoreError::Gone { .. } | StoreError::Unavailable { .. } | StoreError::Closed { .. } => "StoreUnavailable",
    }
}

/// The exception for a transcript that cannot be read.
pub(crate) fn transcript_error(py: Python<'_>, error: &TranscriptError) -> PyErr {
    raise(py, "TranscriptError", &error.to_string())
}

/// The exception for a toolkit that cannot be built.
pub(crate) fn toolkit_error(py: Python<'_>, error: &ToolkitError) -> PyErr {
    let tool = match error {
        ToolkitError::RelayNamedAsBuiltin { tool }
        | ToolkitError::Duplicate { tool }
        | ToolkitError::SameWireName { tool, .. }
        | ToolkitError::Schema { tool, .. } => Some(tool.as_str()),
        ToolkitError::NoName => None,
    };
    with(py, "ToolkitError", &error.to_string(), &[("tool", object(py, tool))])
}

fn object<'py>(py: Python<'py>, value: impl IntoPyObjectExt<'py>) -> Option<Py<PyAny>> {
    value.into_py_any(py).ok()
}

fn transcript_of(py: Python<'_>, transcript: &Transcript) -> Option<Py<PyAny>> {
    object(py, PyTranscript::from(transcript.clone()))
}

fn request_of(py: Python<'_>, request: &Request) -> Option<Py<PyAny>> {
    convert::relay(py, "Request", request).ok().map(Bound::unbind)
}

fn requests(py: Python<'_>, requests: &[Request]) -> Option<Py<PyAny>> {
    let requests: Vec<Py<PyAny>> = requests.iter().filter_map(|request| request_of(py, request)).collect();
    PyTuple::new(py, requests).ok().map(|tuple| tuple.into_any().unbind())
}
