//! Replies that are streamed for a watcher: what is told when, what a broken stream leaves, what time is given.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
#![allow(dead_code, reason = "each test binary uses its own part of the crew")]

#[path = "drive/crew.rs"]
mod crew;
#[path = "streams/scene.rs"]
mod scene;
#[path = "streams/silence.rs"]
mod silence;
#[path = "streams/sockets.rs"]
mod sockets;
mod support;

use crew::{Crew, gives, toolkit};
use scene::{Audience, Provider, client, watch, watch_until};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use toolrelay_core::id::CallId;
use toolrelay_core::reply::Usage;
use toolrelay_core::run::event::Event;
use toolrelay_core::run::io::{Failure, ModelFailure, Outcome};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};
use toolrelay_core::wire::stream::Delta;
use toolrelay_runtime::client::Report;
use toolrelay_runtime::watch::Told;

const HEL: &str = r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
const LO: &str = r#"{"choices":[{"index":0,"delta":{"content":"lo"}}]}"#;
const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const CALLS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
const TALLY: &str = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"k1","type":"function","function":{"name":"tally","arguments":""}}]}}]}"#;
const ARGUMENTS: &str =
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\":1}"}}]}}]}"#;

fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

fn idle() -> Crew {
    Crew::new(|_| async { gives("7") })
}

fn failure(report: &Report) -> &ProviderFailure {
    let Outcome::Failed(Failure::Model(ModelFailure::Provider(failure))) = &report.outcome else {
        panic!("the provider did not fail: {:?}", report.outcome)
    };
    failure
}

/// The roles of a transcript.
fn shape(report: &Report) -> Vec<String> {
    let role =
        |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap()["role"].as_str().unwrap().to_owned();
    report.transcript.messages().iter().map(|message| role(message.json())).collect()
}

#[tokio::test]
async fn pieces_are_told_as_they_come() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let feeding = async {
        feed.send(HEL).await;
        assert_eq!(audience.heard(1).await, [text("Hel")]);
        feed.send(LO).await;
        assert_eq!(audience.heard(2).await, [text("Hel"), text("lo")]);
        feed.send(STOP).await;
        feed.send("[DONE]").await;
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    let report = report.unwrap();
    assert_eq!((report.text.as_str(), shape(&report)), ("Hello", vec!["user".to_owned(), "assistant".to_owned()]));
    assert_eq!(audience.told().last(), Some(&Told::Event(Event::Usage(Usage::default()))));
}

#[tokio::test]
async fn d11_a_call_is_ready_once_and_only_when_its_reply_has_ended() {
    let (provider, audience) = (Provider::default(), Audience::new());
    provider.says(&[TALLY, ARGUMENTS, CALLS, "[DONE]"]);
    provider.says(&[HEL, STOP, "[DONE]"]);
    let (client, tools) = (client(&provider, Style::OpenAi), toolkit(&["tally"]));
    let report = watch(&client, &tools, &idle(), &audience).await.unwrap();
    assert_eq!(report.text, "Hel");
    let (id, name) = (|| CallId::new("k1"), || "tally".to_owned());
    let arguments = || r#"{"n":1}"#.to_owned();
    let input = report.transcript.call_records(0)[0].input.clone();
    let usage = || Told::Event(Event::Usage(Usage::default()));
    let expected = [
        Told::Delta(Delta::CallStarted { index: 0, id: Some("k1".to_owned()), name: name() }),
        Told::Delta(Delta::Arguments { index: 0, text: arguments() }),
        usage(),
        Told::Event(Event::CallReady { index: 0, id: id(), name: name(), arguments: arguments() }),
        Told::Event(Event::ToolStarted { id: id(), name: name(), input }),
        Told::Event(Event::ToolEnded { id: id(), name: name(), output: "7".to_owned(), is_error: false }),
        Told::Delta(text("Hel")),
        usage(),
    ];
    assert_eq!(audience.told(), expected);
}

#[tokio::test]
async fn nothing_more_is_read_before_there_is_room() {
    for tools in [toolkit(&[]), toolkit(&["harbour.tally"])] {
        let (provider, audience) = (Provider::default(), Audience::with_room(1));
        let feed = provider.stream();
        let (client, crew) = (client(&provider, Style::OpenAi), idle());
        let feeding = async {
            feed.send(HEL).await;
            audience.heard(1).await;
            feed.send(LO).await;
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(audience.deltas(), [text("Hel")], "one piece waits outside");
            audience.make_room();
            assert_eq!(audience.heard(2).await, [text("Hel"), text("lo")]);
            audience.make_room();
            feed.send(STOP).await;
            drop(feed);
            audience.make_room();
        };
        let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
        assert_eq!(report.unwrap().text, "Hello");
    }
}

#[tokio::test]
async fn a16_nothing_of_an_attempt_that_failed_stays() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let broken = provider.stream();
    provider.says(&[HEL, LO, STOP, "[DONE]"]);
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&["tally"]), idle());
    let feeding = async {
        broken.send(ROLE).await;
        broken.reset().await;
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    let report = report.unwrap();
    assert_eq!((report.text.as_str(), shape(&report)), ("Hello", vec!["user".to_owned(), "assistant".to_owned()]));
    assert_eq!(audience.deltas(), [text("Hel"), text("lo")]);
}

