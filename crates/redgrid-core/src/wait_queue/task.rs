//! The task of a queue. For all waiters, it polls the resource and listens to its messages.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::{ChannelEvent, OrderedSubscription, ServerError};

use super::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use crate::author::ClientExt;
use crate::clock::Instant;

/// Number of poll intervals between two polls while the subscription is active. Such polls are only
/// a safety net.
pub const SUBSCRIBED_POLLS: u32 = 5;

/// Longest time between two polls without an active subscription.
const UNSUBSCRIBED_POLL: Duration = Duration::from_secs(1);

/// How long after the announced time of a change a poll for that change is sent.
///
/// The delay ensures that the change has happened when the poll is executed. It is needed because
/// lifetimes on a server have a resolution of 1 ms.
pub const AFTER_CHANGE: Duration = Duration::from_millis(2);

/// A poll is overdue if it starts later than planned by more than this, or if it is in flight for
/// longer than this. The last reply then does not count as current. The limit is far above a round
/// trip.
const OVERDUE: Duration = Duration::from_secs(1);

/// Guards the running task of a queue. If the task ends while there are waiters, for example
/// because the client is shut down, the guard ends their waits.
pub(super) struct RunningTask<R: Resource> {
    queue: Arc<WaitQueue<R>>,
    is_over: bool,
}

impl<R: Resource> RunningTask<R> {
    pub(super) fn new(queue: Arc<WaitQueue<R>>) -> Self {
        RunningTask { queue, is_over: false }
    }

    /// Marks the task as ended if there are no waiters. Returns whether the task is now marked.
    fn end_if_idle(&mut self) -> bool {
        let mut state = self.queue.state.lock();
        self.is_over = state.waiters.is_empty();
        state.running = !self.is_over;
        self.is_over
    }
}

impl<R: Resource> Drop for RunningTask<R> {
    fn drop(&mut self) {
        // If `is_over` is true, the task ended because the queue was empty. Then nothing is reset,
        // because another task may already run.
        if !self.is_over {
            let mut state = self.queue.state.lock();
            state.running = false;
            state.blocked_by = None;
            let waiters = std::mem::take(&mut state.waiters);
            drop(state);
            // This drops the senders, so the waits end with `WaitEnd::Failed`.
            drop(waiters);
        }
    }
}

