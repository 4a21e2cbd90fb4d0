//! One item of a streamed reply: its begin, its pieces, its end.

use std::collections::BTreeMap;

use crate::json::quoted;
use crate::json::scan::{elements, fields};
use crate::wire::growing::{Object, Text, Value};
use crate::wire::stream::Delta;

/// What an item says so far.
#[derive(Debug)]
pub(super) struct Item {
    /// As it began, and as it was done: JSON texts.
    begun: Option<String>,
    done: Option<String>,
    kind: String,
    id: Option<String>,
    /// In the order of the parts of a list.
    texts: BTreeMap<(u64, Place), Piecewise>,
    /// Its place among the calls, once it was told.
    call: Option<usize>,
}

/// Where a text of an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Reasoning in short.
    Summary,
    /// Reasoning in full.
    Reasoning,
    /// Visible text.
    Text,
    Refusal,
    /// The arguments of a call.
    Arguments,
}

/// A text in pieces, and what they came to if that is something else.
#[derive(Debug, Default)]
struct Piecewise {
    text: Text,
    whole: Option<String>,
}

/// The kind of item whose text an event has more of, and where that text stands.
pub(super) fn place_of(event: &str) -> Option<(&'static str, Place)> {
    Some(match event {
        "response.output_text.delta" | "response.output_text.done" => ("message", Place::Text),
        "response.refusal.delta" | "response.refusal.done" => ("message", Place::Refusal),
        "response.reasoning_text.delta" | "response.reasoning_text.done" => ("reasoning", Place::Reasoning),
        "response.reasoning_summary_text.delta" | "response.reasoning_summary_text.done" => {
            ("reasoning", Place::Summary)
        }
        "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
            ("function_call", Place::Arguments)
        }
        _ => return None,
    })
}

impl Item {
    /// `None`: the text is no object.
    pub(super) fn begun(raw: &str) -> Option<Self> {
        let fields = fields(raw)?;
        let text = |key| get(&fields, key).filter(|value| value.starts_with('"') && value.len() > 2);
        let kind = text(TYPE).map(|kind| kind.trim_matches('"')).unwrap_or_default();
        Some(Self { begun: Some(raw.to_owned()), id: text(ID).map(str::to_owned), ..Self::of_kind(kind) })
    }

