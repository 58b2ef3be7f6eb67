//! Server-side batching: a script that executes the calls of many callers as one request.
//!
//! A few requests are in flight at a time. All other calls wait, and form a batch when one of the
//! requests is answered. A call that need not wait has no overhead: its caller sends the call's own
//! script. Waiting calls are sent by sender tasks, even if none of their callers is polled. If a
//! call need not wait and its caller is then not polled, the call still counts as in flight. Even
//! so, it delays the waiting calls by 10 ms at most.
//!
//! All numbers here were measured on two cores over loopback. Up to four concurrent calls never
//! wait. If there are more callers, one batch at a time is in flight. (This holds for a near server
//! and a runtime with several threads.) The next batch is sent as soon as it has as many calls as
//! the last batch, or after [`MAX_YIELDS`] yields to the runtime. A request has a fixed cost on
//! both sides: wake-ups, a write and a read; a larger batch spreads this cost over more calls. One
//! request needs less CPU time than two requests of half the size. With 16 tasks, the client spends
//! on one large request three quarters of the CPU time of two small ones, and the server four
//! fifths. With 8 tasks, both spend two thirds.
//!
//! With about a hundred callers or more, four requests in flight are faster than one (256 tasks:
//! 1.13 times). Four are also faster with a distant server. With only one request in flight, a call
//! would first have to wait for the reply to that request, and a round trip takes long. A batch has
//! at most 64 calls: with so many, the fixed cost on the server is negligible, and the batch
//! completes within 0.3 ms.
//!
//! On a runtime with one thread, client and server would be idle alternately if only one request
//! were in flight. So four requests are in flight there, each with a quarter of the calls, and
//! their replies are delivered in order. The callers that a reply answers send again before the
//! next reply is delivered, so the server always has work. In the following, the rate of calls is
//! compared with that of [`BatchMode::Near`], the mode for several threads. If the machine has a
//! free core for the server, the rate with 64 tasks is 1.7 times as high. With 8 tasks the rate is
//! the same, but needs twice the CPU time. On a machine without a free core, the rate is lower: 0.5
//! times with 8 tasks, 0.9 times with 256.
//!
//! On a runtime with several threads, woken callers start on other threads, some time later. So
//! ordered delivery would only delay the other replies (0.8 times the rate).
//!
//! The workload `W1` of `redgrid bench` was measured with 16 tasks and a near server. Four requests
//! in flight gave 0.95 times the rate of one request, for 1.4 times the CPU time. Without the
//! yields to the runtime between two batches ([`MAX_YIELDS`]), the rate of 16 to 256 tasks was 0.93
//! to 0.99 times as high. ARCHITECTURE.md has the rates without batches.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use tokio::sync::OwnedMutexGuard;
use tokio::task::yield_now;

use super::Node;
use super::batch_queue::{BatchKey, BatchMode, Batchers, Call, ReplyOrder};
use crate::clock::Instant;
use crate::connection::link::Connection;
use crate::connection::{Arg, Reply};
use crate::error::{Code, ServerError};
use crate::inline_bytes::decimal;
use crate::pinned::pinned;
use crate::script::{BatchPhase, ScriptText};

/// Maximum number of times that a sender yields to the runtime after a batch. The sender stops
/// earlier once at least as many calls wait as the batch has answered.
///
/// During the yields, the answered callers send their next calls. One yield is too short, because a
/// caller that is woken on another thread starts a moment later.
const MAX_YIELDS: usize = 5;

/// Replaces [`MAX_YIELDS`] on a runtime with one thread. Fewer yields suffice there, because woken
/// callers run before the sender continues.
const MAX_YIELDS_ONE_THREAD: usize = 2;

/// Maximum delay of a reply that has arrived: 1 to 2 ms, given the timer's resolution.
///
/// After this time the reply is delivered, even if the callers of the previous reply have not sent
/// their next calls.
const MAX_REPLY_DELAY: Duration = Duration::from_millis(1);

/// Interval at which waiting calls are checked: 5 ms. If a call has waited for that long, a further
/// sender is started, whatever is in flight. So no call waits for more than about 10 ms.
///
/// Calls wait because the replies to the requests in flight are expected soon. If the replies take
/// long, for example with a distant server, the further sender ends the wait.
const MAX_WAIT: Duration = Duration::from_millis(5);

impl Batchers {
    /// Starts a task that sends waiting calls. The caller has already counted the task in
    /// `senders`.
    pub(super) fn start_sender(&self, key: BatchKey) {
        self.runtime.spawn(pinned(|| send_waiting(Weak::clone(&self.node), key)));
    }

    /// Takes the calls of the next batch; see [`BatchQueue::take_batch`].
    ///
    /// With [`BatchMode::OrderedReplies`], one more sender is started if calls remain and another
    /// request is allowed in flight.
    fn take_batch(&self, key: BatchKey, node: &Node, has_sent: bool) -> (Vec<Call>, Option<ReplyOrder>) {
        let (now, mode, mut batch) = (node.clock.now(), node.batch_mode(), (Vec::new(), None));
        self.change(key, |queue| {
            batch = queue.take_batch(mode, now, has_sent);
            mode == BatchMode::OrderedReplies && queue.longest_wait(now).is_some() && queue.has_room(mode)
        });
        batch
    }

