//! What several callers of one process ask of one key leaves as one request.
//!
//! The next batch collects while one is under way: there is no timer. On a runtime of one thread client and server would take turns then, each
//! idle while the other works: there two or three may be under way, with as much of all in each (measured: 1.1 to 1.5 times). A lone caller
//! polls his own request; with a second one a task goes on with it. Who asks has a seat until he is told or leaves, and nothing
//! of his own besides: seats are used again, and whoever drives the loop looks after the time of all.

mod seats;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{MaybeDone, maybe_done, poll_immediate};
use tokio::task::yield_now;

use self::seats::{Seats, Told};
use crate::clock::{Clock, Instant};
use crate::connection::Client;
use crate::error::ServerError;
use crate::lock::InlineTask;

/// So many ask where a second batch under way is worth its request.
const FEW: usize = 8;

/// So many ask where two batches with half of all in each serve better than three (measured on one thread: three are 1.2 to 1.3 times as
/// fast for 10 to 20 who ask, the same for 64, and 0.8 times for 256).
const MANY: usize = 40;

/// What can be combined, and how.
pub trait Combine: Send + Sync + 'static {
    /// What one caller asks.
    type Ask: Send + 'static;
    /// What he is told.
    type Answer: Send + 'static;

    /// How many batches may be under way at a time from a runtime of one thread: more than one where it does not matter which of
    /// them is carried out first when one of them has to be asked again. They are told their answers in their order.
    const WAYS: usize = 1;

    /// How many of the first leave together; of `asks` there is one at least, and one leaves in any case.
    fn fit<'a>(&self, asks: impl Iterator<Item = &'a Self::Ask>) -> usize
    where
        Self::Ask: 'a;

    /// Carries a batch out: an answer for each, in their order, by `until`. It is dropped when nobody waits for any of them, whatever
    /// else is under way.
    fn carry_out(&self, batch: Vec<Self::Ask>, until: Instant) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Combines what is asked through it. One for each key and client: see [`Client::shared`].
pub struct Combiner<C: Combine>(Arc<Inner<C>>);

struct Inner<C: Combine> {
    combine: C,
    state: Mutex<State<C>>,
}

struct State<C: Combine> {
    seats: Seats<C::Ask, C::Answer>,
    /// The loop runs; and, while its caller polls it, where.
    driven: bool,
    flight: Option<InlineTask>,
}

impl<C: Combine> Combiner<C> {
    /// One that has nothing to do yet.
    pub fn new(combine: C) -> Self {
        let state = State { seats: Seats::default(), driven: false, flight: None };
        Combiner(Arc::new(Inner { combine, state: Mutex::new(state) }))
    }

    /// Asks, together with others, and waits for the answer.
    ///
    /// What more than one asks is driven by the client, in the runtime in which that was made; so is the time of each. While nothing
    /// drives that runtime (it has one thread, and that is blocked, or in no `block_on`), nobody is told anything.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotSent`] where those before it took longer than the client's patience, and
    /// it was given up; [`ServerError::ShuttingDown`] where the client ended before it left;
    /// [`ServerError::Unknown`] where the client ended before an answer came, or none had come a timeout after its patience.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for those before it, it is not asked; nor later, before it has left, unless others leave with it.
    pub async fn ask(&self, client: &Client, ask: C::Ask) -> Result<C::Answer, ServerError> {
        let mut landing = Landing { flight: None, client };
        // Dropped before the landing is: who goes on with it knows that nobody waits.
        let mut seat = Seat { inner: &self.0, number: None };
        let mut ask = Some(ask);
        poll_fn(|cx| {
            if let Some(ask) = ask.take() {
                landing.flight = seat.take(client, ask, cx);
                if landing.flight.is_none() {
                    return Poll::Pending;
                }
            }
            let is_here = landing.flight.as_ref().is_some_and(|flight| flight.poll(cx));
            seat.told(cx, is_here)
        })
        .await
        .map_err(|error| if error == ServerError::ShuttingDown { client.ended() } else { error })
    }
}

/// One who asks. Dropped, he has left.
struct Seat<'a, C: Combine> {
    inner: &'a Arc<Inner<C>>,
    number: Option<usize>,
}

impl<C: Combine> Seat<'_, C> {
    /// Takes one. Where nobody drives the loop he does, for whom it is now.
    fn take(&mut self, client: &Client, ask: C::Ask, cx: &Context<'_>) -> Option<InlineTask> {
        let mut state = self.inner.state();
        // Looked at with the seats locked: nobody in the queue has a bound before that of those before him.
        let until = client.clock().now() + client.patience();
        if state.driven {
            self.number = Some(state.seats.take(ask, until, Some(cx.waker().clone())));
            // Another caller polls it, who may stop to: from here on a task does.
            let theirs = state.flight.take();
            drop(state);
            theirs.and_then(|flight| flight.take()).into_iter().for_each(|work| client.run_in_background(work));
            return None;
        }
        self.number = Some(state.seats.take(ask, until, None));
        state.driven = true;
        let driving = Driving { inner: Arc::clone(self.inner), is_over: false };
        let ways = if client.core().one_thread { C::WAYS } else { 1 };
        let flight = InlineTask::new(Box::pin(drive(driving, ways, client.clock().clone(), client.response_timeout())));
        state.flight = Some(flight.clone());
        Some(flight)
    }

    /// What he is told; he is woken for it, unless he polls the loop himself.
    fn told(&mut self, cx: &Context<'_>, is_here: bool) -> Poll<Told<C::Answer>> {
        let waker = (!is_here).then(|| cx.waker());
        let Some(number) = self.number else { return Poll::Pending };
        let (told, _spent) = self.inner.state().seats.told(number, waker);
        if told.is_ready() {
            self.number = None;
        }
        told
    }
}

