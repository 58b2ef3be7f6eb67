//! Waiting for new entries of a stream.
//!
//! One background task of a client polls and listens for all waiters of a stream, so that no
//! connection is blocked.
//!
//! Waiters are woken by the message of a process that adds an entry through this library. A poll
//! finds the entries that others add: 10 ms after the last new entry, with the interval doubled up
//! to a second. The poll reads one entry after the last id known here, and runs only while there
//! are waiters. A stream that was deleted and created again, or that a failover has reverted, may
//! have smaller ids. Messages show this. In addition, every 5 s the last id is read again, and all
//! waiters poll for themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{BackgroundClient, ChannelEvent, Client, OrderedSubscription, Request};
use tokio::sync::watch;

use crate::entry::{RawEntries, SingleStreamReply};
use crate::error::StreamError;
use crate::id::EntryId;
use crate::stream::channel;

/// The shortest and the longest interval of the poll.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How often all waiters poll for themselves.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5);

/// The state that the waiters share with the background task.
#[derive(Debug)]
struct SharedState {
    known: Mutex<KnownIds>,
    /// Changes when all waiters are to poll.
    wakeups: watch::Sender<u64>,
}

/// The newest ids that are known here.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct KnownIds {
    /// The largest id that was read or announced by a message.
    last: EntryId,
    /// The id of the last message.
    announced: EntryId,
}

impl KnownIds {
    /// Records an entry that was read, and returns whether it is new.
    fn read(&mut self, id: EntryId) -> bool {
        let is_new = id > self.last;
        self.last = id.max(self.last);
        is_new
    }

    /// Records an entry that a message announced, and returns whether it is new.
    ///
    /// The ids in the messages of a stream increase. If one does not, the stream was replaced by
    /// another.
    fn announce(&mut self, id: EntryId) -> bool {
        if id <= self.announced {
            *self = KnownIds { last: id, announced: id };
            return true;
        }
        self.announced = id;
        self.read(id)
    }
}

impl SharedState {
    /// Updates the known ids, and wakes all waiters if `change` returns true.
    fn update(&self, change: impl FnOnce(&mut KnownIds) -> bool) -> bool {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_new = change(&mut known);
        drop(known);
        if is_new {
            self.wakeups.send_modify(|wakeups| *wakeups += 1);
        }
        is_new
    }

    fn last(&self) -> EntryId {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).last
    }
}

/// The waiters of one client for entries of one stream, and their background task.
#[derive(Debug)]
struct NewEntries {
    state: Arc<SharedState>,
    /// The number of calls that are waiting now. Dropping it ends the background task.
    waiting: watch::Sender<usize>,
}

impl NewEntries {
    /// Returns the instance of a stream that all waiters of the client share.
    fn shared(client: &Client, key: &Bytes) -> Arc<NewEntries> {
        client.shared(key, || {
            let state = Arc::new(SharedState { known: Mutex::default(), wakeups: watch::Sender::new(0) });
            let (waiting, waiting_count) = watch::channel(0);
            let messages = client.subscribe_ordered_unpolled([channel(key)], key);
            let (shared, key) = (Arc::clone(&state), key.clone());
            client.spawn_attached(|background| run_task(background, key, shared, waiting_count, messages));
            NewEntries { state, waiting }
        })
    }
}

/// A caller that waits for entries from time to time.
#[derive(Debug)]
pub(crate) struct Waiter {
    client: Client,
    new_entries: Arc<NewEntries>,
    wakeups: watch::Receiver<u64>,
}

impl Waiter {
    /// Creates a waiter, which is woken by entries that are found from now on.
    pub(crate) fn new(object_ref: &ObjectRef) -> Result<Waiter, ObjectError> {
        let new_entries = NewEntries::shared(object_ref.client(), object_ref.name_and_key()?.1);
        let wakeups = new_entries.state.wakeups.subscribe();
        Ok(Waiter { client: object_ref.client().clone(), new_entries, wakeups })
    }

    /// Discards the wake-ups until now. To be called before the caller polls.
    pub(crate) fn before_poll(&mut self) {
        self.wakeups.mark_unchanged();
    }

    /// Records an entry that the caller has read.
    pub(crate) fn has_read(&self, id: EntryId) {
        self.new_entries.state.update(|known| known.read(id));
    }

    /// Completes when there is a reason to poll, or the client is shut down.
    pub(crate) async fn woken(&mut self) {
        let _waiting = WaitingGuard::new(&self.new_entries);
        tokio::select! {
            biased;
            () = self.client.closing() => {}
            // `new_entries` keeps the sender.
            _ = self.wakeups.changed() => {}
        }
    }
}

/// Returns the request that reads up to `limit` entries after an id.
pub(crate) fn read_after_request(object_ref: &ObjectRef, after: EntryId, limit: u32) -> Result<Request, ObjectError> {
    let (_, key) = object_ref.name_and_key()?;
    Ok(xread_request(key, after, limit))
}

fn xread_request(key: &Bytes, after: EntryId, limit: u32) -> Request {
    let request = Request::command("XREAD").arg("COUNT").int(limit.max(1).into());
    request.arg("STREAMS").key_arg(key.clone()).arg(after.to_bytes())
}

/// Counts a call as waiting until it is dropped.
struct WaitingGuard(Arc<NewEntries>);

