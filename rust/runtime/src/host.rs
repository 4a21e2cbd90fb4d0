//! What the runtime asks of the program around it: running a local tool, and answering inline.

use futures_util::future::BoxFuture;
use toolrelay_core::answer::Answer;
use toolrelay_core::id::CallId;
use toolrelay_core::json::Json;
use toolrelay_core::request::Request;
use toolrelay_core::run::io::Park;
use toolrelay_core::tool::ToolOutput;

/// The program around a run. Dropping a future that it gave stops what that future waits for.
pub trait Host: Send + Sync {
    /// Runs a local tool.
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'static, ToolEnd>;
    /// Asks for an answer inline (contract 4).
    fn ask(&self, request: Request) -> BoxFuture<'static, AskEnd>;
}

/// A local tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The call.
    pub id: CallId,
    /// The same on every run of this call. In a kept conversation no other call has it.
    pub key: String,
    /// The tool, by the host's name.
    pub name: String,
    /// The prepared arguments.
    pub input: Json,
    /// The answer to the request with which the call parked before.
    pub answer: Option<Answer>,
}

/// How a local tool call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    /// With a result.
    Finished(ToolOutput),
    /// It waits for somebody.
    Parked(Park),
}

/// How asking inline ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskEnd {
    /// With an answer.
    Answered(Answer),
    /// The host cannot answer inline (contract 4.4).
    NotHere,
    /// The host's code failed; the host keeps the error.
    Failed,
}
