//! Where the requests of a style go. Bases come without a slash at the end and without a query.

/// A base with a version and a path, where it does not have them.
pub(super) fn endpoint(base: &str, version: &str, path: &str) -> String {
    if base.ends_with(path) {
        return base.to_owned();
    }
    let version = if base.ends_with(version) { "" } else { version };
    format!("{base}{version}{path}")
}

/// The address of a Gemini model. A base that names a version keeps it.
pub(super) fn gemini(base: &str, model: &str, stream: bool) -> String {
    let verb = if stream { "streamGenerateContent" } else { "generateContent" };
    if let Some((endpoint, _)) = base.rsplit_once(':').filter(|(_, verb)| verb.ends_with("enerateContent")) {
        return format!("{endpoint}:{verb}");
    }
    let version = if base.split('/').skip(3).any(is_version) { "" } else { "/v1beta" };
    let collection = if COLLECTIONS.iter().any(|known| model.starts_with(known)) { "" } else { "models/" };
    let model: String = model.bytes().map(encoded).collect();
    format!("{base}{version}/{collection}{model}:{verb}")
}

/// A byte of a model's name as a path has it.
fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

/// Whether a segment of a path is a version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let digits = segment.strip_prefix('v').map(|rest| rest.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    digits.is_some_and(|rest| rest.len() + 1 < segment.len() && ["", "alpha", "beta", "beta1"].contains(&rest))
}

/// How a model's name begins when it says where the model is to be found.
const COLLECTIONS: [&str; 4] = ["models/", "tunedModels/", "publishers/", "projects/"];
