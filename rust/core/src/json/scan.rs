//! Splitting JSON text at its outermost level, in one quick pass. What lies between is skipped,
//! not checked: whoever reads an element checks it.

use memchr::memchr2;

/// The elements of an array, each as it stands. `None`: the text is not one array.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let mut scan = Scan { text, at: 0 };
    let mut elements = Vec::new();
    scan.expect(b'[')?;
    if scan.next_is(b']') {
        scan.at += 1;
        return scan.is_over().then_some(elements);
    }
    loop {
        elements.push(scan.value()?);
        match scan.after_value()? {
            b',' => {}
            b']' => return scan.is_over().then_some(elements),
            _ => return None,
        }
    }
}

/// The fields of an object, keys with their quotes. `None`: the text is not one object.
pub(crate) fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut scan = Scan { text, at: 0 };
    let mut fields = Vec::new();
    scan.expect(b'{')?;
    if scan.next_is(b'}') {
        scan.at += 1;
        return scan.is_over().then_some(fields);
    }
    loop {
        let key = scan.value()?;
        if !key.starts_with('"') {
            return None;
        }
        scan.expect(b':')?;
        fields.push((key, scan.value()?));
        match scan.after_value()? {
            b',' => {}
            b'}' => return scan.is_over().then_some(fields),
            _ => return None,
        }
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn next_is(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        self.bytes().get(self.at) == Some(&byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.next_is(byte);
        self.at += 1;
        found.then_some(())
    }

    fn after_value(&mut self) -> Option<u8> {
        self.skip_blanks();
        let byte = *self.bytes().get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn is_over(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.text.len()
    }

    /// Skips one value and gives its text.
    fn value(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let start = self.at;
        match self.bytes().get(start)? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                while !matches!(
                    self.bytes().get(self.at),
                    None | Some(b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r')
                ) {
                    self.at += 1;
                }
            }
        }
        self.text.get(start..self.at).filter(|value| !value.is_empty())
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes().get(self.at..)?)?;
            if self.bytes()[self.at] == b'"' {
                self.at += 1;
                return Some(());
            }
            self.at += 2;
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.bytes().get(self.at)? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}
