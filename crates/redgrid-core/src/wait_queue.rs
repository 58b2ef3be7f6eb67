//! The queue of local callers that wait for one resource on the server.
//!
//! An object that callers wait for is a [`Resource`]. It defines the request of a poll and the
//! meaning of its reply. While there are waiters, one task of the client polls the resource and
//! listens to its messages, for all waiters. The task polls if
//!
//! - a waiter was added since the last poll was sent, and the queue is not
//!   [blocked](WaitQueue::block),
//! - the resource requests a poll, after a message or a reply, or
//! - the last reply is older than five poll intervals. Without an active subscription, the limit is
//!   one poll interval, but at most 1 s.
//!
//! One poll is in flight at a time. The subscription starts after the first poll whose reply leaves
//! waiters in the queue. When the server has confirmed the subscription, the task polls again. This
//! poll finds the changes between the first poll and the confirmation.

mod blocked;
mod task;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use redgrid_client::internal::Mutex;
use redgrid_client::{ChannelEvent, Client, OrderedSubscription, ServerError};
use tokio::sync::{Notify, oneshot};
use tokio::task::unconstrained;

pub use self::task::{AFTER_CHANGE, SUBSCRIBED_POLLS};
use self::task::{RunningTask, run};
use crate::author::ClientExt;
use crate::clock::Instant;

/// Number of a waiter. Numbers rise in the order in which waiters enter the queue.
pub type WaiterId = u64;

/// A poll that was started: the future of its reply.
pub type PollFuture<T> = Pin<Box<dyn Future<Output = Result<T, ServerError>> + Send>>;

/// Something that local callers wait for, such as the end of a latch or a message of a queue.
///
/// The task of the queue calls the methods, one at a time.
pub trait Resource: Send + Sync + Sized + 'static {
    /// The request of a waiter.
    type Request: Send;
    /// The result of a wait.
    type Outcome: Send;
    /// The reply of a poll.
    type Reply: Send;

    /// How long the subscription is kept after the last waiter has left, for callers that soon wait
    /// again.
    const LINGER: Duration = Duration::ZERO;

    /// A subscription starts only if the next poll that [`Resource::replied`] requests is at least
    /// this far away.
    const UNSUBSCRIBED_WAIT: Duration = Duration::ZERO;

    /// Returns the key of the resource. While the server of this key answers, the waiters are
    /// considered to be in contact with the server.
    fn key(&self) -> &[u8];

    /// Subscribes to the channels whose messages may be a reason to poll.
    fn subscribe(&self, client: &Client) -> OrderedSubscription;

    /// Prepares for the first waiters. The task calls this method when it starts. Messages that
    /// arrived before the start may have been missed.
    fn started(&self) {}

    /// Starts a poll for some or all waiters. `waiters` yields all waiters in order of arrival.
    fn poll<'a>(
        self: &Arc<Self>,
        client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a Self::Request)>,
    ) -> PollFuture<Self::Reply>;

    /// Ends the waits that the reply decides, and returns when to poll next.
    ///
    /// The poll was sent for the waiters with ids below `sent_before`. Waiters with higher ids were
    /// added later.
    fn replied(&self, queue: &Arc<WaitQueue<Self>>, reply: Self::Reply, sent_before: WaiterId) -> NextPoll;

    /// Ends waits because a poll has failed. If waiters remain, the queue soon polls again.
    ///
    /// By default, ends the waits of all waiters that were in the queue when the poll was sent.
    fn failed(&self, queue: &Arc<WaitQueue<Self>>, error: ServerError, sent_before: WaiterId) {
        queue.fail_below(sent_before, |_| true, &error);
    }

    /// Handles a message or a gap in the messages, and returns when to poll next. This method can
    /// also end waits.
    fn received(&self, queue: &Arc<WaitQueue<Self>>, event: &ChannelEvent) -> NextPoll;
}

/// The time at which a resource wants to be polled next. The queue may poll earlier for other
/// reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum NextPoll {
    /// Poll as soon as no poll is in flight.
    Now,
    /// Poll as soon as no poll is in flight, if there are waiters with this id or a higher one. The
    /// last reply says nothing about these waiters, so it does not make them
    /// [current](Waiter::is_current).
    NowFor(WaiterId),
    /// Poll when this time has passed, because the state of the resource changes then. Without
    /// waiters at that time, there is no poll.
    Within(Duration),
    /// Poll when the last reply is older than five poll intervals. Without an active subscription,
    /// the limit is one poll interval, but at most 1 s.
    Regular,
}

