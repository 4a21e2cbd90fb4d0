//! Everything that can be wrong with the file: each a typed error, and nothing lost.

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};

use super::*;

const SECRET: &str = "my-secret-message";

fn name(store: &SqliteStore) -> String {
    store.path().display().to_string()
}

/// A message that no error may repeat.
fn secret(seq: u64) -> (u64, Bytes) {
    (seq, body(format!(r#"{{"role":"user","content":"{SECRET} {seq}"}}"#)))
}

/// The error of an operation, which keeps what was written to itself and names the file.
fn error<T: std::fmt::Debug>(store: &SqliteStore, result: Result<T, StoreError>) -> StoreError {
    let error = result.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(!text.contains(SECRET), "{text}");
    assert!(text.contains(&name(store)), "{text}");
    let first = error.to_string().replace(&name(store), "").chars().find(|c| c.is_alphabetic());
    assert!(first.is_some_and(char::is_lowercase), "{error}");
    error
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (store, _folder) = fresh();
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    // Another version takes the file over while this one has it open.
    beside(&store).pragma_update(None, "user_version", 99).unwrap();
    let again = SqliteStore::open(store.path()).unwrap();
    let newer = StoreError::NewerSchema { store: name(&store), found: 99, supported: 3 };
    for store in [store, again] {
        assert_eq!(error(&store, store.commit(&id("c"), touch(1)).await), newer);
        assert_eq!(error(&store, store.load(&id("c")).await), newer);
        assert_eq!(error(&store, store.request(&id("c"), "r").await), newer);
    }
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused_and_left_alone() {
    let (store, _folder) = fresh();
    let text = "Dear diary, ".repeat(1_000);
    fs::write(store.path(), &text).unwrap();
    assert_eq!(error(&store, store.load(&id("c")).await), StoreError::NotAStore { store: name(&store) });
    assert_eq!(error(&store, store.commit(&id("c"), touch(0)).await), StoreError::NotAStore { store: name(&store) });
    assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    for theirs in ["CREATE TABLE diary (text)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"] {
        let (store, _folder) = fresh();
        beside(&store).execute_batch(theirs).unwrap();
        let before = fs::read(store.path()).unwrap();
        let refused = error(&store, store.commit(&id("c"), touch(0)).await);
        assert_eq!(refused, StoreError::NotAStore { store: name(&store) }, "{theirs}");
        assert_eq!(fs::read(store.path()).unwrap(), before);
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let (store, _folder) = fresh();
    fs::write(store.path(), "").unwrap();
    assert_eq!(store.load(&id("c")).await, Ok(None));
    assert_eq!(store.commit(&id("c"), touch(0)).await, Ok(()));
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let store = SqliteStore::open(missing.join("c.db")).unwrap();
    let reason = format!("the folder {} does not exist, create it", missing.display());
    let expected = StoreError::Unavailable { store: name(&store), reason };
    assert_eq!(error(&store, store.load(&id("c")).await), expected);
    fs::create_dir(missing).unwrap();
    assert_eq!(store.load(&id("c")).await, Ok(None));
}

#[tokio::test]
async fn a_folder_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let expected = StoreError::Unavailable { store: name(&store), reason: "it is a folder, name a file".into() };
    assert_eq!(error(&store, store.load(&id("c")).await), expected);
}

#[tokio::test]
async fn a_full_disk_fails_what_does_not_fit_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.db");
    let limited = |pages| {
        let open = SqliteStore::open(&path).unwrap();
        let most_pages = Some(pages);
        let file = Arc::try_unwrap(Arc::into_inner(open.shared).unwrap().file).unwrap();
        SqliteStore::of(File { most_pages, ..file })
    };
    let store = limited(60);
    store.commit(&id("big"), append(0, [secret(0)])).await.unwrap();
    let big = (1, body(SECRET.repeat(20_000)));
    // Small ones ride in the group of the one that does not fit.
    let other = beside(&store);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commit = |name: String, write| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(&id(&name), write).await })
    };
    let mut small: Vec<_> = (0..5).map(|n| commit(format!("c-{n}"), append(0, [secret(n)]))).collect();
    let refused = commit("big".into(), append(1, [big.clone()]));
    small.extend((5..10).map(|n| commit(format!("c-{n}"), append(0, [secret(n)]))));
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(error(&store, refused.await.unwrap()), StoreError::Full { store: name(&store) });
    for commit in small {
        assert_eq!(commit.await.unwrap(), Ok(()));
    }
    assert_eq!(store.load(&id("big")).await.unwrap().unwrap().messages, [secret(0)]);
    store.close().await;

    let roomy = limited(1_000);
    assert_eq!(roomy.commit(&id("big"), append(1, [big.clone()])).await, Ok(()));
    assert!(roomy.load(&id("big")).await.unwrap().unwrap().messages == [secret(0), big]);
    assert_eq!(roomy.load(&id("c-9")).await.unwrap().unwrap().messages, [secret(9)]);
}

