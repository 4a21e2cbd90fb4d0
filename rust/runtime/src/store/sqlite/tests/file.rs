//! What the file costs and how the store lets go of it.

use std::fs;

use super::*;

#[tokio::test]
async fn a_thousand_messages_take_at_most_twice_their_size() {
    // Sizes on both sides of a page and of its half, where whole pages fit worst.
    for sizes in [vec![240], vec![660], vec![1_040], vec![1_000, 40], vec![2_100], vec![60, 300, 1_100, 4_300, 700]] {
        let (store, _folder) = fresh();
        let messages: Vec<_> = (0..1_000)
            .zip(sizes.iter().cycle())
            .map(|(seq, size)| (seq, body(format!(r#"{{"role":"tool","content":"{seq:x<size$}"}}"#))))
            .collect();
        let json: usize = messages.iter().map(|(_, message)| message.len()).sum();
        for (expect, turn) in (0..).zip(messages.chunks(10)) {
            store.commit(&id("c"), append(expect, turn.iter().cloned())).await.unwrap();
        }
        store.close().await;
        let size = fs::metadata(store.path()).unwrap().len();
        assert!(size <= 2 * json as u64, "{sizes:?}: {size} bytes for {json}");
    }
}

#[tokio::test]
async fn a_commit_writes_the_same_at_any_length() {
    let mut written = vec![];
    for length in [10, 1_000, 10_000] {
        let (store, _folder) = fresh();
        let messages = (0..length).map(|seq| (seq, body("m".repeat(240))));
        store.commit(&id("c"), append(0, messages)).await.unwrap();
        store.close().await;

        let store = SqliteStore::open(store.path()).unwrap();
        store.commit(&id("c"), append(1, [(length, body("m".repeat(240)))])).await.unwrap();
        written.push(log_bytes(&store).unwrap());
    }
    // The conversation's page and the page of the last messages; with luck a new one of these, and then the pages
    // above it and the file's head.
    let most = 5 * (2048 + 24) + 32;
    assert!(written.iter().all(|bytes| *bytes <= most), "{written:?}");
}

#[tokio::test]
async fn dropping_the_last_clone_closes_the_file() {
    let (store, _folder) = fresh();
    let path = store.path().to_owned();
    let clone = store.clone();
    store.commit(&id("c"), touch(0)).await.unwrap();
    drop(store);
    clone.load(&id("c")).await.unwrap();
    let mut ended = clone.shared.crew.load_full().unwrap().orders().unwrap().ended.clone();
    drop(clone);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended.changed()).await;
    assert!(ended.unwrap().is_err(), "the threads end");
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["c.db"], "SQLite removes its log when the last connection is closed");
}

#[tokio::test]
async fn a_store_that_was_never_used_makes_no_file() {
    let (store, folder) = fresh();
    store.close().await;
    drop(store);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn closing_does_what_was_asked_and_refuses_the_rest() {
    let (store, _folder) = fresh();
    let clone = store.clone();
    let commits: Vec<_> = (0..50)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(&id(&format!("c-{n}")), touch(0)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let closed = StoreError::Closed { store: store.path().display().to_string() };
    let mut done = 0;
    for commit in commits {
        match commit.await.unwrap() {
            Ok(()) => done += 1,
            Err(error) => assert_eq!(error, closed),
        }
    }
    assert_eq!(clone.commit(&id("late"), touch(0)).await, Err(closed.clone()));
    assert_eq!(clone.load(&id("late")).await, Err(closed.clone()));
    assert_eq!(clone.request(&id("late"), "req").await, Err(closed));
    clone.close().await;
    let kept: i64 = beside(&store).query_row("SELECT count(*) FROM conversation", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, done);
}

#[tokio::test]
async fn concurrent_commits_share_a_transaction() {
    let (store, _folder) = fresh();
    store.commit(&id("c"), touch(0)).await.unwrap();
    // While somebody else holds the lock the commits queue up behind the first one.
    let other = beside(&store);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commits: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(&id(&format!("c-{n}")), touch(0)).await.unwrap() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = log_bytes(&store).unwrap();
    other.execute_batch("COMMIT").unwrap();
    for commit in commits {
        commit.await.unwrap();
    }
    // One transaction each would write two pages at least, each time.
    let written = log_bytes(&store).unwrap() - before;
    assert!(written < 60 * 2048, "{written} bytes for 100 small commits");
}

#[tokio::test]
async fn a_path_is_taken_literally() {
    for odd in [":memory:", "file:x?mode=memory", "a b/ü.db"] {
        let store = SqliteStore::open(odd).unwrap();
        assert_eq!(store.path(), std::env::current_dir().unwrap().join(odd));
    }
    assert!(matches!(SqliteStore::open(""), Err(StoreError::Unavailable { .. })));

    let folder = tempfile::tempdir().unwrap();
    let odd = SqliteStore::open(folder.path().join("file:x?mode=memory#é")).unwrap();
    odd.commit(&id("c"), touch(0)).await.unwrap();
    assert!(odd.path().exists());
}

#[test]
fn a_store_outlives_the_runtime_that_used_it_first() {
    let (store, _folder) = fresh();
    for expect in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(store.commit(&id("c"), touch(expect))), Ok(()));
    }
}

#[tokio::test]
async fn the_schema_is_made_once_however_many_open_the_file() {
    let (store, _folder) = fresh();
    let loads: Vec<_> = (0..20)
        .map(|_| {
            let store = SqliteStore::open(store.path()).unwrap();
            tokio::spawn(async move { store.load(&id("c")).await })
        })
        .collect();
    for load in loads {
        assert_eq!(load.await.unwrap(), Ok(None));
    }
}
