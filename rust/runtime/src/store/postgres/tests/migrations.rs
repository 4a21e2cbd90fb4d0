//! Tables of every earlier schema, of a newer one, and of somebody else.

use futures_util::future::join_all;

use super::*;
use crate::store::postgres::schema::{MIGRATIONS, NEWEST};

#[tokio::test]
async fn tables_of_every_earlier_schema_are_brought_up() {
    for done in 0..MIGRATIONS.len() {
        let Some(store) = fresh() else { return };
        execute(&store, "CREATE SCHEMA {schema}; CREATE TABLE {schema}.migration (number integer PRIMARY KEY)").await;
        for (number, migration) in MIGRATIONS.iter().enumerate().take(done) {
            execute(&store, migration).await;
            execute(&store, &format!("INSERT INTO {{schema}}.migration VALUES ({})", number + 1)).await;
        }
        assert_eq!(store.load(&id("c")).await, Ok(None));
        assert_eq!(store.commit(&id("c"), touch(0)).await, Ok(()));
        let made: i64 =
            beside(&store).await.query_typed_one("SELECT count(*) FROM migration", &[]).await.unwrap().get(0);
        assert_eq!(made, i64::from(NEWEST));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_come_first_one_makes_the_tables() {
    let Some(store) = fresh() else { return };
    let url = server("postgres", &[]).unwrap();
    let stores: Vec<_> = (0..12).map(|_| again(&url, &store)).collect();
    let loads = stores.into_iter().map(|store| tokio::spawn(async move { store.load(&id("c")).await }));
    for load in join_all(loads).await {
        assert_eq!(load.unwrap(), Ok(None));
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_even_while_it_is_in_use() {
    let Some(store) = fresh() else { return };
    store.commit(&id("c"), append(0, [(0, body("{}"))])).await.unwrap();
    execute(&store, "INSERT INTO {schema}.migration VALUES (99)").await;
    let supported = NEWEST.unsigned_abs();
    for store in [store.clone(), again(&server("postgres", &[]).unwrap(), &store)] {
        let newer = StoreError::NewerSchema { store: store.name().into(), found: 99, supported };
        assert_eq!(store.load(&id("c")).await, Err(newer.clone()));
        assert_eq!(store.load(&id("nobody")).await, Err(newer.clone()));
        assert_eq!(store.request(&id("c"), "r").await, Err(newer.clone()));
        assert_eq!(store.commit(&id("c"), append(1, [(1, body("{}"))])).await, Err(newer.clone()));
        assert_eq!(store.commit(&id("new"), touch(0)).await, Err(newer.clone()));
        assert_eq!(store.delete(&id("c"), 1).await, Err(newer.clone()));
        assert_eq!(store.leases(None, 1).await, Err(newer.clone()));
        assert_eq!(store.open_requests(Order::Age, None, 1).await, Err(newer));
    }
    let counts = "SELECT (SELECT count(*) FROM conversation), (SELECT count(*) FROM message)";
    let kept = beside(&store).await.query_typed_one(counts, &[]).await.unwrap();
    assert_eq!((kept.get::<_, i64>(0), kept.get::<_, i64>(1)), (1, 1));
}

#[tokio::test]
async fn tables_of_another_program_are_left_alone() {
    for theirs in ["CREATE TABLE {schema}.migration (name text)", "CREATE TABLE {schema}.conversation (subject text)"] {
        let Some(store) = fresh() else { return };
        execute(&store, &format!("CREATE SCHEMA {{schema}}; {theirs}")).await;
        let refused = StoreError::NotAStore { store: store.name().into() };
        assert_eq!(store.commit(&id("c"), touch(0)).await, Err(refused.clone()), "{theirs}");
        assert_eq!(store.load(&id("c")).await, Err(refused), "{theirs}");
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema";
        assert_eq!(beside(&store).await.query_typed_one(tables, &[]).await.unwrap().get::<_, i64>(0), 1);
    }
}

#[tokio::test]
async fn tables_that_are_taken_away_are_gone_and_not_made_anew() {
    let Some(store) = fresh() else { return };
    store.commit(&id("c"), touch(0)).await.unwrap();
    execute(&store, "DROP SCHEMA {schema} CASCADE").await;
    let gone = StoreError::Gone { store: store.name().into() };
    assert_eq!(store.load(&id("c")).await, Err(gone.clone()));
    assert_eq!(store.commit(&id("c"), touch(1)).await, Err(gone));
}

#[test]
fn a_name_that_postgresql_would_cut_is_refused() {
    for schema in [String::new(), "s".repeat(64), "a\0b".into()] {
        let options = PostgresOptions { schema, ..PostgresOptions::default() };
        assert!(PostgresStore::open_with("postgresql://me@db/app", options).is_err());
    }
}

#[tokio::test]
async fn an_odd_name_is_a_name() {
    let Some(url) = server("postgres", &[]) else { return };
    let schema = format!("O\"dd; DROP é {}", servers::fresh(""));
    let options = || PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
    let store = PostgresStore::open_with(&url, options()).unwrap();
    store.commit(&id("c"), touch(0)).await.unwrap();
    assert_eq!(PostgresStore::open_with(&url, options()).unwrap().load(&id("c")).await.unwrap().unwrap().version, 1);
}
