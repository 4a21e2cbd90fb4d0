//! The schema of a tool as providers take it: an object with properties, and no choice at the top.
//! What a schema means for arguments is not decided here: they are checked against the original.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::json::Json;

/// The schema text for a wire. One that every provider takes stays as it stands; otherwise
///
/// - no schema, or one without a type or properties, becomes an object with properties (fault J1);
/// - `anyOf`, `oneOf`, `allOf` and `$ref` at the top are merged into one object: every property of
///   every branch, required only where all branches require it (fault J5).
pub(crate) fn for_wire(schema: &Json) -> Cow<'_, str> {
    let root: Value = serde_json::from_str(schema.get()).unwrap_or(Value::Null);
    let top = root.as_object();
    let whole = top.is_some_and(|top| {
        top.get("type").and_then(Value::as_str) == Some("object")
            && top.get("properties").is_some_and(Value::is_object)
            && !top.keys().any(|key| REFUSED_AT_TOP.contains(&key.as_str()))
    });
    if whole {
        return Cow::Borrowed(schema.get());
    }
    let mut merged = Merged::default();
    merged.add(&root, &mut Trail { root: &root, references: Vec::new(), steps: MAX_STEPS });
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("object"));
    out.insert("properties".to_owned(), Value::Object(merged.properties));
    if !merged.required.is_empty() {
        out.insert("required".to_owned(), json!(merged.required));
    }
    for (key, value) in top.into_iter().flatten() {
        if !REFUSED_AT_TOP.contains(&key.as_str()) && !out.contains_key(key) && key != "required" {
            out.insert(key.clone(), value.clone());
        }
    }
    Cow::Owned(Value::Object(out).to_string())
}

/// Where the merging is: a schema may refer to itself, and branch without bounds.
struct Trail<'a> {
    root: &'a Value,
    references: Vec<&'a str>,
    steps: usize,
}

/// The properties of an object schema and its branches.
#[derive(Default)]
struct Merged {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Merged {
    /// Adds a schema and everything it refers to. A branch that is no object adds nothing:
    /// arguments are always an object.
    fn add<'a>(&mut self, schema: &'a Value, trail: &mut Trail<'a>) {
        let (Some(schema), Some(steps)) = (schema.as_object(), trail.steps.checked_sub(1)) else { return };
        trail.steps = steps;
        if let Some(place) = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'))
            && !trail.references.contains(&place)
            && let Some(target) = trail.root.pointer(place)
        {
            trail.references.push(place);
            self.add(target, trail);
            trail.references.pop();
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.property(name, property, "allOf");
        }
        self.require(names(schema.get("required")));
        for branch in list(schema.get("allOf")) {
            self.add(branch, trail);
        }
        for choice in ["anyOf", "oneOf"] {
            let mut required: Option<Vec<String>> = None;
            for branch in list(schema.get(choice)) {
                let mut one = Self::default();
                one.add(branch, trail);
                if one.properties.is_empty() {
                    continue;
                }
                for (name, property) in &one.properties {
                    self.property(name, property, "anyOf");
                }
                match &mut required {
                    Some(required) => required.retain(|name| one.required.contains(name)),
                    None => required = Some(one.required),
                }
            }
            self.require(required.unwrap_or_default());
        }
    }

    /// Adds a property; a second form of it becomes an alternative (`anyOf`) or one more demand
    /// (`allOf`), which providers take below the top.
    fn property(&mut self, name: &str, schema: &Value, join: &str) {
        let Some(known) = self.properties.get_mut(name) else {
            self.properties.insert(name.to_owned(), schema.clone());
            return;
        };
        if known == schema {
            return;
        }
        match known.as_object_mut().filter(|known| known.len() == 1).and_then(|known| known.get_mut(join)) {
            Some(Value::Array(forms)) if forms.contains(schema) => {}
            Some(Value::Array(forms)) => forms.push(schema.clone()),
            _ => *known = json!({ join: [known.take(), schema] }),
        }
    }

    fn require(&mut self, names: Vec<String>) {
        for name in names {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn names(value: Option<&Value>) -> Vec<String> {
    list(value).iter().filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
}

/// Keys that a provider refuses at the top of a tool's schema.
const REFUSED_AT_TOP: [&str; 6] = ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"];

/// How many schemas are looked at in all.
const MAX_STEPS: usize = 1_000;
