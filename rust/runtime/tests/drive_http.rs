//! Runs over HTTP: what is sent once, what is sent again, and what stops.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
#![allow(dead_code, reason = "each test binary uses its own part of the crew")]

#[path = "drive/crew.rs"]
mod crew;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crew::{Crew, client, gives, go, go_on, run, toolkit};
use serde_json::{Value, json};
use support::{Reply, Server};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::OnPending;
use toolrelay_core::run::io::{Failure, ModelFailure, Outcome};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::{Style, ToolChoice};
use toolrelay_runtime::client::{Client, Place, Report, Start};
use toolrelay_runtime::http::{HttpOptions, HttpTransport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;
use toolrelay_runtime::toolkit::Toolkit;

fn model(server: &Server, style: Style, params: &[(&str, &str)], base_delay: Duration) -> HttpModel {
    let params = params.iter().map(|(key, value)| ((*key).to_owned(), Json::parse(value).unwrap())).collect();
    let config = HttpModelConfig {
        params,
        retry: RetryPolicy { retries: 2, base_delay, max_delay: Duration::from_mins(1) },
        ..HttpModelConfig::new(style, server.url("/v1"), "m-1", "sk-0123456789")
    };
    HttpModel::new(config, Arc::new(HttpTransport::new(HttpOptions::default()))).unwrap()
}

const SOON: Duration = Duration::from_millis(1);

fn openai(server: &Server) -> Client {
    Client { inline: false, ..client(model(server, Style::OpenAi, &[], SOON)) }
}

fn calls(names: &[&str]) -> Reply {
    let call = |(at, name): (usize, &&str)| json!({"id": format!("k{}", at + 1), "type": "function", "function": {"name": name, "arguments": "{}"}});
    let calls: Vec<_> = names.iter().enumerate().map(call).collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Reply::json(json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string())
}

fn says(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    Reply::json(json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
}

/// A host whose tools count how often they ran.
fn counting() -> (Crew, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let crew = Crew::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { gives("saved") }
    });
    (crew, count)
}

/// Waits for the first request.
async fn arrival(server: &Server) {
    while server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn only_the_failed_request_is_tried_again() {
    let server = Server::script([calls(&["save"]), Reply::status(503), Reply::status(503), says("ok")]);
    let (crew, count) = counting();
    let report = run(&openai(&server), Transcript::default(), go(), &crew, &toolkit(&["save"])).await.unwrap();
    assert_eq!((report.outcome, report.turns), (Outcome::Finished, 2));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 4);
    assert_eq!(bodies[1], bodies[2]);
    assert_eq!(bodies[1], bodies[3]);
}

#[tokio::test]
async fn a_run_that_ran_out_of_tries_goes_on_where_it_stood() {
    let failures = [Reply::status(503), Reply::status(503), Reply::status(503)];
    let server = Server::script([calls(&["save"])].into_iter().chain(failures).chain([says("ok")]));
    let (crew, count) = counting();
    let (client, tools) = (openai(&server), toolkit(&["save"]));
    let failed = run(&client, Transcript::default(), go(), &crew, &tools).await.unwrap();
    let Outcome::Failed(Failure::Model(ModelFailure::Provider(failure))) = &failed.outcome else {
        panic!("{:?}", failed.outcome)
    };
    assert_eq!(failure.status, Some(503));
    let history = Transcript::from_json(failed.transcript.to_json().into()).unwrap();
    let report = run(&client, history, go_on(), &crew, &tools).await.unwrap();
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "ok"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(server.bodies()[1], server.bodies()[4]);
}

