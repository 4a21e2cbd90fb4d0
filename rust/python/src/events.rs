//! What happens in a run, as Python sees it: one small frozen class for each kind of event.

mod shared;

use futures_util::future::BoxFuture;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use toolrelay_core::json::Json;
use toolrelay_core::reply::Usage;
use toolrelay_core::run::event::Event;
use toolrelay_core::wire::stream::Delta;
use toolrelay_runtime::watch::{Told, Watcher};

use crate::convert;
use crate::feed::{Feed, Item};
use crate::result::PyUsage;
use shared::{event, shown};

event! {
    /// More of the visible text.
    TextDelta { text: String }
}
event! {
    /// More of the reasoning.
    ReasoningDelta { text: String }
}
event! {
    /// A call has begun.
    CallStarted { index: usize, name: String }
}
event! {
    /// More of a call's argument text.
    ArgumentsDelta { index: usize, text: String }
}
event! {
    /// A call of a reply that has ended.
    CallReady { index: usize, id: String, name: String, arguments: String }
}
event! {
    /// A call has its result.
    ToolEnded { id: String, name: String, output: String, is_error: bool }
}

/// The tool of a call was started.
#[pyclass(module = "toolrelay.events", frozen)]
pub(crate) struct ToolStarted {
    #[pyo3(get)]
    id: String,
    #[pyo3(get)]
    name: String,
    input: Json,
}

#[pymethods]
impl ToolStarted {
    #[new]
    fn new(id: String, name: String, input: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { id, name, input: convert::dumps(input)? })
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("id", "name", "input")
    }

    /// A fresh object each time.
    #[getter]
    fn input<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::loads(py, self.input.get().as_bytes())
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.id == other.id && self.name == other.name && self.input(py)?.eq(other.input(py)?)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (&self.id, &self.name).into_pyobject(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let fields = [("id", (&self.id).into_bound_py_any(py)?), ("name", (&self.name).into_bound_py_any(py)?)];
        shown("ToolStarted", fields.into_iter().chain([("input", self.input(py)?)]))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let Self { id, name, .. } = slf.get();
        Ok((slf.get_type().into_any(), (id, name, slf.get().input(slf.py())?).into_pyobject(slf.py())?))
    }
}

/// An event that holds one Python object.
macro_rules! holder {
    ($(#[$about:meta])* $name:ident { $field:ident }) => {
        $(#[$about])*
        #[pyclass(module = "toolrelay.events", frozen)]
        pub(crate) struct $name {
            #[pyo3(get)]
            $field: Py<PyAny>,
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new($field: Py<PyAny>) -> Self {
                Self { $field }
            }

            #[classattr]
            fn __match_args__() -> (&'static str,) {
                (stringify!($field),)
            }

            fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
                self.$field.bind(py).eq(other.$field.bind(py))
            }

            fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
                self.$field.bind(py).hash()
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                shown(stringify!($name), [(stringify!($field), self.$field.bind(py).clone())])
            }

            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (Py<PyAny>,)) {
                (slf.get_type().into_any(), (slf.get().$field.clone_ref(slf.py()),))
            }
        }
    };
}

holder! {
    /// Calls wait for an answer to a request.
    Parked { request }
}
holder! {
    /// A reply has ended; what it cost.
    UsageReported { usage }
}
holder! {
    /// The run has ended.
    Done { result }
}

impl Item for Told {
    fn weight(&self) -> usize {
        match self {
            Self::Delta(Delta::Text(text) | Delta::Reasoning(text) | Delta::Arguments { text, .. }) => text.len(),
            Self::Delta(Delta::CallStarted { name, .. }) => name.len(),
            Self::Event(Event::CallReady { arguments, .. }) => arguments.len(),
            Self::Event(Event::ToolEnded { output, .. }) => output.len(),
            Self::Event(Event::ToolStarted { input, .. }) => input.get().len(),
            Self::Event(Event::Usage(_) | Event::Parked(_)) => 0,
        }
    }

    fn show(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        show(py, self)
    }
}

impl Watcher for Feed<Told> {
    fn tell(&self, told: Vec<Told>) {
        self.add(told);
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        self.room()
    }
}

fn show(py: Python<'_>, told: Told) -> PyResult<Bound<'_, PyAny>> {
    match told {
        Told::Delta(Delta::Text(text)) => TextDelta { text }.into_bound_py_any(py),
        Told::Delta(Delta::Reasoning(text)) => ReasoningDelta { text }.into_bound_py_any(py),
        Told::Delta(Delta::CallStarted { index, name, .. }) => CallStarted { index, name }.into_bound_py_any(py),
        Told::Delta(Delta::Arguments { index, text }) => ArgumentsDelta { index, text }.into_bound_py_any(py),
        Told::Event(Event::Usage(usage)) => usage_reported(py, usage),
        Told::Event(Event::CallReady { index, id, name, arguments }) => {
            CallReady { index, id: id.to_string(), name, arguments }.into_bound_py_any(py)
        }
        Told::Event(Event::ToolStarted { id, name, input }) => {
            ToolStarted { id: id.to_string(), name, input }.into_bound_py_any(py)
        }
        Told::Event(Event::ToolEnded { id, name, output, is_error }) => {
            ToolEnded { id: id.to_string(), name, output, is_error }.into_bound_py_any(py)
        }
        Told::Event(Event::Parked(request)) => {
            Parked { request: convert::relay(py, "Request", &request)?.unbind() }.into_bound_py_any(py)
        }
    }
}

fn usage_reported(py: Python<'_>, usage: Usage) -> PyResult<Bound<'_, PyAny>> {
    UsageReported { usage: PyUsage(usage).into_py_any(py)? }.into_bound_py_any(py)
}
