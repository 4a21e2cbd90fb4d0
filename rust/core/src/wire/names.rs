//! Tool names and call ids as a provider takes them (contract 8.4): pure maps, the same for ever.
//!
//! What a provider takes as it is stays as it is, so mapping twice changes nothing. Anything else
//! keeps its readable start and gets a 64-bit hash of the whole text, so two texts that look alike
//! after the change stay apart. The way back for tool names is the toolkit's (`Tools::resolve`);
//! ids need none, as a result is found by its place.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::tool::ToolSpec;
use crate::wire::Style;

/// The name of a tool on any wire: `[a-zA-Z0-9_-]{1,64}` (fault J6).
pub fn wire_name(name: &str) -> Cow<'_, str> {
    legal(name, MAX_NAME, is_word)
}

/// The name of a tool on the Gemini wire, where it must begin with a letter or an underscore, too.
pub fn gemini_name(name: &str) -> Cow<'_, str> {
    let mapped = wire_name(name);
    if mapped.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return mapped;
    }
    let start: String = mapped.chars().take(MAX_NAME - HASH_CHARS - 2).collect();
    Cow::Owned(format!("_{start}_{:016x}", hash(name)))
}

/// The host's names of tools by those that they have on a wire, where the two differ.
pub fn renamed(tools: &[ToolSpec]) -> HashMap<String, String> {
    let wires = |name: &str| [wire_name(name).into_owned(), gemini_name(name).into_owned()];
    let all = tools.iter().flat_map(|tool| wires(&tool.name).map(|wire| (wire, tool.name.clone())));
    all.filter(|(wire, name)| wire != name).collect()
}

/// The id of a call on the wire of a style, for the call and its result alike (faults B1, B2).
///
/// Chat Completions takes any text of up to 40 characters, Responses of up to 64; Messages takes
/// `[a-zA-Z0-9_-]`, here up to 64. Gemini gets no ids but those that it gave, as they are.
pub fn wire_id(style: Style, id: &str) -> Cow<'_, str> {
    match style {
        Style::OpenAi => legal(id, MAX_OPENAI_ID, |byte| byte.is_ascii_graphic()),
        Style::OpenAiResponses => legal(id, MAX_RESPONSES_ID, |byte| byte.is_ascii_graphic()),
        Style::Anthropic => legal(id, MAX_ANTHROPIC_ID, is_word),
        Style::Gemini => Cow::Borrowed(id),
    }
}

/// The id of a call where a server wants exactly so many letters and digits (fault B3).
pub fn exact_id(length: usize, id: &str) -> Cow<'_, str> {
    if id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut rest = hash(id);
    let digit = |_| {
        let digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
        char::from(digit)
    };
    Cow::Owned((0..length).map(digit).collect())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn legal(text: &str, max: usize, takes: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if (1..=max).contains(&text.len()) && text.bytes().all(takes) {
        return Cow::Borrowed(text);
    }
    let start = text.chars().take(max - HASH_CHARS - 1);
    let mapped: String = start.map(|c| if c.is_ascii() && is_word(c as u8) { c } else { '_' }).collect();
    Cow::Owned(format!("{mapped}_{:016x}", hash(text)))
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const MAX_NAME: usize = 64;
const MAX_OPENAI_ID: usize = 40;
const MAX_RESPONSES_ID: usize = 64;
const MAX_ANTHROPIC_ID: usize = 64;
const HASH_CHARS: usize = 16;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
