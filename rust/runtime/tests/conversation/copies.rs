//! Conversations that are deleted, copied, put back and listed, answers that only name their request, and prompts that
//! wait their turn.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolrelay_core::id::RequestId;
use toolrelay_core::message::Message;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::io::Outcome;
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::{ConversationError, Loss};
use toolrelay_runtime::store::{Order, State};

use crate::world::{Ended, ID, World, calls, play, results, says, yes};

fn refused(ended: Ended) -> ConversationError {
    match ended {
        Err(RunError::Conversation(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_deleted_conversation_begins_anew_and_whoever_worked_on_it_has_lost_it() {
    for world in World::each(&[calls(&[("a", "slow")]), says("hello again")]) {
        let working = tokio::spawn({
            let world = world.clone();
            async move { world.ask("go").await }
        });
        while world.ran().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        let before = world.stored().await.version;
        assert!(world.conversations().delete(ID).await.unwrap());
        assert!(!world.conversations().delete(ID).await.unwrap());
        assert_eq!(world.conversations().get(ID).await.unwrap(), None);

        // A new conversation comes as far as the old one was, with as many writes.
        let again = tokio::spawn({
            let world = world.clone();
            async move { world.ask("go again").await }
        });
        while world.ran().len() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_ne!(world.stored().await.version, before);
        world.stage.slow.add_permits(2);
        assert_eq!(
            refused(working.await.unwrap()),
            ConversationError::LeaseLost { id: ID.into(), how: Loss::TakenOver }
        );
        let report = again.await.unwrap().unwrap();
        assert_eq!(play(&report.transcript), ["user: go again", "model: a=slow", "a: at last", "model: hello again"]);
    }
}

#[tokio::test]
async fn a_copy_goes_another_way_under_requests_of_its_own() {
    for world in World::each(&[calls(&[("a", "pay"), ("b", "click")]), says("the end")]) {
        let halted = world.ask("go").await.unwrap();
        let copy = world.conversations().fork(ID, "c-2").await.unwrap();
        assert_eq!(play(&copy.transcript), play(&halted.transcript));
        assert_eq!((copy.state, copy.suspensions.len()), (State::Pending, 2));
        for (own, original) in copy.suspensions.iter().zip(&halted.suspensions) {
            assert_ne!(own.id, original.id);
            assert_eq!((own.kind.as_str(), &own.data), (original.kind.as_str(), &original.data));
        }
        let exists = ConversationError::Exists { id: "c-2".into() };
        assert_eq!(world.conversations().fork(ID, "c-2").await.unwrap_err(), exists);

        let foreign = &halted.suspensions[1];
        let answer = results(&foreign.id, &[("b", "clicked")]);
        let refusal = refused(world.answer_alone("c-2", &answer, Missing::Error).await);
        assert!(matches!(refusal, ConversationError::Resume(ResumeError::WrongRequest { .. })), "{refusal:?}");

        let (approval, relay) = (&copy.suspensions[0], &copy.suspensions[1]);
        world.answer_alone("c-2", &yes(approval), Missing::Error).await.unwrap();
        let answer = results(&relay.id, &[("b", "in the copy")]);
        let done = world.answer_alone("c-2", &answer, Missing::Error).await.unwrap();
        assert_eq!(play(&done.transcript)[2..], ["a: pay done", "b: in the copy", "model: the end"]);
        let known = world.conversations().get(ID).await.unwrap().unwrap();
        assert_eq!(known.suspensions, halted.suspensions, "the original waits for what it waited for");
    }
}

#[tokio::test]
async fn what_somebody_works_on_is_not_copied_and_what_a_dead_worker_left_is_interrupted_in_the_copy() {
    let world = World::in_memory(vec![calls(&[("a", "count"), ("b", "click")]), says("picked up")]);
    let working = tokio::spawn({
        let world = world.clone();
        async move { world.ask("go").await }
    });
    while world.ran().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let busy = world.conversations().fork(ID, "c-2").await.unwrap_err();
    assert!(matches!(busy, ConversationError::Busy { lease: Some(_), .. }), "{busy:?}");
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    world.store.leases_are_over(true);
    let copy = world.conversations().fork(ID, "c-2").await.unwrap();
    assert_eq!(play(&copy.transcript)[2..], ["a: interrupted", "b: pending"]);
    assert_eq!((copy.state, copy.lease), (State::Pending, None));
    world.stage.slow.add_permits(1);
    let report = world.recover().await.unwrap();
    assert_eq!(play(&report.transcript)[2..], ["a: at last", "b: pending"], "the original is as it was");
    let missing = ConversationError::NotFound { id: "nobody".into() };
    assert_eq!(world.conversations().fork("nobody", "c-3").await.unwrap_err(), missing);
}

#[tokio::test]
async fn a_transcript_that_is_put_back_waits_for_the_same_requests() {
    for world in World::each(&[calls(&[("a", "pay"), ("b", "note")]), says("the end")]) {
        let halted = world.ask("go").await.unwrap();
        world.conversations().delete(ID).await.unwrap();
        let back = world.conversations().restore(ID, &halted.transcript).await.unwrap();
        assert_eq!((&back.transcript, &back.suspensions), (&halted.transcript, &halted.suspensions));
        let done = world.answer(&halted.suspensions[0], &yes(&halted.suspensions[0])).await.unwrap();
        assert_eq!(play(&done.transcript)[2..], ["a: pay done", "b: note done", "model: the end"]);
    }
    let world = World::in_memory(vec![says("welcome")]);
    let known = world.conversations().restore(ID, &Transcript::default()).await.unwrap();
    assert_eq!((known.state, known.transcript.len()), (State::Idle, 0));
    assert_eq!(world.ask("hello").await.unwrap().text, "welcome");
}

#[tokio::test]
async fn what_waits_is_listed_by_age_with_the_calls_that_are_left() {
    let world = World::in_memory(vec![calls(&[("a", "click"), ("b", "type"), ("c", "pay")])]);
    let halted = world.ask("go").await.unwrap();
    let conversations = world.conversations();
    let page = conversations.waiting(Order::Age, None, 10).await.unwrap();
    let listed: Vec<_> = page.entries.iter().map(|waiting| &waiting.request).collect();
    assert_eq!((listed.len(), page.next), (2, None));
    assert!(halted.suspensions.iter().all(|request| listed.contains(&request)));
    assert!(page.entries.iter().all(|waiting| waiting.conversation == ID && waiting.made_at_ms > 0));

    let relay = &halted.suspensions[0];
    world.answer_partly(relay, &results(&relay.id, &[("a", "clicked")])).await.unwrap();
    let page = conversations.waiting(Order::Age, None, 10).await.unwrap();
    let rest = page.entries.iter().find(|waiting| waiting.request.is_relay()).unwrap();
    let ids: Vec<_> = rest.request.relay_calls().iter().map(|call| call.id.to_string()).collect();
    assert_eq!(ids, ["b"], "nobody is to make a call again that has its result");
    let known = conversations.get(ID).await.unwrap().unwrap();
    assert_eq!(known.suspensions[0], rest.request);

    let first = conversations.waiting(Order::Age, None, 1).await.unwrap();
    let second = conversations.waiting(Order::Age, first.next.as_ref(), 1).await.unwrap();
    assert_eq!([first.entries, second.entries].concat(), page.entries);
    assert_eq!(conversations.waiting(Order::Age, second.next.as_ref(), 1).await.unwrap().entries, []);
    assert_eq!(conversations.waiting(Order::Expiry, None, 9).await.unwrap().entries, []);
}

#[tokio::test]
async fn what_is_worked_on_waits_for_nobody() {
    let world = World::in_memory(vec![calls(&[("a", "pay_slowly")])]);
    let halted = world.ask("go").await.unwrap();
    let working = tokio::spawn({
        let (world, approval) = (world.clone(), halted.suspensions[0].clone());
        async move { world.answer(&approval, &yes(&approval)).await }
    });
    while world.ran().len() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.conversations().waiting(Order::Age, None, 9).await.unwrap().entries, []);
    world.stage.slow.add_permits(1);
    working.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_answer_may_only_name_its_request() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "type")]), says("the end")]) {
        let halted = world.ask("go").await.unwrap();
        let relay = &halted.suspensions[0];
        let part = results(&relay.id, &[("b", "typed")]);
        let waiting = world.answer_alone(ID, &part, Missing::Wait).await.unwrap();
        assert_eq!(waiting.outcome, Outcome::Suspended);
        let rest = results(&relay.id, &[("a", "clicked")]);
        let done = world.answer_alone(ID, &rest, Missing::Error).await.unwrap();
        assert_eq!(play(&done.transcript)[2..], ["a: clicked", "b: typed", "model: the end"]);
        assert_eq!(world.answer_alone(ID, &rest, Missing::Error).await.unwrap(), done);
        let unknown = results(&RequestId::new("req_unknown"), &[]);
        let wrong = ResumeError::WrongRequest { expected: vec![], found: unknown.id.clone() };
        assert_eq!(refused(world.answer_alone(ID, &unknown, Missing::Error).await), wrong.into());
    }
}

