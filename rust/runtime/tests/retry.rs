//! Which failures are tried again, when, and what is left of them.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use http::HeaderMap;
use support::{Reply, Server};
use tokio::time::Instant;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_runtime::http::{Endpoint, Headers, HttpOptions, HttpRequest, HttpResponse, HttpTransport, Transport};
use toolrelay_runtime::retry::{self, RetryPolicy};

/// Answers from a list, without a socket, so that time can be paused; notes when it was asked.
struct Scripted {
    replies: Mutex<VecDeque<Outcome>>,
    asked: Mutex<Vec<Instant>>,
}

enum Outcome {
    /// Status, headers, body.
    Reply(u16, Vec<(&'static str, String)>, &'static str),
    Failure(ProviderFailure),
}

impl Scripted {
    fn new(replies: impl IntoIterator<Item = Outcome>) -> Self {
        Self { replies: Mutex::new(replies.into_iter().collect()), asked: Mutex::default() }
    }

    fn attempts(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The time between one attempt and the next.
    fn waits(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    async fn run(&self, policy: RetryPolicy) -> Result<String, ProviderFailure> {
        retry::send(self, &request("http://localhost/"), &policy, decode).await
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, _: &HttpRequest) -> Result<HttpResponse, ProviderFailure> {
        self.asked.lock().unwrap().push(Instant::now());
        let (status, headers, body) = match self.replies.lock().unwrap().pop_front().unwrap() {
            Outcome::Reply(status, headers, body) => (status, headers, body),
            Outcome::Failure(failure) => return Err(failure),
        };
        let headers: HeaderMap =
            headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Ok(HttpResponse::new(status, headers, body))
    }
}

fn status(status: u16) -> Outcome {
    Outcome::Reply(status, Vec::new(), "")
}

fn saying(status: u16, body: &'static str) -> Outcome {
    Outcome::Reply(status, Vec::new(), body)
}

fn asking(name: &'static str, value: impl Into<String>) -> Outcome {
    Outcome::Reply(429, vec![(name, value.into())], "")
}

fn request(address: &str) -> HttpRequest {
    let mut headers = Headers::new();
    headers.insert("authorization", "Bearer sk-live-0123456789").unwrap();
    HttpRequest::post(&Endpoint::parse(address).unwrap(), &headers, vec![Bytes::from_static(b"hello")])
}

fn decode(response: &mut HttpResponse) -> BoxFuture<'_, Result<String, ProviderFailure>> {
    Box::pin(async { decoded(response.bytes().await?) })
}

fn decoded(body: Bytes) -> Result<String, ProviderFailure> {
    match ProviderFailure::in_body(&body) {
        Some(failure) => Err(failure),
        None => Ok(String::from_utf8(body.to_vec()).unwrap()),
    }
}

const SECOND: Duration = Duration::from_secs(1);
const POLICY: RetryPolicy = RetryPolicy { retries: 4, base_delay: SECOND, max_delay: Duration::from_secs(20) };

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_cannot_is_not() {
    for code in [408, 409, 429, 500, 502, 503, 504, 529, 599] {
        let transport = Scripted::new([status(code), saying(200, "fine")]);
        assert_eq!(transport.run(POLICY).await.as_deref(), Ok("fine"), "{code}");
        assert_eq!(transport.attempts(), 2);
    }
    for code in [301, 307, 400, 401, 402, 403, 404, 413, 422] {
        let transport = Scripted::new([status(code)]);
        assert_eq!(transport.run(POLICY).await.unwrap_err().status, Some(code));
    }
    for kind in [FailureKind::Connection, FailureKind::Timeout] {
        let transport = Scripted::new([Outcome::Failure(ProviderFailure::new(kind, "gone")), saying(200, "fine")]);
        assert_eq!(transport.run(POLICY).await.as_deref(), Ok("fine"));
    }
    for kind in [FailureKind::Setup, FailureKind::Malformed, FailureKind::TooLarge] {
        let transport = Scripted::new([Outcome::Failure(ProviderFailure::new(kind, "no"))]);
        assert_eq!(transport.run(POLICY).await.unwrap_err().kind, kind);
    }
}

#[tokio::test(start_paused = true)]
async fn waits_double_with_a_random_part_and_stop_growing() {
    let mut seen = Vec::new();
    for _ in 0..20 {
        let transport = Scripted::new((0..8).map(|_| status(500)));
        let failed = transport.run(RetryPolicy { retries: 7, ..POLICY }).await.unwrap_err();
        assert_eq!((failed.kind, failed.status), (FailureKind::Server, Some(500)));
        let waits = transport.waits();
        assert_eq!(waits.len(), 7);
        for (wait, least) in waits.iter().zip([1, 2, 4, 8, 16, 20, 20]) {
            let least = SECOND * least;
            // The timer counts in milliseconds and rounds up.
            assert!(
                *wait >= least && *wait <= (least * 2).min(POLICY.max_delay) + Duration::from_millis(2),
                "{waits:?}"
            );
        }
        seen.push(waits[0]);
    }
    seen.dedup();
    assert!(seen.len() > 1, "chance has a part in it");
}

#[tokio::test(start_paused = true)]
async fn no_retries_means_one_attempt() {
    let transport = Scripted::new([status(500)]);
    assert!(transport.run(RetryPolicy { retries: 0, ..POLICY }).await.is_err());
    assert_eq!(transport.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_names_a_time_is_obeyed_up_to_the_cap() {
    let transport = Scripted::new([
        asking("retry-after", "7"),
        asking("retry-after", "0.25"),
        asking("retry-after-ms", "1500"),
        asking("retry-after", "3600"),
        saying(200, "fine"),
    ]);
    assert_eq!(transport.run(POLICY).await.as_deref(), Ok("fine"));
    let expected = [7_000, 250, 1_500, 20_000].map(Duration::from_millis);
    assert_eq!(transport.waits(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_date_is_obeyed() {
    let date = httpdate::fmt_http_date(SystemTime::now() + SECOND * 10);
    let transport = Scripted::new([asking("retry-after", date), saying(200, "fine")]);
    transport.run(POLICY).await.unwrap();
    assert!((SECOND * 8..=SECOND * 10).contains(&transport.waits()[0]), "{:?}", transport.waits());
}

#[tokio::test(start_paused = true)]
async fn garbage_in_place_of_a_time_means_back_off() {
    let transport = Scripted::new([
        asking("retry-after", "soon"),
        asking("retry-after", "-5"),
        asking("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"),
        saying(200, "fine"),
    ]);
    transport.run(POLICY).await.unwrap();
    for (wait, least) in transport.waits().iter().zip([1, 2, 4]) {
        assert!((SECOND * least..=SECOND * least * 2).contains(wait), "{:?}", transport.waits());
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_named_in_the_body_is_obeyed() {
    let body = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}"#;
    let transport = Scripted::new([saying(429, body), saying(200, "fine")]);
    transport.run(POLICY).await.unwrap();
    assert_eq!(transport.waits(), [SECOND * 3]);
}

#[tokio::test(start_paused = true)]
async fn g1_an_overloaded_provider_is_tried_again_and_named_in_the_end() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let transport = Scripted::new([saying(529, busy), saying(529, busy), saying(200, "fine")]);
    assert_eq!(transport.run(RetryPolicy::default()).await.as_deref(), Ok("fine"));
    assert_eq!(transport.waits().len(), 2);

    let transport = Scripted::new((0..3).map(|_| saying(529, busy)));
    let failed = transport.run(RetryPolicy::default()).await.unwrap_err();
    assert_eq!((failed.kind, failed.message.as_str()), (FailureKind::Overloaded, "busy"));
}

#[tokio::test(start_paused = true)]
async fn g2_an_error_inside_a_success_takes_part_in_the_decision() {
    let down = Outcome::Reply(
        200,
        vec![("retry-after", "3".to_owned())],
        r#"{"error":{"message":"upstream down","code":502}}"#,
    );
    let transport = Scripted::new([down, saying(200, "fine")]);
    assert_eq!(transport.run(POLICY).await.as_deref(), Ok("fine"));
    assert_eq!(transport.waits(), [SECOND * 3]);

    let wrong = Outcome::Reply(
        200,
        vec![("x-request-id", "req_1".to_owned())],
        r#"{"error":{"type":"invalid_request_error"}}"#,
    );
    let failed = Scripted::new([wrong]).run(POLICY).await.unwrap_err();
    assert_eq!((failed.kind, failed.status), (FailureKind::BadRequest, Some(200)));
    assert_eq!(failed.request_id.as_deref(), Some("req_1"));

    let transport = Scripted::new([saying(200, r#"{"id":"x","choices":null}"#)]);
    let unreadable = || Err::<(), _>(ProviderFailure::new(FailureKind::Malformed, "choices is null"));
    let request = request("http://localhost/");
    let sent = retry::send(&transport, &request, &POLICY, |_| Box::pin(ready(unreadable())));
    let failed = sent.await.unwrap_err();
    assert_eq!((failed.kind, failed.status), (FailureKind::Malformed, Some(200)));
    assert_eq!(transport.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn g4_no_quota_left_is_final_and_a_rate_limit_is_not() {
    let spent = r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"no credit"}}"#;
    let transport = Scripted::new([saying(429, spent)]);
    assert_eq!(transport.run(POLICY).await.unwrap_err().kind, FailureKind::OutOfQuota);
    assert_eq!(transport.attempts(), 1);

    let limited = r#"{"error":{"type":"rate_limit_error","message":"quota per minute used up"}}"#;
    let transport = Scripted::new([saying(429, limited), saying(200, "fine")]);
    assert_eq!(transport.run(POLICY).await.as_deref(), Ok("fine"));
}

#[tokio::test(start_paused = true)]
async fn g3_a_reply_of_which_somebody_was_told_is_not_asked_for_again() {
    let transport = Scripted::new([saying(200, "")]);
    let broken = || {
        let failure = ProviderFailure::new(FailureKind::Connection, "reset");
        Err::<(), _>(ProviderFailure { partial_text: Some("Hel".to_owned()), ..failure })
    };
    let request = request("http://localhost/");
    let sent = retry::send(&transport, &request, &POLICY, |_| Box::pin(ready(broken())));
    let failed = sent.await.unwrap_err();
    assert_eq!((failed.is_retryable(), failed.partial_text.as_deref()), (true, Some("Hel")));
    assert_eq!(transport.attempts(), 1);
}

#[tokio::test]
async fn g7_only_the_failed_request_is_sent_again_and_byte_for_byte() {
    let server = Server::script([
        Reply::json("round 1"),
        Reply::status(503),
        Reply::hang_up_after(20),
        Reply::json("cut").cut_at(30),
        Reply::json("round 2"),
    ]);
    let transport = HttpTransport::new(HttpOptions::default());
    let policy = RetryPolicy { retries: 3, base_delay: Duration::from_millis(1), ..POLICY };
    let decoded = Arc::new(Mutex::new(Vec::new()));
    for expected in ["round 1", "round 2"] {
        let endpoint = Endpoint::parse(&server.url("/v1")).unwrap();
        let request = HttpRequest::post(&endpoint, &Headers::new(), vec![Bytes::from_static(expected.as_bytes())]);
        let reply = retry::send(&transport, &request, &policy, |response| {
            let notes = Arc::clone(&decoded);
            Box::pin(async move {
                let body = response.bytes().await?;
                notes.lock().unwrap().push(body.clone());
                Ok(body)
            })
        });
        assert_eq!(reply.await.unwrap(), expected);
    }
    assert_eq!(*decoded.lock().unwrap(), ["round 1", "round 2"], "a failed attempt reaches nobody");
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0].text(), "round 1");
    assert_eq!(requests[1].text(), "round 2");
    assert!(requests[1].raw.starts_with(&requests[2].raw), "as far as the server listened");
    assert_eq!(requests[1].raw, requests[3].raw);
    assert_eq!(requests[1].raw, requests[4].raw);
}

#[tokio::test(start_paused = true)]
async fn giving_up_in_the_middle_of_a_wait_stops_at_once() {
    let transport = Scripted::new([status(500), saying(200, "never asked for")]);
    let given_up = tokio::time::timeout(SECOND / 2, transport.run(POLICY)).await;
    assert!(given_up.is_err());
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(transport.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_returned_holds_no_key() {
    let body = r#"{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"wrong key: Bearer sk-live-0123456789"}}"#;
    let failed = Scripted::new([saying(401, body)]).run(POLICY).await.unwrap_err();
    assert_eq!(failed.message, "wrong key: Bearer [redacted]");
    let echoed = ProviderFailure::new(FailureKind::Malformed, "cannot read sk-live-0123456789");
    let failed = Scripted::new([Outcome::Failure(echoed)]).run(POLICY).await.unwrap_err();
    assert_eq!(failed.message, "cannot read [redacted]");
}

#[tokio::test]
async fn a_huge_error_body_is_read_only_in_part() {
    let server = Server::script([Reply::status(400).body("x".repeat(30_000_000))]);
    let transport = HttpTransport::new(HttpOptions { reply_limit: 1_000, ..HttpOptions::default() });
    let failed = retry::send(&transport, &request(&server.url("/")), &POLICY, decode).await.unwrap_err();
    assert_eq!((failed.kind, failed.message.chars().count()), (FailureKind::BadRequest, 1_001));
    let cut = Reply::status(400).body(r#"{"detail":"no such thing"}"#);
    let server = Server::script([cut.clone().cut_at(cut.head_len() + 10)]);
    let failed = retry::send(&transport, &request(&server.url("/")), &POLICY, decode).await.unwrap_err();
    assert_eq!((failed.kind, failed.message.as_str()), (FailureKind::BadRequest, r#"{"detail":"#));
}
