//! Taking a secret out of a text that somebody else wrote.

/// Replaces each trace of `secret` in `text` by [`MARK`].
pub(super) fn clean(text: &mut String, secret: &str) {
    if secret.is_empty() {
        return;
    }
    if text.contains(secret) {
        *text = text.replace(secret, MARK);
    }
    cut_partial_end(text, secret);
    mask_masked(text, secret);
}

/// A message that was cut inside the secret ends with the beginning of it.
fn cut_partial_end(text: &mut String, secret: &str) {
    let Some(kept) = text.strip_suffix('…') else { return };
    for at in (TELLING_CHARS..secret.len()).rev() {
        if secret.is_char_boundary(at) && kept.ends_with(&secret[..at]) {
            text.truncate(kept.len() - at);
            text.push_str(MARK);
            return;
        }
    }
}

/// A provider that quotes a key with its middle starred out still shows both ends of it.
fn mask_masked(text: &mut String, secret: &str) {
    let Some((telling, _)) = secret.char_indices().nth(TELLING_CHARS) else { return };
    let begin = &secret[..telling];
    if !(text.contains(begin) && text.contains("**")) {
        return;
    }
    let mut cleaned = String::with_capacity(text.len());
    for piece in text.split_inclusive(|char: char| char.is_whitespace() || "\"'`,;:()".contains(char)) {
        match piece.find(begin) {
            Some(at) if piece[at..].contains("**") => {
                cleaned.push_str(&piece[..at]);
                cleaned.push_str(MARK);
                cleaned.extend(piece.chars().next_back().filter(|char| !char.is_alphanumeric() && *char != '*'));
            }
            _ => cleaned.push_str(piece),
        }
    }
    *text = cleaned;
}

const MARK: &str = "[redacted]";
/// So few characters of a secret say nothing about the rest.
const TELLING_CHARS: usize = 3;
