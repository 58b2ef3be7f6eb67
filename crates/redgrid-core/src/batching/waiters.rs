//! The callers of a batcher, and the state of each. This module reads no clock and locks no mutex.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redgrid_client::ServerError;

use crate::clock::Instant;

/// The result of one request: an error if the request was never sent, or if its outcome is unknown.
pub(super) type BatchResult<A> = Result<A, ServerError>;

/// Maximum number of slots that are kept when all are free: 256, about 25 kilobytes.
const MAX_IDLE_SLOTS: usize = if cfg!(test) { 2 } else { 256 };

/// The slots of the callers.
///
/// A slot belongs to one caller only, until the caller has its result or is cancelled.
pub(super) struct WaiterSlab<Q, A> {
    slots: Vec<Waiter<Q, A>>,
    free: Vec<usize>,
    /// Slots of queued requests, in order of arrival.
    queue: VecDeque<usize>,
    /// Slots of requests in flight, in order of arrival, which is also the order of their
    /// deadlines.
    in_flight: VecDeque<usize>,
    /// The batches in flight. They include requests that have expired.
    batches: VecDeque<Batch>,
    /// Number of completed batches. These are no longer in `batches`.
    finished_batches: u64,
    /// Number of requests in `batches` that have expired and are no longer in `in_flight`.
    expired: usize,
    /// Latest deadline of the requests in `batches`.
    latest_deadline: Instant,
    /// Wakes the loop when the last caller of a batch is gone.
    driver_waker: Option<Waker>,
}

struct Batch {
    count: usize,
    /// Number of callers that still wait for the batch.
    waiters_left: usize,
    /// Whether `poll_abandoned` has reported that no caller waits for the batch.
    is_abandoned: bool,
}

pub(super) enum Waiter<Q, A> {
    Free,
    Queued {
        request: Q,
        until: Instant,
        waker: Option<Waker>,
    },
    InFlight {
        until: Instant,
        waker: Option<Waker>,
        /// The number of this request's batch: how many batches were formed before it.
        batch: u64,
    },
    Done(BatchResult<A>),
    /// The caller is gone, but the slot is still queued or in flight.
    Cancelled,
}

/// The wakers of callers that have their result. The wakers are called while no mutex is locked.
#[must_use]
#[derive(Default)]
pub(super) struct WakeList {
    wakers: VecDeque<Waker>,
    replaced: ReplacedWaker,
}

/// A waker that is no longer needed, or none.
///
/// Dropping the waker can drop the task of another caller. The dropped task cancels its slot, for
/// which it locks the mutex of the batcher's state. So the waker must be dropped while this mutex
/// is not locked.
pub(super) type ReplacedWaker = Option<Waker>;

impl WakeList {
    pub(super) fn wake(mut self) {
        self.wake_all();
    }

    fn wake_all(&mut self) {
        while let Some(waker) = self.wakers.pop_front() {
            waker.wake();
        }
        drop(self.replaced.take());
    }
}

/// Wakes the remaining callers even after a panic, for example of a waker.
impl Drop for WakeList {
    fn drop(&mut self) {
        self.wake_all();
    }
}

impl<Q, A> Default for WaiterSlab<Q, A> {
    fn default() -> Self {
        WaiterSlab {
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            batches: VecDeque::new(),
            finished_batches: 0,
            expired: 0,
            latest_deadline: Instant::MIN,
            driver_waker: None,
        }
    }
}

