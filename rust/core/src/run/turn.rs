//! The calls of one turn. Each has a slot; whether the turn is over, and what it waits for, is
//! read off the slots and stored nowhere else.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::arguments;
use crate::id::{CallId, EffectId, RequestId};
use crate::json::Json;
use crate::message::{Call, Message, Pending};
use crate::request::{RelayCall, Request};
use crate::run::texts;
use crate::suspension::rest_of;
use crate::tool::{ToolKind, Tools};

/// The open turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The calls of the assistant message.
    pub(crate) calls: Vec<Call>,
    /// One per call.
    pub(crate) slots: Vec<Slot>,
    /// What calls wait for.
    pub(crate) requests: Vec<Request>,
}

/// Where one call stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Slot {
    /// Its tool runs; with the answer when it had parked and runs once more.
    Running { effect: EffectId, answer: Option<Box<Answer>> },
    /// The host is being asked inline.
    Asking { effect: EffectId, request: RequestId },
    /// It is parked.
    Waiting { request: RequestId },
    /// It has its result.
    Done(Message),
}

impl Slot {
    /// The effect that will move this slot on.
    pub(crate) fn effect(&self) -> Option<EffectId> {
        match self {
            Self::Running { effect, .. } | Self::Asking { effect, .. } => Some(*effect),
            Self::Waiting { .. } | Self::Done(_) => None,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    pub(crate) fn is_asking(&self) -> bool {
        matches!(self, Self::Asking { .. })
    }

    pub(crate) fn request(&self) -> Option<&RequestId> {
        match self {
            Self::Asking { request, .. } | Self::Waiting { request } => Some(request),
            Self::Running { .. } | Self::Done(_) => None,
        }
    }
}

impl Turn {
    pub(crate) fn is_settled(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot, Slot::Done(_)))
    }

    pub(crate) fn settled(&self) -> impl Iterator<Item = (usize, &Message)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Done(message) => Some((at, message)),
            Slot::Running { .. } | Slot::Asking { .. } | Slot::Waiting { .. } => None,
        })
    }

    pub(crate) fn take_results(&mut self) -> Vec<Message> {
        let slots = std::mem::take(&mut self.slots).into_iter();
        slots
            .filter_map(|slot| match slot {
                Slot::Done(message) => Some(message),
                Slot::Running { .. } | Slot::Asking { .. } | Slot::Waiting { .. } => None,
            })
            .collect()
    }

    pub(crate) fn request_of(&self, at: usize) -> Option<&Request> {
        let id = self.slots[at].request()?;
        self.requests.iter().find(|request| request.id == *id)
    }

    /// All relay calls that are left ride one request, the first one's (contract 5.1).
    pub(crate) fn merge_relay_requests(&mut self) {
        let relay = |turn: &Self, at: usize| turn.request_of(at).filter(|request| request.is_relay()).cloned();
        let parked: Vec<(usize, Request)> =
            (0..self.slots.len()).filter_map(|at| relay(self, at).map(|request| (at, request))).collect();
        let Some((_, first)) = parked.first() else { return };
        if parked.iter().all(|(_, request)| request.id == first.id) {
            return;
        }
        let id = first.id.clone();
        let mut calls: Vec<RelayCall> = Vec::new();
        for (at, request) in &parked {
            calls.extend(request.relay_calls().into_iter().filter(|call| call.id == self.calls[*at].id));
            self.slots[*at] = Slot::Waiting { request: id.clone() };
        }
        let soonest = parked.iter().filter_map(|(_, request)| request.expires_at_ms()).min();
        let keys = parked.iter().map(|(at, request)| {
            let call = &self.calls[*at].id;
            (call.clone(), request.idempotency_key(call))
        });
        let merged = Request::relay(id.clone(), &calls).keyed(keys).expiring(soonest);
        self.requests.retain(|request| request.id == id || !parked.iter().any(|(_, gone)| gone.id == request.id));
        if let Some(kept) = self.requests.iter_mut().find(|request| request.id == id) {
            *kept = merged;
        }
    }

    /// The requests that calls wait for, in call order, relay requests with the waiting calls only.
    pub(crate) fn outstanding(&self) -> Vec<Request> {
        let mut outstanding: Vec<Request> = Vec::new();
        for at in 0..self.slots.len() {
            if let Some(request) = self.request_of(at)
                && outstanding.iter().all(|known| known.id != request.id)
            {
                let waiting: Vec<&CallId> = self.waiting_for(&request.id).collect();
                outstanding.push(rest_of(request, &waiting));
            }
        }
        outstanding
    }

    fn waiting_for(&self, request: &RequestId) -> impl Iterator<Item = &CallId> {
        let slots = self.slots.iter().zip(&self.calls);
        slots.filter(move |(slot, _)| slot.request() == Some(request)).map(|(_, call)| &call.id)
    }

    /// One message per call in call order; a parked call has a placeholder.
    pub(crate) fn into_messages(self, turns: u32) -> Vec<Message> {
        let mut placeholders = self.placeholders(turns).into_iter();
        let message = |slot| match slot {
            Slot::Done(message) => Some(message),
            Slot::Running { .. } => None,
            Slot::Asking { .. } | Slot::Waiting { .. } => placeholders.next().map(|(_, message)| message),
        };
        self.slots.into_iter().filter_map(message).collect()
    }

    /// The placeholders of the parked calls, with their places; the first one of a request holds all
    /// of it.
    pub(crate) fn placeholders(&self, turns: u32) -> Vec<(usize, Message)> {
        let mut written: Vec<&RequestId> = Vec::new();
        let mut placeholders = Vec::new();
        for (at, (slot, call)) in self.slots.iter().zip(&self.calls).enumerate() {
            let Some(id) = slot.request() else { continue };
            let request = self.request_of(at);
            let check = request.filter(|request| !request.is_relay()).map(|_| call.check());
            let request = request.filter(|_| !written.contains(&id)).cloned();
            written.push(id);
            let pending = Pending { id: id.clone(), turns, check, request };
            placeholders.push((at, Message::placeholder(&call.id, pending)));
        }
        placeholders
    }
}

/// A call that may be settled by its tool or the host: the kind and the prepared arguments. The
/// error is the text for the model (contract 2.4, 2.5).
pub(crate) fn ready(call: &Call, tools: &dyn Tools) -> Result<(ToolKind, Json), String> {
    let Some(kind) = tools.kind(&call.name) else { return Err(texts::unknown_tool(&call.name, &tools.names())) };
    let prepared = arguments::prepare(&call.arguments).map_err(|error| error.to_string())?;
    tools
        .check(&call.name, &prepared.value)
        .map_err(|reason| arguments::InvalidArguments::Refused { tool: call.name.clone(), reason }.to_string())?;
    Ok((kind, prepared.input))
}
