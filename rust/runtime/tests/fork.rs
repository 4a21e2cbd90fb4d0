//! SQLite stores in processes that fork. In a file of its own, because it needs `unsafe` for the fork itself.
#![allow(unsafe_code, reason = "fork, _exit and waitpid are unsafe")]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use toolrelay_runtime::store::{
    Conversation, ConversationId, SqliteStore, State, Store, StoreError, Write, hold_for_fork,
};

/// Whether something is open at the fork is a matter of the whole process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn id(text: &str) -> ConversationId {
    ConversationId::new(text).unwrap()
}

fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), work).await.unwrap() })
}

/// One more message for the conversation, whatever its version.
fn add(store: &SqliteStore, name: &str, text: &str) -> Result<(), StoreError> {
    wait_for(async {
        let found = store.load(&id(name)).await?.map_or(0, |found| found.version);
        let append = vec![(found, text.to_owned().into())];
        let write = Write {
            expect: found,
            version: found + 1,
            at_ms: 0,
            state: State::Idle,
            epoch: 0,
            lease: None,
            append,
            requests: vec![],
        };
        store.commit(&id(name), write).await
    })
}

fn find(store: &SqliteStore, name: &str) -> Conversation {
    wait_for(store.load(&id(name))).unwrap().unwrap()
}

/// Forks; the child does `work` and ends with 0 if that was true. Returns the child's status.
fn in_child(holding: bool, work: impl FnOnce() -> bool) -> i32 {
    let hold = holding.then(hold_for_fork);
    // SAFETY: the child runs code of this process with the locks of its other threads as they were. Memory is safe;
    // the store is built so that none of these locks is needed, and what std and malloc need is made good by libc.
    let child = unsafe { libc::fork() };
    drop(hold);
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends this process at once, without the exit handlers that belong to the parent.
        unsafe { libc::_exit(i32::from(!done.unwrap_or(false))) }
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process and `status` is a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

#[test]
fn both_sides_of_a_held_fork_go_on() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("c.db")).unwrap();
    add(&store, "family", "before").unwrap();
    let stop = AtomicBool::new(false);
    let forks = 40;
    thread::scope(|scope| {
        // Somebody is always in the middle of a commit or a load when the fork comes.
        let busy = scope.spawn(|| {
            let mut commits = 0;
            while !stop.load(Ordering::Relaxed) {
                add(&store, "busy", "m").unwrap();
                commits += 1;
            }
            commits
        });
        for fork in 0..forks {
            let status = in_child(true, || {
                // The inherited store and a new one on the same file, and a child of the child.
                let again = SqliteStore::open(store.path()).unwrap();
                let added = add(&store, "family", "child").is_ok() && add(&again, "family", "child").is_ok();
                let grandchild = in_child(true, || add(&store, "family", "grandchild").is_ok());
                drop(again);
                added && grandchild == 0
            });
            assert_eq!(status, 0, "fork {fork}");
            add(&store, "family", "parent").unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let commits = busy.join().unwrap();
        assert_eq!(find(&store, "busy").version, commits);
    });
    let family = find(&store, "family");
    assert_eq!((family.version, family.messages.len() as u64), (1 + 4 * forks, 1 + 4 * forks));
}

#[test]
fn a_fork_that_was_not_held_is_told_to_the_child_and_does_not_hurt_the_parent() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("c.db")).unwrap();
    add(&store, "c", "before").unwrap();
    let status = in_child(false, || {
        let again = SqliteStore::open(store.path()).unwrap();
        let told = [&store, &again].map(|store| {
            matches!(add(store, "c", "child"), Err(StoreError::Unavailable { reason, .. }) if reason.contains("fork"))
        });
        // Dropping them in the child neither hangs nor closes the parent's file.
        drop((again, store.clone()));
        drop(hold_for_fork());
        told == [true, true]
    });
    assert_eq!(status, 0);
    assert_eq!(add(&store, "c", "after"), Ok(()));
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "the log is in place");
}
