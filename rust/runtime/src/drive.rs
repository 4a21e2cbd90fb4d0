//! The driver: it drains what a run wants, starts it, and feeds back what finishes. Every decision
//! is the machine's.
//!
//! A panic in the host's or a model's code ends what it was asked for and nothing else: a tool
//! call gets an error result (contract 2.6), a question counts as failed, a model call as failed.
//! The panic hook has told of it before.

use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolrelay_core::request::Request;
use toolrelay_core::run::Run;
use toolrelay_core::run::io::{Effect, Input, ModelFailure, Output};
use toolrelay_core::tool::{Outcome, ToolOutput, Tools};

use crate::host::{AskEnd, Host, ToolCall, ToolEnd};
use crate::model::Session;
use crate::store::StoreError;
use crate::watch::{Told, Watcher};

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
    /// What tells the conversation that is kept from all others, also from earlier ones of its id.
    fn name(&self) -> Option<String>;
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

    fn name(&self) -> Option<String> {
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
    pub tools: &'a dyn Tools,
    /// Is told what happens.
    pub watcher: Option<&'a dyn Watcher>,
    /// Ends the run as cancelled.
    pub stop: CancellationToken,
    /// Ends the run as exhausted.
    pub deadline: Option<Instant>,
}

/// Drives a run to its end. An error is the log's: the run is abandoned where it stood.
///
/// Everything that the run has under way is dropped with this future, and at the end of the run
/// before the end is saved: nothing works on behind a saved end.
pub async fn drive(run: &mut Run, around: &Surroundings<'_>, log: &mut dyn Log) -> Result<(), StoreError> {
    let mut under_way: FuturesUnordered<BoxFuture<'static, Input>> = FuturesUnordered::new();
    let mut stopped = pin!(around.stop.cancelled());
    let mut late = pin!(at(around.deadline));
    let mut renew_at = log.renewal().map(|every| Instant::now() + every);
    loop {
        // What else has ended by now is saved along with it, and kept whoever stops the run.
        while let Some(Some(input)) = under_way.next().now_or_never() {
            take(run, input, around);
        }
        if around.stop.is_cancelled() {
            take(run, Input::Cancelled, around);
        }
        let over = run.outcome().is_some();
        if over {
            under_way.clear();
        }
        log.save(run).await?;
        if around.stop.is_cancelled() && !over {
            continue;
        }
        let effects = drain(run, around);
        if over {
            return Ok(());
        }
        let name = log.name();
        under_way.extend(effects.into_iter().filter_map(|effect| start(effect, run, around, name.as_deref())));
        // In this order: a run whose effects all end at once can be stopped, too.
        let input = loop {
            tokio::select! {
                biased;
                () = &mut stopped => break None,
                () = &mut late => break Some(Input::TimedOut),
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

/// What the run wants done. What it tells is told before any of that starts.
fn drain(run: &mut Run, around: &Surroundings<'_>) -> Vec<Effect> {
    let (mut effects, mut told) = (Vec::new(), Vec::new());
    while let Some(output) = run.poll() {
        match output {
            Output::Effect(effect) => effects.push(effect),
            Output::Event(event) => told.push(Told::Event(event)),
            Output::Done(_) => {}
        }
    }
    if let Some(watcher) = around.watcher.filter(|_| !told.is_empty()) {
        watcher.tell(told);
    }
    effects
}

/// Starts an effect. An abort comes only with the end of a run, where everything under way is
/// dropped. `conversation` is the name of it.
fn start(
    effect: Effect,
    run: &Run,
    around: &Surroundings<'_>,
    conversation: Option<&str>,
) -> Option<BoxFuture<'static, Input>> {
    match effect {
        Effect::CallModel { id } => {
            let reply = begin(|| around.session.call(run.transcript()));
            Some(Box::pin(end(reply).map(move |reply| match reply {
                Ok(Ok(reply)) => Input::ModelEnded { effect: id, reply },
                Ok(Err(failure)) => Input::ModelFailed { effect: id, failure },
                Err(message) => Input::ModelFailed { effect: id, failure: ModelFailure::in_process(message) },
            })))
        }
        Effect::CallTool { id, call, name, input, answer } => {
            let key = conversation.map_or_else(|| call.to_string(), |conversation| format!("{conversation}:{call}"));
            let ended = begin(|| around.host.call_tool(ToolCall { id: call, key, name, input, answer }));
            Some(Box::pin(end(ended).map(move |ended| match ended {
                Ok(ToolEnd::Finished(output)) => Input::ToolFinished { effect: id, output },
                Ok(ToolEnd::Parked(park)) => Input::ToolParked { effect: id, park },
                Err(message) => Input::ToolFinished { effect: id, output: ToolOutput::failed(Outcome::Error, message) },
            })))
        }
        Effect::Ask { id, request } => {
            let left = time_left(&request);
            if left == Some(Duration::ZERO) {
                return Some(Box::pin(ready(Input::AskExpired { effect: id })));
            }
            let asked = end(begin(|| around.host.ask(request)));
            Some(Box::pin(async move {
                let ended = match left {
                    Some(left) => timeout(left, asked).await,
                    None => Ok(asked.await),
                };
                match ended {
                    Ok(Ok(AskEnd::Answered(answer))) => Input::Answered { effect: id, answer },
                    Ok(Ok(AskEnd::NotHere)) => Input::NotHere { effect: id },
                    Ok(Ok(AskEnd::Failed) | Err(_)) => Input::AskFailed { effect: id },
                    Err(_) => Input::AskExpired { effect: id },
                }
            }))
        }
        Effect::Abort { .. } => None,
    }
}

/// Calls the host's or the model's code for a future.
fn begin<T>(code: impl FnOnce() -> BoxFuture<'static, T>) -> thread::Result<BoxFuture<'static, T>> {
    catch_unwind(AssertUnwindSafe(code))
}

/// What such a future gives. The error says with which words the code panicked.
async fn end<T>(begun: thread::Result<BoxFuture<'static, T>>) -> Result<T, String> {
    let ended = match begun {
        Ok(future) => AssertUnwindSafe(future).catch_unwind().await,
        Err(panic) => Err(panic),
    };
    ended.map_err(|panic| match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(words), _) => format!("panicked: {words}"),
        (None, Some(words)) => format!("panicked: {words}"),
        (None, None) => "panicked".to_owned(),
    })
}

fn time_left(request: &Request) -> Option<Duration> {
    let until = request.expires_at_ms()?;
    Some(Duration::from_millis(u64::try_from(until.saturating_sub(now_ms())).unwrap_or(0)))
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
