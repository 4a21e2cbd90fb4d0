//! Values that cross between Python and Rust as JSON bytes, and the Python types that wrap them.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolrelay_core::json::Json;

use crate::errors;
use crate::once::{self, intern};

/// A Python object for JSON text: integers of any size stay exact.
pub(crate) fn loads<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once::import(&DECODE, py, "toolrelay._json", "decode")?.call1((PyBytes::new(py, json),))
}

/// The JSON of a Python object.
pub(crate) fn dumps(value: &Bound<'_, PyAny>) -> PyResult<Json> {
    static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let json: String = once::import(&ENCODE, py, "toolrelay._json", "encode")?.call1((value,))?.extract()?;
    Json::parse(&json).map_err(|error| errors::raise(py, "PayloadError", &error.to_string()))
}

/// A value read from the JSON that the Python side wrote.
pub(crate) fn read<T: DeserializeOwned>(py: Python<'_>, what: &str, json: &[u8]) -> PyResult<T> {
    serde_json::from_slice(json).map_err(|error| {
        let place = format!("{:?} error at column {}", error.classify(), error.column());
        errors::raise(py, "PayloadError", &format!("{what} cannot be read: {place}"))
    })
}

/// A value's JSON.
pub(crate) fn write<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyBytes>> {
    let json = serde_json::to_vec(value).map_err(|error| errors::raise(py, "PayloadError", &error.to_string()))?;
    Ok(PyBytes::new(py, &json))
}

/// An instance of a class of `toolrelay.relay`, from the JSON of its Rust twin.
pub(crate) fn relay<'py>(py: Python<'py>, class: &str, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(intern!(py, "toolrelay.relay"))?;
    module.getattr(class)?.call_method1(intern!(py, "from_json"), (write(py, value)?,))
}

/// A class of `toolrelay.errors`.
pub(crate) fn error_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    let module = py.import(intern!(py, "toolrelay.errors"))?;
    Ok(module.getattr(name)?.cast_into::<PyType>()?)
}
