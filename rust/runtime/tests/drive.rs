//! The driver: limits, cancellation, failures and panics, with a scripted model and host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

#[path = "drive/crew.rs"]
mod crew;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crew::{
    Crew, Diary, Script, Turn, approval, calls, client, gives, go, go_on, outcomes, results, run, says, toolkit,
};
use futures_util::future::pending;
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolrelay_core::answer::Answer;
use toolrelay_core::message::Message;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::io::{Failure, Limit, ModelFailure, Outcome};
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::tool;
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::{Client, Place, RunError, Start};
use toolrelay_runtime::drive::{Log, Surroundings, drive, now_ms};
use toolrelay_runtime::host::AskEnd;
use toolrelay_runtime::model::Model;
use toolrelay_runtime::store::StoreError;

/// A host whose `tally` gives 7, whose `pay` never ends and whose `ask` never ends.
fn slow(diary: &Diary) -> Crew {
    let (tools, asks) = (diary.clone(), diary.clone());
    Crew::new(move |call| {
        let dropped = (call.name != "tally").then(|| tools.when_dropped("tool dropped"));
        async move {
            if dropped.is_none() {
                return gives("7");
            }
            pending().await
        }
    })
    .asked(move |_| {
        let dropped = asks.when_dropped("question dropped");
        async move {
            let _dropped = dropped;
            pending().await
        }
    })
}

