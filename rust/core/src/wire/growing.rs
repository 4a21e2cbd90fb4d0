//! JSON that comes in pieces: strings that grow, objects and lists that are filled.
//!
//! Text is kept escaped, as it came: a character that two pieces share is whole once they are joined. What
//! comes in one piece stays as it stands, and is opened only when there is more of it.

use crate::json;
use crate::json::scan;

/// A string that grows.
#[derive(Debug, Default)]
pub(super) struct Text {
    escaped: String,
    /// How much of it was told.
    told: usize,
}

impl Text {
    /// Takes a piece: a JSON string with its quotes.
    pub(super) fn push(&mut self, quoted: &str) {
        self.escaped.push_str(inner(quoted));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.escaped.is_empty()
    }

    /// Whether it is what this JSON string says so far.
    pub(super) fn is(&self, quoted: &str) -> bool {
        self.escaped == inner(quoted)
    }

    /// What it says.
    pub(super) fn said(&self) -> String {
        json::said(&self.escaped)
    }

    /// Tells what was not told yet, but for half a character at the end: the other half may come.
    pub(super) fn news(&mut self) -> Option<String> {
        let fresh = self.escaped.len() - self.told;
        let held = if json::ends_in_half(&self.escaped[self.told..]) { HALF } else { 0 };
        self.tell(fresh - held)
    }

    /// Tells what was not told yet: no more will come.
    pub(super) fn last_news(&mut self) -> Option<String> {
        self.tell(self.escaped.len() - self.told)
    }

    pub(super) fn news_if(&mut self, goes_on: bool) -> Option<String> {
        if goes_on { self.news() } else { self.last_news() }
    }

    fn tell(&mut self, length: usize) -> Option<String> {
        let fresh = self.escaped.get(self.told..self.told + length).filter(|fresh| !fresh.is_empty())?;
        self.told += length;
        Some(json::said(fresh))
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push('"');
        out.push_str(&self.escaped);
        out.push('"');
    }
}

/// A value that grows.
#[derive(Debug)]
pub(super) enum Value {
    /// Anything but a string, as it stands.
    Plain(String),
    Text(Text),
    List(Vec<Value>),
    Object(Object),
}

impl Value {
    pub(super) fn new(piece: &str) -> Self {
        if piece.starts_with('"') {
            Self::Text(Text { escaped: inner(piece).to_owned(), told: 0 })
        } else {
            Self::Plain(piece.to_owned())
        }
    }

    /// Takes a piece. Strings are joined, objects merged, lists go on; `null` says nothing, and anything
    /// else counts in its last form.
    pub(super) fn merge(&mut self, piece: &str) {
        self.merge_within(piece, MAX_DEPTH);
    }

    fn merge_within(&mut self, piece: &str, depth: usize) {
        let joined = match piece.as_bytes() {
            b"null" => true,
            [b'"', ..] => self.text().map(|text| text.push(piece)).is_some(),
            [b'{', ..] if depth > 0 => self.object().map(|own| own.merge_within(piece, depth - 1)).is_some(),
            [b'[', ..] if depth > 0 => self.list().map(|own| merge_list(own, piece, depth - 1)).is_some(),
            _ => false,
        };
        if !joined {
            *self = Self::new(piece);
        }
    }