    pub(super) fn of_kind(kind: &str) -> Self {
        Self { begun: None, done: None, kind: kind.to_owned(), id: None, texts: BTreeMap::new(), call: None }
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Its id with quotes, if it has one.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The id of its call with quotes, if it is one.
    pub(super) fn call_id(&self) -> Option<&str> {
        let mut forms = [&self.done, &self.begun].into_iter().flatten().filter(|_| self.kind == "function_call");
        forms.find_map(|form| get(&fields(form)?, CALL_ID).filter(|id| id.starts_with('"') && id.len() > 2))
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Tells a call whose name is known (fault D22).
    pub(super) fn start(&mut self, calls: &mut usize, tell: &mut dyn FnMut(Delta)) {
        let named = self.done.as_deref().or(self.begun.as_deref()).and_then(fields).unwrap_or_default();
        let said = |key| get(&named, key).and_then(|text| Value::new(text).text().map(|text| text.said()));
        if self.kind == "function_call"
            && self.call.is_none()
            && let Some(name) = said(r#""name""#).filter(|name| !name.is_empty())
        {
            let id = said(CALL_ID).filter(|id| !id.is_empty());
            self.told_as_call(id, name, calls, tell);
        }
    }

    fn told_as_call(&mut self, id: Option<String>, name: String, calls: &mut usize, tell: &mut dyn FnMut(Delta)) {
        tell(Delta::CallStarted { index: *calls, id, name });
        self.call = Some(*calls);
        *calls += 1;
    }

    /// Takes a piece of a text, or the whole of it at its end: where that differs, it counts.
    pub(super) fn grow(
        &mut self,
        place: Place,
        part: u64,
        (piece, whole): (Option<&str>, Option<&str>),
        tell: &mut dyn FnMut(Delta),
    ) {
        let own = self.texts.entry((part, place)).or_default();
        match (piece, whole) {
            (Some(piece), _) => own.text.push(piece),
            (None, Some(whole)) if own.text.is_empty() => own.text.push(whole),
            (None, Some(whole)) if !own.text.is(whole) && whole.len() > 2 => own.whole = Some(whole.to_owned()),
            (None, Some(_) | None) => {}
        }
        self.tell(place, part, Text::news, tell);
    }

    /// Takes the item as it was done.
    pub(super) fn finish(&mut self, raw: &str, calls: &mut usize, tell: &mut dyn FnMut(Delta)) {
        self.done = Some(raw.to_owned());
        self.tell_whole(raw, calls, tell);
    }

    /// Tells what a whole form of the item says and no piece of it did, and what waited for more.
    pub(super) fn tell_whole(&mut self, raw: &str, calls: &mut usize, tell: &mut dyn FnMut(Delta)) {
        self.start(calls, tell);
        for (key, value) in fields(raw).unwrap_or_default() {
            let parts = match key {
                r#""arguments""# if self.kind == "function_call" => {
                    match value.as_bytes() {
                        [b'"', ..] => self.fill(Place::Arguments, 0, value),
                        b"null" => {}
                        // Some servers give an object (fault C5).
                        _ => self.fill(Place::Arguments, 0, &quoted(value)),
                    }
                    continue;
                }
                r#""content""# | r#""summary""# => elements(value).unwrap_or_default(),
                _ => continue,
            };
            for (part, raw) in (0..).zip(parts) {
                let fields = fields(raw).unwrap_or_default();
                let kind = get(&fields, TYPE).unwrap_or_default();
                for (place, _, known, key) in PARTS {
                    if kind.trim_matches('"') == known
                        && let Some(text) = get(&fields, key)
                    {
                        self.fill(place, part, text);
                    }
                }
            }
        }
        self.tell_rest(calls, tell);
    }

    fn fill(&mut self, place: Place, part: u64, text: &str) {
        let own = self.texts.entry((part, place)).or_default();
        if own.text.is_empty() && text.starts_with('"') {
            own.text.push(text);
        }
    }

    /// Tells what waited for more; none will come.
    pub(super) fn tell_rest(&mut self, calls: &mut usize, tell: &mut dyn FnMut(Delta)) {
        if self.kind == "function_call" && self.call.is_none() {
            self.start(calls, tell);
            if self.call.is_none() {
                self.told_as_call(None, String::new(), calls, tell);
            }
        }
        let places: Vec<(u64, Place)> = self.texts.keys().copied().collect();
        for (part, place) in places {
            self.tell(place, part, Text::last_news, tell);
        }
    }

    fn tell(&mut self, place: Place, part: u64, news: fn(&mut Text) -> Option<String>, tell: &mut dyn FnMut(Delta)) {
        let Some(own) = self.texts.get_mut(&(part, place)) else { return };
        let delta = match (place, self.call) {
            (Place::Arguments, None) => return,
            (Place::Arguments, Some(index)) => news(&mut own.text).map(|text| Delta::Arguments { index, text }),
            (Place::Summary | Place::Reasoning, _) => news(&mut own.text).map(Delta::Reasoning),
            (Place::Text | Place::Refusal, _) => news(&mut own.text).map(Delta::Text),
        };
        delta.into_iter().for_each(tell);
    }

    /// Appends the item: its last form byte for byte unless that lacks what was known before (fault D23).
    pub(super) fn write(&self, last: Option<&str>, status: &str, out: &mut String) {
        let base = last.or(self.done.as_deref()).or(self.begun.as_deref()).unwrap_or_default();
        let own = fields(base).unwrap_or_default();
        let is_blank = |key: &str| get(&own, key).is_none_or(is_blank);
        let mut healed: Vec<(String, String)> = Vec::new();
        let earlier = self.done.as_deref().filter(|_| last.is_some()).and_then(fields).unwrap_or_default();
        let begun = self.begun.as_deref().and_then(fields).unwrap_or_default();
        let begun = begun.into_iter().filter(|(key, _)| NAMES.contains(key));
        for (key, value) in earlier.into_iter().chain(begun) {
            if is_blank(key) && !self::is_blank(value) && healed.iter().all(|(known, _)| known != key) {
                healed.push((key.to_owned(), value.to_owned()));
            }
        }
        for (key, text) in self.gathered() {
            if is_blank(key) && healed.iter().all(|(known, _)| known != key) {
                healed.push((key.to_owned(), text));
            }
        }
        if last.is_none() && self.done.is_none() {
            healed.push((TYPE.to_owned(), format!("\"{}\"", self.kind)));
            healed.push((r#""status""#.to_owned(), format!("\"{status}\"")));
            // It may be a part of what it became.
            healed.extend(get(&own, SEALED).map(|_| (SEALED.to_owned(), "null".to_owned())));
        }
        if healed.is_empty() {
            out.push_str(base);
            return;
        }
        let mut object = Object::new(base).unwrap_or_default();
        for (key, value) in healed {
            object.set(&key, Value::Plain(value));
        }
        out.push('{');
        object.write_fields(out);
        out.push('}');
    }

    /// The fields that pieces came to.
    fn gathered(&self) -> impl Iterator<Item = (&'static str, String)> {
        let arguments = self.texts.get(&(0, Place::Arguments)).filter(|own| !own.text.is_empty());
        let arguments = arguments.map(|own| (r#""arguments""#, own.json()));
        let lists = [r#""summary""#, r#""content""#].into_iter().filter_map(|list| {
            let parts = self.texts.iter().filter_map(|((_, place), own)| {
                let (_, _, kind, key) = PARTS.iter().find(|known| known.0 == *place && known.1 == list)?;
                Some(format!(r#"{{"type":"{kind}",{key}:{}}}"#, own.json()))
            });
            let parts: Vec<String> = parts.collect();
            (!parts.is_empty()).then(|| (list, format!("[{}]", parts.join(","))))
        });
        arguments.into_iter().chain(lists)
    }
}

impl Piecewise {
    fn json(&self) -> String {
        let mut json = String::new();
        match &self.whole {
            Some(whole) => json.push_str(whole),
            None => self.text.write(&mut json),
        }
        json
    }
}

fn get<'a>(fields: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    fields.iter().rfind(|(known, _)| *known == key).map(|(_, value)| *value)
}

fn is_blank(value: &str) -> bool {
    matches!(value, "null" | r#""""# | "[]" | "{}")
}

/// The parts that hold a text: where it stands, in which list, the part's type, and the key of the text.
const PARTS: [(Place, &str, &str, &str); 4] = [
    (Place::Summary, r#""summary""#, "summary_text", r#""text""#),
    (Place::Reasoning, r#""content""#, "reasoning_text", r#""text""#),
    (Place::Text, r#""content""#, "output_text", r#""text""#),
    (Place::Refusal, r#""content""#, "refusal", r#""refusal""#),
];

const TYPE: &str = r#""type""#;
const ID: &str = r#""id""#;
const CALL_ID: &str = r#""call_id""#;
const SEALED: &str = r#""encrypted_content""#;

/// What is whole when an item begins.
const NAMES: [&str; 5] = [TYPE, ID, CALL_ID, r#""name""#, r#""role""#];
