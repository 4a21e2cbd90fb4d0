//! What holds for any reply and any transcript.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use toolrelay_core::message::{Call, Message};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;

use crate::{messages_of, turn};

/// JSON text as somebody else writes it: any spacing, number spelling and escape.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,3})?([eE][+-]?[0-9])?",
        json_string(),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , ")));
        let fields = proptest::collection::vec((json_string(), blanks(), inner), 0..4);
        let object = fields.prop_map(|fields| {
            let fields: Vec<String> =
                fields.into_iter().map(|(key, blank, value)| format!("{key}:{blank}{value}")).collect();
            format!("{{ {}}}", fields.join(","))
        });
        prop_oneof![list, object]
    })
}

fn json_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -!#-\\[\\]-~é\u{1f600}\u{2028}]{1,4}",
        Just("\\u00e9".to_owned()),
        Just("\\ud83d\\ude00".to_owned()),
        Just("\\/".to_owned()),
        Just("\\n".to_owned()),
        Just("\\\\u0000".to_owned()),
        Just("\\b\\f".to_owned()),
        Just("\\\"".to_owned()),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn blanks() -> impl Strategy<Value = String> {
    "[ \n]{0,2}"
}

fn block(at: usize) -> impl Strategy<Value = String> {
    let object = |fields: String, blank: String| format!("{{{blank}{fields}}}");
    let thinking = (json_string(), json_string(), blanks()).prop_map(move |(text, signature, blank)| {
        object(format!(r#""type":"thinking",{blank}"thinking":{text},"signature":{signature}"#), blank)
    });
    let text = (json_string(), blanks()).prop_map(move |(text, blank)| {
        object(format!(r#""type":"text","text":{blank}{}"#, text.replacen('"', "\"x", 1)), blank)
    });
    let unknown = (json_text(), blanks())
        .prop_map(move |(value, blank)| object(format!(r#""type":"mystery","data":{value}{blank}"#), blank));
    let call =
        (proptest::collection::vec((json_string(), json_text()), 0..3), blanks()).prop_map(move |(fields, blank)| {
            let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
            let input = fields.join(",");
            object(format!(r#""type":"tool_use","id":"k{at}","name":"tally",{blank}"input":{{{input}}}"#), blank)
        });
    prop_oneof![thinking, text, unknown, call]
}

fn content() -> impl Strategy<Value = String> {
    let blocks = (0..6usize).prop_flat_map(|count| (0..count).map(block).collect::<Vec<_>>());
    (blocks, blanks()).prop_map(|(blocks, blank)| format!("[{}]", blocks.join(&format!("{blank},"))))
}

fn is_sent(messages: &[Message], content: &str) -> bool {
    let body = String::from_utf8(messages_of(Style::Anthropic, messages)).unwrap();
    content == "[]" || body.contains(&format!(r#"{{"role":"assistant","content":{content}}}"#))
}

proptest! {
    /// Contract 8.2: a model's blocks go back byte for byte, also after the transcript was saved as
    /// JSON, and after that JSON went through somebody else's values.
    #[test]
    fn blocks_go_back_byte_for_byte(content in content()) {
        let body = format!(r#"{{"content":{content},"stop_reason":"tool_use"}}"#);
        let reply = Style::Anthropic.decode(body.as_bytes()).unwrap();
        let ids: Vec<&str> = reply.calls.iter().filter_map(|call| call.id.as_deref()).collect();
        let messages = turn(&reply, &ids);
        prop_assert!(is_sent(&messages, &content));

        let saved = Transcript::new(messages).to_json();
        let loaded = Transcript::from_json(Bytes::from(saved.clone())).unwrap();
        prop_assert!(is_sent(loaded.messages(), &content));
        prop_assert_eq!(&loaded.to_json(), &saved);

        let value: Value = serde_json::from_slice(&saved).unwrap();
        let loaded = Transcript::from_json(Bytes::from(value.to_string())).unwrap();
        prop_assert!(is_sent(loaded.messages(), &content));
    }

    /// Contract 1.2: the argument text is the very slice of the reply.
    #[test]
    fn argument_text_is_kept(fields in proptest::collection::vec((json_string(), json_text()), 0..4)) {
        let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key} :{value}")).collect();
        let input = format!("{{ {} }}", fields.join(","));
        let anthropic = format!(r#"{{"content":[{{"type":"tool_use","id":"k","name":"n","input":{input}}}]}}"#);
        let quoted = Value::from(input.as_str());
        let openai = format!(r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"k","function":{{"name":"n","arguments":{quoted}}}}}]}}}}]}}"#);
        for (style, body) in [(Style::Anthropic, anthropic), (Style::OpenAi, openai)] {
            let reply = style.decode(body.as_bytes()).unwrap();
            prop_assert_eq!(&reply.calls[0].arguments, &input);
        }
    }

    /// Contract 1.7: two builds of a request from the same stored transcript are equal, whatever the
    /// ids, names and arguments are, and each is JSON with every call paired.
    #[test]
    fn requests_are_stable_and_paired(calls in proptest::collection::vec((".{1,50}", ".{0,80}", ".{0,20}"), 1..4)) {
        let mut calls: Vec<Call> = calls.into_iter().map(|(id, name, arguments)| crate::call(&id, &name, &arguments)).collect();
        calls.sort_by(|one, other| one.id.cmp(&other.id));
        calls.dedup_by(|one, other| one.id == other.id);
        let mut messages = vec![Message::user("x"), Message::assistant_reply("", calls.clone(), None)];
        messages.extend(calls.iter().map(|call| Message::tool_result(&call.id, &toolrelay_core::tool::ToolOutput::text("7"))));
        let saved = Transcript::new(messages).to_json();
        for (style, call_path, result_key) in [(Style::OpenAi, "/1/tool_calls", "tool_call_id"), (Style::Anthropic, "/1/content", "tool_use_id")] {
            let build = || messages_of(style, Transcript::from_json(Bytes::from(saved.clone())).unwrap().messages());
            let shown: Value = serde_json::from_slice(&build()).unwrap();
            prop_assert_eq!(build(), build());
            let asked: Vec<&Value> = shown.pointer(call_path).unwrap().as_array().unwrap().iter().map(|call| &call["id"]).collect();
            let results = match style {
                Style::OpenAi => &shown.as_array().unwrap()[2..],
                Style::Anthropic => shown[2]["content"].as_array().unwrap(),
            };
            let answered: Vec<&Value> = results.iter().map(|result| &result[result_key]).collect();
            prop_assert_eq!(asked, answered);
        }
    }
}

proptest! {
    /// Every text is escaped as serde_json does it, NUL apart.
    #[test]
    fn strings_are_escaped(text in "[\\x00-\\x7fé\u{2028}\u{1f600}]{0,40}") {
        let mut out = Vec::new();
        toolrelay_core::json::push_str(&mut out, &text);
        prop_assert_eq!(String::from_utf8(out).unwrap(), Value::from(text.replace('\0', "\u{fffd}")).to_string());
    }
}

/// A value that a provider may put where another type is due.
fn odd() -> impl Strategy<Value = String> {
    prop_oneof![json_text(), json_string(), Just("null".to_owned()), Just("{}".to_owned()), Just("[]".to_owned())]
}

fn odd_reply(style: Style, odd: &[String; 8]) -> String {
    let [role, content, id, name, arguments, reason, usage, more] = odd;
    match style {
        Style::OpenAi => format!(
            r#"{{"choices":[{{"message":{{"role":{role},"content":{content},"mystery":{more},"tool_calls":[
                {{"id":{id},"function":{{"name":{name},"arguments":{arguments}}}}},{{"id":"k","function":{{"arguments":{more}}}}}]}},
                "finish_reason":{reason}}}],"usage":{usage},"model":{more}}}"#
        ),
        Style::Anthropic => format!(
            r#"{{"content":[{{"type":{role}}},{{"type":"text","text":{content}}},{more},
                {{"type":"tool_use","id":{id},"name":{name},"input":{arguments}}},{{"input":{more},"type":"tool_use"}}],
                "stop_reason":{reason},"usage":{usage},"model":{more}}}"#
        ),
    }
}

