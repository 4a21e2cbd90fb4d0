//! One call of a provider in the shapes of Chat Completions, whatever style the provider speaks: no
//! loop, no state, and nothing that runs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::time::timeout;
use toolrelay_core::json::Json;
use toolrelay_core::repair::{self, Warning};
use toolrelay_core::run::io::ModelFailure;
use toolrelay_core::tool::ToolSpec;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::completion::Completion;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_core::wire::names::gemini_name;
use toolrelay_core::wire::stream::Delta;
use toolrelay_core::wire::{ToolChoice, WireError};

use crate::client::entropy;
use crate::model::Session;
use crate::watch::{Told, Watcher};

/// A model that can be called once, for no run.
pub trait OnceModel: Send + Sync {
    /// Prepares the call. The reply is streamed for a watcher.
    fn open_once(&self, once: &Once<'_>, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError>;

    /// The model's name.
    fn name(&self) -> &str;
}

/// What a single call asks for beside the messages, in the words of Chat Completions.
#[derive(Clone, Copy, Debug)]
pub struct Once<'a> {
    /// The tools.
    pub tools: &'a [ToolSpec],
    /// Whether the model may call them.
    pub tool_choice: Option<&'a ToolChoice>,
    /// Whether it may make several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// More request parameters.
    pub params: &'a [(String, Json)],
}

/// What is asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// The messages.
    pub messages: Transcript,
    /// The tools.
    pub tools: Vec<ToolSpec>,
    /// Whether the model may call them.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may make several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// More request parameters, in the words of Chat Completions.
    pub params: Vec<(String, Json)>,
    /// Whether the answer may hold more than Chat Completions has.
    pub extras: bool,
    /// Whether an answer in chunks has one more, with its cost.
    pub with_usage: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranslateError {
    /// The messages cannot be sent. Nothing was.
    #[error("the messages cannot be sent: {reason}")]
    Messages {
        /// What is wrong with them.
        reason: String,
    },
    /// Two tools are one to the provider. Nothing was sent.
    #[error("there are two tools named {tool:?}, or with the same name for a provider; rename one")]
    Tools {
        /// The tool.
        tool: String,
    },
    /// The tools or parameters cannot be put in the provider's form. Nothing was sent.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The model failed.
    #[error(transparent)]
    Model(ModelFailure),
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness for ids: {reason}")]
    Entropy {
        /// What it says.
        reason: String,
    },
}

/// Takes the chunks of an answer that is streamed.
pub trait Reader: Send + Sync {
    /// Takes chunks, each the JSON of one. It never blocks.
    fn take(&self, chunks: Vec<String>);
    /// Ready when there is room for more.
    fn room(&self) -> BoxFuture<'static, ()>;
}

/// Asks for the answer as one response: its JSON.
pub async fn whole(model: &dyn OnceModel, asked: &Asked, limit: Option<Duration>) -> Result<String, TranslateError> {
    let (messages, completion) = prepare(model, asked)?;
    let reply = model.open_once(&once(asked), None)?.call(&messages);
    let reply = within(limit, reply).await?;
    Ok(completion.whole(reply))
}

/// Asks for the answer in chunks.
pub async fn streamed(
    model: &dyn OnceModel,
    asked: &Asked,
    limit: Option<Duration>,
    reader: Arc<dyn Reader>,
) -> Result<(), TranslateError> {
    let (messages, completion) = prepare(model, asked)?;
    let chunked = Arc::new(Chunked { completion: Mutex::new(Some(completion)), reader: Arc::clone(&reader) });
    let watcher = Arc::clone(&chunked) as Arc<dyn Watcher>;
    let reply = model.open_once(&once(asked), Some(watcher))?.call(&messages);
    let reply = within(limit, reply).await?;
    let completion = chunked.completion.lock().unwrap_or_else(PoisonError::into_inner).take();
    reader.take(completion.map(|completion| completion.end(&reply)).unwrap_or_default());
    Ok(())
}

fn once(asked: &Asked) -> Once<'_> {
    Once {
        tools: &asked.tools,
        tool_choice: asked.tool_choice.as_ref(),
        parallel_tool_calls: asked.parallel_tool_calls,
        params: &asked.params,
    }
}

/// The messages in order, if each call has its result, and the completion that answers them.
fn prepare(model: &dyn OnceModel, asked: &Asked) -> Result<(Transcript, Completion), TranslateError> {
    let mut names = HashSet::with_capacity(asked.tools.len());
    if let Some(tool) = asked.tools.iter().find(|tool| !names.insert(gemini_name(&tool.name))) {
        return Err(TranslateError::Tools { tool: tool.name.clone() });
    }
    let unsendable = |reason: String| TranslateError::Messages { reason };
    let mended = repair::mend(asked.messages.clone()).map_err(|conflict| unsendable(conflict.to_string()))?;
    let is_missing = |warning: &&Warning| match warning {
        Warning::ResultWithoutCall { .. } | Warning::NoResult { .. } | Warning::PassedOver { .. } => true,
        Warning::NewId { .. } | Warning::Moved { .. } => false,
    };
    if let Some(warning) = mended.warnings.iter().find(is_missing) {
        return Err(unsendable(match warning {
            Warning::ResultWithoutCall { call } => format!("there is a result for the unknown call {call}"),
            Warning::NoResult { call, name } | Warning::PassedOver { call, name } => {
                format!("the call {call} of {name:?} has no result")
            }
            Warning::NewId { .. } | Warning::Moved { .. } => warning.to_string(),
        }));
    }
    let seed = entropy().map_err(|reason| TranslateError::Entropy { reason })?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let stated = asked.params.iter().rev().find(|(key, _)| key == "model");
    let stated = stated.and_then(|(_, json)| serde_json::from_str::<String>(json.get()).ok());
    let name = stated.as_deref().unwrap_or(model.name());
    let completion = Completion::new(seed, created, name, &asked.tools, mended.transcript.messages());
    let completion = if asked.with_usage { completion.with_usage() } else { completion };
    Ok((mended.transcript, if asked.extras { completion } else { completion.plain() }))
}

async fn within<T>(
    limit: Option<Duration>,
    reply: impl Future<Output = Result<T, ModelFailure>>,
) -> Result<T, TranslateError> {
    let ended = match limit {
        None => reply.await,
        Some(limit) => timeout(limit, reply).await.unwrap_or_else(|_| {
            let message = format!("no whole reply within {limit:?}");
            Err(ModelFailure::Provider(ProviderFailure::new(FailureKind::Timeout, message)))
        }),
    };
    ended.map_err(|failure| match failure {
        ModelFailure::Unsendable { reason } => TranslateError::Messages { reason },
        ModelFailure::Provider(_) | ModelFailure::InProcess { .. } => TranslateError::Model(failure),
    })
}

/// A watcher that makes chunks of what it is told.
struct Chunked {
    /// Taken at the end.
    completion: Mutex<Option<Completion>>,
    reader: Arc<dyn Reader>,
}

impl Watcher for Chunked {
    fn tell(&self, told: Vec<Told>) {
        let deltas: Vec<&Delta> = told
            .iter()
            .filter_map(|told| match told {
                Told::Delta(delta) => Some(delta),
                Told::Event(_) => None,
            })
            .collect();
        let mut completion = self.completion.lock().unwrap_or_else(PoisonError::into_inner);
        let chunks = completion.as_mut().map(|completion| completion.chunks(deltas)).unwrap_or_default();
        drop(completion);
        self.reader.take(chunks);
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        self.reader.room()
    }
}
