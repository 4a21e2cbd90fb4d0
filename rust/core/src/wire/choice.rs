//! Whether the model may, must or must not call tools, in each style's words. It is said behind the
//! messages: a choice that changes from one request to the next leaves the bytes before it alone.

use crate::json::quoted;
use crate::wire::names::{gemini_name, wire_name};
use crate::wire::{Head, Style, WireError};

/// Whether the model may call tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// No call; the tools stay declared.
    None,
    /// At least one call.
    Required,
    /// A call of this tool, by the host's name.
    Tool(String),
}

impl ToolChoice {
    /// Whether the model must call something.
    pub fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }
}

/// Appends the keys that say it to a request that declares tools (without any, providers refuse
/// them: fault J8), but for those that the request parameters state.
pub(super) fn push(
    out: &mut Vec<u8>,
    style: Style,
    head: &Head<'_>,
    is_stated: impl Fn(&str) -> bool,
) -> Result<(), WireError> {
    let choice = head.tool_choice.unwrap_or(&ToolChoice::Auto);
    let name = match choice {
        ToolChoice::Tool(name) if head.tools.iter().all(|tool| tool.name != *name) => {
            return Err(WireError::UnknownTool { tool: name.clone() });
        }
        ToolChoice::Tool(name) => quoted(&wire_name(name)),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => String::new(),
    };
    match style {
        Style::OpenAi | Style::OpenAiResponses => {
            let value = match choice {
                ToolChoice::Auto => None,
                ToolChoice::None => Some(r#""none""#.to_owned()),
                ToolChoice::Required => Some(r#""required""#.to_owned()),
                ToolChoice::Tool(_) if style == Style::OpenAiResponses => {
                    Some(format!(r#"{{"type":"function","name":{name}}}"#))
                }
                ToolChoice::Tool(_) => Some(format!(r#"{{"type":"function","function":{{"name":{name}}}}}"#)),
            };
            if let Some(value) = value.filter(|_| !is_stated("tool_choice")) {
                out.extend_from_slice(format!(r#","tool_choice":{value}"#).as_bytes());
            }
            if let Some(parallel) = head.parallel_tool_calls.filter(|_| !is_stated("parallel_tool_calls")) {
                out.extend_from_slice(format!(r#","parallel_tool_calls":{parallel}"#).as_bytes());
            }
        }
        Style::Anthropic => {
            let one = match (head.parallel_tool_calls, choice) {
                (Some(false), ToolChoice::Auto | ToolChoice::Required | ToolChoice::Tool(_)) => {
                    r#","disable_parallel_tool_use":true"#
                }
                (Some(false), ToolChoice::None) | (Some(true) | None, _) => "",
            };
            let kind = match choice {
                ToolChoice::Auto if one.is_empty() => return Ok(()),
                ToolChoice::Auto => r#""auto""#.to_owned(),
                ToolChoice::None => r#""none""#.to_owned(),
                ToolChoice::Required => r#""any""#.to_owned(),
                ToolChoice::Tool(_) => format!(r#""tool","name":{name}"#),
            };
            if !is_stated("tool_choice") {
                out.extend_from_slice(format!(r#","tool_choice":{{"type":{kind}{one}}}"#).as_bytes());
            }
        }
        // There is no word here for one call at a time.
        Style::Gemini => {
            let mode = match choice {
                ToolChoice::Auto => return Ok(()),
                ToolChoice::None => r#""NONE""#.to_owned(),
                ToolChoice::Required => r#""ANY""#.to_owned(),
                ToolChoice::Tool(name) => {
                    format!(r#""ANY","allowedFunctionNames":[{}]"#, quoted(&gemini_name(name)))
                }
            };
            if !is_stated("toolConfig") {
                out.extend_from_slice(
                    format!(r#","toolConfig":{{"functionCallingConfig":{{"mode":{mode}}}}}"#).as_bytes(),
                );
            }
        }
    }
    Ok(())
}
