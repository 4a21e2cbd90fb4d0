//! `NativeToolkit`: the checked tools of a run and the Python objects that execute them.

use std::sync::Arc;
use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use toolrelay_core::json::Json;
use toolrelay_core::tool::{ToolKind, ToolSpec};
use toolrelay_runtime::toolkit::{BUILTIN_NAMES, ToolDef, Toolkit};

use crate::errors;

/// The checked tools of a run.
#[pyclass(module = "toolrelay._core", frozen)]
#[derive(Default)]
pub(crate) struct NativeToolkit {
    pub(crate) tools: Arc<Toolkit>,
    /// The Python tools in the same order.
    pub(crate) objects: Vec<Py<PyAny>>,
}

#[pymethods]
impl NativeToolkit {
    #[classattr]
    const BUILTIN_NAMES: [&'static str; 10] = BUILTIN_NAMES;

    /// The tools, each with its schema as JSON.
    #[new]
    fn new(py: Python<'_>, tools: Vec<(Bound<'_, PyAny>, String)>) -> PyResult<Self> {
        let mut definitions = Vec::with_capacity(tools.len());
        let mut objects = Vec::with_capacity(tools.len());
        for (object, schema) in tools {
            let GivenTool { name, description, relay, retry_safe, expires_after } = object.extract()?;
            let schema = Json::parse(&schema)
                .map_err(|error| errors::raise(py, "ToolkitError", &format!("the schema of {name:?}: {error}")))?;
            let kind = if relay { ToolKind::Relay } else { ToolKind::Local };
            let expires_after = expires_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let spec = ToolSpec { name, description, schema };
            definitions.push(ToolDef { spec, kind, retry_safe, expires_after });
            objects.push(object.unbind());
        }
        let tools = Toolkit::new(definitions).map_err(|error| errors::toolkit_error(py, &error))?;
        Ok(Self { tools: Arc::new(tools), objects })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.objects.iter().try_for_each(|tool| visit.call(tool))
    }
}

/// What a `Tool` says of itself.
#[derive(FromPyObject)]
struct GivenTool {
    name: String,
    description: String,
    relay: bool,
    retry_safe: bool,
    /// In seconds.
    expires_after: Option<f64>,
}
