//! The transport over sockets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::Response;
use hyper::body::Incoming;
use tokio::time::timeout;
use toolrelay_core::wire::failure::ProviderFailure;

use super::connect::Connector;
use super::exchange::{Connection, Unanswered};
use super::pool::Pool;
use super::reply::Incomplete;
use super::{HttpRequest, HttpResponse, Transport, failure};

/// How long to wait, and how much to take. There is no limit on a whole exchange: a model may write
/// for as long as it goes on writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The longest time until a connection stands, proxy and TLS included.
    pub connect_timeout: Duration,
    /// The longest silence: before the head of a response, and between two pieces of its body.
    pub read_timeout: Duration,
    /// How long a connection is kept for the next request.
    pub idle_timeout: Duration,
    /// The largest response that is read as a whole, in bytes.
    pub reply_limit: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_mins(10),
            idle_timeout: Duration::from_secs(90),
            reply_limit: 64 * 1_024 * 1_024,
        }
    }
}

/// HTTP/1.1 with kept connections, proxies from the environment, and TLS.
///
/// Making one opens nothing and cannot fail. Connections belong to the tokio runtime they were made
/// on: on another runtime, or in a forked child, the transport makes new ones.
pub struct HttpTransport {
    means: ArcSwap<Means>,
    options: HttpOptions,
}

/// What one process sends with. A lock in it may be held for ever by a thread that a fork left behind,
/// so a child starts with a new one.
pub(super) struct Means {
    connector: Connector,
    pub(super) pool: Pool,
}

impl Means {
    fn new(options: &HttpOptions) -> Self {
        Self { connector: Connector::from_env(options.connect_timeout), pool: Pool::new(options.idle_timeout) }
    }
}

impl HttpTransport {
    /// A transport without connections yet. Proxies are read from the environment now.
    pub fn new(options: HttpOptions) -> Self {
        Self { means: ArcSwap::from_pointee(Means::new(&options)), options }
    }

    fn means(&self) -> Arc<Means> {
        let means = self.means.load_full();
        if means.pool.is_own() {
            return means;
        }
        self.means.compare_and_swap(&means, Arc::new(Means::new(&self.options)));
        self.means.load_full()
    }

    /// Sends on a kept connection, or on a new one. A kept one that turns out to be closed before it
    /// took any of the request costs nothing but the attempt.
    async fn exchange(
        means: &Means,
        request: &HttpRequest,
    ) -> Result<(Connection, Response<Incoming>), ProviderFailure> {
        let endpoint = request.endpoint();
        while let Some(mut kept) = means.pool.take(endpoint.origin()) {
            match kept.send(request).await {
                Ok(response) => return Ok((kept, response)),
                Err(Unanswered::Unsent(_)) => {}
                Err(Unanswered::Lost(error)) => return Err(failure::of(endpoint, &error)),
            }
        }
        let mut connection = means.connector.connect(endpoint).await?;
        match connection.send(request).await {
            Ok(response) => Ok((connection, response)),
            Err(Unanswered::Unsent(error) | Unanswered::Lost(error)) => Err(failure::of(endpoint, &error)),
        }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, ProviderFailure> {
        let means = self.means();
        let exchanged = timeout(self.options.read_timeout, Self::exchange(&means, request)).await;
        let Ok(exchanged) = exchanged else {
            return Err(failure::silent(request.endpoint(), self.options.read_timeout));
        };
        let (connection, response) = exchanged?;
        let (head, incoming) = response.into_parts();
        let body = Incomplete {
            connection,
            incoming,
            endpoint: request.endpoint().clone(),
            means,
            read_timeout: self.options.read_timeout,
            limit: self.options.reply_limit,
        };
        Ok(HttpResponse::incomplete(head.status.as_u16(), head.headers, body))
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("options", &self.options).finish_non_exhaustive()
    }
}
