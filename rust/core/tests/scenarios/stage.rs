//! What is carried from segment to segment of a dialogue, and the comparison at the end of each.
//! How a segment is run is the driver's.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolrelay_core::answer::Answer;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::request::Request;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::run::io::{Failure, Limit, ModelFailure, Outcome, Park};
use toolrelay_core::tool::{self, ToolOutput};
use toolrelay_core::transcript::Transcript;

use crate::fixture::{Expect, Says, Segment, Step};
use crate::render::{self, Names};

/// Why a dialogue differs from what is written.
pub(crate) type Played<T = ()> = Result<T, String>;

/// What is carried from segment to segment.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) history: Transcript,
    pub(crate) names: Names,
    requests: Vec<Request>,
}

/// How a segment ended, in the words of fixtures.
#[derive(Default)]
pub(crate) struct Ending {
    pub(crate) status: &'static str,
    pub(crate) limit: Option<&'static str>,
    pub(crate) error: Option<(&'static str, String)>,
    pub(crate) warnings: Vec<String>,
    /// Absent when the start was refused.
    pub(crate) run: Option<Ended>,
}

/// What there is to see of a run that has ended.
pub(crate) struct Ended {
    pub(crate) transcript: Transcript,
    pub(crate) first: usize,
    pub(crate) suspensions: Vec<Request>,
    pub(crate) text: String,
    pub(crate) finish_reason: String,
    pub(crate) turns: u32,
}

impl Stage {
    /// Takes the segment's own history, if it has one.
    pub(crate) fn open(&mut self, segment: &Segment) -> Played {
        if let Some(history) = &segment.history {
            let json = Bytes::from(history.to_string());
            self.history = Transcript::from_json(json).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The request and the answer that a segment resumes with; none when it starts from a prompt.
    pub(crate) fn resume(&self, segment: &Segment) -> Played<Option<(Request, Answer)>> {
        let Some(answer) = &segment.answer else { return Ok(None) };
        let to = answer.get("to").and_then(Value::as_u64).unwrap_or(0);
        let asked = self.requests.get(usize::try_from(to).unwrap_or(usize::MAX));
        let mut pending = asked.map_or(json!({}), |request| serde_json::to_value(request).unwrap());
        for (key, value) in segment.pending.iter().flatten() {
            pending[key] = value.clone();
        }
        let pending: Request = parse(&self.names.show(&pending.to_string()))?;
        let answer = self.answer(answer, pending.id.as_str())?;
        Ok(Some((pending, answer)))
    }

    /// An answer as fixtures write it: `output`, `isError`, `parts` and `results` ride in `data`.
    pub(crate) fn answer(&self, spec: &Map<String, Value>, request: &str) -> Played<Answer> {
        let mut answer = json!({ "id": request, "ok": true });
        for (key, value) in spec {
            match key.as_str() {
                "to" => {}
                "output" | "isError" | "parts" | "results" => answer["data"][key] = value.clone(),
                _ => answer[key] = value.clone(),
            }
        }
        parse(&self.names.show(&answer.to_string()))
    }

    /// Learns the ids that labelled calls got: those of the transcript's last calls.
    pub(crate) fn learn(&mut self, transcript: &Transcript, says: &Says) {
        let calls = transcript.messages().iter().rev().map(Message::calls).find(|calls| !calls.is_empty());
        for (call, said) in calls.unwrap_or_default().iter().zip(&says.calls) {
            if let Some(label) = &said.label {
                self.names.label(label, call.id.as_str());
            }
        }
    }

    pub(crate) fn compare(&mut self, expect: &Expect, ending: Ending) -> Played {
        same("status", expect.status.as_str(), ending.status)?;
        same("limit", &expect.limit.as_deref(), &ending.limit)?;
        match (&expect.error, &ending.error) {
            (None, None) => {}
            (Some(expected), Some((kind, text))) => {
                same("error", expected.kind.as_str(), kind)?;
                let text = self.names.hide(text);
                if let Some(missing) = expected.says.iter().find(|part| !text.contains(part.as_str())) {
                    return Err(format!("the error does not say {missing:?}: {text}"));
                }
            }
            (expected, found) => return Err(format!("error: {} expected, found {found:?}", expected.is_some())),
        }
        lines("warnings", &expect.warnings, &ending.warnings)?;
        let Some(run) = ending.run else { return Ok(()) };
        for request in &run.suspensions {
            self.names.number(request.id.as_str());
        }
        let waits: Vec<String> = run.suspensions.iter().map(render::wait).collect();
        lines("waits", &expect.waits, &self.hidden(&waits))?;
        if let Some(requests) = &expect.requests {
            same("requests", requests, &self.hidden_json(&serde_json::to_value(&run.suspensions).unwrap()))?;
        }
        if let Some(text) = &expect.text {
            same("text", text, &run.text)?;
        }
        if let Some(reason) = &expect.finish_reason {
            same("finish_reason", reason, &run.finish_reason)?;
        }
        if let Some(turns) = expect.turns {
            same("turns", &turns, &run.turns)?;
        }
        if let Some(records) = &expect.tool_calls {
            let found = render::records(&run.transcript.call_records(run.first));
            same("tool_calls", records, &self.hidden_json(&found))?;
        }
        if let Some(expected) = &expect.transcript {
            lines("transcript", expected, &self.hidden(&render::transcript(&run.transcript)))?;
        }
        self.requests = run.suspensions;
        self.history = run.transcript;
        Ok(())
    }

    fn hidden(&self, lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| self.names.hide(line)).collect()
    }

    fn hidden_json(&self, value: &Value) -> Value {
        parse(&self.names.hide(&value.to_string())).unwrap()
    }
}

impl Ending {
    pub(crate) fn of(outcome: &Outcome, warnings: Vec<String>, run: Ended) -> Self {
        let (status, limit, error) = match outcome {
            Outcome::Finished => ("done", None, None),
            Outcome::Suspended => ("pending", None, None),
            Outcome::Exhausted(Limit::MaxTurns) => ("incomplete", Some("max_turns"), None),
            Outcome::Exhausted(Limit::Timeout) => ("incomplete", Some("timeout"), None),
            Outcome::Cancelled => ("cancelled", None, None),
            Outcome::Failed(failure) => ("error", None, Some((kind_of(failure), failure.to_string()))),
        };
        Self { status, limit, error, warnings, run: Some(run) }
    }

