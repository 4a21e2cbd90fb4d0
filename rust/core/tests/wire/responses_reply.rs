//! Responses, decoded, and what goes back of a reply.

use toolrelay_core::json::Json;
use toolrelay_core::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::FailureKind;

use crate::{head, joined, messages_of, parts, turn};

const STYLE: Style = Style::OpenAiResponses;

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[ {"type":"summary_text","text":"caf\u00e9"} ],"encrypted_content":"q0=="}"#;
const BARE: &str = r#"{"id":"rs_2","type":"reasoning","summary":[]}"#;
const CALL: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{ \"n\":1}","call_id":"k1","name":"tally"}"#;
const TEXT: &str = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"so ","annotations":[{"type":"url_citation","start_index":0,"end_index":1,"title":"t","url":"u"}],"logprobs":[]},{"type":"output_text","text":"be it"}]}"#;
const SEARCH: &str = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"tide","sources": []}}"#;

fn reply(output: &str, more: &str) -> Reply {
    let body = format!(r#"{{"object":"response","error":null,"output":{output}{more}}}"#);
    STYLE.decode(body.as_bytes()).unwrap()
}

fn completed(output: &str) -> Reply {
    reply(output, r#","status":"completed","incomplete_details":null"#)
}

/// What a request says after the prompt of [`turn`], with a reply and the ids of its calls.
fn replayed(output: &str, ids: &[&str], params: &[(String, Json)]) -> String {
    let prefix = STYLE.head(&head(None, &[], params)).unwrap();
    let body = joined(&prefix.body(&turn(&completed(output), ids)).unwrap());
    let body = String::from_utf8(body).unwrap();
    let (_, items) = body.split_once(r#"{"role":"user","content":"x"},"#).unwrap();
    items.strip_suffix("]}").unwrap().to_owned()
}

#[test]
fn whole_reply_is_read() {
    let output = format!("[{REASONING}, {SEARCH},{TEXT},{CALL}]");
    let body = format!(
        r#"{{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"m-1","output":{output},
            "usage":{{"input_tokens":110,"input_tokens_details":{{"cached_tokens":100,"cache_write_tokens":7}},"output_tokens":50,
            "output_tokens_details":{{"reasoning_tokens":40}},"total_tokens":160}}}}"#
    );
    let expected = Reply {
        text: "so be it".into(),
        calls: vec![ReplyCall { id: Some("k1".into()), name: "tally".into(), arguments: r#"{ "n":1}"#.into() }],
        reasoned: true,
        stop: Stop::Calls,
        usage: Usage {
            input_tokens: 110,
            output_tokens: 50,
            cached_tokens: 100,
            cache_write_tokens: 7,
            reasoning_tokens: 40,
        },
        model: Some("m-1".into()),
        provider: Some(Provider { style: STYLE, raw: output, paused: false }),
    };
    assert_eq!(STYLE.decode(body.as_bytes()).unwrap(), expected);
}

/// Faults E3, E5, E6, E9.
#[test]
fn stops_are_read() {
    let incomplete = |reason: &str| format!(r#","status":"incomplete","incomplete_details":{reason}"#);
    let because = |word: &str| incomplete(&format!(r#"{{"reason":"{word}"}}"#));
    let calls = format!("[{CALL}]");
    let text = format!("[{TEXT}]");
    let cut_call = CALL.replace("completed", "incomplete");
    let table = [
        (text.clone(), r#","status":"completed""#.to_owned(), Stop::End),
        (text.clone(), String::new(), Stop::End),
        (text.clone(), r#","status":"tide""#.to_owned(), Stop::End),
        (calls.clone(), r#","status":"completed""#.to_owned(), Stop::Calls),
        (calls.clone(), because("max_output_tokens"), Stop::Length),
        (calls.clone(), because("content_filter"), Stop::Filtered),
        (calls.clone(), because("steered"), Stop::Other("steered".into())),
        (format!("[{cut_call}]"), because("steered"), Stop::Length),
        (format!("[{cut_call}]"), r#","status":"completed""#.to_owned(), Stop::Length),
        (text, incomplete("null"), Stop::Length),
        (calls, incomplete("{}"), Stop::Length),
    ];
    for (output, more, stop) in table {
        assert_eq!(reply(&output, &more).stop, stop, "{output}{more}");
    }
    let refused = r#"[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"cannot"}]}]"#;
    let refused = completed(refused);
    assert_eq!((refused.stop, refused.text.as_str()), (Stop::Refused, "cannot"));
    let both = r#"[{"type":"message","content":[{"type":"output_text","text":"so "},{"type":"refusal","refusal":"no"}]},
        {"type":"message","content":[{"type":"output_text","text":"!"}]}]"#;
    let both = completed(both);
    assert_eq!((both.stop, both.text.as_str()), (Stop::Refused, "so no!"));
}

/// Fault E10: the run asks again, as for any style, since the reply says that it holds reasoning only.
#[test]
fn reply_of_reasoning_only_says_so() {
    let only = completed(&format!("[{REASONING}]"));
    assert_eq!((only.text.as_str(), only.reasoned, only.stop), ("", true, Stop::End));
    let empty = completed("[]");
    assert_eq!((empty.text.as_str(), empty.reasoned, empty.provider), ("", false, None));
}

/// Faults B4, B9, D23, C5: an empty `call_id` is none, the item's id stands in for it.
#[test]
fn odd_calls_are_read() {
    let output = r#"[{"type":"function_call","id":"fc_1","call_id":"","name":"tally","arguments":{"n": 1}},
        {"type":"function_call","call_id":null,"name":"tally","arguments":null},{"type":"function_call"},
        {"type":"message","content":"plain"}, null, {"type":7}]"#;
    let read = completed(output);
    let call = |id: Option<&str>, name: &str, arguments: &str| ReplyCall {
        id: id.map(str::to_owned),
        name: name.into(),
        arguments: arguments.into(),
    };
    let calls = [call(Some("fc_1"), "tally", r#"{"n": 1}"#), call(None, "tally", ""), call(None, "", "")];
    assert_eq!((read.calls.as_slice(), read.text.as_str()), (&calls[..], "plain"));
    let sent = replayed(output, &["fc_1", "call_b", "call_c"], &[]);
    let expected = concat!(
        r#"{"type":"function_call","id":"fc_1","call_id":"fc_1","name":"tally","arguments":"{\"n\": 1}"},"#,
        r#"{"type":"function_call","call_id":"call_b","name":"tally","arguments":"{}"},"#,
    );
    assert!(sent.starts_with(expected), "{sent}");
}

/// Fault G2, D20.
#[test]
fn error_in_a_success_is_a_failure() {
    let failed = |code: &str| {
        let body = format!(
            r#"{{"object":"response","status":"failed","error":{{"code":"{code}","message":"x"}},"output":[]}}"#
        );
        let failure = STYLE.decode(body.as_bytes()).unwrap_err();
        (failure.kind, failure.code.unwrap(), failure.message)
    };
    for (code, kind) in [
        ("server_error", FailureKind::Server),
        ("rate_limit_exceeded", FailureKind::RateLimited),
        ("invalid_prompt", FailureKind::BadRequest),
        ("invalid_image_url", FailureKind::BadRequest),
        ("image_too_large", FailureKind::BadRequest),
        ("image_content_policy_violation", FailureKind::Filtered),
        ("bio_policy", FailureKind::Filtered),
        ("vector_store_timeout", FailureKind::Timeout),
        ("context_length_exceeded", FailureKind::ContextOverflow),
        ("insufficient_quota", FailureKind::OutOfQuota),
    ] {
        assert_eq!(failed(code), (kind, code.to_owned(), "x".to_owned()));
    }
    for (body, kind) in [
        (r#"{"status":"failed","error":null,"output":[]}"#, FailureKind::Server),
        (r#"{"status":"cancelled","output":[]}"#, FailureKind::Server),
        (r#"{"status":"queued","output":[]}"#, FailureKind::Malformed),
        (r#"{"status":"completed"}"#, FailureKind::Malformed),
        (r#"{"output":{}}"#, FailureKind::Malformed),
        ("{", FailureKind::Malformed),
        ("[]", FailureKind::Malformed),
    ] {
        assert_eq!(STYLE.decode(body.as_bytes()).unwrap_err().kind, kind, "{body}");
    }
}

/// Contract 8.2, faults F4 and B9: the items go back as they came, server tools and item ids included.
#[test]
fn items_go_back_byte_for_byte() {
    let unknown = r#"{"type":"mystery", "b":[],"a":null}"#;
    let reasoning_with_text = r#"{"type":"reasoning","id":"rs_3","content":[{"type":"reasoning_text","text":"hm"}]}"#;
    for output in [
        format!("[{REASONING},{CALL}]"),
        format!("[ {REASONING} , {SEARCH},\n{unknown},{TEXT},{CALL} ]"),
        format!("[{reasoning_with_text},{CALL}]"),
        format!("[{CALL},{TEXT}]"),
    ] {
        let inner = output.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap().trim();
        let result = r#"{"type":"function_call_output","call_id":"k1","output":"7"}"#;
        assert_eq!(replayed(&output, &["k1"], &[]), format!("{inner},{result}"));
    }
}

/// Fault F4: reasoning without what it led to is refused.
#[test]
fn reasoning_that_nothing_follows_is_left_out() {
    let next = r#"{"role":"user","content":"y"}"#;
    assert_eq!(replayed(&format!("[{TEXT}, {REASONING}]"), &[], &[]), format!("{TEXT},{next}"));
    assert_eq!(replayed(&format!("[{REASONING}]"), &[], &[]), next);
}

/// Fault F5: what the provider did not keep cannot be named; what it kept can.
#[test]
fn bare_reasoning_goes_back_only_to_a_provider_that_keeps_it() {
    let output = format!("[{BARE},{TEXT},{REASONING},{SEARCH},{CALL}]");
    let result = r#"{"type":"function_call_output","call_id":"k1","output":"7"}"#;
    let without_ids = [TEXT.replacen(r#""id":"msg_1","#, "", 1), CALL.replacen(r#""id":"fc_1","#, "", 1)];
    let stateless = format!("{},{REASONING},{SEARCH},{},{result}", without_ids[0], without_ids[1]);
    let stored = format!("{BARE},{TEXT},{REASONING},{SEARCH},{CALL},{result}");
    let store = |value: &str| [("store".to_owned(), parts(value))];
    assert_eq!(replayed(&output, &["k1"], &[]), stateless);
    assert_eq!(replayed(&output, &["k1"], &store("false")), stateless);
    assert_eq!(replayed(&output, &["k1"], &store("true")), stored);
    assert_eq!(replayed(&output, &["k1"], &store("null")), stored);
}

/// Fault F9: what is null in a reply is refused in a request.
#[test]
fn keys_that_are_null_are_left_out() {
    let output = r#"[{"type":"reasoning","id":"rs_1","summary":[],"content":null,"encrypted_content":"q0","status":null},
        {"type":"message","id":"msg_1","status":null,"role":"assistant","phase":null,"content":[{"type":"output_text","text":"x","annotations":null,"logprobs":null}, {"type":"mystery","a": null}]},
        {"type":"web_search_call","id":"ws_1","status":null},
        {"type":"function_call","id":"fc_1","call_id":"k1","name":"tally","arguments":"{}","async":null,"caller":null,"namespace":null,"status":null}]"#;
    let expected = concat!(
        r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"q0"},"#,
        r#"{"type":"message","id":"msg_1","role":"assistant","phase":null,"content":[{"type":"output_text","text":"x"},{"type":"mystery","a": null}]},"#,
        r#"{"type":"web_search_call","id":"ws_1","status":null},"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"k1","name":"tally","arguments":"{}","caller":null},"#,
    );
    let sent = replayed(output, &["k1"], &[]);
    assert!(sent.starts_with(expected), "{sent}");
}

/// Faults B5, B6, B9: a minted id is changed in its own item, which then has no other.
#[test]
fn only_minted_ids_are_changed() {
    let second = CALL.replace("fc_1", "fc_2");
    let sent = replayed(&format!("[{REASONING},{CALL}, {second}]"), &["k1", "call_b"], &[]);
    let changed = CALL.replacen(r#""id":"fc_1","#, "", 1).replace(r#""k1""#, r#""call_b""#);
    assert!(sent.starts_with(&format!("{REASONING},{CALL},{changed},")), "{sent}");
}

/// Contract 8.3: another style gets the text and the calls.
#[test]
fn another_style_gets_text_and_calls() {
    let messages = turn(&completed(&format!("[{REASONING},{SEARCH},{TEXT},{CALL}]")), &["k1"]);
    let chat = String::from_utf8(messages_of(Style::OpenAi, &messages)).unwrap();
    let expected = r#"{"role":"assistant","content":"so be it","tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{ \"n\":1}"}}]}"#;
    assert!(chat.contains(expected), "{chat}");
    let anthropic = String::from_utf8(messages_of(Style::Anthropic, &messages)).unwrap();
    let expected =
        r#"[{"type":"text","text":"so be it"},{"type":"tool_use","id":"k1","name":"tally","input":{ "n":1}}]"#;
    assert!(anthropic.contains(expected), "{anthropic}");
}
