//! What the tests of several stores share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../tests/support/servers.rs"]
#[allow(dead_code, reason = "these tests stop no server")]
pub(crate) mod servers;

use bytes::Bytes;

use super::{ConversationId, State, Write};

pub(crate) fn id(text: &str) -> ConversationId {
    ConversationId::new(text).unwrap()
}

/// A write that only moves the version on.
pub(crate) fn touch(expect: u64) -> Write {
    Write {
        expect,
        version: expect + 1,
        at_ms: 0,
        state: State::Idle,
        epoch: 0,
        lease: None,
        append: vec![],
        requests: vec![],
    }
}

pub(crate) fn append(expect: u64, messages: impl IntoIterator<Item = (u64, Bytes)>) -> Write {
    Write { append: messages.into_iter().collect(), ..touch(expect) }
}

pub(crate) fn body(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}
