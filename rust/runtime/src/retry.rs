//! Trying again: which failures, how often, and after how long (contract 8.6).

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::future::BoxFuture;
use tokio::time::sleep;
use toolrelay_core::wire::failure::ProviderFailure;

use crate::http::{HttpRequest, HttpResponse, Transport};

/// How often a failed request is sent again, and how long to wait before.
///
/// Waits grow twofold from `base_delay`, each with up to as much again by chance. A provider that
/// names a time is obeyed instead, except that no wait is longer than `max_delay`: a provider that
/// asks for an hour is asked again after `max_delay`, and has the last word then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many attempts may follow the first.
    pub retries: u32,
    /// The wait before the second attempt, without its random part.
    pub base_delay: Duration,
    /// The longest wait before any attempt.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 2, base_delay: Duration::from_millis(500), max_delay: Duration::from_mins(1) }
    }
}

impl RetryPolicy {
    /// The waits between attempts, as many as there are retries.
    fn waits(&self) -> impl Iterator<Item = Duration> {
        ExponentialBuilder::default()
            .with_min_delay(self.base_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(usize::try_from(self.retries).unwrap_or(usize::MAX))
            .with_jitter()
            .build()
    }
}

/// Sends `request` until a response can be read, a failure is final, or the policy is used up.
///
/// `read` sees every success and may still find a failure in it, which then counts like any other, except that
/// a reply of which somebody was told in part is not asked for again. The last failure is returned, without the
/// secrets of the request's headers. Dropping the future stops at once, in the middle of an attempt or of a wait.
pub async fn send<T>(
    transport: &dyn Transport,
    request: &HttpRequest,
    policy: &RetryPolicy,
    read: impl for<'r> Fn(&'r mut HttpResponse) -> BoxFuture<'r, Result<T, ProviderFailure>>,
) -> Result<T, ProviderFailure> {
    let mut waits = policy.waits();
    loop {
        let failure = match attempt(transport, request, &read).await {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        let may_pass = failure.is_retryable() && failure.partial_text.is_none();
        let wait = if may_pass { waits.next() } else { None };
        let Some(wait) = wait else {
            return Err(failure.redact(&request.headers().secrets()));
        };
        sleep(failure.retry_after.unwrap_or(wait).min(policy.max_delay)).await;
    }
}

async fn attempt<T>(
    transport: &dyn Transport,
    request: &HttpRequest,
    read: &impl for<'r> Fn(&'r mut HttpResponse) -> BoxFuture<'r, Result<T, ProviderFailure>>,
) -> Result<T, ProviderFailure> {
    let mut response = transport.send(request).await?;
    let status = response.status();
    if !(200..300).contains(&status) {
        let beginning = response.beginning().await;
        return Err(ProviderFailure::from_response(status, &beginning, response.hints()));
    }
    read(&mut response).await.map_err(|failure| failure.within(status, response.hints()))
}
