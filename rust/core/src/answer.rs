//! What settles a request (contract 1.1, 1.3), and how an answer to relay calls is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{CallId, RequestId};
use crate::json::Json;
use crate::request::keys_of;

/// The key under which a single relay result rides.
pub const RELAY_OUTPUT_KEY: &str = "output";

/// What settles a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Echoes the request's id.
    pub id: RequestId,
    /// Whether somebody produced what was asked for.
    pub ok: bool,
    /// The payload of an `ok` answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub data: Option<Json>,
    /// Why not, only with `ok: false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Why a request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// A person or the host said no.
    Declined,
    /// The host gave up.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// What the host gave for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The result as the model will read it.
    pub text: String,
    /// Whether the host's tool failed.
    pub is_error: bool,
    /// Images and files beside the text.
    pub parts: Option<Json>,
}

/// The readable data of an `ok` answer to a relay request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayData {
    /// `data.output`: for the one outstanding call.
    Single(Given),
    /// `data.results`: by call id, in the order given.
    Results(Vec<(CallId, Given)>),
}

impl Answer {
    /// Reads the data as relay results. `None`: it cannot be read, nothing is made up.
    pub fn relay_data(&self) -> Option<RelayData> {
        let data = self.data.as_ref()?;
        let fields: Fields<'_> = serde_json::from_str(data.get()).ok()?;
        if let Some(results) = fields.get("results") {
            if fields.contains_key(RELAY_OUTPUT_KEY) {
                return None;
            }
            let results: Vec<Fields<'_>> = serde_json::from_str(results.get()).ok()?;
            return results.iter().map(by_call).collect::<Option<Vec<_>>>().map(RelayData::Results);
        }
        given(&fields).map(RelayData::Single)
    }

    /// The keys of `data`, for messages; those of the first entry of `results` that cannot be read too.
    pub fn data_keys(&self) -> Vec<String> {
        let mut keys = keys_of(self.data.as_ref().map_or("", Json::get));
        let fields: Option<Fields<'_>> = self.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
        let results: Vec<&RawValue> =
            fields.and_then(|fields| serde_json::from_str(fields.get("results")?.get()).ok()).unwrap_or_default();
        let unreadable =
            |entry: &&RawValue| serde_json::from_str(entry.get()).ok().is_none_or(|entry| by_call(&entry).is_none());
        if let Some((at, entry)) = results.into_iter().enumerate().find(|(_, entry)| unreadable(entry)) {
            keys.extend(keys_of(entry.get()).into_iter().map(|key| format!("results[{at}].{key}")));
        }
        keys
    }
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// One entry of `results`.
fn by_call(entry: &Fields<'_>) -> Option<(CallId, Given)> {
    let id: CallId = serde_json::from_str(entry.get("id")?.get()).ok()?;
    Some((id, given(entry)?))
}

fn given(fields: &Fields<'_>) -> Option<Given> {
    let output = fields.get(RELAY_OUTPUT_KEY)?.get();
    let text = serde_json::from_str::<String>(output).unwrap_or_else(|_| output.to_owned());
    let is_error = match fields.get("isError") {
        Some(flag) => serde_json::from_str::<Option<bool>>(flag.get()).ok()?.unwrap_or(false),
        None => false,
    };
    let parts = match fields.get("parts").map(|parts| parts.get()) {
        None | Some("null") => None,
        Some(parts) => Some(Json::parse(parts).ok().filter(|parts| parts.get().starts_with('['))?),
    };
    Some(Given { text, is_error, parts })
}

/// Keeps `"data": null` apart from an absent `data` (contract 6.9).
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(reader).map(Some)
}