proptest! {
    /// Contract 9.5: whatever stands in a reply, it is read or refused, and what was read can be
    /// sent again to either style, with every call in its place.
    #[test]
    fn odd_replies_are_read_or_refused(odd in proptest::array::uniform8(odd()), cut in 0usize..2_000) {
        for style in [Style::OpenAi, Style::Anthropic] {
            let body = odd_reply(style, &odd);
            let cut = (0..=cut.min(body.len())).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
            prop_assert!(cut == body.len() || style.decode(&body.as_bytes()[..cut]).is_err());
            let Ok(reply) = style.decode(body.as_bytes()) else { continue };
            prop_assert!(reply.calls.len() >= 2);
            let ids: Vec<String> = (0..reply.calls.len()).map(|at| format!("call_{at}")).collect();
            let messages = turn(&reply, &ids.iter().map(String::as_str).collect::<Vec<_>>());
            for style in [Style::OpenAi, Style::Anthropic] {
                let shown: Value = serde_json::from_slice(&messages_of(style, &messages)).unwrap();
                let sent: Vec<&Value> = match style {
                    Style::OpenAi => shown[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect(),
                    Style::Anthropic => {
                        let blocks = shown[1]["content"].as_array().unwrap().iter();
                        blocks.filter(|block| block["type"] == "tool_use").map(|block| &block["id"]).collect()
                    }
                };
                prop_assert_eq!(sent, ids.iter().collect::<Vec<_>>());
            }
        }
    }
}