#[tokio::test]
async fn g3_what_was_told_is_not_told_again_by_another_attempt() {
    for pieces in [&[HEL][..], &[TALLY, ARGUMENTS], &[HEL, TALLY, ARGUMENTS]] {
        let (provider, audience) = (Provider::default(), Audience::new());
        let broken = provider.stream();
        provider.says(&[LO, STOP]);
        let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&["tally"]), idle());
        let feeding = async {
            for piece in pieces {
                broken.send(piece).await;
            }
            broken.reset().await;
        };
        let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
        let report = report.unwrap();
        let partial = if pieces[0] == HEL { "Hel" } else { "" };
        assert_eq!(failure(&report).partial_text.as_deref(), Some(partial));
        assert_eq!((failure(&report).kind, shape(&report)), (FailureKind::Connection, vec!["user".to_owned()]));
        assert_eq!(provider.left(), 1, "no other attempt was made");
    }
}

#[tokio::test]
async fn d19_a_stream_without_its_last_mark_is_cut_and_its_call_does_not_run() {
    let (provider, audience) = (Provider::default(), Audience::new());
    provider.says(&[TALLY, ARGUMENTS]);
    let (client, tools) = (client(&provider, Style::OpenAi), toolkit(&["tally"]));
    let report = watch(&client, &tools, &idle(), &audience).await.unwrap();
    assert_eq!(failure(&report).kind, FailureKind::Connection);
    assert_eq!((shape(&report), audience.deltas().len()), (vec!["user".to_owned()], 2));
}

#[tokio::test]
async fn d19_a_connection_that_breaks_behind_the_finish_reason_does_no_harm() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&[]), idle());
    let feeding = async {
        feed.send(HEL).await;
        feed.send(STOP).await;
        feed.reset().await;
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    assert_eq!(report.unwrap().text, "Hel");
}

#[tokio::test]
async fn d20_an_error_in_mid_stream_is_typed_and_carries_the_text_so_far() {
    let start = r#"{"type":"message_start","message":{"id":"m1","role":"assistant","content":[]}}"#;
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#;
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let bad = r#"{"choices":[],"error":{"code":400,"message":"bad tool"}}"#;
    let cases: [(Style, &[&str], FailureKind, bool); 2] = [
        (Style::Anthropic, &[start, block, delta, busy], FailureKind::Overloaded, true),
        (Style::OpenAi, &[HEL, bad], FailureKind::BadRequest, false),
    ];
    for (style, events, kind, is_retryable) in cases {
        let (provider, audience) = (Provider::default(), Audience::new());
        provider.says(events);
        let (client, tools) = (client(&provider, style), toolkit(&[]));
        let report = watch(&client, &tools, &idle(), &audience).await.unwrap();
        let failure = failure(&report);
        assert_eq!((failure.kind, failure.is_retryable(), failure.status), (kind, is_retryable, Some(200)));
        assert_eq!(failure.partial_text.as_deref(), Some("Hel"));
        assert_eq!((audience.deltas(), shape(&report)), (vec![text("Hel")], vec!["user".to_owned()]));
    }
}

#[tokio::test]
async fn d20_an_error_before_anything_was_told_is_tried_again() {
    let (provider, audience) = (Provider::default(), Audience::new());
    provider.says(&[ROLE, r#"{"error":{"type":"server_error","code":503,"message":"busy"}}"#]);
    provider.says(&[HEL, STOP]);
    let (client, tools) = (client(&provider, Style::OpenAi), toolkit(&[]));
    let report = watch(&client, &tools, &idle(), &audience).await.unwrap();
    assert_eq!((report.text.as_str(), provider.left()), ("Hel", 0));
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_told_in_one_piece() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.respond("application/json");
    provider.says(&[HEL, STOP]);
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&["tally"]), idle());
    let feeding = async {
        feed.send_raw(r#"{"choices":[{"message":{"content":"hi","tool_calls":[{"id":"k1","type":"function","#).await;
        feed.send_raw(r#""function":{"name":"tally","arguments":"{\"n\":1}"}}]}}]}"#).await;
        drop(feed);
    };
    let (report, ()) = tokio::join!(watch(&client, &tools, &crew, &audience), feeding);
    assert_eq!(report.unwrap().text, "Hel");
    let expected = [
        text("hi"),
        Delta::CallStarted { index: 0, id: Some("k1".to_owned()), name: "tally".to_owned() },
        Delta::Arguments { index: 0, text: r#"{"n":1}"#.to_owned() },
        text("Hel"),
    ];
    assert_eq!(audience.deltas(), expected);
}

#[tokio::test]
async fn tools_are_told_by_the_hosts_names() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let wire = toolrelay_core::wire::names::wire_name("harbour.tally");
    assert_ne!(wire, "harbour.tally");
    provider.says(&[&TALLY.replace("tally", &wire), CALLS]);
    provider.says(&[HEL, STOP]);
    let (client, tools) = (client(&provider, Style::OpenAi), toolkit(&["harbour.tally"]));
    watch(&client, &tools, &idle(), &audience).await.unwrap();
    assert_eq!(
        audience.deltas()[0],
        Delta::CallStarted { index: 0, id: Some("k1".to_owned()), name: "harbour.tally".to_owned() }
    );
}

#[tokio::test]
async fn a_run_that_is_stopped_in_mid_stream_closes_it_and_keeps_nothing_of_it() {
    let (provider, audience) = (Provider::default(), Audience::new());
    let feed = provider.stream();
    let (client, tools, crew) = (client(&provider, Style::OpenAi), toolkit(&["tally"]), idle());
    let stop = CancellationToken::new();
    let feeding = async {
        feed.send(HEL).await;
        feed.send(TALLY).await;
        feed.send(ARGUMENTS).await;
        audience.heard(3).await;
        stop.cancel();
        feed.closed().await;
    };
    let (report, ()) = tokio::join!(watch_until(&client, &tools, &crew, &audience, stop.clone()), feeding);
    let report = report.unwrap();
    assert_eq!((&report.outcome, shape(&report)), (&Outcome::Cancelled, vec!["user".to_owned()]));
}
