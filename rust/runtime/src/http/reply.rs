//! A response and its body, whole or piece by piece.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
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
            Source::Socket(body) => {
                let chunk = body.chunk().await?;
                if chunk.is_none() {
                    self.finish().await;
                }
                Ok(chunk)
            }
        }
    }

    /// The whole body, at most as large as the transport allows.
    pub async fn bytes(&mut self) -> Result<Bytes, ProviderFailure> {
        let limit = match &self.body {
            Source::Memory(_) => usize::MAX,
            Source::Socket(body) => body.limit,
        };
        if let Some(encoding) = self.headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            let message = format!("the reply is compressed ({encoding:?}), which was not asked for");
            return Err(ProviderFailure::new(FailureKind::Malformed, message));
        }
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
            Source::Socket(body) => usize::try_from(body.incoming.size_hint().lower()).unwrap_or(usize::MAX),
        }
    }

    fn is_complete(&self) -> bool {
        match &self.body {
            Source::Memory(body) => body.is_none(),
            Source::Socket(body) => body.incoming.is_end_stream(),
        }
    }

    /// Gives the connection back, if it can take another exchange.
    async fn finish(&mut self) {
        let body = std::mem::replace(&mut self.body, Source::Memory(None));
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
