//! JSON text: escapes, strings, raw values.

use std::borrow::Cow;

use proptest::prelude::*;
use toolrelay_core::json::{Json, clean, mend_escapes, push_str, read_strict};

fn string(text: &str) -> String {
    let mut out = Vec::new();
    push_str(&mut out, text);
    String::from_utf8(out).unwrap()
}

#[test]
fn c6_a_lone_surrogate_becomes_the_replacement_character() {
    for (text, mended) in [
        (r#""ok \ud83d""#, r#""ok \ufffd""#),
        (r#""\ude00""#, r#""\ufffd""#),
        (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
        (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
        (r#""\uD83D\uDE00""#, r#""\uD83D\uDE00""#),
        (r#""\uD83D x""#, r#""\ufffd x""#),
        (r#""\\ud83d""#, r#""\\ud83d""#),
        (r#""\\\ud83d""#, r#""\\\ufffd""#),
        (r#""\ud83d\\ude00""#, r#""\ufffd\\ude00""#),
        (r#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
        (r#""\ud55c\uc5b4""#, r#""\ud55c\uc5b4""#),
    ] {
        assert_eq!(mend_escapes(text), mended, "{text}");
    }
}

#[test]
fn c7_a_nul_escape_is_replaced_and_the_six_characters_are_not() {
    for (text, mended) in [
        (r#""a\u0000b""#, r#""a\ufffdb""#),
        (r#""a\\u0000b""#, r#""a\\u0000b""#),
        (r#""a\\\u0000b""#, r#""a\\\ufffdb""#),
        (r#""\u00001""#, r#""\ufffd1""#),
        (r#""\u0001""#, r#""\u0001""#),
    ] {
        assert_eq!(mend_escapes(text), mended, "{text}");
    }
}

#[test]
fn text_without_a_fault_is_not_copied() {
    for text in [r#""plain""#, r#""\ud83d\ude00 \\ud83d \\u0000""#, "{}", ""] {
        assert!(matches!(mend_escapes(text), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn broken_escapes_are_left_to_the_parser() {
    for text in [r#""\ud8"#, r#""\u"#, r"\", r#""\ud83d\u"#, r#""\ud83d\ude0""#, r#""\uzzzz\ud8zz""#] {
        let mended = mend_escapes(text);
        assert!(serde_json::from_str::<String>(&mended).is_err(), "{text}");
    }
}

#[test]
fn every_raw_value_is_mended_at_the_door() {
    let text = r#"{"a":"\ud83d","b":["x\u0000"]}"#;
    let mended = r#"{"a":"\ufffd","b":["x\ufffd"]}"#;
    assert_eq!(Json::parse(text).unwrap().get(), mended);
    assert_eq!(serde_json::from_str::<Json>(text).unwrap().get(), mended);
    assert_eq!(Json::of(&"a\0b").unwrap().get(), r#""a\ufffdb""#);
}

#[test]
fn a_raw_value_keeps_its_bytes() {
    for text in [r#"{ "z": 1, "a": 1.0 }"#, "1E2", "null", r#""\u0041""#, "123456789012345678901234567890"] {
        assert_eq!(Json::parse(&format!(" {text}\n")).unwrap().get(), text);
    }
    for text in ["", "{", "1 2", "NaN", "{}{}"] {
        assert!(Json::parse(text).is_err(), "{text}");
    }
}

#[test]
fn raw_values_have_no_depth_limit() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(Json::parse(&deep).unwrap().get(), deep);
}

#[test]
fn large_texts_take_linear_time() {
    let large = r"\ud83d\\u0000\u0000".repeat(60_000);
    assert_eq!(mend_escapes(&large), r"\ufffd\\u0000\ufffd".repeat(60_000));
    let nested = format!("[{}]", vec!["\"\\ud83d\""; 50_000].join(","));
    assert!(read_strict(&mend_escapes(&nested)).unwrap().is_array());
}

/// What a string is when each faulty code unit is replaced: written without an eye to speed.
fn naive_mend(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let unit = |at: usize| {
        let escape: String = chars.get(at..at + 6)?.iter().collect();
        let digits = escape.strip_prefix("\\u")?;
        if !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => {
                out.extend(&chars[at..at + 12]);
                at += 12;
            }
            Some(0 | 0xd800..=0xdfff) => {
                out.push_str("\\ufffd");
                at += 6;
            }
            Some(_) => {
                out.extend(&chars[at..at + 6]);
                at += 6;
            }
            None if chars[at] == '\\' => {
                out.extend(&chars[at..(at + 2).min(chars.len())]);
                at += 2;
            }
            None => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

fn escapes() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\\"),
        Just("\\\\"),
        Just("\\u"),
        Just("\\ud83d"),
        Just("\\uDE00"),
        Just("\\u0000"),
        Just("\\u0041"),
        Just("u0000"),
        Just("ud83d"),
        Just("\\n"),
        Just("\\\""),
        Just("d8"),
        Just("帆"),
        Just("a"),
        Just("\\uD"),
        Just("00"),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn mending_agrees_with_the_naive_reading(text in escapes()) {
        prop_assert_eq!(mend_escapes(&text).into_owned(), naive_mend(&text));
    }

    #[test]
    fn mending_twice_is_mending_once(text in escapes()) {
        let once = mend_escapes(&text).into_owned();
        prop_assert_eq!(mend_escapes(&once).into_owned(), once.clone());
    }

    #[test]
    fn what_parses_before_mending_parses_after_with_no_nul(text in escapes()) {
        let quoted = format!("\"{text}\"");
        if let Ok(raw) = Json::parse(&quoted) {
            let read: String = serde_json::from_str(raw.get()).unwrap();
            prop_assert!(!read.contains('\0'));
        }
    }

    #[test]
    fn a_written_string_reads_back(text in any::<String>()) {
        let read: String = serde_json::from_str(&string(&text)).unwrap();
        prop_assert_eq!(&read, &clean(&text).into_owned());
        prop_assert_eq!(read, text.replace('\0', "\u{fffd}"));
    }

    #[test]
    fn a_written_string_is_what_serde_json_writes(text in any::<String>()) {
        prop_assert_eq!(string(&text), serde_json::to_string(&text.replace('\0', "\u{fffd}")).unwrap());
    }

    #[test]
    fn reading_strictly_agrees_with_serde_json(value in values()) {
        let text = value.to_string();
        prop_assert_eq!(read_strict(&text).unwrap(), value);
    }
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON holds finite numbers", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
