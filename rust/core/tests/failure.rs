//! Reading what providers and gateways say when a call fails.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use proptest::prelude::*;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure, ReplyHints};

fn read(status: u16, body: &str) -> ProviderFailure {
    ProviderFailure::from_response(status, body.as_bytes(), ReplyHints::default())
}

fn kind(status: u16, body: &str) -> FailureKind {
    read(status, body).kind
}

#[test]
fn an_openai_error_keeps_type_code_and_message() {
    let body = r#"{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let hints = ReplyHints { request_id: Some("req_1".into()), retry_after: Some(Duration::from_secs(2)) };
    assert_eq!(
        ProviderFailure::from_response(429, body.as_bytes(), hints),
        ProviderFailure {
            status: Some(429),
            kind: FailureKind::RateLimited,
            error_type: Some("requests".into()),
            code: Some("rate_limit_exceeded".into()),
            message: "Slow down.".into(),
            request_id: Some("req_1".into()),
            retry_after: Some(Duration::from_secs(2)),
            partial_text: None,
        }
    );
}

#[test]
fn an_anthropic_error_keeps_its_request_id_from_the_body() {
    let body = r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"},"request_id":"req_7"}"#;
    let failure = read(404, body);
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert_eq!(failure.error_type.as_deref(), Some("not_found_error"));
    assert_eq!(failure.request_id.as_deref(), Some("req_7"));
    assert_eq!(
        failure.to_string(),
        "the provider does not know this model or address (status 404, not_found_error, request req_7): model: x"
    );
}

#[test]
fn a_gemini_error_gives_status_reason_and_delay() {
    let body = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
    let failure = read(429, body);
    assert_eq!(failure.kind, FailureKind::RateLimited);
    assert_eq!(failure.error_type.as_deref(), Some("RESOURCE_EXHAUSTED"));
    assert_eq!(failure.code.as_deref(), Some("429"));
    assert_eq!(failure.retry_after, Some(Duration::from_millis(34_500)));

    let key = r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT",
        "details":[{"reason":"API_KEY_INVALID"}]}}]"#;
    assert_eq!(kind(400, key), FailureKind::Authentication);
}

