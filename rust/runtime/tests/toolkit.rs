//! The toolkit: which tools may stand together, and what a schema says of arguments.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolrelay_core::json::Json;
use toolrelay_core::tool::{ToolKind, ToolSpec, Tools};
use toolrelay_core::wire::names::{gemini_name, wire_name};
use toolrelay_runtime::toolkit::{BUILTIN_NAMES, ToolDef, Toolkit, ToolkitError};

fn tool(name: &str, kind: ToolKind, schema: &Value) -> ToolDef {
    let schema = Json::parse(&schema.to_string()).unwrap();
    ToolDef {
        spec: ToolSpec { name: name.to_owned(), description: String::new(), schema },
        kind,
        retry_safe: false,
        expires_after: None,
    }
}

fn named(tools: &[(&str, ToolKind)]) -> Result<Toolkit, ToolkitError> {
    Toolkit::new(tools.iter().map(|(name, kind)| tool(name, *kind, &json!({"type": "object"}))).collect())
}

/// Checks one value against one schema.
fn check(schema: &Value, value: &Value) -> Result<(), String> {
    Toolkit::new(vec![tool("tally", ToolKind::Local, schema)]).unwrap().check("tally", value)
}

fn schema_error(schema: &Value) -> String {
    Toolkit::new(vec![tool("tally", ToolKind::Local, schema)]).unwrap_err().to_string()
}

#[test]
fn a_relay_tool_may_have_no_builtins_name_but_a_local_one_may() {
    for name in BUILTIN_NAMES {
        let error = named(&[("moor", ToolKind::Relay), (name, ToolKind::Relay)]).unwrap_err();
        assert_eq!(error, ToolkitError::RelayNamedAsBuiltin { tool: name.to_owned() });
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        assert_eq!(named(&[(name, ToolKind::Local)]).unwrap().kind(name), Some(ToolKind::Local));
    }
}

#[test]
fn two_tools_with_one_name_are_refused_whatever_their_kinds() {
    for first in [ToolKind::Local, ToolKind::Relay] {
        for second in [ToolKind::Local, ToolKind::Relay] {
            let error = named(&[("moor", first), ("tally", ToolKind::Local), ("moor", second)]).unwrap_err();
            assert_eq!(error, ToolkitError::Duplicate { tool: "moor".to_owned() });
        }
    }
}

#[test]
fn two_names_that_are_one_on_the_wire_are_refused() {
    let dotted = "dock/moor.boat";
    let plain = wire_name(dotted).into_owned();
    for (first, second) in [(dotted, plain.as_str()), (plain.as_str(), dotted)] {
        let error = named(&[(first, ToolKind::Relay), (second, ToolKind::Local)]).unwrap_err();
        assert_eq!(error, ToolkitError::SameWireName { tool: second.to_owned(), other: first.to_owned() });
    }
}

#[test]
fn a_tool_without_a_name_is_refused() {
    assert_eq!(named(&[("", ToolKind::Local)]).unwrap_err(), ToolkitError::NoName);
}

