//! Sealed halts for Python: the key ring, and what opening a token leads to.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use toolrelay_core::answer::Answer;
use toolrelay_core::request::Request;
use toolrelay_core::suspension::Suspension;
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::Place;
use toolrelay_runtime::drive::now_ms;
use toolrelay_runtime::seal::{Opened, SealKeys};

use crate::errors;

/// Keys that open sealed halts; the first one seals.
#[pyclass(name = "SealKeys", module = "toolrelay", frozen)]
pub(crate) struct PySealKeys(SealKeys);

#[pymethods]
impl PySealKeys {
    #[new]
    #[pyo3(signature = (*keys))]
    fn new(keys: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let py = keys.py();
        let read = |key: Bound<'_, PyAny>| {
            let key = key.cast_into::<PyBytes>().ok();
            key.and_then(|key| key.as_bytes().try_into().ok()).ok_or_else(|| {
                let text = format!("a key of SealKeys must be {} random bytes", SealKeys::KEY_LEN);
                errors::raise(py, "ConfigurationError", &text)
            })
        };
        let keys = keys.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        SealKeys::new(keys)
            .map(Self)
            .ok_or_else(|| errors::raise(py, "ConfigurationError", "SealKeys needs at least one key"))
    }

    fn __repr__(&self) -> String {
        let count = self.0.count();
        format!("<SealKeys: {count} key{}>", if count == 1 { "" } else { "s" })
    }
}

impl PySealKeys {
    /// The token of a halted transcript.
    pub(crate) fn seal(
        &self,
        py: Python<'_>,
        halted: &Transcript,
        audience: Option<&str>,
        expires_in: Option<f64>,
    ) -> PyResult<String> {
        let until_ms = expires_in.map(|seconds| crate::settings::seconds(py, "expires_in", seconds)).transpose()?;
        let until_ms =
            until_ms.map(|left| now_ms().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX)));
        self.0.seal(halted, audience, until_ms).map_err(|error| errors::seal_error(py, &error))
    }

    /// The transcript of a token and the request that an answer to it is for.
    pub(crate) fn open(
        &self,
        py: Python<'_>,
        token: &str,
        audience: Option<&str>,
        answer: &Answer,
        once: bool,
    ) -> PyResult<(Place, Request)> {
        let opened = self.0.open(token, audience, now_ms()).map_err(|error| errors::seal_error(py, &error))?;
        let Opened { id, until_ms, transcript } = opened;
        let halted = Suspension::from_transcript(transcript.clone());
        let mut requests = halted.map_or_else(|_| Vec::new(), |halted| halted.outstanding());
        let at = requests.iter().position(|request| request.id == answer.id).unwrap_or(0);
        if requests.is_empty() {
            return Err(errors::raise(py, "ResumeError", "no call of the sealed transcript waits for an answer"));
        }
        let place = if once {
            Place::Once { history: transcript, mark: format!("sealed/{id}"), until_ms }
        } else {
            Place::History(transcript)
        };
        Ok((place, requests.swap_remove(at)))
    }
}
