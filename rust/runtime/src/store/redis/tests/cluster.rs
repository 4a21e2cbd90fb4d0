//! Slots that move between the servers of a cluster while conversations in them are used.

use super::*;

/// The two servers of the cluster, each with its own id.
async fn nodes() -> Option<[(String, String); 2]> {
    server("cluster.moving", &[])?;
    let mut nodes = Vec::new();
    for name in ["redis.cluster.moving-1", "redis.cluster.moving-2"] {
        let url = server(name, &[])?;
        let Value::BulkString(own) = say(&url, &["CLUSTER", "MYID"]).await else { panic!("no id") };
        nodes.push((url, String::from_utf8(own).unwrap()));
    }
    nodes.try_into().ok()
}

#[tokio::test]
async fn a_conversation_is_followed_to_where_its_slot_moves() {
    let Some([one, two]) = nodes().await else { return };
    let store = on(&one.0, Duration::from_secs(5));
    for n in 0..40 {
        store.commit(&id(&format!("c-{n}")), touch(0)).await.unwrap();
    }
    let keys = store.shared.keys.all(&id("c-0"));
    let Value::Int(slot) = say(&one.0, &["CLUSTER", "KEYSLOT", &keys[0]]).await else { panic!("no slot") };
    let slot = slot.to_string();
    let (from, to) = if slot.parse::<u16>().unwrap() < 8_192 { (&one, &two) } else { (&two, &one) };
    let port = to.0.rsplit_once(':').unwrap().1;

    say(&to.0, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.1]).await;
    say(&from.0, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.1]).await;
    // Its keys are on their way: whoever asks for one that has moved is sent after it.
    let Value::Array(moving) = say(&from.0, &["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).await else { panic!("none") };
    let mut migrate = vec!["MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"];
    let moving: Vec<String> = moving.into_iter().map(|key| redis::from_redis_value(key).unwrap()).collect();
    migrate.extend(moving.iter().map(String::as_str));
    say(&from.0, &migrate).await;
    assert_eq!(store.load(&id("c-0")).await.unwrap().unwrap().version, 1);
    // A commit changes several keys, and waits until their slot has arrived.
    let hasty = RedisStore::open_with(
        &one.0,
        RedisOptions { prefix: store.shared.keys.prefix.clone(), patience: Duration::from_millis(200), connections: 1 },
    );
    let told = hasty.unwrap().commit(&id("c-0"), touch(1)).await;
    assert!(matches!(told, Err(StoreError::Unavailable { .. })), "{told:?}");
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(&id("c-0"), touch(1)).await }
    });
    tokio::task::yield_now().await;
    for (url, _) in [to, from] {
        say(url, &["CLUSTER", "SETSLOT", &slot, "NODE", &to.1]).await;
    }
    assert_eq!(committing.await.unwrap(), Ok(()));
    for n in 0..40 {
        let version = store.load(&id(&format!("c-{n}"))).await.unwrap().unwrap().version;
        assert_eq!(store.commit(&id(&format!("c-{n}")), touch(version)).await, Ok(()));
    }
}
