//! What several callers of one process ask of one key leaves as one request.
//!
//! The next batch collects while one is under way: there is no timer, and nothing is added to who is alone. A lone caller
//! polls his own request; with a second one a task goes on with it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use tokio::sync::oneshot;

use crate::clock::{Clock, Instant};
use crate::connection::Client;
use crate::error::ServerError;
use crate::hold::Flight;

/// What leaves together: what each asks, where each is answered, and the latest of their bounds.
struct Batch<C: Combine> {
    asks: Vec<C::Ask>,
    answers: Vec<Told<C>>,
    until: Instant,
}

/// Where one is answered: an error where its request never left.
type Told<C> = oneshot::Sender<Result<<C as Combine>::Answer, ServerError>>;

/// What can be combined, and how.
pub trait Combine: Send + Sync + 'static {
    /// What one caller asks.
    type Ask: Send + 'static;
    /// What he is told.
    type Answer: Send + 'static;

    /// How many of the first leave together; of `asks` there is one at least, and one leaves in any case.
    fn fit<'a>(&self, asks: impl Iterator<Item = &'a Self::Ask>) -> usize
    where
        Self::Ask: 'a;

    /// Carries a batch out: an answer for each, in their order, by `until`. It is dropped when nobody waits for any of them.
    fn carry_out(&self, batch: Vec<Self::Ask>, until: Instant) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// Combines what is asked through it. One for each key and client: see [`Client::shared`].
pub struct Combiner<C: Combine>(Arc<Inner<C>>);

struct Inner<C: Combine> {
    combine: C,
    state: Mutex<State<C>>,
}

struct State<C: Combine> {
    waiting: VecDeque<Waiting<C>>,
    next: u64,
    /// The loop runs; and, while its caller polls it, where.
    driven: bool,
    flight: Option<Flight>,
}

struct Waiting<C: Combine> {
    id: u64,
    ask: C::Ask,
    until: Instant,
    answer: Told<C>,
}

impl<C: Combine> Combiner<C> {
    /// One that has nothing to do yet.
    pub fn new(combine: C) -> Self {
        let state = State { waiting: VecDeque::new(), next: 0, driven: false, flight: None };
        Combiner(Arc::new(Inner { combine, state: Mutex::new(state) }))
    }

    /// Asks, together with others, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`ServerError::NotSent`] where those before it took longer than the client's patience, and it was given up;
    /// [`ServerError::Unknown`] where the client ended before an answer came, or none had come a timeout after its patience.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for those before it, it is not asked; nor later, before it has left, unless others leave with it.
    pub async fn ask(&self, client: &Client, ask: C::Ask) -> Result<C::Answer, ServerError> {
        let (answer, told) = oneshot::channel();
        let until = client.clock().now() + client.patience();
        let (id, flight) = self.0.enter(client, (ask, until), answer);
        let landing = Landing { flight, client };
        // Dropped before the landing is: who goes on with it knows that nobody waits.
        let mut told = told;
        let outcome = poll_fn(|cx| match &landing.flight {
            Some(flight) if flight.poll(cx) => match told.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                told => Poll::Ready(told.ok()),
            },
            _ => Pin::new(&mut told).poll(cx).map(Result::ok),
        });
        let ended = || ServerError::unknown("the client ended before an answer came");
        self.0.bounded(client, (id, until), outcome).await?.unwrap_or_else(|| Err(ended()))
    }
}

