//! What a scripted server answers, and how it fails to.

use std::io::{self, Write};
use std::time::Duration;

/// One answer. `Reply::json(r#"{"ok":true}"#)` is a plain success; everything else is said on top.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    gap: Option<Duration>,
    raw: Option<Vec<u8>>,
    is_at_once: bool,
    pub(super) delay: Duration,
    pub(super) end: End,
    pub(super) listen: usize,
}

/// What a connection does after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    KeepAlive,
    Close,
    CutAt(usize),
    StallAt(usize),
}

impl Reply {
    /// Status 200 with this body.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).body(body)
    }

    /// This status, and an empty body.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            pieces: vec![Vec::new()],
            gap: None,
            raw: None,
            is_at_once: false,
            delay: Duration::ZERO,
            end: End::KeepAlive,
            listen: usize::MAX,
        }
    }

    /// These bytes in place of a response.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: Some(bytes.into()), end: End::Close, ..Self::status(200) }
    }

    /// No answer: the connection closes once `bytes` of the request have arrived.
    pub fn hang_up_after(bytes: usize) -> Self {
        Self { listen: bytes, end: End::CutAt(0), ..Self::status(200) }
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.pieces = vec![body.into()];
        self
    }

    /// With a body of this media type.
    #[must_use]
    pub fn type_of(mut self, media_type: &str) -> Self {
        self.headers[0].1 = media_type.into();
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body in chunks (no length announced), with a pause before each but the first.
    #[must_use]
    pub fn chunks<B: Into<Vec<u8>>>(mut self, pieces: impl IntoIterator<Item = B>, gap: Duration) -> Self {
        self.pieces = pieces.into_iter().map(Into::into).collect();
        self.gap = Some(gap);
        self
    }

    /// In one write.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.is_at_once = true;
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Announces that the connection ends with this answer, and ends it.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.end = End::Close;
        self.header("connection", "close")
    }

    /// Ends the connection with this answer, without a word about it.
    #[must_use]
    pub fn then_hang_up(mut self) -> Self {
        self.end = End::Close;
        self
    }

    /// Sends only so many bytes of the response, head included, and closes the connection.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.end = End::CutAt(bytes);
        self
    }

    /// Sends only so many bytes of the response, head included, and stays silent until the client goes.
    #[must_use]
    pub fn stall_at(mut self, bytes: usize) -> Self {
        self.end = End::StallAt(bytes);
        self
    }

    /// The body without its framing.
    pub fn content(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// How long the head of the response is, for `cut_at` and `stall_at`.
    pub fn head_len(&self) -> usize {
        self.head().len()
    }

    /// How long the whole response is.
    pub fn len(&self) -> usize {
        let mut whole = Vec::new();
        self.write_all(&mut whole).unwrap();
        whole.len()
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        std::thread::sleep(self.delay);
        match self.end {
            End::KeepAlive | End::Close if self.is_at_once => {
                let mut whole = Vec::new();
                self.write_all(&mut whole)?;
                to.write_all(&whole)?;
                to.flush()
            }
            End::KeepAlive | End::Close => self.write_all(to),
            End::CutAt(bytes) | End::StallAt(bytes) => {
                let mut whole = Vec::new();
                self.write_all(&mut whole)?;
                to.write_all(&whole[..bytes.min(whole.len())])?;
                to.flush()
            }
        }
    }

    fn write_all(&self, to: &mut impl Write) -> io::Result<()> {
        if let Some(raw) = &self.raw {
            to.write_all(raw)?;
            return to.flush();
        }
        let Some(gap) = self.gap else {
            to.write_all(&[self.head(), self.pieces.concat()].concat())?;
            return to.flush();
        };
        to.write_all(&self.head())?;
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0 {
                to.flush()?;
                std::thread::sleep(gap);
            }
            let size = format!("{:x}\r\n", piece.len());
            to.write_all(&[size.as_bytes(), piece, b"\r\n"].concat())?;
        }
        to.write_all(b"0\r\n\r\n")?;
        to.flush()
    }

    fn head(&self) -> Vec<u8> {
        let framing = match self.gap {
            Some(_) => "transfer-encoding: chunked".to_owned(),
            None => format!("content-length: {}", self.pieces.iter().map(Vec::len).sum::<usize>()),
        };
        let mut lines = vec![format!("HTTP/1.1 {} Scripted", self.status)];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.extend([framing, String::new(), String::new()]);
        lines.join("\r\n").into_bytes()
    }
}
