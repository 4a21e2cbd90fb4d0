//! Stores in trouble: a commit whose outcome nobody knows is looked up, and trouble that passes
//! costs no reply that was paid for.

use std::time::Duration;

use tokio::time::sleep;
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::ConversationError;
use toolrelay_runtime::store::StoreError;

use crate::faulty::Fault;
use crate::world::{World, calls, play, results, says};

#[tokio::test]
async fn a_lost_commit_is_looked_up_wherever_it_is_lost() {
    for fault in [Fault::LostBefore, Fault::LostAfter, Fault::LostLate] {
        for at in 0..6 {
            for world in World::each(&[calls(&[("a", "note"), ("b", "click")]), says("the end")]) {
                world.store.fail(at, fault);
                let halted = world.ask("go").await.unwrap();
                let pending = &halted.suspensions[0];
                let done = world.answer(pending, &results(&pending.id, &[("b", "clicked")])).await.unwrap();
                assert_eq!(play(&done.transcript)[2..], ["a: note done", "b: clicked", "model: the end"]);
                assert_eq!((world.model_calls(), world.ran()), (2, vec!["a".to_owned()]), "{fault:?} at {at}");
                assert_eq!(world.stored().await.messages.len(), 5, "{fault:?} at {at}");
            }
        }
    }
}

#[tokio::test]
async fn a_part_of_an_answer_whose_commit_is_lost_is_told_from_the_store() {
    let world = World::in_memory(vec![calls(&[("a", "click"), ("b", "type")])]);
    let halted = world.ask("go").await.unwrap();
    let pending = &halted.suspensions[0];
    world.store.fail(0, Fault::LostAfter);
    let report = world.answer_partly(pending, &results(&pending.id, &[("a", "clicked")])).await.unwrap();
    assert_eq!(report.outcome, Outcome::Suspended);
    assert_eq!(play(&report.transcript)[2..], ["a: clicked", "b: pending"]);
    assert_eq!(report.suspensions[0].relay_calls().len(), 1);
}

#[tokio::test]
async fn a_store_that_stays_away_ends_the_run_with_what_it_had() {
    for (begins, outcome) in [(1, "a: notrun"), (2, "a: note done")] {
        let world = World::in_memory(vec![calls(&[("a", "note")]), says("the end")]);
        for at in begins..8 {
            world.store.fail(at, Fault::LostBefore);
        }
        match world.ask("go").await {
            Err(RunError::Store { error: StoreError::Unavailable { .. }, transcript }) => {
                assert_eq!(play(&transcript), ["user: go", "model: a=note", outcome]);
            }
            other => panic!("{other:?}"),
        }
        let other = world.ask("go").await;
        assert!(matches!(other, Err(RunError::Conversation(ConversationError::Busy { .. }))), "{other:?}");
    }
}

#[tokio::test]
async fn a_renewal_that_fails_while_the_lease_lasts_is_made_up_for() {
    for fault in [Fault::LostBefore, Fault::LostAfter, Fault::LostLate] {
        let mut world = World::in_memory(vec![says("well considered")]);
        world.lease = Duration::from_millis(1500);
        world.hold_model();
        // The claim goes through; the first renewal and its two repetitions do not.
        for at in 1..4 {
            world.store.fail(at, fault);
        }
        let working = tokio::spawn({
            let world = world.clone();
            async move { world.ask("go").await }
        });
        sleep(Duration::from_millis(1100)).await;
        world.stage.model.add_permits(1);
        let report = working.await.unwrap().unwrap();
        assert_eq!(play(&report.transcript), ["user: go", "model: well considered"]);
        assert_eq!(world.model_calls(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_lock_is_told_to_a_claim_and_waited_out_by_a_run() {
    let world = World::in_memory(vec![calls(&[("a", "note")]), says("the end")]);
    world.store.fail(0, Fault::Locked);
    let refused = world.ask("go").await;
    let locked = |error: &ConversationError| matches!(error, ConversationError::Store(StoreError::Locked { .. }));
    assert!(matches!(&refused, Err(RunError::Conversation(error)) if locked(error)), "{refused:?}");
    assert_eq!((world.store.written().len(), world.model_calls()), (0, 0));

    world.store.fail(1, Fault::Locked);
    world.store.fail(4, Fault::Locked);
    assert_eq!(world.ask("go").await.unwrap().text, "the end");
    assert_eq!((world.model_calls(), world.ran()), (2, vec!["a".to_owned()]));
}
