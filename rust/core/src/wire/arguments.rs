//! A call's argument text as a provider takes it back: always one JSON object (faults C2, C5).

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::arguments;

/// The model's own text where it is one JSON object that a provider takes; what the tool got for it
/// (contract 2.4) where that is another; otherwise `{}`. The transcript keeps the model's text.
pub(crate) fn for_wire(text: &str) -> Cow<'_, str> {
    if is_object(text) {
        return Cow::Borrowed(text);
    }
    let prepared = arguments::prepare(text).ok().map(|prepared| prepared.input);
    let object = prepared.as_ref().map(crate::json::Json::get).filter(|input| is_object(input));
    Cow::Owned(object.unwrap_or("{}").to_owned())
}

fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{') && serde_json::from_str::<Acceptable>(text).is_ok()
}

/// Any JSON value whose depth and numbers a parser holds and whose keys are of sane length.
struct Acceptable;

impl<'de> Deserialize<'de> for Acceptable {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Check)
    }
}

struct Check;

impl<'de> Visitor<'de> for Check {
    type Value = Acceptable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_str<E>(self, _: &str) -> Result<Acceptable, E> {
        Ok(Acceptable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Acceptable, A::Error> {
        while items.next_element::<Acceptable>()?.is_some() {}
        Ok(Acceptable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Acceptable, A::Error> {
        while let Some(Key { len }) = entries.next_key()? {
            if len > MAX_KEY {
                return Err(A::Error::custom("a key is too long"));
            }
            entries.next_value::<Acceptable>()?;
        }
        Ok(Acceptable)
    }
}

struct Key {
    len: usize,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Measure;
        impl Visitor<'_> for Measure {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(Key { len: key.len() })
            }
        }
        reader.deserialize_str(Measure)
    }
}

/// Providers refuse "property names" beyond some length; no real key comes near this one.
const MAX_KEY: usize = 1_024;
