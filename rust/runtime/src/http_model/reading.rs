//! Reading a reply off a response: whole, or piece by piece as it is streamed.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, timeout_at};
use toolrelay_core::reply::Reply;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_core::wire::stream::{Delta, StreamDecoder};

use crate::http::HttpResponse;
use crate::watch::{Told, Watcher, tell_whole};

/// How the replies of one run are read.
pub(super) struct Reading {
    pub(super) style: Style,
    pub(super) watcher: Option<Arc<dyn Watcher>>,
    /// The longest time without content in a stream, whatever else arrives (fault D21).
    pub(super) progress_timeout: Duration,
}

/// A streamed reply under way.
struct Streamed {
    decoder: StreamDecoder,
    limit: usize,
    /// The visible text so far.
    text: String,
    /// What the watcher is told next.
    told: Vec<Told>,
    was_told: bool,
}

/// What came off the network at once.
enum Arrived {
    More,
    End,
}

impl Reading {
    /// Reads the reply. Once the watcher was told of anything, a failure carries the text so far, and no
    /// other attempt may follow (contract 8.6).
    pub(super) async fn read(&self, response: &mut HttpResponse) -> Result<Reply, ProviderFailure> {
        response.check_encoding()?;
        if is_event_stream(response.headers()) {
            return self.read_stream(response).await;
        }
        let reply = self.style.decode(&response.bytes().await?)?;
        if let Some(watcher) = &self.watcher {
            tell_whole(&**watcher, &reply);
        }
        Ok(reply)
    }

    async fn read_stream(&self, response: &mut HttpResponse) -> Result<Reply, ProviderFailure> {
        let limit = response.limit();
        let decoder = self.style.stream(limit);
        let mut reply = Streamed { decoder, limit, text: String::new(), told: Vec::new(), was_told: false };
        let ended = self.read_pieces(response, &mut reply).await;
        let Streamed { decoder, text, was_told, .. } = reply;
        // What breaks behind the mark of a complete reply does not undo it.
        match (decoder.finish(), ended) {
            (Ok(reply), _) => {
                response.let_go();
                Ok(reply)
            }
            (Err(cut), ended) => {
                let mut failure = ended.err().unwrap_or(cut);
                failure.partial_text = was_told.then_some(text);
                Err(failure)
            }
        }
    }

    async fn read_pieces(&self, response: &mut HttpResponse, reply: &mut Streamed) -> Result<(), ProviderFailure> {
        let mut heard = Instant::now();
        loop {
            if let Some(watcher) = &self.watcher {
                let asked = Instant::now();
                watcher.room().await;
                heard += asked.elapsed();
            }
            let (content, is_whole) = (reply.decoder.content(), reply.decoder.is_whole());
            // Some servers neither say that nothing follows nor end the stream.
            let limit = if is_whole { self.progress_timeout.min(TAIL) } else { self.progress_timeout };
            let Ok(chunk) = timeout_at(heard + limit, response.chunk()).await else {
                return Err(stuck(limit));
            };
            let taken = reply.take(chunk, response);
            if let Some(watcher) = &self.watcher {
                reply.tell(&**watcher);
            }
            if matches!(taken?, Arrived::End) || reply.decoder.is_complete() {
                return Ok(());
            }
            if reply.decoder.content() > content || reply.decoder.is_whole() != is_whole {
                heard = Instant::now();
            }
        }
    }
}

impl Streamed {
    /// Takes a piece, and with it what has arrived behind it: the watcher is told of all of it at once.
    fn take(
        &mut self,
        mut chunk: Result<Option<Bytes>, ProviderFailure>,
        response: &mut HttpResponse,
    ) -> Result<Arrived, ProviderFailure> {
        let mut taken = 0;
        loop {
            let Some(bytes) = chunk? else { return Ok(Arrived::End) };
            self.feed(&bytes)?;
            taken += bytes.len();
            if taken >= AT_ONCE || self.decoder.is_complete() {
                return Ok(Arrived::More);
            }
            match response.ready_chunk() {
                Some(next) => chunk = next,
                None => return Ok(Arrived::More),
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderFailure> {
        let Self { decoder, text, told, limit, .. } = self;
        decoder.feed(bytes, &mut |delta| {
            if let Delta::Text(more) = &delta {
                text.push_str(more);
            }
            told.push(Told::Delta(delta));
        })?;
        if decoder.content() > *limit {
            return Err(ProviderFailure::new(FailureKind::TooLarge, format!("more than {limit} bytes of content")));
        }
        Ok(())
    }

    fn tell(&mut self, watcher: &dyn Watcher) {
        if !self.told.is_empty() {
            self.was_told = true;
            watcher.tell(mem::take(&mut self.told));
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("text/event-stream")
}

fn stuck(limit: Duration) -> ProviderFailure {
    let message = format!("the stream is alive, but nothing of the reply arrived within {limit:?}");
    ProviderFailure::new(FailureKind::Timeout, message)
}

/// How many bytes are read, if they are there, before the watcher is told of them.
const AT_ONCE: usize = 64 * 1_024;
/// How long the end of a stream is waited for whose reply is whole: its cost may still come.
const TAIL: Duration = Duration::from_secs(10);
