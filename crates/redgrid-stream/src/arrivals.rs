//! Who waits for entries of a stream: one task of a client looks and listens for all of them, and no connection waits.
//!
//! A message of who adds wakes them, and so does a poll for what others add: 10 ms after the last arrival, then doubled up to a second. It asks for
//! one entry behind the last that is known here, and only while somebody waits. Every 5 s all look for themselves: where a
//! failover has taken ids back, there is nothing behind the last.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Attendant, Client, Heard, Hearing, Request, ServerError};
use tokio::sync::watch;

use crate::entry::{OfOne, Raws};
use crate::error::StreamError;
use crate::id::EntryId;
use crate::stream::channel;

/// The first pause of the poll, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// After so long all look for themselves.
const LOOK: Duration = Duration::from_secs(5);

/// What those who wait share with the task.
#[derive(Debug)]
struct Known {
    /// The last entry that is known to be there.
    last: Mutex<EntryId>,
    /// Changes when all are to look.
    looks: watch::Sender<u64>,
}

impl Known {
    fn last(&self) -> EntryId {
        *self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// There is an entry with this id; tells whether it is new.
    fn arrived(&self, id: EntryId) -> bool {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_new = id > *last;
        *last = id.max(*last);
        drop(last);
        if is_new {
            self.look();
        }
        is_new
    }

    fn look(&self) {
        self.looks.send_modify(|looks| *looks += 1);
    }
}

/// All who wait for entries of a stream through one client.
#[derive(Debug)]
struct Arrivals {
    known: Arc<Known>,
    /// How many wait at the moment. The task ends when this has gone.
    waiting: watch::Sender<usize>,
}

impl Arrivals {
    fn of(client: &Client, key: &Bytes) -> Arc<Arrivals> {
        client.shared(key, || {
            let known = Arc::new(Known { last: Mutex::default(), looks: watch::Sender::new(0) });
            let (waiting, waits) = watch::channel(0);
            let hearing = client.hear_only([channel(key)], key);
            let (shared, key) = (Arc::clone(&known), key.clone());
            client.attend(|attendant| attend(attendant, key, shared, waits, hearing));
            Arrivals { known, waiting }
        })
    }
}

/// Somebody who waits for entries from time to time.
#[derive(Debug)]
pub(crate) struct Waiter {
    client: Client,
    arrivals: Arc<Arrivals>,
    looks: watch::Receiver<u64>,
}

impl Waiter {
    /// What arrives from now on wakes it.
    pub(crate) fn new(place: &Place) -> Result<Waiter, ObjectError> {
        let arrivals = Arrivals::of(place.client(), place.named()?.1);
        let looks = arrivals.known.looks.subscribe();
        Ok(Waiter { client: place.client().clone(), arrivals, looks })
    }

    /// What has arrived until now does not wake it any more: to be called in front of a look.
    pub(crate) fn looks(&mut self) {
        self.looks.mark_unchanged();
    }

    /// It has seen an entry.
    pub(crate) fn saw(&self, id: EntryId) {
        self.arrivals.known.arrived(id);
    }

    /// Completes when there is reason to look, or the client is shut down.
    pub(crate) async fn woken(&mut self) {
        let _waits = Waits::of(&self.arrivals);
        tokio::select! {
            biased;
            () = self.client.closing() => {}
            // Its sender lives as long as the arrivals.
            _ = self.looks.changed() => {}
        }
    }

    /// What asks for entries behind an id, as many as said.
    pub(crate) fn behind(place: &Place, after: EntryId, limit: u32) -> Result<Request, ObjectError> {
        let (_, key) = place.named()?;
        Ok(behind(key, after, limit))
    }
}

fn behind(key: &Bytes, after: EntryId, limit: u32) -> Request {
    let request = Request::command("XREAD").arg("COUNT").int(limit.max(1).into());
    request.arg("STREAMS").key_here(key.clone()).arg(after.bytes())
}

/// One who waits. Dropped, it does so no more.
struct Waits(Arc<Arrivals>);

impl Waits {
    fn of(arrivals: &Arc<Arrivals>) -> Waits {
        arrivals.waiting.send_modify(|waiting| *waiting += 1);
        Waits(Arc::clone(arrivals))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// Looks until something is there, or the time is over; at once where there is none.
pub(crate) async fn looked<T, L>(
    place: &Place,
    within: Option<Duration>,
    look: impl Fn() -> L,
) -> Result<Vec<T>, StreamError>
where
    L: Future<Output = Result<Vec<T>, StreamError>>,
{
    let client = place.client();
    let until = within.map(|within| client.clock().now() + within);
    let found = look().await?;
    let Some(until) = until.filter(|_| found.is_empty()) else { return Ok(found) };
    let mut waiter = Waiter::new(place)?;
    loop {
        waiter.looks();
        let found = look().await?;
        if !found.is_empty() || client.clock().now() >= until {
            return Ok(found);
        }
        tokio::select! {
            biased;
            () = client.closing() => return Err(shut_down(place).into()),
            () = waiter.woken() => {}
            () = client.clock().sleep_until(until) => {}
        }
    }
}

/// What is told of a client that is shut down.
pub(crate) fn shut_down(place: &Place) -> ObjectError {
    match place.named() {
        Ok((name, _)) => ObjectError::Unavailable {
            name: name.clone(),
            source: ServerError::NotSent { reason: "the client is shut down".into() },
        },
        Err(invalid) => invalid,
    }
}

/// Listens for all, and looks while somebody waits.
async fn attend(
    attendant: Attendant,
    key: Bytes,
    known: Arc<Known>,
    mut waits: watch::Receiver<usize>,
    mut hearing: Hearing,
) {
    let clock = attendant.clock().clone();
    let (mut pause, mut due, mut look) = (PAUSES.0, clock.now(), clock.now() + LOOK);
    loop {
        let idle = *waits.borrow_and_update() == 0;
        tokio::select! {
            biased;
            () = attendant.closing() => return,
            changed = waits.changed() => match changed {
                Ok(()) => {}
                Err(_) => return,
            },
            heard = hearing.next() => {
                let id = match &heard {
                    Heard::Message { payload, .. } => std::str::from_utf8(payload).ok().and_then(|id| id.parse().ok()),
                    Heard::Recheck => None,
                };
                match id {
                    Some(id) => { known.arrived(id); }
                    None => known.look(),
                }
                (pause, due) = (PAUSES.0, clock.now() + PAUSES.0);
            }
            () = clock.sleep_until(due), if !idle => {
                let is_new = match polled(&attendant, &key, known.last()).await {
                    Some(id) => known.arrived(id),
                    None => false,
                };
                pause = if is_new { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
                let now = clock.now();
                if now >= look {
                    known.look();
                    look = now + LOOK;
                }
                due = now + pause;
            }
        }
    }
}

/// The last entry, where there is one behind this.
async fn polled(attendant: &Attendant, key: &Bytes, last: EntryId) -> Option<EntryId> {
    let until = || -> Instant { attendant.clock().now() + attendant.patience() };
    let ask = async {
        let newer: OfOne = attendant.run_until(behind(key, last, 1).idempotent(), until()).await.ok()?;
        let first = newer.0.first()?.id;
        let request = Request::command("XREVRANGE").key(key.clone()).arg("+").arg("-").arg("COUNT").int(1);
        let end: Option<Raws> = attendant.run_until(request.idempotent(), until()).await.ok();
        Some(end.and_then(|end| end.0.first().map(|entry| entry.id)).unwrap_or(first))
    };
    tokio::select! {
        biased;
        () = attendant.closing() => None,
        found = ask => found,
    }
}
