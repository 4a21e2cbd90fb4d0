//! Tool choice and parallel calls, in each style's words.

use serde_json::{Value, json};
use toolrelay_core::json::Json;
use toolrelay_core::message::Message;
use toolrelay_core::tool::ToolSpec;
use toolrelay_core::wire::names::wire_name;
use toolrelay_core::wire::{Head, Style, ToolChoice, WireError};

use crate::{body_of, head, parts, read, tool_spec};

fn tools() -> [ToolSpec; 2] {
    [tool_spec("tally", "", "{}"), tool_spec("dock/moor.boat", "", "{}")]
}

/// What a request says beside its model, tools, messages and limits.
fn said(style: Style, choice: Option<&ToolChoice>, parallel: Option<bool>, params: &[(String, Json)]) -> Value {
    let tools = tools();
    let head = Head { tool_choice: choice, parallel_tool_calls: parallel, ..head(None, &tools, params) };
    let mut body = read(&body_of(style, &head, &[Message::user("hi")]));
    let fields = body.as_object_mut().unwrap();
    for key in ["model", "tools", "messages", "input", "contents", "max_tokens", "store", "include"] {
        fields.remove(key);
    }
    body
}

#[test]
fn each_choice_has_its_words_in_each_style() {
    let moor = ToolChoice::Tool("dock/moor.boat".into());
    let wire = wire_name("dock/moor.boat");
    let mode = |mode: Value| json!({"toolConfig": {"functionCallingConfig": mode}});
    let (none, any) = (mode(json!({"mode": "NONE"})), mode(json!({"mode": "ANY"})));
    let one = mode(json!({"mode": "ANY", "allowedFunctionNames": [wire]}));
    let table = [
        (None, None, json!({}), json!({}), json!({})),
        (Some(ToolChoice::Auto), Some(true), json!({"parallel_tool_calls": true}), json!({}), json!({})),
        (
            Some(ToolChoice::None),
            None,
            json!({"tool_choice": "none"}),
            json!({"tool_choice": {"type": "none"}}),
            none.clone(),
        ),
        (
            Some(ToolChoice::None),
            Some(false),
            json!({"tool_choice": "none", "parallel_tool_calls": false}),
            json!({"tool_choice": {"type": "none"}}),
            none,
        ),
        (
            Some(ToolChoice::Required),
            None,
            json!({"tool_choice": "required"}),
            json!({"tool_choice": {"type": "any"}}),
            any,
        ),
        (
            None,
            Some(false),
            json!({"parallel_tool_calls": false}),
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            json!({}),
        ),
        (
            Some(moor),
            Some(false),
            json!({"tool_choice": {"type": "function", "function": {"name": wire}}, "parallel_tool_calls": false}),
            json!({"tool_choice": {"type": "tool", "name": wire, "disable_parallel_tool_use": true}}),
            one,
        ),
    ];
    for (choice, parallel, openai, anthropic, gemini) in table {
        assert_eq!(said(Style::OpenAi, choice.as_ref(), parallel, &[]), openai, "{choice:?}");
        let mut responses = openai;
        if let Some(ToolChoice::Tool(_)) = choice {
            responses["tool_choice"] = json!({"type": "function", "name": wire});
        }
        assert_eq!(said(Style::OpenAiResponses, choice.as_ref(), parallel, &[]), responses, "{choice:?}");
        assert_eq!(said(Style::Anthropic, choice.as_ref(), parallel, &[]), anthropic, "{choice:?}");
        assert_eq!(said(Style::Gemini, choice.as_ref(), parallel, &[]), gemini, "{choice:?}");
    }
}

#[test]
fn a_request_parameter_wins() {
    let stated = |key: &str, value: &str| [(key.to_owned(), parts(value))];
    let required = Some(&ToolChoice::Required);
    let params = stated("tool_choice", r#""auto""#);
    let shown = said(Style::OpenAi, required, Some(false), &params);
    assert_eq!(shown, json!({"tool_choice": "auto", "parallel_tool_calls": false}));
    let shown = said(Style::OpenAi, required, Some(false), &stated("parallel_tool_calls", "true"));
    assert_eq!(shown, json!({"tool_choice": "required", "parallel_tool_calls": true}));
    let shown = said(Style::Anthropic, required, Some(false), &stated("tool_choice", r#"{"type":"auto"}"#));
    assert_eq!(shown, json!({"tool_choice": {"type": "auto"}}));
    let shown = said(Style::Gemini, required, None, &stated("toolConfig", "{}"));
    assert_eq!(shown, json!({"toolConfig": {}}));
}

/// Fault J8.
#[test]
fn nothing_is_said_without_tools() {
    let tally = ToolChoice::Tool("tally".into());
    for style in Style::ALL {
        let plain = body_of(style, &head(None, &[], &[]), &[Message::user("hi")]);
        let head = Head { tool_choice: Some(&tally), parallel_tool_calls: Some(false), ..head(None, &[], &[]) };
        assert_eq!(body_of(style, &head, &[Message::user("hi")]), plain);
    }
}

#[test]
fn a_choice_of_no_tool_is_refused() {
    let (tools, other) = (tools(), ToolChoice::Tool("sweep".into()));
    for style in Style::ALL {
        let head = Head { tool_choice: Some(&other), ..head(None, &tools, &[]) };
        assert_eq!(style.head(&head), Err(WireError::UnknownTool { tool: "sweep".into() }));
    }
}

/// The choice stands behind the messages: another one leaves the bytes before it alone.
#[test]
fn another_choice_keeps_the_beginning_of_the_request() {
    let tools = tools();
    for style in Style::ALL {
        let body = |choice: &ToolChoice| {
            let head = Head { tool_choice: Some(choice), ..head(Some("be brief"), &tools, &[]) };
            body_of(style, &head, &[Message::user("hi")])
        };
        let (auto, forced) = (body(&ToolChoice::Auto), body(&ToolChoice::Required));
        assert!(forced.starts_with(auto.strip_suffix(b"}").unwrap()), "{style:?}");
        assert_ne!(auto, forced);
    }
}
