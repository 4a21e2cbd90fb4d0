//! A client with a scripted model in the process and a host made of closures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, pending, ready};
use tokio_util::sync::CancellationToken;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop};
use toolrelay_core::request::Request;
use toolrelay_core::run::OnPending;
use toolrelay_core::run::io::{ModelFailure, Park};
use toolrelay_core::tool::{Outcome, ToolKind, ToolOutput, ToolSpec};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::WireError;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::host::{AskEnd, Host, ToolCall, ToolEnd};
use toolrelay_runtime::model::{Model, Session};
use toolrelay_runtime::store::MemoryStore;
use toolrelay_runtime::toolkit::{ToolDef, Toolkit};
use toolrelay_runtime::watch::Watcher;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Writes a line when it is dropped.
    pub(crate) fn when_dropped(&self, line: &str) -> Dropped {
        Dropped(self.clone(), line.to_owned())
    }
}

pub(crate) struct Dropped(Diary, String);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.write(std::mem::take(&mut self.1));
    }
}

/// What a scripted model does when it is asked.
pub(crate) enum Turn {
    Says(Reply),
    Fails(&'static str),
    Panics,
    Never,
}

/// A model that follows a script. Clones follow the same one.
#[derive(Clone)]
pub(crate) struct Script {
    turns: Arc<Mutex<VecDeque<Turn>>>,
    diary: Diary,
}

impl Script {
    pub(crate) fn new(diary: &Diary, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: Arc::new(Mutex::new(turns.into_iter().collect())), diary: diary.clone() }
    }
}

impl Model for Script {
    fn open(&self, _tools: &Toolkit, _watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        Ok(Box::new(self.clone()))
    }
}

impl Session for Script {
    fn call(&self, _transcript: &Transcript) -> BoxFuture<'static, Result<Reply, ModelFailure>> {
        self.diary.write("model asked");
        match self.turns.lock().unwrap().pop_front().unwrap() {
            Turn::Says(reply) => ready(Ok(reply)).boxed(),
            Turn::Fails(message) => ready(Err(ModelFailure::in_process(message))).boxed(),
            Turn::Panics => async { panic!("no wind") }.boxed(),
            Turn::Never => {
                let dropped = self.diary.when_dropped("model dropped");
                async move {
                    let _dropped = dropped;
                    pending().await
                }
                .boxed()
            }
        }
    }
}

/// A reply of plain text.
pub(crate) fn says(text: &str) -> Turn {
    Turn::Says(Reply { text: text.to_owned(), ..Reply::default() })
}

/// A reply that calls these tools; the calls are k1, k2, …
pub(crate) fn calls(names: &[&str]) -> Turn {
    let call = |(at, name): (usize, &&str)| ReplyCall {
        id: Some(format!("k{}", at + 1)),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
    };
    let calls = names.iter().enumerate().map(call).collect();
    Turn::Says(Reply { calls, stop: Stop::Calls, ..Reply::default() })
}

type Code<I, O> = Box<dyn Fn(I) -> BoxFuture<'static, O> + Send + Sync>;

/// A host.
pub(crate) struct Crew {
    pub(crate) tool: Code<ToolCall, ToolEnd>,
    pub(crate) ask: Code<Request, AskEnd>,
}

impl Crew {
    /// Tools work like this; nobody is there to answer.
    pub(crate) fn new<F>(tool: impl Fn(ToolCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ToolEnd> + Send + 'static,
    {
        Self { tool: Box::new(move |call| tool(call).boxed()), ask: Box::new(|_| async { AskEnd::NotHere }.boxed()) }
    }

    /// And questions are answered like this.
    pub(crate) fn asked<F>(self, ask: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = AskEnd> + Send + 'static,
    {
        Self { ask: Box::new(move |request| ask(request).boxed()), ..self }
    }
}

impl Host for Crew {
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'static, ToolEnd> {
        (self.tool)(call)
    }

    fn ask(&self, request: Request) -> BoxFuture<'static, AskEnd> {
        (self.ask)(request)
    }
}

pub(crate) fn gives(text: &str) -> ToolEnd {
    ToolEnd::Finished(ToolOutput::text(text))
}

/// An approval that ends at `expires_at`.
pub(crate) fn approval(expires_at: Option<String>) -> ToolEnd {
    ToolEnd::Parked(Park { kind: "approval".into(), prompt: "pay?".into(), url: None, data: None, expires_at })
}

/// Local tools of these names, and the relay tool `moor`.
pub(crate) fn toolkit(local: &[&str]) -> Toolkit {
    let tool = |name: &str, kind| ToolDef {
        spec: ToolSpec { name: name.to_owned(), description: String::new(), schema: Json::empty_object() },
        kind,
        retry_safe: false,
        expires_after: None,
    };
    let mut tools: Vec<ToolDef> = local.iter().map(|name| tool(name, ToolKind::Local)).collect();
    tools.push(tool("moor", ToolKind::Relay));
    Toolkit::new(tools).unwrap()
}

pub(crate) fn client(model: impl Model + 'static) -> Client {
    Client {
        model: Arc::new(model),
        conversations: Conversations::new(Arc::new(MemoryStore::new()), "test", Duration::from_mins(1)),
        max_turns: 10,
        timeout: None,
        inline: true,
        expires_after: None,
    }
}

/// Begins with the prompt "go".
pub(crate) fn go() -> Start {
    Start::Prompt { prompt: Some(Message::user("go")), on_pending: OnPending::Refuse }
}

/// Goes on from where a transcript ends.
pub(crate) fn go_on() -> Start {
    Start::Prompt { prompt: None, on_pending: OnPending::Refuse }
}

/// One run from a transcript.
pub(crate) async fn run(
    client: &Client,
    history: Transcript,
    start: Start,
    crew: &Crew,
    tools: &Toolkit,
) -> Result<Report, RunError> {
    client.run(Place::History(history), start, crew, tools, CancellationToken::new()).await
}

/// The outcomes and texts of the results of a transcript.
pub(crate) fn results(transcript: &Transcript) -> Vec<(Outcome, String)> {
    let result = |message: &Message| Some((message.result()?.outcome, message.text()));
    transcript.messages().iter().filter_map(result).collect()
}

pub(crate) fn outcomes(transcript: &Transcript) -> Vec<Outcome> {
    results(transcript).into_iter().map(|(outcome, _)| outcome).collect()
}
