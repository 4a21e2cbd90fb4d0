//! Listing across conversations. Each shard has an index of its own, and what they name is merged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::Value;

use super::super::{ConversationId, Cursor, Lease, Order, StoreError, StoredRequest};
use super::call::{Call, LEASES, Lua, OPEN, PAGE};
use super::keys::{Index, SHARDS, shard_of};
use super::{RedisStore, array};

impl RedisStore {
    pub(super) async fn list_leases(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, Lease)>, StoreError> {
        let (mut page, mut after) = (Vec::new(), after.cloned());
        while page.len() < limit {
            let places = self.places(Index::Leases, after.as_ref(), limit - page.len()).await?;
            let Some(last) = places.last() else { break };
            after = Some(last.clone());
            let leases = self.fetch(&LEASES, &places, |_| None).await?;
            for (place, lease) in places.into_iter().zip(leases) {
                let Some(lease) = self.lease(lease)? else { continue };
                // One that was renewed meanwhile stands further on.
                if lease.until_ms == place.at_ms {
                    page.push((place.conversation, lease));
                }
            }
        }
        Ok(page)
    }

    pub(super) async fn list_requests(
        &self,
        order: Order,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<(ConversationId, StoredRequest)>, StoreError> {
        let index = match order {
            Order::Age => Index::Age,
            Order::Expiry => Index::Expiry,
        };
        let (mut page, mut after) = (Vec::new(), after.cloned());
        while page.len() < limit {
            let places = self.places(index, after.as_ref(), limit - page.len()).await?;
            let Some(last) = places.last() else { break };
            after = Some(last.clone());
            let requests = self.fetch(&OPEN, &places, |place| Some(place.request.as_bytes())).await?;
            for (place, found) in places.into_iter().zip(requests) {
                // One that was settled meanwhile is not there.
                let Some([Value::BulkString(format), Value::BulkString(request)]) = array(found) else { continue };
                self.reader().check(Some(&format))?;
                let request = self.reader().request(place.request.as_bytes(), false, request)?;
                if order.time_of(&request) == Some(place.at_ms) {
                    page.push((place.conversation, request));
                }
            }
        }
        Ok(page)
    }

    /// The first places of an index behind another, over all shards: some if there are any, at most so many.
    async fn places(&self, index: Index, after: Option<&Cursor>, limit: usize) -> Result<Vec<Cursor>, StoreError> {
        // About as many as are needed of each shard; rather too few than all of every shard.
        let most = limit.min(2 * limit.div_ceil(SHARDS.into()) + 2);
        let mut arguments: Vec<Cow<'_, [u8]>> = vec![Cow::Owned(most.to_string().into_bytes())];
        if let Some(Cursor { at_ms, conversation, request }) = after {
            let name = match index {
                Index::Leases => conversation.to_string(),
                Index::Age | Index::Expiry => format!("{conversation}\0{request}"),
            };
            arguments.extend([at_ms.to_string(), name].map(|text| Cow::Owned(text.into_bytes())));
        }
        let pages = try_join_all((0..SHARDS).map(|shard| {
            let keys = vec![self.shared.keys.index(shard, index)];
            self.ask(Call::Script { script: &PAGE, keys, arguments: arguments.clone() })
        }));
        let (mut places, mut known) = (Vec::new(), None);
        for page in pages.await? {
            let Value::Array(page) = page else { return Err(self.damaged()) };
            let entries = page.chunks_exact(2).map(|entry| Self::place(entry).ok_or_else(|| self.damaged()));
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            // Behind its last entry a shard may have more.
            if entries.len() == most {
                let last = entries.last().cloned();
                known = known.min(last.clone()).or(last);
            }
            places.extend(entries);
        }
        places.retain(|place| known.as_ref().is_none_or(|known| place <= known));
        places.sort_unstable();
        places.truncate(limit);
        Ok(places)
    }

    /// A name and its time, as an index has them.
    fn place(entry: &[Value]) -> Option<Cursor> {
        let [Value::BulkString(name), Value::BulkString(time)] = entry else { return None };
        let name = str::from_utf8(name).ok()?;
        let (conversation, request) = name.split_once('\0').unwrap_or((name, ""));
        let time: f64 = str::from_utf8(time).ok()?.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, reason = "it was a whole number")]
        let at_ms = time as i64;
        Some(Cursor { at_ms, conversation: ConversationId::new(conversation).ok()?, request: request.to_owned() })
    }

    /// What a script says of each place, in the order of the places.
    async fn fetch<'p>(
        &self,
        script: &'static Lua,
        places: &'p [Cursor],
        argument: impl Fn(&'p Cursor) -> Option<&'p [u8]>,
    ) -> Result<Vec<Value>, StoreError> {
        let mut shards: BTreeMap<u16, Vec<(usize, &Cursor)>> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            shards.entry(shard_of(&place.conversation)).or_default().push((at, place));
        }
        let said = try_join_all(shards.values().map(|shard| {
            let keys = shard.iter().map(|(_, place)| self.shared.keys.conversation(&place.conversation)).collect();
            let arguments = shard.iter().filter_map(|(_, place)| argument(place).map(Cow::Borrowed)).collect();
            self.ask(Call::Script { script, keys, arguments })
        }));
        let mut found = vec![Value::Nil; places.len()];
        for (shard, said) in shards.values().zip(said.await?) {
            let Value::Array(said) = said else { return Err(self.damaged()) };
            for ((at, _), said) in shard.iter().zip(said) {
                found[*at] = said;
            }
        }
        Ok(found)
    }

    fn lease(&self, found: Value) -> Result<Option<Lease>, StoreError> {
        let Some(
            [Value::BulkString(format), Value::BulkString(owner), Value::BulkString(epoch), Value::BulkString(until)],
        ) = array(found)
        else {
            return Ok(None);
        };
        let reader = self.reader();
        reader.check(Some(&format))?;
        reader.lease(Some(owner), Some(epoch), Some(until))
    }

    fn damaged(&self) -> StoreError {
        self.reader().damaged("an index")
    }
}
