//! Reading: one conversation, or one of its requests, in one statement and so out of one snapshot.

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::super::remote::{Fault, Question};
use super::super::{Conversation, Lease, State, StoredRequest, frame};
use super::Shared;
use super::line::Wire;

/// The question for a conversation.
pub(super) struct Load<'s> {
    pub(super) shared: &'s Shared,
    pub(super) id: &'s str,
}

/// The question for a request.
pub(super) struct Look<'s> {
    pub(super) shared: &'s Shared,
    pub(super) id: &'s str,
    pub(super) request: &'s str,
}

#[async_trait]
impl Question<Wire> for Load<'_> {
    type Answer = Option<Conversation>;

    async fn ask(&self, wire: &mut Wire) -> Result<Self::Answer, Fault> {
        let Self { shared, id } = *self;
        let asked = wire.client.query_typed(&shared.schema.load, &[(&id, Type::TEXT)]).await;
        let rows = asked.map_err(|error| shared.fault(error))?;
        let (head, mut messages, mut requests) = (rows.first(), Vec::new(), Vec::new());
        let Some(mut conversation) = shared.head(head)? else { return Ok(None) };
        for row in rows.iter().skip(1) {
            match shared.column::<Option<i64>>(row, 0)? {
                Some(seq) => messages.push((seq.cast_unsigned(), shared.column::<&[u8]>(row, 1)?)),
                None => requests.push(shared.open_request(row)?),
            }
        }
        messages.sort_unstable_by_key(|(seq, _)| *seq);
        conversation.messages = together(&messages);
        requests.sort_by(|one, other| one.order().cmp(&other.order()));
        conversation.requests = requests;
        Ok(Some(conversation))
    }
}

#[async_trait]
impl Question<Wire> for Look<'_> {
    type Answer = Option<StoredRequest>;

    async fn ask(&self, wire: &mut Wire) -> Result<Self::Answer, Fault> {
        let Self { shared, id, request } = *self;
        let given = [(&id as _, Type::TEXT), (&request.as_bytes() as _, Type::BYTEA)];
        let asked = wire.client.query_typed_one(&shared.schema.look, &given).await;
        let row = asked.map_err(|error| shared.fault(error))?;
        shared.still_ours(shared.column(&row, 0)?)?;
        let Some(settled) = shared.column::<Option<bool>>(&row, 1)? else { return Ok(None) };
        Ok(Some(StoredRequest { id: request.to_owned(), settled, ..shared.request(&row, 2)? }))
    }
}

impl Shared {
    /// The conversation without its messages and requests.
    fn head(&self, row: Option<&Row>) -> Result<Option<Conversation>, Fault> {
        let row = row.ok_or_else(|| self.damaged("no row for the schema"))?;
        let numbers: Vec<Option<i64>> = self.column(row, 3)?;
        let [newest, version, written_at_ms, epoch, state, lease_epoch, until_ms] = numbers[..] else {
            return Err(self.damaged("the row of a conversation"));
        };
        self.still_ours(newest.and_then(|newest| i32::try_from(newest).ok()))?;
        let Some(version) = version else { return Ok(None) };
        let lease = match (self.column(row, 2)?, lease_epoch, until_ms) {
            (Some(owner), Some(epoch), Some(until_ms)) => Some(Lease { owner, epoch: epoch.cast_unsigned(), until_ms }),
            (None, None, None) => None,
            _ => return Err(self.damaged("the lease of a conversation")),
        };
        Ok(Some(Conversation {
            version: version.cast_unsigned(),
            written_at_ms: written_at_ms.unwrap_or_default(),
            epoch: epoch.unwrap_or_default().cast_unsigned(),
            state: match state {
                Some(0) => State::Idle,
                Some(1) => State::Running,
                Some(2) => State::Pending,
                _ => return Err(self.damaged("the state of a conversation")),
            },
            lease,
            messages: Vec::new(),
            requests: Vec::new(),
        }))
    }

    fn open_request(&self, row: &Row) -> Result<StoredRequest, Fault> {
        let (times, pieces): (Vec<Option<i64>>, Vec<Option<Vec<u8>>>) = (self.column(row, 3)?, self.column(row, 4)?);
        let (Ok([Some(made_at_ms), expires_at_ms]), Ok([Some(id), Some(slots), Some(answers), outcome])) =
            (<[_; 2]>::try_from(times), <[_; 4]>::try_from(pieces))
        else {
            return Err(self.damaged("the row of a request"));
        };
        Ok(StoredRequest {
            id: String::from_utf8(id).map_err(|_| self.damaged("the id of a request"))?,
            settled: false,
            made_at_ms,
            expires_at_ms,
            slots: frame::split_slots(slots).ok_or_else(|| self.damaged(SLOTS))?,
            body: self.column::<Vec<u8>>(row, 1)?.into(),
            answers: frame::split(answers).ok_or_else(|| self.damaged(ANSWERS))?,
            outcome: outcome.map(Bytes::from),
        })
    }

    /// A request whose columns begin with `made_at_ms`; its id and whether it is settled stand elsewhere.
    pub(super) fn request(&self, row: &Row, first: usize) -> Result<StoredRequest, Fault> {
        Ok(StoredRequest {
            id: String::new(),
            settled: false,
            made_at_ms: self.column(row, first)?,
            expires_at_ms: self.column(row, first + 1)?,
            slots: frame::split_slots(self.column(row, first + 2)?).ok_or_else(|| self.damaged(SLOTS))?,
            body: self.column::<Vec<u8>>(row, first + 3)?.into(),
            answers: frame::split(self.column(row, first + 4)?).ok_or_else(|| self.damaged(ANSWERS))?,
            outcome: self.column::<Option<Vec<u8>>>(row, first + 5)?.map(Bytes::from),
        })
    }

    pub(super) fn column<'r, T: FromSql<'r>>(&self, row: &'r Row, at: usize) -> Result<T, Fault> {
        row.try_get(at).map_err(|_| self.damaged("a column has the wrong type"))
    }
}

/// All bodies in one allocation that the slices share: a conversation is read, kept and dropped as a whole.
fn together(messages: &[(u64, &[u8])]) -> Vec<(u64, Bytes)> {
    let mut bodies = Vec::with_capacity(messages.iter().map(|(_, body)| body.len()).sum());
    for (_, body) in messages {
        bodies.extend_from_slice(body);
    }
    let mut rest = Bytes::from(bodies);
    messages.iter().map(|(seq, body)| (*seq, rest.split_to(body.len()))).collect()
}

const SLOTS: &str = "the slots of a request";
const ANSWERS: &str = "the answers of a request";
