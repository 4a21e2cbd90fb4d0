//! Everything that can be wrong with a server and its keys: each a typed error, and nothing lost.

use std::time::Instant;

use super::*;

const SECRET: &str = "my-secret-message";

fn secret(seq: u64) -> (u64, Bytes) {
    (seq, body(format!(r#"{{"role":"user","content":"{SECRET} {seq}"}}"#)))
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_told_anew() {
    // Of its own: others would have to tell theirs anew as well, which is what they are not to be tested for.
    let Some(url) = server("redis.forgetful", &[]) else { return };
    let store = on(&url, Duration::from_secs(5));
    for version in 0..4 {
        store.commit(&id("c"), touch(version)).await.unwrap();
        say(&url, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(store.request(&id("c"), "r").await, Ok(None));
        say(&url, &["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let Some(store) = fresh() else { return };
    let url = server("redis", &[]).unwrap();
    let lease = Some(Lease { owner: "me".into(), epoch: 1, until_ms: 7 });
    store.commit(&id("c"), Write { lease, ..append(0, [secret(0)]) }).await.unwrap();
    let key = store.shared.keys.conversation(&id("c"));
    say(&url, &["HSET", &key, "format", "2"]).await;
    let before = say(&url, &["HGETALL", &key]).await;
    let newer = StoreError::NewerSchema { store: store.name().into(), found: 2, supported: FORMAT };
    assert_eq!(store.load(&id("c")).await, Err(newer.clone()));
    assert_eq!(store.request(&id("c"), "r").await, Err(newer.clone()));
    assert_eq!(store.commit(&id("c"), append(1, [secret(1)])).await, Err(newer.clone()));
    assert_eq!(store.delete(&id("c"), 1).await, Err(newer.clone()));
    assert_eq!(store.leases(None, 9).await, Err(newer));
    assert_eq!(say(&url, &["HGETALL", &key]).await, before);
}

#[tokio::test]
async fn keys_of_another_program_are_refused_and_left_alone() {
    let Some(url) = server("redis", &[]) else { return };
    for theirs in [&["SET", "", "x"][..], &["HSET", "", "subject", "x"], &["RPUSH", "", "x"]] {
        let store = on(&url, Duration::from_secs(5));
        let key = store.shared.keys.conversation(&id("c"));
        let mut words = theirs.to_vec();
        words[1] = &key;
        say(&url, &words).await;
        let before = say(&url, &["DUMP", &key]).await;
        let refused = StoreError::NotAStore { store: store.name().into() };
        assert_eq!(store.load(&id("c")).await, Err(refused.clone()), "{theirs:?}");
        assert_eq!(store.commit(&id("c"), append(0, [secret(0)])).await, Err(refused.clone()), "{theirs:?}");
        assert_eq!(store.delete(&id("c"), 0).await, Err(refused), "{theirs:?}");
        assert_eq!(say(&url, &["DUMP", &key]).await, before);
    }
    // Nothing of a commit is applied when only one of its keys is of another kind.
    for key in 1..5 {
        let store = on(&url, Duration::from_secs(5));
        let keys = store.shared.keys.all(&id("c"));
        say(&url, &["SET", &keys[key], "x"]).await;
        let refused = StoreError::NotAStore { store: store.name().into() };
        assert_eq!(store.commit(&id("c"), append(0, [secret(0)])).await, Err(refused), "{}", keys[key]);
        assert_eq!(store.load(&id("c")).await, Ok(None));
    }
}

#[tokio::test]
async fn a_server_without_room_fails_what_does_not_fit_and_keeps_the_rest() {
    let Some(url) = server("redis.full", &["--maxmemory-policy", "noeviction"]) else { return };
    let store = on(&url, Duration::from_secs(5));
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    say(&url, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = StoreError::Full { store: store.name().into() };
    assert_eq!(store.commit(&id("c"), append(1, [secret(1)])).await, Err(full.clone()));
    assert_eq!(store.commit(&id("new"), append(0, [secret(0)])).await, Err(full));
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);
    assert_eq!(store.load(&id("new")).await, Ok(None));
    say(&url, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(store.commit(&id("c"), append(1, [secret(1)])).await, Ok(()));
}

#[tokio::test]
async fn a_replica_is_read_only_until_it_takes_over() {
    let Some(url) = server("redis.replica", &[]) else { return };
    let patience = Duration::from_millis(200);
    let hasty = on(&url, patience);
    hasty.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    say(&url, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let start = Instant::now();
    let refused = StoreError::ReadOnly { store: hasty.name().into() };
    assert_eq!(hasty.commit(&id("c"), append(1, [secret(1)])).await, Err(refused));
    assert!(start.elapsed() + Duration::from_millis(100) >= patience);
    assert_eq!(hasty.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);

    let store = on(&url, Duration::from_secs(30));
    assert!(store.load(&id("c")).await.is_ok());
    let committing = tokio::spawn(async move { store.commit(&id("d"), touch(0)).await });
    tokio::task::yield_now().await;
    say(&url, &["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(committing.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn who_may_not_come_in_is_told() {
    let Some(url) = server("redis.locked", &["--requirepass", "right-s3cret"]) else { return };
    let with = |password: &str| url.replace("redis://", &format!("redis://:{password}@"));
    for (url, reason) in [(url.clone(), "NOAUTH"), (with("wrong-s3cret"), "uthentication")] {
        let store = on(&url, Duration::from_mins(10));
        let told = store.load(&id("c")).await.unwrap_err();
        assert!(matches!(&told, StoreError::Unavailable { .. }) && told.to_string().contains(reason), "{told}");
        assert!(!format!("{told:?} {store:?}").contains("s3cret"), "{told:?}");
    }
    let store = on(&with("right-s3cret"), Duration::from_secs(5));
    assert_eq!(store.load(&id("c")).await, Ok(None));
    assert!(!format!("{store:?}").contains("s3cret"));
}

#[tokio::test]
async fn databases_and_prefixes_keep_stores_apart() {
    let Some(url) = server("redis", &[]) else { return };
    let prefix = servers::fresh("t");
    let at = |url: &str, prefix: &str| {
        let options = RedisOptions { prefix: prefix.into(), ..RedisOptions::default() };
        RedisStore::open_with(url, options).unwrap()
    };
    at(&url, &prefix).commit(&id("c"), touch(0)).await.unwrap();
    assert_eq!(at(&format!("{url}/1"), &prefix).load(&id("c")).await, Ok(None));
    assert_eq!(at(&url, &format!("{prefix}:")).load(&id("c")).await, Ok(None));
    assert_eq!(at(&url, &prefix).load(&id("c")).await.unwrap().unwrap().version, 1);
    let options = RedisOptions { prefix: "a{b".into(), ..RedisOptions::default() };
    assert!(RedisStore::open_with(&url, options).is_err());
}

#[tokio::test]
async fn a_conversation_that_holds_what_nobody_wrote_is_damaged() {
    let Some(store) = fresh() else { return };
    let url = server("redis", &[]).unwrap();
    let key = store.shared.keys.conversation(&id("c"));
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    for (field, value, mended) in
        [("state", "asleep", "idle"), ("epoch", "-1", "0"), ("m:x", "{}", ""), ("r:r", "\u{1}", "")]
    {
        say(&url, &["HSET", &key, field, value]).await;
        let told = store.load(&id("c")).await;
        assert!(matches!(told, Err(StoreError::Corrupt { .. })), "{field}: {told:?}");
        let mend = if mended.is_empty() { vec!["HDEL", &key, field] } else { vec!["HSET", &key, field, mended] };
        say(&url, &mend).await;
        assert!(store.load(&id("c")).await.is_ok(), "{field}");
    }
}
