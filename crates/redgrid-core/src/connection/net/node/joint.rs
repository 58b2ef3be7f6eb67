//! Server-side batching: a script that executes the calls of many callers as one request.
//!
//! A few requests are in flight at a time. Further calls wait and form a batch when one of the
//! requests is answered. A lone call has no overhead: its caller sends its own script. Waiting
//! calls do not depend on callers polling. An inline call with an unpolled future blocks them only
//! briefly.
//!
//! Measured on two cores over loopback. Up to four concurrent calls never wait. With more callers
//! on several threads, all calls share one batch. It is sent once as many calls wait as the last
//! one answered. A request has a fixed cost on both sides: wake-ups, a write and a read; a larger
//! batch spreads it over more calls. Compared with two requests of half the size, 16 tasks needed
//! three quarters of the client's CPU time and four fifths of the server's. With 8 tasks it was two
//! thirds of both.
//!
//! With about a hundred callers or more, four requests in flight are faster (256 tasks: 1.13
//! times). Four are also faster with a distant server, where waiting for the next batch costs a
//! part of a round trip. At 64 calls per batch the fixed cost on the server is negligible, and the
//! batch completes within 0.3 ms.
//!
//! On a runtime with one thread, client and server would idle alternately with one request in
//! flight. There four requests are in flight with a quarter of the calls in each, and their replies
//! are delivered in order. The callers of one reply send again before the next reply is delivered,
//! so the server has work meanwhile. Replies that arrive together would otherwise be delivered
//! together, and all calls would join one batch again. Speed-up for 16 tasks: 1.7 times with
//! ordered delivery, 1.1 without. For 8 tasks it is 1.6 times, for 32 to 64 tasks 1.6 to 2 times,
//! and for 256 tasks the same. On several threads the woken callers start on other threads, some
//! time later. There ordered delivery only delays the rest (0.8 times).

mod traffic;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::yield_now;

use self::traffic::{Call, Pace, Traffic, Turns};
use super::Node;
use crate::clock::Instant;
use crate::connection::core::is_one_thread;
use crate::connection::slot::slot;
use crate::connection::{Arg, Reply, Request, ResponseFuture};
use crate::error::{Code, ServerError};
use crate::inline_bytes::decimal;
use crate::pinned::pinned;
use crate::script::{BatchPhase, BatchScript};

/// Maximum yields of a sender to its answered callers, until as many calls wait again.
///
/// A caller that is woken on another thread starts a moment later.
const GIVES_WAY: usize = 5;

/// The limit of yields on a runtime with one thread: a woken caller runs before the task continues.
const GIVES_WAY_ALONE: usize = 2;

/// Maximum delay of an available reply (1 to 2 ms, given the timer's resolution).
///
/// Then it is delivered even if the callers of the previous reply have not sent again.
const HELD_UP: Duration = Duration::from_millis(1);

/// A server is near if its round trip takes at most 0.3 ms without load.
const NEAR: Duration = Duration::from_micros(300);

/// A call that has waited for 5 to 10 ms is sent, whatever is in flight.
///
/// Waiting assumes that the requests in flight are polled and answered soon. A distant server
/// delays waiting calls no longer than that.
const PATIENCE: Duration = Duration::from_millis(5);

/// A call that has waited for half of its reply timeout (1/2) is not sent. The rest is for the
/// reply.
const WAITS: u32 = 2;

/// The batched calls of one node.
pub(super) struct Joints {
    node: Weak<Node>,
    runtime: Handle,
    by_slot: bool,
    one_thread: bool,
    lanes: Mutex<HashMap<Lane, Traffic, foldhash::fast::RandomState>>,
}

/// The key of a batch: calls of one script on one connection; in a cluster, calls of one slot.
#[derive(Clone, Copy)]
struct Lane {
    joint: &'static BatchScript,
    at: u16,
}

impl Lane {
    /// Returns the key of comparisons. Each script has one static instance, so its address
    /// identifies it.
    fn key(self) -> (usize, u16) {
        (std::ptr::from_ref(self.joint).addr(), self.at)
    }
}

