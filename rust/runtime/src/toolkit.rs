//! The tools of a run, checked once: names, kinds, schemas. How a tool works is the host's.

mod expiring;
mod fault;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use jsonschema::Validator;
use serde_json::Value;
use thiserror::Error;
use toolrelay_core::tool::{ToolKind, ToolSpec, Tools};
use toolrelay_core::wire::names;

pub(crate) use expiring::Expiring;

/// The names of the builtin tools. A relay tool may have none of them, even with builtins off
/// (contract 2.1).
pub const BUILTIN_NAMES: [&str; 10] =
    ["bash", "read", "write", "edit", "grep", "glob", "webfetch", "question", "apply_patch", "todowrite"];

/// A tool as a toolkit takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDef {
    /// What a provider is told.
    pub spec: ToolSpec,
    /// How its calls are settled.
    pub kind: ToolKind,
    /// Whether a call that was cut off may run again from its beginning (contract 7.6).
    pub retry_safe: bool,
    /// For how long an answer to a call is waited for, where the tool says so itself.
    pub expires_after: Option<Duration>,
}

/// Why a toolkit cannot be built. The toolkit is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ToolkitError {
    /// A relay tool with a builtin's name.
    #[error("the relay tool {tool:?} has the name of a builtin tool; rename it (this holds with builtins off, too)")]
    RelayNamedAsBuiltin {
        /// The tool.
        tool: String,
    },
    /// Two tools with one name.
    #[error("there are two tools named {tool:?}; rename one")]
    Duplicate {
        /// The tool.
        tool: String,
    },
    /// Two names that a provider would see as one.
    #[error("the tools {tool:?} and {other:?} would have the same name for a provider; rename one")]
    SameWireName {
        /// The tool.
        tool: String,
        /// The tool that is there already.
        other: String,
    },
    /// A tool without a name.
    #[error("a tool has an empty name")]
    NoName,
    /// A schema that is none.
    #[error("the schema of the tool {tool:?} is not a usable JSON Schema: {reason}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The tools of a run.
#[derive(Debug, Default)]
pub struct Toolkit {
    specs: Vec<ToolSpec>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    by_wire_name: HashMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    kind: ToolKind,
    retry_safe: bool,
    expires_after: Option<Duration>,
    schema: Validator,
}

impl Toolkit {
    /// A toolkit of these tools, in this order.
    pub fn new(tools: Vec<ToolDef>) -> Result<Self, ToolkitError> {
        let mut toolkit = Self::default();
        for tool in tools {
            toolkit.register(tool)?;
        }
        Ok(toolkit)
    }

    fn register(&mut self, tool: ToolDef) -> Result<(), ToolkitError> {
        let name = tool.spec.name.clone();
        if name.is_empty() {
            return Err(ToolkitError::NoName);
        }
        if tool.kind == ToolKind::Relay && BUILTIN_NAMES.contains(&name.as_str()) {
            return Err(ToolkitError::RelayNamedAsBuiltin { tool: name });
        }
        if self.by_name.contains_key(&name) {
            return Err(ToolkitError::Duplicate { tool: name });
        }
        let wire_names = [names::wire_name(&name), names::gemini_name(&name)].map(Cow::into_owned);
        if let Some(at) = wire_names.iter().find_map(|wire_name| self.by_wire_name.get(wire_name)) {
            return Err(ToolkitError::SameWireName { tool: name, other: self.specs[*at].name.clone() });
        }
        let schema = compile(&tool.spec)?;
        let at = self.entries.len();
        self.by_name.insert(name, at);
        self.by_wire_name.extend(wire_names.map(|wire_name| (wire_name, at)));
        self.specs.push(tool.spec);
        self.entries.push(Entry {
            kind: tool.kind,
            retry_safe: tool.retry_safe,
            expires_after: tool.expires_after,
            schema,
        });
        Ok(())
    }

    /// What a provider is told, in order.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// For how long an answer to a call of this tool is waited for, where it says so itself.
    pub fn expires_after(&self, name: &str) -> Option<Duration> {
        self.entries[self.position(name)?].expires_after
    }

    /// The place of a tool, by the host's name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

fn compile(spec: &ToolSpec) -> Result<Validator, ToolkitError> {
    let refuse = |reason: String| ToolkitError::Schema { tool: spec.name.clone(), reason };
    let schema: Value = serde_json::from_str(spec.schema.get()).map_err(|error| refuse(error.to_string()))?;
    if !schema.is_object() {
        return Err(refuse("it must be a JSON object".to_owned()));
    }
    jsonschema::validator_for(&schema).map_err(|error| refuse(fault::fault(&error)))
}

impl Tools for Toolkit {
    fn resolve(&self, wire_name: &str) -> Option<&str> {
        let at = self.by_name.get(wire_name).or_else(|| self.by_wire_name.get(wire_name))?;
        Some(&self.specs[*at].name)
    }

    fn kind(&self, name: &str) -> Option<ToolKind> {
        self.position(name).map(|at| self.entries[at].kind)
    }

    fn check(&self, name: &str, input: &Value) -> Result<(), String> {
        let Some(at) = self.position(name) else { return Ok(()) };
        let schema = &self.entries[at].schema;
        if schema.is_valid(input) { Ok(()) } else { Err(fault::faults(schema, input)) }
    }

    fn is_retry_safe(&self, name: &str) -> bool {
        self.position(name).is_some_and(|at| self.entries[at].retry_safe)
    }

    fn names(&self) -> Vec<&str> {
        self.specs.iter().map(|spec| spec.name.as_str()).collect()
    }
}
