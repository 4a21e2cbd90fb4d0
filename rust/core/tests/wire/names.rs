//! The maps of tool names and call ids.

use proptest::prelude::*;
use toolrelay_core::wire::Style;
use toolrelay_core::wire::names::{gemini_name, wire_id, wire_name};

/// Fault J6: the values are part of stored conversations and must never change.
#[test]
fn names_are_mapped_to_these_for_ever() {
    let long = "a_very_long_name_for_a_tool_that_moors_boats_in_the_northern_harbour_by_night";
    let table = [
        ("tally", "tally"),
        ("dock-moor_1", "dock-moor_1"),
        ("dock/moor.boat", "dock_moor_boat_b939dbccfdba0a5a"),
        (long, "a_very_long_name_for_a_tool_that_moors_boats_in_376af49a9a24dbd4"),
        ("größe", "gr__e_b7450e1ef58140da"),
        ("", "_cbf29ce484222325"),
    ];
    for (name, expected) in table {
        assert_eq!(wire_name(name), expected);
    }
}

/// One provider wants a letter or an underscore first.
#[test]
fn names_begin_with_a_letter_where_they_must() {
    let table = [
        ("tally", "tally"),
        ("_tally", "_tally"),
        ("dock/moor.boat", "dock_moor_boat_b939dbccfdba0a5a"),
        ("3d", "_3d_07ff3207b4bf8432"),
        ("-x", "_-x_07d04207b4982ea0"),
        ("9/moor", "_9_moor_0e95aef9576194b8_0e95aef9576194b8"),
    ];
    for (name, expected) in table {
        assert_eq!(gemini_name(name), expected);
    }
}

/// Fault B2: two ids that look alike after the change stay apart.
#[test]
fn ids_are_mapped_for_the_style_that_refuses_them() {
    let table = [
        (Style::OpenAi, "functions.moor:0", "functions.moor:0"),
        (Style::OpenAiResponses, "functions.moor:0", "functions.moor:0"),
        (
            Style::OpenAiResponses,
            "call_0123456789abcdef0123456789abcdef0123456789",
            "call_0123456789abcdef0123456789abcdef0123456789",
        ),
        (Style::Anthropic, "functions.moor:0", "functions_moor_0_e394f176c25b9cf7"),
        (Style::Anthropic, "functions_moor_0", "functions_moor_0"),
        (Style::Gemini, "functions.moor:0", "functions.moor:0"),
        (Style::Anthropic, "toolu_01A09q90qw90lq917835lq9", "toolu_01A09q90qw90lq917835lq9"),
        (Style::OpenAi, "chatcmpl-tool-0123456789abcdef0123456789abcdef", "chatcmpl-tool-012345678_7059c8a482880eeb"),
    ];
    for (style, id, expected) in table {
        assert_eq!(wire_id(style, id), expected);
    }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

proptest! {
    #[test]
    fn mapped_names_are_legal_and_stay(name in ".{0,100}") {
        let mapped = wire_name(&name).into_owned();
        prop_assert!((1..=64).contains(&mapped.len()) && is_word(&mapped));
        prop_assert_eq!(wire_name(&mapped), mapped.as_str());
        let mapped = gemini_name(&name).into_owned();
        prop_assert!((1..=64).contains(&mapped.len()) && is_word(&mapped));
        prop_assert!(mapped.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'));
        prop_assert_eq!(gemini_name(&mapped), mapped.as_str());
        prop_assert_eq!(wire_name(&mapped), mapped.as_str());
    }

    #[test]
    fn mapped_ids_are_legal_and_stay(id in ".{0,100}") {
        for (style, max) in [(Style::OpenAi, 40), (Style::OpenAiResponses, 64), (Style::Anthropic, 64)] {
            let mapped = wire_id(style, &id).into_owned();
            prop_assert!((1..=max).contains(&mapped.len()));
            prop_assert!(style != Style::Anthropic || is_word(&mapped));
            prop_assert_eq!(wire_id(style, &mapped), mapped.as_str());
        }
    }

    /// From a small alphabet, so that many pairs look alike.
    #[test]
    fn different_texts_stay_different(pair in proptest::array::uniform2("[a._3]{0,6}(long-tail-of-an-id-that-is-too-long-for-a-wire){0,2}[a._]{0,2}")) {
        let [one, other] = &pair;
        prop_assume!(one != other);
        prop_assert_ne!(wire_name(one), wire_name(other));
        prop_assert_ne!(gemini_name(one), gemini_name(other));
        for style in Style::ALL {
            prop_assert_ne!(wire_id(style, one), wire_id(style, other));
        }
    }
}
