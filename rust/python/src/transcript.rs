//! `Transcript`: the messages of a conversation as an immutable sequence of dicts, built lazily.

use bytes::Bytes;
use pyo3::exceptions::{PyIndexError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyNotImplemented, PySlice, PyTuple, PyType};
use toolrelay_core::transcript::Transcript;

use crate::{convert, errors};

/// The messages of a conversation.
#[pyclass(name = "Transcript", module = "toolrelay", frozen, sequence)]
pub(crate) struct PyTranscript(Transcript);

impl From<Transcript> for PyTranscript {
    fn from(transcript: Transcript) -> Self {
        Self(transcript)
    }
}

impl PyTranscript {
    /// The transcript that any form of a history holds: a `Transcript`, JSON, or none.
    pub(crate) fn of(history: Option<&Bound<'_, PyAny>>) -> PyResult<Transcript> {
        let Some(history) = history else { return Ok(Transcript::default()) };
        if let Ok(transcript) = history.cast::<Self>() {
            return Ok(transcript.get().0.clone());
        }
        Transcript::from_json(shared(history)?).map_err(|error| errors::transcript_error(history.py(), &error))
    }

    fn item<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.0.messages().get(at) {
            Some(message) => convert::loads(py, message.json()),
            None => Err(PyIndexError::new_err("transcript index out of range")),
        }
    }

    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let items = (0..self.0.len()).map(|at| self.item(py, at)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, items)
    }
}

/// The bytes of a Python object. Those of `bytes` are not copied: the object lives as long as they do.
fn shared(json: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    match json.extract::<PyBackedBytes>() {
        Ok(bytes) => Ok(Bytes::from_owner(bytes)),
        Err(_) => Ok(Bytes::from(json.extract::<Vec<u8>>()?)),
    }
}

#[pymethods]
impl PyTranscript {
    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, py: Python<'_>, json: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes: Bytes = match json.extract::<&str>() {
            Ok(text) => Bytes::copy_from_slice(text.as_bytes()),
            Err(_) => shared(json)?,
        };
        let read = py.detach(|| Transcript::from_json(bytes));
        read.map(Self).map_err(|error| errors::transcript_error(py, &error))
    }

    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let slices = self.0.json_slices();
        PyBytes::new_with(py, slices.iter().map(Bytes::len).sum(), |mut free| {
            for slice in &slices {
                let (here, rest) = free.split_at_mut(slice.len());
                here.copy_from_slice(slice);
                free = rest;
            }
            Ok(())
        })
    }

    #[getter]
    fn halted(&self) -> bool {
        self.0.is_halted()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = isize::try_from(self.0.len()).unwrap_or(isize::MAX);
        if let Ok(slice) = key.cast::<PySlice>() {
            let bounds = slice.indices(length)?;
            let places = (0..isize::try_from(bounds.slicelength)?).map(|step| bounds.start + step * bounds.step);
            let items = places.map(|at| self.item(py, usize::try_from(at)?)).collect::<PyResult<Vec<_>>>()?;
            return Ok(PyList::new(py, items)?.into_any());
        }
        let at: isize = match key.extract() {
            Ok(at) => at,
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => isize::MAX,
            Err(error) => return Err(error),
        };
        let at = if at < 0 { at.saturating_add(length) } else { at };
        self.item(py, usize::try_from(at).unwrap_or(usize::MAX))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.list(py)?.as_any().try_iter()?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let list = self.list(py)?;
        list.reverse()?;
        Ok(list.as_any().try_iter()?.into_any())
    }

    fn __contains__(&self, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.list(message.py())?.contains(message)
    }

    #[pyo3(signature = (message, *bounds))]
    fn index<'py>(&self, message: &Bound<'py, PyAny>, bounds: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = message.py();
        let mut arguments = vec![message.clone()];
        arguments.extend(bounds.iter());
        self.list(py)?.call_method1("index", PyTuple::new(py, arguments)?)
    }

    fn count<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.list(message.py())?.call_method1("count", (message,))
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        if let Ok(other) = other.cast::<Self>() {
            return Ok((self.0 == other.get().0).into_pyobject(py)?.to_owned().into_any());
        }
        if other.is_instance_of::<PyList>() {
            return Ok(self.list(py)?.eq(other)?.into_pyobject(py)?.to_owned().into_any());
        }
        Ok(PyNotImplemented::get(py).to_owned().into_any())
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        PyBytes::new(slf.py(), &slf.get().0.to_json()).hash()
    }

    fn __repr__(&self) -> String {
        let halted = if self.0.is_halted() { ", halted" } else { "" };
        format!("<Transcript: {} messages{halted}>", self.0.len())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let read = slf.get_type().getattr("from_json")?;
        Ok((read, (slf.get().to_json(slf.py())?,)))
    }
}
