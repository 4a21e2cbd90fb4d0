//! Transcripts that move from one style to another (contract 8.3).

use bytes::Bytes;
use serde_json::json;
use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::tool::{Outcome, ToolOutput};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;

use crate::{answered, asked, call, messages_of, parts, read, sent};

const IMAGE: &str =
    r#"[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]"#;

/// A reply with a thought, a text and two calls: its body, and what of it no other style can take.
fn reply(style: Style) -> (&'static str, &'static str) {
    match style {
        Style::OpenAi => (
            r#"{"choices":[{"message":{"role":"assistant","content":"so be it","reasoning_content":"hmm","tool_calls":[
                {"id":"k1","type":"function","function":{"name":"snap","arguments":"{\"n\":1}"}},
                {"id":"k2","type":"function","function":{"name":"moor","arguments":"{}"}}]}}]}"#,
            r#""reasoning_content":"hmm""#,
        ),
        Style::OpenAiResponses => (
            r#"{"output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hmm"}],"encrypted_content":"c2ln"},
                {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"so be it"}]},
                {"type":"function_call","id":"fc_1","call_id":"k1","name":"snap","arguments":"{\"n\":1}"},
                {"type":"web_search_call","id":"ws_1","status":"completed"},
                {"type":"function_call","id":"fc_2","call_id":"k2","name":"moor","arguments":"{}"}]}"#,
            r#""text":"hmm"}],"encrypted_content":"c2ln"}"#,
        ),
        Style::Anthropic => (
            r#"{"content":[{"type":"thinking","thinking":"hmm","signature":"c2ln"},{"type":"text","text":"so be it"},
                {"type":"tool_use","id":"k1","name":"snap","input":{"n":1}},
                {"type":"server_tool_use","id":"ws_1","name":"web_search","input":{}},
                {"type":"tool_use","id":"k2","name":"moor","input":{}}]}"#,
            r#""thinking":"hmm","signature":"c2ln""#,
        ),
        Style::Gemini => (
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hmm","thought":true},{"text":"so be it"},
                {"functionCall":{"id":"k1","name":"snap","args":{"n":1}},"thoughtSignature":"c2ln"},
                {"executableCode":{"language":"PYTHON","code":"ws_1"}},
                {"functionCall":{"id":"k2","name":"moor","args":{}}}]}}]}"#,
            r#""thoughtSignature":"c2ln""#,
        ),
    }
}

/// A prompt with an image, that reply, a result with an image and one that failed, as they were saved.
fn transcript(style: Style) -> Transcript {
    let reply = style.decode(reply(style).0.as_bytes()).unwrap();
    let calls = vec![call("k1", "snap", r#"{"n":1}"#), call("k2", "moor", "{}")];
    let snapped = ToolOutput { text: "a chart".into(), parts: Some(parts(IMAGE)), outcome: Outcome::Ok };
    let messages = vec![
        Message::user_parts(&parts(IMAGE)),
        Message::assistant_reply(&reply.text, calls, reply.provider),
        Message::tool_result(&CallId::new("k1"), &snapped),
        Message::tool_result(&CallId::new("k2"), &ToolOutput::failed(Outcome::Error, "the reef")),
        Message::user("go on"),
    ];
    Transcript::from_json(Bytes::from(Transcript::new(messages).to_json())).unwrap()
}

#[test]
fn every_style_takes_the_transcripts_of_every_other() {
    for from in Style::ALL {
        let transcript = transcript(from);
        for to in Style::ALL {
            let body = messages_of(to, transcript.messages());
            let (shown, text) = (read(&body), String::from_utf8(body).unwrap());
            let calls = if to == Style::Gemini { ["snap", "moor"] } else { ["k1", "k2"] };
            assert_eq!(asked(to, &shown), calls, "{from:?} to {to:?}: {text}");
            assert_eq!(answered(to, &shown), calls, "{from:?} to {to:?}: {text}");
            for said in ["so be it", "a chart", "the reef", "go on"] {
                assert_eq!(text.matches(said).count(), 1, "{said} from {from:?} to {to:?}: {text}");
            }
            assert_eq!(text.matches("iVBORw0KGgo=").count(), 2, "{from:?} to {to:?}: {text}");
            let (_, own) = reply(from);
            assert_eq!(text.contains(own), from == to, "{from:?} to {to:?}: {text}");
            let foreign = ["hmm", "c2ln", "rs_1", "msg_1", "fc_1", "ws_1"].iter().any(|word| text.contains(word));
            assert_eq!(foreign, from == to, "{from:?} to {to:?}: {text}");
        }
    }
}

/// Fault C13: an empty text is no output in whatever shape it comes, and on every wire.
#[test]
fn result_of_empty_texts_is_no_output() {
    for content in
        [r#""""#, "null", "[]", r#"[{"type":"text","text":""}]"#, r#"[{"type":"text","text":null},{"type":"text"}]"#]
    {
        let history = format!(
            r#"[{{"role":"user","content":"x"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"k1","type":"function","function":{{"name":"tally","arguments":"{{}}"}}}}]}},
                {{"role":"tool","tool_call_id":"k1","content":{content}}}]"#
        );
        let results = [
            sent(Style::OpenAi, &history)[2]["content"].take(),
            sent(Style::OpenAiResponses, &history)[2]["output"].take(),
            sent(Style::Anthropic, &history)[2]["content"][0]["content"].take(),
            sent(Style::Gemini, &history)[2]["parts"][0]["functionResponse"]["response"]["output"].take(),
        ];
        assert_eq!(results, ["(no output)"; 4], "{content}");
    }
}

/// A file that is base64 alone is data, not an address.
#[test]
fn bare_base64_of_a_file_is_data() {
    let history = r#"[{"role":"user","content":[{"type":"file","file":{"file_data":"JVBERi0="}}]}]"#;
    assert_eq!(
        sent(Style::Anthropic, history)[0]["content"][0]["source"],
        json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="})
    );
    assert_eq!(
        sent(Style::Gemini, history)[0]["parts"][0],
        json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}})
    );
}

#[test]
fn a_file_is_fetched_from_its_address() {
    let history = r#"[{"role":"user","content":[{"type":"file","file":{"file_url":"https://h/a.pdf"}}]}]"#;
    let part = |style| sent(style, history)[0].clone();
    assert_eq!(
        part(Style::Anthropic)["content"][0],
        json!({"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}})
    );
    assert_eq!(
        part(Style::OpenAiResponses)["content"][0],
        json!({"type": "input_file", "file_url": "https://h/a.pdf"})
    );
    assert_eq!(
        part(Style::Gemini)["parts"][0],
        json!({"fileData": {"mimeType": "application/pdf", "fileUri": "https://h/a.pdf"}})
    );
}

/// Contract 8.3: to Gemini a file is a URI; the id that another provider gave is none.
#[test]
fn a_file_that_another_provider_keeps_is_left_out_with_a_note() {
    for id in ["file-abc", "file_1", ""] {
        let history = format!(r#"[{{"role":"user","content":[{{"type":"file","file":{{"file_id":"{id}"}}}}]}}]"#);
        let note = json!({"text": "[a file is left out: this provider does not have it]"});
        assert_eq!(sent(Style::Gemini, &history)[0]["parts"], json!([note]), "{id}");
    }
}
