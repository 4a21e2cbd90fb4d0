//! A model that says the same in every life of a process, a host with a few tools, and a client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use toolrelay_core::answer::Answer;
use toolrelay_core::id::RequestId;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, ReplyCall, Stop};
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::OnPending;
use toolrelay_core::run::io::{ModelFailure, Park};
use toolrelay_core::tool::{ToolKind, ToolOutput, ToolSpec};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::WireError;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::host::{AskEnd, Host, ToolCall, ToolEnd};
use toolrelay_runtime::model::{Model, Session};
use toolrelay_runtime::store::{
    MemoryStore, PostgresOptions, PostgresStore, RedisOptions, RedisStore, SqliteStore, Store,
};
use toolrelay_runtime::toolkit::{ToolDef, Toolkit};
use toolrelay_runtime::watch::Watcher;

use crate::faulty::Faulty;
use crate::servers::{fresh, server};

pub(crate) const ID: &str = "c-1";
/// When the requests of `too_late` expire.
pub(crate) const PAST: &str = "2020-01-01T00:00:00Z";
pub(crate) type Ended = Result<Report, RunError>;
pub(crate) type Answering = fn(&Request) -> Answer;

/// A process with everything around it. Clones are further workers on the same store.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<Faulty>,
    pub(crate) stage: Arc<Stage>,
    toolkit: Arc<Toolkit>,
    pub(crate) lease: Duration,
    inline: bool,
    pub(crate) expires_after: Option<Duration>,
    _folder: Option<Arc<TempDir>>,
}

/// What happens outside the library, counted.
pub(crate) struct Stage {
    /// By the number of replies in the transcript.
    replies: Vec<Reply>,
    pub(crate) model_calls: AtomicUsize,
    /// So many model calls from now on fail.
    pub(crate) failures: AtomicUsize,
    /// A model call takes a permit and keeps it.
    pub(crate) model: Semaphore,
    /// A call of the tools `slow` and `count`, and of `vote` and `pay_slowly` with an answer, takes a permit and keeps it.
    pub(crate) slow: Semaphore,
    /// What the host was asked inline.
    pub(crate) asked: Mutex<Vec<Request>>,
    /// How it answers inline; nothing, never, where there is none.
    pub(crate) inline: Mutex<Option<Answering>>,
    /// The calls that ran, with `+` behind those that had an answer.
    ran: Mutex<Vec<String>>,
}

impl World {
    pub(crate) fn new(store: Arc<dyn Store>, replies: Vec<Reply>) -> Self {
        let stage = Stage {
            replies,
            model_calls: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            model: Semaphore::new(Semaphore::MAX_PERMITS),
            slow: Semaphore::new(0),
            asked: Mutex::default(),
            inline: Mutex::default(),
            ran: Mutex::default(),
        };
        let tools = [
            ("note", ToolKind::Local),
            ("pay", ToolKind::Local),
            ("slow", ToolKind::Local),
            ("count", ToolKind::Local),
            ("vote", ToolKind::Local),
            ("pay_slowly", ToolKind::Local),
            ("too_late", ToolKind::Local),
            ("click", ToolKind::Relay),
            ("type", ToolKind::Relay),
            ("brief", ToolKind::Relay),
            ("hurried", ToolKind::Relay),
        ];
        let define = |(name, kind): (&str, ToolKind)| {
            let schema = Json::parse(r#"{"type":"object"}"#).unwrap();
            let spec = ToolSpec { name: name.into(), description: String::new(), schema };
            let expires_after = match name {
                "brief" => Some(Duration::from_millis(1)),
                "hurried" => Some(Duration::from_secs(20)),
                _ => None,
            };
            ToolDef { spec, kind, retry_safe: ["count", "vote"].contains(&name), expires_after }
        };
        Self {
            store: Faulty::new(store),
            stage: Arc::new(stage),
            toolkit: Arc::new(Toolkit::new(tools.map(define).into()).unwrap()),
            lease: Duration::from_secs(30),
            inline: false,
            expires_after: None,
            _folder: None,
        }
    }

    pub(crate) fn in_memory(replies: Vec<Reply>) -> Self {
        Self::new(Arc::new(MemoryStore::new()), replies)
    }

    pub(crate) fn in_sqlite(replies: Vec<Reply>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("conversations.db")).unwrap();
        Self { _folder: Some(Arc::new(folder)), ..Self::new(Arc::new(store), replies) }
    }

