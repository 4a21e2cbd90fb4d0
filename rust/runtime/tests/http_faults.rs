//! How the transport fails: soon, with a type, and without leaving anything open.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bytes::Bytes;
use support::{Reply, Server, in_child};
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_runtime::http::{Endpoint, Headers, HttpOptions, HttpRequest, HttpTransport, Transport};
use toolrelay_runtime::retry::{self, RetryPolicy};

const SOON: Duration = Duration::from_millis(500);

fn impatient() -> HttpTransport {
    HttpTransport::new(HttpOptions {
        connect_timeout: SOON,
        read_timeout: SOON,
        reply_limit: 1_000,
        ..HttpOptions::default()
    })
}

fn request(address: &str) -> HttpRequest {
    HttpRequest::post(&Endpoint::parse(address).unwrap(), &Headers::new(), vec![Bytes::from_static(b"hello")])
}

async fn attempt(address: &str) -> Result<Bytes, ProviderFailure> {
    impatient().send(&request(address)).await?.bytes().await
}

async fn failure(reply: Reply) -> ProviderFailure {
    attempt(&Server::script([reply]).url("/")).await.unwrap_err()
}

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = attempt(&format!("http://{address}/v1?key=sk-0123")).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Connection);
    assert_eq!(refused.status, None);
    assert!(refused.message.starts_with(&format!("http://{address}: ")), "{}", refused.message);
    assert!(refused.message.to_lowercase().contains("refused"), "{}", refused.message);
    assert!(!refused.message.contains("sk-0123"));
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_a_connection_failure() {
    let unknown = attempt("http://no-such-host.invalid/").await.unwrap_err();
    assert!(matches!(unknown.kind, FailureKind::Connection | FailureKind::Timeout), "{unknown:?}");
    assert!(unknown.message.starts_with("http://no-such-host.invalid: "), "{}", unknown.message);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let failure = attempt(&format!("https://{}/", silent.local_addr().unwrap())).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(failure.message.ends_with("no connection within 500ms"), "{}", failure.message);
    assert!(begun.elapsed() < SOON * 10);
}

#[tokio::test]
async fn silence_before_the_head_and_inside_the_body_is_a_timeout() {
    let whole = Reply::json("0123456789");
    for sent in [0, 5, whole.head_len(), whole.head_len() + 4] {
        let server = Server::script([whole.clone().stall_at(sent)]);
        let failure = attempt(&server.url("/")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout, "after {sent} bytes: {failure}");
        assert!(failure.is_retryable());
        assert!(server.saw_hangups(1), "the connection is not left open");
    }
}

#[tokio::test]
async fn a_long_reply_that_keeps_coming_is_no_timeout() {
    let server = Server::script([Reply::status(200).chunks(["a"; 12], SOON / 10)]);
    assert_eq!(attempt(&server.url("/")).await.unwrap(), "aaaaaaaaaaaa");
}

#[tokio::test]
async fn a_reply_cut_anywhere_is_a_connection_failure() {
    let whole = Reply::json("0123456789");
    for sent in [0, 5, whole.head_len(), whole.head_len() + 9] {
        let failure = failure(whole.clone().cut_at(sent)).await;
        assert_eq!(failure.kind, FailureKind::Connection, "after {sent} bytes: {failure}");
    }
    let chunked = Reply::status(200).chunks(["one", "two"], Duration::ZERO);
    let cut = failure(chunked.clone().cut_at(chunked.head_len() + 9)).await;
    assert_eq!(cut.kind, FailureKind::Connection, "{cut}");
}

#[tokio::test]
async fn a_server_that_hangs_up_inside_the_request_is_a_connection_failure() {
    let server = Server::script([Reply::hang_up_after(1_000)]);
    let body = vec![Bytes::from(vec![b'x'; 20_000_000])];
    let request = HttpRequest::post(&Endpoint::parse(&server.url("/")).unwrap(), &Headers::new(), body);
    let patient = HttpTransport::new(HttpOptions::default());
    let failure = patient.send(&request).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
}

