#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;

use super::unquoted;

#[test]
fn a_string_is_read() {
    for text in [
        r#""""#,
        r#""plain""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u00e9\uD83D\ude00 é 😀""#,
        r#""x\u0041\n""#,
        r#""\u0000""#,
        // Broken ones.
        r#""\ud83d""#,
        r#""\ud83dx""#,
        r#""\ude00""#,
        r#""\ud83d\ud83d\ude00""#,
        r#""\x""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\""#,
        r#""a"#,
        "a",
        "",
    ] {
        assert_eq!(unquoted(text), serde_json::from_str(text).ok(), "{text}");
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(text in any::<String>()) {
        let string = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(unquoted(&string), Some(text.into()));
    }

    #[test]
    fn strings_are_read_as_serde_json_reads_them(
        pieces in prop::collection::vec(prop::sample::select(vec!["\\u", "\\ud83d", "\\uDE00", "\\u00e9", "\\n", "\\\\", "d83d", "a", "é"]), 0..8),
    ) {
        let text = format!("\"{}\"", pieces.concat());
        prop_assert_eq!(unquoted(&text), serde_json::from_str(&text).ok());
    }
}
