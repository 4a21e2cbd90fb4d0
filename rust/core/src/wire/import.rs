//! Histories in a provider's own shape (contract 6.11), brought into the canonical one.

use serde_json::value::RawValue;

use crate::message::{Message, MessageError};

/// Whether a message's content is a list of blocks that only the Messages shape has.
pub(crate) fn is_blocks(_content: &RawValue) -> bool {
    false
}

/// The canonical messages that one message of blocks holds.
pub(crate) fn from_blocks(_role: &str, _content: &RawValue) -> Result<Vec<Message>, MessageError> {
    Ok(Vec::new())
}
