//! The queues of calls that can be batched. Each queue decides which of its calls are sent at once
//! by their callers, and which calls wait. It also limits the requests in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Node;
use super::batcher::watch;
use crate::clock::Instant;
use crate::connection::core::is_one_thread;
use crate::connection::slot::slot;
use crate::connection::{Reply, Request};
use crate::error::ServerError;
use crate::script::{BatchPhase, BatchScript};
use crate::sync::Mutex;

/// Maximum number of a queue's requests in flight. While so many are in flight, new calls wait.
const MAX_IN_FLIGHT: usize = 4;

/// The limit that replaces [`MAX_IN_FLIGHT`] if the server is near, and a sender task is sending
/// batches of the queue. A second request would cost more than it gains.
const MAX_IN_FLIGHT_NEAR: usize = 1;

/// If at least this many calls wait for a near server, up to [`MAX_IN_FLIGHT`] requests are in
/// flight instead of one. With fewer calls, a second batch costs more in wake-ups than it gains.
const CROWD: usize = 32;

const MAX_BATCH: usize = 64;

/// A server is near if its round trip takes at most 0.3 ms without load.
const NEAR: Duration = Duration::from_micros(300);

/// Divisor of the response timeout: 2. A call that has waited for half of the timeout is no longer
/// sent. The other half is for the reply.
const SENT_WITHIN: u32 = 2;

/// Identifies the calls that can share a batch: the address of their script, and the number of
/// their connection or, in a cluster, their slot.
pub(super) type BatchKey = (usize, u16);

type Queues = HashMap<BatchKey, BatchQueue, foldhash::fast::RandomState>;

pub(super) struct Batchers {
    pub(super) node: Weak<Node>,
    pub(super) runtime: Handle,
    pub(super) one_thread: bool,
    /// Set for a node of a cluster, where all keys of a request must share a slot.
    by_slot: bool,
    pub(super) queues: Mutex<Queues>,
}

impl Batchers {
    pub(super) fn new(node: Weak<Node>, by_slot: bool) -> Self {
        Batchers { node, runtime: Handle::current(), one_thread: is_one_thread(), by_slot, queues: Mutex::default() }
    }

    /// Registers a call. If its caller can send it at once, returns a guard: the call is counted as
    /// in flight until the guard is dropped.
    ///
    /// # Errors
    ///
    /// If the call has to wait for a batch, returns the receiver of its reply. If the receiver is
    /// dropped before the call is sent, the call is not sent.
    pub(super) fn enter<'a>(
        &self,
        node: &'a Node,
        (script, phase): (&'static BatchScript, BatchPhase),
        request: &Arc<Request>,
        limit: Instant,
    ) -> Result<InlineCall<'a>, oneshot::Receiver<Result<Reply, ServerError>>> {
        let (mode, first_key) = (node.batch_mode(), request.first_key());
        let at = if self.by_slot { slot(first_key) } else { node.commands.shard_of(first_key) };
        // Each script has one static instance, so its address identifies it.
        let key = (std::ptr::from_ref(script).addr(), at);
        let mut queues = self.queues.lock();
        let queue = queues.entry(key).or_default();
        if queue.waiting.is_empty() && queue.has_room(mode) {
            // In this common case, the clock is not read.
            queue.inline_in_flight += 1;
            return Ok(InlineCall { node, key });
        }
        let now = node.clock.now();
        let (answer, reply) = oneshot::channel();
        let until = now + node.connections.target.settings.response_timeout / SENT_WITHIN;
        queue.waiting.push_back(Call { request: Arc::clone(request), phase, since: now, until, limit, answer });
        let needs_sender = queue.has_room(mode);
        queue.senders += usize::from(needs_sender);
        let needs_watch = !std::mem::replace(&mut queue.watched, true);
        drop(queues);
        if needs_sender {
            self.start_sender(key);
        }
        if needs_watch {
            self.runtime.spawn(watch(Weak::clone(&self.node), key));
        }
        Err(reply)
    }

    /// Changes a queue by `change`. Starts a sender if `change` returns true; otherwise removes the
    /// queue if it is idle.
    pub(super) fn change(&self, key: BatchKey, change: impl FnOnce(&mut BatchQueue) -> bool) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&key) else { return };
        let needs_sender = change(queue);
        if needs_sender {
            queue.senders += 1;
        } else if queue.is_idle() {
            queues.remove(&key);
        }
        drop(queues);
        if needs_sender {
            self.start_sender(key);
        }
    }
}

