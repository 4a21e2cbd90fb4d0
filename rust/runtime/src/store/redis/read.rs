//! Reading: a conversation out of its hash, a request out of its frames.

use bytes::Bytes;
use redis::Value;

use super::super::{Conversation, Lease, State, StoreError, StoredRequest, frame};
use super::FORMAT;

/// Reads what a server has for one store.
pub(super) struct Reader<'s> {
    pub(super) store: &'s str,
}

/// What the fields of a conversation's hash hold.
#[derive(Default)]
struct Fields {
    format: Option<Vec<u8>>,
    version: Option<Vec<u8>>,
    written_at_ms: Option<Vec<u8>>,
    epoch: Option<Vec<u8>>,
    state: Option<Vec<u8>>,
    lease_owner: Option<Vec<u8>>,
    lease_epoch: Option<Vec<u8>>,
    lease_until_ms: Option<Vec<u8>>,
    messages: Vec<(u64, Bytes)>,
    requests: Vec<StoredRequest>,
}

impl Reader<'_> {
    /// The conversation of a hash; `None` when it is empty.
    pub(super) fn conversation(&self, hash: Value) -> Result<Option<Conversation>, StoreError> {
        let Value::Array(pairs) = hash else { return Err(self.damaged("a conversation is no hash")) };
        if pairs.is_empty() {
            return Ok(None);
        }
        let fields = self.fields(pairs)?;
        self.check(fields.format.as_deref())?;
        let lease = self.lease(fields.lease_owner, fields.lease_epoch, fields.lease_until_ms)?;
        let mut found = Conversation {
            version: self.number(fields.version)?,
            written_at_ms: self.number(fields.written_at_ms)?,
            epoch: self.number(fields.epoch)?,
            state: match fields.state.as_deref() {
                Some(b"idle") => State::Idle,
                Some(b"running") => State::Running,
                Some(b"pending") => State::Pending,
                _ => return Err(self.damaged("the state of a conversation")),
            },
            lease,
            messages: fields.messages,
            requests: fields.requests,
        };
        found.messages.sort_unstable_by_key(|(seq, _)| *seq);
        found.requests.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(Some(found))
    }

    /// The lease of its fields; none without an owner.
    pub(super) fn lease(
        &self,
        owner: Option<Vec<u8>>,
        epoch: Option<Vec<u8>>,
        until_ms: Option<Vec<u8>>,
    ) -> Result<Option<Lease>, StoreError> {
        let Some(owner) = owner else { return Ok(None) };
        let owner = String::from_utf8(owner).map_err(|_| self.damaged("the owner of a lease"))?;
        Ok(Some(Lease { owner, epoch: self.number(epoch)?, until_ms: self.number(until_ms)? }))
    }

    fn fields(&self, pairs: Vec<Value>) -> Result<Fields, StoreError> {
        let mut fields = Fields::default();
        let mut rest = pairs.into_iter();
        while let (Some(name), Some(value)) = (rest.next(), rest.next()) {
            let (Value::BulkString(name), Value::BulkString(value)) = (name, value) else {
                return Err(self.damaged("a field is no text"));
            };
            match name.as_slice() {
                [b'm', b':', seq @ ..] => fields.messages.push((self.number(Some(seq.to_vec()))?, value.into())),
                [b'r', b':', id @ ..] => fields.requests.push(self.request(id, false, value)?),
                b"format" => fields.format = Some(value),
                b"version" => fields.version = Some(value),
                b"written_at_ms" => fields.written_at_ms = Some(value),
                b"epoch" => fields.epoch = Some(value),
                b"state" => fields.state = Some(value),
                b"lease_owner" => fields.lease_owner = Some(value),
                b"lease_epoch" => fields.lease_epoch = Some(value),
                b"lease_until_ms" => fields.lease_until_ms = Some(value),
                _ => {}
            }
        }
        Ok(fields)
    }

    /// Refuses what this version does not read.
    pub(super) fn check(&self, format: Option<&[u8]>) -> Result<(), StoreError> {
        let store = || self.store.to_owned();
        let Some(format) = format else { return Err(StoreError::NotAStore { store: store() }) };
        match self.number(Some(format.to_vec()))? {
            found if found > FORMAT => Err(StoreError::NewerSchema { store: store(), found, supported: FORMAT }),
            _ => Ok(()),
        }
    }

    /// The request of its frames.
    pub(super) fn request(&self, id: &[u8], settled: bool, joined: Vec<u8>) -> Result<StoredRequest, StoreError> {
        let damaged = || self.damaged("a request");
        let mut frames = frame::split(joined).ok_or_else(damaged)?.into_iter();
        let (Some(made), Some(expires), Some(slots), Some(body), Some(answers)) =
            (frames.next(), frames.next(), frames.next(), frames.next(), frames.next())
        else {
            return Err(damaged());
        };
        Ok(StoredRequest {
            id: str::from_utf8(id).map_err(|_| damaged())?.to_owned(),
            slots: frame::split_slots(slots.into()).ok_or_else(damaged)?,
            body,
            made_at_ms: self.number(Some(made.into()))?,
            expires_at_ms: if expires.is_empty() { None } else { Some(self.number(Some(expires.into()))?) },
            settled,
            answers: frame::split(answers.into()).ok_or_else(damaged)?,
            outcome: frames.next(),
        })
    }

    pub(super) fn number<T: std::str::FromStr>(&self, text: Option<Vec<u8>>) -> Result<T, StoreError> {
        let number = text.and_then(|text| str::from_utf8(&text).ok()?.parse().ok());
        number.ok_or_else(|| self.damaged("a number of a conversation"))
    }

    pub(super) fn damaged(&self, reason: &str) -> StoreError {
        StoreError::Corrupt { store: self.store.into(), reason: reason.into() }
    }
}