#[test]
fn names_that_a_provider_refuses_are_mapped_and_found_again() {
    let long = "a_very_long_name_for_a_tool_that_moors_boats_in_the_northern_harbour_by_night";
    let longer = format!("{long}_and_by_day");
    let names = ["dock/moor.boat", "dock moor boat", "dock_moor_boat", long, longer.as_str(), "båt", "⚓"];
    let kit = named(&names.map(|name| (name, ToolKind::Relay))).unwrap();
    for name in names {
        let wire = wire_name(name);
        assert!((1..=64).contains(&wire.len()), "{wire}");
        assert!(wire.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{wire}");
        assert_eq!(wire_name(&wire), wire);
        assert_eq!(kit.resolve(&wire), Some(name));
        assert_eq!(kit.resolve(name), Some(name));
        assert_eq!(kit.kind(name), Some(ToolKind::Relay));
    }
    assert_eq!(kit.names(), names);
}

#[test]
fn names_that_one_provider_refuses_are_found_again_and_taken_once() {
    let kit = named(&[("3d", ToolKind::Relay), ("-x", ToolKind::Local)]).unwrap();
    for name in ["3d", "-x"] {
        assert_ne!(gemini_name(name), name);
        assert_eq!(kit.resolve(&gemini_name(name)), Some(name));
        assert_eq!(kit.resolve(&wire_name(name)), Some(name));
    }
    let mapped = gemini_name("3d").into_owned();
    let error = named(&[("3d", ToolKind::Relay), (mapped.as_str(), ToolKind::Local)]).unwrap_err();
    assert_eq!(error, ToolkitError::SameWireName { tool: mapped, other: "3d".to_owned() });
}

#[test]
fn an_unknown_name_is_no_tool() {
    let kit = named(&[("moor", ToolKind::Relay), ("tally", ToolKind::Local)]).unwrap();
    for name in ["moor_bote", "Moor", "moor ", ""] {
        assert_eq!(kit.resolve(name), None);
        assert_eq!(kit.kind(name), None);
    }
    assert_eq!(kit.names(), ["moor", "tally"]);
}

#[test]
fn a_schema_must_be_an_object_and_a_schema() {
    for schema in [json!(true), json!(null), json!([]), json!("object")] {
        assert!(schema_error(&schema).ends_with("it must be a JSON object"), "{schema}");
    }
    let says = |schema: Value, place: &str| {
        let text = schema_error(&schema);
        assert!(text.starts_with("the schema of the tool \"tally\" is not a usable JSON Schema: "), "{text}");
        assert!(text.ends_with(place), "{text}");
    };
    says(json!({"type": "object", "properties": {"n": {"type": "strin"}}}), "at /properties/n/type");
    says(json!({"properties": {"n": {"pattern": "(a"}}}), "at /properties/n/pattern");
    says(json!({"properties": []}), "at /properties");
    says(json!({"type": "object", "required": true}), "at /required");
}

#[test]
fn a_schema_elsewhere_is_refused_and_nobody_is_asked_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/knot.json", listener.local_addr().unwrap());
    for reference in [url.as_str(), "file:///etc/hostname", "knot.json"] {
        let text = schema_error(&json!({"type": "object", "properties": {"k": {"$ref": reference}}}));
        assert!(text.contains("not a usable JSON Schema") && text.contains(reference), "{text}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn endless_references_end() {
    let begun = Instant::now();
    let knot = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Knot"}}});
    let knots = json!({
        "type": "object",
        "$defs": {"Knot": knot},
        "properties": {"k": {"$ref": "#/$defs/Knot"}, "same": {"$ref": "#/properties/k"}}
    });
    assert_eq!(check(&knots, &json!({"k": {"next": {"next": {}}}, "same": {}})), Ok(()));
    let refused = check(&knots, &json!({"k": {"next": {"next": 3}}, "same": 4})).unwrap_err();
    assert_eq!(refused, "3 is not of type \"object\" at /k/next/next; 4 is not of type \"object\" at /same");
    for endless in [
        json!({"$ref": "#"}),
        json!({"not": {"not": {"$ref": "#"}}}),
        json!({"allOf": [{"$ref": "#"}], "unevaluatedProperties": false, "properties": {"a": {}}}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}, {"required": ["z"]}]}),
    ] {
        // What such a schema means is not defined; it gives a verdict all the same.
        let _ = check(&endless, &json!({"a": {"a": 1}}));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_value_is_checked_against_the_hosts_own_schema() {
    // Providers get another form of these; the check is the host's.
    let odd = json!({
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "m": {"type": "object", "propertyNames": {"pattern": "^x"}}
        },
        "required": ["a", "ghost"]
    });
    assert_eq!(check(&odd, &json!({"a": null, "m": {"x1": 1}, "ghost": 0})), Ok(()));
    let refused = check(&odd, &json!({"a": null, "m": {"y": 1}})).unwrap_err();
    assert_eq!(refused, "\"ghost\" is a required property; \"y\" does not match \"^x\" at /m");
    let either = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    ]});
    assert_eq!(check(&either, &json!({"b": "x"})), Ok(()));
    let refused = check(&either, &json!({"c": 1})).unwrap_err();
    assert_eq!(refused, "no alternative fits: \"a\" is a required property, or \"b\" is a required property");
    assert_eq!(check(&json!({}), &json!({"anything": [1, null]})), Ok(()));
}

