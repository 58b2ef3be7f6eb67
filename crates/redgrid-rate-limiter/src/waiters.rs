//! The callers of one client that wait for permits of one limiter, in the order of their calls.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, Name, Offer, OrderedSubscription, ServerError};

use crate::error::LimitError;
use crate::reply::{LimiterReply, PermitRequest, Verdict};

/// How early permits may be taken for a waiter, before they are free: 100 ms. The waiter then waits
/// until they are free, without noticing changes.
///
/// If the reply to the poll arrives in this time, the limit is used in full.
const RESERVE_AHEAD: Duration = Duration::from_millis(100);

/// How early the next poll is sent, before the announced time: 60 ms. So its reply may take 60 ms
/// without a delay.
const POLL_AHEAD: Duration = Duration::from_millis(60);

/// Shortest time between two polls for a waiter that is not due sooner: 5 ms.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of waiters of one poll.
const MAX_BATCH: usize = 256;

/// Longest time for which a poll is sent again, 30 s, unless the client's contact timeout is
/// longer.
const MAX_POLL_TIME: Duration = Duration::from_secs(30);

const NOT_SENT_IN_TIME: &str = "no server was reached in time";

/// A limit that is kept on the server.
pub(crate) trait Limit: Send + Sync + 'static {
    /// Identifies taken permits, to give them back.
    type Entry: Send + 'static;
    /// Whether all clients that change the limit publish it.
    const CHANGES_ARE_PUBLISHED: bool;

    fn name(&self) -> &Name;
    /// The key of the limit.
    fn key(&self) -> &Bytes;
    /// The channel on which changes are published.
    fn channel(&self) -> &Bytes;
    /// Takes permits for the callers, in their order; returns `None` if no rate is set. The request
    /// is sent again until `until`.
    fn acquire(
        &self,
        client: &Client,
        callers: &[PermitRequest],
        until: Instant,
    ) -> impl Future<Output = Result<Option<LimiterReply>, ServerError>> + Send;
    /// Returns an entry of a reply; `None` if nothing can be given back.
    fn entry(&self, reply: &LimiterReply, number: usize) -> Option<Self::Entry>;
    /// Gives back unused permits.
    fn give_back(&self, client: &Client, entry: Self::Entry, permits: u64) -> impl Future<Output = ()> + Send;
}

/// The queue of all callers that wait for permits of a limit through one client.
pub(crate) type LimitQueue<L> = WaitQueue<LimitWaiters<L>>;

/// One limit, and the poll that is in flight for its waiters.
pub(crate) struct LimitWaiters<L> {
    pub(crate) limit: Arc<L>,
    in_flight: Mutex<Option<InFlight>>,
}

/// A poll that is in flight.
struct InFlight {
    /// The first waiters of the queue.
    callers: Vec<(WaiterId, PermitRequest)>,
    until: Instant,
}

impl InFlight {
    /// Returns the number after the last waiter of the poll.
    fn end(&self) -> WaiterId {
        self.callers.last().map_or(0, |(id, _)| id + 1)
    }
}

/// The request of a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcquireRequest {
    pub(crate) permits: u64,
    /// Whether the wait ends with the first reply in which the permits are not available.
    pub(crate) try_only: bool,
    /// When the caller stops waiting; [`Instant::MAX`] without a timeout.
    pub(crate) until: Instant,
}

/// How a wait ends; `None` if the permits are not available.
pub(crate) type Acquired<L> = Result<Option<Offered<L>>, LimitError>;

/// Permits that are offered to their caller, which has a second to take them.
pub(crate) struct Offered<L: Limit> {
    /// When they may be used.
    pub(crate) usable_at: Instant,
    pub(crate) granted: Offer<Granted<L>>,
}

/// Permits that were taken. Dropping this value gives them back, unless they are
/// [kept](Granted::keep).
pub(crate) struct Granted<L: Limit> {
    queue: Arc<LimitQueue<L>>,
    permits: u64,
    entry: Option<L::Entry>,
}

impl<L: Limit> Granted<L> {
    pub(crate) fn keep(mut self) -> Option<L::Entry> {
        self.entry.take()
    }
}

impl<L: Limit> Drop for Granted<L> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let (queue, permits) = (Arc::clone(&self.queue), self.permits);
            self.queue.client().run_in_background(async move {
                queue.resource().limit.give_back(queue.client(), entry, permits).await;
                queue.poll_soon();
            });
        }
    }
}

impl<L: Limit> LimitWaiters<L> {
    /// Returns the queue of all callers that wait for a limit through one client. `id` is the same
    /// for equal limits only.
    pub(crate) fn queue(client: &Client, id: &Bytes, limit: L) -> Arc<LimitQueue<L>> {
        client
            .shared(id, || WaitQueue::new(client, LimitWaiters { limit: Arc::new(limit), in_flight: Mutex::default() }))
    }

    /// Returns the error of a waiter that timed out without a current reply.
    pub(crate) fn no_reply(&self, id: WaiterId) -> ServerError {
        match self.in_flight().as_ref().is_some_and(|poll| id < poll.end()) {
            true => ServerError::Unknown { reason: "no reply arrived in time".into() },
            false => ServerError::NotSent { reason: NOT_SENT_IN_TIME.into() },
        }
    }