    pub(super) fn text(&mut self) -> Option<&mut Text> {
        match self {
            Self::Text(text) => Some(text),
            Self::Plain(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The items, if this is a list.
    pub(super) fn list(&mut self) -> Option<&mut Vec<Value>> {
        if let Self::Plain(text) = self
            && text.starts_with('[')
        {
            *self = Self::List(scan::elements(text)?.into_iter().map(Self::new).collect());
        }
        match self {
            Self::List(items) => Some(items),
            Self::Plain(_) | Self::Text(_) | Self::Object(_) => None,
        }
    }

    /// The fields, if this is an object.
    pub(super) fn object(&mut self) -> Option<&mut Object> {
        if let Self::Plain(text) = self
            && text.starts_with('{')
        {
            *self = Self::Object(Object::new(text)?);
        }
        match self {
            Self::Object(object) => Some(object),
            Self::Plain(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// Whether it is this JSON value, as far as that can be seen without opening it.
    fn is(&self, json: &str) -> bool {
        match self {
            Self::Plain(text) => text == json,
            Self::Text(text) => json.starts_with('"') && text.is(json),
            Self::List(_) | Self::Object(_) => false,
        }
    }

    fn is_blank(&self) -> bool {
        self.is("null") || self.is(r#""""#)
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(text) => text.write(out),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(object) => object.write(out),
        }
    }
}

/// An object that is filled. Keys are kept with their quotes, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Object(Vec<(String, Value)>);

impl Object {
    /// Of two equal keys the last counts. `None`: the text is no object.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut object = Self::default();
        for (key, value) in scan::fields(text)? {
            object.set(key, Value::new(value));
        }
        Some(object)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether more fields would not be found again.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX_MERGED
    }

    pub(super) fn get(&mut self, key: &str) -> Option<&mut Value> {
        self.0.iter_mut().take(MAX_MERGED).find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(super) fn set(&mut self, key: &str, new: Value) {
        match self.get(key) {
            Some(value) => *value = new,
            None => self.0.push((key.to_owned(), new)),
        }
    }

    /// Sets a field to what counts now, mostly what counted before.
    pub(super) fn update(&mut self, key: &str, json: &str) {
        if !self.get(key).is_some_and(|value| value.is(json)) {
            self.set(key, Value::new(json));
        }
    }

    /// Takes a piece of one field and gives the field. What names a thing is whole when it comes: the
    /// first that says anything counts.
    pub(super) fn merge(&mut self, key: &str, piece: &str) -> Option<&mut Value> {
        self.merge_field(key, piece, MAX_DEPTH)
    }

    fn merge_field(&mut self, key: &str, piece: &str, depth: usize) -> Option<&mut Value> {
        let at = self.0.iter().take(MAX_MERGED).position(|(known, _)| known == key);
        match at.and_then(|at| self.0.get_mut(at)) {
            Some((_, value)) if !NAMES.contains(&key) || value.is_blank() => value.merge_within(piece, depth),
            Some(_) => {}
            None => self.0.push((key.to_owned(), Value::new(piece))),
        }
        let at = at.unwrap_or(self.0.len().saturating_sub(1));
        self.0.get_mut(at).map(|(_, value)| value)
    }

    fn merge_within(&mut self, piece: &str, depth: usize) {
        for (key, value) in scan::fields(piece).unwrap_or_default() {
            self.merge_field(key, value, depth);
        }
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        self.write_fields(out);
        out.push('}');
    }

    /// Appends the fields alone.
    pub(super) fn write_fields(&self, out: &mut String) {
        for (at, (key, value)) in self.0.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            out.push_str(key);
            out.push(':');
            value.write(out);
        }
    }
}

fn merge_list(own: &mut Vec<Value>, piece: &str, depth: usize) {
    for item in scan::elements(piece).unwrap_or_default() {
        if let Some(last) = own.last_mut()
            && goes_on(last, item)
        {
            last.merge_within(item, depth);
        } else {
            own.push(Value::new(item));
        }
    }
}

/// Whether an item is more of the last one: it has the same index, or is more text of the same type
/// where nobody counts; its type and its id are no others.
fn goes_on(last: &mut Value, item: &str) -> bool {
    let (Some(last), Some(fields)) = (last.object(), scan::fields(item)) else { return false };
    let mut same = |key: &str| {
        let new = fields.iter().find(|(known, _)| *known == key).map(|(_, value)| *value).filter(|new| *new != "null");
        let own = last.get(key).filter(|own| !own.is_blank());
        match (own, new) {
            (Some(own), Some(new)) => Some(own.is(new)),
            (Some(_), None) | (None, Some(_)) => None,
            (None, None) => Some(true),
        }
    };
    let is_counted = fields.iter().any(|(key, _)| *key == r#""index""#);
    let is_text = fields.iter().any(|(key, value)| *key == r#""type""# && TEXTS.contains(value));
    let differs = same(r#""type""#) == Some(false) || same(r#""id""#) == Some(false);
    !differs && same(r#""index""#) == Some(true) && (is_counted || (is_text && same(r#""type""#) == Some(true)))
}

/// The inside of a JSON string that is given with its quotes.
fn inner(quoted: &str) -> &str {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

/// Fields that name a thing. Some servers say them again with every piece.
const NAMES: [&str; 6] = [r#""type""#, r#""id""#, r#""index""#, r#""role""#, r#""name""#, r#""format""#];

/// Types of list items of which a piece without an index goes on with the item before.
const TEXTS: [&str; 4] = [r#""text""#, r#""thinking""#, r#""reasoning.text""#, r#""reasoning.summary""#];

/// The length of half a character: `\ud83d`.
const HALF: usize = 6;

/// Values deeper than this are not merged: the last one counts.
const MAX_DEPTH: usize = 16;

/// Fields beyond so many are kept, but not looked at for merging.
const MAX_MERGED: usize = 256;
