//! Replies of Responses.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Written, cut_json, object, pieces};
use crate::properties::json_text;

/// An item: as it begins, its events, and as it is in the end. The events have their item's place as `@`.
type Item = (String, Vec<String>, String);

fn item(at: usize, refused: bool) -> impl Strategy<Value = Item> {
    let event = |kind: &str, fields: String| format!(r#"{{"type":"response.{kind}","output_index":@,{fields}}}"#);
    let grown = move |kind: &str, id: &str, place: &str, (key, pieces): (&str, &[String])| -> Vec<String> {
        let delta =
            |piece: &String| event(&format!("{kind}.delta"), format!(r#""item_id":"{id}",{place}"delta":"{piece}""#));
        let done = event(&format!("{kind}.done"), format!(r#""item_id":"{id}",{place}"{key}":"{}""#, pieces.concat()));
        pieces.iter().map(delta).chain([done]).collect()
    };
    let message = pieces().prop_map(move |pieces| {
        let id = format!("msg_{at}");
        let (kind, key) = if refused { ("refusal", "refusal") } else { ("output_text", "text") };
        let whole =
            |content: &str| format!(r#"{{"id":"{id}","type":"message","role":"assistant","content":[{content}]}}"#);
        let part = format!(r#"{{"type":"{kind}","{key}":"{}"}}"#, pieces.concat());
        (whole(""), grown(kind, &id, r#""content_index":0,"#, (key, &pieces)), whole(&part))
    });
    let reasoning = (vec(pieces(), 0..3), "[a-z]{1,6}").prop_map(move |(parts, sealed)| {
        let id = format!("rs_{at}");
        let whole = |summary: &str| {
            format!(r#"{{"id":"{id}","type":"reasoning","summary":[{summary}],"encrypted_content":"{sealed}"}}"#)
        };
        let events = parts.iter().enumerate().flat_map(|(place, pieces)| {
            grown("reasoning_summary_text", &id, &format!(r#""summary_index":{place},"#), ("text", pieces))
        });
        let part = |pieces: &Vec<String>| format!(r#"{{"type":"summary_text","text":"{}"}}"#, pieces.concat());
        let summary: Vec<String> = parts.iter().map(part).collect();
        (whole(""), events.collect(), whole(&summary.join(", ")))
    });
    let call = ("[a-z]{1,6}", object(), 1usize..9).prop_map(move |(name, arguments, size)| {
        let id = format!("fc_{at}");
        let pieces = cut_json(&arguments, size);
        let whole = |arguments: &str| {
            format!(
                r#"{{"id":"{id}","type":"function_call","call_id":"k{at}","name":"{name}","arguments":"{arguments}"}}"#
            )
        };
        (whole(""), grown("function_call_arguments", &id, "", ("arguments", &pieces)), whole(&pieces.concat()))
    });
    let other = json_text().prop_map(move |data| {
        let whole = format!(r#"{{"id":"my_{at}","type":"mystery", "data":{data}}}"#);
        (whole.clone(), Vec::new(), whole)
    });
    prop_oneof![message, reasoning, call, other]
}

pub(super) fn written() -> BoxedStrategy<Written> {
    // A refusal is told, and is the text only where there is none: no reply has both.
    let items = (0..4usize, any::<bool>())
        .prop_flat_map(|(count, refused)| (0..count).map(|at| item(at, refused)).collect::<Vec<_>>());
    let status = prop::sample::select(vec!["completed", "incomplete"]);
    let all = (items, status, any::<u16>()).prop_map(|(items, status, tokens)| {
        let response = |status: &str, output: &str, usage: &str| {
            format!(r#"{{"id":"x","object":"response","status":"{status}","error":null,"model":"m-1","output":[{output}],"usage":{usage}}}"#)
        };
        let started = response("in_progress", "", "null");
        let mut events = vec![format!(r#"{{"type":"response.created","response":{started}}}"#)];
        for (place, (begun, between, done)) in items.iter().enumerate() {
            let item = |event: &str, item: &str| {
                format!(r#"{{"type":"response.output_item.{event}","output_index":{place},"item":{item}}}"#)
            };
            events.push(item("added", begun));
            events.extend(between.iter().map(|event| event.replacen('@', &place.to_string(), 1)));
            events.push(item("done", done));
        }
        let output: Vec<&str> = items.iter().map(|(_, _, done)| done.as_str()).collect();
        let plain = response(status, &output.join(","), &format!(r#"{{"input_tokens":{tokens},"output_tokens":5}}"#));
        events.push(format!(r#"{{"type":"response.{status}","response":{plain}}}"#));
        Written { plain, events }
    });
    all.boxed()
}
