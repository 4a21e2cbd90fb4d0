//! Everything that can be wrong with the database: each a typed error, and nothing lost.

use std::time::Instant;

use super::*;

const SECRET: &str = "my-secret-message";

fn secret(seq: u64) -> (u64, Bytes) {
    (seq, body(format!(r#"{{"role":"user","content":"{SECRET} {seq}"}}"#)))
}

/// The store of another user, who may not do everything, in the schema of a store.
async fn of_user(store: &PostgresStore, rights: &str) -> PostgresStore {
    let user = servers::fresh("user").replace('-', "_");
    execute(store, &format!("CREATE ROLE {user} LOGIN; {}", rights.replace("{user}", &user))).await;
    let url = server("postgres", &[]).unwrap().replace("toolrelay@", &format!("{user}@"));
    again(&url, store)
}

#[tokio::test]
async fn a_user_needs_no_right_to_make_tables_that_are_there() {
    let Some(store) = fresh() else { return };
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    let rights = "GRANT USAGE ON SCHEMA {schema} TO {user};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}";
    let other = of_user(&store, rights).await;
    assert_eq!(other.commit(&id("c"), append(1, [secret(1)])).await, Ok(()));
    assert_eq!(other.load(&id("c")).await.unwrap().unwrap().messages, [secret(0), secret(1)]);
}

#[tokio::test]
async fn a_user_without_the_right_to_write_is_told() {
    let Some(store) = fresh() else { return };
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    let rights = "GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {user}";
    let reader = of_user(&store, rights).await;
    assert_eq!(reader.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);
    let read_only = |store: &PostgresStore| StoreError::ReadOnly { store: store.name().into() };
    assert_eq!(reader.commit(&id("c"), append(1, [secret(1)])).await, Err(read_only(&reader)));
    assert_eq!(reader.delete(&id("c"), 1).await, Err(read_only(&reader)));
    // One who may not make the tables.
    let Some(absent) = fresh() else { return };
    let stranger = of_user(&absent, "SELECT").await;
    assert_eq!(stranger.load(&id("c")).await, Err(read_only(&stranger)));
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().version, 1);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_read_only() {
    let Some(url) = server("postgres", &[]) else { return };
    let store = on(&url, Duration::from_secs(5));
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    // As a replica answers.
    let replica = again(&format!("{url}?options=-c%20default_transaction_read_only%3Don"), &store);
    assert_eq!(replica.load(&id("c")).await.unwrap().unwrap().version, 1);
    let read_only = StoreError::ReadOnly { store: replica.name().into() };
    assert_eq!(replica.commit(&id("c"), append(1, [secret(1)])).await, Err(read_only));
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);
}

#[tokio::test]
async fn what_the_server_raises_in_a_commit_is_told_by_its_kind_and_changes_nothing() {
    let Some(store) = fresh() else { return };
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    execute(
        &store,
        "CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'row %', NEW USING ERRCODE = TG_ARGV[0]; END $$",
    )
    .await;
    let name = || store.name().to_owned();
    let unavailable = |reason: &str| StoreError::Unavailable { store: name(), reason: reason.into() };
    for (code, expected) in [
        ("53100", StoreError::Full { store: name() }),
        ("25006", StoreError::ReadOnly { store: name() }),
        ("42501", StoreError::ReadOnly { store: name() }),
        ("22021", unavailable("a value that it refuses (SQLSTATE 22021)")),
        ("23514", unavailable("a value that it refuses (SQLSTATE 23514)")),
    ] {
        execute(
            &store,
            &format!(
                "CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON {{schema}}.message
                 FOR EACH ROW EXECUTE FUNCTION {{schema}}.fail('{code}')"
            ),
        )
        .await;
        let refused = store.commit(&id("c"), append(1, [secret(1)])).await.unwrap_err();
        assert_eq!(refused, expected);
        assert!(!format!("{refused} {refused:?}").contains(SECRET), "{refused}");
        assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);
    }
    execute(&store, "DROP TRIGGER fail ON {schema}.message").await;
    assert_eq!(store.commit(&id("c"), append(1, [secret(1)])).await, Ok(()));
}

#[tokio::test]
async fn a_lock_is_waited_for_and_then_told() {
    let Some(url) = server("postgres", &[]) else { return };
    let patience = Duration::from_millis(200);
    let hasty = on(&url, patience);
    let store = again(&url, &hasty);
    store.commit(&id("c"), touch(0)).await.unwrap();
    let locker = beside(&store).await;
    locker.batch_execute("BEGIN; SELECT FROM conversation FOR UPDATE").await.unwrap();
    let told = StoreError::Locked { store: hasty.name().into(), waited: patience };
    let start = Instant::now();
    assert_eq!(hasty.commit(&id("c"), touch(1)).await, Err(told.clone()));
    assert_eq!(hasty.delete(&id("c"), 1).await, Err(told));
    assert!(start.elapsed() >= 2 * patience);
    assert_eq!(hasty.load(&id("c")).await.unwrap().unwrap().version, 1, "readers are not kept out");

    let waiting = tokio::spawn(async move { store.commit(&id("c"), touch(1)).await });
    let blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'toolrelay'";
    while beside(&hasty).await.query_typed(blocked, &[]).await.unwrap().is_empty() {}
    locker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_the_server_breaks_off_are_made_again() {
    let Some(url) = server("postgres", &[]) else { return };
    let store =
        on(&format!("{url}?options=-c%20default_transaction_isolation%3Dserializable"), Duration::from_secs(30));
    store.commit(&id("c"), touch(0)).await.unwrap();
    for round in 1..6 {
        let racers = (0..12).map(|racer| {
            let store = store.clone();
            tokio::spawn(
                async move { store.commit(&id("c"), append(round, [(100 * round + racer, body("{}"))])).await },
            )
        });
        let mut won = 0;
        for ended in futures_util::future::join_all(racers).await {
            match ended.unwrap() {
                Ok(()) => won += 1,
                Err(lost) => assert_eq!(lost, StoreError::Conflict { expected: round, found: round + 1 }),
            }
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_way_in_is_said() {
    let Some(url) = server("postgres", &[]) else { return };
    for (url, reason) in [
        (url.replace("toolrelay@", "nobody:s3cret@"), "role \"nobody\" does not exist"),
        (url.replace("/postgres", "/nowhere"), "database \"nowhere\" does not exist"),
        (format!("{url}?sslmode=require"), "does not support TLS"),
    ] {
        let start = Instant::now();
        let store = on(&url, Duration::from_mins(10));
        let told = store.load(&id("c")).await.unwrap_err();
        assert!(matches!(&told, StoreError::Unavailable { .. }) && told.to_string().contains(reason), "{told}");
        assert!(!format!("{told:?} {store:?}").contains("s3cret"));
        assert!(start.elapsed() < Duration::from_mins(1));
    }
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let Some(store) = fresh() else { return };
    let name = servers::fresh("latin").replace('-', "_");
    let make = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    beside(&store).await.batch_execute(&make).await.unwrap();
    let url = server("postgres", &[]).unwrap().replace("/postgres", &format!("/{name}"));
    let told = on(&url, Duration::from_secs(5)).load(&id("c")).await.unwrap_err();
    assert!(told.to_string().contains("encoding LATIN1, make one with UTF8"), "{told}");
}

#[tokio::test]
async fn values_that_no_column_holds_are_told() {
    let Some(store) = fresh() else { return };
    let too_large = |what: &str| StoreError::TooLarge {
        store: store.name().into(),
        what: what.into(),
        limit: i64::MAX.cast_unsigned(),
    };
    let write = Write { epoch: u64::MAX, ..touch(0) };
    assert_eq!(store.commit(&id("c"), write).await, Err(too_large("an epoch")));
    let write = append(0, [(u64::MAX, body("{}"))]);
    assert_eq!(store.commit(&id("c"), write).await, Err(too_large("the seq of a message")));
    assert_eq!(store.load(&id("c")).await, Ok(None));
}

#[tokio::test]
async fn a_conversation_that_holds_what_nobody_wrote_is_damaged() {
    let Some(store) = fresh() else { return };
    let slots = vec![Slot { seq: 1, call: "a".into() }];
    let request = StoredRequest {
        id: "r".into(),
        slots,
        body: body("{}"),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: false,
        answers: vec![],
        outcome: None,
    };
    store.commit(&id("c"), Write { requests: vec![request], ..touch(0) }).await.unwrap();
    for (damage, mend) in [
        ("UPDATE conversation SET state = 7", "UPDATE conversation SET state = 0"),
        ("UPDATE conversation SET lease_epoch = 7", "UPDATE conversation SET lease_epoch = NULL"),
        ("UPDATE request SET slots = '\\x01'", "UPDATE request SET slots = ''"),
        ("UPDATE request SET answers = '\\xffffffff'", "UPDATE request SET answers = ''"),
    ] {
        beside(&store).await.batch_execute(damage).await.unwrap();
        let told = store.load(&id("c")).await;
        assert!(matches!(told, Err(StoreError::Corrupt { .. })), "{damage}: {told:?}");
        beside(&store).await.batch_execute(mend).await.unwrap();
        assert!(store.load(&id("c")).await.is_ok(), "{mend}");
    }
}
