//! Whom to trust: the certificates of the machine or of a file, and what of a server's own certificate is checked; and who
//! we say that we are.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use lenient::Lenient;

mod lenient;

/// Which servers to speak to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Any: the connection is encrypted, and who is at the other end is not looked at.
    Anyone,
    /// One whose certificate was issued by an authority of this file, whatever its name.
    Chain(PathBuf),
    /// One whose certificate bears its name, and was issued by an authority of this file, or of the machine.
    Named(Option<PathBuf>),
}

/// The certificate with which we say who we are, and its key: PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Why no TLS can be spoken, whoever is at the other end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum TlsError {
    /// The environment names certificates, and there are none.
    #[error("SSL_CERT_FILE or SSL_CERT_DIR is set, but no certificate could be read from it ({0})")]
    NoRoots(String),
    /// A file of certificates cannot be used.
    #[error("no certificate could be read from {0}")]
    File(String),
    /// The key of our own certificate cannot be used.
    #[error("no private key could be read from {0}")]
    Key(String),
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

/// A TLS client that trusts these servers, and is this one to them.
pub(crate) fn client_config(trust: &Trust, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    // The provider is named here and not installed for the process: that belongs to the application.
    let provider = Arc::new(ring::default_provider());
    let begun = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let lenient = |roots| begun.clone().dangerous().with_custom_certificate_verifier(Lenient::new(roots, &provider));
    let trusting = match trust {
        Trust::Anyone => lenient(None),
        Trust::Chain(file) => lenient(Some(roots_of(file)?)),
        Trust::Named(Some(file)) => {
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots_of(file)?), Arc::clone(&provider));
            let verifier = verifier.build().map_err(|error| TlsError::File(format!("{}: {error}", file.display())))?;
            begun.clone().with_webpki_verifier(verifier)
        }
        Trust::Named(None) => begun.clone().with_root_certificates(roots_of_machine()?),
    };
    let Some(Identity { certificate, key: file }) = identity else { return Ok(trusting.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_file(file).map_err(|error| TlsError::Key(told_of(file, error)))?;
    Ok(trusting.with_client_auth_cert(certificates_of(certificate)?, key)?)
}

fn roots_of(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (_added, _unusable) = roots.add_parsable_certificates(certificates_of(file)?);
    if roots.is_empty() { Err(holds_none(file)) } else { Ok(roots) }
}

fn certificates_of(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| TlsError::File(told_of(file, error)))?;
    if found.is_empty() { Err(holds_none(file)) } else { Ok(found) }
}

fn holds_none(file: &Path) -> TlsError {
    TlsError::File(format!("{}: it holds none", file.display()))
}

fn told_of(file: &Path, error: pem::Error) -> String {
    let told = if let pem::Error::Io(error) = error { error.kind().to_string() } else { error.to_string() };
    format!("{}: {told}", file.display())
}

fn roots_of_machine() -> Result<RootCertStore, TlsError> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| env::var_os(name).is_some());
    let found = rustls_native_certs::load_native_certs();
    let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    roots(found.certs, named, &problems.join("; "))
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
mod tests;
