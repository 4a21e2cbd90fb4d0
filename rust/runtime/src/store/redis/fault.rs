//! What Redis says went wrong, told as a [`StoreError`].

use redis::{ErrorKind, RedisError};

use super::super::StoreError;
use super::super::remote::{Fault, Remedy};

/// A failure of the library or of the server, and what may help.
pub(super) fn of(store: &str, error: &RedisError) -> Fault {
    let unavailable =
        |reason: String, remedy| Fault::new(StoreError::Unavailable { store: store.into(), reason }, remedy);
    let Some(code) = code_of(error) else {
        let is_ours = [ErrorKind::InvalidClientConfig, ErrorKind::Client, ErrorKind::AuthenticationFailed]
            .contains(&error.kind());
        return unavailable(error.to_string(), if is_ours { Remedy::Nothing } else { Remedy::Redial });
    };
    let told = error.detail().unwrap_or_default();
    match code {
        "OOM" => StoreError::Full { store: store.into() }.into(),
        "MISCONF" if told.contains("No space left") => StoreError::Full { store: store.into() }.into(),
        // Another server may have taken over under the same name.
        "READONLY" => Fault::new(StoreError::ReadOnly { store: store.into() }, Remedy::Redial),
        "WRONGTYPE" => StoreError::NotAStore { store: store.into() }.into(),
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS" => {
            unavailable(format!("{code} {told}"), Remedy::Wait)
        }
        _ => unavailable(format!("{code} {told}"), Remedy::Nothing),
    }
}

/// The first word of what the server said. Up to Redis 6 what stopped a script is told at the end of another error.
fn code_of(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    let within = error.detail().filter(|_| code == "ERR").and_then(|told| told.rsplit_once(": -"));
    Some(within.and_then(|(_, told)| told.split(' ').next()).unwrap_or(code))
}

#[cfg(test)]
mod tests;
