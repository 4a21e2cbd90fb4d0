//! What the runtime asks of a model: one reply to a transcript.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolrelay_core::reply::Reply;
use toolrelay_core::run::io::ModelFailure;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::WireError;

use crate::toolkit::Toolkit;
use crate::watch::Watcher;

/// A model, reached in one way or another.
pub trait Model: Send + Sync {
    /// Prepares what does not change over a run with these tools. Replies are streamed for a watcher.
    fn open(&self, tools: &Toolkit, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError>;
}

/// A model with the tools of one run.
pub trait Session: Send + Sync {
    /// Asks for the reply to a transcript. What must be read of the transcript is read at once;
    /// the future does not hold it. Dropping the future stops the call.
    fn call(&self, transcript: &Transcript) -> BoxFuture<'static, Result<Reply, ModelFailure>>;
}
