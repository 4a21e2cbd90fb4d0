//! Real servers, started once for all tests of a run by `tests/support/servers.sh`.

use std::process::Command;

/// The URL of a server, which is started if it does not run yet; options go to it. Without the program the test is
/// skipped, unless `TOOLRELAY_SERVERS=required`.
pub(crate) fn server(name: &str, options: &[&str]) -> Option<String> {
    // All tests of a run have one parent: cargo, or its nextest.
    let (done, said) = script("start", name, options);
    if done == Some(69) {
        assert!(std::env::var_os("TOOLRELAY_SERVERS").is_none_or(|servers| servers != "required"), "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    assert_eq!(done, Some(0), "{name}: {said}");
    Some(said)
}

/// Kills a server. What it keeps stays.
pub(crate) fn stop(name: &str) {
    assert_eq!(script("stop", name, &[]).0, Some(0));
}

/// Starts a server that was stopped.
pub(crate) fn again(name: &str) {
    assert_eq!(script("again", name, &[]).0, Some(0));
}

fn script(verb: &str, name: &str, options: &[&str]) -> (Option<i32>, String) {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/servers.sh"));
    let ended =
        script.args([verb, name, &std::os::unix::process::parent_id().to_string()]).args(options).output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&ended.stderr));
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap().trim().to_owned())
}

/// A name that no other test uses.
pub(crate) fn fresh(kind: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    format!("{kind}-{:016x}", u64::from_le_bytes(random))
}
