//! What several callers of one process ask of one key leaves as one request.
//!
//! The next batch collects while one is under way: there is no timer. On a runtime of one thread client and server would take turns then, each
//! idle while the other works: there two or three may be under way, with as much of all in each (measured: 1.1 to 1.5 times). A lone caller
//! polls his own request; with a second one a task goes on with it. Who asks has a seat until he is told or leaves, and nothing
//! of his own besides: seats are used again, and whoever drives the loop looks after the time of all.

mod waiters;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{MaybeDone, maybe_done, poll_immediate};
use tokio::task::yield_now;

use self::waiters::{BatchResult, WaiterSlab};
use crate::clock::{Clock, Instant};
use crate::connection::Client;
use crate::error::ServerError;
use crate::lock::InlineTask;

/// So many ask where a second batch under way is worth its request.
const CONCURRENT_BATCHES_FROM: usize = 8;

/// So many ask where two batches with half of all in each serve better than three (measured on one thread: three are 1.2 to 1.3 times as
/// fast for 10 to 20 who ask, the same for 64, and 0.8 times for 256).
const TWO_BATCHES_FROM: usize = 40;

/// What can be combined, and how.
pub trait BatchExecutor: Send + Sync + 'static {
    /// What one caller asks.
    type Request: Send + 'static;
    /// What he is told.
    type Reply: Send + 'static;

    /// How many batches may be under way at a time from a runtime of one thread: more than one where it does not matter which of
    /// them is carried out first when one of them has to be asked again. They are told their answers in their order.
    const MAX_IN_FLIGHT: usize = 1;

    /// How many of the first leave together; of `asks` there is one at least, and one leaves in any case.
    fn max_prefix<'a>(&self, requests: impl Iterator<Item = &'a Self::Request>) -> usize
    where
        Self::Request: 'a;

    /// Carries a batch out: an answer for each, in their order, by `until`. It is dropped when nobody waits for any of them, whatever
    /// else is under way.
    fn execute(&self, batch: Vec<Self::Request>, until: Instant) -> impl Future<Output = Vec<Self::Reply>> + Send;
}

/// Combines what is asked through it. One for each key and client: see [`Client::shared`].
pub struct Batcher<C: BatchExecutor>(Arc<Inner<C>>);

struct Inner<C: BatchExecutor> {
    executor: C,
    state: Mutex<State<C>>,
}

struct State<C: BatchExecutor> {
    waiters: WaiterSlab<C::Request, C::Reply>,
    /// The loop runs; and, while its caller polls it, where.
    loop_running: bool,
    inline_task: Option<InlineTask>,
}

impl<C: BatchExecutor> Batcher<C> {
    /// One that has nothing to do yet.
    pub fn new(executor: C) -> Self {
        let state = State { waiters: WaiterSlab::default(), loop_running: false, inline_task: None };
        Batcher(Arc::new(Inner { executor, state: Mutex::new(state) }))
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
    pub async fn submit(&self, client: &Client, request: C::Request) -> Result<C::Reply, ServerError> {
        let mut inline_loop = InlineLoop { inline_task: None, client };
        // Dropped before the landing is: who goes on with it knows that nobody waits.
        let mut waiter = WaiterGuard { inner: &self.0, index: None };
        let mut request = Some(request);
        poll_fn(|cx| {
            if let Some(request) = request.take() {
                inline_loop.inline_task = waiter.enqueue(client, request, cx);
                if inline_loop.inline_task.is_none() {
                    return Poll::Pending;
                }
            }
            let polled_inline = inline_loop.inline_task.as_ref().is_some_and(|inline_task| inline_task.poll(cx));
            waiter.poll_result(cx, polled_inline)
        })
        .await
        .map_err(|error| if error == ServerError::ShuttingDown { client.ended() } else { error })
    }
}

/// One who asks. Dropped, he has left.
struct WaiterGuard<'a, C: BatchExecutor> {
    inner: &'a Arc<Inner<C>>,
    index: Option<usize>,
}

impl<C: BatchExecutor> WaiterGuard<'_, C> {
    /// Takes one. Where nobody drives the loop he does, for whom it is now.
    fn enqueue(&mut self, client: &Client, request: C::Request, cx: &Context<'_>) -> Option<InlineTask> {
        let mut state = self.inner.state();
        // Looked at with the seats locked: nobody in the queue has a bound before that of those before him.
        let until = client.clock().now() + client.patience();
        if state.loop_running {
            self.index = Some(state.waiters.enqueue(request, until, Some(cx.waker().clone())));
            // Another caller polls it, who may stop to: from here on a task does.
            let running = state.inline_task.take();
            drop(state);
            running
                .and_then(|inline_task| inline_task.take())
                .into_iter()
                .for_each(|work| client.run_in_background(work));
            return None;
        }
        self.index = Some(state.waiters.enqueue(request, until, None));
        state.loop_running = true;
        let guard = LoopGuard { inner: Arc::clone(self.inner), finished: false };
        let max_in_flight = if client.core().one_thread { C::MAX_IN_FLIGHT } else { 1 };
        let inline_task = InlineTask::new(Box::pin(batch_loop(
            guard,
            max_in_flight,
            client.clock().clone(),
            client.response_timeout(),
        )));
        state.inline_task = Some(inline_task.clone());
        Some(inline_task)
    }

    /// What he is told; he is woken for it, unless he polls the loop himself.
    fn poll_result(&mut self, cx: &Context<'_>, polled_inline: bool) -> Poll<BatchResult<C::Reply>> {
        let waker = (!polled_inline).then(|| cx.waker());
        let Some(index) = self.index else { return Poll::Pending };
        let (result, _replaced) = self.inner.state().waiters.poll_result(index, waker);
        if result.is_ready() {
            self.index = None;
        }
        result
    }
}

