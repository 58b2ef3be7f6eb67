//! The callers of one client that wait for elements of one queue, in the order of their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, OrderedSubscription};

use crate::stock::{Claim, Found, Stock, TakeSource};

/// The pauses between polls that find no element.
///
/// Messages cause polls too, but Redisson's clients publish no messages to redgrid's channel.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };

/// How long before a wait's time limit the last poll for it is sent: 50 ms, which is more than most
/// round trips take.
const LAST_POLL: Duration = Duration::from_millis(50);

/// The callers that wait for elements of a source.
pub(crate) type TakeQueue<S> = WaitQueue<TakeWaiters<S>>;

/// How a wait ends.
pub(crate) enum Taken<S: TakeSource> {
    /// An element is offered to the caller, which has one second to claim it.
    Element(Claim<S>),
    /// The wait has ended without an element.
    Nothing,
    /// No server has answered for the maximum time without contact.
    NoReply,
}

/// The request of a caller.
pub(crate) struct TakeRequest {
    /// Time limit of the wait.
    until: Instant,
    try_only: AtomicBool,
}

impl TakeRequest {
    pub(crate) fn new(until: Instant, try_only: bool) -> Arc<Self> {
        Arc::new(TakeRequest { until, try_only: AtomicBool::new(try_only) })
    }

    /// Ends the wait at the first poll, from now on, that finds no element for it.
    pub(crate) fn set_try_only(&self) {
        self.try_only.store(true, Ordering::Relaxed);
    }
}

/// The resource of a wait queue: a source of elements.
pub(crate) struct TakeWaiters<S: TakeSource> {
    stock: Arc<Stock<S>>,
    /// The number of polls since the last element.
    idle_polls: AtomicU32,
}

impl<S: TakeSource> TakeWaiters<S> {
    /// Returns the queue of all callers that wait for a source through one client.
    ///
    /// `id` identifies the source among the sources of its type.
    pub(crate) fn of(client: &Client, id: &Bytes, source: impl FnOnce() -> S) -> Arc<TakeQueue<S>> {
        // The stock may outlive the waiters.
        let stock = client.shared(id, || Stock::new(source()));
        let queue = client.shared(id, || {
            WaitQueue::new(client, TakeWaiters { stock: Arc::clone(&stock), idle_polls: AtomicU32::new(0) })
        });
        stock.offer_to(&queue);
        queue
    }
}

impl<S: TakeSource> Resource for TakeWaiters<S> {
    type Request = Arc<TakeRequest>;
    type Outcome = Taken<S>;
    /// The result of a poll, and when to send the last poll for the wait that ends first. `None` if
    /// there was no reply in time; the request of the poll is still in flight.
    type Reply = Option<(Found, Instant)>;

    fn key(&self) -> &[u8] {
        self.stock.source().key()
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        let source = self.stock.source();
        client.subscribe_ordered_unpolled(source.channels(), source.key())
    }

    fn started(&self) {
        self.idle_polls.store(0, Ordering::Relaxed);
    }

    fn poll<'a>(
        self: &Arc<Self>,
        client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a Arc<TakeRequest>)>,
    ) -> PollFuture<Option<(Found, Instant)>> {
        let now = client.clock().now();
        let last_polls = waiters.map(|(_, request)| request.until - LAST_POLL).filter(|last| *last > now);
        let last_poll = last_polls.min().unwrap_or(Instant::MAX);
        let (client, found) = (client.clone(), self.stock.poll(client));
        Box::pin(async move {
            tokio::select! {
                biased;
                found = found => Ok(Some((found.map_err(|_| client.ended()).flatten()?, last_poll))),
                () = client.clock().sleep_until(now + client.patience()) => Ok(None),
            }
        })
    }

    fn replied(
        &self,
        queue: &Arc<WaitQueue<Self>>,
        reply: Option<(Found, Instant)>,
        sent_before: WaiterId,
    ) -> NextPoll {
        let Some((found, last_poll)) = reply else {
            // Waiters that entered after the poll was sent end too: another poll would double their
            // waiting time.
            queue.complete_below(WaiterId::MAX, |_| true, || Taken::NoReply);
            return NextPoll::Regular;
        };
        let idle_polls = if found.any { 0 } else { self.idle_polls.load(Ordering::Relaxed).saturating_add(1) };
        self.idle_polls.store(idle_polls, Ordering::Relaxed);
        if found.may_have_more {
            // The remaining waiters were not served.
            return queue.first_waiters(1).first().map_or(NextPoll::Regular, |first| NextPoll::NowFor(*first));
        }
        queue.complete_below(sent_before, |request| request.try_only.load(Ordering::Relaxed), || Taken::Nothing);
        let last_poll = last_poll.since(queue.client().clock().now()).max(PAUSES.first);
        NextPoll::Within(PAUSES.after(idle_polls).min(last_poll).min(found.due_in.unwrap_or(Duration::MAX)))
    }

    fn received(&self, _queue: &Arc<WaitQueue<Self>>, _event: &ChannelEvent) -> NextPoll {
        self.idle_polls.store(0, Ordering::Relaxed);
        NextPoll::Now
    }
}
