//! A model behind HTTP: what is the same for every request is prepared once, the rest is the
//! transcript's own bytes.

mod reading;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, ready};
use thiserror::Error;
use toolrelay_core::json::Json;
use toolrelay_core::message::Body;
use toolrelay_core::reply::Reply;
use toolrelay_core::run::io::ModelFailure;
use toolrelay_core::tool::ToolSpec;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::{Head, Prefix, Profile, Style, ToolChoice, WireError, chat};

use crate::http::{Blocks, Endpoint, EndpointError, HeaderError, Headers, HttpRequest, Transport};
use crate::model::{Model, Session};
use crate::retry::{self, RetryPolicy};
use crate::toolkit::Toolkit;
use crate::translate::{Once, OnceModel};
use crate::watch::Watcher;

use reading::Reading;

/// How a provider is reached and what it is asked for. Its debug form names no secret.
#[derive(Clone)]
pub struct HttpModelConfig {
    /// The provider's style.
    pub style: Style,
    /// As the provider's official SDK takes it.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// Empty for a server that wants none.
    pub api_key: String,
    /// More headers.
    pub headers: Vec<(String, String)>,
    /// The system prompt.
    pub system: Option<String>,
    /// More request parameters.
    pub params: Vec<(String, Json)>,
    /// Whether the model may call tools. A choice that forces a call holds for replies to a prompt.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may make several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// How the server differs from its style; left out, as its address tells.
    pub profile: Option<Arc<Profile>>,
    /// Whether prompts are marked for the provider's cache; left out, where that saves money.
    pub prompt_cache: Option<bool>,
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
    /// The longest time without content in a streamed reply, however alive the stream is.
    pub progress_timeout: Duration,
}

/// Why a model cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HttpModelError {
    /// The base URL is none.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A header is none.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A request parameter cannot be sent.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// A model behind HTTP.
pub struct HttpModel {
    config: HttpModelConfig,
    endpoint: Endpoint,
    /// For replies that are streamed.
    stream_endpoint: Endpoint,
    headers: Headers,
    transport: Arc<dyn Transport>,
}

impl fmt::Debug for HttpModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpModelConfig");
        shown.field("style", &self.style).field("model", &self.model).finish_non_exhaustive()
    }
}

impl HttpModelConfig {
    /// A model at an address, and nothing said beyond that.
    pub fn new(
        style: Style,
        base_url: impl Into<String>,
        model: impl Into<String>,
        api_key: impl Into<String>,
    ) -> Self {
        Self {
            style,
            base_url: base_url.into(),
            model: model.into(),
            api_key: api_key.into(),
            headers: Vec::new(),
            system: None,
            params: Vec::new(),
            tool_choice: None,
            parallel_tool_calls: None,
            profile: None,
            prompt_cache: None,
            retry: RetryPolicy::default(),
            progress_timeout: Duration::from_mins(10),
        }
    }

    fn head<'a>(&'a self, tools: &'a [ToolSpec], stream: bool) -> Head<'a> {
        Head {
            model: &self.model,
            system: self.system.as_deref(),
            tools,
            params: &self.params,
            tool_choice: self.tool_choice.as_ref(),
            parallel_tool_calls: self.parallel_tool_calls,
            profile: self.profile.as_ref(),
            prompt_cache: self.prompt_cache,
            stream,
        }
    }
}

impl HttpModel {
    /// Checks the address, the headers and the parameters; nothing is opened.
    pub fn new(mut config: HttpModelConfig, transport: Arc<dyn Transport>) -> Result<Self, HttpModelError> {
        if config.profile.is_none() {
            config.profile = Profile::of_address(config.style, &config.base_url).map(Arc::new);
        }
        let endpoint = |stream| Endpoint::parse(&config.style.url(&config.base_url, &config.model, stream));
        let (endpoint, stream_endpoint) = (endpoint(false)?, endpoint(true)?);
        let mut headers = Headers::new();
        for (name, value) in config.style.auth_headers(&config.api_key) {
            headers.insert(name, &value)?;
        }
        for (name, value) in &config.headers {
            headers.insert(name, value)?;
        }
        config.style.head(&config.head(&[], false))?;
        Ok(Self { config, endpoint, stream_endpoint, headers, transport })
    }
}

impl HttpModel {
    fn session(&self, prefix: Prefix, prompted: Option<Prefix>, watcher: Option<Arc<dyn Watcher>>) -> HttpSession {
        let Self { config, .. } = self;
        let is_streamed = watcher.is_some();
        let reading = Reading { style: config.style, watcher, progress_timeout: config.progress_timeout };
        HttpSession {
            prefix,
            prompted,
            reading: Arc::new(reading),
            endpoint: if is_streamed { &self.stream_endpoint } else { &self.endpoint }.clone(),
            headers: self.headers.clone(),
            transport: Arc::clone(&self.transport),
            retry: config.retry,
            blocks: Mutex::default(),
        }
    }
}

impl Model for HttpModel {
    fn open(&self, tools: &Toolkit, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        let style = self.config.style;
        let head = self.config.head(tools.specs(), watcher.is_some());
        let forced = head.tool_choice.filter(|choice| choice.is_forced());
        let prefix = style.head(&Head { tool_choice: head.tool_choice.xor(forced), ..head })?;
        let prompted = forced.map(|_| style.head(&head)).transpose()?;
        Ok(Box::new(self.session(prefix, prompted, watcher)))
    }
}

impl OnceModel for HttpModel {
    fn open_once(&self, once: &Once<'_>, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        let config = &self.config;
        let params = chat::params(config.style, config.profile.as_deref(), &config.params, once.params)?;
        let head = Head {
            system: None,
            params: &params,
            tool_choice: once.tool_choice,
            parallel_tool_calls: once.parallel_tool_calls,
            ..config.head(once.tools, watcher.is_some())
        };
        Ok(Box::new(self.session(chat::head(config.style, &head)?, None, watcher)))
    }

    fn name(&self) -> &str {
        &self.config.model
    }
}

struct HttpSession {
    prefix: Prefix,
    /// The prefix for a reply to a prompt, if that must call a tool. Held for longer, such a choice
    /// would have the model call tools for ever.
    prompted: Option<Prefix>,
    reading: Arc<Reading>,
    endpoint: Endpoint,
    headers: Headers,
    transport: Arc<dyn Transport>,
    retry: RetryPolicy,
    /// What the requests of the run have in common.
    blocks: Mutex<Blocks>,
}

impl Session for HttpSession {
    fn call(&self, transcript: &Transcript) -> BoxFuture<'static, Result<Reply, ModelFailure>> {
        let is_prompted = transcript.messages().last().is_some_and(|last| *last.body() == Body::User);
        let prefix = self.prompted.as_ref().filter(|_| is_prompted).unwrap_or(&self.prefix);
        let body = match prefix.body(transcript.messages()) {
            Ok(body) => body,
            Err(error) => return ready(Err(ModelFailure::Unsendable { reason: error.to_string() })).boxed(),
        };
        let slices = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).join(body.chunks);
        let request = HttpRequest::post(&self.endpoint, &self.headers, slices);
        let (reading, retry, transport) = (Arc::clone(&self.reading), self.retry, Arc::clone(&self.transport));
        Box::pin(async move {
            let reply = retry::send(&*transport, &request, &retry, |response| {
                let reading = Arc::clone(&reading);
                Box::pin(async move { reading.read(response).await })
            });
            let reply = reply.await;
            reply.map_err(ModelFailure::Provider)
        })
    }
}
