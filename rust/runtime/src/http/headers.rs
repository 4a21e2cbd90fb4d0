//! The headers that go with every request of a client.

use std::fmt;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers for a request to a provider, already checked. Their `Debug` form shows names only.
///
/// ```
/// use toolrelay_runtime::http::Headers;
///
/// let mut headers = Headers::new();
/// headers.insert("authorization", "Bearer sk-0123456789")?;
/// assert!(!format!("{headers:?}").contains("0123"));
/// # Ok::<(), toolrelay_runtime::http::HeaderError>(())
/// ```
#[derive(Clone)]
pub struct Headers(HeaderMap);

/// A header that cannot be sent. Its value may be a key, so it is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name has characters that a header name cannot have.
    #[error("{0:?} is not a header name")]
    Name(String),
    /// The value has characters that a header value cannot have.
    #[error("the value of the header {0:?} has a character that a header cannot carry, such as a line break")]
    Value(String),
    /// The header frames the message and is set here.
    #[error("the header {0:?} belongs to the transport; leave it out")]
    Reserved(String),
}

impl Headers {
    /// The headers of every request: what is sent, and who sends it.
    pub fn new() -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("toolrelay/", env!("CARGO_PKG_VERSION"))));
        Self(headers)
    }

    /// Sets a header, in place of an earlier one of the same name.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), HeaderError> {
        let parsed: HeaderName = name.trim().parse().map_err(|_| HeaderError::Name(name.to_owned()))?;
        if is_framing(&parsed) {
            return Err(HeaderError::Reserved(name.to_owned()));
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| HeaderError::Value(name.to_owned()))?;
        value.set_sensitive(is_secret(&parsed));
        self.0.insert(parsed, value);
        Ok(())
    }

    /// The values that must not appear in a message, without their scheme (`Bearer`).
    pub fn secrets(&self) -> Vec<&str> {
        let sensitive = self.0.values().filter(|value| value.is_sensitive());
        sensitive
            .filter_map(|value| value.to_str().ok())
            .map(|value| value.split_once(' ').map_or(value, |(_, credentials)| credentials))
            .filter(|secret| secret.len() >= SECRET_BYTES)
            .collect()
    }

    pub(super) fn map(&self) -> &HeaderMap {
        &self.0
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Headers")?;
        f.debug_list().entries(self.0.keys().map(HeaderName::as_str)).finish()
    }
}

fn is_framing(name: &HeaderName) -> bool {
    *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || matches!(name.as_str(), "connection" | "upgrade" | "te")
}

/// Whoever invents a header for a key names it so that this finds it.
fn is_secret(name: &HeaderName) -> bool {
    *name == AUTHORIZATION
        || ["auth", "key", "token", "secret", "cookie"].iter().any(|part| name.as_str().contains(part))
}

/// Shorter ones are stand-ins such as `EMPTY` or `test`; taking them out would garble messages.
const SECRET_BYTES: usize = 8;