impl NextPoll {
    /// Returns the time until the requested poll; [`Duration::MAX`] for a regular one.
    fn delay(self) -> Duration {
        match self {
            NextPoll::Now | NextPoll::NowFor(_) => Duration::ZERO,
            NextPoll::Within(time) => time,
            NextPoll::Regular => Duration::MAX,
        }
    }
}

/// How a wait ended.
#[derive(Debug)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum WaitEnd<T> {
    /// The resource completed the wait.
    Completed(T),
    /// The poll for the waiter failed, or the client was shut down (see [`ClientExt::ended`]).
    Failed(ServerError),
    /// The time limit was reached, and the waiter is [current](Waiter::is_current): according to
    /// the last reply, it has to wait.
    TimedOut,
    /// The time limit was reached, but the waiter is not current: the resource may have been
    /// available.
    NoReply,
}

/// The queue of the callers that wait for one resource through one client.
pub struct WaitQueue<R: Resource> {
    client: Client,
    resource: Arc<R>,
    state: Mutex<State<R>>,
    /// Wakes the task to check the state.
    changed: Notify,
}

struct State<R: Resource> {
    waiters: BTreeMap<WaiterId, Entry<R>>,
    next_id: WaiterId,
    /// Whether the task runs.
    running: bool,
    /// Whether a poll was requested and has not started yet.
    is_due: bool,
    /// The last reply applies to the waiters whose ids are below this number.
    replied_to: WaiterId,
    /// The first waiter, while it blocks the queue. All other waiters then wait behind it.
    blocked_by: Option<WaiterId>,
    /// When a poll was last answered.
    answered: Instant,
    /// Until this time, the last reply counts as current.
    current_until: Instant,
}

struct Entry<R: Resource> {
    request: R::Request,
    end: oneshot::Sender<WaitEnd<R::Outcome>>,
}

/// A caller that waits. Dropping it cancels the wait.
pub struct Waiter<R: Resource> {
    queue: Arc<WaitQueue<R>>,
    id: WaiterId,
    end: oneshot::Receiver<WaitEnd<R::Outcome>>,
}

