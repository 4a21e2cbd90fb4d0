//! What a run leaves when its store fails under way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
#![allow(dead_code, reason = "each test binary uses its own part of the crew")]

#[path = "drive/crew.rs"]
mod crew;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use crew::{Crew, Diary, Script, Turn, calls, client, gives, go, outcomes, results, run, says, toolkit};
use tokio_util::sync::CancellationToken;
use toolrelay_core::message::Message;
use toolrelay_core::request::Request;
use toolrelay_core::resume::Missing;
use toolrelay_core::run::OnPending;
use toolrelay_core::run::io::Outcome;
use toolrelay_core::tool;
use toolrelay_core::transcript::Transcript;
use toolrelay_runtime::client::{Client, Place, RunError, Start};
use toolrelay_runtime::conversation::Conversations;
use toolrelay_runtime::store::{Conversation, ConversationId, Cursor, Lease, MemoryStore, Order};
use toolrelay_runtime::store::{Store, StoreError, StoredRequest, Write};

/// A store that takes so many writes and is full then.
#[derive(Debug)]
struct Small {
    inner: MemoryStore,
    room: AtomicU32,
}

#[async_trait]
impl Store for Small {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.inner.load(id).await
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        self.inner.request(id, request).await
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        match self.room.load(Ordering::SeqCst) {
            0 => return Err(StoreError::Full { store: "the hold".to_owned() }),
            room => self.room.store(room - 1, Ordering::SeqCst),
        }
        self.inner.commit(id, write).await
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        self.inner.delete(id, expect).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        self.inner.leases(after, limit).await
    }

    async fn open_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        self.inner.open_requests(order, after, limit).await
    }
}

/// A conversation whose store takes only so many writes of its first run.
async fn ask_with_room(room: u32, turns: Vec<Turn>, crew: &Crew) -> (Client, Transcript) {
    let store = Arc::new(Small { inner: MemoryStore::new(), room: AtomicU32::new(room) });
    let conversations = Conversations::new(store, "test", Duration::from_mins(1));
    let model = Script::new(&Diary::default(), turns);
    let client = Client { conversations, inline: false, ..client(model) };
    let place = Place::Conversation("c-1".to_owned());
    let failed = client.run(place, go(), crew, &toolkit(&["tally"]), CancellationToken::new()).await.unwrap_err();
    let RunError::Store { error, transcript } = failed else { panic!("{failed:?}") };
    assert_eq!(error, StoreError::Full { store: "the hold".to_owned() });
    (client, transcript)
}

#[tokio::test]
async fn a_run_whose_store_fails_leaves_every_result_and_can_go_on() {
    let crew = Crew::new(|_| async { gives("7") });
    let (client, transcript) = ask_with_room(2, vec![calls(&["tally", "moor"]), says("ok")], &crew).await;
    assert_eq!(results(&transcript)[0], (tool::Outcome::Ok, "7".to_owned()));

    let parked = transcript.messages().last().unwrap().result().unwrap().pending.clone().unwrap();
    let pending: Request = parked.request.unwrap();
    let answer = serde_json::json!({"id": pending.id, "ok": true, "data": {"output": "moored"}});
    let answer = serde_json::from_value(answer).unwrap();
    let start = Start::Answer { pending, answer, missing: Missing::Error };
    let report = run(&client, transcript, start, &crew, &toolkit(&["tally"])).await.unwrap();
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "ok"));
}

#[tokio::test]
async fn a_tool_that_a_failing_store_kept_from_starting_is_not_said_to_have_run() {
    let crew = Crew::new(|_| async { panic!("started") });
    let (client, transcript) = ask_with_room(1, vec![calls(&["tally", "moor"]), says("ok")], &crew).await;
    assert_eq!(outcomes(&transcript)[0], tool::Outcome::NotRun);
    let start = Start::Prompt { prompt: Some(Message::user("again")), on_pending: OnPending::Supersede };
    let report = run(&client, transcript, start, &crew, &toolkit(&["tally"])).await.unwrap();
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Finished, "ok"));
}
