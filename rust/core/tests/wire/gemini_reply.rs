//! Gemini replies: what is read of them, and how they go back.

use proptest::prelude::*;
use serde_json::json;
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use toolrelay_core::tool::ToolOutput;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::{FailureKind, ProviderFailure};

use crate::{call, history, messages_of, read, turn};

const STYLE: Style = Style::Gemini;

fn body(parts: &str, reason: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}},"finishReason":{reason}}}]}}"#)
}

fn decode(parts: &str, reason: &str) -> Reply {
    STYLE.decode(body(parts, reason).as_bytes()).unwrap()
}

fn failure(body: &str) -> ProviderFailure {
    STYLE.decode(body.as_bytes()).unwrap_err()
}

#[test]
fn reply_is_read() {
    let parts = concat!(
        r#"[{"text":"hm","thought":true,"thoughtSignature":"c2ln"}, {"text":"caf\u00e9 "},{"text":"à la carte"},"#,
        r#"{"functionCall":{"name":"tally","args":{ "n":1.0}},"thoughtSignature":"ZnVu"},"#,
        r#"{"functionCall":{"id":"fc_1","name":"moor"}}]"#
    );
    let body = format!(
        r#"{{"candidates":[{{"content":{{"parts":{parts},"role":"model"}},"finishReason":"STOP","index":0,
            "groundingMetadata":{{}}}}],"modelVersion":"gemini-3-pro","responseId":"r1","usageMetadata":{{
            "promptTokenCount":10,"toolUsePromptTokenCount":2,"candidatesTokenCount":5,"thoughtsTokenCount":7,
            "cachedContentTokenCount":4,"totalTokenCount":24,"promptTokensDetails":[{{"modality":"TEXT","tokenCount":10}}]}}}}"#
    );
    assert_eq!(
        STYLE.decode(body.as_bytes()).unwrap(),
        Reply {
            text: "café à la carte".into(),
            calls: vec![
                ReplyCall { id: None, name: "tally".into(), arguments: r#"{ "n":1.0}"#.into() },
                ReplyCall { id: Some("fc_1".into()), name: "moor".into(), arguments: String::new() },
            ],
            reasoned: true,
            stop: Stop::Calls,
            usage: Usage {
                input_tokens: 12,
                output_tokens: 12,
                cached_tokens: 4,
                cache_write_tokens: 0,
                reasoning_tokens: 7
            },
            model: Some("gemini-3-pro".into()),
            provider: Some(Provider { style: STYLE, raw: parts.into(), paused: false }),
        }
    );
}

