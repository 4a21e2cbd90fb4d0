//! The transport over sockets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
    connector: Connector,
    pool: Arc<Pool>,
    options: HttpOptions,
}

impl HttpTransport {
    /// A transport without connections yet. Proxies are read from the environment now.
    pub fn new(options: HttpOptions) -> Self {
        Self {
            connector: Connector::from_env(options.connect_timeout),
            pool: Arc::new(Pool::new(options.idle_timeout)),
            options,
        }
    }

    /// Sends on a kept connection, or on a new one. A kept one that turns out to be closed before it
    /// took any of the request costs nothing but the attempt.
    async fn exchange(&self, request: &HttpRequest) -> Result<(Connection, Response<Incoming>), ProviderFailure> {
        let endpoint = request.endpoint();
        while let Some(mut kept) = self.pool.take(endpoint.origin()) {
            match kept.send(request).await {
                Ok(response) => return Ok((kept, response)),
                Err(Unanswered::Unsent(_)) => {}
                Err(Unanswered::Lost(error)) => return Err(failure::of(endpoint, &error)),
            }
        }
        let mut connection = self.connector.connect(endpoint).await?;
        match connection.send(request).await {
            Ok(response) => Ok((connection, response)),
            Err(Unanswered::Unsent(error) | Unanswered::Lost(error)) => Err(failure::of(endpoint, &error)),
        }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, ProviderFailure> {
        let exchanged = timeout(self.options.read_timeout, self.exchange(request)).await;
        let Ok(exchanged) = exchanged else {
            return Err(failure::silent(request.endpoint(), self.options.read_timeout));
        };
        let (connection, response) = exchanged?;
        let (head, incoming) = response.into_parts();
        let body = Incomplete {
            connection,
            incoming,
            endpoint: request.endpoint().clone(),
            pool: Arc::clone(&self.pool),
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
