//! A tool's schema as this provider takes it. It knows JSON Schema in part: references are put in
//! place, keys that it does not know are left out. Arguments are checked against the original.

use serde_json::{Map, Value, json};

use crate::json::Json;
use crate::wire::schema;

/// The schema text; `None` when the tool takes nothing (fault J1).
pub(super) fn for_wire(schema: &Json) -> Option<String> {
    let merged: Value = serde_json::from_str(&schema::for_wire(schema)).ok()?;
    let original: Value = serde_json::from_str(schema.get()).unwrap_or(Value::Null);
    let mut narrowing =
        Narrowing { roots: [&merged, &original], references: Vec::new(), steps: MAX_STEPS, items: MAX_ITEMS };
    let Value::Object(narrow) = narrowing.schema(&merged) else { return None };
    let is_bare = narrow.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty)
        && !narrow.get("additionalProperties").is_some_and(Value::is_object);
    (!is_bare).then(|| Value::Object(narrow).to_string())
}

/// Where the narrowing is: a schema may refer to itself, and grow without bounds.
struct Narrowing<'a> {
    roots: [&'a Value; 2],
    references: Vec<&'a str>,
    steps: usize,
    /// What is left of the sum of all `maxItems`.
    items: u64,
}

impl<'a> Narrowing<'a> {
    /// A schema with what the provider knows of it.
    fn schema(&mut self, schema: &'a Value) -> Value {
        let mut narrow = self.demands(schema);
        require_known(&mut narrow);
        Value::Object(narrow)
    }

    /// What a schema, those it refers to and its parts demand. One that is no object demands nothing.
    fn demands(&mut self, schema: &'a Value) -> Map<String, Value> {
        let (Some(fields), Some(steps)) = (schema.as_object(), self.steps.checked_sub(1)) else { return Map::new() };
        self.steps = steps;
        let mut out = Map::new();
        if let Some(place) = fields.get("$ref").and_then(Value::as_str) {
            out = self.referred(place);
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            merge(&mut out, self.demands(part));
        }
        let own = fields.iter().filter_map(|(key, value)| self.field(key, value)).collect();
        merge(&mut out, own);
        out
    }

    /// What a reference stands for. One within itself is cut (fault J2).
    fn referred(&mut self, place: &'a str) -> Map<String, Value> {
        if self.references.contains(&place) {
            return Map::from_iter([("type".to_owned(), json!("object"))]);
        }
        let pointer = place.strip_prefix('#');
        let Some(target) = pointer.and_then(|pointer| self.roots.iter().find_map(|root| root.pointer(pointer))) else {
            return Map::new();
        };
        self.references.push(place);
        let found = self.demands(target);
        self.references.pop();
        found
    }

    /// A field under the name and in the form that the provider knows (fault J3).
    fn field(&mut self, key: &str, value: &'a Value) -> Option<(String, Value)> {
        let value = match key {
            "properties" => {
                let properties = value.as_object()?.iter();
                Value::Object(properties.map(|(name, schema)| (name.clone(), self.schema(schema))).collect())
            }
            "items" if value.is_array() => return self.field("prefixItems", value),
            "additionalProperties" if value.is_boolean() => value.clone(),
            "items" | "additionalProperties" => self.schema(value),
            "prefixItems" | "anyOf" | "oneOf" => value.as_array()?.iter().map(|schema| self.schema(schema)).collect(),
            "const" => return Some(("enum".to_owned(), choices(std::slice::from_ref(value))?)),
            "enum" => choices(value.as_array()?)?,
            "maxItems" => {
                self.items = self.items.checked_sub(value.as_u64()?)?;
                value.clone()
            }
            _ if KNOWN.contains(&key) => value.clone(),
            _ => return None,
        };
        Some((key.to_owned(), value))
    }
}

/// The texts and numbers of a choice; the provider knows no others.
fn choices(values: &[Value]) -> Option<Value> {
    let known: Vec<Value> = values.iter().filter(|value| value.is_string() || value.is_number()).cloned().collect();
    (!known.is_empty()).then_some(Value::Array(known))
}

/// Adds the demands of one schema to those of another: properties and required names add up, of
/// anything else the last counts.
fn merge(out: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (key.as_str(), out.get_mut(&key), value) {
            ("properties", Some(Value::Object(known)), Value::Object(value)) => known.extend(value),
            ("required", Some(Value::Array(known)), Value::Array(value)) => {
                let new: Vec<Value> = value.into_iter().filter(|name| !known.contains(name)).collect();
                known.extend(new);
            }
            (_, _, value) => {
                out.insert(key, value);
            }
        }
    }
}

/// Leaves out required names of properties that there are not, which the provider refuses.
fn require_known(schema: &mut Map<String, Value>) {
    let properties: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    let Some(Value::Array(names)) = schema.get_mut("required") else { return };
    names.retain(|name| name.as_str().is_some_and(|name| properties.iter().any(|known| known == name)));
    if names.is_empty() {
        schema.shift_remove("required");
    }
}

/// Keys that stay as they are.
const KNOWN: [&str; 17] = [
    "type",
    "title",
    "description",
    "format",
    "pattern",
    "default",
    "example",
    "nullable",
    "required",
    "minimum",
    "maximum",
    "minItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "propertyOrdering",
];

/// How many schemas are looked at in all.
const MAX_STEPS: usize = 1_000;

/// The provider refuses a tool whose `maxItems` add up to more than about 960.
const MAX_ITEMS: u64 = 900;
