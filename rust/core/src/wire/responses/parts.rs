//! Content parts in the OpenAI chat shape as input of Responses.

use serde_json::value::RawValue;

use crate::json::quoted;
use crate::wire::content::Part;
use crate::wire::media::{File, Image, data_url};

/// Appends a list of parts.
pub(super) fn push_list(out: &mut Vec<u8>, parts: &[&RawValue]) {
    out.push(b'[');
    push_all(out, parts);
    out.push(b']');
}

/// Appends parts, with commas between. Those of this provider and types that nobody here knows stay
/// as they are.
pub(super) fn push_all(out: &mut Vec<u8>, parts: &[&RawValue]) {
    for (at, raw) in parts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let part = Part::read(raw);
        let text = match (part.kind.as_ref(), part.text, part.refusal) {
            ("text", Some(text), _) | ("refusal", _, Some(text)) => Some(text.get()),
            ("input_audio", _, _) => Some(r#""[audio is left out: this provider takes none]""#),
            _ => None,
        };
        let shown = match (text, part.kind.as_ref(), part.image_url, part.file) {
            (Some(text), _, _, _) => format!(r#"{{"type":"input_text","text":{text}}}"#),
            (None, "image_url", Some(image), _) => input_image(&Image::read(image)),
            (None, "file", _, Some(file)) => input_file(&File::read(file)),
            (None, _, _, _) => raw.get().to_owned(),
        };
        out.extend_from_slice(shown.as_bytes());
    }
}

fn input_image(image: &Image<'_>) -> String {
    let detail = image.detail.map_or(r#""auto""#, RawValue::get);
    format!(r#"{{"type":"input_image","image_url":{},"detail":{detail}}}"#, quoted(&image.url))
}

fn input_file(file: &File<'_>) -> String {
    let name = file.filename.as_deref();
    let (name, key, source) = match (file.data.as_deref().or(file.address.as_deref()), file.id.as_deref()) {
        (Some(url), _) if url.starts_with("https://") || url.starts_with("http://") => (name, "file_url", url),
        (Some(data), _) => (name.or(Some(name_for(data))), "file_data", data),
        (None, id) => (name, "file_id", id.unwrap_or_default()),
    };
    let name = name.map(|name| format!(r#""filename":{},"#, quoted(name))).unwrap_or_default();
    format!(r#"{{"type":"input_file",{name}"{key}":{}}}"#, quoted(source))
}

/// The name of a file that has none: the provider demands one.
fn name_for(data: &str) -> &'static str {
    match data_url(data) {
        Some(("application/pdf", _)) => "file.pdf",
        Some((kind, _)) if kind.starts_with("text/") => "file.txt",
        Some(_) | None => "file",
    }
}
