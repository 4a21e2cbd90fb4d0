//! A call whose arguments come in pieces, each at a path of the arguments.

use super::stream::each_element;
use crate::json::scan::fields;
use crate::json::{mend_escapes, quoted, unquoted};
use crate::wire::failure::ProviderFailure;
use crate::wire::growing::{Object, Value};
use crate::wire::stream::{Delta, each_field, unreadable};

/// A call under way. Values are JSON texts.
#[derive(Debug)]
pub(super) struct Growing {
    /// The part but for its call.
    part: Object,
    /// The call but for its arguments.
    call: Object,
    args: Value,
    is_over: bool,
}

impl Default for Growing {
    fn default() -> Self {
        let (part, call, args) = (Object::default(), Object::default(), Value::Object(Object::default()));
        Self { part, call, args, is_over: false }
    }
}

impl Growing {
    /// Whether more of it may come.
    pub(super) fn is_open(&self) -> bool {
        !self.is_over
    }

    /// No more of it will come.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes a part with a piece of the call. One that does not say that more will come is the last.
    pub(super) fn take(&mut self, part: &str, call: &str) -> Result<(), ProviderFailure> {
        self.is_over = true;
        each_field(call, |key, value| {
            match key {
                _ if value == "null" => {}
                r#""willContinue""# => self.is_over = value != "true",
                r#""partialArgs""# => {
                    return each_element(value, |piece| self.argument(piece).ok_or_else(unreadable));
                }
                r#""args""# if value.starts_with('{') => self.args = Value::new(value),
                r#""args""# => {}
                _ => {
                    self.call.merge(key, value);
                }
            }
            Ok(())
        })?;
        each_field(part, |key, value| {
            if key != r#""functionCall""# {
                self.part.set(key, Value::new(value));
            }
            Ok(())
        })?;
        if self.call.is_full() || self.part.is_full() { Err(unreadable()) } else { Ok(()) }
    }

    /// Puts a piece in its place; `None` if it has none.
    fn argument(&mut self, piece: &str) -> Option<()> {
        let piece = fields(piece)?;
        let field = |name: &str| piece.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let given = VALUES.iter().find_map(|key| field(key).filter(|value| *value != "null"));
        let value = given.or_else(|| field(r#""nullValue""#).map(|_| "null"))?;
        let path = steps(&unquoted(field(r#""jsonPath""#)?)?)?;
        let mut place = &mut self.args;
        let mut is_new = true;
        for (at, step) in path.iter().enumerate() {
            let new = match path.get(at + 1) {
                None => value,
                Some(Step::Key(_)) => "{}",
                Some(Step::Index(_)) => "[]",
            };
            (place, is_new) = inside(place, step, new)?;
        }
        if !is_new {
            place.merge(value);
        }
        (!path.is_empty()).then_some(())
    }

    /// Tells the arguments, which are JSON only now.
    pub(super) fn tell(&mut self, index: usize, tell: &mut dyn FnMut(Delta)) {
        let mut text = String::new();
        self.args.write(&mut text);
        tell(Delta::Arguments { index, text: mend_escapes(&text).into_owned() });
    }

    /// The part as it would have come whole.
    pub(super) fn write(self, out: &mut String) {
        out.push_str(r#"{"functionCall":{"#);
        self.call.write_fields(out);
        out.push_str(if self.call.is_empty() { r#""args":"# } else { r#","args":"# });
        self.args.write(out);
        out.push('}');
        if !self.part.is_empty() {
            out.push(',');
            self.part.write_fields(out);
        }
        out.push('}');
    }
}

/// What stands at a step inside a value, and whether it is new. `None`: it has no place there.
fn inside<'v>(value: &'v mut Value, step: &Step, new: &str) -> Option<(&'v mut Value, bool)> {
    match step {
        Step::Key(key) => {
            let object = value.object()?;
            let is_new = object.get(key).is_none();
            if is_new {
                object.set(key, Value::new(new));
            }
            Some((object.get(key)?, is_new))
        }
        Step::Index(at) => {
            let list = value.list()?;
            let is_new = *at == list.len();
            if is_new {
                list.push(Value::new(new));
            }
            Some((list.get_mut(*at)?, is_new))
        }
    }
}

/// A step of a path. Keys have quotes.
enum Step {
    Key(String),
    Index(usize),
}

/// The steps of a path such as `$.boats[0].name` or `$['boats'][0]`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let key = after.get(..end).filter(|key| !key.is_empty())?;
            steps.push(Step::Key(quoted(key)));
            rest = &after[end..];
        } else {
            let inside = rest.strip_prefix('[')?;
            let quote = inside.chars().next().filter(|first| matches!(first, '\'' | '"'));
            if let Some(quote) = quote {
                let (key, after) = inside[1..].split_once(&format!("{quote}]"))?;
                steps.push(Step::Key(quoted(key)));
                rest = after;
            } else {
                let (index, after) = inside.split_once(']')?;
                steps.push(Step::Index(index.parse().ok()?));
                rest = after;
            }
        }
    }
    (steps.len() <= MAX_STEPS).then_some(steps)
}

/// What a piece may be.
const VALUES: [&str; 5] =
    [r#""stringValue""#, r#""numberValue""#, r#""boolValue""#, r#""structValue""#, r#""listValue""#];

/// Paths that are longer are none.
const MAX_STEPS: usize = 100;
