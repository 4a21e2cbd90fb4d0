//! A request as it arrived.

use std::io::{self, Read};

/// One request, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which connection it came on; the first is 0.
    pub connection: usize,
    /// Everything: request line, headers, empty line, body.
    pub raw: Vec<u8>,
    head: usize,
}

impl Received {
    /// The request line, such as `POST /v1/messages HTTP/1.1`.
    pub fn line(&self) -> &str {
        self.head().lines().next().unwrap_or_default()
    }

    /// The request line and the headers.
    pub fn head(&self) -> &str {
        std::str::from_utf8(&self.raw[..self.head]).unwrap()
    }

    /// A header's value; its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head().lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.raw[self.head..]
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.body()).unwrap()
    }

    /// Reads a request, but at most `limit` bytes of it. `None` when the client is gone.
    pub(super) fn read(from: &mut impl Read, connection: usize, limit: usize) -> Option<Self> {
        let mut received = Self { connection, raw: Vec::new(), head: 0 };
        let mut missing = limit;
        while missing > 0 {
            if received.fill(from, missing.min(PIECE)).ok()? == 0 {
                return None;
            }
            missing = received.missing().min(limit.saturating_sub(received.raw.len()));
        }
        Some(received)
    }

    fn fill(&mut self, from: &mut impl Read, at_most: usize) -> io::Result<usize> {
        let before = self.raw.len();
        self.raw.resize(before + at_most, 0);
        let read = from.read(&mut self.raw[before..]);
        self.raw.truncate(before + *read.as_ref().unwrap_or(&0));
        if self.head == 0 {
            let end = self.raw.windows(4).position(|window| window == b"\r\n\r\n");
            self.head = end.map_or(0, |end| end + 4);
        }
        read
    }

    fn missing(&self) -> usize {
        if self.head == 0 {
            return PIECE;
        }
        let announced = self.header("content-length").map_or(0, |length| length.parse().unwrap());
        (self.head + announced).saturating_sub(self.raw.len())
    }
}

const PIECE: usize = 64 * 1_024;