    fn completed(&self, key: BatchKey, count: usize) {
        self.change(key, |queue| {
            queue.in_flight -= count;
            false
        });
    }

    /// Yields to the runtime: callers that were answered together then send their next calls, which
    /// form a batch.
    async fn coalesce(&self, key: BatchKey, answered: usize) {
        for _ in 0..if self.one_thread { MAX_YIELDS_ONE_THREAD } else { MAX_YIELDS } {
            yield_now().await;
            if self.queues.lock().get(&key).is_none_or(|queue| queue.waiting.len() >= answered) {
                return;
            }
        }
    }
}

impl Node {
    /// Runs a script of this library with these keys and arguments. `room` is the maximum number of
    /// arguments.
    ///
    /// Batches use this method, because it takes the arguments from many requests without building
    /// a combined request.
    pub(super) async fn script<'a>(
        &self,
        (link, body): (&Connection, &ScriptText),
        (keys, args): (impl ExactSizeIterator<Item = &'a Bytes> + Clone, impl Iterator<Item = &'a Arg> + Clone),
        room: usize,
        limit: Option<Instant>,
    ) -> Result<Reply, ServerError> {
        let command = |name: &'static str, script: Bytes| {
            let mut command = Vec::with_capacity(3 + keys.len() + room);
            command.extend([name.into(), script, decimal(keys.len() as i64)]);
            self.append(command, keys.clone(), args.clone(), limit)
        };
        match link.send(command("EVALSHA", body.sha().clone())?).await {
            Err(ServerError::Refused { message, .. }) if Code::of(&message) == Code::NoScript => {
                // The retry is boxed because it is rare: unboxed, it would enlarge the future of
                // every sender.
                Box::pin(link.send(command("EVAL", body.bytes().clone())?)).await
            }
            answer => answer,
        }
    }
}

/// Checks the queue while calls wait. Starts a sender if a call has waited for [`MAX_WAIT`]. Calls
/// that may no longer be sent (`until`) are answered with an error.
pub(super) async fn watch(node: Weak<Node>, key: BatchKey) {
    loop {
        tokio::time::sleep(MAX_WAIT).await;
        let Some(node) = node.upgrade() else { return };
        let (now, mut goes_on) = (node.clock.now(), false);
        node.batchers.change(key, |queue| {
            let longest_wait = queue.longest_wait(now);
            goes_on = longest_wait.is_some();
            queue.watched = goes_on;
            longest_wait.is_some_and(|waited| waited >= MAX_WAIT)
        });
        if !goes_on {
            return;
        }
    }
}

/// Sends waiting calls until no call is left, or the other senders suffice.
async fn send_waiting(node: Weak<Node>, key: BatchKey) {
    // If the node is dropped, the reply channels of the waiting calls are dropped, too. That
    // notifies the callers.
    let (mut has_sent, mut guard) = (false, None);
    while let Some(node) = node.upgrade() {
        let (calls, order) = node.batchers.take_batch(key, &node, has_sent);
        has_sent = true;
        let count = calls.len();
        if count == 0 {
            return;
        }
        guard = join(send(&node, calls, order), release_order(guard.take())).await.0;
        node.batchers.completed(key, count);
        if count > 1 {
            node.batchers.coalesce(key, count).await;
        }
    }
}

/// Unlocks the [`ReplyOrder`] after a yield to the runtime. So the batch that was just enqueued is
/// written before the replies of other batches are delivered.
async fn release_order(guard: Option<OwnedMutexGuard<()>>) {
    if guard.is_some() {
        yield_now().await;
    }
}

/// Sends calls as a batch. A single call, and calls that failed in the batch, are sent
/// individually.
///
/// If this batch has locked the mutex `order`, returns its guard. While `order` is locked, the
/// replies of other batches are held back, for at most [`MAX_REPLY_DELAY`]. The sender unlocks
/// `order` after it has enqueued its next batch. So the answered callers can send their next calls
/// before other replies are delivered.
async fn send(node: &Node, calls: Vec<Call>, order: Option<ReplyOrder>) -> Option<OwnedMutexGuard<()>> {
    let (rest, guard) = if calls.len() > 1 { send_batch(node, calls, order).await } else { (calls, None) };
    if rest.is_empty() {
        return guard;
    }
    drop(guard);
    send_each(node, rest).await;
    None
}

async fn send_each(node: &Node, calls: Vec<Call>) {
    if !node.commands.is_up() {
        // A connection without a completed handshake is not used.
        fail_all(calls, &node.commands.down());
        return;
    }
    join_all(calls.into_iter().map(async |Call { request, limit, answer, .. }| {
        let sent = node.send(node.link_for(&request), &request, Some(limit));
        if let Some(reply) = in_time(node, limit, sent).await {
            let _ = answer.send(reply);
        }
    }))
    .await;
}