impl<Q, A> WaiterSlab<Q, A> {
    pub(super) fn enqueue(&mut self, request: Q, until: Instant, waker: Option<Waker>) -> usize {
        let waiter = Waiter::Queued { request, until, waker };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = waiter;
                index
            }
            None => {
                self.slots.push(waiter);
                self.slots.len() - 1
            }
        };
        self.queue.push_back(index);
        index
    }

    /// Returns the result of the caller in a slot. While there is no result, stores `waker` in the
    /// slot.
    pub(super) fn poll_result(&mut self, index: usize, waker: Option<&Waker>) -> (Poll<BatchResult<A>>, ReplacedWaker) {
        let waiter = &mut self.slots[index];
        if let Waiter::Queued { waker: current, .. } | Waiter::InFlight { waker: current, .. } = waiter {
            return (Poll::Pending, replace_waker(current, waker));
        }
        let result = match std::mem::replace(waiter, Waiter::Free) {
            Waiter::Done(result) => result,
            _ => Err(client_ended()),
        };
        self.release_slot(index);
        (Poll::Ready(result), None)
    }

    /// Cancels the caller of a slot.
    ///
    /// Returns the former state of the slot. The caller must drop this state while no mutex is
    /// locked. If the caller was the last one of its batch, also returns the waker of the loop.
    pub(super) fn cancel(&mut self, index: usize) -> (Waiter<Q, A>, Option<Waker>) {
        let removed = std::mem::replace(&mut self.slots[index], Waiter::Cancelled);
        let mut driver = None;
        match removed {
            Waiter::InFlight { batch, .. } => {
                let is_last = self.waiter_left(batch);
                driver = self.driver_waker.take_if(|_| is_last);
            }
            Waiter::Done(_) => {
                self.slots[index] = Waiter::Free;
                self.release_slot(index);
            }
            _ => {}
        }
        (removed, driver)
    }

    /// Records that a caller no longer waits for its batch. Returns whether no caller is left.
    fn waiter_left(&mut self, batch: u64) -> bool {
        let batch = &mut self.batches[(batch - self.finished_batches) as usize];
        batch.waiters_left -= 1;
        batch.waiters_left == 0
    }

    /// Returns the index of a batch in flight for which no caller waits. Each batch is returned
    /// once.
    pub(super) fn poll_abandoned(&mut self, cx: &Context<'_>) -> (Poll<usize>, ReplacedWaker) {
        match self.batches.iter().position(|batch| batch.waiters_left == 0 && !batch.is_abandoned) {
            Some(index) => {
                self.batches[index].is_abandoned = true;
                (Poll::Ready(index), None)
            }
            None => (Poll::Pending, replace_waker(&mut self.driver_waker, Some(cx.waker()))),
        }
    }

    /// Rejects the queued requests that have passed their deadline at `now`. They are not sent.
    pub(super) fn reject_expired(&mut self, now: Instant) -> WakeList {
        let mut to_wake = WakeList::default();
        while let Some(first) = self.first_in_queue() {
            let index = match &self.slots[first] {
                Waiter::Queued { until, .. } if *until <= now => first,
                _ => break,
            };
            self.queue.pop_front();
            self.complete(index, Err(ServerError::not_sent("earlier requests got no reply in time")), &mut to_wake);
        }
        to_wake
    }

    /// Takes a batch out of the queue. `max_prefix` returns how many of the first requests form it.
    ///
    /// Returns the requests, the latest of their deadlines, and the earliest.
    pub(super) fn take_batch(
        &mut self,
        max_prefix: impl FnOnce(QueuedRequests<'_, Q, A>) -> usize,
    ) -> Option<(Vec<Q>, Instant, Instant)> {
        self.first_in_queue()?;
        let count =
            max_prefix(QueuedRequests { slots: &self.slots, queue: self.queue.iter() }).clamp(1, self.queue.len());
        let (mut requests, mut latest, mut first) = (Vec::with_capacity(count), Instant::MIN, Instant::MAX);
        let batch = self.finished_batches + self.batches.len() as u64;
        if self.batches.is_empty() {
            self.latest_deadline = Instant::MIN;
        }
        while requests.len() < count
            && let Some(index) = self.queue.pop_front()
        {
            match std::mem::replace(&mut self.slots[index], Waiter::Free) {
                Waiter::Queued { request, until, waker } => {
                    self.slots[index] = Waiter::InFlight { until, waker, batch };
                    self.in_flight.push_back(index);
                    requests.push(request);
                    (latest, first) = (latest.max(until), first.min(until));
                }
                _ => self.release_slot(index),
            }
        }
        self.latest_deadline = self.latest_deadline.max(latest);
        self.batches.push_back(Batch { count: requests.len(), waiters_left: requests.len(), is_abandoned: false });
        Some((requests, latest, first))
    }

    /// Ends the requests that have timed out. Returns when this method must be called next.
    ///
    /// A request that is queued times out at its deadline. A request in flight has more time, by
    /// the duration `timeout`.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) -> (WakeList, Instant) {
        let mut to_wake = self.reject_expired(now);
        let mut next = match self.queue.front().map(|first| &self.slots[*first]) {
            Some(Waiter::Queued { until, .. }) => *until,
            _ => Instant::MAX,
        };
        while let Some(first) = self.in_flight.front().copied() {
            if let Waiter::InFlight { until, batch, .. } = self.slots[first] {
                if until + timeout > now {
                    next = next.min(until + timeout);
                    break;
                }
                self.waiter_left(batch);
            }
            self.in_flight.pop_front();
            self.expired += 1;
            self.complete(first, Err(ServerError::unknown("no answer came in time")), &mut to_wake);
        }
        // A new request does not wake the loop, so the next call must not be later than the
        // deadline of such a request. That deadline is never earlier than `latest_deadline`, so
        // `latest_deadline` is the limit. Once it has passed, no limit is needed: the deadline of a
        // new request is then at least a response timeout away.
        (to_wake, if self.latest_deadline > now { next.min(self.latest_deadline) } else { next })
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// Delivers the replies of the oldest batch in flight, in their order.
    pub(super) fn complete_batch(&mut self, answers: Vec<A>) -> WakeList {
        let Some(Batch { count, .. }) = self.batches.pop_front() else { return WakeList::default() };
        self.finished_batches += 1;
        let expired = self.expired.min(count);
        self.expired -= expired;
        // The loop soon continues by itself, and then notices all abandoned batches. So it need not
        // be woken.
        let mut to_wake = WakeList { wakers: VecDeque::with_capacity(count), replaced: self.driver_waker.take() };
        let mut answers = answers.into_iter().skip(expired);
        for _ in expired..count {
            let Some(index) = self.in_flight.pop_front() else { break };
            self.complete(index, answers.next().ok_or_else(client_ended), &mut to_wake);
        }
        to_wake
    }

    pub(super) fn fail_all(&mut self) -> WakeList {
        let mut to_wake = WakeList { wakers: VecDeque::new(), replaced: self.driver_waker.take() };
        self.finished_batches += std::mem::take(&mut self.batches).len() as u64;
        self.expired = 0;
        while let Some(index) = self.in_flight.pop_front() {
            self.complete(index, Err(client_ended()), &mut to_wake);
        }
        while let Some(index) = self.queue.pop_front() {
            self.complete(index, Err(ServerError::ShuttingDown), &mut to_wake);
        }
        to_wake
    }

    fn complete(&mut self, index: usize, result: BatchResult<A>, to_wake: &mut WakeList) {
        match std::mem::replace(&mut self.slots[index], Waiter::Done(result)) {
            Waiter::Queued { waker, .. } | Waiter::InFlight { waker, .. } => to_wake.wakers.extend(waker),
            // The caller is gone.
            _ => {
                self.slots[index] = Waiter::Free;
                self.release_slot(index);
            }
        }
    }

    /// Returns the slot of the first queued request that is not cancelled.
    fn first_in_queue(&mut self) -> Option<usize> {
        while let Some(first) = self.queue.front().copied() {
            if !matches!(self.slots[first], Waiter::Cancelled) {
                return Some(first);
            }
            self.queue.pop_front();
            self.slots[first] = Waiter::Free;
            self.release_slot(first);
        }
        None
    }

    fn release_slot(&mut self, index: usize) {
        self.free.push(index);
        if self.free.len() == self.slots.len() && self.slots.len() > MAX_IDLE_SLOTS {
            // No slot is in use. A batch that is still in flight has no callers, and continues
            // without slots.
            (self.slots, self.free) = Default::default();
            self.queue.shrink_to_fit();
            self.in_flight.shrink_to_fit();
        }
    }
}

/// The queued requests that are not cancelled.
pub(super) struct QueuedRequests<'a, Q, A> {
    slots: &'a [Waiter<Q, A>],
    queue: std::collections::vec_deque::Iter<'a, usize>,
}

impl<'a, Q, A> Iterator for QueuedRequests<'a, Q, A> {
    type Item = &'a Q;

    fn next(&mut self) -> Option<&'a Q> {
        loop {
            if let Waiter::Queued { request, .. } = &self.slots[*self.queue.next()?] {
                return Some(request);
            }
        }
    }
}

/// Replaces `current` by `waker`, and returns the replaced waker. If both wake the same task, keeps
/// `current`.
fn replace_waker(current: &mut Option<Waker>, waker: Option<&Waker>) -> ReplacedWaker {
    match (&*current, waker) {
        (Some(current), Some(waker)) if current.will_wake(waker) => None,
        _ => std::mem::replace(current, waker.cloned()),
    }
}

/// Returns the error of a request that can no longer get a reply.
fn client_ended() -> ServerError {
    ServerError::unknown("the client ended before an answer came")
}

#[cfg(test)]
mod tests;
