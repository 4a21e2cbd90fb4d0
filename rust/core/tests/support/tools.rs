//! Tools for tests: names, kinds and which fields a call must have.

use serde_json::Value;
use toolrelay_core::tool::{ToolKind, Tools};

/// One tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
    pub(crate) required: Vec<String>,
}

/// A toolkit whose schemas know only `required`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolkit(pub(crate) Vec<Tool>);

impl Toolkit {
    fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

impl Tools for Toolkit {
    fn resolve(&self, wire_name: &str) -> Option<&str> {
        self.find(wire_name).map(|tool| tool.name.as_str())
    }

    fn kind(&self, name: &str) -> Option<ToolKind> {
        self.find(name).map(|tool| tool.kind)
    }

    fn check(&self, name: &str, input: &Value) -> Result<(), String> {
        let required = self.find(name).map_or(&[][..], |tool| &tool.required);
        match required.iter().find(|field| input.get(field.as_str()).is_none()) {
            Some(field) => Err(format!("\"{field}\" is a required property")),
            None => Ok(()),
        }
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tool| tool.name.as_str()).collect()
    }
}
