//! `Usage`: tokens, for Python to look at.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use toolrelay_core::reply::Usage;

use crate::convert;

/// Tokens, as the provider counts them.
#[pyclass(name = "Usage", module = "toolrelay", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyUsage(pub(crate) Usage);

#[pymethods]
impl PyUsage {
    #[getter]
    fn input_tokens(&self) -> u64 {
        self.0.input_tokens
    }

    #[getter]
    fn output_tokens(&self) -> u64 {
        self.0.output_tokens
    }

    #[getter]
    fn cached_tokens(&self) -> u64 {
        self.0.cached_tokens
    }

    #[getter]
    fn cache_write_tokens(&self) -> u64 {
        self.0.cache_write_tokens
    }

    #[getter]
    fn reasoning_tokens(&self) -> u64 {
        self.0.reasoning_tokens
    }

    fn __repr__(&self) -> String {
        let Usage { input_tokens, output_tokens, cached_tokens, .. } = self.0;
        format!("<Usage: {input_tokens} in ({cached_tokens} cached), {output_tokens} out>")
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.0.input_tokens, self.0.output_tokens).into_pyobject(py)?.hash()
    }

    #[classmethod]
    fn _restore(_class: &Bound<'_, PyType>, py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        convert::read(py, "the saved usage", json).map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((slf.get_type().getattr("_restore")?, (convert::write(slf.py(), &slf.get().0)?,)))
    }
}
