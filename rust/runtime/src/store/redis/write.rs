//! Writing: a commit as the arguments of its script.

use std::borrow::Cow;

use super::super::{ConversationId, State, StoredRequest, Write, frame};
use super::FORMAT;

/// The arguments of a commit; `None` when an answer is longer than a frame can tell. `name` names this very write.
pub(super) fn arguments<'s>(id: &'s ConversationId, write: &'s Write, name: [u8; 16]) -> Option<Vec<Cow<'s, [u8]>>> {
    let flag = |is_set: bool| Cow::Borrowed(if is_set { &b"1"[..] } else { b"0" });
    let lease = write.lease.as_ref();
    let mut arguments = vec![
        text(FORMAT.to_string()),
        Cow::Borrowed(id.as_str().as_bytes()),
        text(write.expect.to_string()),
        text(write.version.to_string()),
        Cow::Owned(name.to_vec()),
        text(write.at_ms.to_string()),
        text(write.epoch.to_string()),
        text(name_of(write.state).to_owned()),
        flag(lease.is_some()),
        text(lease.map(|lease| lease.owner.clone()).unwrap_or_default()),
        text(lease.map(|lease| lease.epoch.to_string()).unwrap_or_default()),
        text(lease.map(|lease| lease.until_ms.to_string()).unwrap_or_default()),
        text(write.append.len().to_string()),
    ];
    for (seq, body) in &write.append {
        arguments.extend([text(format!("m:{seq}")), Cow::Borrowed(body.as_ref())]);
    }
    for request in &write.requests {
        let id = Cow::Borrowed(request.id.as_bytes());
        let made = text(request.made_at_ms.to_string());
        arguments.extend([id, flag(request.settled), made, text(expiry(request)), Cow::Owned(joined(request)?)]);
    }
    Some(arguments)
}

/// The arguments of a deletion.
pub(super) fn deletion(id: &ConversationId, expect: u64) -> Vec<Cow<'_, [u8]>> {
    vec![text(FORMAT.to_string()), Cow::Borrowed(id.as_str().as_bytes()), text(expect.to_string())]
}

fn text<'s>(text: String) -> Cow<'s, [u8]> {
    Cow::Owned(text.into_bytes())
}

/// Empty if the request never expires.
fn expiry(request: &StoredRequest) -> String {
    request.expires_at_ms.map(|at| at.to_string()).unwrap_or_default()
}

/// The frames of a request: when it was made, expiry, slots, body, answers, and the outcome if there is one.
fn joined(request: &StoredRequest) -> Option<Vec<u8>> {
    let (made, expires) = (request.made_at_ms.to_string(), expiry(request));
    let slots = frame::join_slots(&request.slots)?;
    let answers = frame::join(request.answers.iter().map(AsRef::as_ref))?;
    let frames = [made.as_bytes(), expires.as_bytes(), &slots, &request.body, &answers];
    frame::join(frames.into_iter().chain(request.outcome.as_deref()))
}

fn name_of(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Running => "running",
        State::Pending => "pending",
    }
}
