//! Content parts in the OpenAI shape as Messages blocks.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use super::{push_block, push_text};
use crate::json::quoted;
use crate::wire::content::{Part, is_blank};
use crate::wire::media::{File, Image, data_url};

/// Appends the blocks of content parts. Blocks of this provider and types that nobody here knows
/// stay as they are.
pub(super) fn push_all(out: &mut Vec<u8>, parts: &[&RawValue]) {
    for raw in parts {
        let part = Part::read(raw);
        match (part.kind.as_ref(), part.image_url, part.file) {
            ("text", _, _) if part.text.is_some_and(|text| !is_blank(text.get())) => {
                push_block(out, raw.get().as_bytes());
            }
            ("text", _, _) => {}
            ("refusal", _, _) => push_text(out, part.refusal.map_or("", RawValue::get)),
            ("image_url", Some(image), _) => push_block(out, image_block(image).as_bytes()),
            ("file", _, Some(file)) => push_block(out, document(file).as_bytes()),
            ("input_audio", _, _) => push_text(out, r#""[audio is left out: this provider takes none]""#),
            _ => push_block(out, raw.get().as_bytes()),
        }
    }
}

/// Appends the text of content parts; a note stands for the rest.
pub(super) fn push_texts(out: &mut Vec<u8>, parts: &[&RawValue]) {
    let (texts, others): (Vec<&RawValue>, Vec<&RawValue>) =
        parts.iter().partition(|part| Part::read(part).kind == "text");
    push_all(out, &texts);
    if !others.is_empty() {
        push_text(out, r#""[attachments are left out: a failed result takes text only]""#);
    }
}

fn image_block(image: &RawValue) -> String {
    format!(r#"{{"type":"image","source":{}}}"#, source(&Image::read(image).url))
}

fn document(file: &RawValue) -> String {
    let file = File::read(file);
    let source = match (file.url(), file.id.as_deref()) {
        (Some(url), _) => source(&url),
        (None, id) => format!(r#"{{"type":"file","file_id":{}}}"#, quoted(id.unwrap_or_default())),
    };
    let title = file.filename.map(|name| format!(r#","title":{}"#, quoted(&name))).unwrap_or_default();
    format!(r#"{{"type":"document","source":{source}{title}}}"#)
}

/// The source of an image or a document: text as text, other data as base64, anything else as a URL.
fn source(url: &str) -> String {
    let Some((media_type, data)) = data_url(url) else {
        return format!(r#"{{"type":"url","url":{}}}"#, quoted(url));
    };
    let text = Some(data).filter(|_| media_type.starts_with("text/"));
    let text = text.and_then(|data| String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok());
    let (kind, media_type, data) = match &text {
        Some(text) => ("text", "text/plain", text.as_str()),
        None => ("base64", media_type, data),
    };
    let (media_type, data) = (quoted(media_type), quoted(data));
    format!(r#"{{"type":"{kind}","media_type":{media_type},"data":{data}}}"#)
}
