//! Claim before work: of many exactly one, leases, and those who lost theirs (contract 7.2, 7.9).

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolrelay_core::run::io::Outcome;
use toolrelay_core::tool;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::{ConversationError, Loss};
use toolrelay_runtime::store::State;

use crate::world::{Ended, ID, World, calls, play, results, says};

fn refusal(ended: &Ended) -> Option<&ConversationError> {
    match ended {
        Err(RunError::Conversation(error)) => Some(error),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_one_pays_the_model() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let answer = results(&halted.suspensions[0].id, &[("a", "ok")]);
        let racers: Vec<_> = (0..16)
            .map(|_| {
                let (world, answer, pending) = (world.clone(), answer.clone(), halted.suspensions[0].clone());
                tokio::spawn(async move { world.answer(&pending, &answer).await })
            })
            .collect();
        let ended: Vec<Ended> = join_all(racers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(world.model_calls(), 2, "one for the prompt, one for the answer");
        for ended in &ended {
            match ended {
                Ok(report) => assert_eq!((&report.outcome, report.text.as_str()), (&Outcome::Finished, "clicked")),
                Err(_) => assert!(
                    matches!(
                        refusal(ended),
                        Some(ConversationError::AnswerInProgress { .. } | ConversationError::Busy { .. })
                    ),
                    "{ended:?}"
                ),
            }
        }
        assert!(ended.iter().any(Result::is_ok));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_different_answers_at_once_one_is_taken() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let racers: Vec<_> = (0..16)
            .map(|number| {
                let answer = results(&halted.suspensions[0].id, &[("a", &number.to_string())]);
                let (world, pending) = (world.clone(), halted.suspensions[0].clone());
                tokio::spawn(async move { world.answer(&pending, &answer).await })
            })
            .collect();
        let ended: Vec<Ended> = join_all(racers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1);
        let told = |ended: &&Ended| matches!(refusal(ended), Some(ConversationError::AlreadyAnswered { .. }));
        assert_eq!(ended.iter().filter(told).count(), 15, "{ended:?}");
        assert_eq!(world.model_calls(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_first_prompts_at_once_one_begins() {
    for world in World::each(&[]) {
        world.hold_model();
        let racers: Vec<_> = (0..16)
            .map(|_| {
                let world = world.clone();
                tokio::spawn(async move { world.ask("go").await })
            })
            .collect();
        while world.model_calls() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(50)).await;
        world.stage.model.add_permits(1);
        let ended: Vec<Ended> = join_all(racers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1);
        let busy = |ended: &&Ended| matches!(refusal(ended), Some(ConversationError::Busy { .. }));
        assert_eq!(ended.iter().filter(busy).count(), 15, "{ended:?}");
        assert_eq!(world.model_calls(), 1);
    }
}

#[tokio::test]
async fn a_long_model_call_keeps_its_lease() {
    let mut world = World::in_memory(vec![says("well considered")]);
    world.lease = Duration::from_millis(90);
    world.hold_model();
    let working = tokio::spawn({
        let world = world.clone();
        async move { world.ask("go").await }
    });
    while world.model_calls() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(20)).await;
        let other = world.ask("me too").await;
        assert!(matches!(refusal(&other), Some(ConversationError::Busy { lease: Some(_), .. })), "{other:?}");
    }
    world.stage.model.add_permits(1);
    let report = working.await.unwrap().unwrap();
    assert_eq!(play(&report.transcript), ["user: go", "model: well considered"]);
    assert_eq!(world.model_calls(), 1);
}

#[tokio::test]
async fn a_lease_too_short_to_renew_does_not_stop_the_run() {
    let mut world = World::in_memory(vec![says("here")]);
    world.lease = Duration::from_nanos(1);
    let report = timeout(Duration::from_secs(5), world.ask("go")).await.unwrap().unwrap();
    assert_eq!(report.text, "here");
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_writes_nothing_more_and_stops_its_tools() {
    for world in World::each(&[calls(&[("a", "slow"), ("b", "note")]), says("done without a")]) {
        let first = tokio::spawn({
            let mut world = world.clone();
            world.lease = Duration::from_millis(300);
            async move { world.ask("go").await }
        });
        while world.ran().len() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
        world.store.leases_are_over(true);
        let second = world.go_on().await.unwrap();
        world.store.leases_are_over(false);
        let expected = ["user: go", "model: a=slow b=note", "a: interrupted", "b: note done", "model: done without a"];
        assert_eq!(play(&second.transcript), expected);
        let stored = world.stored().await;

        let lost = timeout(Duration::from_secs(5), first).await.unwrap().unwrap();
        assert_eq!(refusal(&lost), Some(&ConversationError::LeaseLost { id: ID.into(), how: Loss::TakenOver }));
        assert_eq!(world.stored().await, stored, "the loser wrote");
        assert_eq!(world.stage.slow.available_permits(), 0);
        assert_eq!(world.model_calls(), 2);
    }
}

#[tokio::test]
async fn a_cancelled_run_leaves_the_conversation_free_and_its_finished_tools_kept() {
    for world in World::each(&[calls(&[("a", "click")]), calls(&[("b", "note"), ("c", "slow")]), says("done")]) {
        let halted = world.ask("go").await.unwrap();
        let (pending, stop) = (halted.suspensions[0].clone(), CancellationToken::new());
        let answer = results(&pending.id, &[("a", "ok")]);
        let working = tokio::spawn({
            let (world, pending, answer, stop) = (world.clone(), pending.clone(), answer.clone(), stop.clone());
            async move { world.answer_until(&pending, &answer, stop).await }
        });
        while world.ran().len() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
        stop.cancel();
        let cancelled = working.await.unwrap().unwrap();
        assert_eq!(cancelled.outcome, Outcome::Cancelled);
        assert_eq!(world.stored().await.state, State::Idle);

        let report = world.answer(&pending, &answer).await.unwrap();
        let lines = play(&report.transcript);
        assert_eq!(lines[4..], ["b: note done", "c: interrupted", "model: done"]);
        let last = report.transcript.messages()[5].result().unwrap().outcome;
        assert_eq!(last, tool::Outcome::Interrupted);
        assert_eq!(world.ran(), ["b", "c"]);
    }
}