impl<C: BatchExecutor> Drop for WaiterGuard<'_, C> {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            let (_waiter, driver) = self.inner.state().waiters.cancel(index);
            driver.into_iter().for_each(Waker::wake);
        }
    }
}

impl<C: BatchExecutor> Inner<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Those who leave next, the latest of their bounds, and when the first is over; nobody where nobody waits, and the loop ends, unless a
    /// batch is under way.
    fn next_batch(
        &self,
        now: Instant,
        max_in_flight: usize,
        in_flight: usize,
    ) -> Option<(Vec<C::Request>, Instant, Instant)> {
        // They are woken once nothing is locked, also where `fit` panics.
        let to_wake;
        let mut state = self.state();
        to_wake = state.waiters.reject_expired(now);
        let all = state.waiters.len();
        let max_in_flight = match all {
            0..CONCURRENT_BATCHES_FROM => 1,
            CONCURRENT_BATCHES_FROM..TWO_BATCHES_FROM => max_in_flight,
            _ => max_in_flight.min(2),
        };
        let batch = match in_flight < max_in_flight {
            true => state
                .waiters
                .take_batch(|requests| self.executor.max_prefix(requests.take(all.div_ceil(max_in_flight)))),
            false => None,
        };
        if batch.is_none() && in_flight == 0 {
            (state.loop_running, state.inline_task) = (false, None);
        }
        drop(state);
        to_wake.wake();
        batch
    }

    /// Completes when nobody waits any more for a batch that is under way: that one.
    async fn next_abandoned(&self) -> usize {
        let poll = |cx: &mut Context<'_>| {
            let (abandoned, _replaced) = self.state().waiters.poll_abandoned(cx);
            abandoned
        };
        poll_fn(poll).await
    }

    /// Tells those whose time is over; returns when the next one's is.
    fn expire(&self, now: Instant, timeout: Duration) -> Instant {
        let (to_wake, next) = self.state().waiters.expire(now, timeout);
        to_wake.wake();
        next
    }
}

/// The loop. However it ends, nobody waits for nothing, and the next to come begins it anew.
struct LoopGuard<C: BatchExecutor> {
    inner: Arc<Inner<C>>,
    finished: bool,
}

impl<C: BatchExecutor> Drop for LoopGuard<C> {
    fn drop(&mut self) {
        // After an orderly end another may have begun already.
        if !self.finished {
            let mut state = self.inner.state();
            (state.loop_running, state.inline_task) = (false, None);
            let all = state.waiters.fail_all();
            drop(state);
            all.wake();
        }
    }
}

async fn batch_loop<C: BatchExecutor>(mut guard: LoopGuard<C>, max_in_flight: usize, clock: Clock, timeout: Duration) {
    let inner = Arc::clone(&guard.inner);
    let mut in_flight = VecDeque::new();
    let mut due = Instant::MAX;
    loop {
        let mut sends = false;
        while let Some((requests, until, first)) = inner.next_batch(clock.now(), max_in_flight, in_flight.len()) {
            due = if in_flight.is_empty() { first } else { due.min(first) };
            in_flight.push_back(Box::pin(maybe_done(inner.executor.execute(requests, until))));
            sends = true;
        }
        if in_flight.is_empty() {
            break;
        }
        if sends && in_flight.len() > 1 {
            // What leaves is on its way before others are told: the server has work meanwhile.
            let _ = poll_immediate(poll_until_first_done(&mut in_flight)).await;
            yield_now().await;
        }
        loop {
            tokio::select! {
                biased;
                index = inner.next_abandoned() => in_flight[index] = Box::pin(MaybeDone::Done(Vec::new())),
                () = poll_until_first_done(&mut in_flight) => break,
                () = clock.sleep_until(due) => due = inner.expire(clock.now(), timeout),
            }
        }
        let answers = in_flight.pop_front().and_then(|mut first| first.as_mut().take_output()).unwrap_or_default();
        let was_shared = answers.len() > 1;
        let to_wake = inner.state().waiters.complete_batch(answers);
        to_wake.wake();
        if was_shared {
            // Those who were answered together may ask again, together.
            yield_now().await;
        }
    }
    guard.finished = true;
}

/// Has all go on, until the first is done.
async fn poll_until_first_done<F: Future>(in_flight: &mut VecDeque<Pin<Box<MaybeDone<F>>>>) {
    poll_fn(|cx| {
        let mut first = None;
        for one in in_flight.iter_mut() {
            let polled = one.as_mut().poll(cx);
            first.get_or_insert(polled);
        }
        first.unwrap_or(Poll::Ready(()))
    })
    .await;
}

/// A caller who polls the loop; when he leaves, a task goes on with it.
struct InlineLoop<'a> {
    inline_task: Option<InlineTask>,
    client: &'a Client,
}

impl Drop for InlineLoop<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.inline_task.take().and_then(|inline_task| inline_task.take()) {
            self.client.run_in_background(work);
        }
    }
}
