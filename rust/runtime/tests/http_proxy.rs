//! Proxies and certificates that the environment names. Each test runs its client in a process with
//! that environment.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use bytes::Bytes;
use support::{Reply, Server, in_child};
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_runtime::http::{Endpoint, Headers, HttpOptions, HttpRequest, HttpTransport, Transport};

/// Posts twice to the address that the parent process passed.
fn post_twice() -> Result<Vec<Bytes>, ProviderFailure> {
    let endpoint = Endpoint::parse(&std::env::var("TEST_ADDRESS").unwrap()).unwrap();
    let request = HttpRequest::post(&endpoint, &Headers::new(), vec![Bytes::from_static(b"hello")]);
    let transport = HttpTransport::new(HttpOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut replies = Vec::new();
        for _ in 0..2 {
            replies.push(transport.send(&request).await?.bytes().await?);
        }
        Ok(replies)
    })
}

/// A proxy that takes one client, refuses it or joins it to `upstream`, and reports what it asked for.
fn tunnel(answer: &'static str, upstream: SocketAddr) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (report, asked) = mpsc::channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        report.send(String::from_utf8(head).unwrap()).unwrap();
        client.write_all(answer.as_bytes()).unwrap();
        let mut server = TcpStream::connect(upstream).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let _ = std::io::copy(&mut server, &mut client);
    });
    (address, asked)
}

#[test]
fn http_goes_through_a_proxy_with_the_whole_address() {
    let test = "http_goes_through_a_proxy_with_the_whole_address";
    let proxy = Server::answering(|_| Reply::json("{}"));
    let named = format!("http://me:secret%21@{}", proxy.address());
    let variables = [("HTTP_PROXY", named.as_str()), ("TEST_ADDRESS", "http://api.example.com/v1?a=1")];
    let Some((passed, printed)) = in_child(test, &variables) else {
        assert_eq!(post_twice().unwrap(), ["{}", "{}"]);
        return;
    };
    assert!(passed, "{printed}");
    let requests = proxy.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].line(), "POST http://api.example.com/v1?a=1 HTTP/1.1");
    assert_eq!(requests[0].header("host"), Some("api.example.com"));
    assert_eq!(requests[0].header("proxy-authorization"), Some("Basic bWU6c2VjcmV0IQ=="));
    assert_eq!(requests[0].raw, requests[1].raw);
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn what_no_proxy_names_is_reached_directly() {
    let test = "what_no_proxy_names_is_reached_directly";
    let server = Server::answering(|_| Reply::json("{}"));
    let variables =
        [("HTTP_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "127.0.0.0/8"), ("TEST_ADDRESS", &server.url("/v1"))];
    let Some((passed, printed)) = in_child(test, &variables) else {
        assert_eq!(post_twice().unwrap(), ["{}", "{}"]);
        return;
    };
    assert!(passed, "{printed}");
    assert_eq!(server.requests()[0].line(), "POST /v1 HTTP/1.1");
}

#[test]
fn https_goes_through_a_tunnel_and_trusts_the_named_certificate() {
    let test = "https_goes_through_a_tunnel_and_trusts_the_named_certificate";
    let (server, certificate) = Server::tls([Reply::json("{}"), Reply::json("{}")]);
    let (proxy, asked) = tunnel("HTTP/1.1 200 Connected\r\n\r\n", server.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let variables = [
        ("HTTPS_PROXY", &*format!("http://me:secret@{proxy}")),
        ("SSL_CERT_FILE", file.to_str().unwrap()),
        ("TEST_ADDRESS", &server.url("/v1")),
    ];
    let Some((passed, printed)) = in_child(test, &variables) else {
        assert_eq!(post_twice().unwrap(), ["{}", "{}"]);
        return;
    };
    assert!(passed, "{printed}");
    let asked = asked.recv().unwrap();
    assert!(asked.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", server.address().port())), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].line(), "POST /v1 HTTP/1.1");
    assert_eq!(requests[0].header("proxy-authorization"), None, "the proxy's password stays with the proxy");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_proxy_that_refuses_is_named_without_its_password() {
    let test = "a_proxy_that_refuses_is_named_without_its_password";
    let nowhere = Server::answering(|_| Reply::json("{}"));
    let (proxy, _asked) = tunnel("HTTP/1.1 407 Who are you\r\n\r\n", nowhere.address());
    let variables =
        [("HTTPS_PROXY", &*format!("http://me:secret@{proxy}")), ("TEST_ADDRESS", "https://api.example.com/")];
    let Some((passed, printed)) = in_child(test, &variables) else {
        let failure = post_twice().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connection);
        assert!(failure.message.starts_with("through the proxy http://127.0.0.1:"), "{}", failure.message);
        assert!(failure.message.contains("proxy authorization required"), "{}", failure.message);
        assert!(!failure.message.contains("secret"), "{}", failure.message);
        return;
    };
    assert!(passed, "{printed}");
}
