//! Calls of many callers that leave together, by a script that does the work of all.
//!
//! A few calls are under way at a time; what comes while so many are waits, and leaves with all that waits when one of them is
//! answered. Nothing is added to who is alone: he sends his own script himself. What waits depends on nobody's being polled: a
//! caller who holds on to his future and leaves it lying is not waited for beyond a moment.
//!
//! Measured (two cores, loopback): who is alone, or one of four, is never held up. Of more than that all leave by one call, once as many ask
//! again as it answered: a call has a price of its own on both sides, of wake-ups, a write and a read, and the more it carries the less
//! of that is anybody's (beside two calls with half as many in each: 16 tasks three quarters of the client's processor time and four
//! fifths of the server's, 8 tasks two thirds of both). Where more than a hundred wait four are faster (256 tasks: 1.13 times), and so they are to a server
//! further away, as who waits for a departure waits for a part of a round trip. With 64 in one call the server's work for a call
//! itself has stopped to matter, and it ends in 0.3 ms.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::Node;
use crate::clock::Instant;
use crate::connection::slot::slot;
use crate::connection::{Answering, Arg, Reply, Request};
use crate::error::{Code, ServerError};
use crate::pinned::pinned;
use crate::script::{Joint, Turn};
use crate::short::decimal;

/// So many calls are under way in a lane before others wait.
const UNDER_WAY: usize = 4;

/// So many are enough to a server that is near, once calls leave together.
const UNDER_WAY_NEAR: usize = 1;

/// So often a task that has sent some gives way to them, at most, until as many ask again: who is woken on another thread begins a moment
/// later.
const GIVES_WAY: usize = 5;

/// So many wait where one more call under way to a server that is near is worth its wake-ups.
const MANY: usize = 32;

/// A server is near whose round trip takes no longer than 0.3 ms when nothing is in its way.
const NEAR: Duration = Duration::from_micros(300);

/// So many leave together at most.
const TOGETHER: usize = 64;

/// Those who wait do so for others who are polled, and answered soon: who has waited for 5 to 10 ms leaves, whatever is under way. A
/// server far away is never waited for longer than that.
const PATIENCE: Duration = Duration::from_millis(5);

/// Who has waited for this part of the time that an answer may take is not sent any more: a half. The rest is for the answer.
const WAITS: u32 = 2;

/// The calls of one node.
pub(super) struct Joints {
    node: Weak<Node>,
    runtime: Handle,
    by_slot: bool,
    lanes: Mutex<HashMap<Lane, Traffic, foldhash::fast::RandomState>>,
}

/// What may leave together: the calls that one script does on one connection, in a cluster those of a slot.
#[derive(Clone, Copy)]
struct Lane {
    joint: &'static Joint,
    at: u16,
}

impl Lane {
    /// There is one of each script: its place says which it is.
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

#[derive(Default)]
struct Traffic {
    /// Under way in the hands of their callers.
    alone: usize,
    /// Tasks that send what waits.
    drains: usize,
    /// A task looks after those who wait.
    guarded: bool,
    waiting: VecDeque<Call>,
}

/// One that waits to leave.
struct Call {
    request: Arc<Request>,
    turn: Turn,
    /// Since when it waits.
    since: Instant,
    /// Until when it may leave.
    until: Instant,
    /// When its answer has to be there.
    limit: Instant,
    answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl Traffic {
    /// The next that waits and may still leave. Who has waited too long is told so; who has left is passed over.
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

    /// For how long the first of those who wait does, if somebody does.
    fn waits(&mut self, now: Instant) -> Option<Duration> {
        let call = self.next(now)?;
        let waits = now.since(call.since);
        self.waiting.push_front(call);
        Some(waits)
    }

    /// Whether somebody waits.
    fn is_awaited(&mut self, now: Instant) -> bool {
        self.waits(now).is_some()
    }

    /// How many calls may be under way.
    fn room(&self, is_near: bool) -> usize {
        let is_crowded = self.waiting.len() >= MANY;
        if is_near && self.drains > 0 && !is_crowded { UNDER_WAY_NEAR } else { UNDER_WAY }
    }

    /// Whether there is room for one more call, beside those under way.
    fn has_room(&self, is_near: bool) -> bool {
        self.alone + self.drains < self.room(is_near)
    }

    fn is_over(&self) -> bool {
        self.alone + self.drains == 0 && !self.guarded && self.waiting.is_empty()
    }
}

impl Joints {
    /// `by_slot` for a node of a cluster.
    pub(super) fn new(node: Weak<Node>, by_slot: bool) -> Self {
        Joints { node, runtime: Handle::current(), by_slot, lanes: Mutex::default() }
    }

