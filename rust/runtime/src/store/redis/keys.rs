//! The names of keys. Conversations are spread over shards, each in one slot of a cluster with indexes of its own, so that
//! a commit changes a conversation and the indexes at once, and every server of a cluster has its part.

use super::super::ConversationId;
use super::nodes::crc16;

/// What the names of all keys begin with.
pub(super) struct Keys {
    pub(super) prefix: String,
}

/// What a shard lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// Conversations, by when their lease ends.
    Leases,
    /// Open requests, by when they were made.
    Age,
    /// Open requests, by when they expire.
    Expiry,
}

/// The number of shards. It is part of the format.
pub(super) const SHARDS: u16 = 64;

impl Keys {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    /// The conversation; its settled requests; the indexes of its shard.
    pub(super) fn all(&self, id: &ConversationId) -> Vec<String> {
        let shard = shard_of(id);
        let mut keys = vec![self.conversation(id), self.settled(id)];
        keys.extend([Index::Leases, Index::Age, Index::Expiry].map(|index| self.index(shard, index)));
        keys
    }

    pub(super) fn conversation(&self, id: &ConversationId) -> String {
        format!("{}c:{id}", self.tag(shard_of(id)))
    }

    pub(super) fn settled(&self, id: &ConversationId) -> String {
        format!("{}s:{id}", self.tag(shard_of(id)))
    }

    pub(super) fn index(&self, shard: u16, index: Index) -> String {
        let name = match index {
            Index::Leases => "leases",
            Index::Age => "by_age",
            Index::Expiry => "by_expiry",
        };
        format!("{}{name}", self.tag(shard))
    }

    /// What stands in braces decides the slot.
    fn tag(&self, shard: u16) -> String {
        format!("{{{}:{shard}}}:", self.prefix)
    }
}

pub(super) fn shard_of(id: &ConversationId) -> u16 {
    crc16(id.as_str()) % SHARDS
}
