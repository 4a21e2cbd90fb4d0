//! The core is pure: what it is built from holds no clock, socket, thread, random source or Python.
//!
//! What its own code may call is listed in `clippy.toml` beside its manifest; here are the crates that it links.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test asks cargo")]

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that do something, or that ask the machine something.
const DOERS: &[&str] = &[
    "async-io",
    "async-std",
    "chrono",
    "crossbeam-channel",
    "fastrand",
    "getrandom",
    "h2",
    "hyper",
    "inventory",
    "libc",
    "log",
    "mio",
    "num_cpus",
    "nix",
    "parking_lot",
    "pyo3",
    "pyo3-ffi",
    "rand",
    "rayon",
    "reqwest",
    "ring",
    "rusqlite",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "time",
    "tokio",
    "tracing",
    "ureq",
    "uuid",
];

/// The crates that a build of the core links, itself among them.
fn linked() -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap();
    let tree = Command::new(cargo)
        .args(["tree", "--package", "toolrelay-core", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&tree.stderr).into_owned();
    assert!(tree.status.success(), "{error}");
    let lines = String::from_utf8(tree.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_core_links_nothing_that_does_something() {
    let linked = linked();
    assert!(linked.contains("toolrelay-core") && linked.contains("serde_json"), "{linked:?}");
    let doers: Vec<_> = DOERS.iter().filter(|name| linked.contains(**name)).collect();
    assert_eq!(doers, Vec::<&&str>::new(), "the core must not link these");
}

#[test]
fn the_core_forbids_unsafe_code() {
    let source = include_str!("../src/lib.rs");
    assert!(source.lines().any(|line| line == "#![forbid(unsafe_code)]"), "{source}");
}