    /// The same scenario over each store; over those on servers if the machine has the servers.
    pub(crate) fn each(replies: &[Reply]) -> Vec<Self> {
        let mut worlds = vec![Self::in_memory(replies.to_vec()), Self::in_sqlite(replies.to_vec())];
        worlds.extend(server("postgres", &[]).map(|url| {
            let options = PostgresOptions { schema: fresh("test"), ..PostgresOptions::default() };
            Self::new(Arc::new(PostgresStore::open_with(&url, options).unwrap()), replies.to_vec())
        }));
        worlds.extend(server("redis", &[]).map(|url| {
            let options = RedisOptions { prefix: fresh("test"), ..RedisOptions::default() };
            Self::new(Arc::new(RedisStore::open_with(&url, options).unwrap()), replies.to_vec())
        }));
        worlds
    }

    /// The same, with a client that asks inline.
    pub(crate) fn inline(self) -> Self {
        Self { inline: true, ..self }
    }

    pub(crate) fn conversations(&self) -> Conversations {
        Conversations::new(Arc::clone(&self.store) as Arc<dyn Store>, "worker", self.lease)
    }

    fn client(&self) -> Client {
        Client {
            model: Arc::new(ScriptedModel(Arc::clone(&self.stage))),
            conversations: self.conversations(),
            max_turns: 10,
            timeout: None,
            inline: self.inline,
            expires_after: self.expires_after,
        }
    }

    async fn run(&self, start: Start, stop: CancellationToken) -> Ended {
        self.run_at(Place::Conversation(ID.into()), start, stop, None).await
    }

    async fn run_at(&self, place: Place, start: Start, stop: CancellationToken, timeout: Option<Duration>) -> Ended {
        let client = Client { timeout, ..self.client() };
        let host = ScriptedHost(Arc::clone(&self.stage));
        client.run(place, start, &host, &self.toolkit, stop).await
    }

    pub(crate) async fn submit(&self, prompt: &str) -> Result<bool, RunError> {
        let start = Start::Prompt { prompt: Some(Message::user(prompt)), on_pending: OnPending::Refuse };
        self.client().submit(ID, &start, &self.toolkit).await
    }

    pub(crate) async fn submit_answer(&self, pending: &Request, answer: &Answer) -> Result<bool, RunError> {
        let (pending, answer) = (pending.clone(), answer.clone());
        self.client().submit(ID, &Start::Answer { pending, answer, missing: Missing::Error }, &self.toolkit).await
    }

    pub(crate) async fn ask(&self, prompt: &str) -> Ended {
        let prompt = Some(Message::user(prompt));
        self.run(Start::Prompt { prompt, on_pending: OnPending::Refuse }, CancellationToken::new()).await
    }

    pub(crate) async fn ask_instead(&self, prompt: &str) -> Ended {
        let prompt = Some(Message::user(prompt));
        self.run(Start::Prompt { prompt, on_pending: OnPending::Supersede }, CancellationToken::new()).await
    }

    pub(crate) async fn go_on(&self) -> Ended {
        self.run(Start::Prompt { prompt: None, on_pending: OnPending::Refuse }, CancellationToken::new()).await
    }

    /// Asks after the run that has the conversation.
    pub(crate) async fn ask_in_turn(&self, prompt: &str, stop: CancellationToken, timeout: Option<Duration>) -> Ended {
        let start = Start::Prompt { prompt: Some(Message::user(prompt)), on_pending: OnPending::Refuse };
        self.run_at(Place::InTurn(ID.into()), start, stop, timeout).await
    }

    /// Answers the request that the answer names.
    pub(crate) async fn answer_alone(&self, id: &str, answer: &Answer, missing: Missing) -> Ended {
        let start = Start::AnswerAlone { answer: answer.clone(), missing };
        self.run_at(Place::Conversation(id.into()), start, CancellationToken::new(), None).await
    }

    pub(crate) async fn recover(&self) -> Ended {
        self.run(Start::Recover, CancellationToken::new()).await
    }

    pub(crate) async fn answer(&self, pending: &Request, answer: &Answer) -> Ended {
        self.answer_until(pending, answer, CancellationToken::new()).await
    }

    pub(crate) async fn answer_until(&self, pending: &Request, answer: &Answer, stop: CancellationToken) -> Ended {
        let (pending, answer) = (pending.clone(), answer.clone());
        self.run(Start::Answer { pending, answer, missing: Missing::Error }, stop).await
    }

    pub(crate) async fn answer_partly(&self, pending: &Request, answer: &Answer) -> Ended {
        let (pending, answer) = (pending.clone(), answer.clone());
        self.run(Start::Answer { pending, answer, missing: Missing::Wait }, CancellationToken::new()).await
    }

