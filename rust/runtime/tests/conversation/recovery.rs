//! What another worker goes on with: tools that may run again, calls that wait, answers that were taken (contract 7.6).

use std::time::Duration;

use tokio::time::sleep;
use toolrelay_core::run::io::Outcome;

use crate::world::{World, calls, play, results, says, yes};

/// Asks, or answers, in a worker that dies once `ran` calls have begun and `kept` messages are in the store.
async fn die_after<F>(world: &World, ran: usize, kept: usize, work: impl FnOnce(World) -> F)
where
    F: Future<Output = crate::world::Ended> + Send + 'static,
{
    let working = tokio::spawn(work(world.clone()));
    while world.ran().len() < ran || world.stored().await.messages.len() < kept {
        sleep(Duration::from_millis(1)).await;
    }
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    world.store.leases_are_over(true);
}

#[tokio::test]
async fn a_crash_with_tools_under_way_keeps_the_finished_marks_the_others_and_what_waits_waits() {
    for world in World::each(&[calls(&[("a", "slow"), ("b", "note"), ("c", "click")]), says("picked up")]) {
        die_after(&world, 2, 3, |world| async move { world.ask("go").await }).await;
        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: interrupted", "b: note done", "c: pending"]);
        let text = report.transcript.messages()[2].text();
        assert!(text.contains("may have run"), "{text}");
        let relay = &report.suspensions[0];
        let done = world.answer(relay, &results(&relay.id, &[("c", "clicked")])).await.unwrap();
        let expected = ["a: interrupted", "b: note done", "c: clicked", "model: picked up"];
        assert_eq!(play(&done.transcript)[2..], expected);
        assert_eq!(world.ran(), ["a", "b"]);
    }
}

#[tokio::test]
async fn a_tool_that_is_safe_to_retry_runs_again_and_a_finished_one_does_not() {
    for world in World::each(&[calls(&[("a", "count"), ("b", "count"), ("c", "note")]), says("picked up")]) {
        world.stage.slow.add_permits(1);
        die_after(&world, 3, 4, |world| async move { world.ask("go").await }).await;
        world.stage.slow.add_permits(1);
        let report = world.go_on().await.unwrap();
        let expected = ["a: at last", "b: at last", "c: note done", "model: picked up"];
        assert_eq!(play(&report.transcript)[2..], expected);
        let mut ran = world.ran();
        assert_eq!((ran.len(), &ran[..3]), (4, &["a", "b", "c"].map(str::to_owned)[..]));
        assert!(["a", "b"].contains(&ran.remove(3).as_str()));
        assert_eq!((report.warnings, report.turns), (vec![], 2));
    }
}

#[tokio::test]
async fn an_approved_tool_that_is_safe_to_retry_runs_again_with_its_answer() {
    for world in World::each(&[calls(&[("a", "vote"), ("b", "click")]), says("picked up")]) {
        let halted = world.ask("go").await.unwrap();
        let (approval, relay) = (halted.suspensions[0].clone(), &halted.suspensions[1]);
        let answer = yes(&approval);
        let (dead, given) = (approval.clone(), answer.clone());
        die_after(&world, 2, 2, |world| async move { world.answer(&dead, &given).await }).await;
        assert_eq!(world.stored().await.requests.len(), 2, "what is worked on is not settled");
        world.stage.slow.add_permits(1);

        // The other answer first ends what the dead worker left.
        let done = world.answer(relay, &results(&relay.id, &[("b", "clicked")])).await.unwrap();
        assert_eq!(play(&done.transcript)[2..], ["a: at last", "b: clicked", "model: picked up"]);
        assert_eq!(world.ran(), ["a", "a+", "a+"]);
        assert_eq!(world.model_calls(), 2);

        let again = world.answer(&approval, &answer).await.unwrap();
        assert_eq!(
            (&again.outcome, play(&again.transcript)),
            (
                &Outcome::Suspended,
                play(&halted.transcript)[..2]
                    .to_vec()
                    .into_iter()
                    .chain(["a: at last".into(), "b: pending".into()])
                    .collect::<Vec<_>>()
            )
        );
        assert_eq!(world.model_calls(), 2);
    }
}

