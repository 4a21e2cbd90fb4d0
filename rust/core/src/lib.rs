//! The pure machine.