    /// Model calls wait from now on until permits are added.
    pub(crate) fn hold_model(&self) {
        self.stage.model.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// What lies in the store.
    pub(crate) async fn stored(&self) -> toolrelay_runtime::store::Conversation {
        let id = toolrelay_runtime::store::ConversationId::new(ID).unwrap();
        self.store.load(&id).await.unwrap().unwrap()
    }

    pub(crate) fn model_calls(&self) -> usize {
        self.stage.model_calls.load(Ordering::SeqCst)
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.stage.ran.lock().unwrap().clone()
    }
}

struct ScriptedModel(Arc<Stage>);
struct ScriptedSession(Arc<Stage>);
struct ScriptedHost(Arc<Stage>);

impl Model for ScriptedModel {
    fn open(&self, _tools: &Toolkit, _watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        Ok(Box::new(ScriptedSession(Arc::clone(&self.0))))
    }
}

impl Session for ScriptedSession {
    fn call(&self, transcript: &Transcript) -> BoxFuture<'static, Result<Reply, ModelFailure>> {
        let stage = Arc::clone(&self.0);
        let made = transcript.messages().iter().filter(|message| message.assistant().is_some()).count();
        let reply = stage.replies.get(made).cloned().unwrap_or_else(|| says("and so on"));
        stage.model_calls.fetch_add(1, Ordering::SeqCst);
        let fails = stage.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        Box::pin(async move {
            yield_now().await;
            stage.model.acquire().await.unwrap().forget();
            if fails { Err(ModelFailure::in_process("no model today")) } else { Ok(reply) }
        })
    }
}

impl Host for ScriptedHost {
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'static, ToolEnd> {
        let stage = Arc::clone(&self.0);
        let mark = if call.answer.is_some() { "+" } else { "" };
        stage.ran.lock().unwrap().push(format!("{}{mark}", call.id));
        Box::pin(async move {
            yield_now().await;
            match (call.name.as_str(), &call.answer) {
                ("pay" | "vote" | "pay_slowly" | "too_late", None) => ToolEnd::Parked(Park {
                    kind: "approval".into(),
                    prompt: "pay?".into(),
                    url: None,
                    data: None,
                    expires_at: (call.name == "too_late").then(|| PAST.to_owned()),
                }),
                ("slow" | "count" | "vote" | "pay_slowly", _) => {
                    stage.slow.acquire().await.unwrap().forget();
                    ToolEnd::Finished(ToolOutput::text("at last"))
                }
                (name, _) => ToolEnd::Finished(ToolOutput::text(format!("{name} done"))),
            }
        })
    }

    fn ask(&self, request: Request) -> BoxFuture<'static, AskEnd> {
        let stage = Arc::clone(&self.0);
        stage.asked.lock().unwrap().push(request.clone());
        let answer = *stage.inline.lock().unwrap();
        match answer {
            Some(answer) => Box::pin(async move { AskEnd::Answered(answer(&request)) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply { text: text.into(), ..Reply::default() }
}

/// A reply with calls, each `(id, tool)`.
pub(crate) fn calls(calls: &[(&str, &str)]) -> Reply {
    let calls = calls.iter().map(|(id, name)| ReplyCall {
        id: Some((*id).into()),
        name: (*name).into(),
        arguments: format!(r#"{{"of": "{id}"}}"#),
    });
    Reply { calls: calls.collect(), stop: Stop::Calls, ..Reply::default() }
}

pub(crate) fn yes(request: &Request) -> Answer {
    Answer { id: request.id.clone(), ok: true, data: None, reason: None }
}

/// An answer to relay calls, each `(id, output)`.
pub(crate) fn results(request: &RequestId, results: &[(&str, &str)]) -> Answer {
    let entries: Vec<String> =
        results.iter().map(|(id, output)| format!(r#"{{"id":"{id}","output":"{output}","isError":false}}"#)).collect();
    let data = Json::parse(&format!(r#"{{"results":[{}]}}"#, entries.join(","))).unwrap();
    Answer { id: request.clone(), ok: true, data: Some(data), reason: None }
}

/// A transcript to compare: one line per message, each result with how it ended.
pub(crate) fn play(transcript: &Transcript) -> Vec<String> {
    let line = |message: &Message| match message.result() {
        Some(result) if result.pending.is_some() => format!("{}: pending", result.call),
        Some(result) if result.outcome.is_ok() => format!("{}: {}", result.call, message.text()),
        Some(result) => format!("{}: {:?}", result.call, result.outcome).to_lowercase(),
        None if message.calls().is_empty() => match message.assistant() {
            Some(_) => format!("model: {}", message.text()),
            None => format!("user: {}", message.text()),
        },
        None => {
            let calls = message.calls().iter().map(|call| format!("{}={}", call.id, call.name));
            format!("model: {}", calls.collect::<Vec<_>>().join(" "))
        }
    };
    transcript.messages().iter().map(line).collect()
}
