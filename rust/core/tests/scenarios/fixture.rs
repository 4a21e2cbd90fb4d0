//! The shape of a fixture file, as `tests/scenarios/README.md` describes it.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "rules")]
    _rules: Vec<String>,
    #[serde(default, rename = "faults")]
    _faults: Vec<String>,
    pub(crate) tools: Map<String, Value>,
    #[serde(default = "ten")]
    pub(crate) max_turns: u32,
    #[serde(default)]
    pub(crate) wait_for: bool,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    pub(crate) history: Option<Value>,
    pub(crate) prompt: Option<String>,
    #[serde(default)]
    pub(crate) on_pending: toolrelay_core::run::OnPending,
    pub(crate) answer: Option<Map<String, Value>>,
    pub(crate) pending: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) missing: toolrelay_core::resume::Missing,
    pub(crate) now: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    pub(crate) expect: Expect,
}

/// What happens next; exactly one of the first six is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the fixture language")]
pub(crate) struct Step {
    pub(crate) model: Option<Says>,
    pub(crate) model_fails: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) timeout: bool,
    #[serde(default)]
    pub(crate) cancel: bool,

    pub(crate) given: Option<Value>,
    pub(crate) after: Option<Value>,
    pub(crate) returns: Option<String>,
    pub(crate) raises: Option<String>,
    pub(crate) parks: Option<Map<String, Value>>,
    pub(crate) answers: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) not_here: bool,
    #[serde(default)]
    pub(crate) fails: bool,
    #[serde(default)]
    pub(crate) expires: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Says {
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) calls: Vec<SaysCall>,
    pub(crate) stop: Option<String>,
    #[serde(default)]
    pub(crate) reasoned: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaysCall {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: String,
    #[serde(rename = "as")]
    pub(crate) label: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) status: String,
    pub(crate) limit: Option<String>,
    pub(crate) error: Option<ExpectError>,
    pub(crate) text: Option<String>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) turns: Option<u32>,
    #[serde(default)]
    pub(crate) waits: Vec<String>,
    pub(crate) requests: Option<Value>,
    pub(crate) tool_calls: Option<Value>,
    pub(crate) transcript: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectError {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) says: Vec<String>,
}

fn ten() -> u32 {
    10
}
