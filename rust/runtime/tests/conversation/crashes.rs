//! Processes that die: at every commit, and at every point where a run waits. Another worker goes
//! on from the store when the lease has run out (contract 7.2, 7.3, 7.6; faults H1, H2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Provider, Reply, Stop};
use toolrelay_core::request::Request;
use toolrelay_core::run::StartError;
use toolrelay_core::run::io::Outcome;
use toolrelay_core::wire::Style;
use toolrelay_runtime::client::{Report, RunError};
use toolrelay_runtime::conversation::ConversationError;

use crate::faulty::Fault;
use crate::world::{Ended, World, calls, play, results, says, yes};

fn script() -> Vec<Reply> {
    vec![calls(&[("a", "note"), ("b", "click"), ("c", "pay")]), calls(&[("d", "note"), ("e", "note")]), says("the end")]
}

/// One life of a process: `None` when it died under way.
enum Life {
    /// Until the store gets this commit of it.
    Commits(usize, Fault),
    Polls(usize),
    Unharmed,
}

impl Life {
    async fn live(&self, world: &World, work: impl Future<Output = Ended>) -> Option<Ended> {
        match self {
            Self::Unharmed => Some(work.await),
            Self::Commits(ahead, fault) => {
                world.store.fail(*ahead, *fault);
                let ended = tokio::select! {
                    ended = work => Some(ended),
                    () = world.store.death() => None,
                };
                world.store.heal();
                ended
            }
            Self::Polls(most) => {
                let (mut work, mut left) = (pin!(work), *most);
                poll_fn(|context| match (left.checked_sub(1), work.as_mut().poll(context)) {
                    (_, Poll::Ready(ended)) => Poll::Ready(Some(ended)),
                    (None | Some(0), Poll::Pending) => Poll::Ready(None),
                    (Some(fewer), Poll::Pending) => {
                        left = fewer;
                        Poll::Pending
                    }
                })
                .await
            }
        }
    }
}

/// What a host does, whatever happens to its processes: ask, answer the relay call, approve. The
/// process that does step `mortal` may die; the others do not.
async fn insist(world: &World, mortal: usize, life: &Life) -> (Report, usize) {
    let mut deaths = 0;
    let life = |step| if step == mortal { life } else { &Life::Unharmed };

    let first = life(0).live(world, world.ask("go")).await;
    deaths += usize::from(first.is_none());
    let (mut last, halted) = match first {
        Some(ended) => learn(ended),
        None => take_over(world).await,
    };
    for pending in halted {
        let answer = if pending.is_relay() { results(&pending.id, &[("b", "clicked")]) } else { yes(&pending) };
        let step = if pending.is_relay() { 1 } else { 2 };
        let mut ended = life(step).live(world, world.answer(&pending, &answer)).await;
        if ended.is_none() {
            deaths += 1;
            world.store.leases_are_over(true);
            ended = Some(world.answer(&pending, &answer).await);
            world.store.leases_are_over(false);
        }
        let report = without_warnings(ended.unwrap().unwrap());
        assert_eq!(world.answer(&pending, &answer).await.unwrap(), report, "the same answer again");
        last = Some(report);
    }
    (last.unwrap(), deaths)
}

/// The next worker, after the one that was asked died: it learns what waits, or goes on.
async fn take_over(world: &World) -> (Option<Report>, Vec<Request>) {
    world.store.leases_are_over(true);
    let ended = match world.go_on().await {
        Err(RunError::Conversation(ConversationError::NotFound { .. })) => world.ask("go").await,
        ended => ended,
    };
    world.store.leases_are_over(false);
    learn(ended)
}

/// What a host learns: how the run ended, and what waits.
fn learn(ended: Ended) -> (Option<Report>, Vec<Request>) {
    match ended {
        Ok(report) => (Some(report.clone()), report.suspensions),
        Err(RunError::Conversation(ConversationError::Start(StartError::Pending { requests, .. }))) => (None, requests),
        Err(error) => panic!("{error:?}"),
    }
}

fn without_warnings(report: Report) -> Report {
    Report { warnings: Vec::new(), ..report }
}

