//! Listing across conversations: leases, and open requests. Each is one walk along an index.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::super::remote::{Fault, Question};
use super::super::{ConversationId, Cursor, Lease, Order, StoredRequest};
use super::Shared;
use super::line::Wire;

/// The question for a page of leases.
pub(super) struct Leases<'s> {
    pub(super) shared: &'s Shared,
    pub(super) after: Option<&'s Cursor>,
    pub(super) limit: usize,
}

/// The question for a page of open requests.
pub(super) struct OpenRequests<'s> {
    pub(super) shared: &'s Shared,
    pub(super) order: Order,
    pub(super) after: Option<&'s Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl Question<Wire> for Leases<'_> {
    type Answer = Vec<(ConversationId, Lease)>;

    async fn ask(&self, wire: &mut Wire) -> Result<Self::Answer, Fault> {
        let Self { shared, after, limit } = *self;
        let (at, id) = (at(after), after.map_or("", |place| place.conversation.as_str()));
        let given: [(&(dyn ToSql + Sync), Type); 3] =
            [(&at, Type::INT8), (&id, Type::TEXT), (&most(limit), Type::INT8)];
        let asked = wire.client.query_typed(&shared.schema.leases, &given).await;
        let lease = |row: &Row| {
            let epoch: i64 = shared.column(row, 3)?;
            Ok(Lease { owner: shared.column(row, 2)?, epoch: epoch.cast_unsigned(), until_ms: shared.column(row, 4)? })
        };
        shared.page(&asked.map_err(|error| shared.fault(error))?, lease)
    }
}

#[async_trait]
impl Question<Wire> for OpenRequests<'_> {
    type Answer = Vec<(ConversationId, StoredRequest)>;

    async fn ask(&self, wire: &mut Wire) -> Result<Self::Answer, Fault> {
        let Self { shared, order, after, limit } = *self;
        let (at, id) = (at(after), after.map_or("", |place| place.conversation.as_str()));
        let request = after.map_or(&b""[..], |place| place.request.as_bytes());
        let given: [(&(dyn ToSql + Sync), Type); 4] =
            [(&at, Type::INT8), (&id, Type::TEXT), (&request, Type::BYTEA), (&most(limit), Type::INT8)];
        let statement = match order {
            Order::Age => &shared.schema.by_age,
            Order::Expiry => &shared.schema.by_expiry,
        };
        let asked = wire.client.query_typed(statement, &given).await;
        let request = |row: &Row| {
            let id = String::from_utf8(shared.column(row, 2)?).map_err(|_| shared.damaged("the id of a request"))?;
            Ok(StoredRequest { id, ..shared.request(row, 3)? })
        };
        shared.page(&asked.map_err(|error| shared.fault(error))?, request)
    }
}

impl Shared {
    /// The entries of a page, whose rows begin with the newest schema and the conversation's id: one row without an id
    /// if there are none.
    fn page<T>(
        &self,
        rows: &[Row],
        entry: impl Fn(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<(ConversationId, T)>, Fault> {
        let mut page = Vec::with_capacity(rows.len());
        for row in rows {
            self.still_ours(self.column(row, 0)?)?;
            if let Some(id) = self.column::<Option<String>>(row, 1)? {
                let id = ConversationId::new(id).map_err(|_| self.damaged("the id of a conversation"))?;
                page.push((id, entry(row)?));
            }
        }
        Ok(page)
    }
}

fn at(after: Option<&Cursor>) -> i64 {
    after.map_or(i64::MIN, |place| place.at_ms)
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
