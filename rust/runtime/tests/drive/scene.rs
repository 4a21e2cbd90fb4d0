//! What is under way in a run: model calls at a scripted server, tool calls and questions at the
//! host. Each stays open until a step ends it, or until the run drops it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use toolrelay_core::request::Request;
use toolrelay_runtime::host::{AskEnd, Host, ToolCall, ToolEnd};

use crate::support::{Reply, Server};

/// The server and the host of one dialogue. Clones are the same scene.
#[derive(Clone, Default)]
pub(crate) struct Scene(Arc<Shared>);

#[derive(Default)]
struct Shared {
    open: Mutex<Vec<Open>>,
    bodies: Mutex<Vec<Vec<u8>>>,
    changed: Notify,
    is_over: AtomicBool,
    opened: AtomicU64,
}

/// Something under way.
pub(crate) struct Open {
    key: u64,
    pub(crate) what: What,
    /// Ends when the run has taken the end of it, or has dropped it.
    taken: oneshot::Receiver<()>,
}

/// What is under way, with the way to end it.
pub(crate) enum What {
    Model(mpsc::Sender<Reply>),
    Tool(ToolCall, oneshot::Sender<ToolEnd>),
    Ask(Request, oneshot::Sender<AskEnd>),
}

/// Held by the run as long as the effect is under way.
struct Held {
    scene: Scene,
    key: u64,
    _taken: oneshot::Sender<()>,
}

impl Scene {
    /// A server whose replies are those that steps give.
    pub(crate) fn server(&self) -> Server {
        let scene = self.clone();
        Server::answering(move |request| {
            scene.0.bodies.lock().unwrap().push(request.body().to_vec());
            let (say, said) = mpsc::channel();
            let _held = scene.add(What::Model(say));
            said.recv().unwrap_or_else(|_| Reply::status(418))
        })
    }

    /// The request bodies so far.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.0.bodies.lock().unwrap().clone()
    }

    /// Begins and ends a run: a run that is over opens nothing more.
    pub(crate) fn set_over(&self, is_over: bool) {
        self.0.is_over.store(is_over, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// The first open effect that fits, once there is one.
    pub(crate) async fn take(&self, what: &str, fits: impl Fn(&What) -> bool) -> Result<Open, String> {
        self.until(|open| open.iter().any(|effect| fits(&effect.what))).await;
        let mut open = self.0.open.lock().unwrap();
        match open.iter().position(|effect| fits(&effect.what)) {
            Some(at) => Ok(open.remove(at)),
            None => Err(format!("{what} is not under way, but {:?}", *open)),
        }
    }

    /// Waits until anything is under way.
    pub(crate) async fn begun(&self) {
        self.until(|open| !open.is_empty()).await;
    }

    /// What is open, read.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&[Open]) -> T) -> T {
        read(&self.0.open.lock().unwrap())
    }

    /// Nothing may be left of a run that is over: the host's futures are dropped, and connections
    /// that wait for a reply are closed, as the server must see.
    pub(crate) async fn check_nothing_left(&self, server: &Arc<Server>, hangups: &mut usize) -> Result<(), String> {
        let left = std::mem::take(&mut *self.0.open.lock().unwrap());
        if let Some(effect) = left.iter().find(|effect| !matches!(effect.what, What::Model(_))) {
            return Err(format!("the run is over, but {effect:?} goes on"));
        }
        *hangups += left.len();
        let (server, expected) = (Arc::clone(server), *hangups);
        drop(left);
        let closed = tokio::task::spawn_blocking(move || expected == 0 || server.saw_hangups(expected)).await;
        if closed.unwrap() { Ok(()) } else { Err("the run is over, but its model call goes on".to_owned()) }
    }

    /// Waits until it holds, the run is over, or nothing has changed for long.
    pub(crate) async fn until(&self, holds: impl Fn(&[Open]) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if holds(&self.0.open.lock().unwrap()) || self.0.is_over.load(Ordering::SeqCst) {
                return;
            }
            if timeout(PATIENCE, changed).await.is_err() {
                return;
            }
        }
    }

    fn add(&self, what: What) -> Held {
        let key = self.0.opened.fetch_add(1, Ordering::SeqCst);
        let (held, taken) = oneshot::channel();
        self.0.open.lock().unwrap().push(Open { key, what, taken });
        self.0.changed.notify_waiters();
        Held { scene: self.clone(), key, _taken: held }
    }
}

impl Host for Scene {
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'static, ToolEnd> {
        let (end, ended) = oneshot::channel();
        let held = self.add(What::Tool(call, end));
        Box::pin(async move {
            let _held = held;
            ended.await.unwrap()
        })
    }

    fn ask(&self, request: Request) -> BoxFuture<'static, AskEnd> {
        let (end, ended) = oneshot::channel();
        let held = self.add(What::Ask(request, end));
        Box::pin(async move {
            let _held = held;
            ended.await.unwrap()
        })
    }
}

impl Open {
    /// The model says this; the run takes it in when the reply has arrived.
    pub(crate) fn say(self, reply: Reply) {
        if let What::Model(say) = self.what {
            say.send(reply).unwrap();
        }
    }

    /// The tool ends like this; returns when the run has taken it in.
    pub(crate) async fn end_tool(self, end: ToolEnd) {
        if let What::Tool(_, ended) = self.what {
            assert!(ended.send(end).is_ok(), "the run has dropped the tool call");
            let _ = self.taken.await;
        }
    }

    /// The host answers like this; returns when the run has taken it in.
    pub(crate) async fn end_ask(self, end: AskEnd) {
        if let What::Ask(_, ended) = self.what {
            assert!(ended.send(end).is_ok(), "the run has dropped the question");
            let _ = self.taken.await;
        }
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Model(_) => write!(f, "a model call"),
            What::Tool(call, _) => write!(f, "the tool call {}", call.id),
            What::Ask(request, _) => write!(f, "the question {:?}", request.prompt),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.scene.0.open.lock().unwrap().retain(|effect| effect.key != self.key);
        self.scene.0.changed.notify_waiters();
    }
}

/// How long a step waits for what it is to end.
const PATIENCE: Duration = Duration::from_secs(10);
