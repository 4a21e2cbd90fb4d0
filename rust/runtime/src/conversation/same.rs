//! Whether two JSON texts say the same: the order of keys and the blanks do not matter, and no
//! number is rounded.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Whether two JSON texts say the same. What is nested too deeply to look into is the same only if
/// its text is.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || looks_same(a, b, MOST_DEEP).unwrap_or(false)
}

fn looks_same(a: &[u8], b: &[u8], left: usize) -> Option<bool> {
    let inner = |a: &RawValue, b: &RawValue| {
        let (a, b) = (a.get().as_bytes(), b.get().as_bytes());
        a == b || (left > 0 && looks_same(a, b, left - 1).unwrap_or(false))
    };
    match (a.first()?, b.first()?) {
        (b'{', b'{') => {
            let (a, b): (BTreeMap<String, &RawValue>, BTreeMap<String, &RawValue>) = (read(a)?, read(b)?);
            Some(a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| inner(a, b))))
        }
        (b'[', b'[') => {
            let (a, b): (Vec<&RawValue>, Vec<&RawValue>) = (read(a)?, read(b)?);
            Some(a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| inner(a, b)))
        }
        (b'"', b'"') => Some(read::<String>(a)? == read::<String>(b)?),
        _ => Some(a == b),
    }
}

fn read<'a, T: serde::Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

const MOST_DEEP: usize = 100;
