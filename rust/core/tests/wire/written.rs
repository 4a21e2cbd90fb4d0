//! Replies as a provider writes them, each plain and streamed.

#[path = "written/anthropic.rs"]
mod anthropic;
#[path = "written/gemini.rs"]
mod gemini;
#[path = "written/openai.rs"]
mod openai;
#[path = "written/responses.rs"]
mod responses;

use proptest::collection::vec;
use proptest::prelude::*;
use toolrelay_core::wire::Style;

use crate::properties::{json_string, json_text};

/// One reply in both forms.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The plain body.
    pub(crate) plain: String,
    /// The data of the events.
    pub(crate) events: Vec<String>,
}

impl Written {
    pub(crate) fn stream(&self) -> String {
        let event = |data: &String| ["data: ", &data.replace('\n', "\ndata: "), "\n\n"].concat();
        self.events.iter().map(event).collect()
    }
}

type Writer = fn() -> BoxedStrategy<Written>;

/// The styles, and what a reply of each may look like.
pub(crate) const STYLES: [(Style, Writer); 4] = [
    (Style::OpenAi, openai::written),
    (Style::OpenAiResponses, responses::written),
    (Style::Anthropic, anthropic::written),
    (Style::Gemini, gemini::written),
];

/// Any style, with a reply of it.
pub(crate) fn written() -> impl Strategy<Value = (Style, Written)> {
    prop::sample::select(STYLES.to_vec()).prop_flat_map(|(style, written)| (Just(style), written()))
}

/// The inside of a JSON string, in pieces: halves of characters may stand in two of them, or alone.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let unit = prop_oneof![
        "[a-z !é帆\u{1f600}\u{2028}]",
        Just(r"\u00e9".to_owned()),
        Just(r"\ud83d".to_owned()),
        Just(r"\uDE00".to_owned()),
        Just(r"\ud83d\ude00".to_owned()),
        Just(r"\n".to_owned()),
        Just(r#"\""#.to_owned()),
        Just(r"\\".to_owned()),
        Just(r"\/".to_owned()),
        Just(r"\u0000".to_owned()),
    ];
    vec(vec(unit, 0..4).prop_map(|units| units.concat()), 0..5)
}

/// JSON text that a string holds, in pieces. An escaped character may be cut in two.
fn cut_json(json: &str, size: usize) -> Vec<String> {
    let mut units = Vec::new();
    for char in json.chars() {
        match char {
            '"' | '\\' => units.push(format!("\\{char}")),
            '\n' => units.push(r"\n".to_owned()),
            '\u{1f600}' => units.extend([r"\ud83d".to_owned(), r"\ude00".to_owned()]),
            _ => units.push(char.to_string()),
        }
    }
    units.chunks(size).map(<[String]>::concat).collect()
}

fn object() -> impl Strategy<Value = String> {
    vec((json_string(), json_text()), 0..3).prop_map(|fields| {
        let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
        format!("{{{}}}", fields.join(" ,"))
    })
}
