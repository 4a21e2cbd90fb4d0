//! Requests to a provider and their responses, over HTTP/1.1.
//!
//! It owns connections: making them (proxies, TLS), keeping them, giving up on them. It does not
//! own what is tried again ([`retry`](crate::retry)), nor what a body means (`toolrelay_core::wire`).

mod blocks;
mod body;
mod connect;
mod endpoint;
mod exchange;
mod failure;
mod headers;
mod hints;
mod pool;
mod reply;
mod stream;
mod tls;
mod transport;

use async_trait::async_trait;
use bytes::Bytes;
use toolrelay_core::wire::failure::ProviderFailure;

pub use blocks::Blocks;
pub use endpoint::{Endpoint, EndpointError};
pub use headers::{HeaderError, Headers};
pub use reply::HttpResponse;
pub use transport::{HttpOptions, HttpTransport};

use body::Slices;

/// Something that carries one request to a provider and brings back its response.
///
/// A response of any status is a success here; only a request without a response fails. Dropping
/// the future gives up at once and closes the connection.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` once and returns when the head of the response is there.
    async fn send(&self, request: &HttpRequest) -> Result<HttpResponse, ProviderFailure>;
}

/// A `POST` to a provider. It can be sent any number of times; its body is never copied for that.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    endpoint: Endpoint,
    headers: Headers,
    body: Slices,
}

impl HttpRequest {
    /// A request whose body is `slices`, one after another, with their exact length announced.
    pub fn post(endpoint: &Endpoint, headers: &Headers, slices: Vec<Bytes>) -> Self {
        Self { endpoint: endpoint.clone(), headers: headers.clone(), body: Slices::new(slices) }
    }

    /// Where the request goes.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The headers that were given for it.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }
}
