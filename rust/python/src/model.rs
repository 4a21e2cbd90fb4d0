//! The in-process model: the host's own function, called on the loop with OpenAI-shaped messages.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toolrelay_core::reply::Reply;
use toolrelay_core::run::io::ModelFailure;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::{Head, Prefix, Style, WireError, chat};
use toolrelay_runtime::model::{Model, Session};
use toolrelay_runtime::toolkit::Toolkit;
use toolrelay_runtime::translate::{Once, OnceModel};
use toolrelay_runtime::watch::{Watcher, tell_whole};

use crate::host::{End, PyHost};
use crate::speech::Speech;

/// The host's function as a model.
pub(crate) struct PyModel {
    pub(crate) host: PyHost,
    pub(crate) system: Option<String>,
}

struct PySession {
    host: PyHost,
    prefix: Prefix,
    watcher: Option<Arc<dyn Watcher>>,
}

impl Model for PyModel {
    fn open(&self, tools: &Toolkit, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        let head = Head { model: NAME, system: self.system.as_deref(), tools: tools.specs(), ..Head::default() };
        Ok(Box::new(PySession { host: self.host.clone(), prefix: Style::OpenAi.head(&head)?, watcher }))
    }
}

impl OnceModel for PyModel {
    fn open_once(&self, once: &Once<'_>, watcher: Option<Arc<dyn Watcher>>) -> Result<Box<dyn Session>, WireError> {
        let params = chat::params(Style::OpenAi, None, &[], once.params)?;
        let head = Head {
            model: NAME,
            tools: once.tools,
            tool_choice: once.tool_choice,
            parallel_tool_calls: once.parallel_tool_calls,
            params: &params,
            ..Head::default()
        };
        Ok(Box::new(PySession { host: self.host.clone(), prefix: chat::head(Style::OpenAi, &head)?, watcher }))
    }

    fn name(&self) -> &str {
        NAME
    }
}

const NAME: &str = "in-process";

impl Session for PySession {
    fn call(&self, transcript: &Transcript) -> BoxFuture<'static, Result<Reply, ModelFailure>> {
        let body = match self.prefix.body(transcript.messages()) {
            Ok(body) => body.chunks.concat(),
            Err(error) => return ready(Err(ModelFailure::in_process(error.to_string()))).boxed(),
        };
        let speech = Speech::to(self.watcher.clone());
        let heard = speech.twin();
        let ended = self.host.pull("start_model", move |py, objects| {
            let generate = objects.generate.as_ref().map_or_else(|| py.None(), |generate| generate.clone_ref(py));
            let speech = Bound::new(py, speech)?.into_any();
            Ok(vec![generate.into_bound(py), PyBytes::new(py, &body).into_any(), speech])
        });
        let watcher = self.watcher.clone();
        Box::pin(ended.map(move |end| match end {
            Some(End::Model(reply)) => {
                if let (Some(watcher), Ok(reply), false) = (watcher, &reply, heard.is_begun()) {
                    tell_whole(&*watcher, reply);
                }
                reply
            }
            Some(End::Tool(_) | End::Ask(_) | End::Store(_)) | None => {
                Err(ModelFailure::in_process("its task was cancelled"))
            }
        }))
    }
}