impl WaitingGuard {
    fn new(new_entries: &Arc<NewEntries>) -> WaitingGuard {
        new_entries.waiting.send_modify(|waiting| *waiting += 1);
        WaitingGuard(Arc::clone(new_entries))
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// Calls `poll` until it returns something or the timeout has passed. Without a timeout it is
/// called once.
pub(crate) async fn poll_until_found<T, P>(
    object_ref: &ObjectRef,
    timeout: Option<Duration>,
    poll: impl Fn() -> P,
) -> Result<Vec<T>, StreamError>
where
    P: Future<Output = Result<Vec<T>, StreamError>>,
{
    let client = object_ref.client();
    let until = timeout.map(|timeout| client.clock().now() + timeout);
    let found = poll().await?;
    let Some(until) = until.filter(|_| found.is_empty()) else { return Ok(found) };
    let mut waiter = Waiter::new(object_ref)?;
    loop {
        waiter.before_poll();
        let found = poll().await?;
        if !found.is_empty() || client.clock().now() >= until {
            return Ok(found);
        }
        tokio::select! {
            biased;
            () = client.closing() => return Err(shut_down(object_ref).into()),
            () = waiter.woken() => {}
            () = client.clock().sleep_until(until) => {}
        }
    }
}

/// Returns the error of a call to a client that has ended.
pub(crate) fn shut_down(object_ref: &ObjectRef) -> ObjectError {
    match object_ref.name_and_key() {
        Ok((name, _)) => ObjectError::of(name, object_ref.client().ended()),
        Err(invalid) => invalid,
    }
}

/// The background task: receives messages, and polls while there are waiters.
async fn run_task(
    background: BackgroundClient,
    key: Bytes,
    state: Arc<SharedState>,
    mut waiting: watch::Receiver<usize>,
    mut messages: OrderedSubscription,
) {
    let clock = background.clock().clone();
    let mut interval = POLL_INTERVALS.0;
    let mut due = clock.now();
    let mut resync_due = clock.now() + RESYNC_INTERVAL;
    loop {
        let idle = *waiting.borrow_and_update() == 0;
        tokio::select! {
            biased;
            () = background.closing() => return,
            changed = waiting.changed() => match changed {
                Ok(()) => {}
                Err(_) => return,
            },
            event = messages.next() => {
                let id = match &event {
                    ChannelEvent::Message { payload, .. } => {
                        std::str::from_utf8(payload).ok().and_then(|id| id.parse().ok())
                    }
                    ChannelEvent::Resync => None,
                };
                state.update(|known| id.is_none_or(|id| known.announce(id)));
                (interval, due) = (POLL_INTERVALS.0, clock.now() + POLL_INTERVALS.0);
            }
            () = clock.sleep_until(due), if !idle => {
                let found = unless_closing(&background, newest_after(&background, &key, state.last())).await;
                let is_new = found.is_some_and(|id| state.update(|known| known.read(id)));
                interval = if is_new { POLL_INTERVALS.0 } else { (interval * 2).min(POLL_INTERVALS.1) };
                let now = clock.now();
                if now >= resync_due {
                    let newest = unless_closing(&background, newest_id(&background, &key)).await;
                    state.update(|known| {
                        // The waiters find what was added until now. Without contact, `last` is
                        // kept.
                        known.last = newest.unwrap_or(known.last);
                        true
                    });
                    resync_due = now + RESYNC_INTERVAL;
                }
                due = now + interval;
            }
        }
    }
}

/// Awaits `request`; returns `None` if the client ends before it completes.
async fn unless_closing<T>(background: &BackgroundClient, request: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::select! {
        biased;
        () = background.closing() => None,
        found = request => found,
    }
}

/// Returns the id of the last entry if there is one after `last`.
async fn newest_after(background: &BackgroundClient, key: &Bytes, last: EntryId) -> Option<EntryId> {
    let until = background.clock().now() + background.contact_timeout();
    let newer: SingleStreamReply = background.run_until(xread_request(key, last, 1).idempotent(), until).await.ok()?;
    let first = newer.0.first()?.id;
    Some(newest_id(background, key).await.unwrap_or(first).max(first))
}

/// Returns the id of the last entry, or [`EntryId::MIN`] if there is none; `None` if it cannot be
/// read.
async fn newest_id(background: &BackgroundClient, key: &Bytes) -> Option<EntryId> {
    let until = background.clock().now() + background.contact_timeout();
    let request = Request::command("XREVRANGE").key(key.clone()).arg("+").arg("-").arg("COUNT").int(1);
    let newest: RawEntries = background.run_until(request.idempotent(), until).await.ok()?;
    Some(newest.0.first().map(|entry| entry.id).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_ids_are_new_unless_read_and_a_smaller_id_starts_again() {
        let id = |ms| EntryId::new(ms, 0);
        let mut known = KnownIds::default();
        assert!(known.announce(id(5)) && known.read(id(7)) && !known.read(id(6)));
        // These were read before their messages arrived.
        assert!(!known.announce(id(6)) && !known.announce(id(7)) && known.announce(id(8)));
        assert!(known.announce(id(3)), "another stream");
        assert_eq!(known, KnownIds { last: id(3), announced: id(3) });
        assert!(known.read(id(4)) && !known.announce(id(4)) && known.announce(id(4)));
    }
}
