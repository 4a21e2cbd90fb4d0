//! What the headers of a response say to somebody who may try again.

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use toolrelay_core::wire::failure::ReplyHints;

pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> ReplyHints {
    ReplyHints { request_id: request_id(headers), retry_after: retry_after(headers, now) }
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let names = ["x-request-id", "request-id", "apim-request-id", "x-goog-request-id", "cf-ray"];
    let id = names.iter().find_map(|name| text(headers.get(*name)))?;
    Some(id.chars().take(ID_CHARS).collect())
}

/// `retry-after-ms` first, for it is finer; then `retry-after` as seconds or as a date. What is
/// negative, past or unreadable says nothing.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let millis = text(headers.get("retry-after-ms")).and_then(|millis| number(millis, 1_000.0));
    millis.or_else(|| {
        let value = text(headers.get(RETRY_AFTER))?;
        number(value, 1.0).or_else(|| httpdate::parse_http_date(value).ok()?.duration_since(now).ok())
    })
}

/// A count of units, of which `per_second` make a second. One beyond all measure is as long as can be.
fn number(text: &str, per_second: f64) -> Option<Duration> {
    if !text.starts_with(|char: char| char.is_ascii_digit() || char == '.') {
        return None;
    }
    let count: f64 = text.parse().ok()?;
    Some(Duration::try_from_secs_f64(count / per_second).unwrap_or(Duration::MAX))
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    Some(value?.to_str().ok()?.trim()).filter(|text| !text.is_empty())
}

const ID_CHARS: usize = 200;

#[cfg(test)]
#[path = "hints/tests.rs"]
mod tests;
