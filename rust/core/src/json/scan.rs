//! A pass over JSON text that checks it and builds nothing: a value is known by the place where it
//! begins and ends. It takes exactly the texts that `serde_json` takes for a raw value, of any depth.

use super::next_escaped;

/// The elements of an array, each as it stands. `None`: the text is not one array.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let mut scan = Scan::new(text);
    let mut elements = Vec::new();
    scan.array(|scan| {
        elements.push(scan.value()?);
        Some(())
    })?;
    scan.is_over().then_some(elements)
}

/// The fields of an object, keys with their quotes. `None`: the text is not one object.
pub(crate) fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut scan = Scan::new(text);
    let mut fields = Vec::new();
    scan.object(|key, scan| {
        fields.push((key, scan.value()?));
        Some(())
    })?;
    scan.is_over().then_some(fields)
}

/// A place in a text. Every step skips the blanks before it, and gives `None` where the text is not
/// what was asked for; the place is then of no use but to be thrown away, except by [`Scan::take`].
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

/// A string as it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a> {
    /// With its quotes.
    pub(crate) quoted: &'a str,
    /// Whether it says the same without being read: it has no escapes.
    pub(crate) is_plain: bool,
}

impl<'a> Quoted<'a> {
    /// The text between the quotes, if that is what the string says.
    pub(crate) fn plain(self) -> Option<&'a str> {
        if self.is_plain { self.quoted.get(1..self.quoted.len() - 1) } else { None }
    }
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// A place inside of a text.
    pub(crate) fn from(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// How many bytes are behind this place.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Whether this byte comes next.
    pub(crate) fn next_is(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        self.peek() == Some(byte)
    }

    /// Goes over this byte; stays, but for blanks, before any other.
    pub(crate) fn take(&mut self, byte: u8) -> Option<()> {
        self.next_is(byte).then(|| self.at += 1)
    }

    /// Goes over this key (given with its quotes) and the colon behind it; stays before another key.
    #[inline]
    pub(crate) fn key(&mut self, quoted: &str) -> bool {
        self.skip_blanks();
        let is_it = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(quoted.as_bytes()));
        if is_it {
            self.at += quoted.len();
        }
        is_it && self.take(b':').is_some()
    }

    /// Goes over one of these bytes and gives it.
    pub(crate) fn next_of(&mut self, bytes: &[u8]) -> Option<u8> {
        self.skip_blanks();
        let byte = self.peek().filter(|byte| bytes.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Whether nothing but blanks is left.
    pub(crate) fn is_over(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.text.len()
    }

    /// Goes over a string.
    pub(crate) fn string(&mut self) -> Option<Quoted<'a>> {
        self.skip_blanks();
        let start = self.at;
        let is_plain = self.skip_string()?;
        Some(Quoted { quoted: self.text.get(start..self.at)?, is_plain })
    }

    /// Goes over an object. The visitor gets each key, with its quotes, and goes over its value.
    pub(crate) fn object(&mut self, mut visit: impl FnMut(&'a str, &mut Self) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.string()?.quoted;
            self.take(b':')?;
            visit(key, self)?;
            if self.next_of(b",}")? == b'}' {
                return Some(());
            }
        }
    }

    /// Goes over a list. The visitor goes over each value in it.
    pub(crate) fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            visit(self)?;
            if self.next_of(b",]")? == b']' {
                return Some(());
            }
        }
    }

    /// Goes over a value and gives its text.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let start = self.at;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek()? {
                b'"' => self.skip_string().map(|_| ())?,
                bracket @ (b'{' | b'[') => {
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    self.at += 1;
                    if self.take(close).is_none() {
                        open.push(close);
                        self.skip_key_in(close)?;
                        continue;
                    }
                }
                _ => self.skip_scalar()?,
            }
            if !self.goes_on(&mut open)? {
                return self.text.get(start..self.at);
            }
        }
    }

    /// Behind a value: whether another one of an open list or object follows. Closes those that end.
    fn goes_on(&mut self, open: &mut Vec<u8>) -> Option<bool> {
        while let Some(close) = open.last().copied() {
            if self.next_of(&[b',', close])? == b',' {
                self.skip_key_in(close)?;
                return Some(true);
            }
            open.pop();
        }
        Some(false)
    }

    /// Up to the next value of what ends with `close`: over the key in an object.
    fn skip_key_in(&mut self, close: u8) -> Option<()> {
        if close == b'}' {
            self.string()?;
            self.take(b':')?;
        }
        self.skip_blanks();
        Some(())
    }

    /// Goes over a string that begins here; tells whether it has no escapes.
    fn skip_string(&mut self) -> Option<bool> {
        let bytes = self.text.as_bytes();
        if self.peek()? != b'"' {
            return None;
        }
        let mut is_plain = true;
        let mut at = self.at + 1;
        loop {
            let (found, byte) = next_escaped(bytes, at)?;
            match byte {
                b'"' => {
                    self.at = found + 1;
                    return Some(is_plain);
                }
                b'\\' => at = end_of_escape(bytes, found)?,
                _control => return None,
            }
            is_plain = false;
        }
    }

    fn skip_scalar(&mut self) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let length = match rest.first()? {
            b't' => rest.starts_with(b"true").then_some(4),
            b'f' => rest.starts_with(b"false").then_some(5),
            b'n' => rest.starts_with(b"null").then_some(4),
            _ => number(rest),
        };
        self.at += length?;
        Some(())
    }
}

/// The place behind the escape that begins at `at`. Surrogates need no partner here.
fn end_of_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 6),
        _ => None,
    }
}

/// The length of the number at the start.
fn number(bytes: &[u8]) -> Option<usize> {
    let digits = |at: usize| bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count());
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let decimals = digits(at + 1);
        at += 1 + decimals;
        if decimals == 0 {
            return None;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        at += 1 + sign + exponent;
        if exponent == 0 {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests;
