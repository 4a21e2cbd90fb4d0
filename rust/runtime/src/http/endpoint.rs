//! Where requests go: a provider's address, parsed once.

use std::fmt;
use std::sync::Arc;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Uri};

/// An absolute `http` or `https` address. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    uri: Uri,
    path: PathAndQuery,
    host: HeaderValue,
    origin: Arc<str>,
}

/// An address that requests cannot go to. The address itself may hold a key, so it is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address at all.
    #[error("the address cannot be read ({0}); write it like https://api.example.com/v1")]
    Unreadable(String),
    /// No scheme, or one that is not spoken here.
    #[error("the address must begin with http:// or https://")]
    Scheme,
    /// A user name or password in the address.
    #[error("the address holds a user name or a password; pass them as an authorization header")]
    Credentials,
}

impl Endpoint {
    /// Parses an address such as `https://api.example.com/v1/chat/completions`.
    pub fn parse(address: &str) -> Result<Self, EndpointError> {
        let uri: Uri = address
            .trim()
            .parse()
            .map_err(|error: http::uri::InvalidUri| EndpointError::Unreadable(error.to_string()))?;
        let scheme = uri.scheme().filter(|scheme| **scheme == Scheme::HTTP || **scheme == Scheme::HTTPS);
        let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else {
            return Err(EndpointError::Scheme);
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::Credentials);
        }
        let host =
            HeaderValue::from_str(authority.as_str()).map_err(|error| EndpointError::Unreadable(error.to_string()))?;
        let origin = format!("{scheme}://{authority}").to_ascii_lowercase().into();
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self(Arc::new(Parts { uri, path, host, origin })))
    }

    /// Scheme, host and port: what two addresses must share to share connections.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    pub(super) fn shared_origin(&self) -> &Arc<str> {
        &self.0.origin
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.0.uri
    }

    pub(super) fn path(&self) -> &PathAndQuery {
        &self.0.path
    }

    pub(super) fn host_header(&self) -> &HeaderValue {
        &self.0.host
    }

    pub(super) fn is_https(&self) -> bool {
        self.0.uri.scheme() == Some(&Scheme::HTTPS)
    }
}

/// Without the query, which may hold a key.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.origin, self.0.path.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}
