//! What every store must do, as tests. A store's own test module calls [`conformance!`] with a way to make an empty one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contention;
mod deletion;
mod listing;

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Conversation, ConversationId, InvalidConversationId, Lease, Slot, State, Store, StoreError, StoredRequest, Write,
};

/// One test per promise, each against a store of its own: `$make` gives `(store, whatever must live as long)`.
macro_rules! conformance {
    ($make:expr) => {
        $crate::store::conformance::conformance!($make;
            an_unknown_conversation_is_none,
            a_conversation_comes_back_as_it_was_written,
            a_commit_makes_the_version_what_the_write_says,
            of_many_racers_exactly_one_wins,
            of_many_creators_exactly_one_wins,
            increments_under_contention_are_never_lost,
            a_conflict_changes_nothing,
            a_taken_seq_changes_nothing,
            a_seq_twice_in_one_write_changes_nothing,
            gaps_stay_gaps_until_they_are_filled,
            requests_are_replaced_by_id,
            only_unsettled_requests_are_loaded_in_call_order,
            bytes_come_back_untouched,
            odd_ids_are_ids_of_their_own,
            invalid_ids_are_refused_at_the_door,
            ten_thousand_messages_come_back_in_order,
            a_load_is_a_snapshot,
            conversations_do_not_disturb_each_other,
            a_dropped_commit_is_whole_or_absent,
            a_deleted_conversation_is_as_if_it_had_never_been,
            a_deletion_that_expects_another_version_changes_nothing,
            who_works_on_a_deleted_conversation_cannot_write_to_the_next_one_of_its_id,
            of_a_write_and_a_deletion_one_wins,
            leases_are_listed_by_their_end,
            open_requests_are_listed_by_age_and_by_expiry,
            requests_of_one_instant_are_listed_by_their_ids,
            pages_give_each_open_request_once,
            ten_thousand_parked_conversations_are_listed_page_by_page);
    };
    ($make:expr; $($name:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (store, _keep) = $make;
            $crate::store::conformance::$name(std::sync::Arc::new(store)).await;
        })+
    };
}
pub(crate) use conformance;
pub(crate) use contention::*;
pub(crate) use deletion::*;
pub(crate) use listing::*;

pub(crate) use super::testing::{append, body, id, touch};

type Shared = Arc<dyn Store>;

