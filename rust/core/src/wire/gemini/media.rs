//! Content parts in the OpenAI shape as parts of this provider.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{push_part, push_text};
use crate::json::quoted;
use crate::wire::content::Part;
use crate::wire::media::{File, Image, data_url};

/// Appends a content part. The provider's own parts, which have no type, stay as they are; a note
/// stands for a type that it does not know.
pub(super) fn push(out: &mut Vec<u8>, raw: &RawValue) {
    let part = Part::read(raw);
    match (part.kind.as_ref(), part.image_url, part.file) {
        ("text", _, _) => push_text(out, text(part.text)),
        ("refusal", _, _) => push_text(out, text(part.refusal)),
        ("image_url", Some(image), _) => push_part(out, source(&Image::read(image).url).as_bytes()),
        ("file", _, Some(file)) => {
            let file = File::read(file);
            // An id of this provider is the file's URI; that of another is none.
            let uri = file.id.as_deref().filter(|id| id.contains('/')).map(Cow::Borrowed);
            match file.url().or(uri) {
                Some(url) => push_part(out, source(&url).as_bytes()),
                None => push_text(out, r#""[a file is left out: this provider does not have it]""#),
            }
        }
        ("input_audio", _, _) => push_part(out, audio_part(raw).as_bytes()),
        ("", _, _) if raw.get().starts_with('{') => push_part(out, raw.get().as_bytes()),
        (kind, _, _) => {
            push_text(out, &quoted(&format!("[a part of type {kind} is left out: this provider takes none]")));
        }
    }
}

fn text(raw: Option<&RawValue>) -> &str {
    raw.map(RawValue::get).filter(|text| text.starts_with('"')).unwrap_or_default()
}

fn audio_part(raw: &RawValue) -> String {
    #[derive(Default, Deserialize)]
    struct Holder<'a> {
        #[serde(borrow, default)]
        input_audio: Audio<'a>,
    }
    #[derive(Default, Deserialize)]
    struct Audio<'a> {
        #[serde(borrow, default)]
        data: Cow<'a, str>,
        #[serde(borrow, default)]
        format: Cow<'a, str>,
    }
    let audio = serde_json::from_str::<Holder<'_>>(raw.get()).unwrap_or_default().input_audio;
    inline(&format!("audio/{}", audio.format), &audio.data)
}

/// Data as it is, anything else as a URI, whose type is guessed from its ending.
fn source(url: &str) -> String {
    if let Some((media_type, data)) = data_url(url) {
        return inline(media_type, data);
    }
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let ending = path.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_ascii_lowercase());
    let known = MEDIA_TYPES.iter().find(|(known, _)| *known == ending);
    let media_type = known.map(|(_, media_type)| format!(r#""mimeType":"{media_type}","#)).unwrap_or_default();
    format!(r#"{{"fileData":{{{media_type}"fileUri":{}}}}}"#, quoted(url))
}

fn inline(media_type: &str, data: &str) -> String {
    format!(r#"{{"inlineData":{{"mimeType":{},"data":{}}}}}"#, quoted(media_type), quoted(data))
}

const MEDIA_TYPES: [(&str, &str); 15] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("heic", "image/heic"),
    ("bmp", "image/bmp"),
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("json", "application/json"),
    ("mp4", "video/mp4"),
    ("mp3", "audio/mp3"),
    ("wav", "audio/wav"),
];
