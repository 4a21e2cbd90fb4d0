//! Making canonical messages.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::id::CallId;
use crate::json::{Json, push_str, quoted};
use crate::message::read::Fields;
use crate::message::{Assistant, Body, Call, Message, Pending, ToolResult};
use crate::reply::Provider;
use crate::tool::{Outcome, ToolOutput};

impl Message {
    /// A prompt of plain text.
    pub fn user(text: &str) -> Self {
        Self::with_text("user", text, Body::User)
    }

    /// A prompt of content parts in the OpenAI shape (a JSON array).
    pub fn user_parts(parts: &Json) -> Self {
        let mut out = br#"{"role":"user","content":"#.to_vec();
        out.extend_from_slice(parts.get().as_bytes());
        out.push(b'}');
        Self::from_parts(out.into(), Body::User, true)
    }

    /// Instructions.
    pub fn system(text: &str) -> Self {
        Self::with_text("system", text, Body::System)
    }

    fn with_text(role: &str, text: &str, body: Body) -> Self {
        let mut out = format!(r#"{{"role":"{role}","content":"#).into_bytes();
        push_str(&mut out, text);
        out.push(b'}');
        Self::from_parts(out.into(), body, true)
    }

    /// A model's reply. Without text the content is `null` beside calls and `""` otherwise.
    pub fn assistant_reply(text: &str, calls: Vec<Call>, provider: Option<Provider>) -> Self {
        Self::assistant_of(calls, provider, |out, has_calls| match text {
            "" if has_calls => out.extend_from_slice(b"null"),
            text => push_str(out, text),
        })
    }

    pub(crate) fn assistant_with(content: &[u8], calls: Vec<Call>, provider: Option<Provider>) -> Self {
        Self::assistant_of(calls, provider, |out, _| out.extend_from_slice(content))
    }

    fn assistant_of(
        calls: Vec<Call>,
        provider: Option<Provider>,
        push_content: impl FnOnce(&mut Vec<u8>, bool),
    ) -> Self {
        let mut out = br#"{"role":"assistant","content":"#.to_vec();
        push_content(&mut out, !calls.is_empty());
        push_calls(&mut out, &calls);
        if let Some(provider) = &provider {
            out.extend_from_slice(br#","toolrelay":{"provider":{"style":""#);
            out.extend_from_slice(provider.style.as_str().as_bytes());
            out.extend_from_slice(br#"","raw":"#);
            push_str(&mut out, &provider.raw);
            out.extend_from_slice(if provider.paused { br#","paused":true}}"# } else { b"}}" });
        }
        out.push(b'}');
        let is_plain = provider.is_none();
        Self::from_parts(out.into(), Body::Assistant(Assistant { calls, provider }), is_plain)
    }

    /// The same reply with other call ids; content and provider form stay.
    pub(crate) fn with_calls(&self, calls: Vec<Call>) -> Self {
        let provider = self.assistant().and_then(|assistant| assistant.provider.clone());
        let content = Fields::of(self.json()).and_then(|fields| fields.get("content")).map_or("null", RawValue::get);
        Self::assistant_with(content.as_bytes(), calls, provider)
    }

    /// The same result for a call that got another id.
    pub(crate) fn with_call_id(&self, call: &CallId) -> Self {
        let Some(result) = self.result() else { return self.clone() };
        if let Some(pending) = &result.pending {
            return Self::placeholder(call, Pending::clone(pending));
        }
        let content = Fields::of(self.json()).and_then(|fields| fields.get("content")).map_or("\"\"", RawValue::get);
        Self::tool_with(call, content, result.outcome, self.parts().as_ref())
    }

    /// The result of a call.
    pub fn tool_result(call: &CallId, output: &ToolOutput) -> Self {
        Self::tool_with(call, &quoted(&output.text), output.outcome, output.parts.as_ref())
    }

    /// The result of a call, from its content as JSON.
    pub(crate) fn tool_with(call: &CallId, content: &str, outcome: Outcome, parts: Option<&Json>) -> Self {
        let mut out = tool_head(call, content);
        let is_bare = outcome.is_ok() && parts.is_none();
        if !is_bare {
            out.extend_from_slice(br#","toolrelay":"#);
            push_json(&mut out, &ResultExtras { outcome, parts });
        }
        out.push(b'}');
        let result = ToolResult { call: call.clone(), outcome, pending: None };
        let says_something = content.starts_with('"') && content.len() > 2;
        Self::from_parts(out.into(), Body::Tool(result), is_bare && says_something)
    }

    /// The placeholder of a parked call (contract 5.4).
    pub fn placeholder(call: &CallId, pending: Pending) -> Self {
        let mut out = tool_head(call, &quoted(&format!("[pending: waiting for an answer to request {}]", pending.id)));
        out.extend_from_slice(br#","toolrelay":{"pending":"#);
        push_json(&mut out, &pending);
        out.extend_from_slice(b"}}");
        let result = ToolResult { call: call.clone(), outcome: Outcome::Ok, pending: Some(Box::new(pending)) };
        Self::from_parts(out.into(), Body::Tool(result), false)
    }
}

/// Appends `,"tool_calls":[…]` in the OpenAI shape; nothing when there are none.
fn push_calls(out: &mut Vec<u8>, calls: &[Call]) {
    for (at, call) in calls.iter().enumerate() {
        out.extend_from_slice(if at == 0 { br#","tool_calls":[{"id":"# } else { br#",{"id":"# });
        push_str(out, call.id.as_str());
        out.extend_from_slice(br#","type":"function","function":{"name":"#);
        push_str(out, &call.name);
        out.extend_from_slice(br#","arguments":"#);
        push_str(out, &call.arguments);
        out.extend_from_slice(b"}}");
    }
    if !calls.is_empty() {
        out.push(b']');
    }
}

fn tool_head(call: &CallId, content: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 96);
    out.extend_from_slice(br#"{"role":"tool","tool_call_id":"#);
    push_str(&mut out, call.as_str());
    out.extend_from_slice(br#","content":"#);
    out.extend_from_slice(content.as_bytes());
    out
}

/// Writing to memory cannot fail and these values always have a JSON form.
fn push_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[derive(Serialize)]
struct ResultExtras<'a> {
    #[serde(skip_serializing_if = "is_ok")]
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<&'a Json>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_ok(outcome: &Outcome) -> bool {
    outcome.is_ok()
}
