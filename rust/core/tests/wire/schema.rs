//! Tool schemas as they are declared.

use serde_json::{Value, json};
use toolrelay_core::message::Message;
use toolrelay_core::wire::Style;

use crate::{body_of, head, read, tool_spec};

const ANY_SCHEMA: [Style; 3] = [Style::OpenAi, Style::OpenAiResponses, Style::Anthropic];

pub(crate) fn declared(style: Style, schema: &str) -> Value {
    let tools = [tool_spec("ring", "", schema)];
    let body = read(&body_of(style, &head(None, &tools, &[]), &[Message::user("x")]));
    match style {
        Style::OpenAi => body["tools"][0]["function"]["parameters"].clone(),
        Style::OpenAiResponses => body["tools"][0]["parameters"].clone(),
        Style::Anthropic => body["tools"][0]["input_schema"].clone(),
        Style::Gemini => body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"].clone(),
    }
}

/// As the styles have it that take any JSON Schema.
fn in_all(schema: &str) -> Value {
    let shown = declared(Style::OpenAi, schema);
    for style in ANY_SCHEMA {
        assert_eq!(shown, declared(style, schema));
    }
    shown
}

/// Fault J1.
#[test]
fn missing_parts_of_a_schema_are_filled_in() {
    for schema in ["null", "{}", r#"{"type":"object"}"#, r#"{"properties":{}}"#, "true"] {
        assert_eq!(in_all(schema), json!({"type": "object", "properties": {}}), "{schema}");
    }
    let schema = r#"{"description":"d","properties":{"a":{}},"required":["a"],"additionalProperties":false}"#;
    let expected = json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "description": "d", "additionalProperties": false});
    assert_eq!(in_all(schema), expected);
}

/// Prompt caches hit only where bytes stay the same.
#[test]
fn whole_schema_goes_out_as_its_own_bytes() {
    let schema =
        r##"{ "type":"object", "properties": {"b":{"default":1.0},"a":{"$ref":"#/$defs/K"}}, "$defs": {"K":{}} }"##;
    for style in ANY_SCHEMA {
        let tools = [tool_spec("ring", "", schema)];
        let body = String::from_utf8(body_of(style, &head(None, &tools, &[]), &[Message::user("x")])).unwrap();
        assert!(body.contains(schema));
    }
}

/// Fault J5.
#[test]
fn choice_at_the_top_is_merged() {
    let table = [
        (
            r#"{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},
                {"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}"#,
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        ),
        (
            r#"{"type":"object","properties":{"x":{}},"required":["x"],
                "oneOf":[{"properties":{"kind":{"const":"a"},"n":{}},"required":["kind","n"]},
                {"properties":{"kind":{"const":"b"}},"required":["kind"]},
                {"properties":{"kind":{"const":"c"}},"required":["kind"]}, {"type":"null"}]}"#,
            json!({"type": "object", "required": ["x", "kind"], "properties": {"x": {}, "n": {},
                "kind": {"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}}}),
        ),
        (
            r#"{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":1},"b":{}},"required":["b"]}]}"#,
            json!({"type": "object", "required": ["a", "b"],
                "properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}, "b": {}}}),
        ),
        (
            r##"{"$ref":"#/$defs/Knot","$defs":{"Knot":{"type":"object","properties":{"next":{"$ref":"#/$defs/Knot"}},"required":["next"]}}}"##,
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Knot"}}, "required": ["next"],
                "$defs": {"Knot": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Knot"}}, "required": ["next"]}}}),
        ),
    ];
    for (schema, expected) in table {
        assert_eq!(in_all(schema), expected);
    }
}

/// Fault J2: a schema that refers to itself ends, also where the ways through it are beyond number.
#[test]
fn schema_without_end_is_cut() {
    let names: Vec<String> = (0..20).map(|at| format!("K{at}")).collect();
    let branches: Vec<String> = names.iter().map(|name| format!(r##"{{"$ref":"#/$defs/{name}"}}"##)).collect();
    let branches = branches.join(",");
    let defs: Vec<String> = names.iter().map(|name| format!(r#""{name}":{{"anyOf":[{branches}]}}"#)).collect();
    let defs = defs.join(",");
    let schema = format!(r##"{{"anyOf":[{{"$ref":"#"}},{branches}],"properties":{{"a":{{}}}},"$defs":{{{defs}}}}}"##);
    assert_eq!(in_all(&schema)["properties"], json!({"a": {}}));
}
