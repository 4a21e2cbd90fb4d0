//! The runtime of toolrelay.