impl<R: Resource> WaitQueue<R> {
    /// Creates the queue of a resource. All callers of a client share one queue: see
    /// [`ClientExt::shared`].
    pub fn new(client: &Client, resource: R) -> Self {
        let state = State {
            waiters: BTreeMap::new(),
            next_id: 0,
            running: false,
            is_due: false,
            replied_to: 0,
            blocked_by: None,
            answered: Instant::MIN,
            current_until: Instant::MIN,
        };
        WaitQueue {
            client: client.clone(),
            resource: Arc::new(resource),
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Returns the client through which the callers wait.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Arc<R> {
        &self.resource
    }

    /// Adds a waiter.
    pub fn enter(self: &Arc<Self>, request: R::Request) -> Waiter<R> {
        self.add(self.state.lock(), request)
    }

    fn add(self: &Arc<Self>, mut state: MutexGuard<'_, State<R>>, request: R::Request) -> Waiter<R> {
        let (sender, end) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        if state.blocked_by.is_some() {
            state.replied_to = state.next_id;
        }
        state.waiters.insert(id, Entry { request, end: sender });
        let starts = !std::mem::replace(&mut state.running, true);
        drop(state);
        if starts {
            self.client.run_in_background(run(RunningTask::new(Arc::clone(self))));
        } else {
            self.changed.notify_one();
        }
        Waiter { queue: Arc::clone(self), id, end }
    }

    /// Schedules a poll if there are waiters.
    pub fn poll_soon(&self) {
        self.state.lock().is_due = true;
        self.changed.notify_one();
    }

    /// Returns the ids of the first waiters, up to `limit`, in order of arrival.
    pub fn first_waiters(&self, limit: usize) -> Vec<WaiterId> {
        self.state.lock().waiters.keys().take(limit).copied().collect()
    }

    /// Ends the wait of one waiter. Does nothing if the wait was cancelled.
    pub fn complete(&self, id: WaiterId, outcome: impl FnOnce() -> R::Outcome) {
        let waiter = self.state.lock().waiters.remove(&id);
        if let Some(waiter) = waiter {
            // The caller may be dropped at any time. If it has not taken the outcome by then, the
            // outcome is dropped, too.
            let _ = waiter.end.send(WaitEnd::Completed(outcome()));
        }
    }

    /// Completes the waits of the waiters with a lower id than `id` and a matching request.
    pub fn complete_below(
        &self,
        id: WaiterId,
        matches: impl Fn(&R::Request) -> bool,
        outcome: impl Fn() -> R::Outcome,
    ) {
        self.end_below(id, matches, || WaitEnd::Completed(outcome()));
    }

    /// Fails the waiters with a lower id than `id` and a matching request, with the error of their
    /// poll.
    pub fn fail_below(&self, id: WaiterId, matches: impl Fn(&R::Request) -> bool, error: &ServerError) {
        self.end_below(id, matches, || WaitEnd::Failed(error.clone()));
    }

    fn end_below(&self, id: WaiterId, matches: impl Fn(&R::Request) -> bool, end: impl Fn() -> WaitEnd<R::Outcome>) {
        let mut state = self.state.lock();
        let matching = state.waiters.range(..id).filter(|(_, waiter)| matches(&waiter.request));
        let matching: Vec<WaiterId> = matching.map(|(id, _)| *id).collect();
        let ended: Vec<Entry<R>> = matching.iter().filter_map(|id| state.waiters.remove(id)).collect();
        drop(state);
        for waiter in ended {
            let _ = waiter.end.send(end());
        }
    }
}

crate::debug_fields!([R: Resource] WaitQueue<R>, |it| key: it.resource.key().escape_ascii().to_string());

impl<R: Resource> Waiter<R> {
    /// Returns the number of the waiter. [`Resource::poll`] gets this number with the waiter's
    /// request.
    pub fn id(&self) -> WaiterId {
        self.id
    }

    /// Completes when the wait has ended, at `until` at the latest. [`Instant::MAX`] means no
    /// limit.
    ///
    /// If the machine was suspended, the future may complete late, like [`Clock::wait_until`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the waiter in the queue. The waiter also stays there after
    /// `until`.
    ///
    /// [`Clock::wait_until`]: crate::clock::Clock::wait_until
    pub async fn ended_by(&mut self, until: Instant) -> WaitEnd<R::Outcome> {
        let end = tokio::select! {
            biased;
            end = &mut self.end => Some(end),
            () = self.queue.client.clock().wait_until(until) => None,
        };
        // At the time limit, the result may just have arrived, so check once more. The check is
        // unconstrained, because a normal poll returns `Pending` despite a result if the task has
        // used up tokio's cooperative budget.
        let is_current = end.is_some() || self.is_current();
        match end.or_else(|| unconstrained(&mut self.end).now_or_never()) {
            Some(Ok(end)) => end,
            // The sender was dropped, because the task of the queue has ended with the client.
            Some(Err(_)) => WaitEnd::Failed(self.queue.client.ended()),
            None if is_current => WaitEnd::TimedOut,
            None => WaitEnd::NoReply,
        }
    }

    /// Returns whether a poll for this waiter was answered, and no poll is overdue. If so, the
    /// waiter has to wait according to the last reply.
    pub fn is_current(&self) -> bool {
        let (now, state) = (self.queue.client.clock().now(), self.queue.state.lock());
        self.id < state.replied_to && now <= state.current_until
    }

    /// Returns the error of a wait that timed out without contact; `None` if there was contact with
    /// the server.
    pub fn out_of_contact(&self) -> Option<ServerError> {
        let answered = self.queue.state.lock().answered;
        self.queue.client.out_of_contact(self.queue.resource.key(), answered)
    }
}

impl<R: Resource> Drop for Waiter<R> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        // The request is dropped only after the mutex is unlocked, because its destructor may run
        // any code.
        let cancelled = state.waiters.remove(&self.id);
        let was_last = cancelled.is_some() && state.waiters.is_empty();
        let was_blocking = state.blocked_by == Some(self.id);
        if was_blocking {
            state.blocked_by = None;
            state.is_due = true;
        }
        drop(state);
        if was_last || was_blocking {
            self.queue.changed.notify_one();
        }
    }
}
