//! A way to a server that counts round trips, and breaks where a test says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What becomes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server never gets it.
    Question,
    /// The server does what it was asked, and nobody hears of it.
    Answer,
}

/// The way. It ends with the value.
pub(crate) struct Proxy {
    address: SocketAddr,
    traffic: Arc<Mutex<Traffic>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Traffic {
    /// Questions so far: what the client sends until the server answers.
    questions: usize,
    losses: Vec<(usize, Loss)>,
    bytes: usize,
}

impl Proxy {
    pub(crate) async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let traffic = Arc::<Mutex<Traffic>>::default();
        let seen = Arc::clone(&traffic);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(&server).await {
                    tokio::spawn(carry(client, server, Arc::clone(&seen)));
                }
            }
        });
        Self { address, traffic, accepting }
    }

    /// The URL of the server by this way.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&place(url), &self.address.to_string())
    }

    /// The question after `ahead` others from now on is lost.
    pub(crate) fn lose(&self, ahead: usize, loss: Loss) {
        let mut traffic = self.traffic.lock().unwrap();
        let at = traffic.questions + ahead;
        traffic.losses = vec![(at, loss)];
    }

    pub(crate) fn questions(&self) -> usize {
        self.traffic.lock().unwrap().questions
    }

    /// How many bytes went by, both ways.
    pub(crate) fn bytes(&self) -> usize {
        self.traffic.lock().unwrap().bytes
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The host and port of a URL.
pub(crate) fn place(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split('/').next().unwrap().to_owned()
}

async fn carry(mut client: TcpStream, mut server: TcpStream, traffic: Arc<Mutex<Traffic>>) {
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let (mut is_asking, mut loss) = (false, None);
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                if !is_asking {
                    let mut traffic = traffic.lock().unwrap();
                    let at = traffic.questions;
                    traffic.questions += 1;
                    loss = traffic.losses.iter().find(|(place, _)| *place == at).map(|(_, loss)| *loss);
                }
                is_asking = true;
                traffic.lock().unwrap().bytes += length;
                if loss == Some(Loss::Question) || server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                is_asking = false;
                traffic.lock().unwrap().bytes += length;
                if loss == Some(Loss::Answer) || client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
