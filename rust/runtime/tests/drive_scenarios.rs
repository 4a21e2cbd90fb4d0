//! Plays every dialogue of `tests/scenarios/*.json` through the driver: a real client, over HTTP to a scripted model server, in each
//! style, plain and streamed, to one end. Between two segments the transcript goes through its JSON, as between processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
#![allow(dead_code, reason = "the fixture language has words that only other drivers read")]

#[path = "drive/body.rs"]
mod body;
#[path = "../../core/tests/scenarios/fixture.rs"]
mod fixture;
#[path = "../../core/tests/scenarios/render.rs"]
mod render;
#[path = "drive/says.rs"]
mod says;
#[path = "drive/scene.rs"]
mod scene;
#[path = "../../core/tests/scenarios/stage.rs"]
mod stage;
#[path = "drive/streamed.rs"]
mod streamed;
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{ToolKind, ToolSpec};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;
use toolrelay_runtime::client::{Client, Place, Report, RunError, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::host::{AskEnd, ToolEnd};
use toolrelay_runtime::http::{HttpOptions, HttpTransport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;
use toolrelay_runtime::store::MemoryStore;
use toolrelay_runtime::toolkit::{ToolDef, Toolkit};
use toolrelay_runtime::watch::Watcher;

use fixture::{Says, SaysCall, Scenario, Segment, Step};
use scene::{Scene, What};
use stage::{Ended, Ending, Played, Stage, same, texts};
use streamed::Listener;
use support::{Reply, Server};

/// Dialogues with what a driver on the real clock cannot say; the machine's own tests play them.
const ELSEWHERE: [&str; 2] =
    ["answer_after_expiry_is_refused_and_expiry_settles", "request_that_expires_inline_is_told_apart"];

#[test]
fn every_dialogue_ends_as_written_in_chat_completions() {
    let unsaid = play_all(Style::OpenAi);
    assert_eq!(unsaid, ["pause_of_the_provider_goes_on_and_costs_no_turn"]);
}

#[test]
fn every_dialogue_ends_as_written_in_responses() {
    let unsaid = play_all(Style::OpenAiResponses);
    let expected = [
        "calls_run_although_the_reply_says_stop",
        "cut_replies_count_only_in_a_row",
        "full_context_window_is_a_typed_error",
        "pause_of_the_provider_goes_on_and_costs_no_turn",
        "reply_that_promises_calls_and_has_none_is_asked_again_twice",
        "third_reply_in_a_row_with_stop_malformed_call_is_a_typed_error",
    ];
    assert_eq!(unsaid, expected);
}

#[test]
fn every_dialogue_ends_as_written_in_messages() {
    let unsaid = play_all(Style::Anthropic);
    let expected = [
        "bad_arguments_are_an_error_result_and_nothing_runs",
        "doubly_encoded_arguments_are_unwrapped_once",
        "empty_arguments_are_an_empty_object",
        "third_reply_in_a_row_with_stop_content_filter_is_a_typed_error",
        "third_reply_in_a_row_with_stop_malformed_call_is_a_typed_error",
    ];
    assert_eq!(unsaid, expected);
}

#[test]
fn every_dialogue_ends_as_written_in_generate_content() {
    let unsaid = play_all(Style::Gemini);
    let expected = [
        "bad_arguments_are_an_error_result_and_nothing_runs",
        "calls_run_although_the_reply_says_stop",
        "cut_replies_count_only_in_a_row",
        "empty_arguments_are_an_empty_object",
        "full_context_window_is_a_typed_error",
        "pause_of_the_provider_goes_on_and_costs_no_turn",
        "refusal_ends_the_run_with_its_text",
        "reply_that_promises_calls_and_has_none_is_asked_again_twice",
        "third_reply_in_a_row_with_stop_refusal_is_a_typed_error",
    ];
    assert_eq!(unsaid, expected);
}

/// Plays all fixtures and reports every one that differs, not only the first. Gives those that the
/// style has no words for.
fn play_all(style: Style) -> Vec<String> {
    let files = fixtures();
    assert!(files.len() > 70, "only {} fixtures found", files.len());
    let mut failures = Vec::new();
    let mut unsaid = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario: Scenario = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let steps = scenario.segments.iter().flat_map(|segment| &segment.steps);
        if steps.filter_map(|step| step.model.as_ref()).any(|says| says::body(style, says).is_none()) {
            unsaid.push(name);
        } else if !ELSEWHERE.contains(&name.as_str()) {
            let plain = play(&scenario, style, false);
            let streamed = play(&scenario, style, true).map_err(|difference| format!("streamed: {difference}"));
            match (plain, streamed) {
                (Ok(plain), Ok(streamed)) if plain == streamed => {}
                (Ok(plain), Ok(streamed)) => failures.push(format!("{name}:\n{plain:#?}\nstreamed:\n{streamed:#?}")),
                (Err(difference), _) | (_, Err(difference)) => failures.push(format!("{name}: {difference}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} dialogues differ\n{}", failures.len(), failures.join("\n"));
    unsaid
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

/// One dialogue under way.
struct Dialogue<'a> {
    style: Style,
    client: Arc<Client>,
    tools: Arc<Toolkit>,
    scene: Scene,
    server: Arc<Server>,
    stage: Stage,
    /// The last reply with calls, and those of them whose labels have no id yet.
    said: Option<&'a Says>,
    unnamed: Vec<&'a SaysCall>,
    /// Connections that the client must have closed so far.
    hangups: usize,
    /// How many request bodies are checked.
    checked: usize,
    /// Watches the run, whose replies are streamed then.
    listener: Option<Arc<Listener>>,
}

/// Plays a dialogue; gives what was sent and kept, without what differs from run to run.
#[tokio::main(flavor = "current_thread")]
async fn play(scenario: &Scenario, style: Style, is_streamed: bool) -> Played<Vec<String>> {
    let scene = Scene::default();
    let server = Arc::new(scene.server());
    let mut dialogue = Dialogue {
        style,
        client: Arc::new(client(scenario, style, &server)),
        tools: Arc::new(toolkit(scenario)),
        scene,
        server,
        stage: Stage::default(),
        said: None,
        unnamed: Vec::new(),
        hangups: 0,
        checked: 0,
        listener: is_streamed.then(Arc::default),
    };
    for (number, segment) in scenario.segments.iter().enumerate() {
        dialogue.play(segment).await.map_err(|difference| format!("segment {}: {difference}", number + 1))?;
    }
    let mut seen: Vec<Vec<u8>> = dialogue.scene.bodies();
    seen.push(dialogue.stage.history.to_json());
    let shown = |bytes: &Vec<u8>| dialogue.stage.names.hide(&String::from_utf8_lossy(bytes));
    let stream = [r#","stream":true,"stream_options":{"include_usage":true}"#, r#","stream":true"#];
    Ok(seen.iter().map(shown).map(|body| stream.iter().fold(body, |body, words| body.replacen(words, "", 1))).collect())
}

fn client(scenario: &Scenario, style: Style, server: &Server) -> Client {
    let config = HttpModelConfig {
        system: Some("You sail.".to_owned()),
        retry: RetryPolicy { retries: 0, ..RetryPolicy::default() },
        ..HttpModelConfig::new(style, server.url("/v1"), "m-1", "sk-0123456789")
    };
    let model = HttpModel::new(config, Arc::new(HttpTransport::new(HttpOptions::default()))).unwrap();
    Client {
        model: Arc::new(model),
        conversations: Conversations::new(Arc::new(MemoryStore::new()), "test", Duration::from_mins(1)),
        max_turns: scenario.max_turns,
        timeout: Some(TIMEOUT),
        inline: scenario.wait_for,
        expires_after: None,
    }
}

fn toolkit(scenario: &Scenario) -> Toolkit {
    let tool = |(name, spec): (&String, &Value)| {
        let schema = spec.get("schema").cloned().unwrap_or(json!({"type": "object", "properties": {}}));
        let schema = Json::parse(&schema.to_string()).unwrap();
        ToolDef {
            spec: ToolSpec { name: name.clone(), description: format!("What {name} does."), schema },
            kind: if spec["kind"] == "relay" { ToolKind::Relay } else { ToolKind::Local },
            retry_safe: false,
            expires_after: None,
        }
    };
    Toolkit::new(scenario.tools.iter().map(tool).collect()).unwrap()
}

impl<'a> Dialogue<'a> {
    async fn play(&mut self, segment: &'a Segment) -> Played {
        self.stage.open(segment)?;
        let start = match self.stage.resume(segment)? {
            Some((pending, answer)) => Start::Answer { pending, answer, missing: segment.missing },
            None => {
                Start::Prompt { prompt: segment.prompt.as_deref().map(Message::user), on_pending: segment.on_pending }
            }
        };
        if let Some(listener) = &mut self.listener {
            *listener = Arc::default();
        }
        let reported = self.run(segment, start).await?;
        self.scene.check_nothing_left(&self.server, &mut self.hangups).await?;
        self.check_bodies(segment)?;
        let ending = self.ending(reported)?;
        self.stage.compare(&segment.expect, ending)
    }

    /// The run and the steps of a segment, side by side. A step that cannot be taken ends both.
    async fn run(&mut self, segment: &'a Segment, start: Start) -> Played<Result<Report, RunError>> {
        let history = Transcript::from_json(self.stage.history.to_json().into()).map_err(|error| error.to_string())?;
        let (client, tools, scene) = (Arc::clone(&self.client), Arc::clone(&self.tools), self.scene.clone());
        let (stop, listener) = (CancellationToken::new(), self.listener.clone());
        scene.set_over(false);
        let run = async {
            let place = Place::History(history);
            let watcher = listener.map(|listener| listener as Arc<dyn Watcher>);
            let reported = client.run_watched(place, start, &scene, &tools, stop.clone(), watcher).await;
            scene.set_over(true);
            reported
        };
        let steps = async {
            for (number, step) in segment.steps.iter().enumerate() {
                let taken = self.step(step, &stop).await;
                taken.map_err(|why| format!("step {}: {why}", number + 1)).inspect_err(|_| stop.cancel())?;
            }
            Ok(())
        };
        let (reported, taken) = tokio::join!(run, steps);
        taken.map(|()| reported)
    }

    async fn step(&mut self, step: &'a Step, cancel: &CancellationToken) -> Played {
        if let Some(says) = &step.model {
            let call = self.scene.take("a model call", |what| matches!(what, What::Model(_))).await?;
            if !says.calls.is_empty() {
                self.said = Some(says);
                self.unnamed = says.calls.iter().filter(|call| call.label.is_some()).collect();
            }
            let body = says::body(self.style, says).unwrap();
            call.say(if self.listener.is_some() { streamed::of(self.style, &body) } else { Reply::json(body) });
        } else if let Some(message) = &step.model_fails {
            let call = self.scene.take("a model call", |what| matches!(what, What::Model(_))).await?;
            let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
            call.say(Reply::status(400).body(error.to_string()));
        } else if let Some(call) = &step.tool {
            let id = self.id_of(call).await;
            let fits = |what: &What| matches!(what, What::Tool(call, _) if call.id.as_str() == id);
            let effect = self.scene.take(&format!("the tool of call {call}"), fits).await?;
            if let What::Tool(call, _) = &effect.what {
                step.check_call(&call.input, call.answer.as_ref())?;
            }
            let end = step.tool_end()?.map_or_else(ToolEnd::Parked, ToolEnd::Finished);
            effect.end_tool(end).await;
        } else if let Some(asked) = &step.host {
            let key = self.id_of(asked).await;
            let fits = |what: &What| match what {
                What::Ask(request, _) if request.is_relay() => {
                    request.relay_calls().iter().map(|call| call.id.as_str()).eq([key.as_str()])
                }
                What::Ask(request, _) => request.prompt == key,
                What::Model(_) | What::Tool(..) => false,
            };
            let effect = self.scene.take(&format!("a question about {asked}"), fits).await?;
            let What::Ask(request, _) = &effect.what else { return Err("not asked".to_owned()) };
            let end = match &step.answers {
                Some(spec) => AskEnd::Answered(self.stage.answer(spec, request.id.as_str())?),
                None if step.not_here => AskEnd::NotHere,
                None => AskEnd::Failed,
            };
            effect.end_ask(end).await;
        } else {
            self.scene.begun().await;
            if step.cancel {
                cancel.cancel();
            } else {
                tokio::time::pause();
                tokio::time::advance(TIMEOUT).await;
                tokio::time::resume();
            }
        }
        Ok(())
    }

    /// The id of a call, or what else stands for it, after naming the labelled calls under way.
    async fn id_of(&mut self, call: &str) -> String {
        let unnamed = self.unnamed.clone();
        self.scene.until(|open| unnamed.is_empty() || open.iter().any(|effect| is_any(&effect.what, &unnamed))).await;
        for said in std::mem::take(&mut self.unnamed) {
            let is_new = |id: &str| self.stage.names.hide(id) == id;
            let found = self
                .scene
                .read(|open| open.iter().filter_map(|effect| id_if(&effect.what, said)).find(|id| is_new(id)));
            match (found, &said.label) {
                (Some(id), Some(label)) => self.stage.names.label(label, &id),
                _ => self.unnamed.push(said),
            }
        }
        self.stage.names.show(call)
    }

    /// Every request is sound, and holds the one before it byte for byte.
    fn check_bodies(&mut self, segment: &Segment) -> Played {
        let bodies = self.scene.bodies();
        let paused =
            segment.steps.iter().filter_map(|step| step.model.as_ref()?.stop.as_deref()).any(|stop| stop == "pause");
        let first = self.checked;
        for (at, sent) in bodies.iter().enumerate().skip(first) {
            let shown = || String::from_utf8_lossy(sent).into_owned();
            body::check(self.style, sent, paused).map_err(|why| format!("request {at}: {why}: {}", shown()))?;
            let carried = at > first || segment.history.is_none();
            if at > 0 && carried && !sent.starts_with(body::kept(self.style, &bodies[at - 1])) {
                let before = String::from_utf8_lossy(&bodies[at - 1]);
                return Err(format!("request {at} does not begin like the one before:\n{before}\n{}", shown()));
            }
        }
        self.checked = bodies.len();
        Ok(())
    }

    fn ending(&mut self, reported: Result<Report, RunError>) -> Played<Ending> {
        let report = match reported {
            Ok(report) => report,
            Err(RunError::Start(error)) => return Ok(Ending::not_started(&error)),
            Err(RunError::Resume(error)) => return Ok(Ending::not_resumed(&error)),
            Err(error) => return Err(error.to_string()),
        };
        if let Some(said) = self.said.filter(|_| !self.unnamed.is_empty()) {
            self.stage.learn(&report.transcript, said);
            self.unnamed.clear();
        }
        if let Some(listener) = &self.listener {
            same("text in pieces", &report.text, &listener.text()?)?;
        }
        let warnings = texts(&report.warnings);
        let ended = Ended {
            transcript: report.transcript,
            first: report.first,
            suspensions: report.suspensions,
            text: report.text,
            finish_reason: report.finish_reason.unwrap_or_default(),
            turns: report.turns,
        };
        let mut ending = Ending::of(&report.outcome, warnings, ended);
        // Fixtures fail the model in the words of an in-process one.
        if let Some((kind @ "ProviderError", _)) = &mut ending.error {
            *kind = "GenerateError";
        }
        Ok(ending)
    }
}

fn is_any(what: &What, said: &[&SaysCall]) -> bool {
    said.iter().any(|said| id_if(what, said).is_some())
}

/// The id of a call under way, if it is the one that was said.
fn id_if(what: &What, said: &SaysCall) -> Option<String> {
    let is_same = |name: &str, text: &str| {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(json!({}));
        name == said.name && read(text) == read(&said.arguments)
    };
    match what {
        What::Tool(call, _) => is_same(&call.name, call.input.get()).then(|| call.id.to_string()),
        What::Ask(request, _) => {
            let call = request.relay_calls().into_iter().next()?;
            is_same(&call.name, &call.arguments).then(|| call.id.to_string())
        }
        What::Model(_) => None,
    }
}

/// The time of a run; only steps that say so spend it.
const TIMEOUT: Duration = Duration::from_mins(1);
