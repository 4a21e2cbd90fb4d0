//! generateContent, encoded.

use serde_json::json;
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::wire::{Style, WireError};

use crate::{body_of, call, head, history, joined, messages_of, parts, prefix, read, sent, tool_spec};

const STYLE: Style = Style::Gemini;

#[test]
fn head_comes_first_in_stable_order() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let tools = [tool_spec("tally", "Counts.", schema), tool_spec("ring", "", "{}")];
    let params = [
        ("tools".to_owned(), parts(r#"[{"googleSearch":{}}]"#)),
        ("generationConfig".to_owned(), parts(r#"{"temperature":0.5}"#)),
        ("toolConfig".to_owned(), parts(r#"{"functionCallingConfig":{"mode":"ANY"}}"#)),
    ];
    let body = body_of(STYLE, &head(Some("be brief"), &tools, &params), &[Message::user("hi")]);
    let expected = concat!(
        r#"{"tools":[{"functionDeclarations":[{"name":"tally","description":"Counts.","#,
        r#""parametersJsonSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},{"name":"ring"}]},"#,
        r#"{"googleSearch":{}}],"generationConfig":{"temperature":0.5},"#,
        r#""toolConfig":{"functionCallingConfig":{"mode":"ANY"}},"#,
        r#""systemInstruction":{"parts":[{"text":"be brief"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

/// Fault J8; and nothing else is sent that was not asked for.
#[test]
fn keys_about_tools_are_left_out_without_tools() {
    let params = [("tools".to_owned(), parts("[]")), ("toolConfig".to_owned(), parts("{}"))];
    let body = body_of(STYLE, &head(None, &[], &params), &[Message::user("hi")]);
    assert_eq!(String::from_utf8(body).unwrap(), r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#);
    let params = [("tools".to_owned(), parts(r#"[{"googleSearch":{}}]"#)), ("toolConfig".to_owned(), parts("{}"))];
    let body = read(&body_of(STYLE, &head(None, &[], &params), &[Message::user("hi")]));
    assert_eq!((&body["tools"], &body["toolConfig"]), (&json!([{"googleSearch": {}}]), &json!({})));
}

#[test]
fn system_messages_join_the_system_parts_or_the_user() {
    let messages = [
        Message::system("one"),
        Message::system(""),
        Message::user("hi"),
        Message::assistant_reply("ho", vec![], None),
        Message::system("late"),
        Message::user("go"),
    ];
    let contents = json!([
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "ho"}]},
        {"role": "user", "parts": [{"text": "late"}, {"text": "go"}]},
    ]);
    let table = [
        (None, None, json!([{"text": "one"}])),
        (Some("zero"), None, json!([{"text": "zero"}, {"text": "one"}])),
        (Some("zero"), Some(r#""own""#), json!([{"text": "own"}, {"text": "one"}])),
        (Some("zero"), Some(r#"{"role":"user","parts":[{"text":"own"}]}"#), json!([{"text": "own"}, {"text": "one"}])),
        (Some("zero"), Some("null"), json!([{"text": "zero"}, {"text": "one"}])),
    ];
    for (prompt, param, system) in table {
        let params: Vec<_> = param.map(|param| ("systemInstruction".to_owned(), parts(param))).into_iter().collect();
        let body = read(&body_of(STYLE, &head(prompt, &[], &params), &messages));
        assert_eq!(body, json!({"systemInstruction": {"parts": system}, "contents": contents}));
    }
    for param in ["5", r#"["x"]"#, "{}"] {
        let params = [("systemInstruction".to_owned(), parts(param))];
        let expected = "text or an object with parts";
        let error = WireError::Parameter { key: "systemInstruction".to_owned(), expected };
        assert_eq!(STYLE.head(&head(None, &[], &params)), Err(error), "{param}");
    }
}

#[test]
fn parameters_of_the_wire_are_refused() {
    for key in ["contents", "model", "stream"] {
        let params = [(key.to_owned(), parts("[]"))];
        assert_eq!(STYLE.head(&head(None, &[], &params)), Err(WireError::Reserved { key: key.to_owned() }));
    }
}

/// Faults A8, A9, A6: the results of a turn are one content with a part for each call, in call order;
/// what the user says follows.
#[test]
fn results_of_a_turn_are_one_content() {
    let failed = ToolOutput::failed(Outcome::Declined, "no");
    let messages = [
        Message::user("hi"),
        Message::assistant_reply("so", vec![call("k1", "tally", r#"{"n": 1}"#), call("k2", "moor", "")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text("7")),
        Message::tool_result(&CallId::new("k2"), &failed),
        Message::user("hurry"),
        Message::user("please"),
    ];
    assert_eq!(
        read(&messages_of(STYLE, &messages)),
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "so"},
                {"functionCall": {"name": "tally", "args": {"n": 1}}, "thoughtSignature": "skip_thought_signature_validator"},
                {"functionCall": {"name": "moor", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "tally", "response": {"output": "7"}}},
                {"functionResponse": {"name": "moor", "response": {"error": "no"}}},
            ]},
            {"role": "user", "parts": [{"text": "hurry"}, {"text": "please"}]},
        ])
    );
}

/// Contract 8.5: what a tool gives is data, whatever it looks like.
#[test]
fn result_that_looks_like_json_stays_text() {
    let text = r##"{"$ref":"#/$defs/Config","anyOf":[]}"##;
    let messages = [
        Message::user("x"),
        Message::assistant_reply("", vec![call("k1", "read_schema", "{}")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text(text)),
    ];
    let shown = read(&messages_of(STYLE, &messages));
    assert_eq!(shown[2]["parts"][0]["functionResponse"]["response"], json!({"output": text}));
}

#[test]
fn request_stays_a_prefix_of_the_next() {
    let mut messages = vec![Message::user("hi")];
    let first = joined(&prefix(STYLE).body(&messages).unwrap());
    messages.push(Message::assistant_reply("", vec![call("k1", "tally", "{}")], None));
    messages.push(Message::tool_result(&CallId::new("k1"), &ToolOutput::text("7")));
    let second = joined(&prefix(STYLE).body(&messages).unwrap());
    assert!(second.starts_with(first.strip_suffix(b"]}]}").unwrap()));
    messages.push(Message::user("go"));
    let third = joined(&prefix(STYLE).body(&messages).unwrap());
    assert!(third.starts_with(second.strip_suffix(b"]}]}").unwrap()));
}

/// Faults C2, C5: arguments are always an object.
#[test]
fn broken_arguments_are_sent_as_an_object() {
    for (arguments, expected) in
        [(r#"{"path": "a.tx"#, json!({})), ("5", json!({})), (r#""{\"n\":1}""#, json!({"n": 1}))]
    {
        let reply = Message::assistant_reply("", vec![call("k1", "tally", arguments)], None);
        let result = Message::tool_result(&CallId::new("k1"), &ToolOutput::failed(Outcome::Error, "bad"));
        let shown = read(&messages_of(STYLE, &[Message::user("x"), reply, result]));
        assert_eq!(shown[1]["parts"][0]["functionCall"]["args"], expected);
    }
}

/// Fault A10.
#[test]
fn history_that_begins_with_the_model_gets_a_note() {
    let shown = sent(
        STYLE,
        r#"[{"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"tally","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":"7"}]"#,
    );
    assert_eq!(shown[0], json!({"role": "user", "parts": [{"text": "[earlier messages are left out]"}]}));
    assert_eq!((&shown[1]["role"], &shown[2]["role"]), (&json!("model"), &json!("user")));
}

/// Faults C13, E7: the provider takes no empty part.
#[test]
fn empty_text_is_left_out() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":""}]},
            {"role":"user","content":"still there?"},
            {"role":"assistant","content":"","tool_calls":[{"id":"k1","type":"function","function":{"name":"ring","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":""},
            {"role":"user","content":[{"type":"text","text":""},{"type":"text","text":" x"}]}]"#,
    );
    assert_eq!(shown[0], json!({"role": "user", "parts": [{"text": "hi"}, {"text": "still there?"}]}));
    assert_eq!(shown[1]["parts"].as_array().unwrap().len(), 1);
    assert_eq!(shown[2]["parts"][0]["functionResponse"]["response"], json!({"output": "(no output)"}));
    assert_eq!(shown[3], json!({"role": "user", "parts": [{"text": " x"}]}));
    assert_eq!(prefix(STYLE).body(&[Message::user("")]), Err(WireError::Empty));
    let ends = [Message::user("x"), Message::assistant_reply("y", vec![], None), Message::user("")];
    assert_eq!(prefix(STYLE).body(&ends), Err(WireError::EndsWithAssistant));
}

/// Faults F10, A9: images follow the results in a content of their own, each behind its tool's name.
#[test]
fn images_of_results_follow_all_results() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#;
    let output =
        |text: &str, outcome| ToolOutput { parts: Some(parts(&format!("[{image}]"))), text: text.into(), outcome };
    let calls = vec![call("k1", "snap", "{}"), call("k2", "3d", "{}"), call("k3", "snap", "{}")];
    let messages = [
        Message::user("x"),
        Message::assistant_reply("", calls, None),
        Message::tool_result(&CallId::new("k1"), &output("chart", Outcome::Ok)),
        Message::tool_result(&CallId::new("k2"), &output("", Outcome::Error)),
        Message::tool_result(&CallId::new("k3"), &ToolOutput::text("7")),
        Message::user("well?"),
    ];
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    assert_eq!(
        read(&messages_of(STYLE, &messages)).as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [
                {"functionResponse": {"name": "snap", "response": {"output": "chart"}}},
                {"functionResponse": {"name": "_3d_07ff3207b4bf8432", "response": {"error": "(attached below)"}}},
                {"functionResponse": {"name": "snap", "response": {"output": "7"}}},
            ]}),
            json!({"role": "user", "parts": [
                {"text": "attached to the result of snap:"}, inline,
                {"text": "attached to the result of _3d_07ff3207b4bf8432:"}, inline,
                {"text": "well?"},
            ]}),
        ]
    );
    let next = prefix(STYLE).body(&messages).unwrap();
    let before = prefix(STYLE).body(&messages[..5]).unwrap();
    assert!(joined(&next).starts_with(joined(&before).strip_suffix(b"]}]}").unwrap()));
}

/// Text in the parts of a result is part of its text.
#[test]
fn texts_of_a_result_are_one_text() {
    let shown = sent(
        STYLE,
        r#"[{"role":"user","content":"x"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"k1","type":"function","function":{"name":"snap","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"k1","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"\u00e9"},
                {"type":"image_url","image_url":{"url":"https://h/a.png"}}]}]"#,
    );
    assert_eq!(shown[2]["parts"][0]["functionResponse"]["response"], json!({"output": "a\né"}));
    assert_eq!(shown[3]["parts"][1], json!({"fileData": {"mimeType": "image/png", "fileUri": "https://h/a.png"}}));
}

#[test]
fn parts_of_a_prompt_become_parts() {
    let message = Message::user_parts(&parts(
        r#"[{"type":"text","text":"look", "cache_control":{"type":"ephemeral"}},
            {"type":"image_url","image_url":{"url":"https://h/a.JPG?x=1.txt","detail":"low"}},
            {"type":"image_url","image_url":"data:image\/png;base64,iVBORw0KGgo="},
            {"type":"file","file":{"filename":"tide.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},
            {"type":"file","file":{"file_id":"https://generativelanguage.googleapis.com/v1beta/files/abc"}},
            {"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},
            {"inlineData":{"mimeType":"video/mp4", "data":"AA=="},"videoMetadata":{"fps": 1.0}},
            {"type":"video_note","n":1}]"#,
    ));
    let body = messages_of(STYLE, &[message]);
    let own = r#"{"inlineData":{"mimeType":"video/mp4", "data":"AA=="},"videoMetadata":{"fps": 1.0}}"#;
    assert!(String::from_utf8_lossy(&body).contains(own));
    assert_eq!(
        read(&body)[0]["parts"],
        json!([
            {"text": "look"},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://h/a.JPG?x=1.txt"}},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
            {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
            {"inlineData": {"mimeType": "video/mp4", "data": "AA=="}, "videoMetadata": {"fps": 1.0}},
            {"text": "[a part of type video_note is left out: this provider takes none]"},
        ])
    );
}

/// Fault J6: a name that the provider refuses is mapped where it is declared, called and answered.
#[test]
fn tool_names_are_mapped_everywhere_alike() {
    let tools = [tool_spec("3d/moor", "", "{}")];
    let messages = [
        Message::user("x"),
        Message::assistant_reply("", vec![call("k1", "3d/moor", "{}")], None),
        Message::tool_result(&CallId::new("k1"), &ToolOutput::text("ok")),
    ];
    let body = read(&body_of(STYLE, &head(None, &tools, &[]), &messages));
    let declared = &body["tools"][0]["functionDeclarations"][0]["name"];
    assert!(declared.as_str().unwrap().starts_with("_3d_moor_"));
    assert_eq!(declared, &body["contents"][1]["parts"][0]["functionCall"]["name"]);
    assert_eq!(declared, &body["contents"][2]["parts"][0]["functionResponse"]["name"]);
}

#[test]
fn addresses_name_the_model_and_the_streaming() {
    let host = "https://generativelanguage.googleapis.com";
    let one = format!("{host}/v1beta/models/m-1:generateContent");
    let table = [
        (host, "m-1", one.as_str()),
        ("https://generativelanguage.googleapis.com/", "models/m-1", one.as_str()),
        ("https://generativelanguage.googleapis.com/v1beta", "m-1", one.as_str()),
        (one.as_str(), "other", one.as_str()),
        ("https://h/v1/", "tunedModels/t", "https://h/v1/tunedModels/t:generateContent"),
        ("https://h/v1alpha", "m", "https://h/v1alpha/models/m:generateContent"),
        ("https://h/proxy/v/vault", "m", "https://h/proxy/v/vault/v1beta/models/m:generateContent"),
        (
            "https://a.googleapis.com/v1/projects/p/locations/l/publishers/google",
            "m",
            "https://a.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
        ),
        (
            "https://a.googleapis.com/v1beta1",
            "publishers/google/models/m",
            "https://a.googleapis.com/v1beta1/publishers/google/models/m:generateContent",
        ),
        ("http://v1:80", "a b?é", "http://v1:80/v1beta/models/a%20b%3F%C3%A9:generateContent"),
    ];
    for (base, model, url) in table {
        assert_eq!(STYLE.url(base, model, false), url);
        let streamed = url.replace(":generateContent", ":streamGenerateContent?alt=sse");
        assert_eq!(STYLE.url(base, model, true), streamed);
    }
    assert_eq!(STYLE.url("https://h?x=1", "m", false), "https://h/v1beta/models/m:generateContent?x=1");
    assert_eq!(STYLE.url("https://h?x=1", "m", true), "https://h/v1beta/models/m:streamGenerateContent?x=1&alt=sse");
    assert_eq!(STYLE.auth_headers("k"), [("x-goog-api-key", "k".to_owned())]);
    assert_eq!(STYLE.auth_headers(""), []);
}

/// Contract 8.5, fault A15.
#[test]
fn unbalanced_transcripts_are_refused() {
    let asks = Message::assistant_reply("", vec![call("k1", "tally", "{}"), call("k2", "tally", "{}")], None);
    let result = |id: &str| Message::tool_result(&CallId::new(id), &ToolOutput::text("7"));
    let unanswered = |id: &str| WireError::Unanswered { call: CallId::new(id), name: "tally".into() };
    let table = [
        (vec![], WireError::Empty),
        (vec![asks.clone(), result("k1")], unanswered("k2")),
        (vec![asks.clone(), result("k2"), result("k1")], unanswered("k1")),
        (vec![result("k1")], WireError::Uncalled { call: CallId::new("k1") }),
        (vec![Message::user("x"), Message::assistant_reply("y", vec![], None)], WireError::EndsWithAssistant),
    ];
    for (messages, expected) in table {
        assert_eq!(prefix(STYLE).body(&messages), Err(expected));
    }
}

/// Faults F6, B7, contract 8.3: a call of another provider has no id here, and the documented
/// signature on the first of a turn.
#[test]
fn calls_of_another_provider_are_signed_as_such() {
    let text = r#"[{"role":"user","content":"x"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"so"},
            {"type":"tool_use","id":"toolu_1","name":"tally","input":{ "n": 1.0 }},{"type":"tool_use","id":"toolu_2","name":"tally","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"7"},
            {"type":"tool_result","tool_use_id":"toolu_2","content":"8"}]}]"#;
    let body = String::from_utf8(messages_of(STYLE, &history(text))).unwrap();
    let expected = concat!(
        r#"[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"so"},"#,
        r#"{"functionCall":{"name":"tally","args":{ "n": 1.0 }},"thoughtSignature":"skip_thought_signature_validator"},"#,
        r#"{"functionCall":{"name":"tally","args":{}}}]},{"role":"user","parts":["#,
        r#"{"functionResponse":{"name":"tally","response":{"output":"7"}}},"#,
        r#"{"functionResponse":{"name":"tally","response":{"output":"8"}}}]}]"#
    );
    assert_eq!(body, expected);
}
