//! Stored conversations, driven from outside: a scripted model, a scripted host, and stores that
//! fail where a test says so.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod answers;
mod at_rest;
mod claims;
mod copies;
mod crashes;
mod faulty;
mod recovery;
#[path = "../support/servers.rs"]
#[allow(dead_code, reason = "these tests stop no server")]
mod servers;
mod settling;
mod submitting;
mod trouble;
mod world;
