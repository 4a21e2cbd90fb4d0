//! What goes wrong without a response, as a [`ProviderFailure`].

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use crate::tls::TlsError;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};

use super::endpoint::Endpoint;

/// An error of the libraries below, with its causes, and the place it happened at.
pub(super) fn of(endpoint: &Endpoint, error: &(dyn Error + 'static)) -> ProviderFailure {
    let mut message = format!("{}: {error}", endpoint.origin());
    for cause in causes(error) {
        let cause = cause.to_string();
        // Libraries repeat their cause in their own text more often than not.
        if !message.contains(&cause) {
            let _ = write!(message, ": {cause}");
        }
    }
    ProviderFailure::new(kind(error), message)
}

/// Nothing came from the provider for as long as it may stay silent.
pub(super) fn silent(endpoint: &Endpoint, limit: Duration) -> ProviderFailure {
    let message = format!("{}: nothing arrived within {limit:?}", endpoint.origin());
    ProviderFailure::new(FailureKind::Timeout, message)
}

fn kind(error: &(dyn Error + 'static)) -> FailureKind {
    for error in std::iter::once(error).chain(causes(error)) {
        if error.downcast_ref().is_some_and(hyper::Error::is_parse) {
            return FailureKind::Malformed;
        }
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return FailureKind::Setup;
        }
        if error.is::<TlsError>() {
            return FailureKind::Setup;
        }
    }
    FailureKind::Connection
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(inner(error), |cause| inner(*cause))
}

/// An I/O error hides what it carries behind a `source` that skips one level.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io.get_ref().map(|carried| carried as &(dyn Error + 'static));
    }
    error.source()
}
