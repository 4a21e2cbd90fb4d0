//! What a model, or the author of a schema, reads of a value that a schema refuses: which place,
//! what is wrong there. The text stays short whatever the value is.

use std::fmt::{self, Write};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// The faults of a value, or of its first one where looking for all would take long.
pub(super) fn faults(schema: &Validator, value: &Value) -> String {
    let found: Vec<ValidationError<'_>> = if is_small(value) {
        schema.iter_errors(value).take(FAULTS_SHOWN).collect()
    } else {
        schema.validate(value).err().into_iter().collect()
    };
    let mut texts: Vec<String> = Vec::with_capacity(found.len());
    for text in found.iter().map(fault) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

/// One fault: what is wrong, and where.
pub(super) fn fault(fault: &ValidationError<'_>) -> String {
    let what =
        if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } = fault.kind() {
            let branches = context.iter().filter_map(|branch| branch.first()).take(BRANCHES_SHOWN);
            format!("no alternative fits: {}", branches.map(what).collect::<Vec<_>>().join(", or "))
        } else {
            what(fault)
        };
    match fault.instance_path().as_str() {
        "" => what,
        place => format!("{what} at {}", cut(place, PLACE_BYTES)),
    }
}

/// What is wrong. A value that is long is not repeated.
fn what(fault: &ValidationError<'_>) -> String {
    let mut text = Start::new(WHAT_BYTES);
    if write!(text, "{fault}").is_ok() {
        return text.text;
    }
    let mut text = Start::new(WHAT_BYTES);
    if write!(text, "{}", fault.masked_with("the value")).is_err() {
        text.text.push('…');
    }
    text.text
}

fn cut(text: &str, most: usize) -> String {
    let mut start = Start::new(most);
    if start.write_str(text).is_err() {
        start.text.push('…');
    }
    start.text
}

/// Takes the first bytes of what is written and refuses the rest.
struct Start {
    text: String,
    most: usize,
}

impl Start {
    fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }
}

impl Write for Start {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let kept = more.floor_char_boundary(self.most - self.text.len());
        self.text.push_str(&more[..kept]);
        if kept == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Whether a value has so few parts that all its faults may be looked for: a schema has them in a
/// list before the first is told.
fn is_small(value: &Value) -> bool {
    fn spend(value: &Value, left: &mut usize) -> bool {
        *left = left.saturating_sub(1);
        *left > 0
            && match value {
                Value::Array(items) => items.iter().all(|item| spend(item, left)),
                Value::Object(fields) => fields.values().all(|field| spend(field, left)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            }
    }
    spend(value, &mut SMALL.clone())
}

/// Faults that the model is told of at once.
const FAULTS_SHOWN: usize = 5;
/// Alternatives of an `anyOf` or `oneOf` of which it reads why they do not fit.
const BRANCHES_SHOWN: usize = 4;
/// How long the text of a fault may be.
const WHAT_BYTES: usize = 300;
/// How long the place of a fault may be.
const PLACE_BYTES: usize = 200;
/// Parts of a small value.
const SMALL: usize = 1_000;
