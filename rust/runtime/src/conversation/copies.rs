//! Whole conversations: taken away, copied to try another way, and put back from a transcript.

use bytes::Bytes;
use toolrelay_core::id::IdSource;
use toolrelay_core::run;
use toolrelay_core::suspension;
use toolrelay_core::transcript::Transcript;

use crate::conversation::held::birth;
use crate::conversation::{ATTEMPTS, ConversationError, Conversations, Known, check_free, stored};
use crate::drive::now_ms;
use crate::store::{ConversationId, State, StoreError, Write};

impl Conversations {
    /// Deletes a conversation, also while somebody works on it, who has then lost it. Gives whether there was one.
    pub async fn delete(&self, id: &str) -> Result<bool, ConversationError> {
        let id = ConversationId::new(id)?;
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.store.load(&id).await? else { return Ok(false) };
            match self.store.delete(&id, stored.version).await {
                Ok(()) => return Ok(true),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ConversationError::Busy { id: id.to_string(), lease: None })
    }

    /// Copies a conversation to a new id. What it waits for is asked under ids of its own (contract 1.5); a
    /// call that a dead worker left is interrupted in the copy.
    pub async fn fork(&self, id: &str, new_id: &str) -> Result<Known, ConversationError> {
        let id = ConversationId::new(id)?;
        let Some(stored) = self.store.load(&id).await? else {
            return Err(ConversationError::NotFound { id: id.to_string() });
        };
        check_free(&id, &stored)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ConversationError::Entropy { reason: error.to_string() })?;
        let renewed = suspension::renew(&stored::transcript(&stored)?, &mut IdSource::new(seed));
        self.restore(new_id, &renewed).await
    }

    /// Puts a transcript under a new id, with what it waits for. Calls that nobody marked are interrupted.
    pub async fn restore(&self, id: &str, transcript: &Transcript) -> Result<Known, ConversationError> {
        let id = ConversationId::new(id)?;
        let transcript = run::settle(transcript, None).map_err(run::StartError::from)?.transcript;
        let requests = stored::parked_in(&transcript, now_ms());
        let places = (0_u64..).zip(transcript.messages());
        let real = places.filter(|(_, message)| !message.is_placeholder());
        let write = Write {
            expect: 0,
            version: birth(),
            at_ms: now_ms(),
            state: if requests.is_empty() { State::Idle } else { State::Pending },
            epoch: 1,
            lease: None,
            append: real.map(|(seq, message)| (seq, message.to_bytes())).collect::<Vec<(u64, Bytes)>>(),
            requests,
        };
        match self.store.commit(&id, write).await {
            Ok(()) => {}
            Err(StoreError::Conflict { .. }) => return Err(ConversationError::Exists { id: id.to_string() }),
            Err(error) => return Err(error.into()),
        }
        let put = self.store.load(&id).await?.ok_or_else(|| ConversationError::NotFound { id: id.to_string() })?;
        Ok(Known::of(&put)?)
    }
}
