#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Scan, elements, fields};

/// The text of the one value in `text`, by the scan.
fn scanned(text: &str) -> Option<&str> {
    let mut scan = Scan::new(text);
    let value = scan.value()?;
    scan.is_over().then_some(value)
}

fn by_serde(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

#[test]
fn what_is_json_and_what_is_not() {
    for text in [
        "null",
        " true",
        "false ",
        "0",
        "-0",
        "10.5e+3",
        "1E9",
        "1e999",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1, 2]",
        r#"{"a":1,"a":[{}]}"#,
        r#""\ud800""#,
        r#""\u00e9\/\b""#,
        "\"\u{7f}\"",
        r#""""#,
        "[[],{},\"\"]",
        // Not JSON.
        "",
        " ",
        "nul",
        "truex",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{1:2}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        "[1}",
        "{]",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\u12"#,
        "\"a\nb\"",
        "\"\u{1f}\"",
        "\"\0\"",
        r#""a"#,
        r#""a\"#,
        "[",
        "{",
        r#"{"a":[1"#,
        "1 1",
        "[]]",
        "\u{feff}1",
        "'a'",
        "NaN",
        "-Infinity",
        "\u{a0}1",
    ] {
        assert_eq!(scanned(text), by_serde(text), "{text:?}");
    }
}

#[test]
fn long_strings_are_looked_at_to_the_last_byte() {
    for length in 0..150 {
        for (wrong, is_json) in [("\n", false), ("\\n", true), ("\\", false), ("é", true), ("", true)] {
            let text = format!("\"{}{wrong}{}\"", "x".repeat(length), "y".repeat(150 - length));
            assert_eq!(scanned(&text).is_some(), is_json, "{text}");
        }
    }
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}{}", r#"[{"a":"#.repeat(100_000), "}]".repeat(100_000));
    assert_eq!(scanned(&deep), None);
    let deep = format!("{}1{}", r#"[{"a":"#.repeat(100_000), "}]".repeat(100_000));
    assert_eq!(scanned(&deep), Some(deep.as_str()));
}

#[test]
fn outermost_levels_are_split() {
    assert_eq!(elements(r#" [ 1 , "a,]" ,[2,{"b":3}] ] "#), Some(vec!["1", r#""a,]""#, r#"[2,{"b":3}]"#]));
    assert_eq!(elements(" [ ] "), Some(Vec::new()));
    assert_eq!(fields(r#" { "a" : 1 , "a":{"b":[ ]} } "#), Some(vec![(r#""a""#, "1"), (r#""a""#, r#"{"b":[ ]}"#)]));
    assert_eq!(fields("{}"), Some(Vec::new()));
    for text in ["[1] 2", "[1", "{}", "[1,]"] {
        assert_eq!(elements(text), None, "{text}");
    }
    for text in ["{} 2", r#"{"a":1"#, "[]", "{1:2}"] {
        assert_eq!(fields(text), None, "{text}");
    }
}

/// Pieces of JSON, more often in a sound order than not.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\"a\"",
        "\"b\":",
        "[]",
        "{}",
        "1",
        "-0.5",
        "2e7",
        "0",
        ".",
        "e",
        "-",
        "true",
        "null",
        "false",
        " ",
        "\n",
        "\t",
        "\\u00e9",
        "\\n",
        "\u{1}",
        "é",
        "\"\\ud83d\"",
        "\"long enough to fill a word or two\"",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        pieces().prop_map(|text| serde_json::to_string(&text).unwrap()),
        any::<f64>().prop_map(|number| serde_json::to_string(&number).unwrap()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let blank = || prop::sample::select(vec!["", " ", "\n\t", "\r"]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), blank())
                .prop_map(|(items, blank)| format!("[{blank}{}{blank}]", items.join(&format!("{blank},")))),
            (prop::collection::vec((any::<String>(), inner), 0..5), blank()).prop_map(|(fields, blank)| {
                let fields: Vec<String> = fields
                    .into_iter()
                    .map(|(key, value)| format!("{}{blank}:{value}", serde_json::to_string(&key).unwrap()))
                    .collect();
                format!("{{{blank}{}{blank}}}", fields.join(","))
            }),
        ]
    })
}

/// A text with one character taken out, doubled or replaced.
fn mangled() -> impl Strategy<Value = String> {
    (json(), any::<prop::sample::Index>(), pieces(), 0..3_u8).prop_map(|(text, at, piece, how)| {
        let chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        let (before, after) = chars.split_at(at);
        let middle = match how {
            0 => String::new(),
            1 => format!("{}{}", chars[at], chars[at]),
            _ => piece,
        };
        before.iter().chain(&middle.chars().collect::<Vec<_>>()).chain(&after[1..]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_json_is_taken_as_it_stands(text in json()) {
        prop_assert_eq!(scanned(&text), Some(text.as_str()));
        prop_assert_eq!(scanned(&text), by_serde(&text));
    }

    #[test]
    fn what_is_not_json_is_refused_as_serde_json_refuses_it(text in prop_oneof![mangled(), pieces()]) {
        prop_assert_eq!(scanned(&text), by_serde(&text));
    }
}
