//! Tools as the runs of one client have them: it knows when a request that is made now expires. The machine has no clock.

use std::time::Duration;

use serde_json::Value;
use toolrelay_core::tool::{ToolKind, Tools};

use crate::drive::now_ms;
use crate::toolkit::Toolkit;

/// The tools of a run, with the time that a request has for which its tool says none.
#[derive(Debug)]
pub(crate) struct Expiring<'a> {
    pub(crate) toolkit: &'a Toolkit,
    pub(crate) expires_after: Option<Duration>,
}

impl Tools for Expiring<'_> {
    fn resolve(&self, wire_name: &str) -> Option<&str> {
        self.toolkit.resolve(wire_name)
    }

    fn kind(&self, name: &str) -> Option<ToolKind> {
        self.toolkit.kind(name)
    }

    fn check(&self, name: &str, input: &Value) -> Result<(), String> {
        self.toolkit.check(name, input)
    }

    fn names(&self) -> Vec<&str> {
        self.toolkit.names()
    }

    fn is_retry_safe(&self, name: &str) -> bool {
        self.toolkit.is_retry_safe(name)
    }

    fn expires_at_ms(&self, name: &str) -> Option<i64> {
        let after = self.toolkit.expires_after(name).or(self.expires_after)?;
        Some(now_ms().saturating_add(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)))
    }
}
