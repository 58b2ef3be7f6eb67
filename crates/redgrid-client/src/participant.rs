//! Participation in objects such as barriers. To participate, a client takes its lowest free number
//! for the object's key. The participation ends with a request to the server.
//!
//! On the server, a participant has the id `<client id>:<number>`, and a generation. Numbers are
//! reused, so the size of the state on the server depends only on the number of simultaneous
//! participants. The generations of a client's participants only rise. So the server can ignore
//! late requests of an earlier participant with the same number.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::connection::{Client, Progress, Request, RetryPolicy};

/// The participants of a client.
#[derive(Default)]
pub(crate) struct Participants {
    /// The numbers in use, by key.
    numbers: HashMap<Bytes, BTreeSet<u32>>,
    /// The leave requests of [armed](Participant::arm) participants, by generation. A leave request
    /// ends the participation.
    leave_requests: HashMap<u64, Request>,
    last_generation: u64,
}

impl Participants {
    fn release(&mut self, key: &Bytes, number: u32) {
        if let Some(numbers) = self.numbers.get_mut(key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.numbers.remove(key);
            }
        }
    }

    /// Removes and returns all leave requests. The caller must send them: a participant that is
    /// dropped later sends no leave request.
    pub(crate) fn take_leave_requests(&mut self) -> impl Iterator<Item = Request> + use<> {
        std::mem::take(&mut self.leave_requests).into_values()
    }
}

/// A participant of this client under one key.
///
/// If a participant is dropped while it is [armed](Participant::arm), its leave request is sent in
/// the background. The number of the participant is reused only after that request has ended. A
/// client that is shut down sends the leave requests of all its armed participants.
#[derive(Debug)]
#[must_use = "dropping it ends the participation"]
pub struct Participant {
    client: Client,
    key: Bytes,
    number: u32,
    generation: u64,
}

impl Participant {
    /// Returns the id on the server: `<client id>:<number>`.
    pub fn id(&self) -> Bytes {
        format!("{}:{}", self.client.id(), self.number).into()
    }

    /// Returns the generation. It is higher than the generations of all earlier participants of the
    /// client.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Sets the request that ends the participation. The request is sent when the participant is
    /// dropped. A call of [`disarm`](Participant::disarm) prevents this.
    pub fn arm(&self, leave_request: Request) {
        self.client.core().participants.lock().leave_requests.insert(self.generation, leave_request);
    }

    /// Removes the leave request, so that dropping the participant sends no request.
    pub fn disarm(&self) {
        self.client.core().participants.lock().leave_requests.remove(&self.generation);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        let core = self.client.core();
        let mut participants = core.participants.lock();
        let Some(leave_request) = participants.leave_requests.remove(&self.generation) else {
            return participants.release(&self.key, self.number);
        };
        drop(participants);
        // The number is reused only after the request has ended. Otherwise, a new participant with
        // the same number could overwrite the state of the leaving one on the server. The leave
        // request would then have no effect.
        let (core, key, number) = (Arc::clone(core), self.key.clone(), self.number);
        self.client.core().spawn_background(Box::pin(async move {
            let until = core.clock.now() + core.settings.patience();
            let _ = core.exchange(leave_request, until, RetryPolicy::Retries, &Progress::default()).await;
            core.participants.lock().release(&key, number);
        }));
    }
}

/// Creates a participant with the client's lowest free number for `key`.
pub fn participant(client: &Client, key: &Bytes) -> Participant {
    let mut state = client.core().participants.lock();
    state.last_generation += 1;
    let generation = state.last_generation;
    let numbers = state.numbers.entry(key.clone()).or_default();
    let free = numbers.iter().zip(0..).find_map(|(used, number)| (*used != number).then_some(number));
    let number = free.unwrap_or_else(|| numbers.last().map_or(0, |last| last + 1));
    numbers.insert(number);
    drop(state);
    Participant { client: client.clone(), key: key.clone(), number, generation }
}
