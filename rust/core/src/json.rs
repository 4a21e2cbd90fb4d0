//! JSON text that is kept as it came. This module owns raw values, escapes and the strict reading
//! of objects; it knows nothing of messages.

mod strict;

pub(crate) mod scan;

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Map;
use serde_json::value::RawValue;

pub use strict::read_strict;

/// One JSON value as text: nothing of its key order, spacing or number spelling is changed. Its
/// strings hold no lone surrogate and no NUL: each becomes U+FFFD at the door (contract 9.5).
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Checks that `text` is one JSON value and keeps it, without the blanks around it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(Self::from)
    }

    /// The JSON text of a value.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self::from)
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self::of(&Map::new()).unwrap_or_else(|_| Self(RawValue::NULL.to_owned()))
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        match mend_escapes(raw.get()) {
            Cow::Borrowed(_) => Self(raw),
            Cow::Owned(mended) => Self(RawValue::from_string(mended).unwrap_or(raw)),
        }
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self::from(raw.to_owned())
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(reader).map(Self::from)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// Appends `text` as a JSON string. NUL becomes U+FFFD (contract 9.5).
pub fn push_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut start = 0;
    while let Some((at, byte)) = next_escaped(bytes, start) {
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0x00 => "\u{fffd}".as_bytes(),
            control => {
                let digit = b"0123456789abcdef"[usize::from(control & 0xf)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (control >> 4), digit]);
                continue;
            }
        };
        out.extend_from_slice(escape);
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// The next byte from `start` on that a JSON string must not hold as it is: a control character, a
/// quote or a backslash. Most strings are short: a few words are looked at first, then whole blocks.
fn next_escaped(bytes: &[u8], start: usize) -> Option<(usize, u8)> {
    let mut at = start;
    for _ in 0..FIRST_WORDS {
        match bytes.get(at..)?.first_chunk().copied().map(first_escaped) {
            Some(None) => at += WORD,
            Some(Some(found)) => return Some((at + found, bytes[at + found])),
            None => break,
        }
    }
    while bytes.get(at..)?.first_chunk().is_some_and(is_clean) {
        at += BLOCK;
    }
    while let Some(word) = bytes.get(at..)?.first_chunk() {
        if let Some(found) = first_escaped(*word) {
            return Some((at + found, bytes[at + found]));
        }
        at += WORD;
    }
    at += bytes.get(at..)?.iter().position(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\'))?;
    Some((at, bytes[at]))
}

/// The place in a word of its first byte that a JSON string must not hold as it is.
fn first_escaped(word: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let word = u64::from_le_bytes(word);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let found = below_space | zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c));
    // The lowest mark is exact; those above it may come from a borrow.
    let marks = found & (ONES * 0x80);
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Whether a block has no such byte. Written so that the compiler looks at all of it at once.
fn is_clean(block: &[u8; BLOCK]) -> bool {
    let mark = |byte: u8| u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\');
    block.iter().fold(0, |found, byte| found | mark(*byte)) == 0
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_str(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// What a JSON string says; `None` for a broken one, as one with a lone surrogate is.
pub(crate) fn unquoted(string: &str) -> Option<Cow<'_, str>> {
    let inner = string.strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(Cow::Borrowed(inner)),
        Some(_) => unescaped(inner).map(Cow::Owned),
    }
}

/// What the inside of a JSON string says, with what is lone in it mended.
pub(crate) fn said(inner: &str) -> String {
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return inner.to_owned();
    }
    unescaped(&mend_escapes(inner)).unwrap_or_default()
}

/// Whether the inside of a JSON string ends with the first half of a character that takes two escapes.
pub(crate) fn ends_in_half(inner: &str) -> bool {
    let bytes = inner.as_bytes();
    let Some(start) = bytes.len().checked_sub(6) else { return false };
    escaped_unit(bytes, start).is_some_and(is_high)
        && bytes[..start].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
}

fn unescaped(inner: &str) -> Option<String> {
    let mut rest = inner;
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at..];
        let (said, length) = match escape.get(1)? {
            b'n' => ('\n', 2),
            b'"' => ('"', 2),
            b'\\' => ('\\', 2),
            b'/' => ('/', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            _ => match (escaped_unit(escape, 0)?, escaped_unit(escape, 6)) {
                (high, Some(low)) if is_high(high) && is_low(low) => {
                    let bits = (u32::from(high) - 0xd800) << 10 | (u32::from(low) - 0xdc00);
                    (char::from_u32(0x1_0000 + bits)?, 12)
                }
                (unit, _) => (char::from_u32(u32::from(unit))?, 6),
            },
        };
        out.push(said);
        rest = rest.get(at + length..)?;
    }
    out.push_str(rest);
    Some(out)
}

/// `text` without NUL characters, which databases and providers refuse: each becomes U+FFFD.
pub fn clean(text: &str) -> Cow<'_, str> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// [`clean`] for a text that is owned.
pub(crate) fn cleaned(text: String) -> String {
    match clean(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cleaned) => cleaned,
    }
}

/// JSON text whose strings hold no lone surrogate and no NUL escape: each becomes `\ufffd`.
/// Other text, a literal backslash before `u0000` included, is left alone (faults C6 and C7).
pub fn mend_escapes(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let suspicious = |at: usize| matches!(bytes.get(at + 2), Some(b'd' | b'D' | b'0'));
    if !memmem::find_iter(bytes, b"\\u").any(suspicious) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        let Some(unit) = escaped_unit(bytes, at) else {
            at = (at + 2).min(bytes.len());
            continue;
        };
        let paired = is_high(unit) && escaped_unit(bytes, at + 6).is_some_and(is_low);
        if paired {
            at += 12;
            continue;
        }
        if unit == 0 || is_high(unit) || is_low(unit) {
            out.push_str(&text[kept..at]);
            out.push_str("\\ufffd");
            kept = at + 6;
        }
        at += 6;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

const WORD: usize = 8;
const BLOCK: usize = 32;
/// Strings up to so many words end before blocks pay.
const FIRST_WORDS: usize = 4;

#[cfg(test)]
mod tests;
