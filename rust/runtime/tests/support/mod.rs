//! What the tests of this crate share.
//!
//! [`Server`] is a model server that says what a script tells it to, and can break in the middle.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of it")]
#![allow(unreachable_pub, reason = "a module of test binaries has no public face")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod child;
mod received;
mod reply;
mod server;

pub use child::in_child;
pub use received::Received;
pub use reply::Reply;
pub use server::Server;
