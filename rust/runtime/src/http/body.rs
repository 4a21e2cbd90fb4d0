//! A request body made of slices, written with as few system calls and copies as it takes.

use std::convert::Infallible;
use std::fmt;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::blocks::Blocks;

/// The bytes of a body, in order. A clone shares them.
///
/// As a [`Buf`] it hands the kernel many slices per call. HTTP libraries queue few separate buffers
/// between two writes, so the whole body goes through as one buffer.
#[derive(Clone)]
pub(super) struct Slices {
    parts: Arc<[Bytes]>,
    /// The first part that is not fully written, and how much of it is.
    part: usize,
    offset: usize,
    remaining: usize,
}

impl Slices {
    pub(super) fn new(slices: Vec<Bytes>) -> Self {
        let mut parts = Blocks::default().join(slices);
        parts.retain(|part| !part.is_empty());
        let remaining = parts.iter().map(Bytes::len).sum();
        Self { parts: parts.into(), part: 0, offset: 0, remaining }
    }
}

impl Buf for Slices {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.parts.get(self.part).map_or(&[], |part| &part[self.offset..])
    }

    fn chunks_vectored<'a>(&'a self, room: &mut [IoSlice<'a>]) -> usize {
        let mut offset = self.offset;
        let parts = self.parts.get(self.part..).unwrap_or_default();
        for (slot, part) in room.iter_mut().zip(parts) {
            *slot = IoSlice::new(&part[offset..]);
            offset = 0;
        }
        room.len().min(parts.len())
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "cannot advance past the end of the body");
        self.remaining -= count;
        while let Some(part) = self.parts.get(self.part) {
            let left = part.len() - self.offset;
            if count < left {
                self.offset += count;
                return;
            }
            count -= left;
            self.part += 1;
            self.offset = 0;
        }
    }
}

/// The body as the HTTP library takes it: one frame.
#[derive(Debug)]
pub(super) struct OneFrame(Option<Slices>);

impl OneFrame {
    pub(super) fn new(slices: Slices) -> Self {
        Self(Some(slices).filter(Buf::has_remaining))
    }
}

impl Body for OneFrame {
    type Data = Slices;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Slices>, Infallible>>> {
        Poll::Ready(self.0.take().map(|slices| Ok(Frame::data(slices))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |slices| slices.remaining as u64))
    }
}

impl fmt::Debug for Slices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} slices", self.remaining, self.parts.len())
    }
}
