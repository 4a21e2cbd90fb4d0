//! Histories in the Messages shape.

use serde_json::json;
use toolrelay_core::message::Message;
use toolrelay_core::wire::Style;

use crate::{history, messages_of, read, sent};

const THINKING: &str = r#"[ {"type":"thinking","thinking":"hm","signature":"c2ln"},
    {"type":"text","text":"caf\u00e9"},{"type":"tool_use","id":"toolu_1","name":"tally","input":{ "n": 1.0 }}]"#;

/// Contract 6.11: the calls are known, the blocks stay as they are.
#[test]
fn blocks_of_a_model_are_kept() {
    let text = format!(
        r#"[{{"role":"user","content":"hi"}},{{"role":"assistant","content":{THINKING}}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_1","content":"7"}}]}}]"#
    );
    let messages = history(&text);
    let calls = messages[1].calls();
    assert_eq!(
        (calls[0].id.as_str(), calls[0].name.as_str(), calls[0].arguments.as_str()),
        ("toolu_1", "tally", r#"{ "n": 1.0 }"#)
    );
    assert_eq!(messages[1].text(), "café");
    assert_eq!(messages[1].assistant().unwrap().provider.as_ref().unwrap().raw, THINKING);
    let body = String::from_utf8(messages_of(Style::Anthropic, &messages)).unwrap();
    assert!(body.contains(THINKING.trim_start_matches("[ ")), "{body}");
    assert_eq!(
        read(&messages_of(Style::OpenAi, &messages)),
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "café", "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "tally", "arguments": "{ \"n\": 1.0 }"}}]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "7"},
        ])
    );
}

#[test]
fn plain_blocks_need_no_second_copy() {
    let text = r#"[{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"k1","name":"tally","input":{}}]}]"#;
    assert_eq!(history(text)[0].assistant().unwrap().provider, None);
}

/// Fault A7: the results come first, the text after them.
#[test]
fn text_before_a_result_moves_behind_it() {
    let shown = sent(
        Style::Anthropic,
        r#"[{"role":"user","content":"hi"},
            {"role":"assistant","content":[{"type":"tool_use","id":"k1","name":"tally","input":{}},{"type":"tool_use","id":"k2","name":"tally","input":{}}]},
            {"role":"user","content":[{"type":"text","text":"also: hurry"},
                {"type":"tool_result","tool_use_id":"k1","content":"7"},
                {"type":"tool_result","tool_use_id":"k2","is_error":true,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}]"#,
    );
    assert_eq!(
        shown[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "k1", "content": "7"},
            {"type": "tool_result", "tool_use_id": "k2", "content": "a\nb", "is_error": true},
            {"type": "text", "text": "also: hurry"},
        ]})
    );
}

#[test]
fn images_and_documents_take_the_canonical_shape_and_go_back() {
    let blocks = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "source": {"type": "url", "url": "https://h/a.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}, "title": "tide.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "high at 7 – ebb"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
    ]);
    let text = json!([{"role": "user", "content": blocks}]).to_string();
    let messages = history(&text);
    assert_eq!(
        read(messages[0].json()),
        json!({"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image_url", "image_url": {"url": "https://h/a.png"}},
            {"type": "file", "file": {"filename": "tide.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
            {"type": "file", "file": {"file_data": "data:text/plain;base64,aGlnaCBhdCA3IOKAkyBlYmI="}},
            {"type": "file", "file": {"file_id": "file_1"}},
            {"type": "search_result", "source": "s", "title": "t", "content": []},
        ]})
    );
    assert_eq!(read(&messages_of(Style::Anthropic, &messages))[0]["content"], blocks);
}

#[test]
fn images_in_results_ride_beside_the_text() {
    let text = r#"[{"role":"assistant","content":[{"type":"tool_use","id":"k1","name":"snap","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","content":[{"type":"text","text":"chart"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}]"#;
    let messages = history(text);
    assert_eq!(messages[1].text(), "chart");
    let parts = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]"#;
    assert_eq!(messages[1].parts().unwrap().get(), parts);
}

/// An unfinished turn of the provider's own tools may be sent back as it is (fault E4).
#[test]
fn unfinished_server_tool_is_a_pause() {
    let text = r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}]}]"#;
    let paused = |message: &Message| message.assistant().unwrap().provider.as_ref().unwrap().paused;
    assert!(paused(&history(text)[1]));
    assert_eq!(sent(Style::Anthropic, text)[1]["content"][0]["type"], "server_tool_use");
}

/// Lists of OpenAI parts, also ones with thoughts in them, are no blocks.
#[test]
fn parts_of_the_openai_shape_stay() {
    for text in [
        r#"{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"x"}]}"#,
    ] {
        assert_eq!(history(&format!("[{text}]"))[0].json(), text.as_bytes());
    }
}
