//! The rows of requests that change with a write of a run: what parks is kept before anybody is asked, an inline answer
//! before its tool runs once more, and what has its results is settled.

use std::collections::BTreeMap;

use bytes::Bytes;
use toolrelay_core::run::Run;

use crate::conversation::{Held, Replay, stored};
use crate::drive::now_ms;
use crate::store::StoredRequest;

impl Held {
    /// The rows that change when these messages are written.
    pub(super) fn rows(&self, run: &Run, append: &[(u64, Bytes)]) -> Vec<StoredRequest> {
        let over = run.outcome().is_some();
        let waiting = stored::open_requests(run, now_ms());
        let mut rows: BTreeMap<String, StoredRequest> =
            self.changed.iter().map(|row| (row.id.clone(), row.clone())).collect();
        for row in &waiting {
            match rows.get(&row.id).or_else(|| self.open.get(&row.id)).cloned() {
                None => {
                    rows.insert(row.id.clone(), row.clone());
                }
                // Several requests became one.
                Some(known) if row.slots.iter().any(|slot| !known.slots.contains(slot)) => {
                    let (slots, body, expires_at_ms) = (row.slots.clone(), row.body.clone(), row.expires_at_ms);
                    rows.insert(row.id.clone(), StoredRequest { slots, body, expires_at_ms, ..known });
                }
                Some(_) => {}
            }
        }
        for answer in run.answers() {
            let Some(known) = rows.get(answer.id.as_str()).or_else(|| self.open.get(answer.id.as_str())) else {
                continue;
            };
            if known.answers.is_empty() {
                rows.insert(known.id.clone(), stored::with_answer(known.clone(), answer));
            }
        }
        let has_result =
            |seq: u64| seq < self.floor || self.written.contains(&seq) || append.iter().any(|(added, _)| *added == seq);
        let untouched = self.open.values().filter(|row| !rows.contains_key(&row.id));
        let all: Vec<StoredRequest> = untouched.chain(rows.values()).filter(|row| !row.settled).cloned().collect();
        for row in all {
            let waits = waiting.iter().any(|open| open.id == row.id);
            let worked_on = self.works_on.iter().find(|(id, _)| *id == row.id);
            if let Some((_, at)) = worked_on.filter(|_| over) {
                let outcome = Replay::of(run, &waiting).map(|replay| replay.written(&row, *at));
                let outcome = outcome.or_else(|| row.outcome.clone());
                // Of a request that was answered in part, what is left.
                let left = waiting.iter().find(|open| open.id == row.id).map(|open| open.slots.clone());
                let slots = left.unwrap_or_else(|| row.slots.clone());
                rows.insert(row.id.clone(), StoredRequest { settled: !waits, outcome, slots, ..row });
            } else if worked_on.is_none() && !waits && (over || row.slots.iter().all(|slot| has_result(slot.seq))) {
                rows.insert(row.id.clone(), StoredRequest { settled: true, ..row });
            }
        }
        rows.into_values().collect()
    }

    /// Takes note of rows that were written.
    pub(super) fn take_rows(&mut self, rows: Vec<StoredRequest>) {
        for row in rows {
            if row.settled {
                self.open.remove(&row.id);
            } else {
                self.open.insert(row.id.clone(), row);
            }
        }
    }
}
