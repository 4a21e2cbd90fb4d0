//! What a parked call is held against when it is resumed, so that what was approved is what runs (contract 6.2).

use hmac_sha256::Hash;

use crate::message::Call;

impl Call {
    /// SHA-256 over the tool's name, a NUL, and the argument text as it stands, all in UTF-8, in lower-case hex. Neither
    /// of the two holds a NUL (contract 9.5).
    pub fn check(&self) -> String {
        let mut hash = Hash::new();
        for part in [self.name.as_bytes(), b"\0", self.arguments.as_bytes()] {
            hash.update(part);
        }
        let byte = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)]));
        hash.finalize().iter().flat_map(byte).collect()
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
