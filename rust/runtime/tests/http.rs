//! What goes over the wire, and which connections it goes over.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use support::{Reply, Server};
use tokio::runtime::Builder;
use toolrelay_runtime::http::{
    Endpoint, EndpointError, HeaderError, Headers, HttpOptions, HttpRequest, HttpTransport, Transport,
};

fn transport() -> HttpTransport {
    HttpTransport::new(HttpOptions { read_timeout: Duration::from_secs(20), ..HttpOptions::default() })
}

fn request(server: &Server, slices: Vec<Bytes>) -> HttpRequest {
    HttpRequest::post(&Endpoint::parse(&server.url("/v1/messages?beta=1")).unwrap(), &Headers::new(), slices)
}

fn hello(server: &Server) -> HttpRequest {
    request(server, vec![Bytes::from_static(b"hello")])
}

async fn post(transport: &HttpTransport, request: &HttpRequest) -> Bytes {
    transport.send(request).await.unwrap().bytes().await.unwrap()
}

fn slices(lengths: impl IntoIterator<Item = usize>) -> Vec<Bytes> {
    let letters = (b'a'..=b'z').cycle();
    letters.zip(lengths).map(|(letter, length)| Bytes::from(vec![letter; length])).collect()
}

#[tokio::test]
async fn a_request_is_written_exactly() {
    let server = Server::script([Reply::json(r#"{"ok":true}"#).header("request-id", "req_1")]);
    let mut headers = Headers::new();
    headers.insert("X-Api-Key", "sk-0123456789").unwrap();
    headers.insert("content-type", "application/json; v=2").unwrap();
    let endpoint = Endpoint::parse(&server.url("/v1/messages?beta=1")).unwrap();
    let request =
        HttpRequest::post(&endpoint, &headers, vec![Bytes::from_static(b"{\"a\":"), Bytes::from_static(b"1}")]);

    let mut response = transport().send(&request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.hints().request_id.as_deref(), Some("req_1"));
    assert_eq!(response.bytes().await.unwrap(), r#"{"ok":true}"#);

    let expected = format!(
        "POST /v1/messages?beta=1 HTTP/1.1\r\ncontent-type: application/json; v=2\r\n\
         user-agent: toolrelay/{}\r\nx-api-key: sk-0123456789\r\ncontent-length: 7\r\nhost: {}\r\n\r\n{{\"a\":1}}",
        env!("CARGO_PKG_VERSION"),
        server.address(),
    );
    assert_eq!(server.requests()[0].head().len() + 7, server.requests()[0].raw.len());
    assert_eq!(String::from_utf8(server.requests()[0].raw.clone()).unwrap(), expected);
}

#[tokio::test]
async fn any_cutting_of_a_body_arrives_as_the_same_bytes() {
    let shapes: Vec<Vec<usize>> = vec![
        vec![],
        vec![0, 0],
        vec![0, 5, 0, 7],
        vec![1; 1_000],
        vec![2_500; 400],
        vec![4_096; 100],
        vec![4_097; 100],
        vec![16 * 1_024; 70],
        [0, 3, 90_000, 4_096, 4_097].into_iter().cycle().take(300).collect(),
    ];
    let server = Server::answering(|_| Reply::json("{}"));
    let transport = transport();
    for shape in &shapes {
        post(&transport, &request(&server, slices(shape.iter().copied()))).await;
    }
    for (shape, received) in shapes.iter().zip(server.requests()) {
        let sent = slices(shape.iter().copied()).concat();
        assert_eq!(received.header("content-length"), Some(sent.len().to_string().as_str()));
        assert!(received.body() == sent, "{} bytes", sent.len());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let server = Server::answering(|_| Reply::json("{}"));
    let transport = transport();
    for _ in 0..5 {
        post(&transport, &hello(&server)).await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn requests_at_once_have_connections_of_their_own_and_leave_them_for_later() {
    let server = Server::answering(|_| Reply::json("{}").after(Duration::from_millis(50)));
    let transport = transport();
    for _ in 0..2 {
        let request = hello(&server);
        futures_util::future::join_all((0..8).map(|_| post(&transport, &request))).await;
    }
    assert_eq!((server.requests().len(), server.connections()), (16, 8));
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_not_used_again() {
    let server = Server::script([
        Reply::json("1").closing(),
        Reply::json("2").then_hang_up(),
        Reply::json("3"),
        Reply::json("4"),
    ]);
    let transport = transport();
    for expected in ["1", "2", "3", "4"] {
        assert_eq!(post(&transport, &hello(&server)).await, expected);
        // Long enough for the word of a hung-up connection to arrive.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!((server.requests().len(), server.connections()), (4, 3));
}

#[tokio::test]
async fn an_idle_connection_is_kept_only_so_long() {
    let server = Server::answering(|_| Reply::json("{}"));
    let transport =
        HttpTransport::new(HttpOptions { idle_timeout: Duration::from_millis(20), ..HttpOptions::default() });
    post(&transport, &hello(&server)).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    post(&transport, &hello(&server)).await;
    assert_eq!(server.connections(), 2);
}

#[test]
fn another_runtime_makes_connections_of_its_own() {
    let server = Server::answering(|_| Reply::json("{}"));
    let transport = transport();
    for _ in 0..2 {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            post(&transport, &hello(&server)).await;
            post(&transport, &hello(&server)).await;
        });
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_body_can_be_read_as_it_comes() {
    let gap = Duration::from_secs(1);
    let server = Server::script([Reply::status(200).chunks(["one", "two", "three"], gap), Reply::json("{}")]);
    let transport = transport();
    let mut response = transport.send(&hello(&server)).await.unwrap();
    let first = tokio::time::timeout(gap / 2, response.chunk()).await.unwrap();
    assert_eq!(first.unwrap().unwrap(), "one");
    assert_eq!(response.chunk().await.unwrap().unwrap(), "two");
    assert_eq!(response.chunk().await.unwrap().unwrap(), "three");
    assert_eq!(response.chunk().await.unwrap(), None);
    assert_eq!(response.chunk().await.unwrap(), None, "the end stays the end");
    post(&transport, &hello(&server)).await;
    assert_eq!(server.connections(), 1, "the end of the body frees the connection");
}

#[tokio::test]
async fn a_large_reply_arrives_whole() {
    let large = "x".repeat(5_000_000);
    let server = Server::script([
        Reply::json(large.clone()),
        Reply::status(200).chunks([large.clone(), large.clone()], Duration::ZERO),
    ]);
    let transport = transport();
    assert!(post(&transport, &hello(&server)).await == large);
    assert!(post(&transport, &hello(&server)).await == large.repeat(2));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Server::script([Reply::status(307).header("location", "/elsewhere"), Reply::json("{}")]);
    assert_eq!(transport().send(&hello(&server)).await.unwrap().status(), 307);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn addresses_that_cannot_be_used_are_refused_without_repeating_them() {
    let reason = |address: &str| Endpoint::parse(address).unwrap_err();
    assert_eq!(reason("ftp://example.com/"), EndpointError::Scheme);
    assert_eq!(reason("/v1/messages"), EndpointError::Scheme);
    assert_eq!(reason("example.com"), EndpointError::Scheme);
    assert_eq!(reason("https://user:pass@example.com/"), EndpointError::Credentials);
    assert!(matches!(reason("https://exa mple.com/?key=sk-0123"), EndpointError::Unreadable(_)));
    assert!(!format!("{:?}", reason("https://exa mple.com/?key=sk-0123")).contains("sk-0123"));

    let endpoint = Endpoint::parse(" HTTPS://API.Example.com/v1?key=sk-0123 ").unwrap();
    assert_eq!(format!("{endpoint:?}"), "Endpoint(https://api.example.com/v1)");
    assert_eq!(endpoint.origin(), "https://api.example.com");
}

#[test]
fn headers_that_cannot_be_sent_are_refused_without_repeating_their_values() {
    let mut headers = Headers::new();
    assert_eq!(headers.insert("a b", "1"), Err(HeaderError::Name("a b".into())));
    assert_eq!(headers.insert("x-key", "sk-0123\nnext: 1"), Err(HeaderError::Value("x-key".into())));
    for reserved in ["Content-Length", "transfer-encoding", "Connection"] {
        assert_eq!(headers.insert(reserved, "1"), Err(HeaderError::Reserved(reserved.into())));
    }
}

#[test]
fn nothing_secret_is_shown() {
    let mut headers = Headers::new();
    headers.insert("authorization", "Bearer sk-0123456789").unwrap();
    headers.insert("x-goog-api-key", "AI-0123456789").unwrap();
    headers.insert("x-team", "0123-blue").unwrap();
    headers.insert("api-key", "EMPTY").unwrap();
    assert_eq!(headers.secrets(), ["sk-0123456789", "AI-0123456789"]);
    let endpoint = Endpoint::parse("https://example.com/v1?key=sk-0123456789").unwrap();
    let request = HttpRequest::post(&endpoint, &headers, vec![Bytes::from_static(b"0123")]);
    let shown = format!("{request:?} {:?}", transport());
    assert!(!shown.contains("0123"), "{shown}");
    assert!(shown.contains("4 bytes in 1 slices"), "{shown}");
}