#[tokio::test]
async fn what_is_not_http_is_malformed() {
    let garbage = failure(Reply::raw("\u{15}\u{3}\u{1} this is no http")).await;
    assert_eq!(garbage.kind, FailureKind::Malformed, "{garbage}");
    assert!(!garbage.is_retryable());
}

#[tokio::test]
async fn a_reply_nobody_asked_to_compress_is_malformed() {
    let compressed = failure(Reply::json("\u{1f}\u{8b}").header("content-encoding", "gzip")).await;
    assert_eq!(compressed.kind, FailureKind::Malformed);
    assert!(compressed.message.contains("gzip"), "{}", compressed.message);
}

#[tokio::test]
async fn a_reply_beyond_the_limit_is_too_large() {
    let exact = Server::script([
        Reply::json("x".repeat(1_000)),
        Reply::status(200).chunks(["x".repeat(500), "y".repeat(500)], Duration::ZERO),
    ]);
    assert_eq!(attempt(&exact.url("/")).await.unwrap().len(), 1_000);
    assert_eq!(attempt(&exact.url("/")).await.unwrap().len(), 1_000);
    for reply in [
        Reply::json("x".repeat(1_001)),
        Reply::status(200).chunks(["x".repeat(1_001)], Duration::ZERO),
        Reply::status(200).chunks(["x".repeat(500), "y".repeat(501)], SOON / 5),
    ] {
        let failure = failure(reply).await;
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::TooLarge, "more than 1000 bytes"));
    }
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let server = Server::script([Reply::json("{}").stall_at(0)]);
    let transport = HttpTransport::new(HttpOptions::default());
    let request = request(&server.url("/"));
    let given_up = tokio::time::timeout(SOON, transport.send(&request)).await;
    assert!(given_up.is_err());
    assert!(server.saw_hangups(1));
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let server = Server::script([Reply::status(200).chunks(["a", "b"], Duration::ZERO).stall_at(120)]);
    let transport = HttpTransport::new(HttpOptions::default());
    let mut response = transport.send(&request(&server.url("/"))).await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    assert!(server.saw_hangups(1));
}

#[tokio::test]
async fn a_server_that_hangs_up_after_each_reply_is_never_waited_for() {
    let server = Server::answering(|_| Reply::json("{}").then_hang_up());
    // Far longer than a hundred exchanges take on a busy machine.
    let read_timeout = Duration::from_mins(1);
    let transport = HttpTransport::new(HttpOptions { read_timeout, ..HttpOptions::default() });
    let policy = RetryPolicy { retries: 9, base_delay: Duration::ZERO, ..RetryPolicy::default() };
    let begun = Instant::now();
    for round in 0..100 {
        retry::send(&transport, &request(&server.url("/")), &policy, |response| Box::pin(response.bytes()))
            .await
            .unwrap();
        // The end of the connection arrives at another moment of the next exchange each time.
        tokio::time::sleep(Duration::from_millis(round % 4)).await;
    }
    assert!(begun.elapsed() < read_timeout, "no attempt ran into the timeout");
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_and_not_tried_again() {
    let (server, _) = Server::tls([Reply::json("{}")]);
    let failure = HttpTransport::new(HttpOptions::default()).send(&request(&server.url("/"))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Setup, "{failure}");
    assert!(failure.message.contains("certificate"), "{}", failure.message);
    assert!(server.requests().is_empty());
}

#[test]
fn a_machine_whose_certificates_are_missing_still_speaks_http() {
    let server = Server::answering(|_| Reply::json("{}"));
    let variables = [("SSL_CERT_FILE", "missing/ca.pem"), ("TEST_ADDRESS", &server.url("/"))];
    if let Some((passed, printed)) = in_child("a_machine_whose_certificates_are_missing_still_speaks_http", &variables)
    {
        assert!(passed, "{printed}");
        assert_eq!(server.requests().len(), 1);
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address = std::env::var("TEST_ADDRESS").unwrap();
        assert_eq!(attempt(&address).await.unwrap(), "{}");
        let failure = attempt(&address.replace("http:", "https:")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Setup);
        assert!(failure.message.contains("SSL_CERT_FILE"), "{}", failure.message);
    });
}
