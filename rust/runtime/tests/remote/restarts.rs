//! Servers that are not there, and servers that come back.

use std::time::Duration;

use futures_util::future::join_all;
use toolrelay_runtime::store::{PostgresStore, RedisStore, Store, StoreError};

use crate::places::{Place, id, is_whole, step};
use crate::servers::{again, server, stop};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_is_waited_for_and_has_all_it_acknowledged() {
    const WRITERS: usize = 6;
    for name in ["postgres.restarts", "redis.restarts"] {
        let Some(url) = server(name, &[]) else { continue };
        let place = Place::on(url);
        let store = place.patient(Duration::from_secs(30));
        for restart in 0..3 {
            let goal = 40 * (restart + 1);
            let writers = (0..WRITERS).map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    let name = format!("c-{writer}");
                    let mut version = is_whole(&*store, &name).await;
                    while version < goal {
                        store.commit(&id(&name), step(version)).await.unwrap();
                        version += 1;
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            // It is killed in the middle of it.
            while is_whole(&*store, "c-0").await < goal - 30 {}
            tokio::task::spawn_blocking(|| {
                stop(name);
                again(name);
            })
            .await
            .unwrap();
            for writer in join_all(writers).await {
                writer.unwrap();
            }
            for writer in 0..WRITERS {
                assert_eq!(is_whole(&*store, &format!("c-{writer}")).await, goal);
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_was_there_and_does_not_come_back_is_unavailable_and_loses_nothing() {
    for name in ["postgres.away", "redis.away"] {
        let Some(url) = server(name, &[]) else { continue };
        let place = Place::on(url);
        let store = place.patient(Duration::from_millis(300));
        store.commit(&id("c"), step(0)).await.unwrap();
        stop(name);
        let told = store.commit(&id("c"), step(1)).await.unwrap_err();
        assert!(matches!(&told, StoreError::Unavailable { .. }) && told.to_string().contains("refused"), "{told}");
        again(name);
        assert_eq!(is_whole(&*store, "c").await, 1);
        assert_eq!(store.commit(&id("c"), step(1)).await, Ok(()));
    }
}

#[tokio::test]
async fn a_server_that_was_never_there_is_told_at_once() {
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, name) in [
        (
            format!("postgresql://me:my-secret@127.0.0.1:{port}/db"),
            format!("PostgreSQL at 127.0.0.1:{port}/db, schema "),
        ),
        (format!("redis://me:my-secret@127.0.0.1:{port}/2"), format!("Redis at 127.0.0.1:{port}/2, prefix ")),
    ] {
        let place = Place::on(url);
        let store = place.patient(Duration::from_mins(10));
        let told = store.load(&id("c")).await.unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("{name}{} is unavailable: ", place.part)) && told.contains("refused"),
            "{told}"
        );
        assert!(!format!("{told} {store:?}").contains("my-secret"));
    }
}

#[tokio::test]
async fn closing_does_what_was_asked_and_refuses_the_rest() {
    for place in Place::each() {
        let (postgres, redis): (Option<PostgresStore>, Option<RedisStore>) = if place.is_postgres() {
            (Some(place.postgres(PATIENCE)), None)
        } else {
            (None, Some(place.redis(PATIENCE)))
        };
        let clone = || match (&postgres, &redis) {
            (Some(postgres), _) => Box::new(postgres.clone()) as Box<dyn Store>,
            (_, Some(redis)) => Box::new(redis.clone()) as Box<dyn Store>,
            _ => panic!("neither"),
        };
        let commits = (0..50).map(|n| {
            let store = clone();
            tokio::spawn(async move { store.commit(&id(&format!("c-{n}")), step(0)).await })
        });
        let commits: Vec<_> = commits.collect();
        tokio::task::yield_now().await;
        match (&postgres, &redis) {
            (Some(postgres), _) => postgres.close().await,
            (_, Some(redis)) => redis.close().await,
            _ => panic!("neither"),
        }
        let (mut done, again) = (0, place.store());
        for (n, commit) in commits.into_iter().enumerate() {
            let is_there = is_whole(&*again, &format!("c-{n}")).await;
            match commit.await.unwrap() {
                Ok(()) => done += 1,
                Err(StoreError::Closed { .. }) => assert_eq!(is_there, 0),
                other => panic!("{other:?}"),
            }
        }
        assert!(done > 0);
        assert!(matches!(clone().load(&id("c-0")).await, Err(StoreError::Closed { .. })));
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
