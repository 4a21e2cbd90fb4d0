//! The servers that are known by name, and by the host of their address. Each fact is one that the
//! server refuses requests over.

use serde_json::Value;

use crate::wire::Style;
use crate::wire::profile::{CacheControl, CallContent, Profile};

/// The names of the known servers.
pub const NAMES: [&str; 6] = ["openai", "mistral", "deepseek", "groq", "lmstudio", "anthropic"];

impl Profile {
    /// A server that is known by name, and its style.
    pub fn named(name: &str) -> Option<(Style, Self)> {
        Some(match name {
            "openai" => (Style::OpenAi, openai()),
            "mistral" => (Style::OpenAi, mistral()),
            "deepseek" => (Style::OpenAi, deepseek()),
            "groq" => (Style::OpenAi, groq()),
            "lmstudio" => (Style::OpenAi, lmstudio()),
            "anthropic" => (Style::Anthropic, anthropic()),
            _ => return None,
        })
    }

    /// The server of this style that a base URL names, if it is known.
    pub fn of_address(style: Style, base_url: &str) -> Option<Self> {
        let (_, rest) = base_url.split_once("://")?;
        let host = rest.split(['/', '?', '#', ':']).next()?.to_ascii_lowercase();
        let is_at = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let (_, name) = HOSTS
            .iter()
            .find(|(domain, name)| is_at(domain) && Self::named(name).is_some_and(|(own, _)| own == style))?;
        Self::named(name).map(|(_, profile)| profile)
    }
}

/// OpenAI: at most 128 tools (`array_above_max_length`), a message with calls has `null` rather than
/// `""`, what it does not know of a message is refused, newer models want the newer limit.
fn openai() -> Profile {
    Profile {
        call_content: Some(CallContent::Null),
        refused_fields: all_but(&[]),
        output_limit: Some("max_completion_tokens".to_owned()),
        max_tools: Some(128),
        ..Profile::default()
    }
}

/// Mistral: "must be a-z, A-Z, 0-9, with a length of 9"; "Unexpected role 'user' after role 'tool'";
/// "Extra inputs are not permitted" for `reasoning_content`, `stream_options` and
/// `max_completion_tokens`; `developer` is no role. Its own thinking goes back.
fn mistral() -> Profile {
    Profile {
        call_id_length: Some(9),
        call_content: Some(CallContent::Null),
        refused_fields: all_but(&["thinking"]),
        developer_role: false,
        user_after_results: false,
        stream_options: false,
        output_limit: Some("max_tokens".to_owned()),
        ..Profile::default()
    }
}

/// `DeepSeek`: "The `reasoning_content` in the thinking mode must be passed back" for each message with
/// calls, also when it is empty; at most 128 functions; `developer` is no role.
fn deepseek() -> Profile {
    Profile {
        call_fields: vec![("reasoning_content".to_owned(), Value::from(""))],
        developer_role: false,
        output_limit: Some("max_tokens".to_owned()),
        max_tools: Some(128),
        ..Profile::default()
    }
}

/// Groq: "property '`reasoning_content`' is unsupported"; "'tools': maximum number of items is 128". What
/// it calls `reasoning` goes back.
fn groq() -> Profile {
    Profile {
        call_content: Some(CallContent::Null),
        refused_fields: all_but(&["reasoning"]),
        max_tools: Some(128),
        ..Profile::default()
    }
}

/// LM Studio: "'content' field must be a string or an array of objects".
fn lmstudio() -> Profile {
    Profile { call_content: Some(CallContent::Empty), ..Profile::default() }
}

/// Anthropic: finds the end of a prompt to be cached itself. Bedrock and Vertex, and gateways before
/// them, refuse the key ("Extra inputs are not permitted").
fn anthropic() -> Profile {
    Profile { cache_control: Some(CacheControl::Request), ..Profile::default() }
}

/// What servers add to the message of Chat Completions, but for those of one server.
fn all_but(own: &[&str]) -> Vec<String> {
    ADDED.iter().filter(|name| !own.contains(name)).map(|name| (*name).to_owned()).collect()
}

/// Keys of a message or a call, and types of content parts: those of reasoning models (`DeepSeek`, vLLM,
/// `OpenRouter`), Mistral's thinking, the thought signatures of Gemini, and what `LiteLLM` adds.
const ADDED: [&str; 8] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking",
    "extra_content",
    "thinking_blocks",
    "provider_specific_fields",
    "thought_signature",
];

/// Domains and the servers behind them.
const HOSTS: [(&str, &str); 7] = [
    ("api.openai.com", "openai"),
    ("openai.azure.com", "openai"),
    ("api.mistral.ai", "mistral"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.anthropic.com", "anthropic"),
    ("services.ai.azure.com", "anthropic"),
];
