//! Who waits for entries of a stream: one task of a client looks and listens for all of them, and no connection waits.
//!
//! A message of who adds wakes them, and so does a poll for what others add: 10 ms after the last arrival, then doubled up to a second. It asks for
//! one entry behind the last that is known here, and only while somebody waits. A stream that is made anew, or that a failover has taken back,
//! may have smaller ids: its messages tell, and every 5 s the last is asked for anew and all look for themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{BackgroundClient, ChannelEvent, Client, OrderedSubscription, Request};
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
    ids: Mutex<Ids>,
    /// Changes when all are to look.
    looks: watch::Sender<u64>,
}

/// Which entries are known to be there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Ids {
    /// The last that was read or told of.
    last: EntryId,
    /// The last that was told of.
    told: EntryId,
}

impl Ids {
    /// An entry was read; tells whether it is new.
    fn read(&mut self, id: EntryId) -> bool {
        let is_new = id > self.last;
        self.last = id.max(self.last);
        is_new
    }

    /// An entry was told of; tells whether it is new. Messages of a stream rise: after one that does not, it is another stream.
    fn told(&mut self, id: EntryId) -> bool {
        if id <= self.told {
            *self = Ids { last: id, told: id };
            return true;
        }
        self.told = id;
        self.read(id)
    }
}

impl Known {
    /// What is known after `change`, which tells whether all are to look.
    fn learn(&self, change: impl FnOnce(&mut Ids) -> bool) -> bool {
        let mut ids = self.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_new = change(&mut ids);
        drop(ids);
        if is_new {
            self.looks.send_modify(|looks| *looks += 1);
        }
        is_new
    }

    fn last(&self) -> EntryId {
        self.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).last
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
            let known = Arc::new(Known { ids: Mutex::default(), looks: watch::Sender::new(0) });
            let (waiting, waits) = watch::channel(0);
            let hearing = client.subscribe_ordered_unpolled([channel(key)], key);
            let (shared, key) = (Arc::clone(&known), key.clone());
            client.spawn_attached(|attendant| attend(attendant, key, shared, waits, hearing));
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
        self.arrivals.known.learn(|ids| ids.read(id));
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

/// The error of a call to a client that has ended.
pub(crate) fn shut_down(place: &Place) -> ObjectError {
    match place.named() {
        Ok((name, _)) => ObjectError::of(name, place.client().ended()),
        Err(invalid) => invalid,
    }
}

/// Listens for all, and looks while somebody waits.
async fn attend(
    attendant: BackgroundClient,
    key: Bytes,
    known: Arc<Known>,
    mut waits: watch::Receiver<usize>,
    mut hearing: OrderedSubscription,
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
                    ChannelEvent::Message { payload, .. } => std::str::from_utf8(payload).ok().and_then(|id| id.parse().ok()),
                    ChannelEvent::Resync => None,
                };
                known.learn(|ids| id.is_none_or(|id| ids.told(id)));
                (pause, due) = (PAUSES.0, clock.now() + PAUSES.0);
            }
            () = clock.sleep_until(due), if !idle => {
                let found = asked(&attendant, polled(&attendant, &key, known.last())).await;
                let is_new = found.is_some_and(|id| known.learn(|ids| ids.read(id)));
                pause = if is_new { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
                let now = clock.now();
                if now >= look {
                    let end = asked(&attendant, end(&attendant, &key)).await;
                    known.learn(|ids| {
                        // What is there until now is found by the look; where there is no contact all stays.
                        ids.last = end.unwrap_or(ids.last);
                        true
                    });
                    look = now + LOOK;
                }
                due = now + pause;
            }
        }
    }
}

/// What is asked for, unless the client ends before.
async fn asked<T>(attendant: &BackgroundClient, ask: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::select! {
        biased;
        () = attendant.closing() => None,
        found = ask => found,
    }
}

/// The last entry, where there is one behind this.
async fn polled(attendant: &BackgroundClient, key: &Bytes, last: EntryId) -> Option<EntryId> {
    let until = attendant.clock().now() + attendant.contact_timeout();
    let newer: OfOne = attendant.run_until(behind(key, last, 1).idempotent(), until).await.ok()?;
    let first = newer.0.first()?.id;
    Some(end(attendant, key).await.unwrap_or(first).max(first))
}

/// The last entry that is there, or the id in front of all; `None` where that can not be asked.
async fn end(attendant: &BackgroundClient, key: &Bytes) -> Option<EntryId> {
    let until = attendant.clock().now() + attendant.contact_timeout();
    let request = Request::command("XREVRANGE").key(key.clone()).arg("+").arg("-").arg("COUNT").int(1);
    let end: Raws = attendant.run_until(request.idempotent(), until).await.ok()?;
    Some(end.0.first().map(|entry| entry.id).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_new_unless_it_was_read_and_begins_anew_with_a_smaller_id() {
        let id = |ms| EntryId::new(ms, 0);
        let mut ids = Ids::default();
        assert!(ids.told(id(5)) && ids.read(id(7)) && !ids.read(id(6)));
        // Those that were read before their messages came.
        assert!(!ids.told(id(6)) && !ids.told(id(7)) && ids.told(id(8)));
        assert!(ids.told(id(3)), "another stream");
        assert_eq!(ids, Ids { last: id(3), told: id(3) });
        assert!(ids.read(id(4)) && !ids.told(id(4)) && ids.told(id(4)));
    }
}
