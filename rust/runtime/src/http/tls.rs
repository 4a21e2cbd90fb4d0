//! TLS to a provider: the handshake.

use std::io;
use std::sync::{Arc, OnceLock};

use http::Uri;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio_rustls::TlsConnector;

use super::stream::Stream;
use crate::tls::{TlsError, Trust, client_config};

/// The TLS client of one transport. What it trusts is read when the first `https` connection needs it.
#[derive(Clone, Default)]
pub(super) struct Tls(Arc<OnceLock<Result<TlsConnector, TlsError>>>);

impl Tls {
    pub(super) async fn handshake(&self, uri: &Uri, stream: Stream) -> io::Result<Stream> {
        let connector = self.0.get_or_init(connector).as_ref().map_err(|error| io::Error::other(error.clone()))?;
        let name = server_name(uri).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(connector.connect(name, stream).await?)))
    }
}

fn server_name(uri: &Uri) -> Result<ServerName<'static>, InvalidDnsNameError> {
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(ServerName::try_from(host)?.to_owned())
}

fn connector() -> Result<TlsConnector, TlsError> {
    Ok(TlsConnector::from(Arc::new(client_config(&Trust::Named(None), None)?)))
}

#[cfg(test)]
#[path = "tls/tests.rs"]
mod tests;
