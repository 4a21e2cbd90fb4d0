//! Transcripts that somebody else wrote: odd, large or broken, never a panic.

use bytes::Bytes;
use serde_json::{Value, json};
use toolrelay_core::message::{Body, Content, Message};
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::transcript::{Transcript, TranscriptError};

fn read(json: &str) -> Result<Transcript, TranscriptError> {
    Transcript::from_json(Bytes::copy_from_slice(json.as_bytes()))
}

fn of(messages: &Value) -> Transcript {
    read(&messages.to_string()).unwrap()
}

fn json_of(transcript: &Transcript) -> Vec<&str> {
    transcript.messages().iter().map(|message| std::str::from_utf8(message.json()).unwrap()).collect()
}

fn reason(json: &str) -> String {
    read(json).unwrap_err().to_string()
}

#[test]
fn a_bare_list_and_an_envelope_are_the_same() {
    let bare = read(r#" [ {"role":"user","content":"hi"} ] "#).unwrap();
    let envelope = read(r#"{"format":1,"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    assert_eq!(bare, envelope);
    assert_eq!(bare.to_json(), br#"{"format":1,"messages":[{"role":"user","content":"hi"}]}"#);
    assert_eq!(read(r#"{"messages":[{"role":"user","content":"hi"}],"format":1,"more":0}"#).unwrap(), bare);
    assert_eq!(read("[]").unwrap(), Transcript::default());
}

#[test]
fn a_newer_format_says_to_update() {
    let error = read(r#"{"format":2,"messages":[]}"#).unwrap_err();
    assert_eq!(error, TranscriptError::Format { found: 2 });
    assert!(error.to_string().contains("update toolrelay"));
    assert_eq!(read(r#"{"format":2,"messages":"in a new shape"}"#).unwrap_err(), TranscriptError::Format { found: 2 });
    assert_eq!(read(r#"{"format":0,"messages":[]}"#).unwrap_err(), TranscriptError::Format { found: 0 });
}

#[test]
fn what_is_no_transcript_is_a_typed_error_without_the_content() {
    for json in [
        "",
        " ",
        "null",
        "5",
        "\"secret\"",
        "{}",
        r#"{"messages":[]}"#,
        r#"{"format":1}"#,
        r#"{"format":"1","messages":[]}"#,
        r#"{"format":1,"messages":{}}"#,
        r#"{"format":1,"messages":[],"messages":[]}"#,
        "[",
        "[]]",
        "[{}",
        "[NaN]",
        "\u{feff}[]",
    ] {
        let error = read(json).unwrap_err();
        assert!(matches!(error, TranscriptError::Shape { .. }), "{json}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
    assert!(matches!(Transcript::from_json(Bytes::from_static(b"[\"\xff\"]")), Err(TranscriptError::Shape { .. })));
}

#[test]
fn a_message_that_cannot_be_read_is_named_by_its_place() {
    for (message, said) in [
        ("5", "Data error"),
        ("null", "Data error"),
        ("[]", "Data error"),
        ("{}", "no role"),
        (r#"{"role":null,"content":"x"}"#, "role is malformed"),
        (r#"{"role":"robot","content":"x"}"#, r#"unknown role "robot""#),
        (r#"{"role":"user"}"#, "content of a user message"),
        (r#"{"role":"user","content":null}"#, "content of a user message"),
        (r#"{"role":"user","content":5}"#, "content of a user message"),
        (r#"{"role":"assistant","content":5}"#, "content of an assistant message"),
        (r#"{"role":"assistant","content":"x","tool_calls":5}"#, "tool_calls is malformed"),
        (r#"{"role":"assistant","content":"x","tool_calls":[{"id":"a"}]}"#, "no function"),
        (r#"{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{}}]}"#, "no name"),
        (r#"{"role":"assistant","content":"x","tool_calls":[{"id":5,"function":{"name":"f"}}]}"#, "id is malformed"),
        (r#"{"role":"tool","tool_call_id":5,"content":"x"}"#, "tool_call_id is malformed"),
        (r#"{"role":"tool","tool_call_id":"a","content":"x","toolrelay":{"outcome":"odd"}}"#, "toolrelay is malformed"),
        (r#"{"role":"tool","tool_call_id":"a","content":"x","toolrelay":{"pending":{}}}"#, "toolrelay is malformed"),
    ] {
        let error = reason(&format!(r#"[{{"role":"user","content":"hi"}},{message}]"#));
        assert!(error.starts_with("message 1 of the transcript: ") && error.contains(said), "{message}: {error}");
    }
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    for message in [
        r#"{"role":"user","content":"a","content":"b"}"#,
        r#"{"role":"user","role":"system","content":"a"}"#,
        r#"{"role":"user","content":"a","c\u006fntent":"b"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","name":"g","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","tool_call_id":"b","content":"x"}"#,
    ] {
        assert!(reason(&format!("[{message}]")).contains("stands twice"), "{message}");
    }
}

#[test]
fn canonical_messages_keep_their_bytes() {
    let messages = [
        r#"{"role":"system","content":"be kind"}"#,
        r#"{"role":"developer","content":[ {"type":"text","text":"x"} ]}"#,
        r#"{ "content" : "h\u0069", "role" : "user", "name" : "bob" }"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{ \"z\": 1.0 }"}}]}"#,
        r#"{"role":"tool","tool_call_id":"k1","content":"7","toolrelay":{"outcome":"error"}}"#,
        r#"{"role":"assistant","content":""}"#,
    ];
    let transcript = read(&format!("[{}]", messages.join(" , "))).unwrap();
    assert_eq!(json_of(&transcript), messages);
    assert_eq!(Transcript::from_json(transcript.to_json().into()).unwrap(), transcript);
}

#[test]
fn b4_missing_ids_are_empty_until_the_history_is_mended() {
    let call = |id: &Value| json!({ "id": id, "type": "function", "function": { "name": "tally", "arguments": "{}" } });
    let transcript = of(&json!([{ "role": "assistant", "content": null, "tool_calls": [
        call(&json!("")), call(&Value::Null), { "type": "function", "function": { "name": "tally", "arguments": "{}" } }
    ] }]));
    let ids: Vec<&str> = transcript.messages()[0].calls().iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["", "", ""]);
}

#[test]
fn c5_arguments_are_text_whatever_shape_they_came_in() {
    for (arguments, text) in
        [(json!({ "n": 1 }), r#"{"n":1}"#), (json!("{\"n\":1}"), r#"{"n":1}"#), (Value::Null, ""), (json!([1]), "[1]")]
    {
        let transcript = of(&json!([{ "role": "assistant", "tool_calls": [
            { "id": "k1", "type": "function", "function": { "name": "tally", "arguments": arguments } }
        ] }]));
        let message = &transcript.messages()[0];
        assert_eq!(message.calls()[0].arguments, text);
        let stored: Value = serde_json::from_slice(message.json()).unwrap();
        assert_eq!(stored["tool_calls"][0]["function"]["arguments"], text);
    }
}

#[test]
fn f9_an_empty_list_of_calls_and_null_fields_are_left_out() {
    let transcript = of(&json!([
        { "role": "assistant", "content": "hi", "tool_calls": [] },
        { "role": "assistant", "content": "hi", "tool_calls": null, "function_call": null, "annotations": [], "audio": null },
        { "role": "assistant", "content": null },
        { "role": "assistant" },
    ]));
    let said = r#"{"role":"assistant","content":"hi"}"#;
    let silent = r#"{"role":"assistant","content":""}"#;
    assert_eq!(json_of(&transcript), [said, said, silent, silent]);
}

#[test]
fn a_tool_result_of_any_content_is_text_or_parts() {
    let image = json!([{ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } }]);
    let result =
        |content: &Value| json!([{ "role": "tool", "name": "chart", "tool_call_id": "k1", "content": content }]);
    for (content, text) in [
        (json!("7"), "7"),
        (json!({ "a": 1 }), r#"{"a":1}"#),
        (json!(5), "5"),
        (json!(false), "false"),
        (Value::Null, ""),
    ] {
        assert_eq!(of(&result(&content)).messages()[0].content(), Content::Text(text.to_owned()));
    }
    let Content::Parts(parts) = of(&result(&image)).messages()[0].content() else { panic!("the parts are kept") };
    assert_eq!(parts.get(), image.to_string());
}

#[test]
fn unknown_fields_of_a_result_go_and_its_outcome_stays() {
    let transcript = of(&json!([{ "role": "tool", "tool_call_id": "k1", "content": "no", "name": "f",
        "toolrelay": { "outcome": "declined", "parts": [{ "type": "text", "text": "x" }] } }]));
    let message = &transcript.messages()[0];
    assert_eq!(message.result().unwrap().outcome, Outcome::Declined);
    assert_eq!(message.parts().unwrap().get(), r#"[{"type":"text","text":"x"}]"#);
}

#[test]
fn c6_c7_a_poisoned_history_is_mended_when_it_is_read() {
    let transcript = read(r#"[{"role":"user","content":"ok \ud83d a\u0000b c\\u0000d \ud83d\ude00"}]"#).unwrap();
    assert_eq!(transcript.messages()[0].text(), "ok \u{fffd} a\u{fffd}b c\\u0000d 😀");
    let json = String::from_utf8(transcript.to_json()).unwrap();
    assert!(json.contains(r"\ufffd a\ufffdb c\\u0000d \ud83d\ude00"), "{json}");
}

#[test]
fn c6_c7_nothing_that_cannot_be_stored_comes_out_of_a_message() {
    let output = ToolOutput::text("a\0b \\u0000");
    let message = Message::tool_result(&toolrelay_core::id::CallId::new("k\0"), &output);
    let json = std::str::from_utf8(message.json()).unwrap();
    assert_eq!(json, "{\"role\":\"tool\",\"tool_call_id\":\"k\u{fffd}\",\"content\":\"a\u{fffd}b \\\\u0000\"}");
}

#[test]
fn h12_what_looks_like_a_constructor_stays_data() {
    let text = r#"{"lc":1,"type":"constructor","id":["os","system"],"kwargs":{"a":"echo hi"}}"#;
    let transcript = of(&json!([
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "k1", "type": "function", "function": { "name": "f", "arguments": text } }] },
        { "role": "tool", "tool_call_id": "k1", "content": text },
    ]));
    let again = Transcript::from_json(transcript.to_json().into()).unwrap();
    assert_eq!(again.messages()[0].calls()[0].arguments, text);
    assert_eq!(again.messages()[1].text(), text);
}

#[test]
fn a_text_of_ten_megabytes_is_a_text() {
    let large = "x".repeat(10_000_000);
    let transcript = read(&format!(r#"[{{"role":"user","content":"{large}"}}]"#)).unwrap();
    assert_eq!(transcript.messages()[0].json().len(), large.len() + 28);
}

/// Reading that is not linear in the bytes would take hours here.
#[test]
fn deep_large_and_long_values_are_read() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let long = "9".repeat(5_000);
    let large = "x\\n".repeat(300_000);
    let calls: Vec<String> = (0..1_000)
        .map(|n| format!(r#"{{"id":"k{n}","type":"function","function":{{"name":"f","arguments":{{"n":{long}}}}}}}"#))
        .collect();
    let keys: Vec<String> = (0..50_000).map(|n| format!(r#""x{n}":0"#)).collect();
    let json = format!(
        r#"[{{"role":"user","content":{deep}}},{{"role":"user","content":"{large}"}},{{"role":"assistant","tool_calls":[{}]}},{{"role":"user","content":"hi",{}}},{{"role":"user","content":[{long},{{"text":"{large}"}}]}}]"#,
        calls.join(","),
        keys.join(",")
    );
    let transcript = read(&json).unwrap();
    let again = Transcript::from_json(transcript.to_json().into()).unwrap();
    assert_eq!(again, transcript);
    assert_eq!(transcript.messages()[2].calls().len(), 1_000);
    assert!(transcript.messages().iter().all(|message| !matches!(message.body(), Body::Tool(_))));
}
