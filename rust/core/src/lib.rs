//! The pure machine of toolrelay.
//!
//! The machine owns every decision: what the transcript is, when a turn is over, what a halt asks
//! for, what an answer settles, and the bytes that a provider sees.
//!
//! The driver owns everything that happens: clocks, sockets, threads, randomness, Python. None of
//! them is used here.
#![forbid(unsafe_code)]

pub mod answer;
pub mod arguments;
pub mod id;
pub mod json;
pub mod message;
pub mod repair;
pub mod reply;
pub mod request;
pub mod resume;
pub mod run;
pub mod suspension;
pub mod tool;
pub mod transcript;
pub mod wire;
