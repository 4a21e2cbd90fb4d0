//! Replies of Chat Completions.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Written, pieces};
use crate::properties::json_text;

pub(super) fn written() -> BoxedStrategy<Written> {
    let call = (prop::option::of("[a-z]{1,4}"), "[a-z]{1,6}", pieces(), any::<bool>());
    let message = (prop::option::of(pieces()), prop::option::of(pieces()), prop::option::of(pieces()), vec(call, 0..4));
    let reason = prop::sample::select(vec!["stop", "tool_calls", "length", "tide"]);
    (message, prop::option::of(json_text()), reason, any::<u16>()).prop_map(
        |((text, reasoning, refusal, calls), mystery, reason, tokens)| {
            let mut deltas = Vec::new();
            let mut fields = Vec::new();
            let mut string = |key: &str, pieces: Option<Vec<String>>| {
                let quote = if pieces.is_some() { "\"" } else { "" };
                deltas.push(format!(r#"{{"role":"assistant","{key}":{}}}"#, if pieces.is_some() { "\"\"" } else { "null" }));
                deltas.extend(pieces.iter().flatten().map(|piece| format!(r#"{{"{key}":"{piece}"}}"#)));
                let whole = pieces.map_or_else(|| "null".to_owned(), |pieces| pieces.concat());
                fields.push(format!(r#""{key}":{quote}{whole}{quote}"#));
            };
            string("content", text);
            string("reasoning_content", reasoning);
            string("refusal", refusal);
            if let Some(mystery) = mystery {
                fields.push(format!(r#""mystery":{mystery}"#));
                deltas.push(format!(r#"{{"mystery":{mystery}}}"#));
            }
            let mut entries = Vec::new();
            let longest = calls.iter().map(|(_, _, arguments, _)| arguments.len()).max().unwrap_or_default();
            for (at, (id, name, arguments, more)) in calls.iter().enumerate() {
                let id = id.as_ref().map(|id| format!(r#""id":"{id}-{at}","#)).unwrap_or_default();
                let more = if *more { r#","extra_content":{"a":[1.0]}"# } else { "" };
                let call = |arguments: &str| {
                    format!(r#"{id}"type":"function","function":{{"name":"{name}","arguments":"{arguments}"}}{more}"#)
                };
                entries.push(format!("{{{}}}", call(&arguments.concat())));
                deltas.push(format!(r#"{{"tool_calls":[{{"index":{at},{}}}]}}"#, call("")));
            }
            for turn in 0..longest {
                let piece = |(at, (_, _, arguments, _)): (usize, &(_, _, Vec<String>, _))| {
                    let piece = arguments.get(turn)?;
                    Some(format!(r#"{{"index":{at},"function":{{"arguments":"{piece}"}}}}"#))
                };
                let entries: Vec<String> = calls.iter().enumerate().filter_map(piece).collect();
                deltas.push(format!(r#"{{"tool_calls":[{}],"content":null}}"#, entries.join(",")));
            }
            if !entries.is_empty() {
                fields.push(format!(r#""tool_calls":[{}]"#, entries.join(",")));
            }
            let usage = format!(r#"{{"prompt_tokens":{tokens},"completion_tokens":5}}"#);
            let chunk = |choices: &str, usage: &str| {
                format!(r#"{{"id":"x","object":"chat.completion.chunk","model":"m-1","choices":[{choices}],"usage":{usage}}}"#)
            };
            let choice =
                |delta: &str, reason: &str| format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}"#);
            let reason = format!(r#""{reason}""#);
            let mut events: Vec<String> = deltas.iter().map(|delta| chunk(&choice(delta, "null"), "null")).collect();
            events.extend([chunk(&choice("{}", &reason), "null"), chunk("", &usage), "[DONE]".to_owned()]);
            let message = format!(r#"{{"role":"assistant",{}}}"#, fields.join(","));
            let choice = format!(r#"{{"index":0,"message":{message},"logprobs":null,"finish_reason":{reason}}}"#);
            Written { plain: format!(r#"{{"id":"x","model":"m-1","choices":[{choice}],"usage":{usage}}}"#), events }
        },
    ).boxed()
}
