//! Histories in the Messages shape (contract 6.11), brought into the canonical one. A model's blocks
//! are kept byte for byte; results become messages of their own, before the text beside them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::id::CallId;
use crate::json::{Json, quoted};
use crate::message::{Call, Message, MessageError};
use crate::reply::Provider;
use crate::tool::{Outcome, ToolOutput};
use crate::wire::Style;
use crate::wire::anthropic::Said;
use crate::wire::content::{Part, Shown, string};

/// Whether a message's content is a list with blocks that only the Messages shape has.
pub(crate) fn is_blocks(content: &RawValue) -> bool {
    let Shown::Parts(blocks) = Shown::read(content) else { return false };
    blocks.into_iter().map(Part::read).any(|block| match block.kind.as_ref() {
        "text" => block.citations.is_some(),
        "thinking" => block.thinking.is_some_and(|thinking| thinking.get().starts_with('"')),
        "image" | "document" => block.source.is_some(),
        kind => BLOCKS.contains(&kind) || kind.ends_with("_tool_result"),
    })
}

/// The canonical messages that one message of blocks holds.
pub(crate) fn from_blocks(role: &str, content: &RawValue) -> Result<Vec<Message>, MessageError> {
    let Shown::Parts(blocks) = Shown::read(content) else { return Ok(Vec::new()) };
    match role {
        "assistant" => Ok(vec![assistant(content, &blocks)]),
        "user" => Ok(user(&blocks)),
        _ => Err(MessageError::Shape { reason: format!("a {role} message cannot hold blocks of the Messages shape") }),
    }
}

fn assistant(content: &RawValue, blocks: &[&RawValue]) -> Message {
    let said = Said::read(blocks);
    let last = blocks.last().map(|block| Part::read(block).kind);
    let paused = last.is_some_and(|kind| matches!(kind.as_ref(), "server_tool_use" | "mcp_tool_use"));
    let raw = content.get().to_owned();
    let provider = (!said.is_all_of(content)).then_some(Provider { style: Style::Anthropic, raw, paused });
    let calls = said.calls.into_iter().map(|call| Call {
        id: CallId::new(call.id.unwrap_or_default()),
        name: call.name,
        arguments: call.arguments,
    });
    Message::assistant_reply(&said.text, calls.collect(), provider)
}

/// The results, then what else the user says (fault A7).
fn user(blocks: &[&RawValue]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut rest = Vec::new();
    for raw in blocks {
        let block = Part::read(raw);
        if block.kind == "tool_result" {
            messages.push(result(&block));
        } else {
            rest.push(*raw);
        }
    }
    if let [only] = rest.as_slice()
        && let block = Part::read(only)
        && block.kind == "text"
    {
        messages.push(Message::user(&string(block.text).unwrap_or_default()));
    } else if !rest.is_empty() {
        messages.extend(list(rest.iter().map(|block| part(block))).map(|parts| Message::user_parts(&parts)));
    }
    messages
}

fn result(block: &Part<'_>) -> Message {
    let mut texts = Vec::new();
    let mut parts = Vec::new();
    match block.content.map(Shown::read) {
        None | Some(Shown::None) => {}
        Some(Shown::Text(_)) => texts.extend(string(block.content)),
        Some(Shown::Parts(inner)) => {
            for raw in inner {
                let inner = Part::read(raw);
                match (inner.kind.as_ref(), inner.text) {
                    ("text", text) => texts.extend(string(text)),
                    _ => parts.push(part(raw)),
                }
            }
        }
    }
    let failed = block.is_error.is_some_and(|flag| flag.get() == "true");
    let output = ToolOutput {
        text: texts.join("\n"),
        parts: list(parts.into_iter()),
        outcome: if failed { Outcome::Error } else { Outcome::Ok },
    };
    Message::tool_result(&CallId::new(string(block.tool_use_id).unwrap_or_default()), &output)
}

/// A JSON list; nothing when it is empty.
fn list(items: impl Iterator<Item = String>) -> Option<Json> {
    let items: Vec<String> = items.collect();
    Json::parse(&format!("[{}]", items.join(","))).ok().filter(|_| !items.is_empty())
}

/// An image or a document in the OpenAI shape; any other block as it is.
fn part(raw: &RawValue) -> String {
    #[derive(Default, Deserialize)]
    struct Source {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        media_type: String,
        #[serde(default)]
        data: String,
        #[serde(default)]
        url: String,
        #[serde(default)]
        file_id: String,
    }
    let block = Part::read(raw);
    let source: Source = block.source.and_then(|source| serde_json::from_str(source.get()).ok()).unwrap_or_default();
    let url = match source.kind.as_str() {
        "base64" => format!("data:{};base64,{}", source.media_type, source.data),
        "text" => format!("data:{};base64,{}", source.media_type, BASE64_STANDARD.encode(&source.data)),
        "url" => source.url,
        _ => String::new(),
    };
    let file = match (source.kind.as_str(), url.as_str()) {
        ("file", _) => format!(r#""file_id":{}"#, quoted(&source.file_id)),
        (_, "") => return raw.get().to_owned(),
        (_, url) => format!(r#""file_data":{}"#, quoted(url)),
    };
    match block.kind.as_ref() {
        "image" if !url.is_empty() => format!(r#"{{"type":"image_url","image_url":{{"url":{}}}}}"#, quoted(&url)),
        "document" => {
            let title = string(block.title).map(|title| format!(r#""filename":{},"#, quoted(&title)));
            format!(r#"{{"type":"file","file":{{{}{file}}}}}"#, title.unwrap_or_default())
        }
        _ => raw.get().to_owned(),
    }
}

/// Types that tell the Messages shape, beside those that need a closer look.
const BLOCKS: [&str; 7] = [
    "tool_use",
    "tool_result",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "search_result",
    "container_upload",
];