#[tokio::test]
async fn a_prompt_waits_for_the_run_before_it() {
    for world in World::each(&[says("one"), says("two"), says("three")]) {
        world.hold_model();
        let first = tokio::spawn({
            let world = world.clone();
            async move { world.ask("a").await }
        });
        while world.model_calls() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let waiting: Vec<_> = ["b", "c"]
            .map(|prompt| {
                let world = world.clone();
                tokio::spawn(async move { world.ask_in_turn(prompt, CancellationToken::new(), None).await })
            })
            .into();
        assert!(matches!(refused(world.ask("now").await), ConversationError::Busy { .. }));
        world.stage.model.add_permits(3);
        assert_eq!(first.await.unwrap().unwrap().text, "one");
        for ended in waiting {
            ended.await.unwrap().unwrap();
        }
        let messages = world.conversations().get(ID).await.unwrap().unwrap().transcript;
        let said: Vec<_> = messages.messages().iter().map(Message::text).collect();
        assert_eq!((said.len(), &said[..2]), (6, &["a".to_owned(), "one".to_owned()][..]));
        assert_eq!([&said[3], &said[5]], ["two", "three"]);
    }
}

#[tokio::test]
async fn who_waits_its_turn_gives_up_when_it_is_stopped_or_its_time_is_over() {
    let world = World::in_memory(vec![says("one")]);
    world.hold_model();
    let first = tokio::spawn({
        let world = world.clone();
        async move { world.ask("a").await }
    });
    while world.model_calls() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let late = world.ask_in_turn("b", CancellationToken::new(), Some(Duration::from_millis(40))).await;
    assert!(matches!(refused(late), ConversationError::Busy { .. }));
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(matches!(refused(world.ask_in_turn("b", stop, None).await), ConversationError::Busy { .. }));
    world.stage.model.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().text, "one");
}
