//! The bodies of one run's requests: each begins with what the one before had. What was copied
//! together for one is used again for the next, so that a long body stays a few slices and only its
//! end is copied.

use bytes::{Bytes, BytesMut};

/// What was copied together so far.
#[derive(Debug, Default)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// The slices that the blocks are made of. They are kept, so that the same place means the same bytes.
    sources: Vec<Bytes>,
}

#[derive(Debug)]
struct Block {
    bytes: Bytes,
    /// How many sources end in this block or before it.
    sources: usize,
}

impl Blocks {
    /// The same bytes in fewer slices.
    pub fn join(&mut self, slices: Vec<Bytes>) -> Vec<Bytes> {
        if slices.len() <= FEW {
            return slices;
        }
        let known = self.sources.iter().zip(&slices).take_while(|(old, new)| is_same(old, new)).count();
        let kept = self.blocks.partition_point(|block| block.sources <= known);
        self.blocks.truncate(kept);
        self.sources.truncate(self.blocks.last().map_or(0, |block| block.sources));
        let mut open = BytesMut::new();
        let mut left: usize = slices.iter().skip(self.sources.len()).map(Bytes::len).sum();
        for slice in slices.into_iter().skip(self.sources.len()) {
            if slice.len() >= LARGE {
                self.close(&mut open);
                left -= slice.len();
                self.sources.push(slice.clone());
                self.blocks.push(Block { bytes: slice, sources: self.sources.len() });
                continue;
            }
            if open.is_empty() {
                open.reserve(left.min(BLOCK + LARGE));
            }
            left -= slice.len();
            open.extend_from_slice(&slice);
            self.sources.push(slice);
            if open.len() >= BLOCK {
                self.close(&mut open);
            }
        }
        let mut joined: Vec<Bytes> = self.blocks.iter().map(|block| block.bytes.clone()).collect();
        joined.extend(Some(open.freeze()).filter(|rest| !rest.is_empty()));
        joined
    }

    fn close(&mut self, open: &mut BytesMut) {
        if !open.is_empty() {
            self.blocks.push(Block { bytes: open.split().freeze(), sources: self.sources.len() });
        }
    }
}

fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

/// So many slices go to the kernel in one call, with room for the head of the request.
const FEW: usize = 60;
/// A slice from this size on is cheaper to hand over than to copy.
const LARGE: usize = 16 * 1_024;
const BLOCK: usize = 64 * 1_024;

#[cfg(test)]
mod tests;