    fn refused(kind: &'static str, text: String) -> Self {
        Self { status: "error", error: Some((kind, text)), ..Self::default() }
    }

    pub(crate) fn not_started(error: &StartError) -> Self {
        let kind = match error {
            StartError::Pending { .. } => "PendingError",
            StartError::NothingToDo | StartError::Broken(_) | StartError::CallChanged { .. } => "TranscriptError",
        };
        Self::refused(kind, error.to_string())
    }

    pub(crate) fn not_resumed(error: &ResumeError) -> Self {
        Self::refused("ResumeError", error.to_string())
    }
}

impl Step {
    /// Whether a tool got the input and the answer that the step says.
    pub(crate) fn check_call(&self, input: &Json, answer: Option<&Answer>) -> Played {
        if let Some(given) = &self.given {
            same("given", given, &parse(input.get())?)?;
        }
        let after = answer.map(|answer| {
            let mut answer = serde_json::to_value(answer).unwrap();
            answer.as_object_mut().unwrap().remove("id");
            answer
        });
        same("after", &self.after, &after)
    }

    /// How a tool ends: with a result, or parked.
    pub(crate) fn tool_end(&self) -> Played<Result<ToolOutput, Park>> {
        if let Some(text) = &self.returns {
            return Ok(Ok(ToolOutput::text(text)));
        }
        if let Some(text) = &self.raises {
            return Ok(Ok(ToolOutput::failed(tool::Outcome::Error, text)));
        }
        let Some(parks) = &self.parks else { return Err("the tool does nothing".to_owned()) };
        parse(&Value::Object(parks.clone()).to_string()).map(Err)
    }
}

fn kind_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::Model(ModelFailure::InProcess { .. }) => "GenerateError",
        Failure::Model(ModelFailure::Provider(_)) => "ProviderError",
        Failure::Model(ModelFailure::Unsendable { .. }) => "TranscriptError",
        Failure::CutReply { .. } | Failure::EmptyReply { .. } => "ModelReplyError",
        Failure::ContextOverflow => "ContextOverflowError",
        Failure::BadAnswer(_) | Failure::AskFailed => "WaitForError",
    }
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Played<T> {
    serde_json::from_str(json).map_err(|error| format!("{error} in {json}"))
}

pub(crate) fn texts(items: &[impl ToString]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, expected: &T, found: &T) -> Played {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:#?}, found {found:#?}")) }
}

fn lines(what: &str, expected: &[String], found: &[String]) -> Played {
    let alike =
        expected.len() == found.len() && expected.iter().zip(found).all(|(line, text)| render::matches(line, text));
    if alike { Ok(()) } else { Err(format!("{what}: expected\n{}\nfound\n{}", expected.join("\n"), found.join("\n"))) }
}