impl<C: Combine> Inner<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(
        self: &Arc<Self>,
        client: &Client,
        (ask, until): (C::Ask, Instant),
        answer: Told<C>,
    ) -> (u64, Option<Flight>) {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        state.waiting.push_back(Waiting { id, ask, until, answer });
        if state.driven {
            // Another caller polls it, who may stop to: from here on a task does.
            let theirs = state.flight.take();
            drop(state);
            theirs.and_then(|flight| flight.take()).into_iter().for_each(|work| client.run_in_background(work));
            return (id, None);
        }
        state.driven = true;
        let flight =
            Flight::new(Box::pin(drive(Driving { inner: Arc::clone(self), is_over: false }, client.clock().clone())));
        state.flight = Some(flight.clone());
        (id, Some(flight))
    }

    /// Waits for the outcome; what has not left when the time is over does not leave any more.
    async fn bounded<T>(
        &self,
        client: &Client,
        (id, until): (u64, Instant),
        outcome: impl Future<Output = T>,
    ) -> Result<T, ServerError> {
        let mut outcome = std::pin::pin!(outcome);
        tokio::select! {
            biased;
            outcome = &mut outcome => return Ok(outcome),
            () = client.clock().sleep_until(until) => {}
        }
        let waits = {
            let mut state = self.state();
            let at = state.waiting.iter().position(|waiting| waiting.id == id);
            at.and_then(|at| state.waiting.remove(at)).is_some()
        };
        match waits {
            true => Err(ServerError::not_sent("those before it were not answered in time")),
            // It has left, with others who may wait longer.
            false => tokio::select! {
                biased;
                outcome = &mut outcome => Ok(outcome),
                () = client.clock().sleep_until(until + client.timeout()) => {
                    Err(ServerError::unknown("no answer came in time"))
                }
            },
        }
    }

    /// Those who leave next; nobody, and the loop ends, where nobody waits. Whose time is over is told so by itself.
    fn next_batch(&self, now: Instant) -> Option<Batch<C>> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.waiting.retain(|waiting| !waiting.answer.is_closed());
        let (late, waiting) =
            std::mem::take(&mut state.waiting).into_iter().partition(|waiting: &Waiting<C>| waiting.until <= now);
        state.waiting = waiting;
        refuse(late, "those before it were not answered in time");
        if state.waiting.is_empty() {
            (state.driven, state.flight) = (false, None);
            return None;
        }
        let fit = self.combine.fit(state.waiting.iter().map(|waiting| &waiting.ask));
        let leaving = state.waiting.drain(..fit.clamp(1, state.waiting.len()));
        let mut batch = Batch { asks: Vec::new(), answers: Vec::new(), until: Instant::PAST };
        for Waiting { ask, answer, until, .. } in leaving {
            batch.asks.push(ask);
            batch.answers.push(answer);
            batch.until = batch.until.max(until);
        }
        Some(batch)
    }
}

/// Tells some that what they asked has not left, and will not.
fn refuse<C: Combine>(waiting: VecDeque<Waiting<C>>, why: &'static str) {
    for Waiting { answer, .. } in waiting {
        let _ = answer.send(Err(ServerError::not_sent(why)));
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
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            refuse(waiting, "the client is shut down");
        }
    }
}

async fn drive<C: Combine>(mut driving: Driving<C>, clock: Clock) {
    let inner = Arc::clone(&driving.inner);
    while let Some(Batch { asks, mut answers, until }) = inner.next_batch(clock.now()) {
        let told = tokio::select! {
            biased;
            () = deserted(&mut answers) => continue,
            told = inner.combine.carry_out(asks, until) => told,
        };
        let together = told.len() > 1;
        for (answer, told) in answers.into_iter().zip(told) {
            let _ = answer.send(Ok(told));
        }
        if together {
            // Those who were answered together may ask again, together.
            tokio::task::yield_now().await;
        }
    }
    driving.is_over = true;
}

/// Completes when nobody waits for any of the answers.
async fn deserted<T>(answers: &mut [oneshot::Sender<T>]) {
    for answer in answers {
        answer.closed().await;
    }
}

/// A caller who polls the loop; when he leaves, a task goes on with it.
struct Landing<'a> {
    flight: Option<Flight>,
    client: &'a Client,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.flight.take().and_then(|flight| flight.take()) {
            self.client.run_in_background(work);
        }
    }
}
