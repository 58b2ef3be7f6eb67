//! The task of a stock: takes elements for polls, and puts back elements that no caller claims.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;
use redgrid_core::object::chunks;
use redgrid_core::{BackgroundClient, ServerError};

use super::{Found, Stock, TakeReply, TakeSource};

/// Maximum number of elements of a request. While it takes them, the server serves no other
/// request, and it stores them in case the reply is lost.
const MAX_TAKEN: usize = 100;

/// How long to wait for the end of a request that takes: 120 s.
///
/// This covers the 30 s for which the request is sent, and the wait for an earlier request of the
/// same queue.
const TAKE_TIME: Duration = Duration::from_secs(120);

/// How long to wait for the end of a request that puts back: more than the 30 s for which it is
/// sent.
const PUT_BACK_TIME: Duration = Duration::from_secs(40);

/// Pauses before a failed put-back is repeated.
const RETRY_PAUSES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

/// The request in flight, and the processing of its reply. Returns false if elements could not be
/// put back.
type InFlight = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The running task of a stock. If it ends early, its drop ends the poll and logs lost elements.
pub(super) struct RunningTask<S: TakeSource> {
    pub(super) stock: Arc<Stock<S>>,
    pub(super) is_over: bool,
}

impl<S: TakeSource> RunningTask<S> {
    /// Ends the task if there is nothing to do.
    fn end_if_idle(&mut self) -> bool {
        let mut state = self.stock.state();
        self.is_over = state.poll.is_none() && state.unclaimed.is_empty() && state.offered.is_empty();
        state.task_runs = !self.is_over;
        self.is_over
    }
}

impl<S: TakeSource> Drop for RunningTask<S> {
    fn drop(&mut self) {
        // After an orderly end another task may already run.
        if self.is_over {
            return;
        }
        let mut state = self.stock.state();
        state.task_runs = false;
        let poll = state.poll.take();
        let offered = std::mem::take(&mut state.offered).len();
        let elements =
            std::mem::take(&mut state.unclaimed).len() + std::mem::take(&mut state.putting_back).len() + offered;
        drop(state);
        // Dropping the sender ends the poll.
        drop(poll);
        if elements > 0 {
            let key = self.stock.key();
            tracing::error!(
                key,
                elements,
                "the client ends before unclaimed elements of a queue were put back: they are lost"
            );
        }
    }
}

/// Runs until there is nothing to do, or the client ends.
pub(super) async fn run<S: TakeSource>(mut task: RunningTask<S>, client: BackgroundClient) {
    let stock = Arc::clone(&task.stock);
    let clock = client.clock().clone();
    let mut closing = pin!(client.closing());
    let mut in_flight: Option<InFlight> = None;
    let (mut failures, mut retry_at) = (0, Instant::MIN);
    loop {
        let now = clock.now();
        stock.revoke_offers(now);
        stock.offer_to_waiters(now);
        if in_flight.is_none() {
            in_flight = stock.take_for_poll(now);
        }
        if in_flight.is_none() && now >= retry_at {
            in_flight = stock.put_back(&client);
        }
        if in_flight.is_none() && task.end_if_idle() {
            return;
        }
        let wake_at = stock.next_change(in_flight.is_none().then_some(retry_at));
        tokio::select! {
            biased;
            () = &mut closing => break,
            done = ended(&mut in_flight) => {
                if done {
                    (failures, retry_at) = (0, Instant::MIN);
                } else {
                    retry_at = clock.now() + RETRY_PAUSES.after(failures);
                    failures += 1;
                }
            }
            () = stock.changed.notified() => {}
            () = clock.sleep_until(wake_at) => {}
        }
    }
    stock.end(in_flight, &client).await;
}

impl<S: TakeSource> Stock<S> {
    fn key(&self) -> String {
        String::from_utf8_lossy(self.source.key()).into_owned()
    }

    /// Returns the time at which the task has to check the state if it is not notified earlier.
    fn next_change(&self, retry_at: Option<Instant>) -> Instant {
        let state = self.state();
        let retry_at = retry_at.filter(|_| !state.unclaimed.is_empty());
        state.offered.values().map(|offered| offered.until).chain(retry_at).min().unwrap_or(Instant::MAX)
    }

