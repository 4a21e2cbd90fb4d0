//! Images and files of content parts in the OpenAI shape, for the styles that have another.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::content::string;

/// What `image_url` holds: an object, or the URL alone.
#[derive(Default, Deserialize)]
pub(super) struct Image<'a> {
    /// An address, or the image itself as a data URL.
    #[serde(borrow, default)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) detail: Option<&'a RawValue>,
}

/// What `file` holds.
#[derive(Default, Deserialize)]
pub(super) struct File<'a> {
    /// The file itself as a data URL or as base64, or an address.
    #[serde(borrow, default, rename = "file_data")]
    pub(super) data: Option<Cow<'a, str>>,
    /// The address where the provider fetches it.
    #[serde(borrow, default, rename = "file_url")]
    pub(super) address: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "file_id")]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) filename: Option<Cow<'a, str>>,
}

impl<'a> Image<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        match string(Some(raw)) {
            Some(url) => Self { url, detail: None },
            None => serde_json::from_str(raw.get()).unwrap_or_default(),
        }
    }
}

impl<'a> File<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    /// The file as a data URL or an address. Base64 alone is a PDF's: no other file goes without its type.
    pub(super) fn url(&self) -> Option<Cow<'_, str>> {
        let Some(data) = self.data.as_deref() else { return self.address.as_deref().map(Cow::Borrowed) };
        Some(if data.contains(':') {
            Cow::Borrowed(data)
        } else {
            Cow::Owned(format!("data:application/pdf;base64,{data}"))
        })
    }
}

/// The media type and the data of a base64 data URL.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    let kind = kind.strip_suffix(";base64")?;
    Some((kind.split(';').next().unwrap_or(kind), data))
}
