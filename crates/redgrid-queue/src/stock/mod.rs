//! The stock: elements that were taken from a queue and that no caller has claimed yet.
//!
//! An element belongs to a caller once its call has returned it. Until then it belongs to the stock
//! of its [`TakeSource`]; a client has one stock for each source. The stock offers the element to
//! the first waiter, which has one second to claim it. An element that is not claimed is offered to
//! the next waiter. If there are no waiters, the element is put back to its previous position on
//! the server.
//!
//! One task of the client sends all requests of the stock, both takes and put-backs. One request is
//! in flight at a time, so elements that are put back are in front of those that are taken next.

mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, IdempotentRequest, ServerError};
use tokio::sync::{Notify, oneshot};

use crate::waiters::{TakeQueue, Taken};
use task::RunningTask;

/// A source of elements: one queue on the server.
pub(crate) trait TakeSource: Send + Sync + 'static {
    /// The key that determines the slot. All keys and channels of the source are in it.
    fn key(&self) -> &Bytes;

    /// The channels with messages that elements may be available.
    fn channels(&self) -> Vec<Bytes>;

    /// Returns the request that takes up to `limit` elements. Its reply is a [`TakeReply`].
    fn take(&self, limit: usize) -> IdempotentRequest;

    /// Returns the request that puts elements back, given in the order in which they were taken.
    ///
    /// `unique` is a key in the slot that no other request uses.
    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest;
}

/// Elements, and a hint: 0 if there are more, the milliseconds until the next is due, or -1 if no
/// next element is known.
type TakeReply = (Vec<Bytes>, i64);

/// Maximum size of the elements of one request, approximately.
pub(crate) const MAX_TAKEN_BYTES: i64 = 1 << 20;

/// How long an element is offered to a caller: 1 s.
const OFFER_TIME: Duration = Duration::from_secs(1);

/// The result of a poll.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) any: bool,
    /// There may be elements for the waiters without one.
    pub(crate) may_have_more: bool,
    /// The time until the next element is due, if it is known.
    pub(crate) due_in: Option<Duration>,
}

/// The elements of a source that were taken through one client and that no caller has claimed yet.
pub(crate) struct Stock<S: TakeSource> {
    source: S,
    waiters: Mutex<Weak<TakeQueue<S>>>,
    state: Mutex<State>,
    /// Notified when the task has to check the state.
    changed: Notify,
}

/// Elements by the order in which they were taken.
type Elements = BTreeMap<u64, Bytes>;

#[derive(Default)]
struct State {
    /// The poll for which the task has not sent a request yet.
    poll: Option<PendingPoll>,
    unclaimed: Elements,
    offered: BTreeMap<u64, Offered>,
    putting_back: Elements,
    /// The number of elements that were taken so far.
    taken: u64,
    task_runs: bool,
}

struct PendingPoll {
    client: Client,
    answer: oneshot::Sender<Result<Found, ServerError>>,
}

struct Offered {
    element: Bytes,
    until: Instant,
}

/// An element that is offered to a caller. Dropping it makes the element available to the next
/// waiter.
pub(crate) struct Claim<S: TakeSource> {
    stock: Arc<Stock<S>>,
    number: u64,
}

impl<S: TakeSource> Stock<S> {
    pub(crate) fn new(source: S) -> Self {
        Stock { source, waiters: Mutex::default(), state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// Sets the queue of the waiters to which elements are offered.
    pub(crate) fn offer_to(&self, waiters: &Arc<TakeQueue<S>>) {
        *self.waiters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::downgrade(waiters);
    }

    fn waiters(&self) -> Option<Arc<TakeQueue<S>>> {
        self.waiters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).upgrade()
    }

    /// Sends a poll: takes elements for the waiters. Returns the result of the poll.
    ///
    /// Once its request is sent, a poll completes even if the receiver is dropped. If the receiver
    /// is dropped while the poll waits for another request, the poll is not sent.
    pub(crate) fn poll(self: &Arc<Self>, client: &Client) -> oneshot::Receiver<Result<Found, ServerError>> {
        let (answer, found) = oneshot::channel();
        let mut state = self.state();
        state.poll = Some(PendingPoll { client: client.clone(), answer });
        let starts = !std::mem::replace(&mut state.task_runs, true);
        drop(state);
        if starts {
            let task = RunningTask { stock: Arc::clone(self), is_over: false };
            client.spawn_attached(|background| task::run(task, background));
        } else {
            self.changed.notify_one();
        }
        found
    }

    /// Offers unclaimed elements to waiters until either run out.
    fn offer_to_waiters(self: &Arc<Self>, now: Instant) {
        let Some(waiters) = self.waiters() else { return };
        let unclaimed = self.state().unclaimed.len();
        for waiter in waiters.first_waiters(unclaimed) {
            let mut state = self.state();
            let Some((number, element)) = state.unclaimed.pop_first() else { return };
            state.offered.insert(number, Offered { element, until: now + OFFER_TIME });
            drop(state);
            let claim = Claim { stock: Arc::clone(self), number };
            // If the waiter is gone, dropping the claim makes the element unclaimed again.
            waiters.complete(waiter, || Taken::Element(claim));
        }
    }

    /// Makes elements unclaimed again if their offers end at `now` or earlier.
    fn revoke_offers(&self, now: Instant) {
        let mut state = self.state();
        let State { offered, unclaimed, .. } = &mut *state;
        offered.retain(|number, offered| {
            let stays = offered.until > now;
            if !stays {
                unclaimed.insert(*number, std::mem::take(&mut offered.element));
            }
            stays
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: TakeSource> Claim<S> {
    /// Returns the element; `None` if the offer has expired.
    pub(crate) fn take(self) -> Option<Bytes> {
        let mut state = self.stock.state();
        let offered = state.offered.remove(&self.number);
        let was_last = state.offered.is_empty();
        drop(state);
        if was_last {
            // Wake the task: it may have no other work left, and can end.
            self.stock.changed.notify_one();
        }
        offered.map(|offered| offered.element)
    }
}

impl<S: TakeSource> Drop for Claim<S> {
    fn drop(&mut self) {
        let mut state = self.stock.state();
        if let Some(offered) = state.offered.remove(&self.number) {
            state.unclaimed.insert(self.number, offered.element);
            drop(state);
            // The task still runs, because it runs as long as an element is offered. Wake it.
            self.stock.changed.notify_one();
        }
    }
}
