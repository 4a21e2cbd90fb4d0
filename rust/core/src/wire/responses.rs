//! Responses. A message encodes to its input items; the whole transcript goes out each time, and the
//! provider keeps nothing unless a parameter says so.

mod decode;
mod own;
mod parts;
mod stream;

use serde_json::value::RawValue;

pub(super) use self::decode::decode;
pub(super) use self::stream::Stream;
use crate::json::{push_str, quoted};
use crate::message::{self, Assistant, Fields, Message, ToolResult};
use crate::tool::ToolSpec;
use crate::wire::content::{Part, Shown, View, string};
use crate::wire::head::Params;
use crate::wire::names::{wire_id, wire_name};
use crate::wire::{Body, Encoded, NO_OUTPUT, Prefix, Style, WireError, arguments, schema};

/// Appends the declaration of a tool. Without `strict` the provider would make every property required.
pub(super) fn push_tool(out: &mut Vec<u8>, tool: &ToolSpec) {
    out.extend_from_slice(br#"{"type":"function","name":"#);
    push_str(out, &wire_name(&tool.name));
    if !tool.description.is_empty() {
        out.extend_from_slice(br#","description":"#);
        push_str(out, &tool.description);
    }
    out.extend_from_slice(br#","parameters":"#);
    out.extend_from_slice(schema::for_wire(&tool.schema).as_bytes());
    out.extend_from_slice(br#","strict":false}"#);
}

/// Appends what is asked for unless a parameter says otherwise: that nothing is kept there, and that
/// reasoning comes in a form that can be sent back (fault F5).
pub(super) fn push_defaults(out: &mut Vec<u8>, model: &str, params: &Params<'_>) -> Result<(), WireError> {
    for key in ["previous_response_id", "conversation"] {
        if params.get(key).is_some() {
            let expected = "left out: every request holds the whole transcript";
            return Err(WireError::Parameter { key: key.to_owned(), expected });
        }
    }
    if !params.names("store") {
        out.extend_from_slice(br#","store":false"#);
    }
    let model = params.get("model").map_or(model, |model| model.trim_matches('"'));
    if !params.names("include") && may_reason(model) {
        out.extend_from_slice(br#","include":["reasoning.encrypted_content"]"#);
    }
    Ok(())
}

/// Whether the provider keeps its replies: its own default is that it does.
pub(super) fn is_stored(params: &Params<'_>) -> bool {
    params.names("store") && params.get("store").is_none_or(|store| store == "true")
}

/// Opens the list of input items. The request parameter `instructions` wins over the system prompt.
pub(super) fn open_input(out: &mut Vec<u8>, system: Option<&str>, param: Option<&str>) {
    if let Some(instructions) = param.map(str::to_owned).or_else(|| system.map(quoted)) {
        out.extend_from_slice(br#","instructions":"#);
        out.extend_from_slice(instructions.as_bytes());
    }
    out.extend_from_slice(br#","input":["#);
}

/// Appends the items of the messages.
pub(super) fn push_messages(body: &mut Body, prefix: &Prefix, messages: &[Message]) {
    let mut is_occupied = false;
    for message in messages {
        let items = match message.encoded(Style::OpenAiResponses, encode) {
            Encoded::AsItIs => message.to_bytes(),
            Encoded::Anew(own) if prefix.is_stored && !own.stored.is_empty() => own.stored.clone(),
            Encoded::Anew(own) => own.body.clone(),
        };
        if items.is_empty() {
            continue;
        }
        if is_occupied {
            body.push_static(",");
        }
        body.push(items);
        is_occupied = true;
    }
}

fn encode(message: &Message) -> Encoded {
    match message.body() {
        message::Body::System | message::Body::User => said(message),
        message::Body::Assistant(facts) => {
            let own = facts.provider.as_ref().and_then(|provider| own::items(provider, &facts.calls));
            own.unwrap_or_else(|| Encoded::anew(assistant(message, facts)))
        }
        message::Body::Tool(result) => Encoded::anew(tool(message, result)),
    }
}

/// What the user or the system says. Plain text has the same shape here as in the transcript.
fn said(message: &Message) -> Encoded {
    let Some(fields) = Fields::of(message.json()) else { return Encoded::anew("") };
    let content = fields.get("content").map_or(Shown::None, Shown::read);
    if fields.0.len() == 2 && matches!(content, Shown::Text(_)) {
        return Encoded::AsItIs;
    }
    let role = fields.get("role").map_or(r#""user""#, RawValue::get);
    let mut out = format!(r#"{{"role":{role},"content":"#).into_bytes();
    match content {
        Shown::None => out.extend_from_slice(br#""""#),
        Shown::Text(text) => out.extend_from_slice(text.as_bytes()),
        Shown::Parts(list) => parts::push_list(&mut out, &list),
    }
    out.push(b'}');
    Encoded::anew(out)
}

/// A reply without items of this provider: its text, then its calls, none with the id of an item,
/// which only the provider can give (fault B9).
fn assistant(message: &Message, facts: &Assistant) -> Vec<u8> {
    let text = match View::of(message).content {
        Shown::None => String::new(),
        Shown::Text(text) => text.to_owned(),
        Shown::Parts(list) => {
            let parts = list.into_iter().map(Part::read);
            quoted(&parts.filter_map(|part| string(part.text.or(part.refusal))).collect::<String>())
        }
    };
    let mut out = Vec::with_capacity(message.json().len() + 64);
    if !matches!(text.as_str(), "" | r#""""#) {
        out.extend_from_slice(br#"{"role":"assistant","content":"#);
        out.extend_from_slice(text.as_bytes());
        out.push(b'}');
    }
    for call in &facts.calls {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"type":"function_call","call_id":"#);
        push_str(&mut out, &wire_id(Style::OpenAiResponses, call.id.as_str()));
        out.extend_from_slice(br#","name":"#);
        push_str(&mut out, &wire_name(&call.name));
        out.extend_from_slice(br#","arguments":"#);
        push_str(&mut out, &arguments::for_wire(&call.arguments));
        out.push(b'}');
    }
    out
}

/// A result: the text alone as text, with images and files as a list.
fn tool(message: &Message, result: &ToolResult) -> Vec<u8> {
    let view = View::of(message);
    let mut out = br#"{"type":"function_call_output","call_id":"#.to_vec();
    push_str(&mut out, &wire_id(Style::OpenAiResponses, result.call.as_str()));
    out.extend_from_slice(br#","output":"#);
    let (text, mut list) = match view.content {
        Shown::None | Shown::Text(r#""""#) => (None, Vec::new()),
        Shown::Text(text) => (Some(text), Vec::new()),
        Shown::Parts(list) => (None, list),
    };
    list.extend(view.parts);
    list.retain(|part| !Part::read(part).is_empty_text());
    match (text, list.is_empty()) {
        (None, true) => push_str(&mut out, NO_OUTPUT),
        (Some(text), true) => out.extend_from_slice(text.as_bytes()),
        (None, false) => parts::push_list(&mut out, &list),
        (Some(text), false) => {
            out.extend_from_slice(br#"[{"type":"input_text","text":"#);
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"},");
            parts::push_all(&mut out, &list);
            out.push(b']');
        }
    }
    out.push(b'}');
    out
}

/// Whether a model is not known to refuse to be asked for its reasoning.
fn may_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    !WITHOUT_REASONING.iter().any(|start| name.starts_with(start))
}

/// How the names of models begin that do not reason.
const WITHOUT_REASONING: [&str; 4] = ["gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"];