impl PartialEq for Lane {
    fn eq(&self, other: &Lane) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Lane {}

impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Joints {
    /// Creates the batches of a node. `by_slot` is set for a node of a cluster.
    pub(super) fn new(node: Weak<Node>, by_slot: bool) -> Self {
        Joints { node, runtime: Handle::current(), by_slot, one_thread: is_one_thread(), lanes: Mutex::default() }
    }

    /// Yields to callers that were answered together, so that their next calls form a batch.
    async fn gather(&self, lane: Lane, answered: usize) {
        let gives_way = if self.one_thread { GIVES_WAY_ALONE } else { GIVES_WAY };
        for _ in 0..gives_way {
            yield_now().await;
            if self.lanes().get(&lane).is_none_or(|traffic| traffic.waiting.len() >= answered) {
                return;
            }
        }
    }

    /// Sends a request once, alone or in a batch.
    ///
    /// If the future is dropped while the request waits for a batch, the request is not sent.
    pub(super) fn call<'a>(
        &self,
        node: &'a Node,
        (joint, turn): (&'static BatchScript, BatchPhase),
        request: &'a Arc<Request>,
        limit: Instant,
    ) -> ResponseFuture<'a> {
        let key = request.first_key();
        let at = if self.by_slot { slot(key) } else { node.commands.shard_of(key) };
        let lane = Lane { joint, at };
        match self.enter(node, turn, lane, (request, limit)) {
            None => {
                let leaving = Leaving { node, lane };
                ResponseFuture::inline(|| async move {
                    let _leaving = leaving;
                    node.one(node.line(request), request, Some(limit)).await
                })
            }
            Some(told) => ResponseFuture::queued(told),
        }
    }

    /// Registers a call. Returns the receiver of its reply if the call has to wait.
    fn enter(
        &self,
        node: &Node,
        turn: BatchPhase,
        lane: Lane,
        (request, limit): (&Arc<Request>, Instant),
    ) -> Option<oneshot::Receiver<Result<Reply, ServerError>>> {
        let pace = node.pace();
        let mut lanes = self.lanes();
        let traffic = lanes.entry(lane).or_default();
        if traffic.waiting.is_empty() && traffic.has_room(pace) {
            // The common case: a lone call reads no clock.
            traffic.alone += 1;
            return None;
        }
        let now = node.clock.now();
        let (answer, told) = oneshot::channel();
        let until = now + node.connections.target.settings.response_timeout / WAITS;
        traffic.waiting.push_back(Call { request: Arc::clone(request), turn, since: now, until, limit, answer });
        let drains = traffic.has_room(pace);
        traffic.drains += usize::from(drains);
        let guards = !std::mem::replace(&mut traffic.guarded, true);
        drop(lanes);
        if drains {
            self.runtime.spawn(pinned(|| drain(Weak::clone(&self.node), lane)));
        }
        if guards {
            self.runtime.spawn(guard(Weak::clone(&self.node), lane));
        }
        Some(told)
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Lane, Traffic, foldhash::fast::RandomState>> {
        self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes the traffic of a lane and removes the lane when it is idle.
    ///
    /// Returns true if a task has to be started to send the waiting calls.
    fn change(&self, lane: Lane, change: impl FnOnce(&mut Traffic) -> bool) -> bool {
        let mut lanes = self.lanes();
        let Some(traffic) = lanes.get_mut(&lane) else { return false };
        let drains = change(traffic);
        if drains {
            traffic.drains += 1;
        } else if traffic.is_over() {
            lanes.remove(&lane);
        }
        drains
    }

    /// Notes that `count` calls are no longer in flight.
    fn landed(&self, lane: Lane, count: usize) {
        self.change(lane, |traffic| {
            traffic.aboard -= count;
            false
        });
    }

    /// Takes the calls of the next batch.
    ///
    /// With ordered delivery, one more task is started if calls remain. The sending task ends if no
    /// call waits. After a batch it also ends if the other senders suffice for the waiting calls.
    fn next(&self, lane: Lane, node: &Node, has_sent: bool) -> (Vec<Call>, Option<Turns>) {
        let (now, pace) = (node.clock.now(), node.pace());
        let mut leaving = (Vec::new(), None);
        let drains = self.change(lane, |traffic| {
            let is_enough = has_sent && traffic.drains > traffic.room(pace);
            if !is_enough {
                leaving = traffic.board(pace, now);
            }
            traffic.drains -= usize::from(leaving.0.is_empty());
            pace == Pace::InTurns && traffic.is_awaited(now) && traffic.has_room(pace)
        });
        if drains {
            self.runtime.spawn(pinned(|| drain(Weak::clone(&self.node), lane)));
        }
        leaving
    }
}

impl Node {
    fn pace(&self) -> Pace {
        match self.time.round_trip() <= NEAR {
            true if self.joints.one_thread => Pace::InTurns,
            true => Pace::AtOnce,
            false => Pace::Far,
        }
    }
}

/// Ends the inline call of a caller, also when its future is dropped, and starts waiting calls.
struct Leaving<'a> {
    node: &'a Node,
    lane: Lane,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let joints = &self.node.joints;
        let drains = joints.change(self.lane, |traffic| {
            traffic.alone -= 1;
            // Read the clock only if calls wait.
            !traffic.waiting.is_empty()
                && traffic.has_room(self.node.pace())
                && traffic.is_awaited(self.node.clock.now())
        });
        if drains {
            joints.runtime.spawn(pinned(|| drain(Weak::clone(&joints.node), self.lane)));
        }
    }
}

