//! A transcript is read as a whole JSON parser would read it, whatever its spacing and spelling.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use toolrelay_core::json::mend_escapes;
use toolrelay_core::message::{Body, Message};
use toolrelay_core::transcript::Transcript;

/// Pieces of a message that are right in some place.
fn piece() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just(r#""hi""#.to_owned()),
        Just(r#""a\"b\\""#.to_owned()),
        Just(r#""\\\\""#.to_owned()),
        Just(r#""\ud83d\ude00 \u0041\/""#.to_owned()),
        Just("\"帆 }]{[,:\"".to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text.replace('\0', "")).unwrap()),
    ];
    prop_oneof![
        text.clone().prop_map(|text| format!(r#"{{"role":"user","content":{text}}}"#)),
        text.clone().prop_map(|text| format!(r#"{{"content":{text},"role":"system"}}"#)),
        text.clone().prop_map(|text| format!(r#"{{"role":"assistant","content":{text}}}"#)),
        (text.clone(), text.clone()).prop_map(|(id, text)| format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#)),
        (text.clone(), text.clone()).prop_map(|(id, arguments)| format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":{id},"type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        )),
        text.clone().prop_map(|text| format!(r#"{{"role":"user","content":[{{"type":"text","text":{text}}},{{"n":[1.5e3,-0,true,null]}}]}}"#)),
        text.prop_map(|text| format!(r#"{{"role":"tool","tool_call_id":"k","content":{text},"toolrelay":{{"outcome":"error"}}}}"#)),
    ]
}

fn list() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..6).prop_map(|messages| format!("[{}]", messages.join(",")))
}

/// The same JSON with blanks where JSON allows them.
fn spaced(json: &str, blanks: &[u8]) -> String {
    let mut out = String::new();
    let mut blanks = blanks.iter().cycle();
    let mut in_string = false;
    let mut escaped = false;
    for character in json.chars() {
        let structural = !in_string && "{}[],:".contains(character);
        let mut blank = || [" ", "\n", "\t\r", "", "", ""][usize::from(blanks.next().copied().unwrap_or(5) % 6)];
        if structural {
            out.push_str(blank());
        }
        out.push(character);
        if structural {
            out.push_str(blank());
        }
        in_string = match character {
            '"' if !escaped => !in_string,
            _ => in_string,
        };
        escaped = character == '\\' && !escaped;
    }
    out
}

fn read(json: &str) -> Option<Transcript> {
    Transcript::from_json(Bytes::copy_from_slice(json.as_bytes())).ok()
}

fn values(transcript: &Transcript) -> Vec<Value> {
    transcript.messages().iter().map(|message| serde_json::from_slice(message.json()).unwrap()).collect()
}

/// What the machine knows of a message must be what its JSON says.
fn agrees(message: &Message) -> Result<(), TestCaseError> {
    let json: Value = serde_json::from_slice(message.json()).unwrap();
    match message.body() {
        Body::System => prop_assert!(json["role"] == "system" || json["role"] == "developer"),
        Body::User => prop_assert_eq!(&json["role"], "user"),
        Body::Assistant(assistant) => {
            prop_assert_eq!(&json["role"], "assistant");
            let entries = json["tool_calls"].as_array().cloned().unwrap_or_default();
            prop_assert_eq!(entries.len(), assistant.calls.len());
            for (entry, call) in entries.iter().zip(&assistant.calls) {
                prop_assert_eq!(&entry["id"], call.id.as_str());
                prop_assert_eq!(&entry["function"]["name"], &call.name);
                prop_assert_eq!(&entry["function"]["arguments"], &call.arguments);
            }
        }
        Body::Tool(result) => {
            prop_assert_eq!(&json["role"], "tool");
            prop_assert_eq!(&json["tool_call_id"], result.call.as_str());
            prop_assert_eq!(json["toolrelay"]["outcome"] == "error", !result.outcome.is_ok());
        }
    }
    if let Some(text) = json["content"].as_str() {
        prop_assert_eq!(message.text(), text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spacing_and_envelope_change_nothing(list in list(), blanks in prop::collection::vec(any::<u8>(), 0..40)) {
        let expected: Vec<Value> = serde_json::from_str(&mend_escapes(&list)).unwrap();
        let spaced = spaced(&list, &blanks);
        for json in [list.clone(), spaced.clone(), format!(r#"{{"format":1,"messages":{list}}}"#), format!(" {{ \"messages\" : {spaced} , \"x\" : [ {{ }} ], \"format\" : 1 }} ")] {
            let transcript = read(&json).unwrap();
            prop_assert_eq!(values(&transcript), expected.clone(), "{}", json);
            transcript.messages().iter().try_for_each(agrees)?;
            prop_assert_eq!(read(std::str::from_utf8(&transcript.to_json()).unwrap()), Some(transcript));
        }
    }

    #[test]
    fn what_a_parser_refuses_is_refused(
        list in list(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, prop::sample::select(&["\"", "\\", "{", "}", "[", "]", ",", ":", "1", "\u{1}", "null", " ", "\\u12", "帆", "e"][..])), 1..4),
        enveloped in any::<bool>(),
    ) {
        let mut json = if enveloped { format!(r#"{{"format":1,"messages":{list}}}"#) } else { list };
        for (place, kind, text) in edits {
            let mut places: Vec<usize> = json.char_indices().map(|(at, _)| at).collect();
            places.push(json.len());
            let at = *place.get(&places);
            let behind = json[at..].chars().next().map_or(at, |character| at + character.len_utf8());
            match kind {
                0 => json.insert_str(at, text),
                1 => json.replace_range(at..behind, ""),
                _ => json.replace_range(at..behind, text),
            }
        }
        let parsed: Result<Value, _> = serde_json::from_str(&mend_escapes(&json));
        match (read(&json), parsed) {
            (Some(_), Err(error)) => prop_assert!(false, "{}: {}", error, json),
            (Some(transcript), Ok(parsed)) => {
                let messages = if parsed.is_array() { parsed } else { parsed["messages"].clone() };
                prop_assert_eq!(transcript.len(), messages.as_array().unwrap().len(), "{}", json);
                transcript.messages().iter().try_for_each(agrees)?;
            }
            (None, _) => {}
        }
    }
}
