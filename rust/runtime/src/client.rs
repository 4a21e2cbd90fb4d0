//! A client: one model, its limits, and where its conversations are kept. It starts or resumes a
//! run, drives it to its end and reports.

mod report;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use toolrelay_core::answer::Answer;
use toolrelay_core::message::Message;
use toolrelay_core::repair::Warning;
use toolrelay_core::request::Request;
use toolrelay_core::resume::{Missing, ResumeError};
use toolrelay_core::run::event::Event;
use toolrelay_core::run::io::Input;
use toolrelay_core::run::{Left, OnPending, Run, RunConfig, StartError};
use toolrelay_core::tool::Tools;
use toolrelay_core::transcript::Transcript;
use toolrelay_core::wire::WireError;

use crate::conversation::{Answered, Claimed, ConversationError, Conversations, outstanding};
use crate::drive::{Log, NoLog, Surroundings, drive, now_ms};
use crate::host::Host;
use crate::model::Model;
use crate::seal::SealError;
use crate::store::StoreError;
use crate::toolkit::{Expiring, Toolkit};
use crate::watch::{Told, Watcher, by_host_names};

pub use report::Report;

/// A model with limits and a store.
pub struct Client {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Where `ask` keeps conversations.
    pub conversations: Conversations,
    /// Model turns allowed from a prompt on.
    pub max_turns: u32,
    /// The time of a whole run.
    pub timeout: Option<Duration>,
    /// Whether the host answers inline.
    pub inline: bool,
    /// For how long an answer to a request is waited for that says nothing itself.
    pub expires_after: Option<Duration>,
}

/// What a segment begins with.
#[derive(Debug)]
pub enum Start {
    /// A prompt, or without one going on from a settled transcript.
    Prompt {
        /// The new prompt.
        prompt: Option<Message>,
        /// What it does to a halted transcript.
        on_pending: OnPending,
    },
    /// What a worker left that died.
    Recover,
    /// An answer to a halt.
    Answer {
        /// The request as the host has it.
        pending: Request,
        /// The host's answer.
        answer: Answer,
        /// What calls without a result get.
        missing: Missing,
    },
    /// An answer to the request that it names.
    AnswerAlone {
        /// The host's answer.
        answer: Answer,
        /// What calls without a result get.
        missing: Missing,
    },
}

/// Whose transcript a segment works on.
#[derive(Debug)]
pub enum Place {
    /// The caller's.
    History(Transcript),
    /// A stored conversation's.
    Conversation(String),
    /// A stored conversation's, if need be after the run that has it; that may last until the time of
    /// this run is over.
    InTurn(String),
    /// The caller's, out of a token that is good for one use: the store keeps a mark of it.
    Once {
        /// The transcript.
        history: Transcript,
        /// Names the token in the store.
        mark: String,
        /// When the token ends, in unix milliseconds.
        until_ms: Option<i64>,
    },
}

/// Why a segment gave no report.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The prompt cannot start a run.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The answer does not resume the transcript.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The conversation does not go on.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The tools or parameters cannot be put in the provider's form.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The token was used before.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness for ids: {reason}")]
    Entropy {
        /// What it says.
        reason: String,
    },
    /// The store failed under way. What was written before stands.
    #[error("{error}")]
    Store {
        /// What failed.
        error: StoreError,
        /// The balanced transcript as far as it came: a run can go on from it.
        transcript: Transcript,
    },
}

impl Client {
    /// Runs one segment: from a prompt or an answer to its end.
    pub async fn run(
        &self,
        place: Place,
        start: Start,
        host: &dyn Host,
        tools: &Toolkit,
        stop: CancellationToken,
    ) -> Result<Report, RunError> {
        self.run_watched(place, start, host, tools, stop, None).await
    }

