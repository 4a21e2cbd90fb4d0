//! Where a database is: its URL, and what the URL asks of TLS.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::InvalidUrl;
use crate::tls::{Identity, TlsError, Trust, client_config};

/// A database server and who we are to it.
pub(super) struct Address {
    pub(super) config: Config,
    trust: Trust,
    identity: Option<Identity>,
    /// What is trusted is read when the first line is dialled.
    tls: OnceLock<Result<MakeRustlsConnect, TlsError>>,
}

impl Address {
    /// Reads `postgresql://user:password@host:port/database?sslmode=...`.
    pub(super) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        const EXPECTED: &str = "postgresql://user:password@host:port/database";
        let refuse = |reason: String| InvalidUrl { expected: EXPECTED, reason };
        if !["postgresql://", "postgres://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(refuse("it begins otherwise".into()));
        }
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut file, mut rest) = ("prefer".to_owned(), None, Vec::new());
        let (mut certificate, mut key) = (None, None);
        let decoded = |value| percent_decode_str(value).decode_utf8_lossy().into_owned();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "sslmode" => value.clone_into(&mut mode),
                "sslrootcert" => file = Some(decoded(value)),
                "sslcert" => certificate = Some(decoded(value).into()),
                "sslkey" => key = Some(decoded(value).into()),
                _ if KNOWN.contains(&name) => rest.push(option),
                // Its name may be a part of a password.
                _ => {
                    return Err(refuse(format!(
                        "of the options behind its ? only sslmode, sslrootcert, sslcert, sslkey and {} are known",
                        KNOWN.join(", ")
                    )));
                }
            }
        }
        // What the library says of a URL may quote it.
        let unreadable =
            || refuse("it cannot be read; signs such as @ / ? # % in a password are written as %40 and so on".into());
        let config: Result<Config, _> = format!("{place}?{}", rest.join("&")).parse();
        let mut config = config.map_err(|_| unreadable())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refuse("it names no host".into()));
        }
        // The end of a password with an @ in it would be taken for the beginning of the host's name.
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if name.contains('@'))) {
            return Err(unreadable());
        }
        let file = file.filter(|file| file != "system").map(PathBuf::from);
        let (mode, trust) = match (mode.as_str(), file) {
            ("disable", _) => (SslMode::Disable, Trust::Anyone),
            ("allow" | "prefer", None) => (SslMode::Prefer, Trust::Anyone),
            ("allow" | "prefer", Some(file)) => (SslMode::Prefer, Trust::Chain(file)),
            ("require", None) => (SslMode::Require, Trust::Anyone),
            ("require" | "verify-ca", Some(file)) => (SslMode::Require, Trust::Chain(file)),
            // Whoever can get a certificate of the web's authorities could pose as the server.
            ("verify-ca", None) => {
                return Err(refuse("sslmode=verify-ca needs an sslrootcert; verify-full does not".into()));
            }
            ("verify-full", file) => (SslMode::Require, Trust::Named(file)),
            _ => return Err(refuse("sslmode is disable, prefer, require, verify-ca or verify-full".into())),
        };
        let identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (Some(_), None) | (None, Some(_)) => return Err(refuse("sslcert and sslkey go together".into())),
        };
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("toolrelay");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(LONGEST_SILENCE);
        }
        config.keepalives_idle(LONGEST_SILENCE);
        Ok(Self { config, trust, identity, tls: OnceLock::new() })
    }

    /// The server and database, without anything secret.
    pub(super) fn name(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let mut hosts: Vec<String> = hosts.collect();
        if hosts.is_empty() {
            hosts.extend(self.config.get_hostaddrs().iter().map(ToString::to_string));
        }
        let ports = self.config.get_ports();
        let with_port = hosts.iter().enumerate().map(|(at, host)| match ports.get(at).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        });
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("PostgreSQL at {}/{database}", with_port.collect::<Vec<_>>().join(","))
    }

    /// The TLS client. Where no TLS can be spoken it is the first connection that says so.
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, TlsError> {
        self.tls.get_or_init(|| Ok(MakeRustlsConnect::new(client_config(&self.trust, self.identity.as_ref())?))).clone()
    }
}

/// Options that are not ours to read.
const KNOWN: &[&str] = &[
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// A server that does not take what it was sent for so long is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
