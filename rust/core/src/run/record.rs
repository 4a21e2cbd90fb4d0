//! What a caller is told of each call of a run (contract 5.5), read off the transcript.

use serde::{Deserialize, Serialize};

use crate::arguments;
use crate::id::CallId;
use crate::json::Json;
use crate::transcript::Transcript;

/// One call of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// The prepared arguments; `{}` where they could not be read.
    pub input: Json,
    /// The model's own argument text.
    pub arguments: String,
    /// The result's text; empty while the call is parked.
    pub output: String,
    /// Whether the result is an error. A parked call is none.
    pub is_error: bool,
    /// Whether the call waits for an answer.
    pub pending: bool,
}

impl Transcript {
    /// One record per call from place `first` on, in order.
    pub fn call_records(&self, first: usize) -> Vec<CallRecord> {
        let messages = self.messages().get(first..).unwrap_or_default();
        let mut records = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let results = &messages[at + 1..];
            records.extend(message.calls().iter().zip(results).map(|(call, result)| {
                let pending = result.is_placeholder();
                CallRecord {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    input: arguments::prepare(&call.arguments)
                        .map_or_else(|_| Json::empty_object(), |ready| ready.input),
                    arguments: call.arguments.clone(),
                    output: if pending { String::new() } else { result.text() },
                    is_error: result.result().is_some_and(|result| !result.outcome.is_ok()),
                    pending,
                }
            }));
        }
        records
    }
}