async fn check(world: &World, report: &Report, deaths: usize, place: &str) {
    let lines = play(&report.transcript);
    let transcript = &report.transcript;
    assert_eq!(lines[0], "user: go", "{place}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("user")).count(), 1, "{place}: {lines:?}");
    let calls: Vec<_> =
        transcript.messages().iter().flat_map(|m| m.calls().iter().map(|call| call.id.clone())).collect();
    let settled: Vec<_> = transcript.messages().iter().filter_map(|m| Some(m.result()?.call.clone())).collect();
    assert_eq!(settled, calls, "one result per call, in order, {place}: {lines:?}");
    assert!(!transcript.is_halted(), "{place}: {lines:?}");
    assert_eq!((&report.outcome, report.text.as_str()), (&Outcome::Finished, "the end"), "{place}");

    let mut ran = world.ran();
    let all = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), all, "a tool ran twice, {place}: {:?}", world.ran());
    assert!(world.model_calls() <= 3 + deaths, "{place}: {} model calls", world.model_calls());

    let stored = world.stored().await;
    let bytes: Vec<_> = stored.messages.iter().map(|(_, bytes)| bytes.clone()).collect();
    let told: Vec<_> = transcript.messages().iter().map(Message::to_bytes).collect();
    assert_eq!(bytes, told, "{place}");
    assert!(stored.requests.is_empty() && stored.lease.is_none(), "{place}: {stored:?}");
}

#[tokio::test]
async fn a_death_at_any_commit_loses_nothing_and_repeats_nothing() {
    for (step, most) in [(0, 3), (1, 1), (2, 5)] {
        for at in 0..=most {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                for world in World::each(&script()) {
                    let (report, deaths) = insist(&world, step, &Life::Commits(at, fault)).await;
                    check(&world, &report, deaths, &format!("{fault:?} at commit {at} of step {step}")).await;
                    assert_eq!(deaths, usize::from(at < most), "commit {at} of step {step}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_death_wherever_a_run_waits_loses_nothing_and_repeats_nothing() {
    for step in 0..3 {
        for polls in 0.. {
            let world = World::in_memory(script());
            let (report, deaths) = insist(&world, step, &Life::Polls(polls)).await;
            check(&world, &report, deaths, &format!("step {step} after {polls} polls")).await;
            if deaths == 0 {
                assert!(polls > 4, "step {step} waits somewhere");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_crash_while_one_of_two_answers_is_worked_on_leaves_the_other_request_open() {
    let replies = [calls(&[("a", "pay"), ("b", "click")]), says("picked up")];
    for again in [true, false] {
        for world in World::each(&replies) {
            let halted = world.ask("go").await.unwrap();
            let (approval, relay) = (&halted.suspensions[0], &halted.suspensions[1]);
            // The claim lands, and the tool that was approved may have begun.
            let died = Life::Commits(1, Fault::DieBefore).live(&world, world.answer(approval, &yes(approval))).await;
            assert!(died.is_none());
            world.store.leases_are_over(true);
            if again {
                let report = world.answer(approval, &yes(approval)).await.unwrap();
                assert_eq!(report.outcome, Outcome::Suspended);
                assert_eq!(report.suspensions, std::slice::from_ref(relay));
                assert_eq!(play(&report.transcript)[2..], ["a: interrupted", "b: pending"]);
                let again = world.answer(approval, &yes(approval)).await.unwrap();
                assert_eq!(again, without_warnings(report));
            }
            let answer = results(&relay.id, &[("b", "clicked")]);
            let done = world.answer(relay, &answer).await.unwrap();
            assert_eq!(play(&done.transcript)[2..], ["a: interrupted", "b: clicked", "model: picked up"]);
            assert_eq!(world.ran(), ["a", "a+"]);
        }
    }
}

#[tokio::test]
async fn a_new_prompt_after_a_crash_finds_a_valid_conversation() {
    let world = World::in_memory(vec![calls(&[("a", "slow")]), says("never mind then")]);
    let working = tokio::spawn({
        let world = world.clone();
        async move { world.ask("go").await }
    });
    while world.ran().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    world.store.leases_are_over(true);
    let report = world.ask("are you there?").await.unwrap();
    let expected = ["user: go", "model: a=slow", "a: interrupted", "user: are you there?", "model: never mind then"];
    assert_eq!(play(&report.transcript), expected);
}

#[tokio::test]
async fn a_crash_behind_a_pause_of_the_provider_goes_on_from_the_pause() {
    let raw = r#"[{"type":"server_tool_use","id":"s_1"}]"#.to_owned();
    let provider = Some(Provider { style: Style::Anthropic, raw, paused: true });
    let pause = Reply { stop: Stop::Paused, provider, ..says("searching") };
    let world = World::in_memory(vec![pause, says("found")]);
    assert!(Life::Commits(2, Fault::DieBefore).live(&world, world.ask("go")).await.is_none());
    world.store.leases_are_over(true);
    let report = world.go_on().await.unwrap();
    assert_eq!(play(&report.transcript), ["user: go", "model: searching", "model: found"]);
}
