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
pub(crate) struct Seats(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    seats: HashMap<Bytes, BTreeSet<u32>>,
    /// How those leave who are to be taken out when nobody can: by turn.
    farewells: HashMap<u64, Request>,
    turns: u64,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn free(&self, key: &Bytes, number: u32) {
        let mut taken = self.taken();
        if let Some(seats) = taken.seats.get_mut(key) {
            seats.remove(&number);
            if seats.is_empty() {
                taken.seats.remove(key);
            }
        }
    }

    /// What is still to be given up; nobody else does it from here on.
    pub(crate) fn leave_all(&self) -> Vec<Request> {
        self.taken().farewells.drain().map(|(_, request)| request).collect()
    }
}

/// A place among those who take part in something under one key. Dropped while it is [armed](Seat::arm), it is given up in the
/// background, and nobody sits there before; a shutdown gives it up, too.
#[must_use = "dropping it gives the seat up"]
pub struct Seat {
    client: Client,
    key: Bytes,
    number: u32,
    turn: u64,
}

impl Seat {
    /// The id on the server: `<client id>:<seat>`.
    pub fn id(&self) -> Bytes {
        format!("{}:{}", self.client.id(), self.number).into()
    }

    /// Higher than that of everybody who sat here before.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// From now on it is given up by this request, unless it is [disarmed](Seat::disarm) before.
    pub fn arm(&self, farewell: Request) {
        self.client.core().seats.taken().farewells.insert(self.turn, farewell);
    }

    /// Nothing is to be given up any more.
    pub fn disarm(&self) {
        let _ = self.client.core().seats.taken().farewells.remove(&self.turn);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let core = self.client.core();
        let Some(farewell) = core.seats.taken().farewells.remove(&self.turn) else {
            return core.seats.free(&self.key, self.number);
        };
        // Nobody sits here before it is said: what became of this turn would be written over.
        let (core, key, number) = (Arc::clone(core), self.key.clone(), self.number);
        self.client.table().spawn_background(Box::pin(async move {
            let until = core.clock.now() + core.settings.patience();
            let _ = core.exchange(farewell, until, RetryPolicy::Retries, &Progress::default()).await;
            core.seats.free(&key, number);
        }));
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("key", &self.key).field("number", &self.number).field("turn", &self.turn).finish()
    }
}

impl Client {
    /// Takes the first seat under `key` on which nobody of this client sits.
    pub fn seat(&self, key: &Bytes) -> Seat {
        let mut taken = self.core().seats.taken();
        taken.turns += 1;
        let turn = taken.turns;
        let seats = taken.seats.entry(key.clone()).or_default();
        let free = seats.iter().zip(0..).find_map(|(taken, number)| (*taken != number).then_some(number));
        let number = free.unwrap_or_else(|| seats.last().map_or(0, |last| last + 1));
        seats.insert(number);
        drop(taken);
        Seat { client: self.clone(), key: key.clone(), number, turn }
    }
}