/// Awaits a reply until `limit`; returns `None` if no reply arrives. The calls are then dropped.
/// Each of their callers gets the error of a request that may have been executed.
async fn in_time<T>(node: &Node, limit: Instant, sent: impl Future<Output = T>) -> Option<T> {
    let reply = tokio::time::timeout(limit.since(node.clock.now()), sent).await.ok();
    if reply.is_none() {
        // The node is checked, as after a single request that got no reply within the client's
        // timeout.
        node.schedule_check();
    }
    reply
}

/// Sends calls as a batch, and returns the calls that must be sent individually.
///
/// The returned calls changed nothing in the batch. When such a call is sent individually, its own
/// script reports the reason of the failure. Also returns the guard of the mutex `order` if this
/// batch has locked it.
async fn send_batch(
    node: &Node,
    mut calls: Vec<Call>,
    order: Option<ReplyOrder>,
) -> (Vec<Call>, Option<OwnedMutexGuard<()>>) {
    if !node.commands.is_up() {
        return (fail_all(calls, &node.commands.down()), None);
    }
    let Some((script, _)) = calls[0].request.batch else { return (calls, None) };
    // The sort is stable: calls of one phase keep their order.
    calls.sort_by_key(|call| call.phase != BatchPhase::Release);
    let releases = calls.iter().filter(|call| call.phase == BatchPhase::Release).count();
    let not_after = calls.iter().filter(|call| call.request.args.contains(&Arg::NotAfter)).map(|call| call.limit).min();
    // Arguments that are common to all calls come first.
    let none = Arg::Bytes(Bytes::from_static(b"0"));
    let common = [Arg::Bytes(decimal(releases as i64)), not_after.map_or(none, |_| Arg::NotAfter), Arg::Publish];
    let own = calls.iter().flat_map(|call| &call.request.args).filter(|arg| arg.is_its_own());
    let args = common.iter().chain(own);
    let keys = calls.iter().map(|call| &call.request.keys[0]);
    let (link, arg_count) = (node.link_for(&calls[0].request), common.len() + calls.len() * script.arg_count);
    let sent = node.script((link, script.body()), (keys, args), arg_count, not_after);
    let limit = calls.iter().map(|call| call.limit).min().unwrap_or(Instant::MAX);
    let Some(reply) = in_time(node, limit, sent).await else { return (Vec::new(), None) };
    match reply {
        Ok(Reply::Array(replies)) if replies.len() == 1 + calls.len() => {
            let guard = lock_order(order).await;
            (answer_each(calls, replies), guard)
        }
        // Nothing was executed. The error may concern only one of the calls, so each call is sent
        // individually.
        Err(ServerError::Refused { code, .. }) if !concerns_all(code) => (calls, None),
        Ok(other) => (fail_all(calls, &other.misfit("a list of answers")), None),
        Err(error) => (fail_all(calls, &error), None),
    }
}

/// Locks the [`ReplyOrder`], if replies are delivered in order. Gives up after [`MAX_REPLY_DELAY`].
async fn lock_order(order: Option<ReplyOrder>) -> Option<OwnedMutexGuard<()>> {
    tokio::time::timeout(MAX_REPLY_DELAY, order?.lock_owned()).await.ok()
}

/// Answers each call with its part of a batch's reply. Returns the calls that failed; these changed
/// nothing.
fn answer_each(calls: Vec<Call>, replies: Vec<Reply>) -> Vec<Call> {
    let (mut replies, mut failed) = (replies.into_iter(), Vec::new());
    // The first element is the server's time, which the script reads once for the whole batch.
    let time = replies.next().unwrap_or(Reply::Nil);
    for (call, reply) in calls.into_iter().zip(replies) {
        let reply = match reply {
            Reply::Error(_) => {
                failed.push(call);
                continue;
            }
            // The script abbreviates frequent replies of acquires. 1 stands for the reply to a
            // granted acquire, which is the server's time. Any other number `n` stands for the list
            // `{n, time, 0}`.
            Reply::Int(1) if call.phase == BatchPhase::Acquire => time.clone(),
            Reply::Int(short) if call.phase == BatchPhase::Acquire => {
                Reply::Array(vec![Reply::Int(short), time.clone(), Reply::Int(0)])
            }
            reply => reply,
        };
        // The caller may have been dropped.
        let _ = call.answer.send(Ok(reply));
    }
    failed
}

/// Answers all calls with the same error. Returns an empty list, because no call remains to be sent
/// individually.
fn fail_all(calls: Vec<Call>, error: &ServerError) -> Vec<Call> {
    for call in calls {
        let _ = call.answer.send(Err(error.clone()));
    }
    Vec::new()
}

/// Returns whether a refusal with this code concerns all calls of a batch, not only single keys.
fn concerns_all(code: Code) -> bool {
    matches!(code, Code::ReadOnly | Code::Loading | Code::ClusterDown | Code::MasterDown | Code::Busy | Code::Moved)
}
