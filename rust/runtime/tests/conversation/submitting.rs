//! Prompts and answers that one worker makes durable and another works on.

use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::ConversationError;
use toolrelay_runtime::store::State;

use crate::world::{World, calls, play, results, says, yes};

fn error<T: std::fmt::Debug>(ended: Result<T, RunError>) -> ConversationError {
    match ended {
        Err(RunError::Conversation(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_submitted_prompt_is_durable_and_whoever_goes_on_works_on_it() {
    for world in World::each(&[says("hello")]) {
        world.submit("hi").await.unwrap();
        let stored = world.stored().await;
        assert_eq!((stored.state, stored.messages.len()), (State::Running, 1));
        assert_eq!(stored.lease.unwrap().owner, "");
        assert_eq!(world.model_calls(), 0);

        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript), ["user: hi", "model: hello"]);
        assert_eq!(world.stored().await.state, State::Idle);
    }
}

#[tokio::test]
async fn of_workers_that_take_up_one_prompt_one_works() {
    for world in World::each(&[says("hello")]) {
        world.submit("hi").await.unwrap();
        let (one, other) = tokio::join!(world.go_on(), world.go_on());
        assert_eq!([&one, &other].into_iter().filter(|ended| ended.is_ok()).count(), 1, "{one:?} {other:?}");
        assert_eq!(world.model_calls(), 1);
    }
}

#[tokio::test]
async fn until_it_is_taken_up_a_prompt_keeps_others_out() {
    for world in World::each(&[says("hello")]) {
        world.submit("hi").await.unwrap();
        assert!(matches!(error(world.submit("and?").await), ConversationError::Busy { lease: Some(_), .. }));
        assert!(matches!(error(world.ask("and?").await.map(drop)), ConversationError::Busy { .. }));
    }
}

#[tokio::test]
async fn a_submitted_answer_is_settled_and_the_model_is_called_by_whoever_takes_it_up() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "type")]), says("picked up")]) {
        let halted = world.ask("go").await.unwrap();
        let pending = &halted.suspensions[0];
        let answer = results(&pending.id, &[("a", "clicked"), ("b", "typed")]);
        assert!(world.submit_answer(pending, &answer).await.unwrap(), "there is a run to take up");
        assert_eq!(world.model_calls(), 1);
        assert!(matches!(
            error(world.submit_answer(pending, &answer).await),
            ConversationError::AnswerInProgress { .. }
        ));
        let other = results(&pending.id, &[("a", "x"), ("b", "y")]);
        assert!(matches!(error(world.submit_answer(pending, &other).await), ConversationError::AlreadyAnswered { .. }));

        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: clicked", "b: typed", "model: picked up"]);
        assert!(!world.submit_answer(pending, &answer).await.unwrap(), "its run is over");
        assert_eq!((world.model_calls(), world.stored().await.state), (2, State::Idle));
    }
}

#[tokio::test]
async fn a_submitted_approval_runs_its_tool_once_in_the_worker_that_takes_it_up() {
    for world in World::each(&[calls(&[("a", "pay")]), says("paid")]) {
        let halted = world.ask("go").await.unwrap();
        let pending = &halted.suspensions[0];
        world.submit_answer(pending, &yes(pending)).await.unwrap();
        assert_eq!(world.ran(), ["a"]);
        let report = world.go_on().await.unwrap();
        assert_eq!(play(&report.transcript)[2..], ["a: pay done", "model: paid"]);
        assert_eq!((world.ran(), report.warnings), (vec!["a".to_owned(), "a+".to_owned()], vec![]));
    }
}

#[tokio::test]
async fn an_answer_to_one_of_two_requests_leaves_nothing_to_take_up() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "pay")]), says("done")]) {
        let halted = world.ask("go").await.unwrap();
        let relay = &halted.suspensions[0];
        world.submit_answer(relay, &results(&relay.id, &[("a", "clicked")])).await.unwrap();
        assert_eq!((world.stored().await.state, world.stored().await.lease), (State::Pending, None));

        let approval = &halted.suspensions[1];
        world.submit_answer(approval, &yes(approval)).await.unwrap();
        assert_eq!(world.go_on().await.unwrap().outcome, Outcome::Finished);
    }
}

#[tokio::test]
async fn what_nobody_takes_up_is_swept_like_what_a_dead_worker_left() {
    for world in World::each(&[says("hello")]) {
        world.submit("hi").await.unwrap();
        world.store.leases_are_over(true);
        assert_eq!(play(&world.go_on().await.unwrap().transcript), ["user: hi", "model: hello"]);
    }
}
