//! What `retry-after` and its kin mean.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;

fn now() -> SystemTime {
    httpdate::parse_http_date("Wed, 30 Dec 2026 23:59:30 GMT").unwrap()
}

fn wait(headers: &[(&'static str, &str)]) -> Option<Duration> {
    let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    retry_after(&headers.collect(), now())
}

#[test]
fn seconds_may_have_a_fraction() {
    assert_eq!(wait(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
    assert_eq!(wait(&[("retry-after", " 0.25 ")]), Some(Duration::from_millis(250)));
    assert_eq!(wait(&[("retry-after", "0")]), Some(Duration::ZERO));
}

#[test]
fn milliseconds_are_preferred() {
    assert_eq!(wait(&[("retry-after-ms", "120"), ("retry-after", "9")]), Some(Duration::from_millis(120)));
    assert_eq!(wait(&[("retry-after-ms", "1.5")]), Some(Duration::from_micros(1_500)));
    assert_eq!(wait(&[("retry-after-ms", "soon"), ("retry-after", "9")]), Some(Duration::from_secs(9)));
}

#[test]
fn a_date_counts_from_now() {
    assert_eq!(wait(&[("retry-after", "Thu, 31 Dec 2026 00:00:00 GMT")]), Some(Duration::from_secs(30)));
    assert_eq!(wait(&[("retry-after", "Thursday, 31-Dec-26 00:00:00 GMT")]), Some(Duration::from_secs(30)));
    assert_eq!(wait(&[("retry-after", "Wed, 30 Dec 2026 23:59:29 GMT")]), None, "a past date says nothing");
}

#[test]
fn garbage_says_nothing() {
    for garbage in ["", "-1", "-0", "nan", "inf", "infinity", "1,5", "5 minutes", "0x10", "tomorrow", "…"] {
        assert_eq!(wait(&[("retry-after", garbage)]), None, "{garbage}");
        assert_eq!(wait(&[("retry-after-ms", garbage)]), None, "{garbage}");
    }
    assert_eq!(wait(&[]), None);
}

#[test]
fn a_number_beyond_all_measure_is_as_long_as_can_be() {
    assert_eq!(wait(&[("retry-after", "99999999999999999999999999")]), Some(Duration::MAX));
    assert_eq!(wait(&[("retry-after", "1e308")]), Some(Duration::MAX));
}

#[test]
fn the_request_id_is_found_under_each_name_and_bounded() {
    for name in ["x-request-id", "request-id", "apim-request-id"] {
        let headers = [(name.parse().unwrap(), "req_1".parse().unwrap())].into_iter().collect();
        assert_eq!(read(&headers, now()).request_id.as_deref(), Some("req_1"));
    }
    let long = [("request-id".parse().unwrap(), "x".repeat(5_000).parse().unwrap())].into_iter().collect();
    assert_eq!(read(&long, now()).request_id.map(|id| id.len()), Some(200));
}
