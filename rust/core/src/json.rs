//! JSON text that is kept as it came. This module owns raw values, escapes and the strict reading
//! of objects; it knows nothing of messages.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// One JSON value as text: nothing of its key order, spacing or number spelling is changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Checks that `text` is one JSON value and keeps it, without the blanks around it.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self)
    }

    /// The JSON text of a value.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
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
        Self(raw)
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(raw.to_owned())
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
/// quote or a backslash. Looks at eight bytes at a time.
fn next_escaped(bytes: &[u8], start: usize) -> Option<(usize, u8)> {
    const ONES: u64 = u64::MAX / 0xff;
    let (words, _) = bytes.get(start..)?.as_chunks::<8>();
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let hit = words.iter().enumerate().find_map(|(at, word)| {
        let word = u64::from_le_bytes(*word);
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let found = below_space | zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c));
        // The lowest mark is exact; those above it may come from a borrow.
        let marks = found & (ONES * 0x80);
        (marks != 0).then(|| at * 8 + marks.trailing_zeros() as usize / 8)
    });
    let rest = start + words.len() * 8;
    let at = match hit {
        Some(at) => start + at,
        None => rest + bytes[rest..].iter().position(|byte| matches!(byte, 0x00..0x20 | b'"' | b'\\'))?,
    };
    Some((at, bytes[at]))
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_str(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// `text` without NUL characters, which databases and providers refuse: each becomes U+FFFD.
pub fn clean(text: &str) -> Cow<'_, str> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// JSON text whose strings hold no lone surrogate and no NUL escape: each becomes `\ufffd`.
/// Other text, a literal backslash before `u0000` included, is left alone (faults C6 and C7).
pub fn mend_escapes(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let suspicious = |needle: &[u8]| memmem::find(bytes, needle).is_some();
    if !(suspicious(b"\\ud") || suspicious(b"\\uD") || suspicious(b"\\u0000")) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
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

/// Reads a value and refuses an object that names a key twice, at any depth: two readers could
/// see two different values (fault C10). An integer that no float holds is read as a smaller one.
pub fn read_strict(text: &str) -> Result<Value, serde_json::Error> {
    read_as_it_is(text).or_else(|error| match shorten_integers(text) {
        Some(shorter) => read_as_it_is(&shorter),
        None => Err(error),
    })
}

fn read_as_it_is(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The text with integers past the range of a float cut to what one holds; `None` if it has none.
fn shorten_integers(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut kept, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let sign = usize::from(bytes[at] == b'-');
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let end = at + bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let is_integer = bytes[at + sign..end].iter().all(u8::is_ascii_digit);
                if is_integer && end - at - sign > FLOAT_DIGITS {
                    out.push_str(&text[kept..at + sign + FLOAT_DIGITS]);
                    kept = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    out.push_str(&text[kept..]);
    (out.len() < text.len()).then_some(out)
}

/// The place behind the string that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at.min(bytes.len())..]) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Integers with so many digits are held by a float, if not exactly.
const FLOAT_DIGITS: usize = 308;

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
