//! Where a server is: its URL, and the stream of bytes to it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::super::InvalidUrl;
use crate::tls::{TlsError, Trust, client_config};

/// A server and who we are to it.
#[derive(Clone)]
pub(super) struct Address {
    place: Place,
    /// The TLS client, if TLS is spoken. What is trusted is read when the first line is dialled.
    tls: Option<Arc<OnceLock<Result<TlsConnector, TlsError>>>>,
    pub(super) login: RedisConnectionInfo,
}

#[derive(Clone)]
enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Bytes to a server and back.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Address {
    /// Reads `redis://user:password@host:port/0`, or `rediss://...` for TLS, or `unix:///path?db=0`.
    pub(super) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let refuse = |reason: &str| InvalidUrl {
            expected: "redis://user:password@host:port/0, or rediss://... for TLS",
            reason: reason.into(),
        };
        // TLS is ours: the library is built without.
        let plain = [("rediss://", "redis://"), ("valkeys://", "valkey://")]
            .iter()
            .find_map(|(secure, plain)| Some(format!("{plain}{}", url.strip_prefix(secure)?)));
        let is_secure = plain.is_some();
        // What the library says of a URL may quote it.
        let unreadable = "it cannot be read; signs such as @ / ? # % in a password are written as %40 and so on";
        let found = plain.as_deref().unwrap_or(url).into_connection_info().map_err(|_| refuse(unreadable))?;
        let place = match found.addr() {
            ConnectionAddr::Tcp(host, port) => Place::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            ConnectionAddr::TcpTls { .. } | _ => return Err(refuse(unreadable)),
        };
        let login = found.redis_settings().clone().set_lib_name("toolrelay", env!("CARGO_PKG_VERSION"));
        Ok(Self { place, tls: is_secure.then(Arc::default), login })
    }

    /// Another server of the same cluster, as `host:port`; no host is this one's.
    pub(super) fn neighbour(&self, name: &str) -> Option<Self> {
        let (host, port) = name.rsplit_once(':')?;
        let host = match (&self.place, host) {
            (Place::Tcp { host, .. }, "") => host.clone(),
            (_, host) => host.to_owned(),
        };
        Some(Self { place: Place::Tcp { host, port: port.parse().ok()? }, ..self.clone() })
    }

    /// The server and database, without anything secret.
    pub(super) fn name(&self) -> String {
        let place = match &self.place {
            Place::Tcp { host, port } => format!("{host}:{port}"),
            Place::Unix(path) => path.display().to_string(),
        };
        format!("Redis at {place}/{}", self.login.db())
    }

    /// Opens a stream.
    pub(super) async fn open(&self) -> io::Result<Box<dyn Stream>> {
        let (host, tcp) = match &self.place {
            Place::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Place::Tcp { host, port } => (host, TcpStream::connect((host.as_str(), *port)).await?),
        };
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(&tcp);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(LONGEST_SILENCE))?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(LONGEST_SILENCE))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(tcp)) };
        let connector = tls.get_or_init(|| Ok(TlsConnector::from(Arc::new(client_config(&Trust::Named(None), None)?))));
        let connector = connector.as_ref().map_err(|error| io::Error::other(error.clone()))?;
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(connector.connect(name, tcp).await?))
    }
}

/// A server that does not take what it was sent for so long is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
