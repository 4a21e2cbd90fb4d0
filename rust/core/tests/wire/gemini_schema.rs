//! Tool schemas as Gemini gets them: JSON Schema, narrowed to what the provider knows.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolrelay_core::wire::Style;

use crate::schema::declared;

fn narrowed(schema: &str) -> Value {
    declared(Style::Gemini, schema)
}

/// Fault J1: a tool that takes nothing has no schema at all; one that takes anything has.
#[test]
fn tool_without_parameters_has_no_schema() {
    for schema in [
        "null",
        "{}",
        r#"{"type":"object"}"#,
        r#"{"properties":{}}"#,
        r#"{"type":"object","properties":{},"required":["a"]}"#,
    ] {
        assert_eq!(narrowed(schema), Value::Null, "{schema}");
    }
    let open = r#"{"type":"object","additionalProperties":{"type":"string"}}"#;
    let expected = json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
    assert_eq!(narrowed(open), expected);
}

/// Fault J2: references are put in place, what stands beside them stays, recursion is cut.
#[test]
fn references_are_put_in_place() {
    let schema = r##"{"type":"object","$defs":{"Knot":{"type":"object","properties":{"next":{"$ref":"#/$defs/Knot"},"n":{"type":"integer"}}}},
        "properties":{"k":{"$ref":"#/$defs/Knot","description":"the first"},"same":{"$ref":"#/properties/k"},"lost":{"$ref":"#/nowhere","title":"L"}}}"##;
    let knot = |description: &str| json!({"type": "object", "description": description, "properties": {"next": {"type": "object"}, "n": {"type": "integer"}}});
    assert_eq!(
        narrowed(schema),
        json!({"type": "object", "properties": {"k": knot("the first"), "same": knot("the first"), "lost": {"title": "L"}}})
    );
}

/// Fault J3: a list of types is known, other keys are not, required names must be.
#[test]
fn keys_that_the_provider_does_not_know_are_left_out() {
    let schema = r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
        "a":{"type":["string","null"],"minLength":1,"examples":["x"]},
        "m":{"type":"object","propertyNames":{"pattern":"^x"},"patternProperties":{"^x":{}},"required":["ghost"]},
        "n":{"type":"integer","exclusiveMinimum":0,"maximum":9007199254740991,"multipleOf":2},
        "kind":{"const":"moor"},"flag":{"const":true,"type":"boolean"},"choice":{"enum":["a",null,2,true]},
        "pair":{"type":"array","items":[{"type":"string"},true],"uniqueItems":true},
        "any":true,"$ref":{"type":"string"}},
        "required":["a","ghost","$ref"],"additionalProperties":false}"#;
    assert_eq!(
        narrowed(schema),
        json!({"type": "object", "properties": {
            "a": {"type": ["string", "null"], "minLength": 1},
            "m": {"type": "object"},
            "n": {"type": "integer", "maximum": 9_007_199_254_740_991_i64},
            "kind": {"enum": ["moor"]}, "flag": {"type": "boolean"}, "choice": {"enum": ["a", 2]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {}]},
            "any": {}, "$ref": {"type": "string"}},
            "required": ["a", "$ref"], "additionalProperties": false})
    );
}

