//! A client whose provider streams what a test says, and somebody who watches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream;
use http::HeaderMap;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use toolrelay_core::message::Message;
use toolrelay_core::run::OnPending;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_core::wire::stream::Delta;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::http::{HttpRequest, HttpResponse, Transport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;
use toolrelay_runtime::store::MemoryStore;
use toolrelay_runtime::toolkit::Toolkit;
use toolrelay_runtime::watch::{Told, Watcher};

use crate::crew::Crew;

type Piece = Result<Bytes, ProviderFailure>;

/// A provider whose responses come from a list, each fed by a test piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Provider(Arc<Mutex<VecDeque<HttpResponse>>>);

/// The way to feed one response. Dropped, it ends the body.
pub(crate) struct Feed(mpsc::Sender<Piece>);

impl Provider {
    /// The next response is a stream.
    pub(crate) fn stream(&self) -> Feed {
        self.respond("text/event-stream; charset=utf-8")
    }

    /// The next response is a body of this type.
    pub(crate) fn respond(&self, media_type: &str) -> Feed {
        let (feed, pieces) = mpsc::channel(1);
        let pieces = stream::unfold(pieces, |mut rest| async { rest.recv().await.map(|piece| (piece, rest)) });
        let mut headers = HeaderMap::new();
        headers.insert("content-type", media_type.parse().unwrap());
        self.0.lock().unwrap().push_back(HttpResponse::in_pieces(200, headers, pieces));
        Feed(feed)
    }

    /// The next response is a stream of these events, and then ends.
    pub(crate) fn says(&self, events: &[&str]) {
        let feed = self.stream();
        let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
        tokio::spawn(async move {
            for event in events {
                feed.send(&event).await;
            }
        });
    }

    pub(crate) fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Feed {
    /// Sends an event; returns when the one before was read. A reader that is gone is no matter.
    pub(crate) async fn send(&self, event: &str) {
        let _ = self.0.send(Ok(Bytes::from(format!("data: {event}\n\n")))).await;
    }

    pub(crate) async fn send_raw(&self, bytes: &str) {
        let _ = self.0.send(Ok(Bytes::from(bytes.to_owned()))).await;
    }

    /// The connection breaks.
    pub(crate) async fn reset(self) {
        let _ = self.0.send(Err(ProviderFailure::new(FailureKind::Connection, "connection reset"))).await;
    }

    /// Whether the reader is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

#[async_trait]
impl Transport for Provider {
    async fn send(&self, _: &HttpRequest) -> Result<HttpResponse, ProviderFailure> {
        Ok(self.0.lock().unwrap().pop_front().unwrap())
    }
}

/// Watches a run, and has room for what a test allows.
pub(crate) struct Audience {
    told: Mutex<Vec<Told>>,
    times: AtomicUsize,
    changed: tokio::sync::Notify,
    room: Arc<Semaphore>,
}

impl Audience {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_room(Semaphore::MAX_PERMITS)
    }

    /// With room for so many pieces.
    pub(crate) fn with_room(pieces: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(pieces));
        Arc::new(Self { told: Mutex::default(), times: AtomicUsize::new(0), changed: tokio::sync::Notify::new(), room })
    }

    pub(crate) fn make_room(&self) {
        self.room.add_permits(1);
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// How often it was told something.
    pub(crate) fn times(&self) -> usize {
        self.times.load(Ordering::SeqCst)
    }

    pub(crate) fn deltas(&self) -> Vec<Delta> {
        let delta = |told| match told {
            Told::Delta(delta) => Some(delta),
            Told::Event(_) => None,
        };
        self.told().into_iter().filter_map(delta).collect()
    }

    /// Waits until so many pieces of replies were told.
    pub(crate) async fn heard(&self, deltas: usize) -> Vec<Delta> {
        loop {
            let changed = self.changed.notified();
            let heard = self.deltas();
            if heard.len() >= deltas {
                return heard;
            }
            changed.await;
        }
    }
}

impl Watcher for Audience {
    fn tell(&self, told: Vec<Told>) {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.told.lock().unwrap().extend(told);
        self.changed.notify_waiters();
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        let room = Arc::clone(&self.room);
        async move { room.acquire().await.unwrap().forget() }.boxed()
    }
}

/// A client of such a provider.
pub(crate) fn client(provider: &Provider, style: Style) -> Client {
    let config = HttpModelConfig {
        retry: RetryPolicy { retries: 2, base_delay: Duration::from_millis(1), max_delay: Duration::from_secs(1) },
        ..HttpModelConfig::new(style, "http://localhost/v1", "m-1", "")
    };
    Client {
        model: Arc::new(HttpModel::new(config, Arc::new(provider.clone())).unwrap()),
        conversations: Conversations::new(Arc::new(MemoryStore::new()), "test", Duration::from_mins(1)),
        max_turns: 10,
        timeout: None,
        inline: false,
        expires_after: None,
    }
}

pub(crate) async fn watch(
    client: &Client,
    tools: &Toolkit,
    crew: &Crew,
    audience: &Arc<Audience>,
) -> Result<Report, RunError> {
    watch_until(client, tools, crew, audience, CancellationToken::new()).await
}

pub(crate) async fn watch_until(
    client: &Client,
    tools: &Toolkit,
    crew: &Crew,
    audience: &Arc<Audience>,
    stop: CancellationToken,
) -> Result<Report, RunError> {
    let start = Start::Prompt { prompt: Some(Message::user("go")), on_pending: OnPending::Refuse };
    let place = Place::History(Transcript::default());
    let watcher: Arc<dyn Watcher> = Arc::clone(audience) as _;
    client.run_watched(place, start, crew, tools, stop, Some(watcher)).await
}