fn asked(id: &str, seq: u64) -> StoredRequest {
    StoredRequest {
        id: id.into(),
        slots: vec![Slot { seq, call: format!("call_{seq}") }],
        body: body(format!(r#"{{"id":"{id}"}}"#)),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: false,
        answers: vec![],
        outcome: None,
    }
}

fn asking(expect: u64, requests: Vec<StoredRequest>) -> Write {
    Write { state: State::Pending, requests, ..touch(expect) }
}

pub(crate) async fn an_unknown_conversation_is_none(store: Shared) {
    assert_eq!(store.load(&id("nobody")).await, Ok(None));
    assert_eq!(store.request(&id("nobody"), "req").await, Ok(None));
    store.commit(&id("c"), touch(0)).await.unwrap();
    assert_eq!(store.request(&id("c"), "req").await, Ok(None));
    assert_eq!(store.request(&id("c"), "").await, Ok(None));
    let conflict = store.commit(&id("nobody"), touch(3)).await;
    assert_eq!(conflict, Err(StoreError::Conflict { expected: 3, found: 0 }));
    assert_eq!(store.load(&id("nobody")).await, Ok(None));
}

pub(crate) async fn a_conversation_comes_back_as_it_was_written(store: Shared) {
    let request = StoredRequest {
        id: "req_1".into(),
        slots: vec![Slot { seq: 2, call: "a".into() }, Slot { seq: 3, call: "b \"quoted\" é".into() }],
        body: body(r#"{"id":"req_1"}"#),
        made_at_ms: -7,
        expires_at_ms: Some(-5),
        settled: false,
        answers: vec![body(r#"{"ok":true}"#), Bytes::new()],
        outcome: Some(body("{}")),
    };
    let write = Write {
        expect: 0,
        version: 1,
        at_ms: 1_764_500_000_000,
        state: State::Running,
        epoch: 7,
        lease: Some(Lease { owner: "host:1 ☂".into(), epoch: 6, until_ms: 1_764_500_000_000 }),
        append: vec![(0, body(r#"{"role":"user"}"#)), (1, body(r#"{"role":"assistant"}"#))],
        requests: vec![request.clone()],
    };
    assert_eq!(store.commit(&id("c"), write.clone()).await, Ok(()));
    let expected = Conversation {
        version: 1,
        written_at_ms: 1_764_500_000_000,
        epoch: 7,
        state: State::Running,
        lease: write.lease,
        messages: write.append,
        requests: vec![request.clone()],
    };
    assert_eq!(store.load(&id("c")).await, Ok(Some(expected.clone())));
    assert_eq!(store.request(&id("c"), "req_1").await, Ok(Some(request)));

    store.commit(&id("c"), Write { epoch: 8, at_ms: -1, ..touch(1) }).await.unwrap();
    let expected =
        Conversation { version: 2, written_at_ms: -1, epoch: 8, state: State::Idle, lease: None, ..expected };
    assert_eq!(store.load(&id("c")).await, Ok(Some(expected)));
}

pub(crate) async fn a_commit_makes_the_version_what_the_write_says(store: Shared) {
    let first = 0xFFFF_FFFF_FFFF;
    assert_eq!(store.commit(&id("c"), Write { version: first, ..touch(0) }).await, Ok(()));
    for expect in first..first + 5 {
        assert_eq!(store.commit(&id("c"), touch(expect)).await, Ok(()));
    }
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().version, first + 5);
}

pub(crate) async fn a_conflict_changes_nothing(store: Shared) {
    store.commit(&id("c"), append(0, [(0, body("0"))])).await.unwrap();
    let before = store.load(&id("c")).await.unwrap();
    let write = Write {
        state: State::Pending,
        epoch: 9,
        lease: Some(Lease { owner: "me".into(), epoch: 9, until_ms: 1 }),
        requests: vec![asked("req", 2)],
        ..append(1, [(1, body("1"))])
    };
    for expect in [0, 2, u64::MAX - 1] {
        let lost = store.commit(&id("c"), Write { expect, ..write.clone() }).await;
        assert_eq!(lost, Err(StoreError::Conflict { expected: expect, found: 1 }));
    }
    assert_eq!(store.load(&id("c")).await.unwrap(), before);
    assert_eq!(store.request(&id("c"), "req").await, Ok(None));
}

pub(crate) async fn a_taken_seq_changes_nothing(store: Shared) {
    store.commit(&id("c"), append(0, [(4, body("4"))])).await.unwrap();
    let before = store.load(&id("c")).await.unwrap();
    let write =
        Write { requests: vec![asked("req", 2)], ..append(1, [(3, body("3")), (4, body("4")), (5, body("5"))]) };
    assert_eq!(store.commit(&id("c"), write.clone()).await, Err(StoreError::SeqTaken { seq: 4 }));
    assert_eq!(store.load(&id("c")).await.unwrap(), before);
    assert_eq!(store.request(&id("c"), "req").await, Ok(None));
    // The version comes first: a caller that lost is told so, not that its message is a duplicate.
    let lost = store.commit(&id("c"), Write { expect: 0, ..write }).await;
    assert_eq!(lost, Err(StoreError::Conflict { expected: 0, found: 1 }));
    assert_eq!(store.commit(&id("c"), append(1, [(3, body("3"))])).await, Ok(()));
}

pub(crate) async fn a_seq_twice_in_one_write_changes_nothing(store: Shared) {
    let twice = [(1, body("a")), (2, body("b")), (1, body("c"))];
    assert_eq!(store.commit(&id("c"), append(0, twice)).await, Err(StoreError::SeqTaken { seq: 1 }));
    assert_eq!(store.load(&id("c")).await, Ok(None));
}

pub(crate) async fn gaps_stay_gaps_until_they_are_filled(store: Shared) {
    store.commit(&id("c"), append(0, [(0, body("0")), (3, body("3"))])).await.unwrap();
    let seqs = async || {
        let messages = store.load(&id("c")).await.unwrap().unwrap().messages;
        messages.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs().await, [0, 3]);
    store.commit(&id("c"), append(1, [(2, body("2")), (1, body("1")), (9, body("9"))])).await.unwrap();
    assert_eq!(seqs().await, [0, 1, 2, 3, 9]);
}

pub(crate) async fn requests_are_replaced_by_id(store: Shared) {
    let first = asked("req", 2);
    store.commit(&id("c"), asking(0, vec![first.clone()])).await.unwrap();
    store.commit(&id("other"), asking(0, vec![first.clone()])).await.unwrap();

    let answered = StoredRequest { answers: vec![body("1")], expires_at_ms: Some(1), ..first.clone() };
    store.commit(&id("c"), asking(1, vec![answered.clone()])).await.unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().requests, std::slice::from_ref(&answered));

    let settled = StoredRequest {
        settled: true,
        answers: vec![body("1"), body("2")],
        outcome: Some(body("{}")),
        ..first.clone()
    };
    store.commit(&id("c"), asking(2, vec![settled.clone()])).await.unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().requests, []);
    assert_eq!(store.request(&id("c"), "req").await, Ok(Some(settled)));
    assert_eq!(store.request(&id("other"), "req").await, Ok(Some(first.clone())), "ids are per conversation");

    // A store has no opinion on what may be settled: the last write of an id is what stands, also within one write.
    store.commit(&id("c"), asking(3, vec![answered, first.clone()])).await.unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().requests, std::slice::from_ref(&first));
    assert_eq!(store.request(&id("c"), "req").await, Ok(Some(first)));
}

pub(crate) async fn only_unsettled_requests_are_loaded_in_call_order(store: Shared) {
    let (late, early) = (asked("a", 7), asked("z", 5));
    let settled = StoredRequest { settled: true, ..asked("m", 6) };
    store.commit(&id("c"), asking(0, vec![late.clone(), settled.clone(), early.clone()])).await.unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().requests, [early, late]);
    assert_eq!(store.request(&id("c"), "m").await, Ok(Some(settled)));
}

pub(crate) async fn bytes_come_back_untouched(store: Shared) {
    let raw = Bytes::from_static(b" {\"b\":1.0, \"a\" : 1e5,\r\n\"n\":12345678901234567890123}\0\xff\xfe");
    let big = Bytes::from(vec![0xA5; 10 << 20]);
    let request = StoredRequest {
        body: raw.clone(),
        answers: vec![raw.clone(), Bytes::new(), big.clone()],
        outcome: Some(raw.clone()),
        ..asked("r\0", 2)
    };
    let messages = vec![(0, raw), (1, Bytes::new()), (2, big)];
    store.commit(&id("c"), Write { requests: vec![request.clone()], ..append(0, messages.clone()) }).await.unwrap();
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert!(found.messages == messages && found.requests == std::slice::from_ref(&request));
    assert!(store.request(&id("c"), "r\0").await == Ok(Some(request)));
}

pub(crate) async fn odd_ids_are_ids_of_their_own(store: Shared) {
    let long = "é".repeat(ConversationId::MAX_BYTES / 2);
    let odd = [
        "a",
        "A",
        " a",
        "a ",
        "á",
        "a\u{301}",
        "☂",
        "%",
        "a%",
        "_",
        "'; DROP TABLE message; --",
        "\u{10FFFF}\n",
        &long,
    ];
    for name in odd {
        assert_eq!(store.commit(&id(name), append(0, [(0, body(name))])).await, Ok(()), "{name:?}");
    }
    for name in odd {
        assert_eq!(store.load(&id(name)).await.unwrap().unwrap().messages, [(0, body(name))]);
    }
    let requests: Vec<_> = odd.into_iter().map(|name| asked(name, 5)).collect();
    store.commit(&id("a"), asking(1, requests.clone())).await.unwrap();
    for request in requests {
        assert_eq!(store.request(&id("a"), &request.id).await.as_ref(), Ok(&Some(request)));
    }
}

pub(crate) async fn invalid_ids_are_refused_at_the_door(_: Shared) {
    assert_eq!(ConversationId::new(""), Err(InvalidConversationId::Empty));
    assert_eq!(ConversationId::new("a\0b"), Err(InvalidConversationId::Nul));
    let long = "é".repeat(ConversationId::MAX_BYTES / 2) + "e";
    assert_eq!(ConversationId::new(long), Err(InvalidConversationId::TooLong { bytes: 1025 }));
}

pub(crate) async fn ten_thousand_messages_come_back_in_order(store: Shared) {
    let messages: Vec<_> =
        (0..10_000).map(|seq| (seq, body(format!(r#"{{"role":"user","content":"{seq}"}}"#)))).collect();
    let (first, rest) = messages.split_at(3_000);
    store.commit(&id("c"), append(0, rest.iter().rev().cloned())).await.unwrap();
    for (expect, chunk) in (1..).zip(first.chunks(500)) {
        store.commit(&id("c"), append(expect, chunk.iter().cloned())).await.unwrap();
    }
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert!(found.messages == messages, "{} messages came back", found.messages.len());
    let last = store.commit(&id("c"), append(found.version, [(9_999, body("x"))])).await;
    assert_eq!(last, Err(StoreError::SeqTaken { seq: 9_999 }));
}