#[test]
fn demands_that_must_all_hold_become_one() {
    let schema = r##"{"type":"object","$defs":{"Base":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}},
        "properties":{"x":{"allOf":[{"$ref":"#/$defs/Base"},{"properties":{"b":{"type":"integer"}},"required":["b","a"]}],"description":"d"},
            "y":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/Base"}]}}}"##;
    assert_eq!(
        narrowed(schema)["properties"],
        json!({
            "x": {"type": "object", "description": "d", "required": ["a", "b"],
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            "y": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
        })
    );
}

/// The provider adds up all `maxItems` of a tool and refuses a large sum without saying why.
#[test]
fn item_limits_beyond_the_providers_budget_are_left_out() {
    let list = |most: u64| json!({"type": "array", "items": {"type": "string"}, "maxItems": most});
    let schema = json!({"type": "object", "properties": {"a": list(500), "b": list(401), "c": list(400)}});
    let shown = narrowed(&schema.to_string());
    let kept = |name: &str| shown["properties"][name].get("maxItems").cloned();
    assert_eq!([kept("a"), kept("b"), kept("c")], [Some(json!(500)), None, Some(json!(400))]);
}

/// Fault J5: a choice at the top becomes one object, and its branches are narrowed.
#[test]
fn choice_at_the_top_is_merged_and_narrowed() {
    let schema = r##"{"anyOf":[{"$ref":"#/$defs/A"},{"type":"object","properties":{"b":{"$ref":"#/anyOf/1/properties/c"},"c":{"type":"string","$comment":"x"}}}],
        "$defs":{"A":{"type":"object","properties":{"a":{"const":1}},"required":["a"]}}}"##;
    assert_eq!(
        narrowed(schema),
        json!({"type": "object", "properties": {"a": {"enum": [1]}, "b": {"type": "string"}, "c": {"type": "string"}}})
    );
}

/// Fault J2: a schema that refers to itself in ways beyond number ends.
#[test]
fn schema_without_end_is_cut() {
    let names: Vec<String> = (0..20).map(|at| format!("K{at}")).collect();
    let branches: Vec<String> = names.iter().map(|name| format!(r##"{{"$ref":"#/$defs/{name}"}}"##)).collect();
    let branches = branches.join(",");
    let defs: Vec<String> = names.iter().map(|name| format!(r#""{name}":{{"anyOf":[{branches}]}}"#)).collect();
    let defs = defs.join(",");
    let schema = format!(
        r##"{{"type":"object","properties":{{"a":{{"anyOf":[{branches}]}},"b":{{"$ref":"#"}}}},"$defs":{{{defs}}}}}"##
    );
    let shown = narrowed(&schema);
    assert!(shown.to_string().len() < 100_000);
    assert_eq!(shown["properties"]["a"]["anyOf"].as_array().unwrap().len(), 20);
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!(true)),
        Just(json!({"$ref": "#/$defs/A"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"const": null})),
        Just(json!({"not": {}, "type": ["integer", "null"], "maxItems": 400})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let named = || proptest::collection::btree_map("[ab$]{1,2}", inner.clone(), 0..3);
        let list = || proptest::collection::vec(inner.clone(), 0..3);
        let object = |map: std::collections::BTreeMap<String, Value>| map.into_iter().collect::<Map<_, _>>();
        let properties = (named(), proptest::collection::vec("[ab$]{1,2}", 0..3)).prop_map(move |(properties, required)| {
            json!({"type": "object", "properties": object(properties), "required": required})
        });
        let choice = (list(), 0..3usize).prop_map(|(list, kind)| json!({["anyOf", "oneOf", "allOf"][kind]: list}));
        let items = inner.clone().prop_map(|items| json!({"type": "array", "items": items}));
        prop_oneof![properties, choice, items]
    })
}

fn check(schema: &Value) {
    let known = |key: &String| {
        ["type", "properties", "required", "anyOf", "oneOf", "items", "enum", "maxItems"].contains(&key.as_str())
    };
    let fields = schema.as_object().unwrap();
    assert!(fields.keys().all(known), "{schema}");
    let properties = fields.get("properties").and_then(Value::as_object);
    let required = fields.get("required").and_then(Value::as_array);
    assert!(required.is_none_or(|names| !names.is_empty()), "{schema}");
    for name in required.into_iter().flatten() {
        assert!(properties.unwrap().contains_key(name.as_str().unwrap()), "{schema}");
    }
    properties.into_iter().flatten().for_each(|(_, property)| check(property));
    let choices = ["anyOf", "oneOf"].iter().filter_map(|key| fields.get(*key)?.as_array()).flatten();
    choices.chain(fields.get("items")).for_each(check);
}

proptest! {
    /// Whatever a schema holds, what goes out has only keys that the provider knows, at any depth.
    #[test]
    fn narrowed_schemas_hold_known_keys(schema in any_schema(), a in any_schema()) {
        let root = json!({"type": "object", "properties": {"x": schema}, "$defs": {"A": a}});
        check(&narrowed(&root.to_string()));
    }
}
