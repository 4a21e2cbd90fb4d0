//! TLS to a provider: whom to trust, and the handshake.

use std::env;
use std::io;
use std::sync::{Arc, OnceLock};

use http::Uri;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::stream::Stream;

/// The TLS client of one transport. What it trusts is read when the first `https` connection needs it.
#[derive(Clone, Default)]
pub(super) struct Tls(Arc<OnceLock<Result<TlsConnector, TlsError>>>);

/// Why no TLS can be spoken on this machine, whoever is at the other end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum TlsError {
    /// The environment names certificates, and there are none.
    #[error("SSL_CERT_FILE or SSL_CERT_DIR is set, but no certificate could be read from it ({0})")]
    NoRoots(String),
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

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
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| env::var_os(name).is_some());
    let found = rustls_native_certs::load_native_certs();
    let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    let roots = roots(found.certs, named, &problems.join("; "))?;
    // The provider is named here and not installed for the process: that belongs to the application.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The machine's certificates; the compiled-in ones of Mozilla where the machine has none. Whoever
/// names certificates in the environment means these and no others.
fn roots(found: Vec<CertificateDer<'static>>, named: bool, problems: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (_added, _unusable) = roots.add_parsable_certificates(found);
    if roots.is_empty() {
        if named {
            let problems = if problems.is_empty() { "it holds none" } else { problems };
            return Err(TlsError::NoRoots(problems.to_owned()));
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(roots)
}

#[cfg(test)]
#[path = "tls/tests.rs"]
mod tests;
