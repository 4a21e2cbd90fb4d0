//! One call of a provider in the shapes of Chat Completions.

use std::sync::Arc;

use pyo3::prelude::*;
use toolrelay_core::json::Json;
use toolrelay_core::wire::chat;
use toolrelay_runtime::translate::{Asked, TranslateError, whole};

use crate::bridge::future_into_py;
use crate::client::NativeClient;
use crate::host::Objects;
use crate::settings::tool_choice as choice_of;
use crate::toolkit::NativeToolkit;
use crate::transcript::PyTranscript;
use crate::{convert, errors};

/// What came of a call, turned into Python on the loop's thread.
struct Answered {
    outcome: Result<String, TranslateError>,
    objects: Arc<Objects>,
}

/// Calls the model once. `tools` is a JSON list; each of `params` a name and JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one call from the Python facade")]
pub(crate) fn _translate<'py>(
    client: &Bound<'py, NativeClient>,
    context: Py<PyAny>,
    messages: &Bound<'_, PyAny>,
    tools: Option<&str>,
    tool_choice: Option<(String, String)>,
    parallel_tool_calls: Option<bool>,
    params: Vec<(String, String)>,
    extras: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = client.py();
    let refuse = |text: String| errors::raise(py, "PayloadError", &text);
    let read = |(key, json): (String, String)| match Json::parse(&json) {
        Ok(json) => Ok((key, json)),
        Err(error) => Err(refuse(format!("{key}: {error}"))),
    };
    let asked = Asked {
        messages: PyTranscript::of(Some(messages))?,
        tools: tools.map(chat::tools).transpose().map_err(|error| refuse(error.to_string()))?.unwrap_or_default(),
        tool_choice: tool_choice.map(choice_of),
        parallel_tool_calls,
        params: params.into_iter().map(read).collect::<PyResult<_>>()?,
        extras,
    };
    let client = client.get();
    let host = client.host(py, context, None, &NativeToolkit::default())?;
    let (model, limit, objects) = (client.once_model(&host), client.timeout(), host.objects);
    future_into_py(py, async move {
        let outcome = whole(&*model, &asked, limit).await;
        drop(model);
        Ok::<_, PyErr>(Answered { outcome, objects })
    })
}

impl<'py> IntoPyObject<'py> for Answered {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self.outcome {
            Ok(json) => convert::loads(py, json.as_bytes()),
            Err(error) => Err(errors::translate_error(py, &error, self.objects.take_failure())),
        }
    }
}
