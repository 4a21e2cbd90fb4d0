//! One call of a provider in the shapes of Chat Completions, as a whole or chunk by chunk.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use toolrelay_core::json::Json;
use toolrelay_core::wire::chat::{self, ToolsError};
use toolrelay_runtime::translate::{Asked, Reader, TranslateError, streamed, whole};

use crate::client::NativeClient;
use crate::feed::{Feed, Item};
use crate::host::Objects;
use crate::settings::tool_choice as choice_of;
use crate::transcript::PyTranscript;
use crate::underway::Underway;
use crate::{convert, errors};

/// A call under way.
#[pyclass(module = "toolrelay._core", frozen)]
pub(crate) struct Translation {
    /// Its answer in chunks, if it is streamed.
    feed: Option<Feed<Chunk>>,
    call: Underway<Answered>,
}

/// The JSON of a chunk.
struct Chunk(String);

/// What came of a call, turned into Python on the loop's thread.
#[derive(Clone)]
struct Answered {
    /// The JSON of the whole answer. `None` where it went by in chunks, or the call was stopped.
    outcome: Result<Option<String>, TranslateError>,
    objects: Arc<Objects>,
}

/// Calls the model once. `tools` is a JSON list; each of `params` a name and JSON. With `stream` the answer comes in
/// chunks, and says whether the last one is to tell the cost.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one call from the Python facade")]
pub(crate) fn _translate(
    client: &Bound<'_, NativeClient>,
    context: Py<PyAny>,
    messages: &Bound<'_, PyAny>,
    tools: Option<&str>,
    tool_choice: Option<(String, String)>,
    parallel_tool_calls: Option<bool>,
    params: Vec<(String, String)>,
    extras: bool,
    stream: Option<bool>,
) -> PyResult<Translation> {
    let py = client.py();
    let read = |(key, json): (String, String)| match Json::parse(&json) {
        Ok(json) => Ok((key, json)),
        Err(error) => Err(errors::payload_error(py, &format!("{key}: {error}"), Some(&key))),
    };
    let refuse = |error: ToolsError| errors::payload_error(py, &error.to_string(), Some(&error.key));
    let asked = Asked {
        messages: PyTranscript::of(Some(messages))?,
        tools: tools.map(chat::tools).transpose().map_err(refuse)?.unwrap_or_default(),
        tool_choice: tool_choice.map(choice_of),
        parallel_tool_calls,
        params: params.into_iter().map(read).collect::<PyResult<_>>()?,
        extras,
        with_usage: stream == Some(true),
    };
    let client = client.get();
    let host = client.host(py, context, None)?;
    let (model, limit) = (client.once_model(&host), client.timeout());
    let feed = stream.map(|_| Feed::new(Arc::clone(&host.port)));
    let reader = feed.clone().map(|feed| Arc::new(feed) as Arc<dyn Reader>);
    let call = Underway::begin(Arc::clone(&host.port), feed.as_ref(), |stop| async move {
        let asking = async {
            match reader {
                Some(reader) => streamed(&*model, &asked, limit, reader).await.map(|()| None),
                None => whole(&*model, &asked, limit).await.map(Some),
            }
        };
        let outcome = stop.run_until_cancelled(asking).await.unwrap_or(Ok(None));
        drop(model);
        Answered { outcome, objects: host.objects }
    });
    Ok(Translation { feed, call })
}

#[pymethods]
impl Translation {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.call.traverse(|answered| &answered.objects, &visit)
    }

    /// The caller's future: the answer, or the exception. Cancelling it stops the call.
    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.call.future(py)
    }

    /// The chunks since the last time, as a list, or a future of it where there are none yet; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.feed.as_ref().map_or(Ok(None), |feed| feed.next(py))
    }

    /// Asks the call to stop. In a forked child it is the parent's.
    fn stop(&self) {
        self.call.stop();
    }

    /// The end of the call, for a caller who has stopped it, or read to its end. A forked child gets none: the call is
    /// its parent's.
    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.call.ended(py)
    }

    /// The tasks that an ended call gave up and that may not be done with their cleaning up; each is told once.
    fn given_up(&self) -> Vec<Py<PyAny>> {
        self.call.end(|answered| answered.objects.take_given_up()).unwrap_or_default()
    }
}

impl Item for Chunk {
    fn weight(&self) -> usize {
        self.0.len()
    }

    fn show(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        convert::loads(py, self.0.as_bytes())
    }
}

impl Reader for Feed<Chunk> {
    fn take(&self, chunks: Vec<String>) {
        self.add(chunks.into_iter().map(Chunk).collect());
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        self.room()
    }
}

impl<'py> IntoPyObject<'py> for Answered {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self.outcome {
            Ok(Some(json)) => convert::loads(py, json.as_bytes()),
            Ok(None) => Ok(py.None().into_bound(py)),
            Err(error) => Err(errors::translate_error(py, &error, self.objects.take_failure())),
        }
    }
}