    /// The same, and a watcher is told what happens on the way.
    pub async fn run_watched(
        &self,
        place: Place,
        start: Start,
        host: &dyn Host,
        tools: &Toolkit,
        stop: CancellationToken,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<Report, RunError> {
        let watcher = watcher.map(|watcher| by_host_names(watcher, tools));
        let session = self.model.open(tools, watcher.clone())?;
        let config =
            RunConfig { max_turns: self.max_turns, inline: self.inline, events: watcher.is_some(), seed: seed()? };
        let deadline = self.timeout.map(|limit| Instant::now() + limit);
        let watcher = watcher.as_deref();
        let tools = &Expiring { toolkit: tools, expires_after: self.expires_after };
        let around = Surroundings { host, session: &*session, tools, watcher, stop, deadline };
        match place {
            Place::History(history) => {
                let (run, warnings) = begin(history, start, &config, tools)?;
                finish(run, warnings, &around, &mut NoLog).await
            }
            Place::Once { history, mark, until_ms } => {
                let (run, warnings) = begin(history, start, &config, tools)?;
                if !self.conversations.mark(&mark, until_ms).await? {
                    return Err(SealError::Used.into());
                }
                finish(run, warnings, &around, &mut NoLog).await
            }
            Place::Conversation(id) => self.work_on(&id, false, &start, &config, &around).await,
            Place::InTurn(id) => self.work_on(&id, true, &start, &config, &around).await,
        }
    }

    async fn work_on(
        &self,
        id: &str,
        in_turn: bool,
        start: &Start,
        config: &RunConfig,
        around: &Surroundings<'_>,
    ) -> Result<Report, RunError> {
        loop {
            // What a dead worker left is a run of its own, and no two share a seed.
            let config = RunConfig { seed: seed()?, ..config.clone() };
            match self.claim_in_turn(id, in_turn, start, &config, around).await? {
                Answered::Claimed(claimed) => return work(*claimed, around).await,
                Answered::Left(claimed) => drop(work(*claimed, around).await?),
                Answered::Before { replay, transcript, suspensions } => {
                    if let Some(watcher) = around.watcher {
                        watcher.tell(
                            suspensions.iter().cloned().map(|request| Told::Event(Event::Parked(request))).collect(),
                        );
                    }
                    return Ok(Report::again(replay, transcript, suspensions));
                }
            }
        }
    }

    /// Claims; in turn, again and again while another run has the conversation.
    async fn claim_in_turn(
        &self,
        id: &str,
        in_turn: bool,
        start: &Start,
        config: &RunConfig,
        around: &Surroundings<'_>,
    ) -> Result<Answered, ConversationError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let claimed = claim(&self.conversations, id, start, config, around.tools).await;
            let again = Instant::now() + pause;
            let in_time = around.deadline.is_none_or(|deadline| again < deadline);
            if !(in_turn && in_time && matches!(claimed, Err(ConversationError::Busy { .. }))) {
                return claimed;
            }
            tokio::select! {
                () = around.stop.cancelled() => return claimed,
                () = sleep_until(again) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes a prompt or an answer durable, after all checks, and leaves the run to another worker: to the next one that goes
    /// on with the conversation, or to a sweep when the lease is over. Whether there is a run to go on with: none where this
    /// answer's is over, or where calls wait for other answers.
    pub async fn submit(&self, id: &str, start: &Start, tools: &Toolkit) -> Result<bool, RunError> {
        let config = RunConfig { max_turns: self.max_turns, inline: false, events: false, seed: seed()? };
        let tools = Expiring { toolkit: tools, expires_after: self.expires_after };
        match claim(&self.conversations.for_others(), id, start, &config, &tools).await? {
            Answered::Claimed(claimed) => Ok(claimed.run.outcome().is_none()),
            Answered::Before { .. } => Ok(false),
            Answered::Left(_) => Err(ConversationError::Busy { id: id.to_owned(), lease: None }.into()),
        }
    }
}

async fn claim(
    conversations: &Conversations,
    id: &str,
    start: &Start,
    config: &RunConfig,
    tools: &dyn Tools,
) -> Result<Answered, ConversationError> {
    match start {
        Start::Prompt { prompt, on_pending } => {
            let claimed = conversations.prompt(id, prompt.as_ref(), *on_pending, config, tools).await?;
            Ok(Answered::Claimed(Box::new(claimed)))
        }
        Start::Recover => Ok(Answered::Claimed(Box::new(conversations.recover(id, config, tools).await?))),
        Start::Answer { pending, answer, missing } => {
            conversations.answer(id, Some(pending), answer, *missing, config, tools).await
        }
        Start::AnswerAlone { answer, missing } => conversations.answer(id, None, answer, *missing, config, tools).await,
    }
}

fn begin(
    history: Transcript,
    start: Start,
    config: &RunConfig,
    tools: &dyn Tools,
) -> Result<(Run, Vec<Warning>), RunError> {
    Ok(match start {
        Start::Prompt { prompt, on_pending } => Run::start(history, prompt, on_pending, config)?,
        Start::Recover => Run::go_on(&history, &Left::default(), config, tools)?,
        Start::Answer { pending, answer, missing } => {
            Run::resume(history, &pending, &answer, missing, Some(now_ms()), config, tools)?
        }
        Start::AnswerAlone { answer, missing } => {
            let pending = named_by(&answer, &history)?;
            Run::resume(history, &pending, &answer, missing, Some(now_ms()), config, tools)?
        }
    })
}

/// The request of a halted transcript that an answer names.
fn named_by(answer: &Answer, history: &Transcript) -> Result<Request, ResumeError> {
    let waiting = outstanding(history);
    let expected = waiting.iter().map(|request| request.id.to_string()).collect();
    let named = waiting.into_iter().find(|request| request.id == answer.id);
    named.ok_or_else(|| ResumeError::WrongRequest { expected, found: answer.id.clone() })
}

/// Drives the run of a claimed conversation to its end.
async fn work(claimed: Claimed, around: &Surroundings<'_>) -> Result<Report, RunError> {
    let Claimed { run, warnings, mut held } = claimed;
    match finish(run, warnings, around, &mut held).await {
        // A write of ours that met another version.
        Err(RunError::Store { error: StoreError::Conflict { .. }, .. }) => {
            Err(ConversationError::LeaseLost { id: held.id().to_string(), how: held.loss().await }.into())
        }
        ended => ended,
    }
}

async fn finish(
    mut run: Run,
    warnings: Vec<Warning>,
    around: &Surroundings<'_>,
    log: &mut dyn Log,
) -> Result<Report, RunError> {
    match drive(&mut run, around, log).await {
        Ok(()) => Ok(Report::of(run, warnings)),
        Err(error) => {
            // The run ends here, with every result that is known; one that is over refuses this.
            let _ = run.handle(Input::Cancelled, around.tools);
            Err(RunError::Store { error, transcript: run.into_transcript() })
        }
    }
}

fn seed() -> Result<[u8; 32], RunError> {
    entropy().map_err(|reason| RunError::Entropy { reason })
}

/// Randomness for ids; the error is what the operating system says.
pub(crate) fn entropy() -> Result<[u8; 32], String> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
    Ok(seed)
}

/// Between two looks at a conversation that another run has.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
