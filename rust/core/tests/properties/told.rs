//! What a run told of itself, compared with what it was.

use toolrelay_core::id::CallId;
use toolrelay_core::message::Message;
use toolrelay_core::reply::Usage;
use toolrelay_core::run::Run;
use toolrelay_core::run::event::Event;
use toolrelay_core::run::io::{Effect, Output};

/// The events of a run so far, and the calls whose tools were started.
#[derive(Default)]
pub(crate) struct Told {
    events: Vec<Event>,
    started: Vec<CallId>,
}

impl Told {
    pub(crate) fn take(&mut self, output: &Output) {
        match output {
            Output::Event(event) => self.events.push(event.clone()),
            Output::Effect(Effect::CallTool { call, .. }) => self.started.push(call.clone()),
            Output::Effect(_) | Output::Done(_) => {}
        }
    }

    pub(crate) fn check(&self, run: &Run, is_watched: bool) {
        if !is_watched {
            assert_eq!(self.events, []);
            return;
        }
        let calls = run.transcript().messages()[run.first()..].iter().flat_map(Message::calls);
        let ready: Vec<_> = self.events.iter().filter_map(ready).collect();
        let made: Vec<_> = calls.map(|call| (&call.id, &call.name, &call.arguments)).collect();
        assert!(made.ends_with(&ready), "{ready:?} of {made:?}");
        assert_eq!(self.events.iter().filter_map(started).collect::<Vec<_>>(), self.started.iter().collect::<Vec<_>>());

        for record in run.transcript().call_records(run.first()) {
            let ends: Vec<_> = self.events.iter().filter_map(|event| ended(event, &record.id)).collect();
            let was_settled_before = ends.is_empty() && ready.iter().all(|(id, ..)| **id != record.id);
            if record.pending {
                assert_eq!(ends, [], "{record:?} still waits");
            } else if !was_settled_before {
                assert_eq!(ends, [(record.output.as_str(), record.is_error)]);
            }
        }
        for request in run.suspensions() {
            assert!(self.events.contains(&Event::Parked(request.clone())), "{request:?} was not told of");
        }
        let mut usage = Usage::default();
        for event in &self.events {
            if let Event::Usage(more) = event {
                usage += *more;
            }
        }
        assert_eq!(usage, run.usage());
    }
}

fn ready(event: &Event) -> Option<(&CallId, &String, &String)> {
    match event {
        Event::CallReady { id, name, arguments, .. } => Some((id, name, arguments)),
        Event::Usage(_) | Event::ToolStarted { .. } | Event::ToolEnded { .. } | Event::Parked(_) => None,
    }
}

fn started(event: &Event) -> Option<&CallId> {
    match event {
        Event::ToolStarted { id, .. } => Some(id),
        Event::Usage(_) | Event::CallReady { .. } | Event::ToolEnded { .. } | Event::Parked(_) => None,
    }
}

fn ended<'a>(event: &'a Event, call: &CallId) -> Option<(&'a str, bool)> {
    match event {
        Event::ToolEnded { id, output, is_error, .. } if id == call => Some((output, *is_error)),
        Event::ToolEnded { .. }
        | Event::Usage(_)
        | Event::CallReady { .. }
        | Event::ToolStarted { .. }
        | Event::Parked(_) => None,
    }
}
