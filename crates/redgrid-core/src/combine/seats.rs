//! Who asks, and how far each is: decided without a clock and without a lock of its own.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::ServerError;

/// What one is told: an error where his request never left, or what became of it is not known.
pub(super) type Told<A> = Result<A, ServerError>;

/// When nobody has one, no more seats than these are kept for those who come again: 256, some 25 kilobytes.
const MOST_KEPT: usize = if cfg!(test) { 2 } else { 256 };

/// The seats. A number is somebody's until he was told or has left, and nobody else's meanwhile.
pub(super) struct Seats<Q, A> {
    seats: Vec<Seat<Q, A>>,
    free: Vec<usize>,
    /// Those who wait for those before them, in the order in which they came.
    queue: VecDeque<usize>,
    /// Those whose requests are under way, in their order: so are their bounds.
    under_way: VecDeque<usize>,
    /// As they left together, with those before them whose time is over.
    batches: VecDeque<Batch>,
    /// How many batches there were before these.
    former: u64,
    /// How many more there were before those under way, whose time is over.
    over: usize,
    /// The latest of their bounds.
    latest: Instant,
    /// Who is told when nobody waits for a batch.
    driver: Option<Waker>,
}

struct Batch {
    count: usize,
    /// How many of them wait for it.
    awaited: usize,
    /// It was said that nobody does.
    is_deserted: bool,
}

pub(super) enum Seat<Q, A> {
    Free,
    Waits {
        ask: Q,
        until: Instant,
        waker: Option<Waker>,
    },
    UnderWay {
        until: Instant,
        waker: Option<Waker>,
        /// How many batches left before his.
        batch: u64,
    },
    Told(Told<A>),
    /// Whose it was has left; it is still in the queue, or among those under way.
    Left,
}

/// Those who are told, to be woken once nothing is locked.
#[must_use]
#[derive(Default)]
pub(super) struct Woken {
    wakers: VecDeque<Waker>,
    spent: Spent,
}

/// Who need not be woken any more. What a waker keeps may go with it, and a seat on which it sits here: so it is dropped once
/// nothing is locked.
pub(super) type Spent = Option<Waker>;

impl Woken {
    pub(super) fn wake(mut self) {
        self.wake_all();
    }

    fn wake_all(&mut self) {
        while let Some(waker) = self.wakers.pop_front() {
            waker.wake();
        }
        drop(self.spent.take());
    }
}

/// What panics, be it one of the wakers, leaves nobody asleep.
impl Drop for Woken {
    fn drop(&mut self) {
        self.wake_all();
    }
}

impl<Q, A> Default for Seats<Q, A> {
    fn default() -> Self {
        Seats {
            seats: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            under_way: VecDeque::new(),
            batches: VecDeque::new(),
            former: 0,
            over: 0,
            latest: Instant::PAST,
            driver: None,
        }
    }
}

impl<Q, A> Seats<Q, A> {
    /// A seat at the end of the queue.
    pub(super) fn take(&mut self, ask: Q, until: Instant, waker: Option<Waker>) -> usize {
        let seat = Seat::Waits { ask, until, waker };
        let number = match self.free.pop() {
            Some(number) => {
                self.seats[number] = seat;
                number
            }
            None => {
                self.seats.push(seat);
                self.seats.len() - 1
            }
        };
        self.queue.push_back(number);
        number
    }

    /// What he is told, whose seat it is; `waker` wakes him for it.
    pub(super) fn told(&mut self, number: usize, waker: Option<&Waker>) -> (Poll<Told<A>>, Spent) {
        let seat = &mut self.seats[number];
        if let Seat::Waits { waker: known, .. } | Seat::UnderWay { waker: known, .. } = seat {
            return (Poll::Pending, renew(known, waker));
        }
        let told = match std::mem::replace(seat, Seat::Free) {
            Seat::Told(told) => told,
            _ => Err(ended()),
        };
        self.give_back(number);
        (Poll::Ready(told), None)
    }

