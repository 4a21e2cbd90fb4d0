//! What every store must do when leases and open requests are listed over all conversations.

use super::{Shared, asked, asking, id, touch};
use crate::store::{Cursor, Lease, Order, State, Store, StoredRequest, Write};

fn lease(owner: &str, until_ms: i64) -> Lease {
    Lease { owner: owner.into(), epoch: 3, until_ms }
}

fn place(at_ms: i64, conversation: &str, request: &str) -> Cursor {
    Cursor { at_ms, conversation: id(conversation), request: request.into() }
}

pub(crate) async fn leases_are_listed_by_their_end(store: Shared) {
    assert_eq!(store.leases(None, 5).await.unwrap(), []);
    for (name, until_ms) in [("late", 900), ("b", 20), ("early", -3), ("a", 20), ("á", 20)] {
        let write = Write { state: State::Running, lease: Some(lease(name, until_ms)), ..touch(0) };
        store.commit(&id(name), write).await.unwrap();
    }
    store.commit(&id("idle"), touch(0)).await.unwrap();
    let listed = async |after: Option<Cursor>, limit| {
        let found = store.leases(after.as_ref(), limit).await.unwrap();
        found.into_iter().map(|(id, lease)| (id.to_string(), lease.until_ms)).collect::<Vec<_>>()
    };
    let all = [("early", -3), ("a", 20), ("b", 20), ("á", 20), ("late", 900)].map(|(name, at)| (name.to_string(), at));
    assert_eq!(listed(None, 9).await, all);
    assert_eq!(listed(None, 2).await, all[..2]);
    assert_eq!(listed(Some(place(20, "a", "")), 2).await, all[2..4]);
    assert_eq!(listed(Some(place(20, "gone", "")), 9).await, all[3..]);
    assert_eq!(listed(Some(place(900, "late", "")), 9).await, []);
    assert_eq!(store.leases(None, 1).await.unwrap(), [(id("early"), lease("early", -3))]);

    // A lease that was renewed moves, and one that was given back is gone.
    let write = Write { state: State::Running, lease: Some(lease("early", 1_000)), ..touch(1) };
    store.commit(&id("early"), write).await.unwrap();
    store.commit(&id("b"), touch(1)).await.unwrap();
    let left = [("a", 20), ("á", 20), ("late", 900), ("early", 1_000)].map(|(name, at)| (name.to_string(), at));
    assert_eq!(listed(None, 9).await, left);
}

fn made(name: &str, made_at_ms: i64, expires_at_ms: Option<i64>) -> StoredRequest {
    StoredRequest { made_at_ms, expires_at_ms, ..asked(name, 5) }
}

async fn names(store: &dyn Store, order: Order, after: Option<Cursor>, limit: usize) -> Vec<String> {
    let found = store.open_requests(order, after.as_ref(), limit).await.unwrap();
    found.into_iter().map(|(id, request)| format!("{id}/{}", request.id)).collect()
}

