//! Who watches a run: what they are told, and how they hold it back.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolrelay_core::reply::{Provider, Reply};
use toolrelay_core::run::event::Event;
use toolrelay_core::wire::names;
use toolrelay_core::wire::stream::Delta;

use crate::toolkit::Toolkit;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A piece of a reply under way.
    Delta(Delta),
    /// What the run itself tells.
    Event(Event),
}

/// Watches a run.
pub trait Watcher: Send + Sync {
    /// Takes what happened, in order. It never blocks.
    fn tell(&self, told: Vec<Told>);
    /// Ready when there is room for more of a reply: nothing more of one is read before.
    fn room(&self) -> BoxFuture<'static, ()>;
}

/// Tells of a reply that came whole: its reasoning, its text and each call in one piece.
pub fn tell_whole(watcher: &dyn Watcher, reply: &Reply) {
    let mut deltas = Vec::with_capacity(2 + 2 * reply.calls.len());
    let reasoning = reply.provider.as_ref().map(Provider::reasoning).filter(|text| !text.is_empty());
    deltas.extend(reasoning.map(Delta::Reasoning));
    if !reply.text.is_empty() {
        deltas.push(Delta::Text(reply.text.clone()));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        deltas.push(Delta::CallStarted { index, id: call.id.clone(), name: call.name.clone() });
        if !call.arguments.is_empty() {
            deltas.push(Delta::Arguments { index, text: call.arguments.clone() });
        }
    }
    watcher.tell(deltas.into_iter().map(Told::Delta).collect());
}

/// The same watcher, told of tools by the host's names instead of those on the wire.
pub(crate) fn by_host_names(watcher: Arc<dyn Watcher>, tools: &Toolkit) -> Arc<dyn Watcher> {
    let renamed = names::renamed(tools.specs());
    if renamed.is_empty() { watcher } else { Arc::new(ByHostNames { watcher, renamed }) }
}

struct ByHostNames {
    watcher: Arc<dyn Watcher>,
    /// The host's name by the name on the wire, where they differ.
    renamed: HashMap<String, String>,
}

impl Watcher for ByHostNames {
    fn tell(&self, mut told: Vec<Told>) {
        for told in &mut told {
            if let Told::Delta(Delta::CallStarted { name, .. }) = told
                && let Some(known) = self.renamed.get(name)
            {
                name.clone_from(known);
            }
        }
        self.watcher.tell(told);
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        self.watcher.room()
    }
}
