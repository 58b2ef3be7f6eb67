//! Waiting for new entries of a stream.
//!
//! All callers of a client that wait for a stream share a [`WaitQueue`], so that no connection is
//! blocked. A waiter that is woken sends its own read.
//!
//! Waiters are woken by the message of a process that adds an entry through this library. Polls
//! find the entries that others add. The first poll is 10 ms after the last new entry; each further
//! pause is twice as long, up to a second. A poll reads one entry after the last known id.
//!
//! If a stream was deleted and created again, or a failover has reverted it, its ids may be smaller
//! than the last known id. A message with a smaller id reveals this. In addition, every 5 s the
//! last id is read again, and all waiters are woken.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, OrderedSubscription, Request};

use crate::entry::{RawEntries, SingleStreamReply};
use crate::error::StreamError;
use crate::id::EntryId;
use crate::stream::channel;

/// The pauses between polls that find no new entry.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };

/// How often all waiters are woken.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5);

/// The newest ids of the stream that this client knows.
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
    /// The ids in the messages of a stream increase. If an id is smaller, the stream was replaced
    /// by another.
    fn announce(&mut self, id: EntryId) -> bool {
        if id <= self.announced {
            *self = KnownIds { last: id, announced: id };
            return true;
        }
        self.announced = id;
        self.read(id)
    }
}

/// The resource of a wait queue: the new entries of a stream.
pub(crate) struct NewEntries {
    key: Bytes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: KnownIds,
    /// The number of times that all waiters were woken.
    wakeups: u64,
    /// The number of polls since the last new entry.
    idle_polls: u32,
    resync_at: Instant,
}

/// The reply to a poll.
pub(crate) struct Polled {
    /// The id of the last entry; `None` if it is not new or is unknown.
    newest: Option<EntryId>,
    /// Whether the last id was read again.
    is_resync: bool,
}

impl NewEntries {
    /// Returns the queue of all callers that wait for a stream through one client.
    pub(crate) fn queue(object_ref: &ObjectRef) -> Result<Arc<WaitQueue<NewEntries>>, ObjectError> {
        let (client, (_, key)) = (object_ref.client(), object_ref.name_and_key()?);
        Ok(client.shared(key, || WaitQueue::new(client, NewEntries { key: key.clone(), state: Mutex::default() })))
    }

    /// Returns the number of wake-ups until now. A waiter gets this number before its own read, and
    /// waits with it as its request: a later wake-up completes the wait.
    pub(crate) fn wakeups(&self) -> u64 {
        self.state().wakeups
    }

    /// Records an entry that a caller has read.
    pub(crate) fn has_read(queue: &WaitQueue<NewEntries>, id: EntryId) {
        queue.resource().update(queue, |state| state.known.read(id));
    }

    /// Updates the state, and wakes all waiters if `change` returns true.
    fn update(&self, queue: &WaitQueue<NewEntries>, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.state();
        let wakes = change(&mut state);
        state.wakeups += u64::from(wakes);
        let wakeups = state.wakeups;
        drop(state);
        queue.complete_below(WaiterId::MAX, |before_poll| *before_poll < wakeups, || ());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Resource for NewEntries {
    /// The number of [wake-ups](NewEntries::wakeups) before the waiter's own poll.
    type Request = u64;
    type Outcome = ();
    type Reply = Polled;

    /// The subscription is kept for this time after the last wait, because a consumer usually waits
    /// again after it has handled an entry.
    const LINGER: Duration = Duration::from_secs(1);

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        client.subscribe_ordered_unpolled([channel(&self.key)], &self.key)
    }

    fn poll<'a>(
        self: &Arc<Self>,
        client: &Client,
        _waiters: impl Iterator<Item = (WaiterId, &'a u64)>,
    ) -> PollFuture<Polled> {
        let (resource, client) = (Arc::clone(self), client.clone());
        let (last, resync_at) = {
            let state = self.state();
            (state.known.last, state.resync_at)
        };
        Box::pin(async move {
            let is_resync = client.clock().now() >= resync_at;
            let newest = match is_resync {
                true => newest_id(&client, &resource.key).await,
                false => newest_after(&client, &resource.key, last).await,
            };
            // A failed poll does not fail the waiters, because their own reads may have other
            // permissions.
            Ok(Polled { newest, is_resync })
        })
    }

    fn replied(&self, queue: &Arc<WaitQueue<Self>>, polled: Polled, _sent_before: WaiterId) -> NextPoll {
        let mut pause = PAUSES.first;
        self.update(queue, |state| {
            let is_new = polled.newest.is_some_and(|id| state.known.read(id));
            state.idle_polls = if is_new { 0 } else { state.idle_polls.saturating_add(1) };
            pause = PAUSES.after(state.idle_polls);
            if polled.is_resync {
                state.known.last = polled.newest.unwrap_or(state.known.last);
                state.resync_at = queue.client().clock().now() + RESYNC_INTERVAL;
            }
            is_new || polled.is_resync
        });
        NextPoll::Within(pause)
    }

    fn received(&self, queue: &Arc<WaitQueue<Self>>, event: &ChannelEvent) -> NextPoll {
        let id = match event {
            ChannelEvent::Message { payload, .. } => std::str::from_utf8(payload).ok().and_then(|id| id.parse().ok()),
            ChannelEvent::Resync => None,
        };
        self.update(queue, |state| {
            state.idle_polls = 0;
            id.is_none_or(|id| state.known.announce(id))
        });
        NextPoll::Within(PAUSES.first)
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

/// Calls `poll` until it returns a value or the timeout has passed. Without a timeout, `poll` is
/// called once.
pub(crate) async fn poll_until_found<T, P>(
    object_ref: &ObjectRef,
    timeout: Option<Duration>,
    poll: impl Fn() -> P,
) -> Result<Vec<T>, StreamError>
where
    P: Future<Output = Result<Vec<T>, StreamError>>,
{
    let Some(timeout) = timeout else { return poll().await };
    let (client, queue) = (object_ref.client(), NewEntries::queue(object_ref)?);
    let until = client.clock().now() + timeout;
    loop {
        let wakeups = queue.resource().wakeups();
        let found = poll().await?;
        if !found.is_empty() || client.clock().now() >= until {
            return Ok(found);
        }
        queue.enter(wakeups).ended_by(until).await;
        if client.is_shut_down() {
            return Err(shut_down(object_ref).into());
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

/// Returns the id of the last entry if there is one after `last`.
async fn newest_after(client: &Client, key: &Bytes, last: EntryId) -> Option<EntryId> {
    let newer: SingleStreamReply = client.run(xread_request(key, last, 1).idempotent()).await.ok()?;
    let first = newer.0.first()?.id;
    Some(newest_id(client, key).await.unwrap_or(first).max(first))
}

/// Returns the id of the last entry, or [`EntryId::MIN`] if there is none; `None` if it cannot be
/// read.
async fn newest_id(client: &Client, key: &Bytes) -> Option<EntryId> {
    let request = Request::command("XREVRANGE").key(key.clone()).arg("+").arg("-").arg("COUNT").int(1);
    let newest: RawEntries = client.run(request.idempotent()).await.ok()?;
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
        // These entries were read before their messages arrived.
        assert!(!known.announce(id(6)) && !known.announce(id(7)) && known.announce(id(8)));
        assert!(known.announce(id(3)), "another stream");
        assert_eq!(known, KnownIds { last: id(3), announced: id(3) });
        assert!(known.read(id(4)) && !known.announce(id(4)) && known.announce(id(4)));
    }
}