    /// Gives way to those who were answered together: they may ask again, together.
    async fn gather(&self, lane: Lane, answered: usize) {
        for _ in 0..GIVES_WAY {
            yield_now().await;
            if self.lanes().get(&lane).is_none_or(|traffic| traffic.waiting.len() >= answered) {
                return;
            }
        }
    }

    /// Sends a request, alone or together with others, once.
    ///
    /// Dropped while it waits for others, it does not leave.
    pub(super) fn call<'a>(
        &self,
        node: &'a Node,
        (joint, turn): (&'static Joint, Turn),
        request: &'a Arc<Request>,
        limit: Instant,
    ) -> Answering<'a> {
        let key = request.first_key();
        let at = if self.by_slot { slot(key) } else { node.commands.seat(key) };
        let lane = Lane { joint, at };
        match self.enter(node, turn, lane, (request, limit)) {
            None => {
                let leaving = Leaving { node, lane };
                Answering::fetched(|| async move {
                    let _leaving = leaving;
                    node.one(node.line(request), request, Some(limit)).await
                })
            }
            Some(told) => Answering::told(told),
        }
    }

    /// Where it is told its answer, if it has to wait.
    fn enter(
        &self,
        node: &Node,
        turn: Turn,
        lane: Lane,
        (request, limit): (&Arc<Request>, Instant),
    ) -> Option<oneshot::Receiver<Result<Reply, ServerError>>> {
        let (now, is_near) = (node.clock.now(), node.is_near());
        let mut lanes = self.lanes();
        let traffic = lanes.entry(lane).or_default();
        if traffic.waiting.is_empty() && traffic.has_room(is_near) {
            traffic.alone += 1;
            return None;
        }
        let (answer, told) = oneshot::channel();
        let until = now + node.settings.timeout / WAITS;
        traffic.waiting.push_back(Call { request: Arc::clone(request), turn, since: now, until, limit, answer });
        let drains = traffic.has_room(is_near);
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

    /// Changes the traffic of a lane, and forgets it when it is over; true where a task is to send what waits.
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

    /// Those who leave next. Where nobody waits a task that sends them has ended, and one that has sent some where so few wait that others
    /// who send are enough.
    fn next(&self, lane: Lane, node: &Node, has_sent: bool) -> Vec<Call> {
        let (now, is_near) = (node.clock.now(), node.is_near());
        let mut calls = Vec::new();
        self.change(lane, |traffic| {
            let is_enough = has_sent && traffic.drains > traffic.room(is_near);
            if !is_enough {
                calls.reserve(traffic.waiting.len().min(TOGETHER));
                calls.extend(std::iter::from_fn(|| traffic.next(now)).take(TOGETHER));
            }
            traffic.drains -= usize::from(calls.is_empty());
            false
        });
        calls
    }
}

impl Node {
    fn is_near(&self) -> bool {
        self.time.round_trip() <= NEAR
    }
}

/// A call that was under way in its caller's hands is so no more, however he left: those who wait leave now.
struct Leaving<'a> {
    node: &'a Node,
    lane: Lane,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let (joints, now, is_near) = (&self.node.joints, self.node.clock.now(), self.node.is_near());
        let drains = joints.change(self.lane, |traffic| {
            traffic.alone -= 1;
            traffic.is_awaited(now) && traffic.has_room(is_near)
        });
        if drains {
            joints.runtime.spawn(pinned(|| drain(Weak::clone(&joints.node), self.lane)));
        }
    }
}

/// As long as somebody waits: has those leave who do so for more than a moment, and tells those who wait too long.
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

/// Sends what waits, as long as something does.
async fn drain(node: Weak<Node>, lane: Lane) {
    // The senders of their answers go with the node: who waits is told.
    let mut has_sent = false;
    while let Some(node) = node.upgrade() {
        let calls = node.joints.next(lane, &node, has_sent);
        has_sent = true;
        let Some(limit) = calls.iter().map(|call| call.limit).min() else { return };
        let within = limit.since(node.clock.now());
        let count = calls.len();
        // Dropped at its end, with the answers nobody has been told: what left may have been carried out.
        if tokio::time::timeout(within, send(&node, lane.joint, calls)).await.is_err() {
            // As for whoever waits for an answer by himself to the end of the client's timeout.
            node.look_after();
        }
        if count > 1 {
            node.joints.gather(lane, count).await;
        }
    }
}

