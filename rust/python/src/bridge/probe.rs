//! The bridge without a client: awaits that do nothing else, for the tests and the benchmark of the bridge.

use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::future_into_py;

/// What the awaited Rust future does.
enum Probe {
    Ready,
    Yield,
    Sleep(Duration),
    Fail,
    Panic,
    Never,
}

/// A future of the bridge that gives `seconds` back: `kind` is `ready`, `yield`, `sleep` (for `seconds`), `fail`, `panic` or `never`.
#[pyfunction]
#[pyo3(signature = (kind, seconds=0.0))]
pub(crate) fn _bridge_probe<'py>(py: Python<'py>, kind: &str, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
    let probe = match kind {
        "ready" => Probe::Ready,
        "yield" => Probe::Yield,
        "sleep" => Probe::Sleep(
            Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?,
        ),
        "fail" => Probe::Fail,
        "panic" => Probe::Panic,
        "never" => Probe::Never,
        unknown => return Err(PyValueError::new_err(format!("no such probe: {unknown}"))),
    };
    let alive = Alive::new();
    future_into_py(py, async move {
        let _alive = alive;
        match probe {
            Probe::Ready => {}
            Probe::Yield => tokio::task::yield_now().await,
            Probe::Sleep(duration) => tokio::time::sleep(duration).await,
            Probe::Fail => return Err(PyValueError::new_err("the probe failed")),
            Probe::Panic => std::panic::resume_unwind(Box::new("the probe panicked")),
            Probe::Never => future::pending().await,
        }
        Ok(seconds)
    })
}

/// How many Rust futures of the probe exist.
#[pyfunction]
pub(crate) fn _bridge_probes_alive() -> usize {
    ALIVE.load(Ordering::SeqCst)
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts a Rust future from its making to its drop.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}
