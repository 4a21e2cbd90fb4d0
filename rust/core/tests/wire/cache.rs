//! Marks for the prompt cache of Messages, and what they leave alone.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrelay_core::json::Json;
use toolrelay_core::message::{Call, Message};
use toolrelay_core::tool::{Outcome, ToolOutput, ToolSpec};
use toolrelay_core::wire::profile::{CacheControl, Profile};
use toolrelay_core::wire::{Head, Style};

use crate::{body_of, call, head, history, parts, read, tool_spec};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn server(marks: Option<CacheControl>) -> Arc<Profile> {
    Arc::new(Profile { cache_control: marks, ..Profile::default() })
}

struct Asked<'a> {
    marks: Option<CacheControl>,
    wish: Option<bool>,
    system: Option<&'a str>,
    tools: &'a [ToolSpec],
    params: &'a [(String, Json)],
}

fn body(asked: &Asked<'_>, messages: &[Message]) -> Value {
    let profile = server(asked.marks);
    let head =
        Head { profile: Some(&profile), prompt_cache: asked.wish, ..head(asked.system, asked.tools, asked.params) };
    read(&body_of(Style::Anthropic, &head, messages))
}

/// The places of the marks.
fn marks(value: &Value) -> Vec<String> {
    fn walk(value: &Value, place: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    if key == "cache_control" {
                        found.push(place.to_owned());
                    }
                    walk(field, &format!("{place}/{key}"), found);
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{place}/{at}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

#[test]
fn tools_and_system_prompt_are_marked_and_the_end_of_the_prompt() {
    let tools = [tool_spec("tally", "", "{}"), tool_spec("moor", "", "{}")];
    let go = [Message::user("go")];
    let asked =
        |known, wish, system, tools| marks(&body(&Asked { marks: known, wish, system, tools, params: &[] }, &go));
    let (request, blocks) = (Some(CacheControl::Request), Some(CacheControl::Blocks));
    assert_eq!(asked(request, None, Some("be brief"), &tools), ["", "/system/0"]);
    assert_eq!(asked(request, None, None, &tools), ["/tools/1", ""]);
    assert_eq!(asked(blocks, None, Some("be brief"), &tools), ["/system/0", "/messages/0/content/0"]);
    assert_eq!(asked(blocks, Some(true), None, &[]), ["/messages/0/content/0"]);
    assert_eq!(asked(None, Some(true), None, &tools), ["/tools/1", "/messages/0/content/0"]);
    // Where nothing would be read again, nobody knows the marks, or they are not wanted:
    let none = Vec::<String>::new();
    assert_eq!(asked(request, None, Some("be brief"), &[]), none);
    assert_eq!(asked(None, None, Some("be brief"), &tools), none);
    assert_eq!(asked(request, Some(false), Some("be brief"), &tools), none);
}

/// Marks that live longer must come first, and there are four at most.
#[test]
fn a_callers_own_marks_are_the_only_ones() {
    let tools = [tool_spec("tally", "", "{}")];
    let own = [
        ("cache_control", r#"{"type":"ephemeral","ttl":"1h"}"#, vec![""]),
        ("cache_control", "null", vec![]),
        ("system", r#"[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]"#, vec!["/system/0"]),
    ];
    for (key, value, expected) in own {
        let params = [(key.to_owned(), parts(value))];
        let asked = Asked {
            marks: Some(CacheControl::Request),
            wish: Some(true),
            system: Some("be brief"),
            tools: &tools,
            params: &params,
        };
        assert_eq!(marks(&body(&asked, &[Message::user("go")])), expected, "{key}: {value}");
    }
}

#[test]
fn a_block_that_is_marked_already_is_left_alone() {
    let marked = r#"[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"},"cache_control":{"type":"ephemeral"}}]}]"#;
    let asked = Asked { marks: None, wish: Some(true), system: None, tools: &[], params: &[] };
    let shown = body(&asked, &history(marked));
    assert!(marks(&shown).len() <= 1, "{shown}");
}

/// The mark is put behind the very bytes of the message: none is encoded anew for it.
#[test]
fn the_moving_mark_costs_no_message() {
    let profile = server(Some(CacheControl::Blocks));
    let prefix =
        Style::Anthropic.head(&Head { profile: Some(&profile), prompt_cache: Some(true), ..head(None, &[], &[]) });
    let prefix = prefix.unwrap();
    let mut messages = vec![Message::user("go")];
    let first = prefix.body(&messages).unwrap();
    messages.push(Message::assistant_reply("", vec![call("k1", "tally", "{}")], None));
    messages.push(Message::tool_result(&messages[1].calls()[0].id, &ToolOutput::text("7")));
    let second = prefix.body(&messages).unwrap();
    let place = |body: &toolrelay_core::wire::Body, text: &[u8]| {
        let chunk = body.chunks.iter().find(|chunk| chunk.windows(text.len()).any(|part| part == text));
        chunk.map(|chunk| chunk.as_ptr())
    };
    assert_eq!(place(&first, br#""text":"go""#), place(&second, br#""text":"go""#));
    assert_eq!(
        read(&second.chunks.concat())["messages"][2]["content"][0]["cache_control"],
        json!({"type": "ephemeral"})
    );
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![Just(Outcome::Ok), Just(Outcome::Error), Just(Outcome::Declined)];
    let calls = proptest::collection::vec(("[a-z:]{1,12}", ".{0,8}", outcome, any::<bool>()), 0..4);
    (".{0,12}", calls, proptest::option::of("[a-z].{0,7}")).prop_map(|(text, calls, prompt)| Step {
        text,
        calls,
        prompt,
    })
}

/// One reply, its results, and what the user says next.
#[derive(Clone, Debug)]
struct Step {
    text: String,
    calls: Vec<(String, String, Outcome, bool)>,
    prompt: Option<String>,
}

impl Step {
    fn push_to(&self, messages: &mut Vec<Message>) {
        let ids = self.calls.iter().enumerate();
        let calls: Vec<Call> =
            ids.map(|(at, (name, text, ..))| call(&format!("k.{}.{at}", messages.len()), name, text)).collect();
        messages.push(Message::assistant_reply(&self.text, calls.clone(), None));
        for (call, (_, text, outcome, image)) in calls.iter().zip(&self.calls) {
            let image = image
                .then(|| parts(r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]"#));
            messages.push(Message::tool_result(
                &call.id,
                &ToolOutput { text: text.clone(), parts: image, outcome: *outcome },
            ));
        }
        if self.calls.is_empty() || self.prompt.is_some() {
            messages.push(Message::user(self.prompt.as_deref().unwrap_or("go on")));
        }
    }
}

/// What of a request must be the start of the next: all but the closing brackets and the moving mark.
fn kept(body: &[u8], closing: &str, moves: bool) -> Vec<u8> {
    let kept = body.strip_suffix(closing.as_bytes()).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(body)));
    if !moves {
        return kept.to_vec();
    }
    let unmarked = kept.strip_suffix(format!("{MARK}}}").as_bytes()).unwrap();
    [unmarked, b"}"].concat()
}

proptest! {
    /// Bytes already sent are the start of the next request, whatever the transcript grows by, for each
    /// style and server, marks and all.
    #[test]
    fn bytes_already_sent_are_the_start_of_the_next_request(
        steps in proptest::collection::vec(step(), 1..6), has_tools in any::<bool>(), asked in any::<bool>(),
    ) {
        let tools = [tool_spec("tally", "", "{}")];
        let tools = if has_tools { &tools[..] } else { &[] };
        let servers = [Style::ALL.map(|style| (style, Arc::new(Profile::default()))).to_vec()];
        let named = toolrelay_core::wire::profile::NAMES.iter().map(|name| Profile::named(name).unwrap());
        let named = named.map(|(style, profile)| (style, Arc::new(profile)));
        for (style, profile) in servers.into_iter().flatten().chain(named) {
            let head = Head {
                profile: Some(&profile), prompt_cache: Some(asked), ..head(Some("be brief"), tools, &[])
            };
            let moves = asked && style == Style::Anthropic && profile.cache_control.is_none();
            let prefix = style.head(&head).unwrap();
            let closing = match style {
                Style::OpenAi | Style::OpenAiResponses => "]}",
                Style::Anthropic | Style::Gemini => "]}]}",
            };
            let mut messages = vec![Message::user("go")];
            let mut before = prefix.body(&messages).unwrap().chunks.concat();
            for step in &steps {
                step.push_to(&mut messages);
                // Without tools, Messages declares those that the history calls, before the messages.
                if style == Style::Anthropic && !has_tools && !step.calls.is_empty() {
                    break;
                }
                let next = prefix.body(&messages).unwrap().chunks.concat();
                prop_assert!(serde_json::from_slice::<Value>(&next).is_ok());
                let start = kept(&before, closing, moves);
                prop_assert!(next.starts_with(&start), "{style:?}: {} then {}", String::from_utf8_lossy(&before), String::from_utf8_lossy(&next));
                before = next;
            }
        }
    }
}
