//! Streams over sockets: what is asked for, what becomes of connections, what is refused.

use std::sync::Arc;
use std::time::Duration;

use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;
use toolrelay_runtime::client::Client;
use toolrelay_runtime::http::{HttpOptions, HttpTransport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;
use toolrelay_runtime::toolkit::Toolkit;

use crate::crew::toolkit;
use crate::scene::{Audience, Provider, client, watch};
use crate::support::{Reply, Server};
use crate::{HEL, LO, STOP, failure, idle, shape, text};

fn over_sockets(server: &Server, reply_limit: usize) -> Client {
    let config = HttpModelConfig {
        retry: RetryPolicy { retries: 0, ..RetryPolicy::default() },
        ..HttpModelConfig::new(Style::OpenAi, server.url("/v1"), "m-1", "")
    };
    let transport = HttpTransport::new(HttpOptions { reply_limit, ..HttpOptions::default() });
    let model = Arc::new(HttpModel::new(config, Arc::new(transport)).unwrap());
    Client { model, ..client(&Provider::default(), Style::OpenAi) }
}

fn streams(events: &[&str]) -> Reply {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    Reply::status(200).type_of("text/event-stream").chunks(events, Duration::ZERO)
}

#[tokio::test]
async fn what_arrives_at_once_is_told_at_once() {
    let server = Server::answering(|_| streams(&[HEL, LO, HEL, LO, STOP, "[DONE]"]).at_once());
    let (client, audience) = (over_sockets(&server, 1_000), Audience::new());
    watch(&client, &Toolkit::default(), &idle(), &audience).await.unwrap();
    assert_eq!((audience.deltas().len(), audience.times()), (4, 2), "the pieces, then that the reply has ended");
}

#[tokio::test]
async fn a_stream_is_asked_for_and_gives_its_connection_back() {
    let server = Server::answering(|_| streams(&[HEL, STOP, "[DONE]"]).at_once());
    let (client, tools) = (over_sockets(&server, 1_000), Toolkit::default());
    for _ in 0..3 {
        let audience = Audience::new();
        assert_eq!(watch(&client, &tools, &idle(), &audience).await.unwrap().text, "Hel");
        assert_eq!(audience.deltas(), [text("Hel")]);
    }
    assert_eq!(server.connections(), 1);
    let body = r#"{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"go"}]}"#;
    assert_eq!(server.bodies(), [body; 3]);
}

#[tokio::test]
async fn the_end_of_a_body_that_does_not_come_is_not_waited_for() {
    let whole = streams(&[HEL, STOP, "[DONE]"]);
    let server = Server::script([whole.clone().stall_at(whole.len() - 5), whole]);
    let (client, tools) = (over_sockets(&server, 1_000), toolkit(&[]));
    for connections in [1, 2] {
        assert_eq!(watch(&client, &tools, &idle(), &Audience::new()).await.unwrap().text, "Hel");
        assert_eq!(server.connections(), connections);
    }
    assert!(tokio::task::spawn_blocking(move || server.saw_hangups(1)).await.unwrap(), "it is given up soon");
}

#[tokio::test]
async fn an_event_and_the_content_of_a_stream_have_a_limit() {
    let long = HEL.replace("Hel", &"l".repeat(600));
    for (events, limit) in [(vec![long.as_str()], 500), (vec![long.as_str(), &long, STOP, "[DONE]"], 1_000)] {
        let server = Server::script([streams(&events)]);
        let (client, tools) = (over_sockets(&server, limit), toolkit(&[]));
        let report = watch(&client, &tools, &idle(), &Audience::new()).await.unwrap();
        assert_eq!((failure(&report).kind, shape(&report)), (FailureKind::TooLarge, vec!["user".to_owned()]));
    }
}

#[tokio::test]
async fn a_compressed_stream_is_refused() {
    let server = Server::script([streams(&[HEL]).header("content-encoding", "gzip")]);
    let (client, tools) = (over_sockets(&server, 1_000), toolkit(&[]));
    let report = watch(&client, &tools, &idle(), &Audience::new()).await.unwrap();
    assert_eq!(failure(&report).kind, FailureKind::Malformed);
}
