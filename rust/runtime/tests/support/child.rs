//! Running a test in a process with another environment.

use std::env;
use std::process::Command;

/// Runs the test named `test` once more, in a process with `variables` set and no other proxy or
/// certificate settings. In that process it returns `None`: there the test goes on as the child.
/// In the parent it returns whether the child passed, with what it printed.
///
/// A process environment cannot be changed safely while other tests run.
pub fn in_child(test: &str, variables: &[(&str, &str)]) -> Option<(bool, String)> {
    if env::var(MARK).is_ok_and(|marked| marked == test) {
        return None;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(MARK, test);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some((output.status.success() && printed.contains("1 passed"), printed))
}

const MARK: &str = "TEST_RUNS_IN_CHILD";
