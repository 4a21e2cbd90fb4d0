//! Streams for tests: how they are written, and what comes of them.

use toolrelay_core::reply::{Reply, ReplyCall};
use toolrelay_core::wire::Style;
use toolrelay_core::wire::failure::ProviderFailure;
use toolrelay_core::wire::stream::Delta;

/// Larger than any event of the tests.
pub(crate) const LIMIT: usize = 1 << 24;

/// What came of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Streamed {
    /// What was told, one delta for neighbours of one kind.
    pub(crate) deltas: Vec<Delta>,
    pub(crate) reply: Result<Reply, ProviderFailure>,
}

/// A stream with these events.
pub(crate) fn events<S: AsRef<str>>(data: &[S]) -> Vec<u8> {
    data.iter().flat_map(|data| format!("data: {}\n\n", data.as_ref()).into_bytes()).collect()
}

/// Feeds pieces until one fails or the stream is complete.
pub(crate) fn feed<'a>(style: Style, pieces: impl IntoIterator<Item = &'a [u8]>) -> Streamed {
    let mut decoder = style.stream(LIMIT);
    let mut deltas = Vec::new();
    for piece in pieces {
        if decoder.feed(piece, &mut |delta| push(&mut deltas, delta)).is_err() || decoder.is_complete() {
            break;
        }
    }
    Streamed { deltas, reply: decoder.finish() }
}

/// What comes of a body: the same in one piece and byte by byte.
pub(crate) fn streamed(style: Style, body: &[u8]) -> Streamed {
    let whole = feed(style, [body]);
    assert_eq!(whole, feed(style, body.chunks(1)));
    whole
}

/// The reply of a stream that has one. What was told of it is what it says.
pub(crate) fn reply(style: Style, body: &[u8]) -> Reply {
    let Streamed { deltas, reply } = streamed(style, body);
    let reply = reply.unwrap();
    let (text, calls) = told(&deltas);
    assert_eq!(text, reply.text);
    let names: Vec<(&str, &str)> = reply.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(calls.iter().map(|(name, arguments)| (&**name, &**arguments)).collect::<Vec<_>>(), names);
    reply
}

/// The text and the calls, name and arguments, that deltas tell.
pub(crate) fn told(deltas: &[Delta]) -> (String, Vec<(String, String)>) {
    let (mut said, mut calls) = (String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => said.push_str(text),
            Delta::Reasoning(_) => {}
            Delta::CallStarted { index, name, .. } => {
                assert_eq!(*index, calls.len());
                calls.push((name.clone(), String::new()));
            }
            Delta::Arguments { index, text } => calls[*index].1.push_str(text),
        }
    }
    (said, calls)
}

fn push(deltas: &mut Vec<Delta>, delta: Delta) {
    match (deltas.last_mut(), delta) {
        (Some(Delta::Text(last)), Delta::Text(text)) | (Some(Delta::Reasoning(last)), Delta::Reasoning(text)) => {
            last.push_str(&text);
        }
        (Some(Delta::Arguments { index: last, text: all }), Delta::Arguments { index, text }) if *last == index => {
            all.push_str(&text);
        }
        (_, delta) => deltas.push(delta),
    }
}

pub(crate) fn asked(id: Option<&str>, name: &str, arguments: &str) -> ReplyCall {
    ReplyCall { id: id.map(Into::into), name: name.into(), arguments: arguments.into() }
}
