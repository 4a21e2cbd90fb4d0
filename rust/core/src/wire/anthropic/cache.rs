//! Marks for the prompt cache. The end of tools and system prompt is marked, which other
//! conversations share, and the end of the whole prompt, by the provider or at the last block: that
//! mark moves from request to request, and no message is encoded anew for it. Of the four marks that
//! a request may have, two are left to those in the messages.

use memchr::memmem;

use crate::wire::profile::CacheControl;
use crate::wire::{Body, Head};

/// How a request's prompt is marked, if it is: never beside marks among the request parameters, as
/// longer lived ones must come first. Unasked, where the server is known to take the marks and there
/// are tools: written once and read once, a prompt costs 1.35 times its price in place of twice, but
/// read never 1.25 times.
pub(in crate::wire) fn wanted(head: &Head<'_>, has_tools: bool) -> Option<CacheControl> {
    let is_stated = |(key, value): &(String, crate::json::Json)| {
        key == "cache_control" || memmem::find(value.get().as_bytes(), KEY).is_some()
    };
    let own = head.profile.and_then(|profile| profile.cache_control);
    let wanted = match head.prompt_cache {
        Some(true) => Some(own.unwrap_or(CacheControl::Blocks)),
        Some(false) => None,
        None => own.filter(|_| has_tools),
    };
    wanted.filter(|_| !head.params.iter().any(is_stated))
}

/// Marks the object that ends here.
pub(in crate::wire) fn mark(out: &mut Vec<u8>) {
    if out.pop_if(|last| *last == b'}').is_some() {
        out.extend_from_slice(MARK);
    }
}

/// Marks the block that ends here, unless it holds a mark.
pub(super) fn mark_end(body: &mut Body) {
    let Some(last) = body.chunks.last_mut().filter(|last| memmem::find(last, KEY).is_none()) else { return };
    if last.ends_with(b"}") {
        last.truncate(last.len() - 1);
        body.len -= 1;
        body.push(bytes::Bytes::from_static(MARK));
    }
}

/// The mark of a request whose end the provider finds itself.
pub(in crate::wire) const OF_REQUEST: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

const MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}}"#;
const KEY: &[u8] = br#""cache_control""#;