    /// Whose seat it is leaves. What he leaves behind is dropped once nothing is locked; the last of those who left together has the
    /// driver woken.
    pub(super) fn leave(&mut self, number: usize) -> (Seat<Q, A>, Option<Waker>) {
        let left = std::mem::replace(&mut self.seats[number], Seat::Left);
        let mut driver = None;
        match left {
            Seat::UnderWay { batch, .. } => {
                let is_last = self.leaves(batch);
                driver = self.driver.take_if(|_| is_last);
            }
            Seat::Told(_) => {
                self.seats[number] = Seat::Free;
                self.give_back(number);
            }
            _ => {}
        }
        (left, driver)
    }

    /// One of a batch does not wait for it any more; whether nobody does.
    fn leaves(&mut self, batch: u64) -> bool {
        let batch = &mut self.batches[(batch - self.former) as usize];
        batch.awaited -= 1;
        batch.awaited == 0
    }

    /// Ready with the place of a batch for which nobody waits, once for each.
    pub(super) fn deserted(&mut self, cx: &Context<'_>) -> (Poll<usize>, Spent) {
        match self.batches.iter().position(|batch| batch.awaited == 0 && !batch.is_deserted) {
            Some(place) => {
                self.batches[place].is_deserted = true;
                (Poll::Ready(place), None)
            }
            None => (Poll::Pending, renew(&mut self.driver, Some(cx.waker()))),
        }
    }

    /// Tells those who are in the queue and whose time is over by `now`: what they ask does not leave.
    pub(super) fn refuse_late(&mut self, now: Instant) -> Woken {
        let mut late = Woken::default();
        while let Some(first) = self.first_in_queue() {
            let number = match &self.seats[first] {
                Seat::Waits { until, .. } if *until <= now => first,
                _ => break,
            };
            self.queue.pop_front();
            self.answer(number, Err(ServerError::not_sent("those before it were not answered in time")), &mut late);
        }
        late
    }

    /// Takes those out of the queue who leave together, as many of the first as `fit` says: what they ask, the latest of their
    /// bounds, and the first moment at which somebody's time is over.
    pub(super) fn leaving(
        &mut self,
        fit: impl FnOnce(Waiting<'_, Q, A>) -> usize,
    ) -> Option<(Vec<Q>, Instant, Instant)> {
        self.first_in_queue()?;
        let fit = fit(Waiting { seats: &self.seats, queue: self.queue.iter() }).clamp(1, self.queue.len());
        let (mut asks, mut latest, mut first) = (Vec::with_capacity(fit), Instant::PAST, Instant::NEVER);
        let batch = self.former + self.batches.len() as u64;
        if self.batches.is_empty() {
            self.latest = Instant::PAST;
        }
        while asks.len() < fit
            && let Some(number) = self.queue.pop_front()
        {
            match std::mem::replace(&mut self.seats[number], Seat::Free) {
                Seat::Waits { ask, until, waker } => {
                    self.seats[number] = Seat::UnderWay { until, waker, batch };
                    self.under_way.push_back(number);
                    asks.push(ask);
                    (latest, first) = (latest.max(until), first.min(until));
                }
                _ => self.give_back(number),
            }
        }
        self.latest = self.latest.max(latest);
        self.batches.push_back(Batch { count: asks.len(), awaited: asks.len(), is_deserted: false });
        Some((asks, latest, first))
    }

    /// Tells those whose time is over: in the queue at their bound, and of those under way a `response_timeout` later. Returns when to look again.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) -> (Woken, Instant) {
        let mut late = self.refuse_late(now);
        let mut next = match self.queue.front().map(|first| &self.seats[*first]) {
            Some(Seat::Waits { until, .. }) => *until,
            _ => Instant::NEVER,
        };
        while let Some(first) = self.under_way.front().copied() {
            if let Seat::UnderWay { until, batch, .. } = self.seats[first] {
                if until + timeout > now {
                    next = next.min(until + timeout);
                    break;
                }
                self.leaves(batch);
            }
            self.under_way.pop_front();
            self.over += 1;
            self.answer(first, Err(ServerError::unknown("no answer came in time")), &mut late);
        }
        // Whoever comes meanwhile has a bound that is not before these; nor before a timeout from now, where they are over.
        (late, if self.latest > now { next.min(self.latest) } else { next })
    }

