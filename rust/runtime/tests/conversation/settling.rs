//! Conversations that are freed without an answer: requests whose time is over, and conversations that are called off
//! (contract 7.8; fault H3).

use std::time::Duration;

use tokio::time::sleep;
use toolrelay_core::answer::{Answer, Reason};
use toolrelay_core::request::Request;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::{ConversationError, Loss};
use toolrelay_runtime::store::{ConversationId, State};

use crate::world::{Ended, ID, PAST, World, calls, play, results, says, yes};

fn refused(ended: Ended) -> ConversationError {
    match ended {
        Err(RunError::Conversation(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_expired_is_settled_alone_and_the_rest_waits() {
    for world in World::each(&[calls(&[("a", "too_late"), ("b", "click"), ("c", "pay")]), says("the end")]) {
        let halted = world.ask("go").await.unwrap();
        let overdue = world.conversations().overdue(None, 10).await.unwrap();
        assert_eq!((overdue.entries, overdue.next), (vec![ConversationId::new(ID).unwrap()], None));
        assert!(world.conversations().expire(ID).await.unwrap());
        assert!(!world.conversations().expire(ID).await.unwrap(), "once");
        assert_eq!(world.conversations().overdue(None, 10).await.unwrap().entries, []);

        let known = world.conversations().get(ID).await.unwrap().unwrap();
        assert_eq!(play(&known.transcript)[2..], ["a: expired", "b: pending", "c: pending"]);
        assert_eq!((known.state, known.suspensions.len()), (State::Pending, 2));
        assert_eq!(world.model_calls(), 1, "no model is asked");

        // Too late, and told so, however often.
        let late = &halted.suspensions[0];
        let expected = ConversationError::Resume(ResumeError::Expired { request: late.id.clone(), at: PAST.into() });
        for _ in 0..2 {
            assert_eq!(refused(world.answer(late, &yes(late)).await), expected);
        }
        let (relay, approval) = (&halted.suspensions[1], &halted.suspensions[2]);
        world.answer(relay, &results(&relay.id, &[("b", "clicked")])).await.unwrap();
        let done = world.answer(approval, &yes(approval)).await.unwrap();
        assert_eq!(play(&done.transcript)[2..], ["a: expired", "b: clicked", "c: pay done", "model: the end"]);
        assert_eq!(world.ran(), ["a", "c", "c+"]);
    }
}

#[tokio::test]
async fn h3_a_prompt_behind_an_expired_request_goes_on_and_a_late_yes_is_refused() {
    for swept in [false, true] {
        for world in World::each(&[calls(&[("a", "too_late")]), says("never mind then")]) {
            let halted = world.ask("go").await.unwrap();
            if swept {
                assert!(world.conversations().expire(ID).await.unwrap());
                assert_eq!(world.stored().await.state, State::Idle, "the conversation is free");
            }
            let report = world.ask("are you there?").await.unwrap();
            let expected = ["a: expired", "user: are you there?", "model: never mind then"];
            assert_eq!(play(&report.transcript)[2..], expected);
            let late = &halted.suspensions[0];
            let refused = refused(world.answer(late, &yes(late)).await);
            assert!(matches!(refused, ConversationError::Resume(ResumeError::Expired { .. })), "{refused:?}");
            assert_eq!((world.ran(), world.model_calls()), (vec!["a".to_owned()], 2));
            assert_eq!(world.stored().await.requests, []);
        }
    }
}

#[tokio::test]
async fn without_a_prompt_an_expired_request_lets_the_model_go_on() {
    let world = World::in_memory(vec![calls(&[("a", "too_late")]), says("then without")]);
    world.ask("go").await.unwrap();
    let report = world.go_on().await.unwrap();
    assert_eq!(play(&report.transcript)[2..], ["a: expired", "model: then without"]);
}

#[tokio::test]
async fn a_prompt_is_refused_while_a_request_beside_the_expired_one_waits() {
    let world = World::in_memory(vec![calls(&[("a", "too_late"), ("b", "click")]), says("the end")]);
    let halted = world.ask("go").await.unwrap();
    let ConversationError::Start(StartError::Pending { calls, requests }) = refused(world.ask("well?").await) else {
        panic!("it waits");
    };
    assert_eq!(calls, [("b".to_owned(), "click".to_owned())]);
    assert_eq!(requests, halted.suspensions[1..]);
    // An answer to the other one settles both, and the model goes on.
    let relay = &halted.suspensions[1];
    let done = world.answer(relay, &results(&relay.id, &[("b", "clicked")])).await.unwrap();
    assert_eq!(play(&done.transcript)[2..], ["a: expired", "b: clicked", "model: the end"]);
}

#[tokio::test]
async fn a_host_that_says_expired_after_it_was_settled_so_lets_the_model_go_on() {
    let world = World::in_memory(vec![calls(&[("a", "too_late")]), says("then without")]);
    let halted = world.ask("go").await.unwrap();
    assert!(world.conversations().expire(ID).await.unwrap());
    let id = halted.suspensions[0].id.clone();
    let answer = Answer { id, ok: false, data: None, reason: Some(Reason::Expired) };
    let report = world.answer(&halted.suspensions[0], &answer).await.unwrap();
    assert_eq!(report.text, "then without");
    assert_eq!(world.answer(&halted.suspensions[0], &answer).await.unwrap(), report);
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test]
async fn what_somebody_works_on_does_not_expire_under_them() {
    let world = World::in_memory(vec![calls(&[("a", "too_late"), ("b", "pay_slowly")]), says("the end")]);
    let halted = world.ask("go").await.unwrap();
    let approval = halted.suspensions[1].clone();
    let working = tokio::spawn({
        let world = world.clone();
        async move { world.answer(&approval, &yes(&approval)).await }
    });
    while world.ran().len() < 3 {
        sleep(Duration::from_millis(1)).await;
    }
    assert!(!world.conversations().expire(ID).await.unwrap());
    world.stage.slow.add_permits(1);
    let report = working.await.unwrap().unwrap();
    assert_eq!(play(&report.transcript)[2..], ["a: expired", "b: at last", "model: the end"]);
}

#[tokio::test]
async fn a_halted_conversation_that_is_called_off_is_free_and_its_requests_are_settled() {
    for world in World::each(&[calls(&[("a", "pay"), ("b", "click"), ("c", "note")]), says("what now?")]) {
        let halted = world.ask("go").await.unwrap();
        let known = world.conversations().cancel(ID).await.unwrap();
        assert_eq!(play(&known.transcript)[2..], ["a: cancelled", "b: cancelled", "c: note done"]);
        assert_eq!((known.state, &known.suspensions[..]), (State::Idle, &[][..]));
        assert_eq!(world.conversations().cancel(ID).await.unwrap(), known, "again changes nothing");
        for request in &halted.suspensions {
            let answered = ConversationError::AlreadyAnswered { request: request.id.to_string() };
            assert_eq!(refused(world.answer(request, &yes(request)).await), answered);
        }
        let report = world.ask("something else").await.unwrap();
        assert_eq!((report.text.as_str(), world.model_calls()), ("what now?", 2));
        assert_eq!(world.ran(), ["a", "c"]);
    }
}

#[tokio::test]
async fn a_running_conversation_that_is_called_off_is_lost_to_its_worker() {
    for world in World::each(&[calls(&[("a", "slow"), ("b", "note"), ("c", "click")]), says("what now?")]) {
        let working = tokio::spawn({
            let world = world.clone();
            async move { world.ask("go").await }
        });
        while world.ran().len() < 2 || world.stored().await.messages.len() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        let known = world.conversations().cancel(ID).await.unwrap();
        assert_eq!(play(&known.transcript)[2..], ["a: interrupted", "b: note done", "c: cancelled"]);
        let stored = world.stored().await;
        assert_eq!((stored.state, stored.lease, stored.requests.len()), (State::Idle, None, 0));

        world.stage.slow.add_permits(1);
        let lost = refused(working.await.unwrap());
        assert_eq!(lost, ConversationError::LeaseLost { id: ID.into(), how: Loss::Cancelled });
        assert_eq!(world.conversations().get(ID).await.unwrap().unwrap(), known, "it wrote nothing more");
        assert_eq!(world.ask("something else").await.unwrap().text, "what now?");
    }
}

#[tokio::test]
async fn what_is_not_there_cannot_be_called_off() {
    let world = World::in_memory(vec![]);
    let missing = ConversationError::NotFound { id: ID.into() };
    assert_eq!(world.conversations().cancel(ID).await.unwrap_err(), missing);
    assert!(!world.conversations().expire(ID).await.unwrap());
    assert_eq!(refused(world.recover().await), missing);
}

#[tokio::test]
async fn only_what_a_dead_worker_left_is_recovered() {
    for world in World::each(&[calls(&[("a", "count")]), says("picked up")]) {
        let working = tokio::spawn({
            let world = world.clone();
            async move { world.ask("go").await }
        });
        while world.ran().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        let alive = refused(world.recover().await);
        assert!(matches!(alive, ConversationError::Busy { lease: Some(_), .. }), "{alive:?}");
        assert_eq!(world.conversations().abandoned(None, 5).await.unwrap().entries, []);
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());

        world.store.leases_are_over(true);
        let left = world.conversations().abandoned(None, 5).await.unwrap();
        assert_eq!((left.entries, left.next), (vec![ConversationId::new(ID).unwrap()], None));
        world.stage.slow.add_permits(1);
        let report = world.recover().await.unwrap();
        assert_eq!((report.text.as_str(), report.turns, report.outcome), ("picked up", 2, Outcome::Finished));
        let nothing = ConversationError::NothingToRecover { id: ID.into(), state: State::Idle };
        assert_eq!(refused(world.recover().await), nothing);
        assert_eq!(world.conversations().abandoned(None, 5).await.unwrap().entries, []);
    }
}

#[tokio::test]
async fn of_many_who_recover_one_conversation_one_goes_on() {
    for world in World::each(&[calls(&[("a", "count")]), says("picked up")]) {
        let mut dying = world.clone();
        dying.lease = Duration::from_millis(30);
        let working = tokio::spawn(async move { dying.ask("go").await });
        while world.ran().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        working.abort();
        assert!(working.await.unwrap_err().is_cancelled());
        while world.conversations().abandoned(None, 5).await.unwrap().entries.is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        let racers = (0..6).map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.recover().await })
        });
        let racers: Vec<_> = racers.collect();
        while world.ran().len() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        world.stage.slow.add_permits(1);
        let ended = futures_util::future::join_all(racers).await;
        let (reports, refusals): (Vec<_>, Vec<_>) = ended.into_iter().map(Result::unwrap).partition(Result::is_ok);
        let [Ok(report)] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.text.as_str(), world.ran()), ("picked up", vec!["a".to_owned(), "a".to_owned()]));
        for refusal in refusals.into_iter().map(refused) {
            let told = matches!(refusal, ConversationError::Busy { .. } | ConversationError::NothingToRecover { .. });
            assert!(told, "{refusal:?}");
        }
    }
}

