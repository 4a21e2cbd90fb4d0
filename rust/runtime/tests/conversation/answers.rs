//! Answers: the same again, another one, a part of one, one for several requests in any order
//! (contract 7.3, 7.4; faults H3 to H8).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use toolrelay_core::answer::{Answer, Reason};
use toolrelay_core::id::{CallId, RequestId};
use toolrelay_core::json::Json;
use toolrelay_core::resume::ResumeError;
use toolrelay_core::run::StartError;
use toolrelay_core::run::io::Outcome;
use toolrelay_runtime::client::RunError;
use toolrelay_runtime::conversation::ConversationError;
use toolrelay_runtime::store::State;

use crate::world::{Ended, World, calls, play, results, says, yes};

fn refusal(ended: Ended) -> ConversationError {
    match ended {
        Err(RunError::Conversation(error)) => error,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

fn already(request: &RequestId) -> ConversationError {
    ConversationError::AlreadyAnswered { request: request.to_string() }
}

#[tokio::test]
async fn the_same_answer_again_gets_the_same_outcome_without_another_model_call() {
    let replies = [calls(&[("a", "click")]), calls(&[("b", "note")]), says("clicked")];
    for world in World::each(&replies) {
        let halted = world.ask("go").await.unwrap();
        let (pending, answer) = (&halted.suspensions[0], results(&halted.suspensions[0].id, &[("a", "ok")]));
        let first = world.answer(pending, &answer).await.unwrap();
        assert_eq!((&first.outcome, first.text.as_str(), first.turns), (&Outcome::Finished, "clicked", 3));
        assert_eq!(world.answer(pending, &answer).await.unwrap(), first);

        let spelled_otherwise = r#"{ "results": [{"isError": false, "output": "ok", "id": "a"}] }"#;
        let answer = Answer { data: Some(Json::parse(spelled_otherwise).unwrap()), ..answer };
        assert_eq!(world.answer(pending, &answer).await.unwrap(), first);
        assert_eq!((world.model_calls(), world.ran()), (3, vec!["b".to_owned()]));

        world.ask("more").await.unwrap();
        assert_eq!(world.answer(pending, &answer).await.unwrap(), first, "the outcome is of its own time");
    }
}

#[tokio::test]
async fn an_answer_that_a_parser_cannot_hold_is_known_again_by_its_text() {
    let world = World::in_memory(vec![calls(&[("a", "click")]), says("clicked")]);
    let halted = world.ask("go").await.unwrap();
    let pending = &halted.suspensions[0];
    let data = Json::parse(&format!(r#"{{"output":{}}}"#, "9".repeat(5000))).unwrap();
    let answer = Answer { data: Some(data), ..yes(pending) };
    let first = world.answer(pending, &answer).await.unwrap();
    assert_eq!(world.answer(pending, &answer).await.unwrap(), first);
}

#[tokio::test]
async fn answers_that_differ_where_a_float_would_not_are_different() {
    let given = r#"{"output":{"list":[1,{"id":12345678901234567890123}],"text":"caf\u00e9"}}"#;
    let spelled = r#"{ "output": {"text":"café","list":[1, {"id": 12345678901234567890123}]} }"#;
    let world = World::in_memory(vec![calls(&[("a", "click")]), says("clicked")]);
    let halted = world.ask("go").await.unwrap();
    let pending = &halted.suspensions[0];
    let answer = |data: &str| Answer { data: Some(Json::parse(data).unwrap()), ..yes(pending) };
    let first = world.answer(pending, &answer(given)).await.unwrap();
    assert_eq!(world.answer(pending, &answer(spelled)).await.unwrap(), first);
    let others = [
        given.replace("123}", "124}"),
        given.replace("[1,", "[1.0,"),
        given.replace("[1,", "[1,1,"),
        given.replace("caf", "Caf"),
        given.replace("\"text\"", "\"texts\""),
        given.replace("}}", "},\"isError\":false}"),
    ];
    for other in others {
        assert_eq!(refusal(world.answer(pending, &answer(&other)).await), already(&pending.id), "{other}");
    }
}

#[tokio::test]
async fn the_same_answer_while_it_is_worked_on_is_in_progress() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let (pending, answer) = (&halted.suspensions[0], results(&halted.suspensions[0].id, &[("a", "ok")]));
        world.hold_model();
        let working = tokio::spawn({
            let (world, pending, answer) = (world.clone(), pending.clone(), answer.clone());
            async move { world.answer(&pending, &answer).await }
        });
        while world.model_calls() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        let told = refusal(world.answer(pending, &answer).await);
        let lease = world.stored().await.lease.unwrap();
        assert_eq!(told, ConversationError::AnswerInProgress { request: pending.id.to_string(), lease });
        let other = results(&pending.id, &[("a", "something else")]);
        assert_eq!(refusal(world.answer(pending, &other).await), already(&pending.id));
        world.stage.model.add_permits(1);
        let first = working.await.unwrap().unwrap();
        assert_eq!(world.answer(pending, &answer).await.unwrap(), first);
        assert_eq!(world.model_calls(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_another_worker_takes_between_two_reads_is_told_what_came_of_it() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "pay")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let (relay, approval) = (&halted.suspensions[0], &halted.suspensions[1]);
        world.answer(relay, &results(&relay.id, &[("a", "ok")])).await.unwrap();
        world.hold_model();
        let other = {
            let (world, approval) = (world.clone(), approval.clone());
            move || async move { world.answer(&approval, &yes(&approval)).await.unwrap() }
        };
        let (taken, started) = (other.clone(), world.clone());
        world.store.meanwhile(async move {
            tokio::spawn(taken());
            while started.model_calls() < 2 {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let told = refusal(world.answer(approval, &yes(approval)).await);
        let lease = world.stored().await.lease.unwrap();
        assert_eq!(told, ConversationError::AnswerInProgress { request: approval.id.to_string(), lease });

        world.stage.model.add_permits(1);
        let ended = world.clone();
        world.store.meanwhile(async move {
            while ended.stored().await.state == State::Running {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let told = world.answer(approval, &yes(approval)).await.unwrap();
        assert_eq!((told.text.as_str(), told.transcript.len()), ("clicked", 5));
        assert_eq!(other().await, told);
        assert_eq!((world.model_calls(), world.ran()), (2, vec!["b".to_owned(), "b+".to_owned()]));
    }
}

#[tokio::test]
async fn another_answer_to_a_settled_request_changes_nothing() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let pending = &halted.suspensions[0];
        world.answer(pending, &results(&pending.id, &[("a", "ok")])).await.unwrap();
        let stored = world.stored().await;
        let no = Answer { id: pending.id.clone(), ok: false, data: None, reason: Some(Reason::Declined) };
        assert_eq!(refusal(world.answer(pending, &no).await), already(&pending.id));
        assert_eq!(world.stored().await, stored);
    }
}

#[tokio::test]
async fn after_a_failed_model_call_the_same_answer_goes_on_from_it() {
    for world in World::each(&[calls(&[("a", "click")]), calls(&[("b", "note")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let (pending, answer) = (&halted.suspensions[0], results(&halted.suspensions[0].id, &[("a", "ok")]));
        world.stage.failures.store(1, Ordering::SeqCst);
        let failed = world.answer(pending, &answer).await.unwrap();
        assert!(matches!(failed.outcome, Outcome::Failed(_)), "{failed:?}");
        assert_eq!(play(&failed.transcript), ["user: go", "model: a=click", "a: ok"]);
        assert_eq!(world.stored().await.state, State::Idle);

        let done = world.answer(pending, &answer).await.unwrap();
        let expected = ["user: go", "model: a=click", "a: ok", "model: b=note", "b: note done", "model: clicked"];
        assert_eq!(play(&done.transcript), expected);
        assert_eq!((done.first, done.turns), (1, 3), "it is the answer's run, from the halted turn on");
        assert_eq!(world.answer(pending, &answer).await.unwrap(), done);
        assert_eq!(world.model_calls(), 4);
    }
}

#[tokio::test]
async fn an_answer_without_an_outcome_does_not_run_what_came_after_it() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let halted = world.ask("go").await.unwrap();
        let (pending, answer) = (&halted.suspensions[0], results(&halted.suspensions[0].id, &[("a", "ok")]));
        world.stage.failures.store(2, Ordering::SeqCst);
        world.answer(pending, &answer).await.unwrap();
        let failed = world.ask("then do this").await.unwrap();
        assert!(matches!(failed.outcome, Outcome::Failed(_)));
        assert_eq!(refusal(world.answer(pending, &answer).await), already(&pending.id));
        assert_eq!(world.go_on().await.unwrap().text, "clicked");
        assert_eq!(refusal(world.answer(pending, &answer).await), already(&pending.id));
    }
}

#[tokio::test]
async fn an_answer_whose_run_was_gone_on_with_is_settled() {
    let world = World::in_memory(vec![calls(&[("a", "click")]), says("clicked")]);
    let halted = world.ask("go").await.unwrap();
    let (pending, answer) = (&halted.suspensions[0], results(&halted.suspensions[0].id, &[("a", "ok")]));
    world.stage.failures.store(1, Ordering::SeqCst);
    world.answer(pending, &answer).await.unwrap();
    assert_eq!(world.go_on().await.unwrap().text, "clicked");
    assert_eq!(refusal(world.answer(pending, &answer).await), already(&pending.id));
    assert_eq!(world.model_calls(), 3);
}

#[tokio::test]
async fn parts_of_an_answer_come_from_several_hosts_and_each_keeps_its_outcome() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "note"), ("c", "type")]), says("both done")]) {
        let halted = world.ask("go").await.unwrap();
        let pending = &halted.suspensions[0];
        let (of_c, of_a) = (results(&pending.id, &[("c", "typed")]), results(&pending.id, &[("a", "clicked")]));
        let first = world.answer_partly(pending, &of_c).await.unwrap();
        assert_eq!(first.outcome, Outcome::Suspended);
        let expected = ["user: go", "model: a=click b=note c=type", "a: pending", "b: note done", "c: typed"];
        assert_eq!(play(&first.transcript), expected);
        let rest = first.suspensions[0].relay_calls();
        assert_eq!(rest.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(world.model_calls(), 1);
        assert_eq!(world.answer_partly(pending, &of_c).await.unwrap(), first);

        let again = results(&pending.id, &[("c", "typed otherwise")]);
        let settled = ResumeError::SettledCall { call: CallId::new("c") };
        assert_eq!(refusal(world.answer_partly(pending, &again).await), settled.into());

        let second = world.answer_partly(pending, &of_a).await.unwrap();
        assert_eq!(second.text, "both done");
        assert_eq!(world.answer_partly(pending, &of_a).await.unwrap(), second);
        assert_eq!(world.answer_partly(pending, &of_c).await.unwrap(), first, "halted, as it was then");
        assert_eq!((world.model_calls(), world.ran()), (2, vec!["b".to_owned()]));
    }
}

#[tokio::test]
async fn an_approval_and_relay_calls_are_answered_in_either_order() {
    let replies = [calls(&[("a", "click"), ("b", "pay"), ("c", "type"), ("d", "note")]), says("all settled")];
    for relay_first in [true, false] {
        for world in World::each(&replies) {
            let halted = world.ask("go").await.unwrap();
            let (relay, approval) = (&halted.suspensions[0], &halted.suspensions[1]);
            assert_eq!((relay.kind.as_str(), approval.kind.as_str()), ("tool_call", "approval"));
            let relayed = results(&relay.id, &[("c", "typed"), ("a", "clicked")]);
            let answers = [(relay, relayed), (approval, yes(approval))];
            let order = if relay_first { [0, 1] } else { [1, 0] };

            let (pending, answer) = &answers[order[0]];
            let first = world.answer(pending, answer).await.unwrap();
            assert_eq!(first.outcome, Outcome::Suspended);
            assert_eq!(first.suspensions, [answers[order[1]].0.clone()]);
            assert_eq!(world.model_calls(), 1);

            let (last_pending, last_answer) = &answers[order[1]];
            let done = world.answer(last_pending, last_answer).await.unwrap();
            let expected = ["a: clicked", "b: pay done", "c: typed", "d: note done", "model: all settled"];
            assert_eq!(play(&done.transcript)[2..], expected);
            assert_eq!(world.answer(pending, answer).await.unwrap(), first);
            assert_eq!(world.answer(last_pending, last_answer).await.unwrap(), done);
            assert_eq!(world.ran(), ["b", "d", "b+"]);
            assert_eq!(world.model_calls(), 2);
        }
    }
}

#[tokio::test]
async fn answers_to_unknown_requests_and_conversations_are_refused() {
    for world in World::each(&[calls(&[("a", "click")]), says("clicked")]) {
        let nowhere = results(&RequestId::new("req_x"), &[("a", "ok")]);
        let elsewhere = toolrelay_core::request::Request::relay(RequestId::new("req_x"), &[]);
        let missing = ConversationError::NotFound { id: crate::world::ID.into() };
        assert_eq!(refusal(world.answer(&elsewhere, &nowhere).await), missing);
        assert_eq!(refusal(world.go_on().await), missing);

        let halted = world.ask("go").await.unwrap();
        let expected = vec![halted.suspensions[0].id.to_string()];
        let wrong = ResumeError::WrongRequest { expected, found: RequestId::new("req_x") };
        assert_eq!(refusal(world.answer(&elsewhere, &nowhere).await), wrong.into());
        let unfit = results(&RequestId::new("req_x"), &[("a", "ok")]);
        let error = refusal(world.answer(&halted.suspensions[0], &unfit).await);
        assert!(matches!(error, ConversationError::Resume(ResumeError::AnswerId { .. })), "{error:?}");
        assert_eq!(world.store.written().len(), 2, "a refused answer writes nothing");
        assert_eq!(world.model_calls(), 1);
    }
}

#[tokio::test]
async fn a_late_answer_to_a_superseded_request_is_told_so() {
    for world in World::each(&[calls(&[("a", "click"), ("b", "pay")]), says("on to other things")]) {
        let halted = world.ask("go").await.unwrap();
        let error = refusal(world.ask("something else").await);
        assert!(matches!(error, ConversationError::Start(StartError::Pending { .. })), "{error:?}");
        let done = world.ask_instead("something else").await.unwrap();
        let expected = [
            "user: go",
            "model: a=click b=pay",
            "a: superseded",
            "b: superseded",
            "user: something else",
            "model: on to other things",
        ];
        assert_eq!(play(&done.transcript), expected);
        assert!(world.stored().await.requests.is_empty());
        let stored = world.stored().await;
        for pending in &halted.suspensions {
            assert_eq!(refusal(world.answer(pending, &yes(pending)).await), already(&pending.id));
        }
        assert_eq!(world.stored().await, stored);
        assert_eq!((world.model_calls(), world.ran()), (2, vec!["b".to_owned()]));
    }
}

#[tokio::test]
async fn a_conversation_halts_again_and_again_and_every_answer_finds_its_own_halt() {
    let replies = [calls(&[("a", "click")]), calls(&[("b", "click")]), calls(&[("c", "click")]), says("thrice")];
    for world in World::each(&replies) {
        let mut report = world.ask("go").await.unwrap();
        let mut before = Vec::new();
        for id in ["a", "b", "c"] {
            let pending = report.suspensions[0].clone();
            let answer = results(&pending.id, &[(id, "ok")]);
            report = world.answer(&pending, &answer).await.unwrap();
            before.push((pending, answer, report.clone()));
        }
        assert_eq!((report.text.as_str(), report.turns), ("thrice", 4));
        for (pending, answer, report) in &before {
            assert_eq!(world.answer(pending, answer).await.unwrap(), *report);
        }
        assert_eq!(world.model_calls(), 4);
    }
}
