//! What every store must do when a conversation is deleted.

use super::{Shared, append, asked, asking, body, id, touch};
use crate::store::{Lease, Order, State, StoreError, Write};

pub(crate) async fn a_deleted_conversation_is_as_if_it_had_never_been(store: Shared) {
    let lease = Some(Lease { owner: "me".into(), epoch: 1, until_ms: 1 });
    for name in ["c", "kept"] {
        let write =
            Write { lease: lease.clone(), state: State::Running, ..append(0, [(0, body(name)), (7, body("7"))]) };
        store.commit(&id(name), write).await.unwrap();
        let write = Write { lease: lease.clone(), ..asking(1, vec![asked("open", 1), asked("closed", 2)]) };
        store.commit(&id(name), write).await.unwrap();
    }
    assert_eq!(store.delete(&id("c"), 2).await, Ok(()));

    assert_eq!(store.load(&id("c")).await, Ok(None));
    assert_eq!(store.request(&id("c"), "open").await, Ok(None));
    assert_eq!(store.request(&id("c"), "closed").await, Ok(None));
    assert_eq!(store.leases(None, 9).await.unwrap(), [(id("kept"), lease.clone().unwrap())]);
    let listed = store.open_requests(Order::Age, None, 9).await.unwrap();
    assert_eq!(listed, [(id("kept"), asked("closed", 2)), (id("kept"), asked("open", 1))]);
    assert_eq!(store.load(&id("kept")).await.unwrap().unwrap().messages, [(0, body("kept")), (7, body("7"))]);

    store.commit(&id("c"), append(0, [(0, body("new"))])).await.unwrap();
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert_eq!((found.version, found.messages, found.requests), (1, vec![(0, body("new"))], vec![]));
    assert_eq!(store.request(&id("c"), "open").await, Ok(None));
}

pub(crate) async fn a_deletion_that_expects_another_version_changes_nothing(store: Shared) {
    store.commit(&id("c"), append(0, [(0, body("0"))])).await.unwrap();
    let before = store.load(&id("c")).await.unwrap();
    for expect in [0, 2, 1 << 60] {
        let lost = store.delete(&id("c"), expect).await;
        assert_eq!(lost, Err(StoreError::Conflict { expected: expect, found: 1 }));
    }
    assert_eq!(store.load(&id("c")).await.unwrap(), before);
    assert_eq!(store.delete(&id("nobody"), 1).await, Err(StoreError::Conflict { expected: 1, found: 0 }));
    assert_eq!(store.delete(&id("nobody"), 0).await, Ok(()));
}

pub(crate) async fn who_works_on_a_deleted_conversation_cannot_write_to_the_next_one_of_its_id(store: Shared) {
    let (first, next) = (0x1111_1111_1111, 0x2222_2222_2222);
    store.commit(&id("c"), Write { version: first, ..touch(0) }).await.unwrap();
    store.delete(&id("c"), first).await.unwrap();
    assert_eq!(store.commit(&id("c"), touch(first)).await, Err(StoreError::Conflict { expected: first, found: 0 }));
    store.commit(&id("c"), Write { version: next, ..touch(0) }).await.unwrap();
    assert_eq!(store.commit(&id("c"), touch(first)).await, Err(StoreError::Conflict { expected: first, found: next }));
    assert_eq!(store.delete(&id("c"), first).await, Err(StoreError::Conflict { expected: first, found: next }));
}

pub(crate) async fn of_a_write_and_a_deletion_one_wins(store: Shared) {
    for n in 0..20 {
        let name = id(&format!("c-{n}"));
        store.commit(&name, append(0, [(0, body("0"))])).await.unwrap();
        let write = append(1, [(1, body("1"))]);
        let (written, deleted) = tokio::join!(store.commit(&name, write), store.delete(&name, 1));
        let found = store.load(&name).await.unwrap();
        match (written, deleted) {
            (Ok(()), Err(lost)) => {
                assert_eq!(lost, StoreError::Conflict { expected: 1, found: 2 });
                assert_eq!(found.unwrap().messages.len(), 2);
            }
            (Err(lost), Ok(())) => {
                assert_eq!(lost, StoreError::Conflict { expected: 1, found: 0 });
                assert_eq!(found, None);
            }
            both => panic!("{both:?}"),
        }
    }
}
