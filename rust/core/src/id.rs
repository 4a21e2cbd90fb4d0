//! The ids of the machine, a newtype each, and the seeded source that mints them.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::json;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Names one tool call: the provider's id, or a minted one (contract 1.7).
    CallId
}
text_id! {
    /// Names one request to the host (contract 1.5).
    RequestId
}

/// Names one effect of a run. Unique within the run, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(pub u64);

/// Mints ids of 128 random bits from a seed that the driver supplies, so that the machine itself
/// holds no randomness and a reloaded run goes on with fresh ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdSource {
    seed: [u8; 32],
    minted: u64,
}

impl CallId {
    /// The id of a new call: the provider's where it gave one that is not taken yet, otherwise a minted
    /// one (contract 1.7).
    pub fn fresh(given: Option<String>, is_taken: impl Fn(&Self) -> bool, ids: &mut IdSource) -> Self {
        let given = given.filter(|id| !id.is_empty()).map(|id| Self::new(json::cleaned(id)));
        given.filter(|id| !is_taken(id)).unwrap_or_else(|| ids.call())
    }
}

impl IdSource {
    /// A source over 256 bits of entropy. Two runs must not share a seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, minted: 0 }
    }

    /// A fresh request id.
    pub fn request(&mut self) -> RequestId {
        RequestId(format!("req_{:032x}", self.next()))
    }

    /// The request id of a tool call that parks: derived from its effect, so that it is the same
    /// whatever order the calls of a turn end in.
    pub fn request_for(&self, effect: EffectId) -> RequestId {
        RequestId(format!("req_{:032x}", self.bits(PARKED, effect.0)))
    }

    /// The id of a completion.
    pub fn completion(&mut self) -> String {
        format!("chatcmpl-{:032x}", self.next())
    }

    /// A fresh call id.
    pub fn call(&mut self) -> CallId {
        CallId(format!("call_{:032x}", self.next()))
    }

    fn next(&mut self) -> u128 {
        self.minted += 1;
        self.bits(MINTED, self.minted)
    }

    fn bits(&self, series: u64, number: u64) -> u128 {
        let mut stream = ChaCha20Rng::from_seed(self.seed);
        stream.set_stream(series);
        stream.set_word_pos(u128::from(number) * WORDS_PER_ID);
        (u128::from(stream.next_u64()) << 64) | u128::from(stream.next_u64())
    }
}

const WORDS_PER_ID: u128 = 4;
/// The series of ids that are minted one after the other.
const MINTED: u64 = 0;
/// The series of ids that belong to effects.
const PARKED: u64 = 1;
