//! What holds for any reply and any transcript.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use toolrelay_core::message::{Call, Message};
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::Style;

use crate::{answered, asked, messages_of, turn};

/// JSON text as somebody else writes it: any spacing, number spelling and escape.
pub(crate) fn json_text() -> impl Strategy<Value = String> {
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

pub(crate) fn json_string() -> impl Strategy<Value = String> {
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

/// An item of a Responses output; reasoning only where something follows it.
fn item(at: usize, is_last: bool) -> impl Strategy<Value = String> {
    let object = |fields: String, blank: String| format!("{{{blank}{fields}}}");
    let reasoning = (json_string(), json_text(), blanks()).prop_map(move |(text, summary, blank)| {
        let kind = if is_last { "musing" } else { "reasoning" };
        object(
            format!(
                r#""type":"{kind}","id":"rs_{at}",{blank}"summary":{summary},"encrypted_content":"q{}"#,
                &text[1..]
            ),
            blank,
        )
    });
    let message = (json_string(), json_text(), blanks()).prop_map(move |(text, annotations, blank)| {
        let part = format!(r#"{{"type":"output_text","text":{blank}{text},"annotations":[{annotations}]}}"#);
        object(format!(r#""id":"msg_{at}","type":"message","role":"assistant","content":[{part}{blank}]"#), blank)
    });
    let unknown = (json_text(), blanks())
        .prop_map(move |(value, blank)| object(format!(r#""type":"mystery","data":{value}{blank}"#), blank));
    let call =
        (proptest::collection::vec((json_string(), json_text()), 0..3), blanks()).prop_map(move |(fields, blank)| {
            let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
            let arguments = Value::from(format!("{{{}}}", fields.join(",")));
            let ids = format!(r#""id":"fc_{at}","call_id":"k{at}""#);
            object(format!(r#"{ids},"type":"function_call",{blank}"name":"tally","arguments":{arguments}"#), blank)
        });
    prop_oneof![reasoning, message, unknown, call]
}

pub(crate) fn output() -> impl Strategy<Value = String> {
    let items = (0..6usize).prop_flat_map(|count| (0..count).map(|at| item(at, at + 1 == count)).collect::<Vec<_>>());
    (items, blanks()).prop_map(|(items, blank)| format!("[{}]", items.join(&format!("{blank},"))))
}

/// A part of a Gemini reply. Every call is signed.
fn part(at: usize) -> impl Strategy<Value = String> {
    let object = |fields: String, blank: String| format!("{{{blank}{fields}}}");
    let thought = (json_string(), json_string(), blanks()).prop_map(move |(text, signature, blank)| {
        object(
            format!(r#""text":"x{},"thought":true,{blank}"thoughtSignature":"x{}"#, &text[1..], &signature[1..]),
            blank,
        )
    });
    let text = (json_string(), blanks())
        .prop_map(move |(text, blank)| object(format!(r#""text":{blank}"x{}"#, &text[1..]), blank));
    let signed = (json_string(), blanks()).prop_map(move |(signature, blank)| {
        object(format!(r#""thoughtSignature":"x{},"text":"""#, &signature[1..]), blank)
    });
    let unknown = (json_text(), blanks())
        .prop_map(move |(value, blank)| object(format!(r#""executableCode":{blank}{{"mystery":{value}}}"#), blank));
    let call =
        (proptest::collection::vec((json_string(), json_text()), 0..3), blanks()).prop_map(move |(fields, blank)| {
            let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
            let args = fields.join(",");
            let id = if at.is_multiple_of(2) { format!(r#""id":"k{at}","#) } else { String::new() };
            let call = format!(r#"{{{id}"name":"tally",{blank}"args":{{{args}}}}}"#);
            object(format!(r#""functionCall":{call},"thoughtSignature":"c2ln\/{at}""#), blank)
        });
    prop_oneof![thought, text, signed, unknown, call]
}

fn model_parts() -> impl Strategy<Value = String> {
    let parts = (0..6usize).prop_flat_map(|count| (0..count).map(part).collect::<Vec<_>>());
    (parts, blanks()).prop_map(|(parts, blank)| format!("[{}]", parts.join(&format!("{blank},"))))
}

/// Whether a reply goes back as it came.
fn is_sent(style: Style, messages: &[Message], raw: &str) -> bool {
    let body = String::from_utf8(messages_of(style, messages)).unwrap();
    let sent = match style {
        Style::OpenAi => raw.to_owned(),
        Style::OpenAiResponses => format!(r#"{{"role":"user","content":"x"}},{},"#, &raw[1..raw.len() - 1]),
        Style::Anthropic => format!(r#"{{"role":"assistant","content":{raw}}}"#),
        Style::Gemini => format!(r#"{{"role":"model","parts":{raw}}}"#),
    };
    raw == "[]" || body.contains(&sent)
}

proptest! {
    /// Contract 8.2: a model's blocks go back byte for byte, also after the transcript was saved as
    /// JSON, and after that JSON went through somebody else's values.
    #[test]
    fn blocks_go_back_byte_for_byte(content in content(), output in output(), parts in model_parts()) {
        let anthropic = format!(r#"{{"content":{content},"stop_reason":"tool_use"}}"#);
        let responses = format!(r#"{{"output":{output}}}"#);
        let gemini = format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":{parts}}}}}]}}"#);
        for (style, body, raw) in
            [(Style::Anthropic, anthropic, content), (Style::OpenAiResponses, responses, output), (Style::Gemini, gemini, parts)]
        {
            let reply = style.decode(body.as_bytes()).unwrap();
            let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_deref().unwrap_or("call_0")).collect();
            let messages = turn(&reply, &ids);
            prop_assert!(is_sent(style, &messages, &raw));

            let saved = Transcript::new(messages).to_json();
            let loaded = Transcript::from_json(Bytes::from(saved.clone())).unwrap();
            prop_assert!(is_sent(style, loaded.messages(), &raw));
            prop_assert_eq!(&loaded.to_json(), &saved);

            let value: Value = serde_json::from_slice(&saved).unwrap();
            let loaded = Transcript::from_json(Bytes::from(value.to_string())).unwrap();
            prop_assert!(is_sent(style, loaded.messages(), &raw));
        }
    }

    /// Contract 1.2: the argument text is the very slice of the reply.
    #[test]
    fn argument_text_is_kept(fields in proptest::collection::vec((json_string(), json_text()), 0..4)) {
        let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key} :{value}")).collect();
        let input = format!("{{ {} }}", fields.join(","));
        let anthropic = format!(r#"{{"content":[{{"type":"tool_use","id":"k","name":"n","input":{input}}}]}}"#);
        let quoted = Value::from(input.as_str());
        let openai = format!(r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"k","function":{{"name":"n","arguments":{quoted}}}}}]}}}}]}}"#);
        let responses = format!(r#"{{"output":[{{"type":"function_call","call_id":"k","name":"n","arguments":{quoted}}}]}}"#);
        let gemini = format!(r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"n","args":{input}}}}}]}}}}]}}"#);
        for (style, body) in
            [(Style::Anthropic, anthropic), (Style::OpenAi, openai), (Style::OpenAiResponses, responses), (Style::Gemini, gemini)]
        {
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
        for style in Style::ALL {
            let build = || messages_of(style, Transcript::from_json(Bytes::from(saved.clone())).unwrap().messages());
            let shown: Value = serde_json::from_slice(&build()).unwrap();
            prop_assert_eq!(build(), build());
            prop_assert_eq!(asked(style, &shown).len(), calls.len());
            prop_assert_eq!(asked(style, &shown), answered(style, &shown));
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
        Style::OpenAiResponses => format!(
            r#"{{"output":[{{"type":{role}}},{{"type":"message","content":{content}}},{more},{{"type":"reasoning","summary":{content},"encrypted_content":{id}}},
                {{"type":"function_call","id":{more},"call_id":{id},"name":{name},"arguments":{arguments}}},{{"arguments":{more},"type":"function_call"}}],
                "incomplete_details":{reason},"usage":{usage},"model":{more}}}"#
        ),
        Style::Anthropic => format!(
            r#"{{"content":[{{"type":{role}}},{{"type":"text","text":{content}}},{more},
                {{"type":"tool_use","id":{id},"name":{name},"input":{arguments}}},{{"input":{more},"type":"tool_use"}}],
                "stop_reason":{reason},"usage":{usage},"model":{more}}}"#
        ),
        Style::Gemini => format!(
            r#"{{"candidates":[{{"content":{{"role":{role},"parts":[{{"text":{content}}},{more},{{"thoughtSignature":{id},
                "functionCall":{{"id":{id},"name":{name},"args":{arguments}}}}},{{"functionCall":{more}}},
                {{"functionCall":{{"args":{more}}},"thought":{role}}}]}},"finishReason":{reason}}}],
                "usageMetadata":{usage},"modelVersion":{more}}}"#
        ),
    }
}

proptest! {
    /// Contract 9.5: whatever stands in a reply, it is read or refused, and what was read can be
    /// sent again in any style, with every call in its place.
    #[test]
    fn odd_replies_are_read_or_refused(odd in proptest::array::uniform8(odd()), cut in 0usize..2_000) {
        for style in Style::ALL {
            let body = odd_reply(style, &odd);
            let cut = (0..=cut.min(body.len())).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
            prop_assert!(cut == body.len() || style.decode(&body.as_bytes()[..cut]).is_err());
            let Ok(reply) = style.decode(body.as_bytes()) else { continue };
            prop_assert!(reply.calls.len() >= 2);
            let ids: Vec<String> = (0..reply.calls.len()).map(|at| format!("call_{at}")).collect();
            let messages = turn(&reply, &ids.iter().map(String::as_str).collect::<Vec<_>>());
            for style in Style::ALL {
                let shown: Value = serde_json::from_slice(&messages_of(style, &messages)).unwrap();
                let asked = asked(style, &shown);
                prop_assert_eq!(&asked, &answered(style, &shown));
                prop_assert_eq!(asked.len(), ids.len());
                prop_assert!(style == Style::Gemini || asked == ids);
            }
        }
    }
}