#[test]
fn finish_reasons_are_read() {
    let table = [
        ("\"STOP\"", Stop::End),
        ("\"FINISH_REASON_UNSPECIFIED\"", Stop::End),
        ("\"\"", Stop::End),
        ("null", Stop::End),
        ("\"MAX_TOKENS\"", Stop::Length),
        ("\"CONTINUATION\"", Stop::Length),
        ("\"SAFETY\"", Stop::Filtered),
        ("\"RECITATION\"", Stop::Filtered),
        ("\"PROHIBITED_CONTENT\"", Stop::Filtered),
        ("\"SPII\"", Stop::Filtered),
        ("\"MODEL_ARMOR\"", Stop::Filtered),
        ("\"MALFORMED_FUNCTION_CALL\"", Stop::Malformed),
        ("\"UNEXPECTED_TOOL_CALL\"", Stop::Malformed),
        ("\"OTHER\"", Stop::Other("OTHER".into())),
        ("\"TIDE\"", Stop::Other("TIDE".into())),
    ];
    for (reason, stop) in table {
        assert_eq!(decode(r#"[{"text":"x"}]"#, reason).stop, stop);
    }
}

/// Fault E8: no content, an empty one, and a call that the provider could not read.
#[test]
fn empty_or_malformed_content_is_a_reply() {
    for content in
        [r#""content":{},"#, r#""content":{"role":"model"},"#, r#""content":null,"#, r#""content":{"parts":[]},"#, ""]
    {
        let body = format!(r#"{{"candidates":[{{{content}"finishReason":"STOP"}}]}}"#);
        assert_eq!(STYLE.decode(body.as_bytes()).unwrap(), Reply::default(), "{content}");
    }
    let reply = decode(r#"[{"functionCall":{"name":"moor","args":{}}}]"#, "\"MALFORMED_FUNCTION_CALL\"");
    assert!(reply.stop.cuts_calls());
    assert_eq!(reply.calls.len(), 1);
}

/// Fault G2: what is no reply is a typed failure.
#[test]
fn reply_without_a_candidate_is_a_failure() {
    let blocked =
        failure(r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}"#);
    let expected = ProviderFailure::new(FailureKind::Filtered, "the prompt was blocked");
    assert_eq!(blocked, ProviderFailure { error_type: Some("PROHIBITED_CONTENT".into()), ..expected });
    let said = failure(r#"{"candidates":[],"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"no"}}"#);
    assert_eq!((said.kind, said.message.as_str(), said.is_retryable()), (FailureKind::Filtered, "no", false));
    let unsigned = failure(r#"{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}"#);
    assert_eq!(
        (unsigned.kind, unsigned.error_type.as_deref()),
        (FailureKind::BadRequest, Some("MISSING_THOUGHT_SIGNATURE"))
    );
    for body in [
        "{}",
        "[]",
        "{",
        r#"{"candidates":null}"#,
        r#"{"candidates":[]}"#,
        r#"{"promptFeedback":{}}"#,
        r#"{"candidates":[{"content":5}]}"#,
    ] {
        assert_eq!(failure(body).kind, FailureKind::Malformed, "{body}");
    }
    let error = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    for body in [error.to_owned(), format!(" [{error}]")] {
        let overloaded = failure(&body);
        assert_eq!((overloaded.kind, overloaded.message.as_str()), (FailureKind::Overloaded, "busy"));
    }
}

/// Contract 8.2, faults F6 and F7: signatures on any part, empty texts that carry one, parts that
/// nobody here knows.
#[test]
fn parts_go_back_byte_for_byte() {
    let lists = [
        r#"[{"functionCall":{"name":"tally","args":{"n":1}},"thoughtSignature":"c2ln\/+8="},{"functionCall":{"name":"tally","args":{"n":2}}}]"#,
        r#"[{"text":"the tide is high"},{"text":"","thoughtSignature":"c2ln"}]"#,
        r#"[{"text":"a ", "thoughtSignature":"c2ln"},{"text":"","thought":true,"thoughtSignature":"eA=="}]"#,
        r#"[{"executableCode":{"language":"PYTHON","code":"1+1","id":"c1"},"thoughtSignature":"eA=="}, {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]"#,
        r#"[{"toolCall":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","args":{"q":"tide"}}},{"toolResponse":{"id":"t1"}},{"mystery":{"b":[],"a":null}},{"text":"x"}]"#,
        r#"[ {"thoughtSignature":"eA==", "functionCall":{"args":{"b":1.0,"a":1e2},"id":"fc\/1","name":"tally", "x":1}} ]"#,
    ];
    for list in lists {
        let reply = decode(list, "\"STOP\"");
        let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_deref().unwrap_or("call_a")).collect();
        let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &ids))).unwrap();
        let inner = list.strip_prefix('[').unwrap().strip_suffix(']').unwrap().trim();
        assert!(body.contains(&format!(r#"{{"role":"model","parts":[{inner}]}}"#)), "{body}");
    }
}

/// What the canonical message gives back by itself is not kept twice.
#[test]
fn plain_reply_keeps_no_parts() {
    for parts in [r#"[{"text":"caf\"é\""}]"#, "[]"] {
        assert_eq!(decode(parts, "\"STOP\"").provider, None, "{parts}");
    }
}

/// Faults B4, B7: results are paired by their place; an id goes out only where the provider gave one.
#[test]
fn ids_go_out_only_where_the_provider_gave_them() {
    let parts = r#"[{"functionCall":{"name":"tide","args":{"port":"Ames"}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"","name":"tide","args":{"port":"Bree"}}},{"functionCall":{"id":"fc 3","name":"moor","args":{}}}]"#;
    let reply = decode(parts, "\"STOP\"");
    let given: Vec<Option<&str>> = reply.calls.iter().map(|call| call.id.as_deref()).collect();
    assert_eq!(given, [None, None, Some("fc 3")]);
    let mut messages = turn(&reply, &["call_a", "call_b", "fc 3"]);
    messages[2] = Message::tool_result(&CallId::new("call_a"), &ToolOutput::text("high"));
    messages[3] = Message::tool_result(&CallId::new("call_b"), &ToolOutput::text("low"));
    let body = String::from_utf8(messages_of(STYLE, &messages)).unwrap();
    assert!(body.contains(&parts[1..parts.len() - 1]), "{body}");
    assert_eq!(
        read(body.as_bytes())[2]["parts"],
        json!([
            {"functionResponse": {"name": "tide", "response": {"output": "high"}}},
            {"functionResponse": {"name": "tide", "response": {"output": "low"}}},
            {"functionResponse": {"id": "fc 3", "name": "moor", "response": {"output": "7"}}},
        ])
    );
}

/// Faults B5, B6: an id that stood twice is another one in its own part and in its result.
#[test]
fn repeated_id_is_replaced_in_call_and_result() {
    let parts = r#"[{"functionCall":{ "id" : "k1","name":"tally","args":{"n":1}},"thoughtSignature":"c2ln"},{"functionCall":{ "id" : "k1","name":"tally","args":{ "n":2}},"x":1}]"#;
    let body = String::from_utf8(messages_of(STYLE, &turn(&decode(parts, "\"STOP\""), &["k1", "call_b"]))).unwrap();
    let expected = r#"{"functionCall":{ "id" : "call_b","name":"tally","args":{ "n":2}},"x":1}"#;
    assert!(body.contains(expected), "{body}");
    let shown = read(body.as_bytes());
    let ids: Vec<_> =
        shown[2]["parts"].as_array().unwrap().iter().map(|part| &part["functionResponse"]["id"]).collect();
    assert_eq!(ids, ["k1", "call_b"]);
}

/// Fault F6: an empty signature is not sent, and a first call without one gets the documented one.
#[test]
fn first_call_is_always_signed() {
    let table = [
        (
            r#"[{"functionCall":{"name":"tally","args":{}},"thoughtSignature":""},{"functionCall":{"name":"tally","args":{}},"thoughtSignature":""}]"#,
            r#"{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"tally","args":{}}},{"functionCall":{"name":"tally","args":{}}}"#,
        ),
        (
            r#"[{"text":"so","thoughtSignature":"eA=="},{ "functionCall":{"name":"tally"}}]"#,
            r#"{"text":"so","thoughtSignature":"eA=="},{"thoughtSignature":"skip_thought_signature_validator", "functionCall":{"name":"tally"}}"#,
        ),
        (
            r#"[{"functionCall":{"args":5,"id":"k1"},"thoughtSignature":null}]"#,
            r#"{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"","args":{},"id":"k1"}}"#,
        ),
        (
            r#"[{"functionCall":{},"thoughtSignature":"eA=="}]"#,
            r#"{"functionCall":{"name":"","args":{}},"thoughtSignature":"skip_thought_signature_validator"}"#,
        ),
    ];
    for (parts, expected) in table {
        let reply = decode(parts, "\"STOP\"");
        let body = String::from_utf8(messages_of(STYLE, &turn(&reply, &["k1", "k2"][..reply.calls.len()]))).unwrap();
        let expected = expected.replace(r#""name":"""#, &format!(r#""name":"{}""#, "_cbf29ce484222325"));
        assert!(body.contains(&format!(r#""parts":[{expected}]"#)), "{body}\n{expected}");
    }
}

/// Fault E7, in this shape: an empty text without a signature is given but not taken.
#[test]
fn empty_texts_without_a_signature_are_left_out() {
    let parts = r#"[{"text":""},{"text":"x"},{"text":"","thought":true},{"text":"","thoughtSignature":"eA=="}]"#;
    let body = String::from_utf8(messages_of(STYLE, &turn(&decode(parts, "\"STOP\""), &[]))).unwrap();
    assert!(body.contains(r#""parts":[{"text":"x"},{"text":"","thoughtSignature":"eA=="}]"#), "{body}");
    let only = decode(r#"[{"text":""}]"#, "\"STOP\"");
    let body = String::from_utf8(messages_of(STYLE, &turn(&only, &[]))).unwrap();
    assert_eq!(body, r#"[{"role":"user","parts":[{"text":"x"},{"text":"y"}]}]"#);
}

/// The host's name goes out as the wire has it, also where the provider's own part said otherwise.
#[test]
fn parts_that_do_not_hold_the_calls_are_not_sent() {
    let raw = r#"[{"functionCall":{"name":"tally","args":{}},"thoughtSignature":"eA=="}]"#;
    let provider = Some(Provider { style: STYLE, raw: raw.into(), paused: false });
    let messages = |calls| {
        let mut messages = vec![Message::user("x"), Message::assistant_reply("so", calls, provider.clone())];
        let calls = messages[1].calls().to_vec();
        messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &ToolOutput::text("7"))));
        messages
    };
    let two = read(&messages_of(STYLE, &messages(vec![call("a", "tally", "{}"), call("b", "tally", "{}")])));
    assert_eq!(two[1]["parts"][0], json!({"text": "so"}));
    assert_eq!(two[1]["parts"].as_array().unwrap().len(), 3);
    let renamed = read(&messages_of(STYLE, &messages(vec![call("a", "dock/tally", "{}")])));
    assert_eq!(renamed[1]["parts"][0]["functionCall"]["name"], renamed[2]["parts"][0]["functionResponse"]["name"]);
    assert_eq!(renamed[1]["parts"][0]["thoughtSignature"], "eA==");
}

/// Fault B8, contract 1.7: a stored reply without ids gives the same request each time.
#[test]
fn stored_reply_without_ids_is_sent_alike_each_time() {
    let reply =
        decode(r#"[{"functionCall":{"name":"tide","args":{"port":"Ames"}},"thoughtSignature":"c2ln"}]"#, "\"STOP\"");
    let messages = turn(&reply, &["call_0123"]);
    let saved: Vec<String> =
        messages.iter().map(|message| String::from_utf8_lossy(message.json()).into_owned()).collect();
    let saved = format!("[{}]", saved.join(","));
    assert_eq!(messages_of(STYLE, &history(&saved)), messages_of(STYLE, &history(&saved)));
    assert_eq!(messages_of(STYLE, &history(&saved)), messages_of(STYLE, &messages));
}

proptest! {
    /// Whatever a tool gives, it is one text below one key, and nothing of it is beside that.
    #[test]
    fn results_are_data(text in ".{0,60}") {
        let messages = [
            Message::user("x"),
            Message::assistant_reply("", vec![call("k1", "tally", "{}")], None),
            Message::tool_result(&CallId::new("k1"), &ToolOutput::text(text.clone())),
        ];
        let shown = read(&messages_of(STYLE, &messages));
        let text = if text.is_empty() { "(no output)".to_owned() } else { text.replace('\0', "\u{fffd}") };
        prop_assert_eq!(&shown[2]["parts"][0], &json!({"functionResponse": {"name": "tally", "response": {"output": text}}}));
    }
}