#[tokio::test]
async fn damage_is_told_without_what_was_damaged() {
    let (store, _folder) = fresh();
    store.commit(&id("c"), append(0, (0..200).map(secret))).await.unwrap();
    store.close().await;
    let mut file = fs::File::options().write(true).open(store.path()).unwrap();
    let length = file.metadata().unwrap().len();
    for page in 1..length / 2048 {
        file.seek(SeekFrom::Start(page * 2048)).unwrap();
        file.write_all(SECRET.as_bytes()).unwrap();
    }
    drop(file);
    let store = SqliteStore::open(store.path()).unwrap();
    let damaged = error(&store, store.load(&id("c")).await);
    assert_eq!(damaged, StoreError::Corrupt { store: name(&store), reason: "its pages do not fit".into() });
    assert!(matches!(error(&store, store.commit(&id("c"), touch(1)).await), StoreError::Corrupt { .. }));
}

#[tokio::test]
async fn a_row_that_was_never_written_here_is_damage() {
    let slots = vec![Slot { seq: 1, call: SECRET.into() }];
    let request = StoredRequest {
        id: "req".into(),
        slots,
        body: body(SECRET),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: false,
        answers: vec![body(SECRET)],
        outcome: None,
    };
    for (damage, reason) in [
        ("UPDATE conversation SET state = 7", "the state of a conversation"),
        ("UPDATE conversation SET version = -1", "a column has the wrong type"),
        ("UPDATE request SET slots = substr(slots, 2)", "the slots of a request"),
        ("UPDATE request SET slots = substr(slots, 1, 12)", "the slots of a request"),
        ("UPDATE request SET answers = body", "the answers of a request"),
    ] {
        let (store, _folder) = fresh();
        let write = Write { state: State::Pending, requests: vec![request.clone()], ..append(0, [secret(0)]) };
        store.commit(&id("c"), write).await.unwrap();
        assert_eq!(beside(&store).execute(damage, []).unwrap(), 1);
        let expected = StoreError::Corrupt { store: name(&store), reason: reason.into() };
        assert_eq!(error(&store, store.load(&id("c")).await), expected, "{damage}");
    }
}

#[tokio::test]
async fn a_file_that_is_deleted_under_the_store_is_gone_and_not_made_anew() {
    let (store, folder) = fresh();
    store.commit(&id("c"), append(0, [secret(0)])).await.unwrap();
    let aside = folder.path().join("aside.db");
    beside(&store).execute("VACUUM INTO ?1", [aside.to_str().unwrap()]).unwrap();
    for companion in ["c.db", "c.db-wal", "c.db-shm"] {
        fs::remove_file(folder.path().join(companion)).unwrap();
    }
    for _ in 0..2 {
        let gone = StoreError::Gone { store: name(&store) };
        assert_eq!(error(&store, store.commit(&id("c"), append(1, [secret(1)])).await), gone);
        assert_eq!(error(&store, store.load(&id("c")).await), gone);
    }
    assert!(!store.path().exists());
    fs::rename(aside, store.path()).unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages, [secret(0)]);
    assert_eq!(store.commit(&id("c"), append(1, [secret(1)])).await, Ok(()));
}

#[tokio::test]
async fn numbers_that_do_not_fit_are_named() {
    let (store, _folder) = fresh();
    let too_large = |what: &str, limit| StoreError::TooLarge { store: name(&store), what: what.into(), limit };
    let far = store.commit(&id("c"), append(0, [(1 << 32, body(SECRET))])).await;
    assert_eq!(error(&store, far), too_large("the seq of a message", u64::from(u32::MAX)));
    let epoch = store.commit(&id("c"), Write { epoch: u64::MAX, ..touch(0) }).await;
    assert_eq!(error(&store, epoch), too_large("an epoch", i64::MAX.cast_unsigned()));
    assert_eq!(store.load(&id("c")).await, Ok(None));
    let last = (u64::from(u32::MAX), body("last"));
    store.commit(&id("c"), append(0, [last.clone()])).await.unwrap();
    store.commit(&id("d"), append(0, [(0, body("first of the next"))])).await.unwrap();
    assert_eq!(store.load(&id("c")).await.unwrap().unwrap().messages, [last]);
}
