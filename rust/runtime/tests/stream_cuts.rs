//! A stream that ends at any byte, read by the real client: what of it stays, what runs, what is asked for again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
#![allow(dead_code, reason = "each test binary uses its own part of the crew")]

#[path = "drive/crew.rs"]
mod crew;
#[path = "../../core/tests/scenarios/fixture.rs"]
mod fixture;
#[path = "drive/says.rs"]
mod says;
#[path = "streams/scene.rs"]
mod scene;
#[path = "drive/streamed.rs"]
mod streamed;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use crew::{Crew, gives, toolkit};
use fixture::Says;
use futures_util::stream;
use http::HeaderMap;
use scene::{Audience, Provider, client, watch};
use support::{Reply, Server};
use toolrelay_core::run::event::Event;
use toolrelay_core::run::io::{Failure, ModelFailure, Outcome};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_runtime::client::Client;
use toolrelay_runtime::http::{HttpOptions, HttpRequest, HttpResponse, HttpTransport, Transport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;
use toolrelay_runtime::watch::Told;

const TURN: &str = r#"{"text": "hä", "reasoned": true, "calls": [
    {"id": "k1", "name": "tally", "arguments": "{\"n\":1}"}, {"id": "k2", "name": "tally", "arguments": "{}"}]}"#;
const END: &str = r#"{"text": "so"}"#;

/// Faults A16, D19, G3; contract 8.6, 8.7. The wires have been cut at every byte; here at those around line ends, and some.
#[tokio::test]
async fn a_stream_that_ends_early_was_whole_or_leaves_nothing() {
    for style in Style::ALL {
        let first = Bytes::from(reply(style, TURN).content());
        let whole = Seen::of(style, &Cut { content: first.clone(), breaks: false }).await;
        assert_eq!((&whole.outcome, whole.requests), (&Outcome::Finished, 2));
        let is_chosen = |at: &usize| {
            at.is_multiple_of(17) || first[at.saturating_sub(2)..(at + 2).min(first.len())].contains(&b'\n')
        };
        for breaks in [true, false] {
            let mut seen = vec![Class::Again];
            for at in (0..=first.len()).filter(is_chosen) {
                let class = Seen::of(style, &Cut { content: first.slice(..at), breaks }).await.class(&whole);
                assert!(class >= seen[seen.len() - 1], "{style:?} ends at {at}: {class:?} behind {seen:?}");
                seen.push(class);
            }
            seen.dedup();
            assert_eq!(seen, [Class::Again, Class::Failed, Class::Whole]);
        }
    }
}

/// Over sockets the framing of the body is cut too.
#[tokio::test]
async fn a_response_that_is_cut_was_whole_or_leaves_nothing() {
    for style in Style::ALL {
        let first = reply(style, END);
        let mut is_last_whole = false;
        for at in (first.head_len()..=first.len()).step_by(7) {
            let server = Server::script([first.clone().cut_at(at)]);
            let transport = Arc::new(HttpTransport::new(HttpOptions::default()));
            let seen = Seen::through(&client_of(style, &server.url("/v1"), 0, transport), Arc::default()).await;
            let is_whole = seen.outcome == Outcome::Finished;
            assert_eq!(seen.transcript.messages().len(), if is_whole { 2 } else { 1 });
            assert!(is_whole >= is_last_whole, "{style:?} was whole when it was cut before {at}");
            is_last_whole = is_whole;
        }
        assert!(is_last_whole, "{style:?}");
    }
}

/// What became of a run whose first stream ended early, in the order in which this happens as it ends later.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Nothing had been told of it: it was asked for again.
    Again,
    /// Some of it had been told: the run failed.
    Failed,
    /// It had been whole.
    Whole,
}

/// A stream, and whether the connection breaks behind it.
struct Cut {
    content: Bytes,
    breaks: bool,
}

/// A run and what was seen of it.
struct Seen {
    outcome: Outcome,
    transcript: Transcript,
    told: Vec<Told>,
    requests: usize,
    tools: usize,
}

impl Seen {
    /// One more attempt may be made, which gets the whole reply.
    async fn of(style: Style, cut: &Cut) -> Self {
        let streams =
            [&cut.content, &reply(style, TURN).content().into(), &reply(style, END).content().into()].map(Bytes::clone);
        let peer = Arc::new(Peer { streams, breaks: cut.breaks, requests: AtomicUsize::new(0), tools: Arc::default() });
        let client = client_of(style, "http://localhost/v1", 1, Arc::clone(&peer) as _);
        let seen = Self::through(&client, Arc::clone(&peer.tools)).await;
        Self { requests: peer.requests.load(Ordering::SeqCst), ..seen }
    }

    async fn through(client: &Client, tools: Arc<AtomicUsize>) -> Self {
        let counter = Arc::clone(&tools);
        let crew = Crew::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { gives("7") }
        });
        let audience = Audience::new();
        let report = watch(client, &toolkit(&["tally"]), &crew, &audience).await.unwrap();
        // Usage may come behind the mark that makes a reply whole.
        let told = audience.told().into_iter().filter(|told| !matches!(told, Told::Event(Event::Usage(_)))).collect();
        let tools = tools.load(Ordering::SeqCst);
        Self { outcome: report.outcome, transcript: report.transcript, told, requests: 0, tools }
    }

    fn class(&self, whole: &Self) -> Class {
        if self.outcome == Outcome::Finished {
            assert_eq!((&self.transcript, &self.told, self.tools), (&whole.transcript, &whole.told, 2));
            return if self.requests == whole.requests { Class::Whole } else { Class::Again };
        }
        let Outcome::Failed(Failure::Model(ModelFailure::Provider(failure))) = &self.outcome else {
            panic!("{:?}", self.outcome)
        };
        assert_eq!((failure.kind, failure.is_retryable()), (FailureKind::Connection, true));
        assert_eq!((self.transcript.messages().len(), self.tools, self.requests), (1, 0, 1));
        assert!(!self.told.is_empty() && whole.told.starts_with(&self.told), "{:?}", self.told);
        Class::Failed
    }
}

/// A provider that gives the first stream to the first request, the last to those with results, and the second to others.
struct Peer {
    streams: [Bytes; 3],
    breaks: bool,
    requests: AtomicUsize,
    tools: Arc<AtomicUsize>,
}

#[async_trait]
impl Transport for Peer {
    async fn send(&self, _: &HttpRequest) -> Result<HttpResponse, ProviderFailure> {
        let is_first = self.requests.fetch_add(1, Ordering::SeqCst) == 0;
        let has_results = self.tools.load(Ordering::SeqCst) > 0;
        let which = if has_results { 2 } else { usize::from(!is_first) };
        let mut pieces = vec![Ok(self.streams[which].clone())];
        if is_first && self.breaks {
            pieces.push(Err(ProviderFailure::new(FailureKind::Connection, "connection reset")));
        }
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "text/event-stream".parse().unwrap());
        Ok(HttpResponse::in_pieces(200, headers, stream::iter(pieces)))
    }
}

fn reply(style: Style, says: &str) -> Reply {
    let says: Says = serde_json::from_str(says).unwrap();
    streamed::of(style, &says::body(style, &says).unwrap())
}

fn client_of(style: Style, url: &str, retries: u32, transport: Arc<dyn Transport>) -> Client {
    let moment = Duration::from_micros(1);
    let config = HttpModelConfig {
        retry: RetryPolicy { retries, base_delay: moment, max_delay: moment },
        ..HttpModelConfig::new(style, url, "m-1", "")
    };
    Client { model: Arc::new(HttpModel::new(config, transport).unwrap()), ..client(&Provider::default(), style) }
}
