//! Server-sent events: bytes in, events out. It knows lines and fields, not what an event says.
//!
//! Every byte is looked at once, whatever the pieces that the bytes come in. Only LF, CR and CRLF end a
//! line (fault D15). What is unfinished when the bytes end is no event (fault D18).

use crate::wire::failure::{FailureKind, ProviderFailure};

/// Reads events from bytes that are cut anywhere.
#[derive(Debug)]
pub(super) struct Sse {
    /// How many bytes one event may have.
    limit: usize,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    /// The event's name so far.
    name: Vec<u8>,
    /// The event's data so far.
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended with CR: an LF that follows belongs to it (fault D16).
    after_cr: bool,
    /// Nothing but the first line can begin with a byte order mark (fault D17).
    is_first_line: bool,
}

impl Sse {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            is_first_line: true,
        }
    }

    /// Takes bytes and hands on the name and the data of every event that they end. `take` says
    /// whether to go on; what follows an event that it stops at is not read.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8], &[u8]) -> Result<bool, ProviderFailure>,
    ) -> Result<(), ProviderFailure> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.name.len() + self.data.len() + self.line.len() + piece.len() > self.limit {
                return Err(too_large(self.limit));
            }
            let Some(end) = end else {
                self.line.extend_from_slice(piece);
                return Ok(());
            };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let goes_on = if self.line.is_empty() {
                self.end_line(piece, &mut take)?
            } else {
                self.line.extend_from_slice(piece);
                let mut line = std::mem::take(&mut self.line);
                let goes_on = self.becomes_data(&mut line) || self.end_line(&line, &mut take)?;
                line.clear();
                self.line = line;
                goes_on
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes a line the event's data, if it is the first of it: an event of megabytes is not copied.
    fn becomes_data(&mut self, line: &mut Vec<u8>) -> bool {
        let Some(value) = value_of(line, b"data").filter(|_| !self.has_data) else { return false };
        line.drain(..line.len() - value.len());
        std::mem::swap(&mut self.data, line);
        self.has_data = true;
        self.is_first_line = false;
        true
    }

    /// Takes a whole line; an empty one ends the event.
    fn end_line(
        &mut self,
        line: &[u8],
        take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool, ProviderFailure>,
    ) -> Result<bool, ProviderFailure> {
        let is_first = std::mem::take(&mut self.is_first_line);
        let line = if is_first { line.strip_prefix(UTF8_BOM).unwrap_or(line) } else { line };
        if line.is_empty() {
            let goes_on = self.data.is_empty() || take(&self.name, &self.data)?;
            self.name.clear();
            self.data.clear();
            self.has_data = false;
            return Ok(goes_on);
        }
        if let Some(value) = value_of(line, b"data") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        } else if let Some(value) = value_of(line, b"event") {
            self.name.clear();
            self.name.extend_from_slice(value);
        }
        Ok(true)
    }
}

/// The value of a line with this field, without the one blank that may stand before it.
fn value_of<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(field)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [_, ..] => None,
    }
}

fn too_large(limit: usize) -> ProviderFailure {
    ProviderFailure::new(FailureKind::TooLarge, format!("an event of the stream has more than {limit} bytes"))
}

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
