//! Making a connection: resolve, connect, go through a proxy where the environment names one, TLS.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use tower_service::Service;

use super::endpoint::Endpoint;
use super::exchange::{Connection, Route};
use super::failure;
use super::stream::Stream;
use super::tls::Tls;

type BoxError = Box<dyn Error + Send + Sync>;

/// What new connections are made with.
pub(super) struct Connector {
    hop: FirstHop,
    proxies: Matcher,
    timeout: Duration,
}

/// The connection to whatever is addressed first: the provider or a proxy.
#[derive(Clone)]
struct FirstHop {
    tcp: HttpConnector,
    tls: Tls,
}

impl Connector {
    /// Reads the proxies from the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    pub(super) fn from_env(timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        Self { hop: FirstHop { tcp, tls: Tls::default() }, proxies: Matcher::from_env(), timeout }
    }

    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Connection, ProviderFailure> {
        let proxy = self.proxies.intercept(endpoint.uri());
        let opened = match timeout(self.timeout, self.open(endpoint, proxy.as_ref())).await {
            Ok(Ok((stream, route))) => {
                Connection::new(stream, route).await.map_err(|error| failure::of(endpoint, &error))
            }
            Ok(Err(error)) => Err(failure::of(endpoint, error.as_ref())),
            Err(_elapsed) => {
                let message = format!("{}: no connection within {:?}", endpoint.origin(), self.timeout);
                Err(ProviderFailure::new(FailureKind::Timeout, message))
            }
        };
        opened.map_err(|mut failure| {
            if let Some(proxy) = &proxy {
                failure.message = format!("through the proxy {}: {}", proxy.uri(), failure.message);
            }
            failure
        })
    }

    async fn open(&self, endpoint: &Endpoint, proxy: Option<&Intercept>) -> Result<(Stream, Route), BoxError> {
        let destination = endpoint.uri();
        let mut hop = self.hop.clone();
        let Some(proxy) = proxy else {
            return Ok((hop.call(destination.clone()).await?.into_inner(), Route::Direct));
        };
        let at = proxy.uri().clone();
        let tunnel = match at.scheme_str() {
            Some("socks5" | "socks5h") => {
                let mut socks = SocksV5::new(at.clone(), hop).local_dns(at.scheme_str() == Some("socks5"));
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                socks.call(destination.clone()).await?
            }
            Some("socks4" | "socks4a") => {
                let socks = SocksV4::new(at.clone(), hop);
                socks.local_dns(at.scheme_str() == Some("socks4")).call(destination.clone()).await?
            }
            _ if endpoint.is_https() => {
                let mut tunnel = Tunnel::new(at, hop);
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                tunnel.call(destination.clone()).await?
            }
            _ => return Ok((hop.call(at).await?.into_inner(), Route::Forwarded(proxy.basic_auth().cloned()))),
        };
        let mut stream = tunnel.into_inner();
        if endpoint.is_https() {
            stream = self.hop.tls.handshake(destination, stream).await?;
        }
        Ok((stream, Route::Direct))
    }
}

impl Service<Uri> for FirstHop {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { mut tcp, tls } = self.clone();
        Box::pin(async move {
            let stream = Stream::Tcp(tcp.call(uri.clone()).await?.into_inner());
            let is_https = uri.scheme_str() == Some("https");
            let stream = if is_https { tls.handshake(&uri, stream).await? } else { stream };
            Ok(TokioIo::new(stream))
        })
    }
}

/// A model may think for minutes; a router on the way forgets a silent connection sooner.
const KEEPALIVE: Duration = Duration::from_secs(30);
