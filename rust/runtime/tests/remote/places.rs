//! Servers of each kind, and stores on them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use toolrelay_runtime::store::{
    ConversationId, PostgresOptions, PostgresStore, RedisOptions, RedisStore, Slot, State, Store, StoredRequest, Write,
};

use crate::servers::{fresh, server};

/// A server, and a part of it that is a test's own.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) part: String,
}

impl Place {
    /// One on each kind of server that the machine has.
    pub(crate) fn each() -> Vec<Self> {
        let kinds = ["postgres", "pgbouncer", "redis", "cluster"];
        kinds.into_iter().filter_map(|kind| Some(Self::on(server(kind, &[])?))).collect()
    }

    pub(crate) fn on(url: String) -> Self {
        Self { url, part: fresh("test") }
    }

    pub(crate) fn by(&self, url: String) -> Self {
        Self { url, part: self.part.clone() }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgresql")
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.patient(Duration::from_secs(5))
    }

    pub(crate) fn patient(&self, patience: Duration) -> Arc<dyn Store> {
        if self.is_postgres() { Arc::new(self.postgres(patience)) } else { Arc::new(self.redis(patience)) }
    }

    pub(crate) fn postgres(&self, patience: Duration) -> PostgresStore {
        let options = PostgresOptions { schema: self.part.clone(), patience, ..PostgresOptions::default() };
        PostgresStore::open_with(&self.url, options).unwrap()
    }

    pub(crate) fn redis(&self, patience: Duration) -> RedisStore {
        let options = RedisOptions { prefix: self.part.clone(), patience, ..RedisOptions::default() };
        RedisStore::open_with(&self.url, options).unwrap()
    }
}

pub(crate) fn id(text: &str) -> ConversationId {
    ConversationId::new(text).unwrap()
}

/// The write that brings a conversation from version `expect` to the next: two messages and a request.
pub(crate) fn step(expect: u64) -> Write {
    let request = StoredRequest {
        id: format!("req_{expect:09}"),
        slots: vec![Slot { seq: 2 * expect, call: "call".into() }],
        body: Bytes::from(vec![b'r'; 300]),
        made_at_ms: 0,
        expires_at_ms: None,
        settled: false,
        answers: vec![],
        outcome: None,
    };
    let append = [2 * expect, 2 * expect + 1].map(|seq| (seq, Bytes::from(vec![b'm'; 700]))).into();
    Write {
        expect,
        version: expect + 1,
        at_ms: 0,
        state: State::Idle,
        epoch: expect + 1,
        lease: None,
        append,
        requests: vec![request],
    }
}

/// That a conversation is what so many steps made of it, and what it is now.
pub(crate) async fn is_whole(store: &dyn Store, name: &str) -> u64 {
    let Some(found) = store.load(&id(name)).await.unwrap() else { return 0 };
    let steps: Vec<Write> = (0..found.version).map(step).collect();
    let messages: Vec<_> = steps.iter().flat_map(|step| step.append.clone()).collect();
    let requests: Vec<_> = steps.iter().flat_map(|step| step.requests.clone()).collect();
    assert!(found.messages == messages && found.requests == requests && found.epoch == found.version, "{name}");
    found.version
}
