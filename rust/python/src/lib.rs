//! The native module `toolrelay._core`. It registers; each class lives in its own file.

mod bridge;
mod client;
mod conversation;
mod convert;
mod errors;
mod events;
mod feed;
mod host;
mod interpreter;
mod life;
mod model;
mod once;
mod result;
mod seal;
mod segment;
mod settings;
mod speech;
mod stores;
mod toolkit;
mod transcript;
mod translate;
mod underway;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::bridge::{_bridge_probe, _bridge_probes_alive};
    #[pymodule_export]
    use super::client::NativeClient;
    #[pymodule_export]
    use super::conversation::PyConversation;
    #[pymodule_export]
    use super::events::{
        ArgumentsDelta, CallReady, CallStarted, Done, Parked, ReasoningDelta, TextDelta, ToolEnded, ToolStarted,
        UsageReported,
    };
    #[pymodule_export]
    use super::host::Reply;
    #[pymodule_export]
    use super::result::{PyUsage, RunResult, ToolCallRecord};
    #[pymodule_export]
    use super::seal::PySealKeys;
    #[pymodule_export]
    use super::segment::Segment;
    #[pymodule_export]
    use super::settings::_known_servers;
    #[pymodule_export]
    use super::speech::Speech;
    #[pymodule_export]
    use super::stores::{NativeStore, PyMemoryStore, PyPostgresStore, PyRedisStore, PySqliteStore};
    #[pymodule_export]
    use super::toolkit::NativeToolkit;
    #[pymodule_export]
    use super::transcript::PyTranscript;
    #[pymodule_export]
    use super::translate::{_translate, Translation};

    #[pymodule_init]
    fn start(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        pyo3::types::PySequence::register::<super::transcript::PyTranscript>(module.py())?;
        super::interpreter::claim(module.py())?;
        super::bridge::prepare(module.py());
        Ok(())
    }
}
