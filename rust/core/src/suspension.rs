//! A halted turn, read back from a transcript (contract 5.4). A resume is a parser: what it reads
//! here is the same state that the run had when it halted.

use crate::id::{CallId, IdSource, RequestId};
use crate::message::{Call, Message, Pending};
use crate::request::{RelayCall, Request};
use crate::transcript::Transcript;

/// The last turn of a transcript, some of whose calls wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Everything up to and with the assistant message.
    pub prefix: Transcript,
    /// One per call, in call order.
    pub slots: Vec<Parked>,
    /// The requests of the turn in call order.
    pub requests: Vec<Request>,
    /// Model turns used since the prompt.
    pub turns: u32,
    /// Waiting calls that are not what they were when they parked.
    pub changed: Vec<Call>,
}

/// One call of a halted turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parked {
    /// It has its result.
    Settled(Message),
    /// It waits for an answer to this request.
    Waiting(RequestId),
    /// It has no result and no mark: another program wrote this history (contract 6.11).
    Unanswered,
}

/// Why a transcript holds no suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSuspended {
    /// There is no message.
    Empty,
    /// The last turn is settled.
    Settled,
    /// Calls are parked, but the conversation went on behind them.
    Stale,
}

impl Suspension {
    /// Reads the halted turn off the end of a mended transcript.
    pub fn from_transcript(mut transcript: Transcript) -> Result<Self, NotSuspended> {
        if transcript.is_empty() {
            return Err(NotSuspended::Empty);
        }
        let messages = transcript.messages();
        let Some(last) = messages.iter().rposition(|message| message.assistant().is_some()) else {
            return Err(NotSuspended::Settled);
        };
        let calls = messages[last].calls().to_vec();
        let results = messages[last + 1..].iter().filter(|message| message.result().is_some()).count();
        let waiting = results < calls.len() || messages[last + 1..].iter().any(Message::is_placeholder);
        if !waiting {
            return Err(NotSuspended::Settled);
        }
        if last + 1 + results < messages.len() {
            return Err(NotSuspended::Stale);
        }
        let results = transcript.split_off(last + 1);
        Ok(Self::read(transcript, &calls, &results))
    }

    fn read(prefix: Transcript, calls: &[Call], results: &[Message]) -> Self {
        let mut suspension = Self { prefix, slots: Vec::new(), requests: Vec::new(), turns: 0, changed: Vec::new() };
        for call in calls {
            let message = results.iter().find(|message| message.result().is_some_and(|r| r.call == call.id));
            let slot = match message.and_then(|message| Some((message, message.result()?))) {
                None => Parked::Unanswered,
                Some((message, result)) => match &result.pending {
                    None => Parked::Settled(message.clone()),
                    Some(pending) => {
                        suspension.turns = suspension.turns.max(pending.turns);
                        let known = suspension.requests.iter().any(|request| request.id == pending.id);
                        suspension.requests.extend(pending.request.clone().filter(|_| !known));
                        if pending.check.as_ref().is_some_and(|check| *check != call.check()) {
                            suspension.changed.push(call.clone());
                        }
                        Parked::Waiting(pending.id.clone())
                    }
                },
            };
            suspension.slots.push(slot);
        }
        suspension
    }

    /// The calls of the turn.
    pub fn calls(&self) -> &[Call] {
        self.prefix.messages().last().map_or(&[], Message::calls)
    }

    /// The calls that wait for a request, with their places.
    pub fn waiting_for(&self, request: &RequestId) -> Vec<(usize, &Call)> {
        let slots = self.slots.iter().enumerate().zip(self.calls());
        slots
            .filter(|((_, slot), _)| matches!(slot, Parked::Waiting(id) if id == request))
            .map(|((at, _), call)| (at, call))
            .collect()
    }

    /// The calls without a mark, with their places.
    pub fn unanswered(&self) -> Vec<(usize, &Call)> {
        let slots = self.slots.iter().enumerate().zip(self.calls());
        slots.filter(|((_, slot), _)| matches!(slot, Parked::Unanswered)).map(|((at, _), call)| (at, call)).collect()
    }

    /// The outstanding requests in call order, each relay request with its outstanding calls only.
    pub fn outstanding(&self) -> Vec<Request> {
        self.requests.iter().map(|request| self.rest_of(request)).collect()
    }

    fn rest_of(&self, request: &Request) -> Request {
        let waiting: Vec<&CallId> = self.waiting_for(&request.id).iter().map(|(_, call)| &call.id).collect();
        rest_of(request, &waiting)
    }
}

/// The transcript with an id of its own for each request that it waits for.
pub fn renew(transcript: &Transcript, ids: &mut IdSource) -> Transcript {
    let mut renewed: Vec<(RequestId, RequestId)> = Vec::new();
    let mut renew = |message: &Message| {
        let (call, mark) = message.result().and_then(|result| Some((&result.call, result.pending.as_deref()?)))?;
        let known = renewed.iter().find(|(was, _)| *was == mark.id).map(|(_, now)| now.clone());
        let id = known.unwrap_or_else(|| {
            let id = ids.request();
            renewed.push((mark.id.clone(), id.clone()));
            id
        });
        let request = mark.request.clone().map(|request| Request { id: id.clone(), ..request }.keyed([]));
        Some(Message::placeholder(call, Pending { id, request, ..mark.clone() }))
    };
    let messages = transcript.messages().iter();
    Transcript::new(messages.map(|message| renew(message).unwrap_or_else(|| message.clone())).collect())
}

/// A relay request with the calls only that wait; any other request as it is.
pub fn rest_of(request: &Request, waiting: &[&CallId]) -> Request {
    let calls = request.relay_calls();
    let rest: Vec<RelayCall> = calls.iter().filter(|call| waiting.contains(&&call.id)).cloned().collect();
    if !request.is_relay() || rest.len() == calls.len() {
        return request.clone();
    }
    let keys = rest.iter().map(|call| (call.id.clone(), request.idempotency_key(&call.id)));
    Request {
        expires_at: request.expires_at.clone(),
        url: request.url.clone(),
        ..Request::relay(request.id.clone(), &rest).keyed(keys)
    }
}
