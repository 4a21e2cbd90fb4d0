use bytes::Bytes;

use super::{BLOCK, Blocks, FEW, LARGE};

fn slices(sizes: impl IntoIterator<Item = usize>) -> Vec<Bytes> {
    let bytes = (0_u8..=250).cycle();
    sizes.into_iter().enumerate().map(|(at, size)| bytes.clone().skip(at % 251).take(size).collect()).collect()
}

fn with_end(slices: &[Bytes], end: &'static [u8]) -> Vec<Bytes> {
    [slices, &[Bytes::from_static(end)]].concat()
}

#[test]
fn a_few_slices_stay_as_they_are() {
    let few = slices((0..FEW).map(|size| size % 7));
    let joined = Blocks::default().join(few.clone());
    assert!(joined.iter().zip(&few).all(|(one, other)| one.as_ptr() == other.as_ptr()));
    assert_eq!(joined, few);
}

#[test]
fn a_growing_body_is_copied_together_once() {
    let all = slices((0..2_000).map(|at| if at % 2 == 0 { 1 } else { at }));
    let mut blocks = Blocks::default();
    let mut before: Vec<Bytes> = Vec::new();
    for count in (0..all.len()).step_by(3) {
        let body = with_end(&all[..count], b"]}");
        let joined = blocks.join(body.clone());
        assert_eq!(joined.concat(), body.concat());
        if count > FEW {
            let size: usize = body.iter().map(Bytes::len).sum();
            assert!(joined.len() <= size / BLOCK + 1, "{} slices for {size} bytes", joined.len());
            let sealed = before.len().saturating_sub(1);
            let same = |(one, other): (&Bytes, &Bytes)| one.as_ptr() == other.as_ptr();
            assert!(joined.iter().zip(&before[..sealed]).all(same), "what was sent is not copied again");
            before = joined;
        }
    }
    assert!(before.len() > 10);
}

#[test]
fn a_large_slice_is_not_copied() {
    let large = slices([LARGE]).remove(0);
    let mut body = slices((0..FEW).map(|_| 5));
    body.insert(30, large.clone());
    let joined = Blocks::default().join(body.clone());
    assert_eq!(joined.concat(), body.concat());
    assert_eq!(joined.len(), 3);
    assert_eq!(joined[1].as_ptr(), large.as_ptr());
}

#[test]
fn a_body_that_goes_another_way_is_sent_as_it_is() {
    let first = slices((0..500).map(|_| 900));
    let mut blocks = Blocks::default();
    blocks.join(first.clone());
    for changed in [499, 300, 100, 0] {
        let mut other = first.clone();
        other[changed] = Bytes::from_static(b"another");
        assert_eq!(blocks.join(other.clone()).concat(), other.concat());
        let shorter = first[..changed.max(FEW + 1)].to_vec();
        assert_eq!(blocks.join(shorter.clone()).concat(), shorter.concat());
    }
}