    /// Sends the request of the pending poll, if there is one.
    fn take_for_poll(self: &Arc<Self>, now: Instant) -> Option<InFlight> {
        let poll = self.state().poll.take().filter(|poll| !poll.answer.is_closed())?;
        let limit = self.waiters()?.first_waiters(MAX_TAKEN).len();
        if limit == 0 {
            // All waiters of the poll were served or have left.
            let _ = poll.answer.send(Ok(Found { any: false, may_have_more: true, due_in: None }));
            return None;
        }
        let (stock, request) = (Arc::clone(self), self.source.take(limit));
        Some(Box::pin(async move {
            let found = stock.taken(poll.client.run_exactly_once_until(request, now + TAKE_TIME).await, limit);
            // Waiters are served before the poll is answered.
            stock.offer_to_waiters(poll.client.clock().now());
            let _ = poll.answer.send(found);
            true
        }))
    }

    /// Adds the elements of a reply to the stock.
    fn taken(&self, reply: Result<TakeReply, ServerError>, limit: usize) -> Result<Found, ServerError> {
        let (elements, hint) = reply.inspect_err(|error| self.log_unknown(error))?;
        let found = Found {
            any: !elements.is_empty(),
            may_have_more: hint == 0 || elements.len() == limit,
            due_in: u64::try_from(hint).ok().map(Duration::from_millis),
        };
        let mut state = self.state();
        for element in elements {
            let number = state.taken;
            state.taken += 1;
            state.unclaimed.insert(number, element);
        }
        Ok(found)
    }

    /// Logs that elements may be lost because the reply is lost.
    fn log_unknown(&self, error: &ServerError) {
        if !error.is_not_done() {
            tracing::error!(
                key = self.key(),
                %error,
                "it is not known whether elements of a queue were taken: those that were are lost"
            );
        }
    }

    /// Sends the request that puts unclaimed elements back, if there are any. If they are too many
    /// for one request, the request puts back the last ones.
    fn put_back(self: &Arc<Self>, client: &BackgroundClient) -> Option<InFlight> {
        let elements: Vec<Bytes> = {
            let mut state = self.state();
            let unclaimed: Vec<(u64, Bytes)> = std::mem::take(&mut state.unclaimed).into_iter().collect();
            // The last chunk is put back first, so that the others end up in front of it.
            let last = chunks(&unclaimed, |(_, element)| element.len()).last().map_or(0, <[_]>::len);
            let (stays, goes) = unclaimed.split_at(unclaimed.len() - last);
            state.unclaimed = stays.iter().cloned().collect();
            state.putting_back = goes.iter().cloned().collect();
            state.putting_back.values().cloned().collect()
        };
        if elements.is_empty() {
            return None;
        }
        let unique = companion("redgrid_queue_back", self.source.key());
        let unique = [&unique[..], b":", uuid::Uuid::new_v4().to_string().as_bytes()].concat();
        let request = self.source.put_back(unique.into(), &elements);
        let (stock, client, until) = (Arc::clone(self), client.clone(), client.clock().now() + PUT_BACK_TIME);
        Some(Box::pin(async move { stock.put_back_ended(client.run_exactly_once_until(request, until).await) }))
    }

    /// Processes the reply to a put-back. Returns false if its elements are unclaimed again.
    fn put_back_ended(&self, reply: Result<Vec<i64>, ServerError>) -> bool {
        let put_back = std::mem::take(&mut self.state().putting_back);
        let Err(error) = reply else { return true };
        let (key, elements, may_be_done) = (self.key(), put_back.len(), !error.is_not_done());
        if may_be_done {
            tracing::error!(key, elements, %error, "it is not known whether unclaimed elements of a queue were put back");
        } else {
            self.state().unclaimed.extend(put_back);
            tracing::warn!(key, elements, %error, "unclaimed elements of a queue were not put back yet");
        }
        may_be_done
    }

    /// Finishes when the client ends: no waiters are left, and all elements are put back.
    async fn end(self: &Arc<Self>, in_flight: Option<InFlight>, client: &BackgroundClient) {
        if let Some(in_flight) = in_flight {
            let takes = self.state().putting_back.is_empty();
            tokio::select! {
                biased;
                _ = in_flight => {}
                () = client.nearly_closed(Duration::MAX), if takes => {
                    let key = self.key();
                    tracing::error!(key, "the client ends before the reply to a request for elements of a queue");
                }
            }
        }
        self.revoke_offers(Instant::MAX);
        while let Some(putting_back) = self.put_back(client)
            && putting_back.await
        {}
    }
}

/// Completes with the result of the request in flight. Without a request it never completes.
async fn ended(in_flight: &mut Option<InFlight>) -> bool {
    let Some(request) = in_flight else { return std::future::pending().await };
    let done = request.await;
    *in_flight = None;
    done
}
