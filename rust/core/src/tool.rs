//! What the machine must know of tools: names, kinds and whether arguments fit. It never sees how
//! a tool works.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::Json;

/// How calls of a tool are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Executed by this process.
    Local,
    /// Executed by the host: a schema and no behaviour.
    Relay,
}

/// What a provider is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// The host's name of the tool.
    pub name: String,
    /// For the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub schema: Json,
}

/// The tools of a run. Lookups are by the host's own names; `resolve` takes a wire name.
pub trait Tools: Send + Sync {
    /// The host's name for a name as it came from a provider, if there is such a tool.
    fn resolve(&self, wire_name: &str) -> Option<&str>;
    /// The kind of a tool, by the host's name.
    fn kind(&self, name: &str) -> Option<ToolKind>;
    /// Whether prepared arguments fit the tool's schema; the error text is for the model.
    fn check(&self, name: &str, input: &Value) -> Result<(), String>;
    /// The host's names, in order.
    fn names(&self) -> Vec<&str>;
    /// Whether a call that was cut off may run again from its beginning (contract 7.6).
    fn is_retry_safe(&self, _name: &str) -> bool {
        false
    }
    /// When a request expires that a call of this tool makes now, in unix milliseconds. The machine has
    /// no clock: whoever drives it says the time.
    fn expires_at_ms(&self, _name: &str) -> Option<i64> {
        None
    }
}

/// What a tool or the host gave for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// Images and files beside it: a JSON array of content parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Json>,
    /// How the call ended.
    #[serde(default)]
    pub outcome: Outcome,
}

impl ToolOutput {
    /// A successful text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text that tells the model of an outcome other than success.
    pub fn failed(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { text: text.into(), parts: None, outcome }
    }
}

/// How a call ended (contract 3.4). Stored with the result; everything but `Ok` is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool gave a result.
    #[default]
    Ok,
    /// The tool failed, its arguments were refused, or the host marked the result as failed.
    Error,
    /// A person or the host declined.
    Declined,
    /// Nobody answered in time.
    Expired,
    /// The host gave up.
    Cancelled,
    /// A new prompt took its place.
    Superseded,
    /// It never started.
    NotRun,
    /// It had started and may have run.
    Interrupted,
    /// The host answered without a result for this call.
    Missing,
}

impl Outcome {
    /// Whether the call gave what was asked for.
    pub fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Whether this result stands in for one that may still arrive; a real result beats it
    /// (contract 6.12).
    pub fn is_stand_in(self) -> bool {
        matches!(self, Self::Interrupted | Self::NotRun | Self::Missing)
    }
}