#[tokio::test]
async fn a_request_of_a_dead_run_expires_when_somebody_goes_on() {
    let world = World::in_memory(vec![calls(&[("a", "too_late"), ("b", "count")]), says("the end")]);
    let working = tokio::spawn({
        let world = world.clone();
        async move { world.ask("go").await }
    });
    while world.ran().len() < 2 || world.stored().await.requests.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    assert!(!world.conversations().expire(ID).await.unwrap(), "whoever goes on settles it");
    world.store.leases_are_over(true);
    world.stage.slow.add_permits(1);
    let report = world.recover().await.unwrap();
    assert_eq!(play(&report.transcript)[2..], ["a: expired", "b: at last", "model: the end"]);
}

/// Seconds from the making of a request to its end.
fn lasts(request: &Request, made_at_ms: i64) -> Option<i64> {
    Some((request.expires_at_ms()? - made_at_ms) / 1000)
}

#[tokio::test]
async fn a_request_expires_when_its_tool_its_own_words_or_the_client_say() {
    let replies = [
        calls(&[("a", "click"), ("b", "pay"), ("c", "too_late")]),
        calls(&[("d", "click"), ("e", "brief"), ("f", "type")]),
    ];
    for mut world in World::each(&replies) {
        let halted = world.ask("go").await.unwrap();
        let times: Vec<_> = halted.suspensions.iter().map(|request| request.expires_at.as_deref()).collect();
        assert_eq!(times, [None, None, Some(PAST)], "nothing expires that nobody gave a time");
        world.conversations().delete(ID).await.unwrap();

        world.expires_after = Some(Duration::from_mins(1));
        let now = toolrelay_runtime::drive::now_ms();
        let halted = world.ask("go").await.unwrap();
        let [relay, approval, own] = &halted.suspensions[..] else { panic!("{:?}", halted.suspensions) };
        assert!(matches!(lasts(relay, now), Some(60..=90)), "{relay:?}");
        assert!(matches!(lasts(approval, now), Some(60..=90)), "{approval:?}");
        assert_eq!(own.expires_at.as_deref(), Some(PAST));
        let row = &world.stored().await.requests[0];
        assert_eq!(row.expires_at_ms, relay.expires_at_ms(), "the store knows");

        // Of several calls on one request the one with the least time decides.
        let halted = world.ask_instead("another way").await.unwrap();
        let [relay] = &halted.suspensions[..] else { panic!("{:?}", halted.suspensions) };
        assert_eq!((relay.relay_calls().len(), lasts(relay, now)), (3, Some(0)));
        while world.conversations().overdue(None, 9).await.unwrap().entries.is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(world.conversations().expire(ID).await.unwrap());
        let known = world.conversations().get(ID).await.unwrap().unwrap();
        let last = play(&known.transcript).split_off(known.transcript.len() - 3);
        assert_eq!(last, ["d: expired", "e: expired", "f: expired"]);
    }
}

#[tokio::test]
async fn requests_that_become_one_have_the_shortest_of_their_times() {
    let mut world = World::in_memory(vec![calls(&[("a", "click"), ("b", "hurried")])]);
    world.expires_after = Some(Duration::from_mins(1));
    let now = toolrelay_runtime::drive::now_ms();
    let asking = world.clone().inline();
    let working = tokio::spawn(async move { asking.ask("go").await });
    while world.stage.asked.lock().unwrap().len() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    world.store.leases_are_over(true);
    let report = world.recover().await.unwrap();
    let [relay] = &report.suspensions[..] else { panic!("{:?}", report.suspensions) };
    assert!(matches!((relay.relay_calls().len(), lasts(relay, now)), (2, Some(20..=40))), "{relay:?}");
    assert_eq!(world.stored().await.requests[0].expires_at_ms, relay.expires_at_ms());
}
