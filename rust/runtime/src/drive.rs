//! The driver: it drains what a run wants, starts it, and feeds back what finishes. Every decision
//! is the machine's.

use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolrelay_core::request::Request;
use toolrelay_core::run::Run;
use toolrelay_core::run::io::{Effect, Input, Output};

use crate::host::{AskEnd, Host, ToolCall, ToolEnd};
use crate::model::Session;
use crate::store::StoreError;
use crate::toolkit::Toolkit;

/// Where a run keeps what it must not lose.
#[async_trait]
pub trait Log: Send {
    /// Makes durable what is new; called whenever something was taken in, before any effect of it
    /// starts, and after the run has ended.
    async fn save(&mut self, run: &Run) -> Result<(), StoreError>;
    /// Says that the run is alive; called once in each interval.
    async fn renew(&mut self) -> Result<(), StoreError>;
    /// The interval of `renew`.
    fn renewal(&self) -> Option<Duration>;
}

/// For a run whose caller keeps the transcript.
#[derive(Debug)]
pub struct NoLog;

#[async_trait]
impl Log for NoLog {
    async fn save(&mut self, _run: &Run) -> Result<(), StoreError> {
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn renewal(&self) -> Option<Duration> {
        None
    }
}

/// What a run works with.
pub struct Surroundings<'a> {
    /// Runs tools and answers inline.
    pub host: &'a dyn Host,
    /// The model.
    pub session: &'a dyn Session,
    /// The tools.
    pub tools: &'a Toolkit,
    /// Ends the run as cancelled.
    pub stop: CancellationToken,
    /// Ends the run as exhausted.
    pub deadline: Option<Instant>,
}

/// Drives a run to its end. An error is the log's: the run is abandoned where it stood.
///
/// When it is stopped, what has ended by then is kept and nothing more begins.
pub async fn drive(run: &mut Run, around: &Surroundings<'_>, log: &mut dyn Log) -> Result<(), StoreError> {
    let mut under_way: FuturesUnordered<BoxFuture<'static, Input>> = FuturesUnordered::new();
    let mut wanted: Vec<Effect> = Vec::new();
    let mut renew_at = log.renewal().map(|every| Instant::now() + every);
    loop {
        if around.stop.is_cancelled() {
            while let Some(Some(input)) = under_way.next().now_or_never() {
                take(run, input, around);
            }
            take(run, Input::Cancelled, around);
        }
        while let Some(output) = run.poll() {
            if let Output::Effect(effect) = output {
                wanted.push(effect);
            }
        }
        let over = run.outcome().is_some();
        // What else has ended by now is saved along with it.
        if !over && let Some(Some(input)) = under_way.next().now_or_never() {
            take(run, input, around);
            continue;
        }
        log.save(run).await?;
        if over {
            return Ok(());
        }
        if around.stop.is_cancelled() {
            continue;
        }
        under_way.extend(wanted.drain(..).filter_map(|effect| start(effect, run, around)));
        let input = loop {
            tokio::select! {
                biased;
                () = around.stop.cancelled() => break None,
                () = at(around.deadline) => break Some(Input::TimedOut),
                () = at(renew_at) => {
                    log.renew().await?;
                    renew_at = log.renewal().map(|every| Instant::now() + every);
                }
                Some(input) = under_way.next() => break Some(input),
            }
        };
        if let Some(input) = input {
            take(run, input, around);
        }
    }
}

/// Every input answers an effect that the driver started, so none is refused; were one, the run
/// would be unchanged and go on.
fn take(run: &mut Run, input: Input, around: &Surroundings<'_>) {
    let _ = run.handle(input, around.tools);
}

/// Starts an effect. An abort comes only with the end of a run, where everything under way is
/// dropped.
fn start(effect: Effect, run: &Run, around: &Surroundings<'_>) -> Option<BoxFuture<'static, Input>> {
    match effect {
        Effect::CallModel { id } => {
            let reply = around.session.call(run.transcript());
            Some(Box::pin(reply.map(move |reply| match reply {
                Ok(reply) => Input::ModelEnded { effect: id, reply },
                Err(failure) => Input::ModelFailed { effect: id, failure },
            })))
        }
        Effect::CallTool { id, call, name, input, answer } => {
            let ended = around.host.call_tool(ToolCall { id: call, name, input, answer });
            Some(Box::pin(ended.map(move |ended| match ended {
                ToolEnd::Finished(output) => Input::ToolFinished { effect: id, output },
                ToolEnd::Parked(park) => Input::ToolParked { effect: id, park },
            })))
        }
        Effect::Ask { id, request } => {
            let left = time_left(&request);
            let asked = around.host.ask(request);
            Some(Box::pin(async move {
                let ended = match left {
                    Some(left) => timeout(left, asked).await,
                    None => Ok(asked.await),
                };
                match ended {
                    Ok(AskEnd::Answered(answer)) => Input::Answered { effect: id, answer },
                    Ok(AskEnd::NotHere) => Input::NotHere { effect: id },
                    Ok(AskEnd::Failed) => Input::AskFailed { effect: id },
                    Err(_) => Input::AskExpired { effect: id },
                }
            }))
        }
        Effect::Abort { .. } => None,
    }
}

fn time_left(request: &Request) -> Option<Duration> {
    let until = request.expires_at_ms()?;
    Some(Duration::from_millis(u64::try_from(until - now_ms()).unwrap_or(0)))
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// The wall clock in unix milliseconds.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
