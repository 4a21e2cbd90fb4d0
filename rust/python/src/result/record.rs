//! `ToolCallRecord`: one call of a run, for Python to look at.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use toolrelay_core::run::CallRecord;

use crate::convert;

/// One call of a run.
#[pyclass(module = "toolrelay", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct ToolCallRecord(pub(super) CallRecord);

#[pymethods]
impl ToolCallRecord {
    #[getter]
    fn id(&self) -> &str {
        self.0.id.as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn input<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::loads(py, self.0.input.get().as_bytes())
    }

    #[getter]
    fn arguments(&self) -> &str {
        &self.0.arguments
    }

    #[getter]
    fn output(&self) -> &str {
        &self.0.output
    }

    #[getter]
    fn is_error(&self) -> bool {
        self.0.is_error
    }

    #[getter]
    fn pending(&self) -> bool {
        self.0.pending
    }

    fn __repr__(&self) -> String {
        let state = match (self.0.pending, self.0.is_error) {
            (true, _) => "pending",
            (false, true) => "error",
            (false, false) => "ok",
        };
        format!("<ToolCallRecord {} [{}]: {state}>", self.0.name, self.0.id)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.0.id.as_str(), &self.0.output).into_pyobject(py)?.hash()
    }

    #[classmethod]
    fn _restore(_class: &Bound<'_, PyType>, py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        convert::read(py, "the saved record", json).map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((slf.get_type().getattr("_restore")?, (convert::write(slf.py(), &slf.get().0)?,)))
    }
}