/// Polls and listens while there are waiters.
///
/// A poll in flight is awaited even without waiters, because its reply may contain grants. The
/// resource passes the grants to another caller, or returns them to the server.
pub(super) async fn run<R: Resource>(mut task: RunningTask<R>) {
    let queue = Arc::clone(&task.queue);
    let (client, clock, resource) = (&queue.client, queue.client.clock(), &queue.resource);
    let mut closing = pin!(client.closing());
    let mut subscription: Option<OrderedSubscription> = None;
    let mut in_flight: Option<(WaiterId, PollFuture<R::Reply>)> = None;
    let mut next_poll = Instant::MIN;
    // The time of the earliest poll that messages have requested since the last poll was sent. The
    // reply to the last poll may not reflect these messages, so it does not postpone the requested
    // poll.
    let mut announced = Instant::MAX;
    // The instant at which the task ends; set while there are no waiters.
    let mut ends_at: Option<Instant> = None;
    resource.started();
    loop {
        if queue.state.lock().waiters.is_empty() {
            let linger = if subscription.is_some() { R::LINGER } else { Duration::ZERO };
            let ends_at = *ends_at.get_or_insert_with(|| clock.now() + linger);
            if in_flight.is_none() && clock.now() >= ends_at {
                // Lets the callers of ended waits run first. If one of them waits again, the task
                // and its subscription go on.
                tokio::task::yield_now().await;
                if task.end_if_idle() {
                    return;
                }
            }
        } else {
            ends_at = None;
        }
        if in_flight.is_none() {
            in_flight = start_poll(&queue, next_poll);
            if in_flight.is_some() {
                announced = Instant::MAX;
            }
        }
        tokio::select! {
            // The order matters. A shutdown is checked first, because it also makes polls fail.
            // Replies are checked before messages. Otherwise an endless stream of messages would
            // delay the replies.
            biased;
            // The end of the task ends all waits.
            () = &mut closing => return,
            (sent_before, reply) = replied(&mut in_flight) => {
                let now = clock.now();
                match reply {
                    Ok(reply) => {
                        queue.state.lock().answered = now;
                        let next = resource.replied(&queue, reply, sent_before);
                        let has_waiters = !queue.state.lock().waiters.is_empty();
                        if subscription.is_none() && has_waiters && next.delay() >= R::UNSUBSCRIBED_WAIT {
                            subscription = Some(resource.subscribe(client));
                        }
                        let interval = client.poll_interval();
                        let interval = match subscription.as_ref().is_some_and(OrderedSubscription::is_active) {
                            true => interval * SUBSCRIBED_POLLS,
                            false => interval.min(UNSUBSCRIBED_POLL),
                        };
                        next_poll = match next {
                            NextPoll::Within(time) => now + interval.min(time.saturating_add(AFTER_CHANGE)),
                            NextPoll::Now | NextPoll::NowFor(_) | NextPoll::Regular => now + interval,
                        };
                        next_poll = next_poll.min(announced);
                        let mut state = queue.state.lock();
                        state.is_due |= next == NextPoll::Now;
                        state.current_until = next_poll + OVERDUE;
                        // If the reply blocks the queue, `WaitQueue::block` has already recorded
                        // that the reply applies to all waiters.
                        if state.blocked_by.is_none() {
                            state.replied_to = match next {
                                NextPoll::NowFor(first) => sent_before.min(first),
                                _ => sent_before,
                            };
                        }
                    }
                    Err(error) => {
                        resource.failed(&queue, error, sent_before);
                        queue.state.lock().is_due = true;
                    }
                }
            }
            event = received(&mut subscription) => {
                let mut event = Some(event);
                while let Some(one) = event {
                    match resource.received(&queue, &one) {
                        NextPoll::Now | NextPoll::NowFor(_) => queue.state.lock().is_due = true,
                        NextPoll::Within(time) => {
                            announced = announced.min(clock.now() + time.saturating_add(AFTER_CHANGE));
                            next_poll = next_poll.min(announced);
                        }
                        NextPoll::Regular => {}
                    }
                    event = subscription.as_mut().and_then(OrderedSubscription::take);
                }
            }
            () = queue.changed.notified() => {}
            () = clock.sleep_until(ends_at.unwrap_or(next_poll)), if in_flight.is_none() => {}
        }
    }
}

/// Starts a poll if there are waiters and a reason to poll. Returns the poll, and the number that
/// the next waiter will get.
fn start_poll<R: Resource>(queue: &WaitQueue<R>, next_poll: Instant) -> Option<(WaiterId, PollFuture<R::Reply>)> {
    let now = queue.client.clock().now();
    let mut state = queue.state.lock();
    let (last, _) = state.waiters.last_key_value()?;
    if !state.is_due && *last < state.replied_to && now < next_poll {
        return None;
    }
    state.is_due = false;
    state.blocked_by = None;
    state.current_until = state.current_until.min(now + OVERDUE);
    let waiters = state.waiters.iter().map(|(id, entry)| (*id, &entry.request));
    Some((state.next_id, queue.resource.poll(&queue.client, waiters)))
}

/// Returns the reply of the poll in flight. Never completes if none is in flight.
async fn replied<T>(in_flight: &mut Option<(WaiterId, PollFuture<T>)>) -> (WaiterId, Result<T, ServerError>) {
    let Some((sent_before, poll)) = in_flight else { return std::future::pending().await };
    let reply = poll.await;
    let sent_before = *sent_before;
    *in_flight = None;
    (sent_before, reply)
}

/// Returns the next message; never completes without a subscription.
async fn received(subscription: &mut Option<OrderedSubscription>) -> ChannelEvent {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}
