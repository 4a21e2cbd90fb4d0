//! What servers say, and what is made of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use redis::parse_redis_value;

use super::*;

/// What a store makes of an error as a server sends it.
fn told(said: &str) -> Fault {
    let error = parse_redis_value(format!("-{said}\r\n").as_bytes()).and_then(redis::Value::extract_error).unwrap_err();
    of("the store", &error)
}

fn store() -> String {
    "the store".into()
}

#[test]
fn what_passes_is_waited_for() {
    for said in [
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "NOREPLICAS Not enough good replicas to write.",
    ] {
        let unavailable = StoreError::Unavailable { store: store(), reason: said.into() };
        assert_eq!(told(said), Fault::new(unavailable, Remedy::Wait));
    }
}

#[test]
fn what_does_not_pass_is_told_by_its_kind() {
    let full = || Fault::from(StoreError::Full { store: store() });
    assert_eq!(told("OOM command not allowed when used memory > 'maxmemory'."), full());
    assert_eq!(told("MISCONF Errors writing to the AOF file: No space left on device"), full());
    let misconfigured =
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.";
    let unavailable = StoreError::Unavailable { store: store(), reason: misconfigured.into() };
    assert_eq!(told(misconfigured), unavailable.into());
    let read_only = Fault::new(StoreError::ReadOnly { store: store() }, Remedy::Redial);
    assert_eq!(told("READONLY You can't write against a read only replica."), read_only);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(told(wrong), StoreError::NotAStore { store: store() }.into());
    let forbidden = "NOPERM User me has no permissions to run the 'evalsha' command";
    assert_eq!(told(forbidden), StoreError::Unavailable { store: store(), reason: forbidden.into() }.into());
}

#[test]
fn what_stopped_a_script_of_an_old_server_is_found_at_the_end_of_its_error() {
    let script = "ERR Error running script (call to f_0123): @user_script:9: @user_script: 9: -";
    let full = Fault::from(StoreError::Full { store: store() });
    assert_eq!(told(&format!("{script}OOM command not allowed when used memory > 'maxmemory'.")), full);
    let read_only = Fault::new(StoreError::ReadOnly { store: store() }, Remedy::Redial);
    assert_eq!(told(&format!("{script}READONLY You can't write against a read only replica.")), read_only);
}
