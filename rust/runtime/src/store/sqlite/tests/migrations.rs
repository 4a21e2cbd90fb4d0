//! Files of every earlier schema, and the indexes of the newest.

use super::*;
use crate::store::sqlite::list::{BY_AGE, BY_EXPIRY, LEASES};
use crate::store::{Conversation, Cursor, Lease, Order};

/// A file as the version that had only the first migration wrote it.
fn of_schema_1() -> (SqliteStore, TempDir) {
    let (store, folder) = fresh();
    let file = beside(&store);
    file.execute_batch(include_str!("../0001_conversations.sql")).unwrap();
    file.execute_batch(
        "INSERT INTO conversation VALUES (1, 'c', 4, 2, 2, NULL, NULL, NULL), (2, 'd', 1, 1, 1, 'dead', 1, 50);
         INSERT INTO message VALUES (4294967296, x'7b7d');
         INSERT INTO request VALUES (1, 0, 'req_1', 900, x'', x'7b7d', x'', NULL), (1, 1, 'req_0', 900, x'', x'7b7d', x'', NULL);
         PRAGMA application_id = 0x546c526c;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    (store, folder)
}

/// The same in the second schema, as it was brought there when it had been written long ago.
fn of_schema_2() -> (SqliteStore, TempDir) {
    let (store, folder) = of_schema_1();
    let file = beside(&store);
    file.execute_batch(include_str!("../0002_listings.sql")).unwrap();
    file.execute_batch(
        "UPDATE conversation SET written_at_ms = 70;
         UPDATE request SET made_at_ms = 70;
         PRAGMA user_version = 2;",
    )
    .unwrap();
    (store, folder)
}

#[tokio::test]
async fn a_file_of_schema_1_goes_on_with_all_that_it_had() {
    let (store, _folder) = of_schema_1();
    let before = crate::drive::now_ms();
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert!((before..=crate::drive::now_ms()).contains(&found.written_at_ms));
    goes_on(&store, found).await;
}

#[tokio::test]
async fn a_file_of_schema_2_goes_on_with_all_that_it_had() {
    let (store, _folder) = of_schema_2();
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert_eq!(found.written_at_ms, 70);
    goes_on(&store, found).await;
}

async fn goes_on(store: &SqliteStore, found: Conversation) {
    assert_eq!((found.version, found.epoch, found.state), (4, 2, State::Pending));
    assert_eq!(found.messages, [(0, body("{}"))]);
    let request = StoredRequest {
        id: "req_1".into(),
        slots: vec![],
        body: body("{}"),
        made_at_ms: found.written_at_ms,
        expires_at_ms: Some(900),
        settled: false,
        answers: vec![],
        outcome: None,
    };
    assert_eq!(found.requests, std::slice::from_ref(&request));
    for order in [Order::Age, Order::Expiry] {
        assert_eq!(store.open_requests(order, None, 9).await.unwrap(), [(id("c"), request.clone())]);
    }
    let settled = StoredRequest { id: "req_0".into(), settled: true, ..request };
    assert_eq!(store.request(&id("c"), "req_0").await.unwrap(), Some(settled));
    let lease = Lease { owner: "dead".into(), epoch: 1, until_ms: 50 };
    assert_eq!(store.leases(None, 9).await.unwrap(), [(id("d"), lease)]);
    assert_eq!(store.commit(&id("c"), touch(4)).await, Ok(()));
}

#[tokio::test]
async fn listings_walk_along_an_index_and_sort_only_what_is_of_one_time() {
    let (store, _folder) = fresh();
    let cursor = Cursor { at_ms: 1, conversation: id("c"), request: "r".into() };
    store.leases(Some(&cursor), 1).await.unwrap();
    let file = beside(&store);
    for (query, index) in
        [(LEASES, "conversation_by_lease"), (BY_AGE, "request_by_age"), (BY_EXPIRY, "request_by_expiry")]
    {
        let mut explained = file.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        for parameter in 1..=explained.parameter_count() {
            explained.raw_bind_parameter(parameter, 1).unwrap();
        }
        let steps = explained.raw_query().mapped(|row| row.get::<_, String>(3));
        let steps: Vec<_> = steps.map(Result::unwrap).collect();
        assert!(steps[0].contains(&format!("USING INDEX {index}")), "{steps:?}");
        assert!(steps.iter().all(|step| !step.starts_with("SCAN")), "{steps:?}");
        let sorts: Vec<_> = steps.iter().filter(|step| step.contains("TEMP B-TREE")).collect();
        assert!(sorts.iter().all(|sort| sort.contains("LAST")), "{steps:?}");
    }
}
