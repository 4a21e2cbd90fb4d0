//! What the classes of events have in common.

use pyo3::prelude::*;

/// A class with plain fields: made by position or name, compared, matched, shown, copied and pickled by them.
macro_rules! event {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty),+ }) => {
        $(#[$about])*
        #[pyclass(module = "toolrelay.events", frozen, eq, hash)]
        #[derive(PartialEq, Eq, Hash)]
        pub(crate) struct $name {
            $(#[pyo3(get)] $field: $kind,)+
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new($($field: $kind),+) -> Self {
                Self { $($field),+ }
            }

            #[classattr]
            fn __match_args__(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
                PyTuple::new(py, [$(stringify!($field)),+])
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                shown(stringify!($name), [$((stringify!($field), (&self.$field).into_bound_py_any(py)?)),+])
            }

            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
                let fields = [$((&slf.get().$field).into_bound_py_any(slf.py())?),+];
                Ok((slf.get_type().into_any(), PyTuple::new(slf.py(), fields)?))
            }
        }
    };
}
pub(super) use event;

/// `Name(field=value, …)`.
pub(super) fn shown<'py>(
    class: &str,
    fields: impl IntoIterator<Item = (&'static str, Bound<'py, PyAny>)>,
) -> PyResult<String> {
    let shown = fields.into_iter().map(|(name, value)| Ok(format!("{name}={}", value.repr()?)));
    Ok(format!("{class}({})", shown.collect::<PyResult<Vec<_>>>()?.join(", ")))
}
