//! Lists of bytes in one value: each frame is its length (32 bits, little-endian) and its bytes.

use bytes::{Buf, Bytes};

use super::Slot;

/// Joins the frames. `None` when one of them is longer than a length can tell.
pub(super) fn join<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    for frame in frames {
        joined.extend_from_slice(&u32::try_from(frame.len()).ok()?.to_le_bytes());
        joined.extend_from_slice(frame);
    }
    Some(joined)
}

/// Takes the frames apart again. `None` when the bytes are no frames.
pub(super) fn split(joined: Vec<u8>) -> Option<Vec<Bytes>> {
    let mut rest = Bytes::from(joined);
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = usize::try_from(rest.try_get_u32_le().ok()?).ok()?;
        if length > rest.len() {
            return None;
        }
        frames.push(rest.split_to(length));
    }
    Some(frames)
}

/// The frames of slots: place and call in turns.
pub(super) fn join_slots(slots: &[Slot]) -> Option<Vec<u8>> {
    let seqs: Vec<_> = slots.iter().map(|slot| slot.seq.to_le_bytes()).collect();
    join(seqs.iter().zip(slots).flat_map(|(seq, slot)| [&seq[..], slot.call.as_bytes()]))
}

/// The slots of frames.
pub(super) fn split_slots(joined: Vec<u8>) -> Option<Vec<Slot>> {
    let frames = split(joined)?;
    let (pairs, []) = frames.as_chunks::<2>() else { return None };
    let slot = |[seq, call]: &[Bytes; 2]| {
        let seq = u64::from_le_bytes(seq.as_ref().try_into().ok()?);
        Some(Slot { seq, call: String::from_utf8(call.to_vec()).ok()? })
    };
    pairs.iter().map(slot).collect()
}