/// Runs while calls wait: sends those that wait too long, and fails those past their deadline.
async fn guard(node: Weak<Node>, lane: Lane) {
    loop {
        tokio::time::sleep(PATIENCE).await;
        let Some(kept) = node.upgrade() else { return };
        let (now, mut goes_on) = (kept.clock.now(), false);
        let drains = kept.joints.change(lane, |traffic| {
            let waits = traffic.waits(now);
            goes_on = waits.is_some();
            traffic.guarded = goes_on;
            waits.is_some_and(|waits| waits >= PATIENCE)
        });
        if drains {
            kept.joints.runtime.spawn(pinned(|| drain(Weak::clone(&node), lane)));
        }
        if !goes_on {
            return;
        }
    }
}

/// Sends waiting calls until none is left.
async fn drain(node: Weak<Node>, lane: Lane) {
    // The reply senders are dropped with the node, which notifies the waiting callers.
    let (mut has_sent, mut turn) = (false, None);
    while let Some(node) = node.upgrade() {
        let (calls, turns) = node.joints.next(lane, &node, has_sent);
        has_sent = true;
        if calls.is_empty() {
            return;
        }
        let count = calls.len();
        turn = join(send(&node, lane.joint, calls, turns), has_left(turn.take())).await.0;
        node.joints.landed(lane, count);
        if count > 1 {
            node.joints.gather(lane, count).await;
        }
    }
}

/// Releases the delivery lock once the requests enqueued a moment ago have been written.
async fn has_left(turn: Option<OwnedMutexGuard<()>>) {
    if turn.is_some() {
        yield_now().await;
    }
}

/// Sends calls as a batch, or a single call alone.
///
/// Returns the delivery lock if the answered callers send next.
async fn send(
    node: &Node,
    joint: &'static BatchScript,
    calls: Vec<Call>,
    turns: Option<Turns>,
) -> Option<OwnedMutexGuard<()>> {
    let (alone, turn) = if calls.len() > 1 { together(node, joint, calls, turns).await } else { (calls, None) };
    if alone.is_empty() {
        return turn;
    }
    drop(turn);
    if !node.commands.is_up() {
        // A connection without a completed handshake is not used.
        tell(alone, &node.commands.down());
        return None;
    }
    join_all(alone.into_iter().map(async |Call { request, limit, answer, .. }| {
        let asking = node.one(node.line(&request), &request, Some(limit));
        if let Some(answered) = in_time(node, limit, asking).await {
            let _ = answer.send(answered);
        }
    }))
    .await;
    None
}

/// Returns the earliest reply deadline of the calls.
fn first_limit(calls: &[Call]) -> Instant {
    calls.iter().map(|call| call.limit).min().unwrap_or(Instant::MAX)
}

