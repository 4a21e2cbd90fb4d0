//! A stream of small decisions: what a random dialogue is made of. Shrinks to few and to zeros.

use proptest::prelude::*;

/// Decisions, taken one after the other; zeros when they are used up.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    /// Decisions for one dialogue.
    pub(crate) fn any(length: usize) -> impl Strategy<Value = Self> {
        prop::collection::vec(any::<u8>(), 0..length).prop_map(|bytes| Self { bytes, at: 0 })
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        usize::from(byte) % bound
    }

    /// One of some values.
    pub(crate) fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// True once in `times`; never when the decisions are used up.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// Whether no decision is left.
    pub(crate) fn are_used_up(&self) -> bool {
        self.at >= self.bytes.len()
    }
}
