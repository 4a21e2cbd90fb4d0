//! A server that keeps conversations: its lines, and patience with it. It owns no protocol and no decision.

mod lines;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};

use super::StoreError;
use lines::Lines;

/// How a server is reached.
#[async_trait]
pub(super) trait Dial: Send + Sync {
    /// A connection to it.
    type Line: Line;

    /// Opens a line.
    async fn dial(&self) -> Result<Self::Line, Fault>;
}

/// A connection: one question at a time.
#[async_trait]
pub(super) trait Line: Send + 'static {
    /// Whether it is known to be closed.
    fn is_closed(&self) -> bool;

    /// Closes it, and waits until it is.
    async fn hang_up(self);
}

/// A question to it.
#[async_trait]
pub(super) trait Question<L>: Sync {
    /// What it answers.
    type Answer: Send;

    /// Asks on this line. It may be asked again after a failure, whatever came of the first time.
    async fn ask(&self, line: &mut L) -> Result<Self::Answer, Fault>;
}

/// A failure, before it is told to anybody.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What the caller is told if nothing helps.
    pub(super) error: StoreError,
    /// What may help.
    pub(super) remedy: Remedy,
}

/// What may help against a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// It would fail again.
    Nothing,
    /// To ask again a moment later.
    Wait,
    /// To ask again on another line: this one is broken.
    Redial,
}

impl Fault {
    pub(super) fn new(error: StoreError, remedy: Remedy) -> Self {
        Self { error, remedy }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::new(error, Remedy::Nothing)
    }
}

/// The lines of a store to one server.
pub(super) struct Remote<D: Dial> {
    dial: D,
    /// The server, as errors name it.
    name: String,
    /// How long a server may be away that was there before.
    patience: Duration,
    lines: Lines<D::Line>,
    /// It was there once.
    reached: AtomicBool,
    closed: AtomicBool,
}

impl<D: Dial> Remote<D> {
    /// Opens nothing yet. There are at most so many lines at once.
    pub(super) fn new(dial: D, name: String, most: u16, patience: Duration) -> Self {
        let (reached, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let patience = patience.max(Duration::from_millis(1));
        Self { dial, name, patience, lines: Lines::new(most), reached, closed }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Never nothing, which would mean for ever to some.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Asks on a line that nobody else uses; again, for as long as the patience lasts, after what may pass.
    pub(super) async fn ask<Q: Question<D::Line>>(&self, question: &Q) -> Result<Q::Answer, StoreError> {
        let start = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let fault = match self.attempt(question).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if fault.remedy == Remedy::Nothing || start.elapsed() + pause > self.patience {
                return Err(fault.error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt<Q: Question<D::Line>>(&self, question: &Q) -> Result<Q::Answer, Fault> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(self.closed().into());
        }
        let mut seat = self.lines.seat().await.ok_or_else(|| self.closed())?;
        let mut line = match seat.take() {
            Some(line) => line,
            None => self.dial().await?,
        };
        match timeout(LONGEST_ANSWER, question.ask(&mut line)).await {
            Ok(Err(fault)) if fault.remedy == Remedy::Redial => Err(fault),
            Ok(answer) => {
                seat.keep(line);
                answer
            }
            Err(_elapsed) => Err(self.silent(LONGEST_ANSWER)),
        }
    }

    async fn dial(&self) -> Result<D::Line, Fault> {
        match timeout(LONGEST_DIAL, self.dial.dial()).await {
            Ok(Ok(line)) => {
                self.reached.store(true, Ordering::Relaxed);
                Ok(line)
            }
            // Whoever was never there is not waited for: the address may be wrong.
            Ok(Err(Fault { error, remedy: Remedy::Redial })) if !self.reached.load(Ordering::Relaxed) => {
                Err(error.into())
            }
            Ok(Err(fault)) => Err(fault),
            Err(_elapsed) => Err(self.silent(LONGEST_DIAL)),
        }
    }

    /// Refuses what comes, waits for what was asked before, and hangs up.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.lines.close().await;
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { store: self.name.clone() }
    }

    fn silent(&self, waited: Duration) -> Fault {
        let reason = format!("no answer within {waited:?}");
        StoreError::Unavailable { store: self.name.clone(), reason }.into()
    }
}

impl<D: Dial> fmt::Debug for Remote<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A name that tells one write from all others: it may have to be sent twice, and is applied once.
pub(super) fn name_of_write(store: &str) -> Result<[u8; 16], StoreError> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|error| StoreError::Unavailable {
        store: store.into(),
        reason: format!("the system gives no random numbers: {error}"),
    })?;
    Ok(name)
}

/// How long a server that was there before may be away, unless told otherwise.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_DIAL: Duration = Duration::from_secs(10);
/// Longer than any server works on what is asked of it, shorter than any lease that is left as it comes.
const LONGEST_ANSWER: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests;