/// Awaits `asking` until `limit`. A dropped request may have been executed; its callers receive
/// that error.
async fn in_time<T>(node: &Node, limit: Instant, asking: impl Future<Output = T>) -> Option<T> {
    let answered = tokio::time::timeout(limit.since(node.clock.now()), asking).await.ok();
    if answered.is_none() {
        // As for a single request that gets no reply within the client's timeout.
        node.look_after();
    }
    answered
}

/// Waits for the delivery lock if replies are ordered, for a limited time.
async fn in_turn(turns: Option<Turns>) -> Option<OwnedMutexGuard<()>> {
    tokio::time::timeout(HELD_UP, turns?.lock_owned()).await.ok()
}

/// Sends calls as a batch and returns those to send alone.
///
/// The returned calls did nothing in the batch; their own script reports the reason.
async fn together(
    node: &Node,
    joint: &'static BatchScript,
    calls: Vec<Call>,
    turns: Option<Turns>,
) -> (Vec<Call>, Option<OwnedMutexGuard<()>>) {
    if !node.commands.is_up() {
        return (tell(calls, &node.commands.down()), None);
    }
    let mut calls = calls;
    // Stable sort: calls of one phase keep their order.
    calls.sort_by_key(|call| call.turn != BatchPhase::Release);
    let firsts = calls.iter().filter(|call| call.turn == BatchPhase::Release).count();
    let limit = calls.iter().filter(|call| call.request.args.contains(&Arg::NotAfter)).map(|call| call.limit).min();
    // Arguments that are common to all calls come first.
    let none = Arg::Bytes(Bytes::from_static(b"0"));
    let of_all = [Arg::Bytes(decimal(firsts as i64)), limit.map_or(none, |_| Arg::NotAfter), Arg::Publish];
    let own = calls.iter().flat_map(|call| &call.request.args).filter(|arg| arg.is_its_own());
    let args = of_all.iter().chain(own);
    let keys = calls.iter().map(|call| &call.request.keys[0]);
    let (link, room) = (node.line(&calls[0].request), of_all.len() + calls.len() * joint.arg_count);
    let asking = node.script((link, joint.body()), (keys, args), room, limit);
    let Some(answer) = in_time(node, first_limit(&calls), asking).await else { return (Vec::new(), None) };
    match answer {
        Ok(Reply::Array(answers)) if answers.len() == 1 + calls.len() => {
            let turn = in_turn(turns).await;
            let (mut answers, mut alone) = (answers.into_iter(), Vec::new());
            // The server's time is read once for the whole batch.
            let time = answers.next().unwrap_or(Reply::Nil);
            for (call, answer) in calls.into_iter().zip(answers) {
                let told = match answer {
                    Reply::Error(_) => {
                        alone.push(call);
                        continue;
                    }
                    // The script returns 1 for the common result, a grant.
                    Reply::Int(1) if call.turn == BatchPhase::Acquire => time.clone(),
                    Reply::Int(short) if call.turn == BatchPhase::Acquire => {
                        Reply::Array(vec![Reply::Int(short), time.clone(), Reply::Int(0)])
                    }
                    answer => answer,
                };
                // The caller may have been dropped.
                drop(call.answer.send(Ok(told)));
            }
            (alone, turn)
        }
        // Nothing was executed. The error of one call may not concern the others.
        Err(ServerError::Refused { code, .. }) if !concerns_all(code) => (calls, None),
        Ok(other) => (tell(calls, &other.misfit("a list of answers")), None),
        Err(error) => (tell(calls, &error), None),
    }
}

/// Sends the same error to all calls; returns no remaining calls.
fn tell(calls: Vec<Call>, error: &ServerError) -> Vec<Call> {
    for call in calls {
        let _ = call.answer.send(Err(error.clone()));
    }
    Vec::new()
}

/// Returns whether a rejection concerns the server as a whole instead of single keys.
fn concerns_all(code: Code) -> bool {
    matches!(code, Code::ReadOnly | Code::Loading | Code::ClusterDown | Code::MasterDown | Code::Busy | Code::Moved)
}
