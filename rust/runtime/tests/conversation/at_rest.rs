//! What lies in the store: messages are only ever added, each once, and a halt costs the same
//! however long the conversation is (contract 5.6, 7.5).

use toolrelay_core::id::RequestId;
use toolrelay_core::message::Message;
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::store::{ConversationId, State, Store, Write};

use crate::world::{ID, World, calls, results, says};

/// A world whose conversation has so many messages already.
async fn with_history(messages: u64) -> World {
    let made = usize::try_from(messages).unwrap() / 2;
    let mut replies = vec![says(""); made];
    replies.extend([calls(&[("a", "note"), ("b", "click"), ("c", "pay")]), says("the end")]);
    let world = World::in_memory(replies);
    let past = (0..messages).map(|at| {
        let (prompt, reply) = (Message::user("again?"), Message::assistant_reply("yes, again", Vec::new(), None));
        (at, if at % 2 == 0 { prompt } else { reply }.to_bytes())
    });
    let write = Write {
        expect: 0,
        version: 1,
        at_ms: 0,
        state: State::Idle,
        epoch: 0,
        lease: None,
        append: past.collect(),
        requests: Vec::new(),
    };
    world.store.commit(&ConversationId::new(ID).unwrap(), write).await.unwrap();
    world
}

/// What a halt and its resume write: bytes of messages, bytes of requests, commits.
async fn cost(messages: u64) -> (usize, usize, usize, usize) {
    let world = with_history(messages).await;
    let halted = world.ask("go").await.unwrap();
    let pending = &halted.suspensions[0];
    let answer = results(&pending.id, &[("b", "clicked")]);
    world.answer(pending, &answer).await.unwrap();
    let written = &world.store.written()[1..];
    let appended = written.iter().flat_map(|write| &write.append).map(|(_, bytes)| bytes.len()).sum();
    let asked = written.iter().flat_map(|write| &write.requests);
    let asked = asked.map(|row| row.body.len() + row.answers.iter().map(bytes::Bytes::len).sum::<usize>()).sum();
    (appended, asked, written.len(), world.store.loads())
}

#[tokio::test]
async fn a_halt_writes_the_same_at_ten_and_at_a_thousand_messages() {
    let (short, long) = (cost(10).await, cost(1000).await);
    assert_eq!(short, long);
    assert_eq!(short.3, 2, "one load per segment: nothing is read twice");
}

#[tokio::test]
async fn every_message_is_written_once_at_its_place_and_never_again() {
    let replies = [
        calls(&[("a", "click"), ("b", "note"), ("c", "type"), ("d", "pay")]),
        calls(&[("e", "note")]),
        says("the end"),
    ];
    for world in World::each(&replies) {
        let halted = world.ask("go").await.unwrap();
        let (relay, approval) = (&halted.suspensions[0], &halted.suspensions[1]);
        world.answer_partly(relay, &results(&relay.id, &[("c", "typed")])).await.unwrap();
        world.answer(approval, &crate::world::yes(approval)).await.unwrap();
        let done = world.answer(relay, &results(&relay.id, &[("a", "clicked")])).await.unwrap();

        let mut places: Vec<u64> = Vec::new();
        for write in world.store.written() {
            for (seq, bytes) in write.append {
                assert!(!String::from_utf8_lossy(&bytes).contains("\"pending\""), "a placeholder was stored");
                assert_eq!(bytes, done.transcript.messages()[usize::try_from(seq).unwrap()].json());
                places.push(seq);
            }
        }
        places.sort_unstable();
        assert_eq!(places, (0..done.transcript.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_loaded_halt_is_the_halted_transcript_byte_for_byte() {
    let replies = [calls(&[("a", "click"), ("b", "note"), ("c", "type"), ("d", "pay")])];
    for world in World::each(&replies) {
        let halted = world.ask("go").await.unwrap();
        let pending = &halted.suspensions[0];
        let part = results(&pending.id, &[("c", "typed")]);
        let less = world.answer_partly(pending, &part).await.unwrap();
        let other = toolrelay_core::request::Request::relay(RequestId::new("req_x"), &[]);
        assert!(world.answer(&other, &part).await.is_err());
        let told = world.answer_partly(pending, &part).await.unwrap();
        assert_eq!(told.transcript.to_json(), less.transcript.to_json());
        assert_eq!(Transcript::from_json(told.transcript.to_json().into()).unwrap(), less.transcript);
    }
}