pub(crate) async fn open_requests_are_listed_by_age_and_by_expiry(store: Shared) {
    assert_eq!(store.open_requests(Order::Age, None, 5).await.unwrap(), []);
    let (old, young) = (made("old", 1, Some(900)), made("young", 30, Some(50)));
    let (never, other) = (made("never", 20, None), made("other", 10, Some(-1)));
    let settled = StoredRequest { settled: true, ..made("settled", 5, Some(60)) };
    store.commit(&id("c"), asking(0, vec![young.clone(), settled, old.clone()])).await.unwrap();
    store.commit(&id("d"), asking(0, vec![never.clone(), other.clone()])).await.unwrap();

    let by_age = [(id("c"), old.clone()), (id("d"), other.clone()), (id("d"), never), (id("c"), young.clone())];
    assert_eq!(store.open_requests(Order::Age, None, 9).await.unwrap(), by_age);
    let by_expiry = [(id("d"), other.clone()), (id("c"), young), (id("c"), old.clone())];
    assert_eq!(store.open_requests(Order::Expiry, None, 9).await.unwrap(), by_expiry);
    assert_eq!(names(&*store, Order::Age, Some(place(10, "d", "other")), 1).await, ["d/never"]);
    assert_eq!(names(&*store, Order::Expiry, Some(place(50, "c", "young")), 9).await, ["c/old"]);
    assert_eq!(names(&*store, Order::Expiry, Some(place(900, "c", "old")), 9).await, [""; 0]);

    // What is settled leaves the listings, and what opens again comes back.
    let over = StoredRequest { settled: true, ..other.clone() };
    store.commit(&id("d"), asking(1, vec![over])).await.unwrap();
    assert_eq!(names(&*store, Order::Expiry, None, 9).await, ["c/young", "c/old"]);
    store.commit(&id("d"), asking(2, vec![StoredRequest { expires_at_ms: Some(70), ..other }])).await.unwrap();
    assert_eq!(names(&*store, Order::Expiry, None, 9).await, ["c/young", "d/other", "c/old"]);
    assert_eq!(names(&*store, Order::Age, None, 2).await, ["c/old", "d/other"]);
}

pub(crate) async fn requests_of_one_instant_are_listed_by_their_ids(store: Shared) {
    for name in ["b", "á", "a", "B"] {
        let requests = ["z", "é", "Z", "y"].map(|request| made(request, 7, Some(7)));
        store.commit(&id(name), asking(0, requests.to_vec())).await.unwrap();
    }
    let mut expected = Vec::new();
    for name in ["B", "a", "b", "á"] {
        expected.extend(["Z", "y", "z", "é"].map(|request| format!("{name}/{request}")));
    }
    for order in [Order::Age, Order::Expiry] {
        assert_eq!(names(&*store, order, None, 99).await, expected);
        assert_eq!(names(&*store, order, Some(place(7, "b", "z")), 2).await, expected[11..13]);
        assert_eq!(names(&*store, order, Some(place(7, "b", "zz")), 2).await, expected[11..13]);
        assert_eq!(names(&*store, order, Some(place(6, "zzz", "")), 1).await, expected[..1]);
    }
}

pub(crate) async fn pages_give_each_open_request_once(store: Shared) {
    let mut expected = Vec::new();
    for n in 0..40 {
        let at = n % 3;
        store.commit(&id(&format!("c-{n}")), asking(0, vec![made("r", at, Some(-at))])).await.unwrap();
        expected.push(format!("c-{n}/r"));
    }
    expected.sort();
    for order in [Order::Age, Order::Expiry] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.open_requests(order, after.as_ref(), 7).await.unwrap();
            let Some((conversation, request)) = page.last() else { break };
            let at_ms = order.time_of(request).unwrap();
            after = Some(Cursor { at_ms, conversation: conversation.clone(), request: request.id.clone() });
            seen.extend(page.iter().map(|(id, request)| format!("{id}/{}", request.id)));
        }
        seen.sort();
        assert_eq!(seen, expected);
    }
}

pub(crate) async fn ten_thousand_parked_conversations_are_listed_page_by_page(store: Shared) {
    const MANY: i64 = 10_000;
    let commits = (0..MANY).map(|n| {
        let store = store.clone();
        let write = asking(0, vec![made("r", n, Some(MANY - n))]);
        async move { store.commit(&id(&format!("c-{n}")), write).await.unwrap() }
    });
    futures_util::future::join_all(commits).await;
    let (mut seen, mut after) = (0, None);
    loop {
        let page = store.open_requests(Order::Expiry, after.as_ref(), 1_000).await.unwrap();
        let Some((conversation, request)) = page.last() else { break };
        let at_ms = request.expires_at_ms.unwrap();
        after = Some(Cursor { at_ms, conversation: conversation.clone(), request: request.id.clone() });
        for (conversation, request) in page {
            seen += 1;
            assert_eq!((conversation, request.made_at_ms), (id(&format!("c-{}", MANY - seen)), MANY - seen));
        }
    }
    assert_eq!(seen, MANY);
}