/// What may be under way when something ends a run, and what is dropped then.
fn phases() -> [(Vec<Turn>, &'static str); 3] {
    [
        (vec![calls(&["tally"]), Turn::Never], "model dropped"),
        (vec![calls(&["tally", "pay"])], "tool dropped"),
        (vec![calls(&["tally", "moor"])], "question dropped"),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_ends_it_in_every_phase() {
    for (turns, dropped) in phases() {
        let (diary, begun) = (Diary::default(), Instant::now());
        let client = Client { timeout: Some(Duration::from_secs(30)), ..client(Script::new(&diary, turns)) };
        let tools = toolkit(&["tally", "pay"]);
        let report = run(&client, Transcript::default(), go(), &slow(&diary), &tools).await.unwrap();
        assert_eq!(report.outcome, Outcome::Exhausted(Limit::Timeout));
        assert_eq!(begun.elapsed().as_secs(), 30);
        assert_eq!(diary.read().last().unwrap(), dropped);
        assert_eq!(outcomes(&report.transcript)[0], tool::Outcome::Ok);
        assert_eq!(report.suspensions.len(), usize::from(dropped == "question dropped"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_at_once_in_every_phase_and_a_prompt_can_follow() {
    for (turns, dropped) in phases() {
        let diary = Diary::default();
        let client = client(Script::new(&diary, turns));
        let tools = toolkit(&["tally", "pay"]);
        let (stop, crew) = (CancellationToken::new(), slow(&diary));
        let running = client.run(Place::History(Transcript::default()), go(), &crew, &tools, stop.clone());
        let stopping = async {
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let (report, ()) = tokio::join!(running, stopping);
        let report = report.unwrap();
        assert_eq!(report.outcome, Outcome::Cancelled);
        assert_eq!(diary.read().last().unwrap(), dropped);

        let start = Start::Prompt { prompt: Some(Message::user("again")), on_pending: OnPending::Supersede };
        let next = self::client(Script::new(&diary, [says("hello")]));
        let report = run(&next, report.transcript, start, &crew, &tools).await.unwrap();
        assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "hello"));
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_it_starts_has_no_effect() {
    let diary = Diary::default();
    let stop = CancellationToken::new();
    stop.cancel();
    let client = client(Script::new(&diary, [Turn::Never]));
    let (crew, tools) = (slow(&diary), toolkit(&[]));
    let report = client.run(Place::History(Transcript::default()), go(), &crew, &tools, stop).await.unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(report.transcript.len(), 1);
}

#[tokio::test]
async fn a_run_whose_effects_all_end_at_once_can_be_cancelled() {
    let diary = Diary::default();
    let stop = CancellationToken::new();
    let turns: Vec<Turn> = (0..100).map(|_| calls(&["tally"])).collect();
    let client = Client { max_turns: 100, ..client(Script::new(&diary, turns)) };
    let cancel = stop.clone();
    let crew = Crew::new(move |_| {
        cancel.cancel();
        async { gives("7") }
    });
    let tools = toolkit(&["tally"]);
    let report = client.run(Place::History(Transcript::default()), go(), &crew, &tools, stop).await.unwrap();
    assert_eq!((report.outcome, report.turns), (Outcome::Cancelled, 1));
}

/// RFC 3339, so many seconds from now on the wall clock.
fn in_seconds(seconds: i64) -> String {
    jiff::Timestamp::from_millisecond(now_ms() + 1_000 * seconds).unwrap().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_when_its_request_expires() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["pay", "tally"]), says("ok")]));
    let asking = diary.clone();
    let crew =
        Crew::new(
            |call| async move { if call.name == "tally" { gives("7") } else { approval(Some(in_seconds(3_600))) } },
        )
        .asked(move |_| {
            let dropped = asking.when_dropped("question dropped");
            async move {
                let _dropped = dropped;
                pending().await
            }
        });
    let begun = Instant::now();
    let report = run(&client, Transcript::default(), go(), &crew, &toolkit(&["pay", "tally"])).await.unwrap();
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!(outcomes(&report.transcript), [tool::Outcome::Expired, tool::Outcome::Ok]);
    assert!((3_590..=3_600).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(diary.read(), ["model asked", "question dropped", "model asked"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_request_is_not_asked_and_a_late_one_waits() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["gone", "late"]), says("ok")]));
    let asked = diary.clone();
    let crew = Crew::new(|call| async move {
        match (call.answer, call.name.as_str()) {
            (Some(_), _) => gives("paid"),
            (None, "gone") => approval(Some(in_seconds(-1))),
            (None, _) => approval(Some("9999-01-01T00:00:00Z".to_owned())),
        }
    })
    .asked(move |request| {
        asked.write(request.expires_at.clone().unwrap());
        async move {
            sleep(Duration::from_hours(24 * 365 * 4)).await;
            AskEnd::Answered(Answer { id: request.id, ok: true, data: None, reason: None })
        }
    });
    let report = run(&client, Transcript::default(), go(), &crew, &toolkit(&["gone", "late"])).await.unwrap();
    assert_eq!(outcomes(&report.transcript), [tool::Outcome::Expired, tool::Outcome::Ok]);
    assert_eq!(diary.read(), ["model asked", "9999-01-01T00:00:00Z", "model asked"]);
}

#[tokio::test]
async fn an_answer_to_an_expired_request_is_refused() {
    let diary = Diary::default();
    let client = Client { inline: false, ..client(Script::new(&diary, [calls(&["pay"])])) };
    let crew = Crew::new(|_| async { approval(Some(in_seconds(-5))) });
    let tools = toolkit(&["pay"]);
    let halted = run(&client, Transcript::default(), go(), &crew, &tools).await.unwrap();
    let pending = halted.suspensions[0].clone();
    let answer = Answer { id: pending.id.clone(), ok: true, data: None, reason: None };
    let start = Start::Answer { pending: pending.clone(), answer, missing: Missing::Error };
    let error = run(&client, halted.transcript, start, &crew, &tools).await.unwrap_err();
    let at = pending.expires_at.unwrap();
    assert_eq!(error, RunError::Resume(ResumeError::Expired { request: pending.id, at }));
}

#[tokio::test]
async fn a_failed_model_call_leaves_a_transcript_to_go_on_from_and_no_tool_runs_twice() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["save"]), Turn::Fails("no route"), says("saved")]));
    let saving = diary.clone();
    let crew = Crew::new(move |_| {
        saving.write("saved");
        async { gives("1") }
    });
    let tools = toolkit(&["save"]);
    let failed = run(&client, Transcript::default(), go(), &crew, &tools).await.unwrap();
    let failure = ModelFailure::in_process("no route");
    assert_eq!(failed.outcome, Outcome::Failed(Failure::Model(failure)));
    assert_eq!(failed.transcript.len(), 3);
    let report = run(&client, failed.transcript, go_on(), &crew, &tools).await.unwrap();
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "saved"));
    assert_eq!(diary.read(), ["model asked", "saved", "model asked", "model asked"]);
}

