//! Questions that are lost on the way, and answers.

use std::time::Duration;

use toolrelay_runtime::store::{Conversation, StoreError};

use crate::places::{Place, id, is_whole, step};
use crate::proxy::{Loss, Proxy, place};
use crate::servers::server;

#[tokio::test]
async fn a_commit_that_was_lost_on_the_way_is_applied_once() {
    for place in Place::each() {
        let proxy = Proxy::to(self::place(&place.url)).await;
        let store = place.by(proxy.url(&place.url)).store();
        store.commit(&id("c"), step(0)).await.unwrap();
        let mut version = 1;
        for loss in [Loss::Question, Loss::Answer] {
            // The first question is on a line that stands; the ones after it are those of another line.
            for ahead in 0..4 {
                proxy.lose(ahead, loss);
                for _ in 0..3 {
                    assert_eq!(store.commit(&id("c"), step(version)).await, Ok(()), "{loss:?} {ahead}");
                    version += 1;
                }
                assert_eq!(is_whole(&*store, "c").await, version);
            }
        }
    }
}

#[tokio::test]
async fn a_first_commit_whose_answer_was_lost_is_applied_once() {
    for place in Place::each() {
        let proxy = Proxy::to(self::place(&place.url)).await;
        let store = place.by(proxy.url(&place.url)).store();
        assert_eq!(store.load(&id("c")).await, Ok(None));
        proxy.lose(0, Loss::Answer);
        assert_eq!(store.commit(&id("c"), step(0)).await, Ok(()));
        assert_eq!(is_whole(&*store, "c").await, 1);
    }
}

#[tokio::test]
async fn what_is_lost_again_and_again_is_told_and_can_be_looked_up() {
    for kind in ["postgres", "redis"] {
        let Some(url) = server(kind, &[]) else { continue };
        let place = Place::on(url);
        let proxy = Proxy::to(self::place(&place.url)).await;
        let (by_proxy, store) = (place.by(proxy.url(&place.url)).patient(Duration::ZERO), place.store());
        by_proxy.commit(&id("c"), step(0)).await.unwrap();
        for (loss, version) in [(Loss::Question, 1), (Loss::Answer, 2)] {
            assert_eq!(is_whole(&*by_proxy, "c").await, 1, "there is a line");
            proxy.lose(0, loss);
            let told = by_proxy.commit(&id("c"), step(1)).await;
            assert!(matches!(told, Err(StoreError::Unavailable { .. })), "{told:?}");
            // In the store's own time: the server may still be at it when the line is gone.
            for _ in 0..1_000 {
                if is_whole(&*store, "c").await == version {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(is_whole(&*store, "c").await, version, "{loss:?}");
        }
    }
}

#[tokio::test]
async fn a_deletion_that_was_lost_on_the_way_is_made_once() {
    for place in Place::each() {
        let proxy = Proxy::to(self::place(&place.url)).await;
        let store = place.by(proxy.url(&place.url)).store();
        for loss in [Loss::Question, Loss::Answer] {
            store.commit(&id("c"), step(0)).await.unwrap();
            proxy.lose(0, loss);
            assert_eq!(store.delete(&id("c"), 1).await, Ok(()), "{loss:?}");
            assert_eq!(store.load(&id("c")).await, Ok(None));
            assert_eq!(store.delete(&id("c"), 1).await, Err(StoreError::Conflict { expected: 1, found: 0 }));
        }
    }
}

#[tokio::test]
async fn an_operation_is_one_round_trip() {
    for place in Place::each() {
        let proxy = Proxy::to(self::place(&place.url)).await;
        let store = place.by(proxy.url(&place.url)).store();
        // On a cluster the first goes where the second will not.
        store.commit(&id("c"), step(0)).await.unwrap();
        store.request(&id("c"), "req_000000000").await.unwrap();
        let before = proxy.questions();
        for version in 1..4 {
            let found = store.load(&id("c")).await.unwrap();
            assert!(matches!(found, Some(Conversation { version: found, .. }) if found == version));
            assert!(store.request(&id("c"), "req_000000000").await.unwrap().is_some());
            store.commit(&id("c"), step(version)).await.unwrap();
        }
        // Of a cluster the proxy sees the server of the URL alone.
        let expected = if place.url.contains("cluster") { 0..=9 } else { 9..=9 };
        let made = proxy.questions() - before;
        assert!(expected.contains(&made) || made == 0, "{made} round trips of {}", place.url);
    }
}
