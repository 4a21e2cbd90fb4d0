//! Replies of Messages.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Written, cut_json, object, pieces};
use crate::properties::json_text;

/// A content block: as it stands in a plain reply, as it starts in a stream, and its deltas.
type Block = (String, String, Vec<String>);

fn block(at: usize) -> impl Strategy<Value = Block> {
    let delta = |kind: &str, key: &str, pieces: &[String]| -> Vec<String> {
        pieces.iter().map(|piece| format!(r#"{{"type":"{kind}","{key}":"{piece}"}}"#)).collect()
    };
    let text = (pieces(), prop::option::of(vec(json_text(), 0..3))).prop_map(move |(pieces, cited)| {
        let block = |text: &str, cited: &str| format!(r#"{{"type":"text","text":"{text}"{cited}}}"#);
        let start = block("", if cited.is_some() { r#","citations":[]"# } else { "" });
        let mut deltas = delta("text_delta", "text", &pieces);
        let cited = cited.map(|cited| {
            deltas.extend(cited.iter().map(|one| format!(r#"{{"type":"citations_delta","citation":{one}}}"#)));
            format!(r#","citations":[{}]"#, cited.join(","))
        });
        (block(&pieces.concat(), &cited.unwrap_or_default()), start, deltas)
    });
    let thinking = (pieces(), "[a-zA-Z0-9=]{0,8}").prop_map(move |(pieces, signature)| {
        let block = |text: &str, signature: &str| {
            format!(r#"{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}"#)
        };
        let mut deltas = delta("thinking_delta", "thinking", &pieces);
        deltas.extend(delta("signature_delta", "signature", std::slice::from_ref(&signature)));
        (block(&pieces.concat(), &signature), block("", ""), deltas)
    });
    let kind = prop::sample::select(vec!["tool_use", "server_tool_use", "mcp_tool_use"]);
    let call = (kind, "[a-z]{1,6}", object(), 1usize..9).prop_map(move |(kind, name, input, size)| {
        let block = |input: &str| format!(r#"{{"type":"{kind}","id":"k{at}","name":"{name}","input":{input}}}"#);
        let pieces = if input == "{}" { Vec::new() } else { cut_json(&input, size) };
        (block(&input), block("{}"), delta("input_json_delta", "partial_json", &pieces))
    });
    let whole = json_text().prop_map(|data| {
        let block = format!(r#"{{"type":"mystery", "data":{data}}}"#);
        (block.clone(), block, Vec::new())
    });
    prop_oneof![text, thinking, call, whole]
}

pub(super) fn written() -> BoxedStrategy<Written> {
    let blocks = (0..5usize).prop_flat_map(|count| (0..count).map(block).collect::<Vec<_>>());
    let reason = prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "pause_turn", "tide"]);
    (blocks, reason, any::<u16>()).prop_map(|(blocks, reason, tokens)| {
        let message = |content: &str, reason: &str, usage: &str| {
            format!(r#"{{"id":"x","type":"message","role":"assistant","model":"m-1","content":[{content}],"stop_reason":{reason},"usage":{usage}}}"#)
        };
        let usage = |output: u16| format!(r#"{{"input_tokens":3,"cache_read_input_tokens":9,"output_tokens":{output}}}"#);
        let start = message("", "null", &usage(1));
        let mut events = vec![format!(r#"{{"type":"message_start","message":{start}}}"#), r#"{"type":"ping"}"#.to_owned()];
        for (index, (_, start, deltas)) in blocks.iter().enumerate() {
            events.push(format!(r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#));
            let delta = |delta: &String| format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
            events.extend(deltas.iter().map(delta));
            events.push(format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
        }
        let reason = format!(r#""{reason}""#);
        let end = format!(r#""delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{{"output_tokens":{tokens}}}"#);
        events.push(format!(r#"{{"type":"message_delta",{end}}}"#));
        events.push(r#"{"type":"message_stop"}"#.to_owned());
        let content: Vec<&str> = blocks.iter().map(|(plain, _, _)| plain.as_str()).collect();
        Written { plain: message(&content.join(","), &reason, &usage(tokens.max(1))), events }
    }).boxed()
}
