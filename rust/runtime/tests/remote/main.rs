//! Stores on servers: what the way to a server, its end and its return, and several processes do to them. What each
//! store says to its server is tested beside it; what every store promises, by the suite in `toolrelay.testing`.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod losses;
mod places;
mod processes;
#[path = "../support/proxy.rs"]
#[allow(dead_code, reason = "the benchmark counts bytes, too")]
mod proxy;
mod restarts;
#[path = "../support/servers.rs"]
mod servers;
