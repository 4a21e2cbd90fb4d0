//! Over all conversations: whose worker died, which requests wait, and whose time is over.

use toolrelay_core::request::Request;
use toolrelay_core::run::RunConfig;
use toolrelay_core::tool::Tools;

use crate::conversation::marks::is_mark;
use crate::conversation::{ATTEMPTS, Claimed, ConversationError, Conversations, check_free, stored};
use crate::drive::now_ms;
use crate::store::{ConversationId, Cursor, Lease, Order, State, StoreError};

/// Some entries of a listing, and behind which place the next ones are; `None` when these are the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// Where they end.
    pub next: Option<Cursor>,
}

/// A request that waits, whichever conversation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The conversation.
    pub conversation: String,
    /// What it waits for, with the calls only that still wait.
    pub request: Request,
    /// When it was made, in unix milliseconds.
    pub made_at_ms: i64,
}

impl Conversations {
    /// Claims a conversation whose worker died, to go on with it.
    pub async fn recover(&self, id: &str, config: &RunConfig, tools: &dyn Tools) -> Result<Claimed, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.store.load(&id).await? else {
                return Err(ConversationError::NotFound { id: id.to_string() });
            };
            if !stored::is_unowned(&stored) {
                check_free(&id, &stored)?;
            }
            if stored.state != State::Running {
                return Err(ConversationError::NothingToRecover { id: id.to_string(), state: stored.state });
            }
            if let Some(claimed) = self.take_over(&id, stored, config, tools).await? {
                return Ok(claimed);
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// The conversations whose worker's lease is over, that for the longest time first.
    pub async fn abandoned(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<ConversationId>, StoreError> {
        self.leases_over(after, limit, |lease| !is_mark(lease)).await
    }

    /// The conversations with such a lease that is over.
    pub(super) async fn leases_over(
        &self,
        after: Option<&Cursor>,
        limit: usize,
        is_such: impl Fn(&Lease) -> bool,
    ) -> Result<Page<ConversationId>, StoreError> {
        let now = now_ms();
        let leases = self.store.leases(after, limit).await?;
        let next = leases.last().filter(|(_, last)| leases.len() == limit && last.until_ms <= now);
        let next = next.map(|(id, last)| cursor(last.until_ms, id, ""));
        let over = leases.into_iter().filter(|(_, lease)| lease.until_ms <= now && is_such(lease));
        Ok(Page { entries: over.map(|(id, _)| id).collect(), next })
    }

    /// The conversations with a request whose time is over, that for the longest time first; one that has several is
    /// named as often.
    pub async fn overdue(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<ConversationId>, StoreError> {
        let now = now_ms();
        let open = self.store.open_requests(Order::Expiry, after, limit).await?;
        let last = open.last().and_then(|(id, row)| Some((id, row, row.expires_at_ms?)));
        let next = last.filter(|(_, _, until)| open.len() == limit && *until <= now);
        let next = next.map(|(id, row, until)| cursor(until, id, &row.id));
        let over = open
            .into_iter()
            .filter(|(_, row)| row.expires_at_ms.is_some_and(|until| until <= now) && !stored::is_worked_on(row));
        Ok(Page { entries: over.map(|(id, _)| id).collect(), next })
    }

    /// The requests that wait, of all conversations.
    pub async fn waiting(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Waiting>, ConversationError> {
        let open = self.store.open_requests(order, after, limit).await?;
        let last = open.last().and_then(|(id, row)| Some(cursor(order.time_of(row)?, id, &row.id)));
        let next = last.filter(|_| open.len() == limit);
        let mut entries = Vec::with_capacity(open.len());
        for (id, row) in open.iter().filter(|(_, row)| !stored::is_worked_on(row)) {
            let request = stored::rest_of(row)?;
            entries.push(Waiting { conversation: id.to_string(), request, made_at_ms: row.made_at_ms });
        }
        Ok(Page { entries, next })
    }
}

fn cursor(at_ms: i64, conversation: &ConversationId, request: &str) -> Cursor {
    Cursor { at_ms, conversation: conversation.clone(), request: request.to_owned() }
}
