//! The kinds of failure, and how a provider's words and a status become one.

use serde::{Deserialize, Serialize};

use super::body::Reported;

/// What kind of failure a [`ProviderFailure`](super::ProviderFailure) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No connection, or one that broke before the reply was complete.
    Connection,
    /// Nothing arrived in time, or the provider says that it ran out of time.
    Timeout,
    /// Too many requests or tokens for now.
    RateLimited,
    /// Nothing is left to spend: waiting does not help.
    OutOfQuota,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed.
    Server,
    /// Two requests got into each other's way.
    Conflict,
    /// The request is wrong.
    BadRequest,
    /// The request does not fit: too many tokens, or too many bytes.
    ContextOverflow,
    /// A content filter refused the request.
    Filtered,
    /// The key is missing or wrong.
    Authentication,
    /// The key is not allowed to do this.
    Permission,
    /// There is no such model or address.
    NotFound,
    /// The reply cannot be read.
    Malformed,
    /// The reply is larger than the limit set for it.
    TooLarge,
    /// The request cannot be made as configured: address, proxy, certificates.
    Setup,
}

impl FailureKind {
    /// Whether another attempt may succeed (contract 8.6).
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Connection | Self::Timeout | Self::RateLimited | Self::Overloaded | Self::Server | Self::Conflict => {
                true
            }
            Self::OutOfQuota
            | Self::BadRequest
            | Self::ContextOverflow
            | Self::Filtered
            | Self::Authentication
            | Self::Permission
            | Self::NotFound
            | Self::Malformed
            | Self::TooLarge
            | Self::Setup => false,
        }
    }

    /// The kind as a stable name, the same as in its JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::OutOfQuota => "out_of_quota",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Conflict => "conflict",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
            Self::Filtered => "filtered",
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Setup => "setup",
        }
    }

    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::Connection => "the connection to the provider failed",
            Self::Timeout => "the provider did not answer in time",
            Self::RateLimited => "the provider's rate limit is reached",
            Self::OutOfQuota => "the provider account has no quota left",
            Self::Overloaded => "the provider is overloaded",
            Self::Server => "the provider failed",
            Self::Conflict => "the provider reports a conflict",
            Self::BadRequest => "the provider refused the request",
            Self::ContextOverflow => "the request is too large for the model",
            Self::Filtered => "the provider's content filter refused the request",
            Self::Authentication => "the provider did not accept the api key",
            Self::Permission => "the api key may not do this",
            Self::NotFound => "the provider does not know this model or address",
            Self::Malformed => "the provider's reply cannot be read",
            Self::TooLarge => "the provider's reply is too large",
            Self::Setup => "the request cannot be sent as configured",
        }
    }
}

/// A word that says what happened beats the status; the status beats a word that only says whose
/// fault it was. Without a status of its own (an error inside a success) a numeric code stands in.
pub(super) fn classify(status: Option<u16>, reported: &Reported) -> FailureKind {
    let status = status.or(reported.numeric_code);
    let kind = reported
        .words()
        .find_map(telling)
        .or_else(|| status.and_then(of_status))
        .or_else(|| reported.words().find_map(vague))
        .unwrap_or(FailureKind::Server);
    if kind == FailureKind::BadRequest && overflows(&reported.message) {
        return FailureKind::ContextOverflow;
    }
    kind
}

/// What to say about a response that says nothing itself.
pub(super) fn message_for(status: u16) -> &'static str {
    if (300..400).contains(&status) {
        "the address redirects, and requests are not repeated elsewhere; configure the address it points to"
    } else {
        "no error message came with the response"
    }
}

fn of_status(status: u16) -> Option<FailureKind> {
    Some(match status {
        300..=399 => FailureKind::Setup,
        401 => FailureKind::Authentication,
        402 => FailureKind::OutOfQuota,
        403 => FailureKind::Permission,
        404 => FailureKind::NotFound,
        408 | 504 => FailureKind::Timeout,
        409 => FailureKind::Conflict,
        413 => FailureKind::ContextOverflow,
        429 => FailureKind::RateLimited,
        529 => FailureKind::Overloaded,
        400..=499 => FailureKind::BadRequest,
        500..=599 => FailureKind::Server,
        _ => return None,
    })
}

fn telling(word: &str) -> Option<FailureKind> {
    Some(match word {
        "insufficient_quota"
        | "billing_error"
        | "billing_not_active"
        | "billing_hard_limit_reached"
        | "credit_balance_exhausted"
        | "insufficient_balance"
        | "insufficient_credits"
        | "insufficient_funds" => FailureKind::OutOfQuota,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "ratelimitexceeded"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted"
        | "slow_down"
        | "throttlingexception" => FailureKind::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "model_overloaded"
        | "engine_overloaded"
        | "server_is_overloaded"
        | "service_unavailable"
        | "service_unavailable_error"
        | "unavailable" => FailureKind::Overloaded,
        "timeout" | "timeout_error" | "request_timeout" | "deadline_exceeded" | "vector_store_timeout" => {
            FailureKind::Timeout
        }
        "authentication_error"
        | "invalid_authentication"
        | "invalid_api_key"
        | "api_key_invalid"
        | "unauthenticated" => FailureKind::Authentication,
        "permission_error"
        | "permission_denied"
        | "insufficient_permissions"
        | "access_denied"
        | "unsupported_country_region_territory" => FailureKind::Permission,
        "not_found_error" | "not_found" | "model_not_found" | "deploymentnotfound" => FailureKind::NotFound,
        "context_length_exceeded" | "context_window_exceeded" | "exceed_context_size_error" | "request_too_large" => {
            FailureKind::ContextOverflow
        }
        "content_filter"
        | "content_policy_violation"
        | "moderation_blocked"
        | "bio_policy"
        | "cyber_policy"
        | "misalignment_policy_violation"
        | "image_content_policy_violation" => FailureKind::Filtered,
        _ => return None,
    })
}

fn vague(word: &str) -> Option<FailureKind> {
    Some(match word {
        "failed_precondition"
        | "badrequesterror"
        | "data_residency_mismatch"
        | "image_too_large"
        | "image_too_small"
        | "image_file_too_large"
        | "image_file_not_found"
        | "image_parse_error"
        | "empty_image_file"
        | "unsupported_image_media_type"
        | "failed_to_download_image"
        | "unprocessable_entity" => FailureKind::BadRequest,
        _ if word.starts_with("invalid_") => FailureKind::BadRequest,
        _ => return None,
    })
}

/// Two providers report a prompt that is too long as an ordinary bad request. Neither kind is tried
/// again, so here, and only here, the message may say which of the two it is.
fn overflows(message: &str) -> bool {
    message.starts_with("prompt is too long")
        || message.starts_with("The input token count") && message.contains("exceeds the maximum")
}
