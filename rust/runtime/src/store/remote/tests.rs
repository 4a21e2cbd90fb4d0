//! Lines that break, and how patiently that is taken.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;

/// A server that answers as it is told to.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    dials: VecDeque<Option<Remedy>>,
    answers: VecDeque<Option<Remedy>>,
    dialled: usize,
    asked: usize,
}

struct Wire;

struct Anything(Script);

fn fault(remedy: Remedy) -> Fault {
    Fault::new(unavailable(), remedy)
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { store: "the server".into(), reason: "it is tired".into() }
}

#[async_trait]
impl Dial for Script {
    type Line = Wire;

    async fn dial(&self) -> Result<Wire, Fault> {
        let mut told = self.0.lock().unwrap();
        told.dialled += 1;
        told.dials.pop_front().flatten().map_or(Ok(Wire), |remedy| Err(fault(remedy)))
    }
}

#[async_trait]
impl Line for Wire {
    fn is_closed(&self) -> bool {
        false
    }

    async fn hang_up(self) {}
}

#[async_trait]
impl Question<Wire> for Anything {
    type Answer = ();

    async fn ask(&self, _: &mut Wire) -> Result<(), Fault> {
        let mut told = self.0.0.lock().unwrap();
        told.asked += 1;
        told.answers.pop_front().flatten().map_or(Ok(()), |remedy| Err(fault(remedy)))
    }
}

/// What comes of one question to a server that dials and answers so, after so many successful ones; how often it was
/// dialled and asked.
async fn ask(
    before: usize,
    dials: &[Option<Remedy>],
    answers: &[Option<Remedy>],
) -> (Result<(), StoreError>, usize, usize) {
    let script = Script::default();
    let remote = Remote::new(script.clone(), "the server".into(), 1, Duration::from_secs(1));
    for _ in 0..before {
        remote.ask(&Anything(script.clone())).await.unwrap();
    }
    let (dials, answers) = (dials.iter().copied().collect(), answers.iter().copied().collect());
    *script.0.lock().unwrap() = Told { dials, answers, ..Told::default() };
    let ended = remote.ask(&Anything(script.clone())).await;
    let told = script.0.lock().unwrap();
    (ended, told.dialled, told.asked)
}

const WAIT: Option<Remedy> = Some(Remedy::Wait);
const REDIAL: Option<Remedy> = Some(Remedy::Redial);
const NOTHING: Option<Remedy> = Some(Remedy::Nothing);

#[tokio::test(start_paused = true)]
async fn a_line_is_kept_until_it_breaks() {
    assert_eq!(ask(0, &[], &[]).await, (Ok(()), 1, 1));
    assert_eq!(ask(3, &[], &[]).await, (Ok(()), 0, 1));
    assert_eq!(ask(1, &[], &[WAIT, WAIT, None]).await, (Ok(()), 0, 3));
    assert_eq!(ask(1, &[], &[REDIAL, None]).await, (Ok(()), 1, 2));
}

#[tokio::test(start_paused = true)]
async fn what_would_fail_again_is_told_at_once() {
    assert_eq!(ask(1, &[], &[NOTHING]).await, (Err(unavailable()), 0, 1));
    assert_eq!(ask(0, &[NOTHING], &[]).await, (Err(unavailable()), 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_there_is_not_waited_for_and_one_that_was_is() {
    assert_eq!(ask(0, &[REDIAL], &[]).await, (Err(unavailable()), 1, 0));
    assert_eq!(ask(0, &[WAIT, None], &[]).await, (Ok(()), 2, 1));
    assert_eq!(ask(1, &[REDIAL, REDIAL, None], &[REDIAL, None]).await, (Ok(()), 3, 2));
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let start = Instant::now();
    let (ended, dialled, asked) = ask(1, &[REDIAL; 1_000], &[REDIAL]).await;
    assert_eq!((ended, asked), (Err(unavailable()), 1));
    assert!(dialled > 5 && start.elapsed() <= Duration::from_secs(1), "{dialled} in {:?}", start.elapsed());
}

/// One that never answers.
struct Silence;

#[async_trait]
impl Question<Wire> for Silence {
    type Answer = ();

    async fn ask(&self, _: &mut Wire) -> Result<(), Fault> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_and_its_line_is_not_used_again() {
    let script = Script::default();
    let remote = Remote::new(script.clone(), "the server".into(), 1, Duration::from_secs(1));
    let told = remote.ask(&Silence).await.unwrap_err();
    assert_eq!(told.to_string(), "the server is unavailable: no answer within 20s");
    assert_eq!(remote.ask(&Anything(script.clone())).await, Ok(()));
    assert_eq!(script.0.lock().unwrap().dialled, 2);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_was_not_used_for_long_is_not_used_again() {
    let script = Script::default();
    let remote = Remote::new(script.clone(), "the server".into(), 1, Duration::from_secs(1));
    for pause in [0, 50, 70] {
        sleep(Duration::from_secs(pause)).await;
        remote.ask(&Anything(script.clone())).await.unwrap();
    }
    assert_eq!(script.0.lock().unwrap().dialled, 2);
}