/// A guard that counts one call as in flight while its caller sends it.
///
/// The guard is dropped with the caller's future, so that a cancelled call is no longer counted. If
/// calls are waiting when the guard is dropped, and one more request may be in flight, a sender is
/// started.
pub(super) struct InlineCall<'a> {
    node: &'a Node,
    key: BatchKey,
}

impl Drop for InlineCall<'_> {
    fn drop(&mut self) {
        self.node.batchers.change(self.key, |queue| {
            queue.inline_in_flight -= 1;
            // The clock is read only if calls wait.
            !queue.waiting.is_empty()
                && queue.has_room(self.node.batch_mode())
                && queue.longest_wait(self.node.clock.now()).is_some()
        });
    }
}

impl Node {
    pub(super) fn batch_mode(&self) -> BatchMode {
        match self.time.round_trip() <= NEAR {
            true if self.batchers.one_thread => BatchMode::OrderedReplies,
            true => BatchMode::Near,
            false => BatchMode::Far,
        }
    }
}

/// Decides how many requests are allowed in flight. The mode depends on the server's round trip,
/// and on whether the runtime has one thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchMode {
    /// For a near server. Without a sender task, up to four calls are in flight, each sent by its
    /// caller. While a sender task sends batches, one request is in flight, or up to four if
    /// [`CROWD`] or more calls wait.
    Near,
    /// For a distant server. Up to four requests are in flight, even if each has few calls.
    Far,
    /// For a near server and a runtime with one thread. Up to four requests are in flight, and
    /// their replies are delivered in order.
    OrderedReplies,
}

/// The mutex that orders the delivery of replies.
///
/// A sender locks the mutex before it delivers the replies of a batch. The sender unlocks the mutex
/// after the answered callers have sent their next calls.
pub(super) type ReplyOrder = Arc<tokio::sync::Mutex<()>>;

#[derive(Default)]
pub(super) struct BatchQueue {
    /// Number of calls in flight that their callers send themselves ([`InlineCall`]).
    pub(super) inline_in_flight: usize,
    pub(super) senders: usize,
    /// Number of calls in flight that sender tasks have sent. `senders` is the number of sender
    /// tasks.
    pub(super) in_flight: usize,
    /// Orders the delivery of replies; created when it is first needed.
    reply_order: Option<ReplyOrder>,
    pub(super) watched: bool,
    pub(super) waiting: VecDeque<Call>,
}

pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) phase: BatchPhase,
    pub(super) since: Instant,
    /// The call is not sent after this instant.
    pub(super) until: Instant,
    pub(super) limit: Instant,
    pub(super) answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl BatchQueue {
    /// Takes the next waiting call that may still be sent.
    ///
    /// Calls that may no longer be sent (`until`) are answered with an error. Calls with dropped
    /// callers are skipped.
    fn next(&mut self, now: Instant) -> Option<Call> {
        loop {
            let call = self.waiting.pop_front()?;
            if call.answer.is_closed() {
                continue;
            }
            if now < call.until {
                return Some(call);
            }
            let _ = call.answer.send(Err(ServerError::not_sent("the calls before it were not answered in time")));
        }
    }

    pub(super) fn longest_wait(&mut self, now: Instant) -> Option<Duration> {
        let call = self.next(now)?;
        let waited = now.since(call.since);
        self.waiting.push_front(call);
        Some(waited)
    }

    fn max_in_flight(&self, mode: BatchMode) -> usize {
        let is_crowded = self.waiting.len() >= CROWD;
        if mode == BatchMode::Near && self.senders > 0 && !is_crowded { MAX_IN_FLIGHT_NEAR } else { MAX_IN_FLIGHT }
    }

    pub(super) fn has_room(&self, mode: BatchMode) -> bool {
        self.inline_in_flight + self.senders < self.max_in_flight(mode)
    }

    /// Returns the maximum size of the next batch.
    ///
    /// With [`BatchMode::OrderedReplies`], it is a quarter of all calls (waiting and in flight),
    /// but at most [`MAX_BATCH`]: four requests share the calls equally. In another mode, or while
    /// four other requests are in flight, it is [`MAX_BATCH`].
    fn max_batch(&self, mode: BatchMode) -> usize {
        let all = self.waiting.len() + self.in_flight;
        match mode {
            BatchMode::OrderedReplies if self.inline_in_flight + self.senders <= MAX_IN_FLIGHT => {
                all.div_ceil(MAX_IN_FLIGHT).min(MAX_BATCH)
            }
            _ => MAX_BATCH,
        }
    }

    /// Takes the calls of the next batch, for a task that sends them. With
    /// [`BatchMode::OrderedReplies`], also returns the mutex that orders the delivery of replies.
    ///
    /// If the returned list is empty, the task must end; it is then no longer counted in `senders`.
    /// The list is empty if no call waits. It is also empty if the task has already sent a batch,
    /// and the other senders suffice for the waiting calls.
    pub(super) fn take_batch(
        &mut self,
        mode: BatchMode,
        now: Instant,
        has_sent: bool,
    ) -> (Vec<Call>, Option<ReplyOrder>) {
        let is_enough = has_sent && self.senders > self.max_in_flight(mode);
        let size = if is_enough { 0 } else { self.waiting.len().min(self.max_batch(mode)) };
        let mut calls = Vec::with_capacity(size);
        calls.extend(std::iter::from_fn(|| self.next(now)).take(size));
        self.senders -= usize::from(calls.is_empty());
        self.in_flight += calls.len();
        let order = (mode == BatchMode::OrderedReplies).then(|| Arc::clone(self.reply_order.get_or_insert_default()));
        (calls, order)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.inline_in_flight + self.senders == 0 && !self.watched && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a queue with `count` waiting calls, and returns the receivers of their replies.
    fn queue(
        inline_in_flight: usize,
        senders: usize,
        count: usize,
    ) -> (BatchQueue, Vec<oneshot::Receiver<Result<Reply, ServerError>>>) {
        let call = |_| {
            let (answer, reply) = oneshot::channel();
            let request = Arc::new(Request::command("PING"));
            let (since, until) = (Instant::MIN, Instant::MAX);
            (Call { request, phase: BatchPhase::Release, since, until, limit: until, answer }, reply)
        };
        let (waiting, replies) = (0..count).map(call).unzip();
        (BatchQueue { inline_in_flight, senders, waiting, ..BatchQueue::default() }, replies)
    }

    #[test]
    fn one_batch_is_in_flight_to_a_near_server_unless_many_calls_wait() {
        let has_room = |inline_in_flight, senders, waiting| {
            let (queue, _replies) = queue(inline_in_flight, senders, waiting);
            [BatchMode::Near, BatchMode::Far].map(|mode| queue.has_room(mode))
        };
        // Inline calls do not wait for each other.
        assert_eq!((has_room(3, 0, 0), has_room(4, 0, 1)), ([true; 2], [false; 2]));
        assert_eq!((has_room(0, 1, 0), has_room(0, 1, CROWD - 1)), ([false, true], [false, true]));
        assert_eq!((has_room(0, 1, CROWD), has_room(0, 4, CROWD)), ([true; 2], [false; 2]));
    }

    #[test]
    fn a_sender_takes_a_batch_of_limited_size_and_ends_when_it_is_not_needed() {
        let (mut queue, _replies) = queue(0, 2, MAX_BATCH + 1);
        let mut take = |has_sent| (queue.take_batch(BatchMode::Near, Instant::MIN, has_sent).0.len(), queue.senders);
        assert_eq!(take(false), (MAX_BATCH, 2));
        // One call is left, for which one sender suffices.
        assert_eq!(take(true), (0, 1));
        assert_eq!(take(true), (1, 1));
        assert_eq!(take(true), (0, 0));
    }

    #[test]
    fn with_ordered_replies_a_batch_is_a_quarter_of_all_calls() {
        let take = |queue: &mut BatchQueue| queue.take_batch(BatchMode::OrderedReplies, Instant::MIN, false).0.len();
        let (mut many, _replies) = queue(0, 1, 30);
        assert_eq!([(); 4].map(|()| take(&mut many)), [8, 8, 8, 6]);
        // The calls in flight are counted, too, because their callers will send again.
        let (mut again, _replies) = queue(0, 1, 20);
        again.in_flight = 10;
        assert_eq!(take(&mut again), 8);
        // While four other requests are in flight, a sender is started only for a call that has
        // waited for `MAX_WAIT`. That sender takes all waiting calls.
        for (inline_in_flight, senders) in [(0, 5), (4, 1)] {
            let (mut late, _replies) = queue(inline_in_flight, senders, 20);
            assert_eq!(take(&mut late), 20);
        }
        let (mut crowd, _replies) = queue(0, 4, 500);
        assert_eq!(take(&mut crowd), MAX_BATCH);
    }
}
