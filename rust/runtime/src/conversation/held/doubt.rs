//! Commits of which nobody knows what came: the way to the store broke between the question and
//! the answer. What came of one is looked up before anything else is written, so that a paid reply
//! is not lost to trouble that passes, and our own write is not taken for somebody else's.

use std::time::Duration;

use tokio::time::sleep;

use crate::conversation::{Held, Loss};
use crate::store::{Conversation, State, StoreError, Write};

impl Held {
    /// Applies a write against the version that is held; trouble that may pass is given time. One
    /// that waited for a lock in vain waits again only if there is work to lose.
    pub(super) async fn commit(&mut self, write: Write) -> Result<(), StoreError> {
        for pause in PAUSES {
            match self.try_commit(&write).await {
                Err(StoreError::Locked { .. }) if self.is_held() => sleep(pause).await,
                Err(StoreError::Unavailable { .. }) => sleep(pause).await,
                ended => return ended,
            }
        }
        self.try_commit(&write).await
    }

    /// Whether the claim was made.
    fn is_held(&self) -> bool {
        self.until_ms > i64::MIN
    }

    async fn try_commit(&mut self, write: &Write) -> Result<(), StoreError> {
        let doubt = self.doubt.clone();
        if let Some(doubtful) = &doubt
            && self.settles(doubtful, write).await?
        {
            return Ok(());
        }
        match (self.commit_now(write).await, doubt) {
            // The doubtful one was still on its way when it was looked for.
            (Err(StoreError::Conflict { .. }), Some(doubtful)) if doubtful.expect == self.version => {
                if self.settles(&doubtful, write).await? { Ok(()) } else { self.commit_now(write).await }
            }
            (ended, _) => ended,
        }
    }

    /// Looks a doubtful write up, and notes it if the store took it. Whether it is this write, which
    /// is settled by that.
    async fn settles(&mut self, doubtful: &Write, write: &Write) -> Result<bool, StoreError> {
        let landed = self.has_landed(doubtful).await?;
        self.doubt = None;
        if landed {
            self.take_note(doubtful);
        }
        Ok(landed && doubtful == write)
    }

    async fn commit_now(&mut self, write: &Write) -> Result<(), StoreError> {
        let write = Write { expect: self.version, version: self.next_version(), ..write.clone() };
        match self.store.commit(&self.id, write.clone()).await {
            Ok(()) => {
                self.take_note(&write);
                Ok(())
            }
            Err(error) => {
                self.doubt = Some(write).filter(|_| may_pass(&error));
                Err(error)
            }
        }
    }

    /// How the conversation was lost, as far as the store tells: who calls one off leaves it idle with a single write, in an
    /// epoch of its own.
    pub(crate) async fn loss(&self) -> Loss {
        match self.store.load(&self.id).await {
            Ok(None) => Loss::Deleted,
            Ok(Some(found)) => {
                let is_next = (found.version, found.epoch) == (self.version + 1, self.epoch + 1);
                if is_next && found.state == State::Idle { Loss::Cancelled } else { Loss::TakenOver }
            }
            Err(_) => Loss::TakenOver,
        }
    }

    fn take_note(&mut self, write: &Write) {
        self.version = write.version;
        self.until_ms = write.lease.as_ref().map_or(i64::MIN, |lease| lease.until_ms);
    }

    /// Whether the store took the write. Another claim in its place is a conflict; so is a first
    /// write of ours to a known conversation that left no lease behind to know it by, which is
    /// decided anew.
    async fn has_landed(&self, write: &Write) -> Result<bool, StoreError> {
        let found = self.store.load(&self.id).await?;
        let version = found.as_ref().map_or(0, |found| found.version);
        if version == write.expect {
            return Ok(false);
        }
        let ours = found.filter(|found| found.version == write.version && found.epoch == self.epoch);
        let known = |ours: Conversation| {
            write.expect == 0 || self.is_held() || (ours.lease == write.lease && ours.lease.is_some())
        };
        if ours.is_some_and(known) {
            return Ok(true);
        }
        Err(StoreError::Conflict { expected: write.expect, found: version })
    }
}

/// Trouble that may be over soon, and after which the outcome of a commit is not known.
pub(super) fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Locked { .. })
}

const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