#[tokio::test]
async fn a_cancelled_run_waits_for_no_next_try() {
    let server = Server::script([Reply::status(503)]);
    let client = client(model(&server, Style::OpenAi, &[], Duration::from_mins(1)));
    let (crew, tools, stop) = (counting().0, toolkit(&[]), CancellationToken::new());
    let running = client.run(Place::History(Transcript::default()), go(), &crew, &tools, stop.clone());
    let stopping = async {
        arrival(&server).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
    };
    let both = async { tokio::join!(running, stopping) };
    let (report, ()) = timeout(Duration::from_secs(10), both).await.unwrap();
    assert_eq!(report.unwrap().outcome, Outcome::Cancelled);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_it_starts_sends_nothing() {
    let server = Server::script([says("ok")]);
    let (client, stop) = (openai(&server), CancellationToken::new());
    stop.cancel();
    let (crew, tools) = (counting().0, toolkit(&[]));
    let report = client.run(Place::History(Transcript::default()), go(), &crew, &tools, stop).await.unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dropping_the_run_closes_the_connection_of_its_model_call() {
    let server = Server::script([Reply::json("{}").stall_at(20)]);
    let (client, crew, tools) = (openai(&server), counting().0, toolkit(&[]));
    tokio::select! {
        report = run(&client, Transcript::default(), go(), &crew, &tools) => panic!("{report:?}"),
        () = arrival(&server) => {}
    }
    assert!(server.saw_hangups(1));
}

/// Resumes from what another process has: JSON, here with the keys sorted and the escapes rewritten.
async fn resumed_elsewhere(client: &Client, halted: &Report) -> Report {
    let mut saved: serde_json::Value = serde_json::from_slice(&halted.transcript.to_json()).unwrap();
    saved.sort_all_objects();
    let history = Transcript::from_json(saved.to_string().into()).unwrap();
    let pending = halted.suspensions[0].clone();
    let answer = json!({"id": pending.id, "ok": true, "data": {"output": "done"}});
    let answer = serde_json::from_value(answer).unwrap();
    let start = Start::Answer { pending, answer, missing: Missing::Error };
    run(client, history, start, &counting().0, &toolkit(&[])).await.unwrap()
}

#[tokio::test]
async fn thought_signatures_go_back_byte_for_byte_after_a_halt_in_another_process() {
    let parts = concat!(
        r#"[ {"text":"Two \u2014 no, \u0033 knots…","thought":true,"thoughtSignature":"EqQB/+8="},"#,
        r#"{"text":"Mooring."}, {"text":"","thoughtSignature":"b64=="},{"mystery":{"x":1.50}},"#,
        r#"{"functionCall":{"name":"moor","args":{ "z":1, "a":1.0 }},"thoughtSignature":"Zm9\/+A=="} ]"#
    );
    let reply = |parts: &str| {
        let content = format!(r#"{{"role":"model","parts":{parts}}}"#);
        Reply::json(format!(r#"{{"candidates":[{{"content":{content},"finishReason":"STOP"}}]}}"#))
    };
    let server = Server::script([reply(parts), reply(r#"[{"text":"Moored."}]"#)]);
    let gemini = || Client { inline: false, ..client(model(&server, Style::Gemini, &[], SOON)) };
    let halted = run(&gemini(), Transcript::default(), go(), &counting().0, &toolkit(&[])).await.unwrap();
    assert_eq!(halted.suspensions[0].relay_calls()[0].arguments, r#"{ "z":1, "a":1.0 }"#);
    let report = resumed_elsewhere(&gemini(), &halted).await;
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "Moored."));
    let inner = parts.strip_prefix("[ ").unwrap().strip_suffix(" ]").unwrap();
    let expected = format!(
        r#"{{"role":"model","parts":[{inner}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"moor","response":{{"output":"done"}}}}}}]}}]}}"#
    );
    let sent = &server.bodies()[1];
    assert!(sent.ends_with(&expected), "{sent}\n{expected}");
    assert!(sent.starts_with(server.bodies()[0].strip_suffix("]}]}").unwrap()));
    assert_eq!(server.requests()[0].line(), "POST /v1/models/m-1:generateContent HTTP/1.1");
    assert_eq!(server.requests()[0].header("x-goog-api-key"), Some("sk-0123456789"));
}

#[tokio::test]
async fn signed_thinking_goes_back_byte_for_byte_after_a_halt_in_another_process() {
    let content = concat!(
        r#"[ {"type":"thinking","thinking":"Two \u2014 no, \u0033 knots…","signature":"EqQB/+8=","x":1.50},"#,
        r#"{"type":"redacted_thinking","data":"b64=="}, {"type":"text","text":"Mooring.","citations":null},"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"moor","input":{ "z":1, "a":1.0 },"caller":{"type":"direct"}} ]"#
    );
    let reply = format!(r#"{{"role":"assistant","content":{content},"stop_reason":"tool_use"}}"#);
    let done = r#"{"role":"assistant","content":[{"type":"text","text":"Moored."}],"stop_reason":"end_turn"}"#;
    let server = Server::script([Reply::json(reply), Reply::json(done)]);
    let messages = || Client { inline: false, ..client(model(&server, Style::Anthropic, &[], SOON)) };
    let halted = run(&messages(), Transcript::default(), go(), &counting().0, &toolkit(&[])).await.unwrap();
    assert_eq!(halted.outcome, Outcome::Suspended);
    assert_eq!(halted.suspensions[0].relay_calls()[0].arguments, r#"{ "z":1, "a":1.0 }"#);

    let report = resumed_elsewhere(&messages(), &halted).await;
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "Moored."));
    let inner = content.strip_prefix("[ ").unwrap().strip_suffix(" ]").unwrap();
    let expected = format!(
        r#"{{"role":"assistant","content":[{inner}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_1","content":"done"}}]}}]}}"#
    );
    let sent = &server.bodies()[1];
    assert!(sent.ends_with(&expected), "{sent}\n{expected}");
    assert!(sent.starts_with(server.bodies()[0].strip_suffix("]}]}").unwrap()));
}

#[tokio::test]
async fn a_prompt_that_says_nothing_is_the_callers_mistake_and_is_not_sent() {
    let server = Server::script([says("ok")]);
    let messages = client(model(&server, Style::Anthropic, &[], SOON));
    let start = Start::Prompt { prompt: Some(Message::user(" ")), on_pending: OnPending::Refuse };
    let report = run(&messages, Transcript::default(), start, &counting().0, &toolkit(&[])).await.unwrap();
    let reason = "the transcript holds no message that says anything: add a prompt".to_owned();
    assert_eq!(report.outcome, Outcome::Failed(Failure::Model(ModelFailure::Unsendable { reason })));
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_debug_form_of_a_configuration_names_no_secret() {
    let address = "https://user:sk-0123456789@example.org/v1?key=sk-0123456789";
    let config = HttpModelConfig {
        headers: vec![("authorization".to_owned(), "Bearer sk-0123456789".to_owned())],
        ..HttpModelConfig::new(Style::OpenAi, address, "m-1", "sk-0123456789")
    };
    assert_eq!(format!("{config:?}"), r#"HttpModelConfig { style: OpenAi, model: "m-1", .. }"#);
}

#[tokio::test]
async fn without_tools_nothing_is_said_of_tools() {
    let params = [("tool_choice", r#""none""#), ("parallel_tool_calls", "false"), ("seed", "7")];
    let server = Server::script([says("ok")]);
    let client = client(model(&server, Style::OpenAi, &params, SOON));
    run(&client, Transcript::default(), go(), &counting().0, &Toolkit::default()).await.unwrap();
    assert_eq!(server.bodies()[0], r#"{"model":"m-1","seed":7,"messages":[{"role":"user","content":"go"}]}"#);
}

/// A choice that forces a call holds for the reply to a prompt: were it held over the results, too,
/// the model would call for ever.
#[tokio::test]
async fn a_forced_call_is_forced_once_per_prompt() {
    let server = Server::script([calls(&["save"]), says("saved"), calls(&["save"]), says("again")]);
    let config = HttpModelConfig {
        tool_choice: Some(ToolChoice::Tool("save".to_owned())),
        parallel_tool_calls: Some(false),
        ..HttpModelConfig::new(Style::OpenAi, server.url("/v1"), "m-1", "sk-0123456789")
    };
    let model = HttpModel::new(config, Arc::new(HttpTransport::new(HttpOptions::default()))).unwrap();
    let client = client(model);
    let tools = toolkit(&["save"]);
    let first = run(&client, Transcript::default(), go(), &counting().0, &tools).await.unwrap();
    run(&client, first.transcript, go(), &counting().0, &tools).await.unwrap();

    let named = json!({"type": "function", "function": {"name": "save"}});
    let asked = server.bodies().into_iter().map(|body| serde_json::from_str::<Value>(&body).unwrap());
    let said: Vec<_> =
        asked.map(|body| (body.get("tool_choice").cloned(), body["parallel_tool_calls"].clone())).collect();
    let (forced, free) = ((Some(named), json!(false)), (None, json!(false)));
    assert_eq!(said, [forced.clone(), free.clone(), forced, free]);
}
