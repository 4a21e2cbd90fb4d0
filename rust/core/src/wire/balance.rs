//! The last line of defence before a request is sent (contract 8.5): every call has its result.

use crate::message::{Body, Message};
use crate::wire::{Style, WireError};

/// Checks that each call's result stands, in call order, right after the message that made it, that
/// no result stands without its call, and that the model's own message does not come last
/// (fault A15), but where this provider paused its own tools there (fault E4).
pub(crate) fn check(style: Style, messages: &[Message]) -> Result<(), WireError> {
    let mut rest = messages.iter();
    while let Some(message) = rest.next() {
        match message.body() {
            Body::Assistant(assistant) => {
                for call in &assistant.calls {
                    let result = rest.next().and_then(Message::result);
                    if result.is_none_or(|result| result.call != call.id) {
                        return Err(WireError::Unanswered { call: call.id.clone(), name: call.name.clone() });
                    }
                }
            }
            Body::Tool(result) => return Err(WireError::Uncalled { call: result.call.clone() }),
            Body::System | Body::User => {}
        }
    }
    match messages.last().map(Message::body) {
        None => Err(WireError::Empty),
        Some(Body::Assistant(assistant))
            if !assistant.provider.as_ref().is_some_and(|own| own.paused && own.style == style) =>
        {
            Err(WireError::EndsWithAssistant)
        }
        Some(Body::Assistant(_) | Body::System | Body::User | Body::Tool(_)) => Ok(()),
    }
}
