//! Who asks, and how far each is: decided without a clock and without a lock of its own.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::ServerError;

/// What one is told: an error where his request never left, or what became of it is not known.
pub(super) type BatchResult<A> = Result<A, ServerError>;

/// When nobody has one, no more seats than these are kept for those who come again: 256, some 25 kilobytes.
const MAX_IDLE_SLOTS: usize = if cfg!(test) { 2 } else { 256 };

/// The seats. A number is somebody's until he was told or has left, and nobody else's meanwhile.
pub(super) struct WaiterSlab<Q, A> {
    slots: Vec<Waiter<Q, A>>,
    free: Vec<usize>,
    /// Those who wait for those before them, in the order in which they came.
    queue: VecDeque<usize>,
    /// Those whose requests are under way, in their order: so are their bounds.
    in_flight: VecDeque<usize>,
    /// As they left together, with those before them whose time is over.
    batches: VecDeque<Batch>,
    /// How many batches there were before these.
    finished_batches: u64,
    /// How many more there were before those under way, whose time is over.
    expired: usize,
    /// The latest of their bounds.
    latest_deadline: Instant,
    /// Who is told when nobody waits for a batch.
    driver_waker: Option<Waker>,
}

struct Batch {
    count: usize,
    /// How many of them wait for it.
    waiters_left: usize,
    /// It was said that nobody does.
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
        /// How many batches left before his.
        batch: u64,
    },
    Done(BatchResult<A>),
    /// Whose it was has left; it is still in the queue, or among those under way.
    Cancelled,
}

/// Those who are told, to be woken once nothing is locked.
#[must_use]
#[derive(Default)]
pub(super) struct WakeList {
    wakers: VecDeque<Waker>,
    replaced: ReplacedWaker,
}

/// Who need not be woken any more. What a waker keeps may go with it, and a seat on which it sits here: so it is dropped once
/// nothing is locked.
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

/// What panics, be it one of the wakers, leaves nobody asleep.
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
    /// A seat at the end of the queue.
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

    /// What he is told, whose seat it is; `waker` wakes him for it.
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

    /// Whose seat it is leaves. What he leaves behind is dropped once nothing is locked; the last of those who left together has the
    /// driver woken.
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

    /// One of a batch does not wait for it any more; whether nobody does.
    fn waiter_left(&mut self, batch: u64) -> bool {
        let batch = &mut self.batches[(batch - self.finished_batches) as usize];
        batch.waiters_left -= 1;
        batch.waiters_left == 0
    }

    /// Ready with the place of a batch for which nobody waits, once for each.
    pub(super) fn poll_abandoned(&mut self, cx: &Context<'_>) -> (Poll<usize>, ReplacedWaker) {
        match self.batches.iter().position(|batch| batch.waiters_left == 0 && !batch.is_abandoned) {
            Some(index) => {
                self.batches[index].is_abandoned = true;
                (Poll::Ready(index), None)
            }
            None => (Poll::Pending, replace_waker(&mut self.driver_waker, Some(cx.waker()))),
        }
    }

    /// Tells those who are in the queue and whose time is over by `now`: what they ask does not leave.
    pub(super) fn reject_expired(&mut self, now: Instant) -> WakeList {
        let mut to_wake = WakeList::default();
        while let Some(first) = self.first_in_queue() {
            let index = match &self.slots[first] {
                Waiter::Queued { until, .. } if *until <= now => first,
                _ => break,
            };
            self.queue.pop_front();
            self.complete(index, Err(ServerError::not_sent("those before it were not answered in time")), &mut to_wake);
        }
        to_wake
    }

    /// Takes those out of the queue who leave together, as many of the first as `fit` says: what they ask, the latest of their
    /// bounds, and the first moment at which somebody's time is over.
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

    /// Tells those whose time is over: in the queue at their bound, and of those under way a `response_timeout` later. Returns when to look again.
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
        // Whoever comes meanwhile has a bound that is not before these; nor before a timeout from now, where they are over.
        (to_wake, if self.latest_deadline > now { next.min(self.latest_deadline) } else { next })
    }

    /// How many there are, in the queue and under way.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }

    /// Tells those who have been under way for longest, in their order.
    pub(super) fn complete_batch(&mut self, answers: Vec<A>) -> WakeList {
        let Some(Batch { count, .. }) = self.batches.pop_front() else { return WakeList::default() };
        self.finished_batches += 1;
        let expired = self.expired.min(count);
        self.expired -= expired;
        // What it drives for may go before it drives again.
        let mut to_wake = WakeList { wakers: VecDeque::with_capacity(count), replaced: self.driver_waker.take() };
        let mut answers = answers.into_iter().skip(expired);
        for _ in expired..count {
            let Some(index) = self.in_flight.pop_front() else { break };
            self.complete(index, answers.next().ok_or_else(client_ended), &mut to_wake);
        }
        to_wake
    }

    /// Tells all that nobody drives any more.
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
            // He has left.
            _ => {
                self.slots[index] = Waiter::Free;
                self.release_slot(index);
            }
        }
    }

    /// The first in the queue who has not left.
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

    /// A seat is nobody's.
    fn release_slot(&mut self, index: usize) {
        self.free.push(index);
        if self.free.len() == self.slots.len() && self.slots.len() > MAX_IDLE_SLOTS {
            // What was not told yet goes on, for nobody.
            (self.slots, self.free) = Default::default();
            self.queue.shrink_to_fit();
            self.in_flight.shrink_to_fit();
        }
    }
}

/// What those in the queue ask who have not left.
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

/// Has `waker` instead of the one before it, which is given back where it is another.
fn replace_waker(current: &mut Option<Waker>, waker: Option<&Waker>) -> ReplacedWaker {
    match (&*current, waker) {
        (Some(current), Some(waker)) if current.will_wake(waker) => None,
        _ => std::mem::replace(current, waker.cloned()),
    }
}

/// Of whom nobody tells any more.
fn client_ended() -> ServerError {
    ServerError::unknown("the client ended before an answer came")
}

#[cfg(test)]
mod tests;
