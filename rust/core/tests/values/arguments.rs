//! Arguments are prepared once, before anything runs or is shown (contract 2.4).

use serde_json::{Value, json};
use toolrelay_core::arguments::{InvalidArguments, prepare};

fn input(text: &str) -> String {
    prepare(text).unwrap().input.get().to_owned()
}

fn refusal(text: &str) -> String {
    prepare(text).unwrap_err().to_string()
}

#[test]
fn c1_empty_blank_and_null_are_an_empty_object() {
    for text in ["", "  ", "\n\t", "null", " null ", "{}"] {
        assert_eq!(input(text), "{}", "{text:?}");
        assert_eq!(prepare(text).unwrap().value, json!({}), "{text:?}");
    }
}

#[test]
fn c1_other_values_are_refused_by_their_type() {
    for (text, found) in [
        ("[]", "an array"),
        ("5", "a number"),
        ("\"x\"", "a string"),
        ("true", "a boolean"),
        ("\"\"", "a string"),
        ("\"null\"", "a string"),
    ] {
        let error = InvalidArguments::NotObject { found, excerpt: format!("`{text}`") };
        assert_eq!(prepare(text).unwrap_err(), error);
    }
}

#[test]
fn c2_cut_text_is_refused_with_its_start() {
    let error = refusal(r#"{"path": "a.tx"#);
    assert!(error.contains(r#"got `{"path": "a.tx`"#), "{error}");
    assert!(error.starts_with("invalid arguments: EOF while parsing a string"), "{error}");
}

#[test]
fn long_text_is_quoted_in_part_and_never_inside_a_character() {
    let error = refusal(&format!("[\"{}\"]", "帆".repeat(500_000)));
    assert!(error.len() < 600, "{}", error.len());
    assert!(error.ends_with("帆…`"), "{error}");
}

#[test]
fn c3_a_string_that_holds_one_object_is_unwrapped_once() {
    assert_eq!(input(r#""{\"n\":1}""#), r#"{"n":1}"#);
    assert_eq!(input(r#""{ \"z\": 1.0,  \"a\":2 }""#), r#"{ "z": 1.0,  "a":2 }"#);
    assert!(refusal(r#""[1]""#).contains("got a string"));
    assert!(refusal(r#""\"{}\"""#).contains("got a string"), "only one level");
    assert!(refusal(r#""{\"n\":1}{\"n\":2}""#).contains("got a string"));
}

#[test]
fn c3_a_string_field_stays_a_string() {
    assert_eq!(prepare(r#"{"opts":"{\"n\":1}"}"#).unwrap().value, json!({ "opts": "{\"n\":1}" }));
}

#[test]
fn c11_the_text_stays_as_it_is() {
    for text in [
        r#"{ "z": 1, "a": 1.0 }"#,
        r#"{"e":1E2,"f":-0.0,"g":1e-7}"#,
        "{\"a\" :\t[ ]\n}",
        r#"{"s":"\u0041\/é"}"#,
        r#"{"emoji":"\ud83d\ude00"}"#,
    ] {
        assert_eq!(input(text), text);
    }
    assert_eq!(input(" {\"a\":1}\n"), "{\"a\":1}", "but for the blanks around it");
}

#[test]
fn integers_of_any_size_are_kept_exact() {
    for digits in [19, 20, 38, 308, 309, 310, 5_000, 100_000] {
        let text = format!("{{\"n\":{},\"m\":-{}}}", "9".repeat(digits), "1".repeat(digits));
        let prepared = prepare(&text).unwrap();
        assert_eq!(prepared.input.get(), text, "{digits} digits");
        assert!(prepared.value["n"].is_number() && prepared.value["m"].as_f64().unwrap() < 0.0, "{digits} digits");
    }
    assert_eq!(prepare(r#"{"n":18446744073709551615}"#).unwrap().value["n"], u64::MAX);
    assert_eq!(prepare(r#"{"n":-9223372036854775808}"#).unwrap().value["n"], i64::MIN);
}

#[test]
fn digits_in_a_string_are_no_number() {
    let text = format!(r#"{{"a\"{0}":"{0}","b\\":{0}}}"#, "7".repeat(400));
    let prepared = prepare(&text).unwrap();
    assert_eq!(prepared.input.get(), text);
    let (key, digits) = (format!("a\"{}", "7".repeat(400)), "7".repeat(400));
    assert_eq!(prepared.value[&key], Value::String(digits));
}

#[test]
fn c8_numbers_that_cannot_be_held_are_refused() {
    let fraction = format!("{{\"x\":{}.5}}", "9".repeat(400));
    for text in
        [r#"{"x":NaN}"#, r#"{"x":Infinity}"#, r#"{"x":-Infinity}"#, r#"{"x":1e400}"#, r#"{"x":-1e400}"#, &fraction]
    {
        assert!(refusal(text).starts_with("invalid arguments: "), "{text}");
    }
    assert!(refusal(r#"{"x":1e400}"#).contains("number out of range"));
    assert!(refusal(&format!("{{\"x\":0{}}}", "1".repeat(400))).contains("invalid number"), "a leading zero");
}

#[test]
fn c9_very_deep_arguments_are_refused() {
    for depth in [200, 5_000, 200_000] {
        let text = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert!(refusal(&text).contains("recursion limit exceeded"), "{depth}");
        let list = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(refusal(&list).contains("recursion limit exceeded"), "{depth}");
    }
}

#[test]
fn c10_a_key_that_stands_twice_is_refused_at_any_depth() {
    for text in [
        r#"{"path":"tmp/a","path":"/etc/b"}"#,
        r#"{"a":[{"path":1,"path":1}]}"#,
        r#"{"path":1,"p\u0061th":2}"#,
        r#""{\"path\":1,\"path\":2}""#,
    ] {
        assert!(prepare(text).is_err(), "{text}");
    }
    assert!(refusal(r#"{"path":1,"path":2}"#).contains(r#"the key "path" stands twice"#));
}

#[test]
fn c12_two_objects_are_not_one() {
    for text in [r#"{"n":1}{"n":2}"#, r#"{"n":1} x"#, "{},", "{}]"] {
        assert!(refusal(text).contains("trailing characters"), "{text}");
    }
}

#[test]
fn c6_c7_what_cannot_be_stored_is_replaced_in_what_runs() {
    assert_eq!(
        input(r#"{"a":"ok \ud83d","b":"x\u0000y","c":"a\\u0000b"}"#),
        r#"{"a":"ok \ufffd","b":"x\ufffdy","c":"a\\u0000b"}"#
    );
    assert_eq!(input(r#""{\"a\":\"\\ud83d\"}""#), r#"{"a":"\ufffd"}"#, "inside a doubly encoded object too");
}

#[test]
fn a_byte_order_mark_or_a_comment_is_no_json() {
    for text in ["\u{feff}{}", "{} // done", "{'a':1}", "{a:1}", "{\"a\":1,}"] {
        assert!(prepare(text).is_err(), "{text}");
    }
}
