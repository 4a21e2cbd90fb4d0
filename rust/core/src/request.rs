//! What a parked call waits for (contract 1.1, 1.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{CallId, RequestId};
use crate::json::{self, Json};

/// The kind of a relay request (contract 1.2).
pub const RELAY_KIND: &str = "tool_call";

/// What a parked call waits for. Its JSON has exactly these keys; an absent optional is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Unguessable, never reused.
    pub id: RequestId,
    /// `tool_call` for relay calls; otherwise what the tool that parked itself chose.
    pub kind: String,
    /// A line for a person.
    pub prompt: String,
    /// Where a person can settle it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For a relay request an object with `calls`; otherwise the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// One relay call as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayCall {
    /// The call's id in the transcript.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// The prepared arguments, an object.
    pub input: Json,
    /// The model's own argument text, byte for byte.
    pub arguments: String,
}

impl Request {
    /// A relay request for some calls of one turn.
    pub fn relay(id: RequestId, calls: &[RelayCall]) -> Self {
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        Self {
            id,
            kind: RELAY_KIND.to_owned(),
            prompt: format!("waiting for the host to run {}", names.join(", ")),
            url: None,
            data: Json::of(&RelayData { calls, keys: BTreeMap::new() }).ok(),
            expires_at: None,
        }
    }

    /// The key with which the host's own services act once for a call of this request (contract 7.7).
    pub fn idempotency_key(&self, call: &CallId) -> String {
        self.keys().remove(call).unwrap_or_else(|| self.own_key(call))
    }

    /// The same relay request, where these calls have these keys: what a call was asked for under another request it keeps.
    #[must_use]
    pub(crate) fn keyed(self, keys: impl IntoIterator<Item = (CallId, String)>) -> Self {
        let keys: BTreeMap<_, _> = keys.into_iter().filter(|(call, key)| *key != self.own_key(call)).collect();
        if !self.is_relay() || keys == self.keys() {
            return self;
        }
        Self { data: Json::of(&RelayData { calls: &self.relay_calls(), keys }).ok(), ..self }
    }

    fn keys(&self) -> BTreeMap<CallId, String> {
        let data = self.data.as_ref().filter(|_| self.is_relay());
        data.and_then(|data| serde_json::from_str::<ReadKeys>(data.get()).ok())
            .map(|data| data.keys)
            .unwrap_or_default()
    }

    fn own_key(&self, call: &CallId) -> String {
        format!("{}:{call}", self.id)
    }

    /// The same request, expiring at this time if it has none of its own; one that no calendar holds is none.
    #[must_use]
    pub(crate) fn expiring(self, at_ms: Option<i64>) -> Self {
        Self { expires_at: self.expires_at.or_else(|| rfc3339(at_ms?)), ..self }
    }

    /// The same request without NUL characters, for the transcript (contract 9.5).
    pub(crate) fn cleaned(self) -> Self {
        Self {
            id: RequestId::new(json::clean(self.id.as_str())),
            kind: json::cleaned(self.kind),
            prompt: json::cleaned(self.prompt),
            url: self.url.map(json::cleaned),
            data: self.data,
            expires_at: self.expires_at.map(json::cleaned),
        }
    }

    /// Whether this request carries relay calls.
    pub fn is_relay(&self) -> bool {
        self.kind == RELAY_KIND
    }

    /// The relay calls, or none for another kind. Data that cannot be read holds no calls.
    pub fn relay_calls(&self) -> Vec<RelayCall> {
        let data = self.data.as_ref().filter(|_| self.is_relay());
        data.and_then(|data| serde_json::from_str::<ReadRelayData>(data.get()).ok())
            .map(|data| data.calls)
            .unwrap_or_default()
    }

    /// The unix milliseconds after which this request is expired, if it has such a time.
    pub fn expires_at_ms(&self) -> Option<i64> {
        let time: jiff::Timestamp = self.expires_at.as_deref()?.parse().ok()?;
        Some(time.as_millisecond())
    }

    /// The keys of `data`, for messages.
    pub fn data_keys(&self) -> Vec<String> {
        keys_of(self.data.as_ref().map_or("", Json::get))
    }
}

/// A time in unix milliseconds as RFC 3339 has it; none for one outside its years.
pub fn rfc3339(at_ms: i64) -> Option<String> {
    Some(jiff::Timestamp::from_millisecond(at_ms).ok()?.to_string())
}

/// The keys of an object, sorted; none for anything else.
pub(crate) fn keys_of(json: &str) -> Vec<String> {
    type Keys<'a> = std::collections::BTreeMap<String, &'a RawValue>;
    serde_json::from_str::<Keys<'_>>(json).map(|map| map.into_keys().collect()).unwrap_or_default()
}

#[derive(Serialize)]
struct RelayData<'a> {
    calls: &'a [RelayCall],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<CallId, String>,
}

#[derive(Deserialize)]
struct ReadRelayData {
    calls: Vec<RelayCall>,
}

#[derive(Deserialize)]
struct ReadKeys {
    #[serde(default)]
    keys: BTreeMap<CallId, String>,
}
