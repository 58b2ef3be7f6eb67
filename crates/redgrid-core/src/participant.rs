//! Taking part in something shared: a seat of this client under a key, and the request that gives it up.
//!
//! A participant has an id on the server, `<client id>:<seat>`, and a turn that rises with each who sits there. So what is
//! remembered of a participant is bounded by how many took part at a time, and whatever a former turn sends, late, is told
//! from the present one's.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::connection::{Client, Progress, Request, RetryPolicy};

/// The seats of a client, by key.
#[derive(Default)]
pub(crate) struct Participants(Mutex<ParticipantsState>);

#[derive(Default)]
struct ParticipantsState {
    numbers: HashMap<Bytes, BTreeSet<u32>>,
    /// How those leave who are to be taken out when nobody can: by turn.
    leave_requests: HashMap<u64, Request>,
    last_generation: u64,
}

impl Participants {
    fn state(&self) -> MutexGuard<'_, ParticipantsState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn release(&self, key: &Bytes, number: u32) {
        let mut state = self.state();
        if let Some(numbers) = state.numbers.get_mut(key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                state.numbers.remove(key);
            }
        }
    }

    /// What is still to be given up; nobody else does it from here on.
    pub(crate) fn take_leave_requests(&self) -> Vec<Request> {
        self.state().leave_requests.drain().map(|(_, request)| request).collect()
    }
}

/// A place among those who take part in something under one key. Dropped while it is [armed](Participant::arm), it is given up in the
/// background, and nobody sits there before; a shutdown gives it up, too.
#[must_use = "dropping it ends the participation"]
pub struct Participant {
    client: Client,
    key: Bytes,
    number: u32,
    generation: u64,
}

impl Participant {
    /// The id on the server: `<client id>:<seat>`.
    pub fn id(&self) -> Bytes {
        format!("{}:{}", self.client.id(), self.number).into()
    }

    /// Higher than that of everybody who sat here before.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// From now on it is given up by this request, unless it is [disarmed](Participant::disarm) before.
    pub fn arm(&self, leave_request: Request) {
        self.client.core().participants.state().leave_requests.insert(self.generation, leave_request);
    }

    /// Nothing is to be given up any more.
    pub fn disarm(&self) {
        let _ = self.client.core().participants.state().leave_requests.remove(&self.generation);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        let core = self.client.core();
        let Some(leave_request) = core.participants.state().leave_requests.remove(&self.generation) else {
            return core.participants.release(&self.key, self.number);
        };
        // Nobody sits here before it is said: what became of this turn would be written over.
        let (core, key, number) = (Arc::clone(core), self.key.clone(), self.number);
        self.client.table().spawn_background(Box::pin(async move {
            let until = core.clock.now() + core.settings.patience();
            let _ = core.exchange(leave_request, until, RetryPolicy::Retries, &Progress::default()).await;
            core.participants.release(&key, number);
        }));
    }
}

impl std::fmt::Debug for Participant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Participant")
            .field("key", &self.key)
            .field("number", &self.number)
            .field("turn", &self.generation)
            .finish()
    }
}

impl Client {
    /// Takes the first seat under `key` on which nobody of this client sits.
    pub fn participant(&self, key: &Bytes) -> Participant {
        let mut state = self.core().participants.state();
        state.last_generation += 1;
        let generation = state.last_generation;
        let numbers = state.numbers.entry(key.clone()).or_default();
        let free = numbers.iter().zip(0..).find_map(|(used, number)| (*used != number).then_some(number));
        let number = free.unwrap_or_else(|| numbers.last().map_or(0, |last| last + 1));
        numbers.insert(number);
        drop(state);
        Participant { client: self.clone(), key: key.clone(), number, generation }
    }
}
