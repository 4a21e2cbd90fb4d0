//! What must hold for every transcript that comes out of the machine, written without the machine.

use toolrelay_core::message::{Body, Message};
use toolrelay_core::request::Request;
use toolrelay_core::transcript::Transcript;

/// Checks the pairing: every call has its one result, in call order, right behind its message; ids
/// are new; only the last turn is parked. An open last turn is allowed where `open` says so.
pub(crate) fn check(transcript: &Transcript, open: bool) -> Result<(), String> {
    let messages = transcript.messages();
    let last = messages.iter().rposition(|message| message.assistant().is_some());
    let mut seen: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < messages.len() {
        if messages[at].result().is_some() {
            return Err(format!("message {at} is a result without a call"));
        }
        let calls = messages[at].calls();
        if open && last == Some(at) && is_open(&messages[at..]) {
            let ids = calls.iter().map(|call| call.id.as_str());
            return ids
                .clone()
                .find(|id| id.is_empty() || seen.contains(id))
                .map_or(Ok(()), |id| Err(format!("the id {id:?} is not new")));
        }
        for (number, call) in calls.iter().enumerate() {
            let id = call.id.as_str();
            if id.is_empty() || seen.contains(&id) {
                return Err(format!("the id {id:?} is not new"));
            }
            seen.push(id);
            match messages.get(at + 1 + number).and_then(Message::result) {
                Some(result) if result.call == call.id => {
                    if result.pending.is_some() && last != Some(at) {
                        return Err(format!("{id} is parked, but its turn is not the last"));
                    }
                }
                Some(result) => return Err(format!("{id} is followed by the result of {}", result.call)),
                None => return Err(format!("{id} has no result")),
            }
        }
        at += 1 + calls.len();
    }
    Ok(())
}

/// Whether a turn at the end has some of its results, unmarked, in call order, and nothing else.
fn is_open(turn: &[Message]) -> bool {
    let mut calls = turn[0].calls().iter();
    let mut fits = |message: &Message| {
        let result = message.result().filter(|result| result.pending.is_none());
        result.is_some_and(|result| calls.any(|call| call.id == result.call))
    };
    turn.len() <= turn[0].calls().len() && turn[1..].iter().all(&mut fits)
}

/// Checks that every parked call is in exactly one outstanding request, in call order, and that
/// every request has calls that wait for it.
pub(crate) fn check_requests(transcript: &Transcript, requests: &[Request]) -> Result<(), String> {
    let parked: Vec<(&str, &str)> = transcript
        .messages()
        .iter()
        .filter_map(|message| {
            let result = message.result()?;
            Some((result.pending.as_ref()?.id.as_str(), result.call.as_str()))
        })
        .collect();
    let mut ids: Vec<&str> = parked.iter().map(|(request, _)| *request).collect();
    let mut seen = Vec::new();
    ids.retain(|id| {
        !seen.contains(id) && {
            seen.push(*id);
            true
        }
    });
    let outstanding: Vec<&str> = requests.iter().map(|request| request.id.as_str()).collect();
    if ids != outstanding {
        return Err(format!("placeholders wait for {ids:?}, outstanding are {outstanding:?}"));
    }
    for request in requests {
        let waiting: Vec<&str> =
            parked.iter().filter(|(id, _)| *id == request.id.as_str()).map(|(_, call)| *call).collect();
        let holders = holders(transcript, request);
        if !holders[0] || holders[1..].contains(&true) {
            return Err(format!("{} stands whole on other than its first placeholder", request.id));
        }
        let calls = request.relay_calls();
        let named: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        if request.is_relay() && named != waiting {
            return Err(format!("{waiting:?} wait for {}, which names {named:?}", request.id));
        }
        if !request.is_relay() && waiting.len() != 1 {
            return Err(format!("{waiting:?} wait for {} of kind {}", request.id, request.kind));
        }
    }
    if requests.iter().filter(|request| request.is_relay()).count() > 1 {
        return Err("relay calls ride more than one request".to_owned());
    }
    Ok(())
}

/// For each placeholder of a request, whether it holds all of it.
fn holders(transcript: &Transcript, request: &Request) -> Vec<bool> {
    let messages = transcript.messages().iter();
    let of_request = messages.filter_map(|message| {
        let pending = message.result()?.pending.as_ref()?;
        (pending.id == request.id).then_some(pending.request.is_some())
    });
    of_request.collect()
}

/// The texts of prompts and instructions, in order.
pub(crate) fn prompts(transcript: &Transcript) -> Vec<String> {
    let is_prompt = |message: &&Message| matches!(message.body(), Body::User | Body::System);
    transcript.messages().iter().filter(is_prompt).map(Message::text).collect()
}