    /// How many there are, in the queue and under way.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.under_way.len()
    }

    /// Tells those who have been under way for longest, in their order.
    pub(super) fn tell(&mut self, answers: Vec<A>) -> Woken {
        let Some(Batch { count, .. }) = self.batches.pop_front() else { return Woken::default() };
        self.former += 1;
        let over = self.over.min(count);
        self.over -= over;
        // What it drives for may go before it drives again.
        let mut woken = Woken { wakers: VecDeque::with_capacity(count), spent: self.driver.take() };
        let mut answers = answers.into_iter().skip(over);
        for _ in over..count {
            let Some(number) = self.under_way.pop_front() else { break };
            self.answer(number, answers.next().ok_or_else(ended), &mut woken);
        }
        woken
    }

    /// Tells all that nobody drives any more.
    pub(super) fn end(&mut self) -> Woken {
        let mut woken = Woken { wakers: VecDeque::new(), spent: self.driver.take() };
        self.former += std::mem::take(&mut self.batches).len() as u64;
        self.over = 0;
        while let Some(number) = self.under_way.pop_front() {
            self.answer(number, Err(ended()), &mut woken);
        }
        while let Some(number) = self.queue.pop_front() {
            self.answer(number, Err(ServerError::ShuttingDown), &mut woken);
        }
        woken
    }

    fn answer(&mut self, number: usize, answer: Told<A>, woken: &mut Woken) {
        match std::mem::replace(&mut self.seats[number], Seat::Told(answer)) {
            Seat::Waits { waker, .. } | Seat::UnderWay { waker, .. } => woken.wakers.extend(waker),
            // He has left.
            _ => {
                self.seats[number] = Seat::Free;
                self.give_back(number);
            }
        }
    }

    /// The first in the queue who has not left.
    fn first_in_queue(&mut self) -> Option<usize> {
        while let Some(first) = self.queue.front().copied() {
            if !matches!(self.seats[first], Seat::Left) {
                return Some(first);
            }
            self.queue.pop_front();
            self.seats[first] = Seat::Free;
            self.give_back(first);
        }
        None
    }

    /// A seat is nobody's.
    fn give_back(&mut self, number: usize) {
        self.free.push(number);
        if self.free.len() == self.seats.len() && self.seats.len() > MOST_KEPT {
            // What was not told yet goes on, for nobody.
            (self.seats, self.free) = Default::default();
            self.queue.shrink_to_fit();
            self.under_way.shrink_to_fit();
        }
    }
}

/// What those in the queue ask who have not left.
pub(super) struct Waiting<'a, Q, A> {
    seats: &'a [Seat<Q, A>],
    queue: std::collections::vec_deque::Iter<'a, usize>,
}

impl<'a, Q, A> Iterator for Waiting<'a, Q, A> {
    type Item = &'a Q;

    fn next(&mut self) -> Option<&'a Q> {
        loop {
            if let Seat::Waits { ask, .. } = &self.seats[*self.queue.next()?] {
                return Some(ask);
            }
        }
    }
}

/// Has `waker` instead of the one before it, which is given back where it is another.
fn renew(known: &mut Option<Waker>, waker: Option<&Waker>) -> Spent {
    match (&*known, waker) {
        (Some(known), Some(waker)) if known.will_wake(waker) => None,
        _ => std::mem::replace(known, waker.cloned()),
    }
}

/// Of whom nobody tells any more.
fn ended() -> ServerError {
    ServerError::unknown("the client ended before an answer came")
}

#[cfg(test)]
mod tests;