/// Sends calls together, or one alone.
async fn send(node: &Node, joint: &'static Joint, calls: Vec<Call>) {
    let alone = if calls.len() > 1 { together(node, joint, calls).await } else { calls };
    if !node.commands.is_up() {
        // Not on a connection that nobody has greeted yet.
        tell(alone, &node.commands.down());
        return;
    }
    join_all(alone.into_iter().map(async |Call { request, limit, answer, .. }| {
        let _ = answer.send(node.one(node.line(&request), &request, Some(limit)).await);
    }))
    .await;
}

/// Sends calls together, and returns those that are to be sent alone: they did nothing, and their own script says why.
async fn together(node: &Node, joint: &'static Joint, calls: Vec<Call>) -> Vec<Call> {
    if !node.commands.is_up() {
        return tell(calls, &node.commands.down());
    }
    let mut calls = calls;
    // Stable: in each turn, who came first is first.
    calls.sort_by_key(|call| call.turn != Turn::First);
    let firsts = calls.iter().filter(|call| call.turn == Turn::First).count();
    let limit = calls.iter().filter(|call| call.request.args.contains(&Arg::NotAfter)).map(|call| call.limit).min();
    // Those that are the same for all stand in front.
    let none = Arg::Bytes(Bytes::from_static(b"0"));
    let of_all = [Arg::Bytes(decimal(firsts as i64)), limit.map_or(none, |_| Arg::NotAfter), Arg::Publish];
    let own = calls.iter().flat_map(|call| &call.request.args).filter(|arg| arg.is_its_own());
    let args = of_all.iter().chain(own);
    let keys = calls.iter().map(|call| &call.request.keys[0]);
    let (link, room) = (node.line(&calls[0].request), of_all.len() + calls.len() * joint.words);
    match node.script((link, joint.body()), (keys, args), room, limit).await {
        Ok(Reply::Array(answers)) if answers.len() == 1 + calls.len() => {
            let (mut answers, mut alone) = (answers.into_iter(), Vec::new());
            // Read once, and not by each of them.
            let time = answers.next().unwrap_or(Reply::Nil);
            let time = time.clone().into_typed().map_or(time, Reply::Int);
            for (call, answer) in calls.into_iter().zip(answers) {
                let told = match answer {
                    Reply::Error(_) => {
                        alone.push(call);
                        continue;
                    }
                    Reply::Int(short) if call.turn == Turn::Second => {
                        Reply::Array(vec![Reply::Int(short), time.clone(), Reply::Int(0)])
                    }
                    answer => answer,
                };
                // Nobody may wait for it any more.
                drop(call.answer.send(Ok(told)));
            }
            alone
        }
        // Nothing was done: what is wrong with one of them may not be so with the others.
        Err(ServerError::Refused { code, .. }) if !concerns_all(code) => calls,
        Ok(other) => tell(calls, &other.misfit("a list of answers")),
        Err(error) => tell(calls, &error),
    }
}

/// Tells all the same; nobody is left.
fn tell(calls: Vec<Call>, error: &ServerError) -> Vec<Call> {
    for call in calls {
        let _ = call.answer.send(Err(error.clone()));
    }
    Vec::new()
}

/// Whether a refusal has nothing to do with single keys.
fn concerns_all(code: Code) -> bool {
    matches!(code, Code::ReadOnly | Code::Loading | Code::ClusterDown | Code::MasterDown | Code::Busy | Code::Moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(count: usize) -> VecDeque<Call> {
        let call = |_| Call {
            request: Arc::new(Request::command("PING")),
            turn: Turn::First,
            since: Instant::PAST,
            until: Instant::NEVER,
            limit: Instant::NEVER,
            answer: oneshot::channel().0,
        };
        (0..count).map(call).collect()
    }

    #[test]
    fn one_call_of_many_is_under_way_to_a_server_that_is_near() {
        let traffic = |alone, drains, waits| Traffic { alone, drains, guarded: true, waiting: waiting(waits) };
        let room = |of: Traffic| [true, false].map(|is_near| of.has_room(is_near));
        // Those who go by themselves do not wait for each other.
        assert_eq!((room(traffic(3, 0, 0)), room(traffic(4, 0, 1))), ([true; 2], [false; 2]));
        assert_eq!((room(traffic(0, 1, 0)), room(traffic(0, 1, MANY - 1))), ([false, true], [false, true]));
        assert_eq!((room(traffic(0, 1, MANY)), room(traffic(0, 4, MANY))), ([true; 2], [false; 2]));
    }
}
