//! Token counts, read leniently: what is missing, null or odd counts as nothing.

use serde_json::value::RawValue;

use crate::message::Fields;

/// An object of counts.
pub(super) struct Counts<'a>(Option<Fields<'a>>);

impl<'a> Counts<'a> {
    pub(super) fn read(raw: Option<&'a RawValue>) -> Self {
        Self(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()))
    }

    /// The counts in an object below.
    pub(super) fn nested(&self, key: &str) -> Self {
        Self::read(self.field(key))
    }

    /// One count, if it is there.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
    pub(super) fn get(&self, key: &str) -> Option<u64> {
        let text = self.field(key)?.get();
        text.parse().ok().or_else(|| text.parse::<f64>().ok().map(|count| count as u64))
    }

    fn field(&self, key: &str) -> Option<&'a RawValue> {
        self.0.as_ref()?.get(key)
    }
}