impl<C: Combine> Drop for Seat<'_, C> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let (_left, driver) = self.inner.state().seats.leave(number);
            driver.into_iter().for_each(Waker::wake);
        }
    }
}

impl<C: Combine> Inner<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Those who leave next, the latest of their bounds, and when the first is over; nobody where nobody waits, and the loop ends, unless a
    /// batch is under way.
    fn next_batch(&self, now: Instant, ways: usize, under_way: usize) -> Option<(Vec<C::Ask>, Instant, Instant)> {
        // They are woken once nothing is locked, also where `fit` panics.
        let late;
        let mut state = self.state();
        late = state.seats.refuse_late(now);
        let all = state.seats.len();
        let ways = match all {
            0..FEW => 1,
            FEW..MANY => ways,
            _ => ways.min(2),
        };
        let batch = match under_way < ways {
            true => state.seats.leaving(|asks| self.combine.fit(asks.take(all.div_ceil(ways)))),
            false => None,
        };
        if batch.is_none() && under_way == 0 {
            (state.driven, state.flight) = (false, None);
        }
        drop(state);
        late.wake();
        batch
    }

    /// Completes when nobody waits any more for a batch that is under way: that one.
    async fn deserted(&self) -> usize {
        let poll = |cx: &mut Context<'_>| {
            let (deserted, _spent) = self.state().seats.deserted(cx);
            deserted
        };
        poll_fn(poll).await
    }

    /// Tells those whose time is over; returns when the next one's is.
    fn expire(&self, now: Instant, timeout: Duration) -> Instant {
        let (late, next) = self.state().seats.expire(now, timeout);
        late.wake();
        next
    }
}

/// The loop. However it ends, nobody waits for nothing, and the next to come begins it anew.
struct Driving<C: Combine> {
    inner: Arc<Inner<C>>,
    is_over: bool,
}

impl<C: Combine> Drop for Driving<C> {
    fn drop(&mut self) {
        // After an orderly end another may have begun already.
        if !self.is_over {
            let mut state = self.inner.state();
            (state.driven, state.flight) = (false, None);
            let all = state.seats.end();
            drop(state);
            all.wake();
        }
    }
}

async fn drive<C: Combine>(mut driving: Driving<C>, ways: usize, clock: Clock, timeout: Duration) {
    let inner = Arc::clone(&driving.inner);
    let mut under_way = VecDeque::new();
    let mut due = Instant::NEVER;
    loop {
        let mut sends = false;
        while let Some((asks, until, first)) = inner.next_batch(clock.now(), ways, under_way.len()) {
            due = if under_way.is_empty() { first } else { due.min(first) };
            under_way.push_back(Box::pin(maybe_done(inner.combine.carry_out(asks, until))));
            sends = true;
        }
        if under_way.is_empty() {
            break;
        }
        if sends && under_way.len() > 1 {
            // What leaves is on its way before others are told: the server has work meanwhile.
            let _ = poll_immediate(go_on(&mut under_way)).await;
            yield_now().await;
        }
        loop {
            tokio::select! {
                biased;
                place = inner.deserted() => under_way[place] = Box::pin(MaybeDone::Done(Vec::new())),
                () = go_on(&mut under_way) => break,
                () = clock.sleep_until(due) => due = inner.expire(clock.now(), timeout),
            }
        }
        let answers = under_way.pop_front().and_then(|mut first| first.as_mut().take_output()).unwrap_or_default();
        let together = answers.len() > 1;
        let told = inner.state().seats.tell(answers);
        told.wake();
        if together {
            // Those who were answered together may ask again, together.
            yield_now().await;
        }
    }
    driving.is_over = true;
}

/// Has all go on, until the first is done.
async fn go_on<F: Future>(under_way: &mut VecDeque<Pin<Box<MaybeDone<F>>>>) {
    poll_fn(|cx| {
        let mut first = None;
        for one in under_way.iter_mut() {
            let polled = one.as_mut().poll(cx);
            first.get_or_insert(polled);
        }
        first.unwrap_or(Poll::Ready(()))
    })
    .await;
}

/// A caller who polls the loop; when he leaves, a task goes on with it.
struct Landing<'a> {
    flight: Option<InlineTask>,
    client: &'a Client,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.flight.take().and_then(|flight| flight.take()) {
            self.client.run_in_background(work);
        }
    }
}
