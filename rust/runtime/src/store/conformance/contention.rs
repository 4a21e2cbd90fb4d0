//! What every store must do when many use it at once.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Barrier;

use super::{Shared, append, asked, body, id, touch};
use crate::store::{StoreError, Write};

/// `racers` tasks commit against `expect` at once, each adding its own message; returns the winners.
async fn race(store: &Shared, expect: u64, racers: u64) -> Vec<u64> {
    let start = Arc::new(Barrier::new(usize::try_from(racers).unwrap()));
    let tasks: Vec<_> = (0..racers)
        .map(|racer| {
            let (store, start) = (store.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                store.commit(&id("c"), append(expect, [(100 + racer, body(racer.to_string()))])).await
            })
        })
        .collect();
    let mut winners = vec![];
    for (racer, task) in (0..).zip(tasks) {
        match task.await.unwrap() {
            Ok(()) => winners.push(racer),
            Err(lost) => assert_eq!(lost, StoreError::Conflict { expected: expect, found: expect + 1 }),
        }
    }
    winners
}

pub(crate) async fn of_many_racers_exactly_one_wins(store: Shared) {
    store.commit(&id("c"), touch(0)).await.unwrap();
    let winners = race(&store, 1, 64).await;
    let [winner] = winners[..] else { panic!("{winners:?} won") };
    let messages = store.load(&id("c")).await.unwrap().unwrap().messages;
    assert_eq!(messages, [(100 + winner, body(winner.to_string()))]);
}

pub(crate) async fn of_many_creators_exactly_one_wins(store: Shared) {
    let winners = race(&store, 0, 64).await;
    assert_eq!(winners.len(), 1, "{winners:?} won");
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages.len(), 1);
}

pub(crate) async fn increments_under_contention_are_never_lost(store: Shared) {
    const WORKERS: u64 = 8;
    const EACH: u64 = 12;
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while done < EACH {
                    let version = store.load(&id("c")).await.unwrap().map_or(0, |found| found.version);
                    let write = append(version, [(worker * EACH + done, body(version.to_string()))]);
                    match store.commit(&id("c"), write).await {
                        Ok(()) => done += 1,
                        Err(lost) => assert!(matches!(lost, StoreError::Conflict { .. }), "{lost}"),
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let found = store.load(&id("c")).await.unwrap().unwrap();
    assert_eq!(found.version, WORKERS * EACH);
    let versions: HashSet<_> = found.messages.iter().map(|(_, body)| body).collect();
    assert_eq!(versions.len(), found.messages.len(), "two commits were made from one version");
}

/// Each commit adds as many messages, and opens as many requests, as its version says.
pub(crate) async fn a_load_is_a_snapshot(store: Shared) {
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for expect in 0..60 {
                let request = asked(&format!("req_{expect}"), expect);
                let write = Write { requests: vec![request], ..append(expect, [(expect, body("m"))]) };
                store.commit(&id("c"), Write { epoch: expect + 1, ..write }).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        if let Some(found) = store.load(&id("c")).await.unwrap() {
            let seen = [found.epoch, found.messages.len() as u64, found.requests.len() as u64];
            assert_eq!(seen, [found.version; 3]);
        }
    }
    writer.await.unwrap();
}

pub(crate) async fn conversations_do_not_disturb_each_other(store: Shared) {
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = id(&format!("c-{n}"));
                for expect in 0..4 {
                    // Every fourth write is refused; the ones that ride in the same group are not.
                    let refused = store.commit(&name, append(expect + 1, [(expect, body("x"))])).await;
                    assert_eq!(refused, Err(StoreError::Conflict { expected: expect + 1, found: expect }));
                    if expect > 0 {
                        let taken =
                            store.commit(&name, append(expect, [(90, body("x")), (expect - 1, body("x"))])).await;
                        assert_eq!(taken, Err(StoreError::SeqTaken { seq: expect - 1 }));
                    }
                    store.commit(&name, append(expect, [(expect, body(format!("{n}.{expect}")))])).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..50 {
        let found = store.load(&id(&format!("c-{n}"))).await.unwrap().unwrap();
        let expected: Vec<_> = (0..4).map(|seq| (seq, body(format!("{n}.{seq}")))).collect();
        assert_eq!((found.version, found.messages), (4, expected));
    }
}

pub(crate) async fn a_dropped_commit_is_whole_or_absent(store: Shared) {
    for n in 0..40 {
        let name = id(&format!("c-{n}"));
        let write = Write { requests: vec![asked("req", 3)], ..append(0, [(0, body("0")), (1, body("1"))]) };
        let mut commit = store.commit(&name, write);
        let polled = futures_util::future::poll_immediate(&mut commit).await;
        assert!(polled.is_none_or(|done| done == Ok(())));
        drop(commit);
        // Whatever came of it, the next one sees it as a whole.
        let found = store.load(&name).await.unwrap();
        let version = found.map_or(0, |found| {
            assert_eq!((found.version, found.messages.len(), found.requests.len()), (1, 2, 1));
            1
        });
        if let Err(lost) = store.commit(&name, touch(version)).await {
            assert_eq!((version, lost), (0, StoreError::Conflict { expected: 0, found: 1 }));
        }
    }
}