#[tokio::test(start_paused = true)]
async fn tools_run_side_by_side_and_their_results_stand_in_call_order() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["three", "one", "two"]), says("ok")]));
    let (together, done) = (Arc::new(Barrier::new(3)), diary.clone());
    let crew = Crew::new(move |call| {
        let (together, done) = (Arc::clone(&together), done.clone());
        async move {
            together.wait().await;
            let seconds = match call.name.as_str() {
                "one" => 1,
                "two" => 2,
                _ => 3,
            };
            sleep(Duration::from_secs(seconds)).await;
            done.write(&*call.name);
            gives(&call.name)
        }
    });
    let begun = Instant::now();
    let report = run(&client, Transcript::default(), go(), &crew, &toolkit(&["one", "two", "three"])).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(diary.read(), ["model asked", "one", "two", "three", "model asked"]);
    let texts: Vec<String> = results(&report.transcript).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["three", "one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_drops_all_that_is_under_way() {
    for (turns, dropped) in phases() {
        let diary = Diary::default();
        let client = client(Script::new(&diary, turns));
        let (crew, tools) = (slow(&diary), toolkit(&["tally", "pay"]));
        let running = run(&client, Transcript::default(), go(), &crew, &tools);
        assert!(timeout(Duration::from_secs(1), running).await.is_err());
        assert_eq!(diary.read().last().unwrap(), dropped);
    }
}

#[tokio::test]
async fn a_tool_that_panics_gives_an_error_result_and_leaves_its_siblings_alone() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["early", "late", "tally"]), says("ok")]));
    let crew = Crew::new(|call| {
        assert!(call.name != "early", "the {} bird", call.name);
        async move {
            assert!(call.name != "late", "worm");
            gives("7")
        }
    });
    let report = run(&client, Transcript::default(), go(), &crew, &toolkit(&["early", "late", "tally"])).await.unwrap();
    let expected = [
        (tool::Outcome::Error, "panicked: the early bird".to_owned()),
        (tool::Outcome::Error, "panicked: worm".to_owned()),
        (tool::Outcome::Ok, "7".to_owned()),
    ];
    assert_eq!(results(&report.transcript), expected);
    assert_eq!(report.outcome, Outcome::Finished);
}

#[tokio::test]
async fn a_host_that_panics_when_it_is_asked_loses_nothing() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["moor", "tally"])]));
    let crew = Crew::new(|_| async { gives("7") }).asked(|_| async { panic!("no host") });
    let report = run(&client, Transcript::default(), go(), &crew, &toolkit(&["tally"])).await.unwrap();
    assert_eq!(report.outcome, Outcome::Failed(Failure::AskFailed));
    assert_eq!(report.suspensions.len(), 1);
    assert_eq!(results(&report.transcript)[1], (tool::Outcome::Ok, "7".to_owned()));
}

#[tokio::test]
async fn a_model_that_panics_is_a_failed_call() {
    let diary = Diary::default();
    let client = client(Script::new(&diary, [calls(&["tally"]), Turn::Panics, says("7")]));
    let (crew, tools) = (Crew::new(|_| async { gives("7") }), toolkit(&["tally"]));
    let failed = run(&client, Transcript::default(), go(), &crew, &tools).await.unwrap();
    let failure = ModelFailure::in_process("panicked: no wind");
    assert_eq!(failed.outcome, Outcome::Failed(Failure::Model(failure)));
    let report = run(&client, failed.transcript, go_on(), &crew, &tools).await.unwrap();
    assert_eq!(report.text, "7");
}

/// Writes down when it is asked to save.
struct Noted(Diary);

#[async_trait]
impl Log for Noted {
    async fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        let end = if run.outcome().is_some() { "the end" } else { "so far" };
        self.0.write(format!("saved {end}"));
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        self.0.write("renewed");
        Ok(())
    }

    fn renewal(&self) -> Option<Duration> {
        Some(Duration::from_secs(10))
    }

    fn name(&self) -> Option<String> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_new_is_saved_before_anything_starts_and_the_end_after_everything_has_stopped() {
    let diary = Diary::default();
    let script = Script::new(&diary, [calls(&["tally", "pay"])]);
    let (crew, tools) = (slow(&diary), toolkit(&["tally", "pay"]));
    let session = script.open(&tools, None).unwrap();
    let around = Surroundings {
        host: &crew,
        session: &*session,
        tools: &tools,
        watcher: None,
        stop: CancellationToken::new(),
        deadline: Some(Instant::now() + Duration::from_secs(25)),
    };
    let config = RunConfig { max_turns: 10, inline: true, events: false, seed: [7; 32] };
    let prompt = Some(Message::user("go"));
    let (mut run, _) = Run::start(Transcript::default(), prompt, OnPending::Refuse, &config).unwrap();
    drive(&mut run, &around, &mut Noted(diary.clone())).await.unwrap();
    let begun = ["saved so far", "model asked", "saved so far"];
    // One of the two calls has ended.
    let rest = ["saved so far", "renewed", "renewed", "tool dropped", "saved the end"];
    let expected: Vec<&str> = begun.into_iter().chain(rest).collect();
    assert_eq!(diary.read(), expected);
}
