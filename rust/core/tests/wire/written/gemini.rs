//! Replies of generateContent.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Written, object, pieces};
use crate::properties::json_text;

#[derive(Clone, Debug)]
enum Part {
    /// Text that may come in pieces, and whether it is a thought.
    Text(Vec<String>, bool),
    /// One part as it stands in a plain reply, and the parts of a stream.
    Other(String, Vec<String>),
}

fn part(at: usize) -> impl Strategy<Value = Part> {
    let text = (pieces(), any::<bool>()).prop_map(|(mut pieces, is_thought)| {
        if pieces.is_empty() {
            pieces.push(String::new());
        }
        Part::Text(pieces, is_thought)
    });
    let whole = |part: String| Part::Other(part.clone(), vec![part]);
    let signed = (pieces(), "[a-zA-Z0-9=]{0,8}", any::<bool>()).prop_map(move |(pieces, signature, is_thought)| {
        let thought = if is_thought { r#","thought":true"# } else { "" };
        whole(format!(r#"{{"text":"{}", "thoughtSignature":"x{signature}"{thought}}}"#, pieces.concat()))
    });
    let unknown = json_text().prop_map(move |data| whole(format!(r#"{{"executableCode":{{"mystery": {data}}}}}"#)));
    let call = ("[a-z]{1,6}", object()).prop_map(move |(name, args)| {
        let id = if at.is_multiple_of(2) { format!(r#""id":"k{at}","#) } else { String::new() };
        whole(format!(r#"{{"functionCall":{{{id}"name":"{name}","args":{args}}},"thoughtSignature":"c2ln"}}"#))
    });
    let growing = ("[a-z]{1,6}", pieces(), any::<bool>()).prop_map(move |(name, pieces, is_ended)| {
        let mut parts =
            vec![format!(r#"{{"functionCall":{{"name":"{name}","willContinue":true}},"thoughtSignature":"c2ln"}}"#)];
        parts.extend(pieces.iter().map(|piece| {
            format!(r#"{{"functionCall":{{"partialArgs":[{{"jsonPath":"$.a[0]","stringValue":"{piece}"}}],"willContinue":true}}}}"#)
        }));
        parts.extend(is_ended.then(|| r#"{"functionCall":{}}"#.to_owned()));
        let args = if pieces.is_empty() { "{}".to_owned() } else { format!(r#"{{"a":["{}"]}}"#, pieces.concat()) };
        let plain = format!(r#"{{"functionCall":{{"name":"{name}","args":{args}}},"thoughtSignature":"c2ln"}}"#);
        Part::Other(plain, parts)
    });
    prop_oneof![text, signed, unknown, call, growing]
}

pub(super) fn written() -> BoxedStrategy<Written> {
    let parts = (0..5usize).prop_flat_map(|count| (0..count).map(part).collect::<Vec<_>>());
    let reason = prop::sample::select(vec!["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "TIDE"]);
    (parts, vec(1usize..4, 1..4), reason, any::<u16>())
        .prop_map(|(parts, sizes, reason, tokens)| {
            let text = |text: &str, is_thought: bool| {
                format!(r#"{{"text":"{text}"{}}}"#, if is_thought { r#","thought":true"# } else { "" })
            };
            let (mut plain, mut streamed) = (Vec::new(), Vec::new());
            for run in
                parts.chunk_by(|one, other| matches!((one, other), (Part::Text(_, a), Part::Text(_, b)) if a == b))
            {
                let mut joined = String::new();
                for part in run {
                    match part {
                        Part::Text(pieces, is_thought) => {
                            joined.push_str(&pieces.concat());
                            streamed.extend(pieces.iter().map(|piece| text(piece, *is_thought)));
                        }
                        Part::Other(part, parts) => {
                            plain.push(part.clone());
                            streamed.extend(parts.iter().cloned());
                        }
                    }
                }
                if let Some(Part::Text(_, is_thought)) = run.first() {
                    plain.push(text(&joined, *is_thought));
                }
            }
            let reply = |parts: &[String], reason: &str, tokens: u16| {
                let content = format!(r#""content":{{"parts":[{}],"role":"model"}}"#, parts.join(","));
                let usage = format!(r#"{{"promptTokenCount":3,"candidatesTokenCount":{tokens}}}"#);
                format!(
                    r#"{{"candidates":[{{{content}{reason},"index":0}}],"usageMetadata":{usage},"modelVersion":"m-1"}}"#
                )
            };
            let reason = format!(r#","finishReason":"{reason}""#);
            let mut events = Vec::new();
            let mut rest = streamed.as_slice();
            for size in sizes.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*size));
                events.push(reply(
                    now,
                    if later.is_empty() { &reason } else { "" },
                    if later.is_empty() { tokens } else { 1 },
                ));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            Written { plain: reply(&plain, &reason, tokens), events }
        })
        .boxed()
}
