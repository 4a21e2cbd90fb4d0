//! A store around a store: it records what is written, fails or dies at a chosen commit, and lets
//! leases run out when a test says so.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::yield_now;
use toolrelay_runtime::store::{Conversation, ConversationId, Cursor, Lease, Order};
use toolrelay_runtime::store::{Store, StoreError, StoredRequest, Write};

/// What goes wrong at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies before the store has the write.
    DieBefore,
    /// The process dies after the store has the write, before it learns so.
    DieAfter,
    /// The store does not answer, and has not got the write.
    LostBefore,
    /// The store does not answer, but has got the write.
    LostAfter,
    /// The store does not answer, and gets the write right before the next one.
    LostLate,
    /// Another process has the store locked.
    Locked,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    died: Notify,
    leases_over: AtomicBool,
    /// What happens elsewhere before the next load is told.
    meanwhile: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[derive(Debug, Default)]
struct Plan {
    written: Vec<Write>,
    loads: usize,
    attempts: usize,
    faults: Vec<(usize, Fault)>,
    late: Option<Write>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plan: Mutex::default(),
            died: Notify::new(),
            leases_over: AtomicBool::new(false),
            meanwhile: Mutex::default(),
        })
    }

    /// This happens between the next load of the conversation and what follows it.
    pub(crate) fn meanwhile(&self, happens: impl Future<Output = ()> + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::pin(happens));
    }

    /// The commit after `ahead` others from now on goes wrong.
    pub(crate) fn fail(&self, ahead: usize, fault: Fault) {
        let mut plan = self.plan.lock().unwrap();
        let at = plan.attempts + ahead;
        plan.faults.push((at, fault));
    }

    /// Nothing more goes wrong.
    pub(crate) fn heal(&self) {
        self.plan.lock().unwrap().faults.clear();
    }

    /// Resolves when a commit "killed the process".
    pub(crate) async fn death(&self) {
        self.died.notified().await;
    }

    /// Whether the leases in the store count as run out.
    pub(crate) fn leases_are_over(&self, over: bool) {
        self.leases_over.store(over, Ordering::SeqCst);
    }

    /// The writes that were applied.
    pub(crate) fn written(&self) -> Vec<Write> {
        self.plan.lock().unwrap().written.clone()
    }

    /// How often a conversation was loaded.
    pub(crate) fn loads(&self) -> usize {
        self.plan.lock().unwrap().loads
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap();
        let at = plan.attempts;
        plan.attempts += 1;
        plan.faults.iter().find(|(place, _)| *place == at).map(|(_, fault)| *fault)
    }

    async fn die(&self) -> Result<(), StoreError> {
        self.died.notify_one();
        std::future::pending().await
    }

    async fn apply(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        self.inner.commit(id, write.clone()).await?;
        self.plan.lock().unwrap().written.push(write);
        Ok(())
    }
}

#[async_trait]
impl Store for Faulty {
    async fn load(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        yield_now().await;
        self.plan.lock().unwrap().loads += 1;
        let mut found = self.inner.load(id).await?;
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(happens) = meanwhile {
            happens.await;
        }
        if self.leases_over.load(Ordering::SeqCst)
            && let Some(lease) = found.as_mut().and_then(|found| found.lease.as_mut())
        {
            lease.until_ms = 0;
        }
        yield_now().await;
        Ok(found)
    }

    async fn request(&self, id: &ConversationId, request: &str) -> Result<Option<StoredRequest>, StoreError> {
        yield_now().await;
        self.inner.request(id, request).await
    }

    async fn commit(&self, id: &ConversationId, write: Write) -> Result<(), StoreError> {
        yield_now().await;
        let lost = || StoreError::Unavailable { store: "the test's".into(), reason: "no answer".into() };
        let late = self.plan.lock().unwrap().late.take();
        if let Some(late) = late {
            // What comes of it nobody hears.
            _ = self.apply(id, late).await;
        }
        match self.next_fault() {
            None => self.apply(id, write).await?,
            Some(Fault::DieBefore) => self.die().await?,
            Some(Fault::DieAfter) => {
                self.apply(id, write).await?;
                self.die().await?;
            }
            Some(Fault::LostBefore) => return Err(lost()),
            Some(Fault::Locked) => {
                return Err(StoreError::Locked { store: "the test's".into(), waited: Duration::from_secs(5) });
            }
            Some(Fault::LostAfter) => {
                self.apply(id, write).await?;
                return Err(lost());
            }
            Some(Fault::LostLate) => {
                self.plan.lock().unwrap().late = Some(write);
                return Err(lost());
            }
        }
        yield_now().await;
        Ok(())
    }

    async fn delete(&self, id: &ConversationId, expect: u64) -> Result<(), StoreError> {
        self.inner.delete(id, expect).await
    }

    async fn leases(&self, after: Option<&Cursor>, limit: usize) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        let mut found = self.inner.leases(after, limit).await?;
        if self.leases_over.load(Ordering::SeqCst) {
            for (_, lease) in &mut found {
                lease.until_ms = 0;
            }
        }
        Ok(found)
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