#[test]
fn g1_overloaded_is_retried_and_typed_overloaded() {
    let failure = read(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#);
    assert_eq!(failure.kind, FailureKind::Overloaded);
    assert!(failure.is_retryable());
    assert_eq!(kind(529, ""), FailureKind::Overloaded, "the status alone says so too");
}

#[test]
fn g2_an_error_inside_a_success_is_found() {
    let upstream = ProviderFailure::in_body(br#"{"error":{"message":"upstream down","code":502}}"#).unwrap();
    assert_eq!((upstream.kind, upstream.message.as_str()), (FailureKind::Server, "upstream down"));
    assert_eq!(upstream.code.as_deref(), Some("502"));
    assert!(upstream.is_retryable());

    let failed = ProviderFailure::in_body(
        br#"{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}"#,
    )
    .unwrap();
    assert_eq!((failed.kind, failed.is_retryable()), (FailureKind::Server, true));

    let anthropic =
        ProviderFailure::in_body(br#"{"type":"error","error":{"type":"overloaded_error","message":"b"}}"#).unwrap();
    assert_eq!(anthropic.kind, FailureKind::Overloaded);
    let flat = ProviderFailure::in_body(br#"{"object":"error","message":"no","code":400,"e":"error"}"#).unwrap();
    assert_eq!((flat.kind, flat.message.as_str()), (FailureKind::BadRequest, "no"));
    let text = ProviderFailure::in_body(br#"{"error":"model not loaded"}"#).unwrap();
    assert_eq!(text.message, "model not loaded");
}

#[test]
fn g2_a_reply_is_not_taken_for_an_error() {
    for reply in [
        r#"{"id":"x","choices":null}"#,
        r#"{"id":"x","choices":[],"error":null}"#,
        r#"{"id":"x","output":[],"error":{}}"#,
        r#"{"id":"x","choices":[{"message":{"content":"{\"error\":{\"message\":\"quoted\"}}"}}]}"#,
        r#"{"type":"message","content":[{"type":"text","text":"\"error\""}]}"#,
        r#"{"type":"message","content":[{"error":{"message":"nested"}}]}"#,
        "\"error\"",
        "",
    ] {
        assert_eq!(ProviderFailure::in_body(reply.as_bytes()), None, "{reply}");
    }
}

#[test]
fn g4_out_of_quota_is_not_retried_and_a_rate_limit_is() {
    let spent =
        read(429, r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"no credit"}}"#);
    assert_eq!(spent.kind, FailureKind::OutOfQuota);
    assert!(!spent.is_retryable());
    assert_eq!(spent.to_string(), "the provider account has no quota left (status 429, insufficient_quota): no credit");
    let limited = read(429, r#"{"error":{"type":"rate_limit_error","message":"quota per minute used up"}}"#);
    assert_eq!(limited.kind, FailureKind::RateLimited);
    assert!(limited.is_retryable());
}

#[test]
fn what_the_provider_names_beats_the_status_and_the_status_beats_blame() {
    let blame = |code: &str| format!(r#"{{"error":{{"type":"invalid_request_error","code":{code},"message":"m"}}}}"#);
    assert_eq!(kind(401, &blame("\"invalid_api_key\"")), FailureKind::Authentication);
    assert_eq!(kind(404, &blame("\"model_not_found\"")), FailureKind::NotFound);
    assert_eq!(kind(400, &blame("\"context_length_exceeded\"")), FailureKind::ContextOverflow);
    assert_eq!(kind(500, &blame("\"context_length_exceeded\"")), FailureKind::ContextOverflow);
    assert_eq!(kind(400, &blame("\"content_filter\"")), FailureKind::Filtered);
    assert_eq!(kind(429, &blame("null")), FailureKind::RateLimited);
    assert_eq!(kind(503, &blame("null")), FailureKind::Server);
    assert_eq!(kind(400, &blame("null")), FailureKind::BadRequest);
    let inside = ProviderFailure::in_body(blame("null").as_bytes()).unwrap();
    assert_eq!(inside.kind, FailureKind::BadRequest, "without a status the blame is all there is");
}

#[test]
fn each_status_has_its_kind_without_a_body() {
    use FailureKind as K;
    for (status, expected, retried) in [
        (307, K::Setup, false),
        (400, K::BadRequest, false),
        (401, K::Authentication, false),
        (402, K::OutOfQuota, false),
        (403, K::Permission, false),
        (404, K::NotFound, false),
        (408, K::Timeout, true),
        (409, K::Conflict, true),
        (413, K::ContextOverflow, false),
        (418, K::BadRequest, false),
        (429, K::RateLimited, true),
        (500, K::Server, true),
        (502, K::Server, true),
        (503, K::Server, true),
        (504, K::Timeout, true),
        (529, K::Overloaded, true),
        (599, K::Server, true),
    ] {
        let failure = read(status, "");
        assert_eq!((failure.kind, failure.is_retryable()), (expected, retried), "{status}");
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn a_prompt_that_is_too_long_is_told_from_other_bad_requests() {
    let anthropic = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    assert_eq!(kind(400, anthropic), FailureKind::ContextOverflow);
    let gemini = r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}"#;
    assert_eq!(kind(400, gemini), FailureKind::ContextOverflow);
    assert_eq!(kind(429, &anthropic.replace("invalid_request_error", "x")), FailureKind::RateLimited);
}

#[test]
fn other_shapes_still_give_a_message() {
    assert_eq!(read(404, r#"{"detail":"Not Found"}"#).message, "Not Found");
    assert_eq!(
        read(422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#).message,
        r#"[{"loc":["body"],"msg":"field required"}]"#
    );
    assert_eq!(read(400, r#"{"object":"error","message":"bad","type":"BadRequestError"}"#).message, "bad");
    assert_eq!(read(400, r#"{"error":"does not exist"}"#).message, "does not exist");
    assert_eq!(read(400, r#"{"error":{"code":"x"}}"#).message, "no error message came with the response");
    assert_eq!(
        read(502, "<html>\n<head><title>502 Bad\n Gateway</title></head><body>long</body>").message,
        "502 Bad Gateway"
    );
    assert_eq!(read(502, "<html><body>no title").message, "<html><body>no title");
    assert_eq!(read(503, "  upstream\n\tconnect error\0 ").message, "upstream connect error\u{fffd}");
}

#[test]
fn a_message_is_bounded() {
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "ä".repeat(50_000));
    let message = read(500, &long).message;
    assert_eq!(message.chars().count(), 1_001);
    assert!(message.ends_with("ä…"));
    let garbage = read(500, &"x".repeat(500_000)).message;
    assert_eq!(garbage.len(), 1_000 + '…'.len_utf8());
}

#[test]
fn secrets_are_taken_out() {
    let key = "sk-live-0123456789abcdef";
    let body = format!(
        r#"{{"error":{{"type":"t-{key}","code":"{key}","message":"Incorrect API key provided: {key}. You sent 'Bearer {key}' and sk-live-********cdef."}}}}"#
    );
    let hints = ReplyHints { request_id: Some(format!("r-{key}")), retry_after: None };
    let failure = ProviderFailure::from_response(401, body.as_bytes(), hints).redact(&[key]);
    assert_eq!(failure.message, "Incorrect API key provided: [redacted]. You sent 'Bearer [redacted]' and [redacted].");
    assert_eq!(failure.error_type.as_deref(), Some("t-[redacted]"));
    assert_eq!(failure.code.as_deref(), Some("[redacted]"));
    assert_eq!(failure.request_id.as_deref(), Some("r-[redacted]"));
    assert!(!format!("{failure:?}{failure}").contains("0123"));
}

#[test]
fn a_secret_cut_by_the_bound_is_taken_out_too() {
    let key = "sk-live-0123456789abcdef";
    for kept in 4..key.len() {
        let body = format!("{}{key} and more", "y".repeat(1_000 - kept));
        let message = read(500, &body).redact(&[key]).message;
        assert_eq!(message, format!("{}[redacted]", "y".repeat(1_000 - kept)));
    }
}

#[test]
fn an_empty_secret_changes_nothing() {
    let failure = read(500, "plain ** words");
    assert_eq!(failure.clone().redact(&["", "  "]), failure);
}

#[test]
fn a_failure_goes_through_json() {
    let failure = ProviderFailure {
        status: Some(429),
        retry_after: Some(Duration::from_millis(1_500)),
        ..ProviderFailure::new(FailureKind::RateLimited, "slow")
    };
    let json = serde_json::to_string(&failure).unwrap();
    assert_eq!(serde_json::from_str::<ProviderFailure>(&json).unwrap(), failure);
    assert!(json.contains(r#""kind":"rate_limited""#), "{json}");
    assert_eq!(serde_json::to_value(FailureKind::OutOfQuota).unwrap(), FailureKind::OutOfQuota.as_str());
}

proptest! {
    #[test]
    fn any_body_is_read_without_a_panic_and_bounded(status in 300_u16..700, body: Vec<u8>) {
        let failure = ProviderFailure::from_response(status, &body, ReplyHints::default());
        prop_assert!(failure.message.chars().count() <= 1_001);
        prop_assert!(!failure.message.contains('\0'));
        let _ = ProviderFailure::in_body(&body);
    }

    #[test]
    fn no_secret_survives_anywhere_in_a_message(before in ".{0,40}", after in ".{0,40}", secret in "[A-Za-z0-9_-]{8,60}") {
        let body = format!("{before}{secret}{after}");
        let failure = ProviderFailure::from_response(500, body.as_bytes(), ReplyHints::default()).redact(&[&secret]);
        prop_assert!(!failure.message.contains(&secret));
    }
}
