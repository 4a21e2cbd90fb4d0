//! The native module `toolrelay._core`. It registers; each class lives in its own file.

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use super::*;
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
