//! A response and its body, whole or piece by piece.

use std::fmt;
use std::future::ready;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::future::FutureExt;
use futures_util::stream::{BoxStream, Stream, StreamExt, TryStreamExt};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::timeout;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure, ReplyHints};

use super::endpoint::Endpoint;
use super::exchange::Connection;
use super::failure;
use super::transport::Means;

/// The response to an [`HttpRequest`](super::HttpRequest). Its body is still on its way.
pub struct HttpResponse {
    status: u16,
    headers: HeaderMap,
    body: Source,
}

enum Source {
    Memory(Option<Bytes>),
    Pieces(BoxStream<'static, Result<Bytes, ProviderFailure>>),
    Socket(Box<Incomplete>),
}

/// A body that a connection is still bringing. Dropping it closes the connection.
pub(super) struct Incomplete {
    pub(super) connection: Connection,
    pub(super) incoming: Incoming,
    pub(super) endpoint: Endpoint,
    pub(super) means: Arc<Means>,
    pub(super) read_timeout: Duration,
    pub(super) limit: usize,
}

impl HttpResponse {
    /// A response that is there already, for a transport of one's own.
    pub fn new(status: u16, headers: HeaderMap, body: impl Into<Bytes>) -> Self {
        Self { status, headers, body: Source::Memory(Some(body.into())) }
    }

    /// A response whose body arrives in pieces, for a transport of one's own.
    pub fn in_pieces(
        status: u16,
        headers: HeaderMap,
        body: impl Stream<Item = Result<Bytes, ProviderFailure>> + Send + 'static,
    ) -> Self {
        Self { status, headers, body: Source::Pieces(body.fuse().boxed()) }
    }

    pub(super) fn incomplete(status: u16, headers: HeaderMap, body: Incomplete) -> Self {
        Self { status, headers, body: Source::Socket(Box::new(body)) }
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// What the headers say about this exchange and about another attempt.
    pub fn hints(&self) -> ReplyHints {
        super::hints::read(&self.headers, SystemTime::now())
    }

    /// The next piece of the body as it arrives; `None` at its end. A piece has at least one byte.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderFailure> {
        match &mut self.body {
            Source::Memory(body) => Ok(body.take().filter(|body| !body.is_empty())),
            Source::Pieces(body) => body.try_filter(|piece| ready(!piece.is_empty())).try_next().await,
            Source::Socket(body) => {
                let chunk = body.chunk().await?;
                if chunk.is_none() {
                    self.finish().await;
                }
                Ok(chunk)
            }
        }
    }

    /// The next piece of the body, if it is there already.
    pub(crate) fn ready_chunk(&mut self) -> Option<Result<Option<Bytes>, ProviderFailure>> {
        self.chunk().now_or_never()
    }

    /// How large a reply may be, in bytes.
    pub(crate) fn limit(&self) -> usize {
        match &self.body {
            Source::Memory(_) | Source::Pieces(_) => usize::MAX,
            Source::Socket(body) => body.limit,
        }
    }

    /// A compressed body is nothing that was asked for.
    pub(crate) fn check_encoding(&self) -> Result<(), ProviderFailure> {
        let Some(encoding) = self.headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") else {
            return Ok(());
        };
        let message = format!("the reply is compressed ({encoding:?}), which was not asked for");
        Err(ProviderFailure::new(FailureKind::Malformed, message))
    }

    /// Lets go of a body whose rest says nothing more. The end of it gives the connection back if it comes soon;
    /// nobody waits for that.
    pub(crate) fn let_go(&mut self) {
        let body = mem::replace(&mut self.body, Source::Memory(None));
        let mut rest = Self { status: self.status, headers: HeaderMap::new(), body };
        let read_on = async move { while let Ok(Some(_)) = rest.chunk().await {} };
        let mut read_on = Box::pin(timeout(LET_GO, read_on));
        if (&mut read_on).now_or_never().is_none() {
            tokio::spawn(read_on);
        }
    }

    /// The whole body, at most as large as the transport allows.
    pub async fn bytes(&mut self) -> Result<Bytes, ProviderFailure> {
        let limit = self.limit();
        self.check_encoding()?;
        if self.announced() > limit {
            return Err(too_large(limit));
        }
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        if first.len() > limit {
            return Err(too_large(limit));
        }
        if self.is_complete() {
            self.finish().await;
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(first.len() + self.announced());
        whole.extend_from_slice(&first);
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > limit {
                return Err(too_large(limit));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The beginning of the body, for an error report: what arrives of it, and no more than that.
    pub(crate) async fn beginning(&mut self) -> Bytes {
        let mut beginning = BytesMut::new();
        while beginning.len() < BEGINNING {
            match self.chunk().await {
                Ok(Some(chunk)) => beginning.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        beginning.truncate(BEGINNING);
        beginning.freeze()
    }

    /// How many bytes are known to come.
    fn announced(&self) -> usize {
        match &self.body {
            Source::Memory(body) => body.as_ref().map_or(0, Bytes::len),
            Source::Pieces(_) => 0,
            Source::Socket(body) => usize::try_from(body.incoming.size_hint().lower()).unwrap_or(usize::MAX),
        }
    }

    fn is_complete(&self) -> bool {
        match &self.body {
            Source::Memory(body) => body.is_none(),
            Source::Pieces(_) => false,
            Source::Socket(body) => body.incoming.is_end_stream(),
        }
    }

    /// Gives the connection back, if it can take another exchange.
    async fn finish(&mut self) {
        let body = mem::replace(&mut self.body, Source::Memory(None));
        if let Source::Socket(mut body) = body
            && body.connection.settle().await
        {
            body.means.pool.put(body.endpoint.shared_origin(), body.connection);
        }
    }
}

impl Incomplete {
    async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderFailure> {
        match timeout(self.read_timeout, self.connection.chunk(&mut self.incoming)).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(failure::of(&self.endpoint, &error)),
            Err(_elapsed) => Err(failure::silent(&self.endpoint, self.read_timeout)),
        }
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

fn too_large(limit: usize) -> ProviderFailure {
    ProviderFailure::new(FailureKind::TooLarge, format!("more than {limit} bytes"))
}

const BEGINNING: usize = 64 * 1_024;
/// How long the end of a body is waited for that says nothing more.
const LET_GO: Duration = Duration::from_secs(1);