#[test]
fn the_schema_says_which_draft_it_is_of() {
    let limit = json!({"type": "number", "maximum": 3, "exclusiveMaximum": true});
    let old = json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": limit}});
    assert!(check(&old, &json!({"n": 3})).is_err());
    assert_eq!(check(&old, &json!({"n": 2})), Ok(()));
}

#[test]
fn integers_of_any_size_are_integers() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let digits = "9".repeat(5_000);
    for number in ["7", "7.0", "18446744073709551616", "-98765432109876543210", digits.as_str()] {
        let prepared = toolrelay_core::arguments::prepare(&format!(r#"{{"n":{number}}}"#)).unwrap();
        assert_eq!(check(&schema, &prepared.value), Ok(()), "{number}");
    }
    assert!(check(&schema, &json!({"n": 7.5})).is_err());
}

#[test]
fn a_fault_names_its_place_and_never_repeats_a_long_value() {
    let long = "b".repeat(10_000_000);
    let schema = json!({"properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    assert_eq!(check(&schema, &json!({"n": long})).unwrap_err(), "the value is not of type \"integer\" at /n");
    assert_eq!(check(&schema, &json!({"n": "b"})).unwrap_err(), "\"b\" is not of type \"integer\" at /n");
    let extra = check(&schema, &json!({ long: 1 })).unwrap_err();
    assert!(extra.starts_with("Additional properties are not allowed ('bbb") && extra.len() < 400, "{}", extra.len());
    let deep = (0..40).fold(json!("é".repeat(300)), |inner, _| json!({"ééééé": inner}));
    let wants = (0..40).fold(json!({"type": "integer"}), |inner, _| json!({"properties": {"ééééé": inner}}));
    let refused = check(&wants, &deep).unwrap_err();
    assert!(refused.starts_with("the value is not of type \"integer\" at /ééééé/") && refused.len() < 300, "{refused}");
}

#[test]
fn equal_faults_are_told_once_and_of_very_many_only_the_first() {
    let twice = json!({"allOf": [{"properties": {"n": {"minimum": 3}}}, {"properties": {"n": {"minimum": 3}}}]});
    assert_eq!(check(&twice, &json!({"n": 1})).unwrap_err(), "1 is less than the minimum of 3 at /n");
    let list = json!({"properties": {"list": {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}});
    let some = check(&list, &json!({"list": ["a", 1, "b", "c", "d", "e", "f"]})).unwrap_err();
    assert_eq!(some.matches("no alternative fits").count(), 5, "{some}");
    let begun = Instant::now();
    let first = check(&list, &json!({"list": vec!["a"; 500_000]})).unwrap_err();
    let reason = "no alternative fits: \"a\" is not of type \"integer\", or \"a\" is not of type \"null\" at /list/0";
    assert_eq!(first, reason);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn no_pattern_takes_exponential_time() {
    let begun = Instant::now();
    let long = format!("{}!", "a".repeat(100_000));
    for pattern in ["^(a+)+$", "^(?=a)(a+)+$", r"^(a|a)*\1b"] {
        let schema = json!({"properties": {"s": {"pattern": pattern}}});
        let refused = check(&schema, &json!({"s": long})).unwrap_err();
        assert!(refused.ends_with("at /s") && refused.len() < 100, "{refused}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // What pydantic writes for a decimal.
    let decimal = json!({"properties": {"x": {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}}});
    assert_eq!(check(&decimal, &json!({"x": "1.5"})), Ok(()));
    assert!(check(&decimal, &json!({"x": "-."})).is_err());
}
