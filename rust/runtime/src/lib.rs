//! The runtime of toolrelay.

pub mod store;
