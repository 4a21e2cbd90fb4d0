//! The values at the machine's doors: arguments, JSON text, transcripts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

#[path = "values/arguments.rs"]
mod arguments;
#[path = "values/json.rs"]
mod json;
#[path = "values/reading.rs"]
mod reading;
#[path = "values/transcript.rs"]
mod transcript;
