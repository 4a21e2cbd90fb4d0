//! The native module `toolrelay._core`. It registers; each class lives in its own file.

mod bridge;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::bridge::_bridge_probe;
    use super::*;
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
