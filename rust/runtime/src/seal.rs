//! Sealed halts: a transcript as one token that somebody untrusted keeps and brings back.
//!
//! A token hides and authenticates what it holds, says until when and for whom it is good, and has an id by which a
//! ledger can tell its second use. It owns no key and no clock: both are the caller's.
//!
//! `tr1.` and, in unpadded base64url: 4 bytes that name the key, 16 random bytes (the token's id), and the content under
//! AES-256-GCM with a key and nonce of its own, derived by HKDF-SHA256 with the token's id as salt. So one key seals any
//! number of tokens.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toolrelay_core::transcript::Transcript;

/// Keys that open tokens; the first one seals. Rotate by putting a new one in front.
#[derive(Clone)]
pub struct SealKeys(Vec<[u8; KEY_LEN]>);

/// What a token held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The token's id: no other token has it.
    pub id: String,
    /// Until when the token is good, in milliseconds since the Unix epoch.
    pub until_ms: Option<i64>,
    /// The halted transcript.
    pub transcript: Transcript,
}

/// Why a token is not opened, or none is made. No text holds a part of the token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// The transcript waits for nothing.
    #[error("there is nothing to seal: no call of the transcript waits for an answer")]
    NotHalted,
    /// No token.
    #[error("this is no sealed halt: pass the token as it was sealed, whole and unchanged")]
    Malformed,
    /// A token of a later version of this library.
    #[error("this halt was sealed by a newer version: upgrade toolrelay")]
    Newer,
    /// No key of the ring sealed it.
    #[error(
        "this halt was sealed with a key that is not in the ring: keep old keys for as long as their tokens are good"
    )]
    UnknownKey,
    /// Somebody changed it.
    #[error("this sealed halt was tampered with")]
    Forged,
    /// Its time is over.
    #[error("this sealed halt expired")]
    Expired,
    /// It was sealed for somebody else.
    #[error("this halt was sealed for another audience")]
    Audience,
    /// It was used before.
    #[error("this sealed halt was used before: seal the result of that run instead")]
    Used,
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness")]
    Entropy,
}

/// What stands before the transcript in the content.
#[derive(Serialize, Deserialize)]
struct Label {
    until_ms: Option<i64>,
    audience: Option<String>,
}

impl SealKeys {
    /// The length of a key, in bytes.
    pub const KEY_LEN: usize = KEY_LEN;

    /// A ring of random keys of 32 bytes; `None` without any.
    pub fn new(keys: Vec<[u8; KEY_LEN]>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Seals a halted transcript.
    pub fn seal(
        &self,
        halted: &Transcript,
        audience: Option<&str>,
        until_ms: Option<i64>,
    ) -> Result<String, SealError> {
        if !halted.is_halted() {
            return Err(SealError::NotHalted);
        }
        let mut id = [0; ID_LEN];
        getrandom::fill(&mut id).map_err(|_| SealError::Entropy)?;
        let key = &self.0[0];
        let name = name_of(key);
        let label = Label { until_ms, audience: audience.map(str::to_owned) };
        let mut content = serde_json::to_vec(&label).map_err(|_| SealError::Malformed)?;
        content.push(b'\n');
        for slice in halted.json_slices() {
            content.extend_from_slice(&slice);
        }
        let (own, nonce) = derived(key, &id)?;
        own.seal_in_place_append_tag(nonce, Aad::from(name), &mut content).map_err(|_| SealError::Malformed)?;
        let token = [&name[..], &id, &content].concat();
        Ok(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(token)))
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Opens a token for an audience, and finds out whether it is still good.
    pub fn open(&self, token: &str, audience: Option<&str>, now_ms: i64) -> Result<Opened, SealError> {
        let text = token.trim().strip_prefix(FAMILY).ok_or(SealError::Malformed)?;
        let (version, text) = text.split_once('.').ok_or(SealError::Malformed)?;
        if version != VERSION {
            let newer = version.parse::<u32>().is_ok_and(|version| version > 1);
            return Err(if newer { SealError::Newer } else { SealError::Malformed });
        }
        let mut token = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| SealError::Malformed)?;
        let (head, content) = token.split_at_mut_checked(NAME_LEN + ID_LEN).ok_or(SealError::Malformed)?;
        if content.len() < MAX_TAG_LEN {
            return Err(SealError::Malformed);
        }
        let (name, id) = head.split_at(NAME_LEN);
        let key = self.0.iter().find(|key| name_of(key) == name).ok_or(SealError::UnknownKey)?;
        let (own, nonce) = derived(key, id)?;
        let content = own.open_in_place(nonce, Aad::from(name), content).map_err(|_| SealError::Forged)?;
        let label = memchr::memchr(b'\n', content).ok_or(SealError::Malformed)?;
        let (label, json) = (&content[..label], &content[label + 1..]);
        let Label { until_ms, audience: sealed_for } =
            serde_json::from_slice(label).map_err(|_| SealError::Malformed)?;
        if sealed_for.as_deref() != audience {
            return Err(SealError::Audience);
        }
        if until_ms.is_some_and(|until| until <= now_ms) {
            return Err(SealError::Expired);
        }
        let transcript = Transcript::from_json(Bytes::copy_from_slice(json)).map_err(|_| SealError::Newer)?;
        Ok(Opened { id: BASE64_URL_SAFE_NO_PAD.encode(id), until_ms, transcript })
    }
}

/// It shows how many keys there are, and no key.
impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKeys").field("keys", &self.0.len()).finish_non_exhaustive()
    }
}

impl SealError {
    /// A word for it, stable for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotHalted => "not_halted",
            Self::Malformed => "malformed",
            Self::Newer => "newer",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Expired => "expired",
            Self::Audience => "audience",
            Self::Used => "used",
            Self::Entropy => "entropy",
        }
    }
}

/// By which a token names its key: enough to tell the keys of a ring apart, and of no use without the key.
fn name_of(key: &[u8; KEY_LEN]) -> [u8; NAME_LEN] {
    let named = digest(&SHA256, &[NAMES, key.as_slice()].concat());
    let mut name = [0; NAME_LEN];
    name.copy_from_slice(&named.as_ref()[..NAME_LEN]);
    name
}

/// The key and nonce of one token.
fn derived(key: &[u8; KEY_LEN], id: &[u8]) -> Result<(LessSafeKey, Nonce), SealError> {
    let mut own = [0; KEY_LEN + NONCE_LEN];
    let okm = Salt::new(HKDF_SHA256, id).extract(key);
    okm.expand(&[DERIVED], Length).and_then(|okm| okm.fill(&mut own)).map_err(|_| SealError::Entropy)?;
    let (key, nonce) = own.split_at(KEY_LEN);
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::Entropy)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Entropy)?;
    Ok((LessSafeKey::new(key), nonce))
}

/// How much is derived.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        KEY_LEN + NONCE_LEN
    }
}

const KEY_LEN: usize = 32;
const NAME_LEN: usize = 4;
const ID_LEN: usize = 16;
const FAMILY: &str = "tr";
const VERSION: &str = "1";
const PREFIX: &str = "tr1.";
const NAMES: &[u8] = b"toolrelay seal: name of a key";
const DERIVED: &[u8] = b"toolrelay seal: key and nonce of a token";

#[cfg(test)]
mod tests;
