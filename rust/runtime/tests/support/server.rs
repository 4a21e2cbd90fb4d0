//! A model server on loopback that follows a script and remembers what it was sent.
//!
//! It runs on threads of its own, so a test's runtime can be blocked, paused or dropped.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::received::Received;
use super::reply::{End, Reply};

/// The server; it stops when it is dropped.
///
/// ```ignore
/// let server = Server::script([Reply::status(503), Reply::json("{}")]);
/// // ... post to server.url("/v1/messages") ...
/// assert_eq!(server.requests()[0].text(), "{}");
/// ```
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    tls: Option<Arc<ServerConfig>>,
    requests: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    hangups: Mutex<usize>,
    hung_up: Condvar,
    stopped: AtomicBool,
}

enum Script {
    Replies(Mutex<VecDeque<Reply>>),
    Function(Box<dyn Fn(&Received) -> Reply + Send + Sync>),
}

impl Server {
    /// Answers the requests, in the order in which they begin, with these replies.
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(Script::Replies(Mutex::new(replies.into_iter().collect())), None)
    }

    /// Answers each request with what `answer` makes of it.
    pub fn answering(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Script::Function(Box::new(answer)), None)
    }

    /// Like [`Server::script`] over TLS, as `localhost` with a certificate of its own, given as PEM.
    pub fn tls(replies: impl IntoIterator<Item = Reply>) -> (Self, String) {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = issued.signing_key.serialize_der().try_into().unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key)
            .unwrap();
        let script = Script::Replies(Mutex::new(replies.into_iter().collect()));
        (Self::start(script, Some(Arc::new(config))), issued.cert.pem())
    }

    /// The address of `path` on this server.
    pub fn url(&self, path: &str) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}{path}", self.scheme, self.address.port())
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What arrived so far, in the order in which it was complete.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The bodies that arrived so far, as text.
    pub fn bodies(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.text().to_owned()).collect()
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until clients have closed `count` connections, and says whether they did in five seconds.
    pub fn saw_hangups(&self, count: usize) -> bool {
        let hangups = self.shared.hangups.lock().unwrap();
        let waited = self.shared.hung_up.wait_timeout_while(hangups, PATIENCE, |seen| *seen < count);
        !waited.unwrap().1.timed_out()
    }

    fn start(script: Script, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            script,
            tls,
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            hangups: Mutex::default(),
            hung_up: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Self { address, scheme, shared }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for socket in listener.incoming().flatten() {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let connection = self.connections.fetch_add(1, Ordering::SeqCst);
            let shared = Arc::clone(self);
            thread::spawn(move || {
                socket.set_nodelay(true).unwrap();
                match &shared.tls {
                    None => shared.serve(socket, connection),
                    Some(config) => {
                        let session = ServerConnection::new(Arc::clone(config)).unwrap();
                        shared.serve(StreamOwned::new(session, socket), connection);
                    }
                }
            });
        }
    }

    fn serve(&self, mut socket: impl Read + Write, connection: usize) {
        let mut first = [0];
        while socket.read(&mut first).is_ok_and(|read| read > 0) {
            let mut begun = first.as_slice().chain(&mut socket);
            let reply = match &self.script {
                Script::Replies(replies) => {
                    let next = replies.lock().unwrap().pop_front().unwrap_or_else(script_is_over);
                    let Some(received) = Received::read(&mut begun, connection, next.listen) else { break };
                    self.requests.lock().unwrap().push(received);
                    next
                }
                Script::Function(answer) => {
                    let Some(received) = Received::read(&mut begun, connection, usize::MAX) else { break };
                    let reply = answer(&received);
                    self.requests.lock().unwrap().push(received);
                    reply
                }
            };
            if reply.write(&mut socket).is_err() {
                break;
            }
            match reply.end {
                End::KeepAlive => {}
                End::Close | End::CutAt(_) => return,
                End::StallAt(_) => {
                    while socket.read(&mut first).is_ok_and(|read| read > 0) {}
                    break;
                }
            }
        }
        *self.hangups.lock().unwrap() += 1;
        self.hung_up.notify_all();
    }
}

/// A status that no test asks for and no policy tries again.
fn script_is_over() -> Reply {
    Reply::status(418).body("the script has no reply for this request")
}

const PATIENCE: Duration = Duration::from_secs(5);