    fn in_flight(&self) -> MutexGuard<'_, Option<InFlight>> {
        self.in_flight.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<L: Limit> Resource for LimitWaiters<L> {
    type Request = AcquireRequest;
    type Outcome = Acquired<L>;
    type Reply = Option<LimiterReply>;

    /// Together with [`POLL_AHEAD`], this is 200 ms: a shorter wait does not notice changes.
    const UNSUBSCRIBED_WAIT: Duration = Duration::from_millis(140);

    fn key(&self) -> &[u8] {
        self.limit.key()
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        client.subscribe_ordered_unpolled([self.limit.channel().clone()], self.limit.key())
    }

    fn poll<'a>(
        self: &Arc<Self>,
        client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a AcquireRequest)>,
    ) -> PollFuture<Option<LimiterReply>> {
        let (now, patience) = (client.clock().now(), client.patience());
        let mut until = now + client.response_timeout();
        let mut callers = Vec::new();
        for (id, request) in waiters.take(MAX_BATCH) {
            // A waiter without a timeout ends when it was without contact for too long.
            let ends_at = if request.until == Instant::MAX { now + patience } else { request.until };
            until = until.max(ends_at);
            callers.push((id, request.at(now)));
        }
        // A waiter with an earlier deadline leaves. Permits that the reply takes for it are given
        // back.
        let until = until.min(now + patience.max(MAX_POLL_TIME));
        let requests: Vec<PermitRequest> = callers.iter().map(|(_, request)| *request).collect();
        *self.in_flight() = Some(InFlight { callers, until });
        let (client, limit) = (client.clone(), Arc::clone(&self.limit));
        Box::pin(async move { limit.acquire(&client, &requests, until).await })
    }

    fn replied(&self, queue: &Arc<LimitQueue<L>>, reply: Option<LimiterReply>, _sent_before: WaiterId) -> NextPoll {
        let Some(polled) = self.in_flight().take() else { return NextPoll::Now };
        let name = self.limit.name();
        let Some(reply) = reply else {
            let not_set = || Err(LimitError::RateNotSet { name: name.clone() });
            queue.complete_below(polled.end(), |_| true, not_set);
            return NextPoll::Now;
        };
        let now = queue.client().clock().now();
        let mut first = None;
        for ((id, request), verdict) in polled.callers.into_iter().zip(&reply.verdicts) {
            let permits = request.permits;
            match verdict {
                Verdict::Taken { entry, after } => {
                    // If the caller has left meanwhile, `granted` is dropped, which gives the
                    // permits back.
                    let entry = self.limit.entry(&reply, *entry);
                    let granted = Granted { queue: Arc::clone(queue), permits, entry };
                    let offered = || Offered { usable_at: now + *after, granted: queue.client().offer(granted) };
                    queue.complete(id, || Ok(Some(offered())));
                }
                Verdict::TooMany => queue.complete(id, || {
                    Err(LimitError::TooManyPermits { name: name.clone(), permits, most: reply.limit })
                }),
                Verdict::Later if !request.try_only => first = first.or(Some((id, request))),
                Verdict::Later if reply.ask_again => {}
                Verdict::Later => queue.complete(id, || Ok(None)),
            }
        }
        match first {
            Some((id, request)) if !reply.ask_again && queue.block(id) => {
                queue.complete_below(WaiterId::MAX, |request| request.try_only, || Ok(None));
                let mut poll_interval = queue.client().poll_interval();
                if L::CHANGES_ARE_PUBLISHED {
                    poll_interval = poll_interval.max(reply.next / 8);
                }
                NextPoll::Within(next_poll(request, reply.next).min(poll_interval))
            }
            _ => NextPoll::Now,
        }
    }

    fn failed(&self, queue: &Arc<LimitQueue<L>>, error: ServerError, sent_before: WaiterId) {
        let Some(polled) = self.in_flight().take() else { return };
        queue.fail_below(polled.end(), |_| true, &error);
        // Waiters behind the poll had no contact either, unless the server replied.
        let error = match error {
            ServerError::Unknown { .. } => ServerError::NotSent { reason: NOT_SENT_IN_TIME.into() },
            ServerError::NotSent { .. } | ServerError::Unauthorized { .. } => error,
            _ => return,
        };
        let ends = |request: &AcquireRequest| request.until == Instant::MAX || request.until <= polled.until;
        queue.fail_below(sent_before, ends, &error);
    }

    fn received(&self, _queue: &Arc<LimitQueue<L>>, _event: &ChannelEvent) -> NextPoll {
        NextPoll::Now
    }
}

impl AcquireRequest {
    fn at(&self, now: Instant) -> PermitRequest {
        let &AcquireRequest { permits, try_only, until } = self;
        let reserve_ahead = if try_only { Duration::ZERO } else { RESERVE_AHEAD.min(until.since(now)) };
        PermitRequest { permits, reserve_ahead, try_only }
    }
}

/// Returns when to poll again for the first waiter. Its permits are available after `wait`.
fn next_poll(request: PermitRequest, wait: Duration) -> Duration {
    // Close to the end of the waiter's time, no permits can be taken ahead for it.
    let ahead = if request.reserve_ahead < RESERVE_AHEAD { Duration::ZERO } else { POLL_AHEAD };
    // A limit that takes nothing ahead is polled once more before the wait is over.
    let next = if wait > ahead { wait - ahead } else { wait / 2 };
    next.max(MIN_POLL_INTERVAL.min(wait)).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_polled_for_early_but_not_all_the_time() {
        let ms = Duration::from_millis;
        let next = |ahead, wait| {
            let request = PermitRequest { permits: 1, reserve_ahead: ms(ahead), try_only: false };
            next_poll(request, ms(wait))
        };
        assert_eq!((next(100, 1000), next(100, 101), next(100, 61)), (ms(940), ms(41), ms(5)));
        // Close to the end of the waiter's time nothing is taken ahead: the poll is sent when the
        // wait is over.
        assert_eq!((next(80, 81), next(10, 60), next(0, 3)), (ms(81), ms(60), ms(3)));
        assert_eq!((next(100, 60), next(100, 8), next(100, 3), next(100, 0)), (ms(30), ms(5), ms(3), ms(1)));
    }
}