#[tokio::test]
async fn an_answer_whose_worker_died_is_worked_on_by_whoever_goes_on() {
    for world in World::each(&[calls(&[("a", "vote")]), says("picked up")]) {
        let halted = world.ask("go").await.unwrap();
        let approval = halted.suspensions[0].clone();
        let dead = approval.clone();
        die_after(&world, 2, 2, |world| async move { world.answer(&dead, &yes(&dead)).await }).await;
        world.stage.slow.add_permits(1);
        let report = world.go_on().await.unwrap();
        assert_eq!(report.text, "picked up");
        assert_eq!(world.ran(), ["a", "a+", "a+"]);
        let again = world.answer(&approval, &yes(&approval)).await.unwrap();
        assert_eq!((again.text, again.outcome, world.model_calls()), (report.text, Outcome::Finished, 2));
        assert_eq!(world.stored().await.requests, []);
    }
}

#[tokio::test]
async fn what_is_asked_inline_is_kept_before_it_is_asked() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "pay"), ("c", "click")]), says("picked up")]) {
        let asking = world.clone().inline();
        let working = tokio::spawn(async move { asking.ask("go").await });
        while world.stage.asked.lock().unwrap().len() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
        world.store.leases_are_over(true);
        let kept: Vec<_> = world.stored().await.requests.into_iter().map(|row| row.id).collect();
        let mut asked: Vec<_> =
            world.stage.asked.lock().unwrap().iter().map(|request| request.id.to_string()).collect();
        asked.sort_by_key(|id| kept.iter().position(|kept| kept == id));
        assert_eq!(kept, asked);

        // A worker that asks nobody leaves them to be answered, the relay calls on one request.
        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: pending", "b: pending", "c: pending"]);
        assert_eq!(report.suspensions.iter().map(|request| request.id.to_string()).collect::<Vec<_>>(), kept[..2]);
        assert_eq!(world.stored().await.requests.len(), 2);
        let relay = &report.suspensions[0];
        world.answer(relay, &results(&relay.id, &[("a", "clicked"), ("c", "clicked")])).await.unwrap();
        let done = world.answer(&report.suspensions[1], &yes(&report.suspensions[1])).await.unwrap();
        assert_eq!(done.text, "picked up");
        assert_eq!(world.ran(), ["b", "b+"]);
    }
}

#[tokio::test]
async fn a_worker_that_asks_inline_asks_again_for_what_a_dead_one_asked() {
    for world in World::each(&[calls(&[("a", "click")]), says("picked up")]) {
        let world = world.inline();
        let asking = world.clone();
        let working = tokio::spawn(async move { asking.ask("go").await });
        while world.stage.asked.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
        world.store.leases_are_over(true);
        *world.stage.inline.lock().unwrap() = Some(|request| results(&request.id, &[("a", "clicked")]));
        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: clicked", "model: picked up"]);
        let asked = world.stage.asked.lock().unwrap().clone();
        assert_eq!(asked[0], asked[1], "the same request, and with it the same key for the host");
        assert_eq!(world.stored().await.requests, []);
    }
}

#[tokio::test]
async fn an_inline_answer_is_durable_before_its_tool_runs() {
    for world in World::each(&[calls(&[("a", "pay_slowly")]), says("picked up")]) {
        *world.stage.inline.lock().unwrap() = Some(yes);
        let asking = world.clone().inline();
        die_after(&world, 2, 2, |_| async move { asking.ask("go").await }).await;
        let [row] = &world.stored().await.requests[..] else { panic!("one request is worked on") };
        assert_eq!(row.answers.len(), 1);
        // It may have run, so nobody is asked to approve it a second time.
        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: interrupted", "model: picked up"]);
        assert_eq!((world.ran(), world.stage.asked.lock().unwrap().len()), (vec!["a".into(), "a+".into()], 1));
        assert_eq!(world.stored().await.requests, []);
    }
}
