//! Calls of many callers that leave together, by a script that does the work of all.
//!
//! A few calls are under way at a time; what comes while so many are waits, and leaves with others when one of them is
//! answered. Nothing is added to who is alone: he sends his own script himself. What waits depends on nobody's being polled: a
//! caller who holds on to his future and leaves it lying is not waited for beyond a moment.
//!
//! Measured (two cores, loopback): who is alone, or one of four, is never held up. Of more than that, on several threads, all leave by one call, once as
//! many ask again as it answered: a call has a price of its own on both sides, of wake-ups, a write and a read, and the more it carries the less
//! of that is anybody's (beside two calls with half as many in each: 16 tasks three quarters of the client's processor time and four
//! fifths of the server's, 8 tasks two thirds of both). Where more than a hundred wait four are faster (256 tasks: 1.13 times), and so they are to a server
//! further away, as who waits for a departure waits for a part of a round trip. With 64 in one call the server's work for a call
//! itself has stopped to matter, and it ends in 0.3 ms.
//!
//! One thread does one thing at a time, and so does the server: with one call under way each is idle while the other works. There four calls
//! are under way with a quarter of all in each, and they take turns: who was told an answer asks again, and that leaves, before the next answer is
//! told, so that the server has work meanwhile. Answers that arrive together would be told together otherwise, and all leave together again (16
//! tasks: 1.7 times with turns, 1.1 without; 8 tasks 1.6 times, 32 to 64 tasks 1.6 to 2 times, 256 tasks the same). On several threads those who
//! are told begin elsewhere, some time later: turns only hold up the rest (0.8 times).

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
use crate::pinned::pinned;
use crate::script::{Joint, Turn};
use crate::short::decimal;

/// So often a task that has sent some gives way to them, at most, until as many ask again: who is woken on another thread begins a moment
/// later.
const GIVES_WAY: usize = 5;

/// The same on a runtime of one thread: who is woken has begun before the task goes on.
const GIVES_WAY_ALONE: usize = 2;

/// An answer that is there is told after this (a millisecond or two, as the timer is), whether those who were told before have left or not.
const HELD_UP: Duration = Duration::from_millis(1);

/// A server is near whose round trip takes no longer than 0.3 ms when nothing is in its way.
const NEAR: Duration = Duration::from_micros(300);

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
    one_thread: bool,
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

impl Joints {
    /// `by_slot` for a node of a cluster.
    pub(super) fn new(node: Weak<Node>, by_slot: bool) -> Self {
        Joints { node, runtime: Handle::current(), by_slot, one_thread: is_one_thread(), lanes: Mutex::default() }
    }

    /// Gives way to those who were answered together: they may ask again, together.
    async fn gather(&self, lane: Lane, answered: usize) {
        let gives_way = if self.one_thread { GIVES_WAY_ALONE } else { GIVES_WAY };
        for _ in 0..gives_way {
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

    /// Where it is told its answer, if it has to wait.
    fn enter(
        &self,
        node: &Node,
        turn: Turn,
        lane: Lane,
        (request, limit): (&Arc<Request>, Instant),
    ) -> Option<oneshot::Receiver<Result<Reply, ServerError>>> {
        let pace = node.pace();
        let mut lanes = self.lanes();
        let traffic = lanes.entry(lane).or_default();
        if traffic.waiting.is_empty() && traffic.has_room(pace) {
            // Most are alone: then no clock is read.
            traffic.alone += 1;
            return None;
        }
        let now = node.clock.now();
        let (answer, told) = oneshot::channel();
        let until = now + node.settings.timeout / WAITS;
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

    /// So many are not under way any more.
    fn landed(&self, lane: Lane, count: usize) {
        self.change(lane, |traffic| {
            traffic.aboard -= count;
            false
        });
    }

    /// Those who leave next; where they take turns and more wait, one more task is begun, which sends those. Where nobody waits a task that
    /// sends them has ended, and one that has sent some where so few wait that others who send are enough.
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

/// A call that was under way in its caller's hands is so no more, however he left: those who wait leave now.
struct Leaving<'a> {
    node: &'a Node,
    lane: Lane,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let joints = &self.node.joints;
        let drains = joints.change(self.lane, |traffic| {
            traffic.alone -= 1;
            // Where nobody waits no clock is read.
            !traffic.waiting.is_empty()
                && traffic.has_room(self.node.pace())
                && traffic.is_awaited(self.node.clock.now())
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

/// Lets go of a turn when what was given to the connection a moment ago has been written.
async fn has_left(turn: Option<OwnedMutexGuard<()>>) {
    if turn.is_some() {
        yield_now().await;
    }
}

/// Sends calls together, or one alone. Returns the turn in which they were told, if those who were have the next.
async fn send(
    node: &Node,
    joint: &'static Joint,
    calls: Vec<Call>,
    turns: Option<Turns>,
) -> Option<OwnedMutexGuard<()>> {
    let (alone, turn) = if calls.len() > 1 { together(node, joint, calls, turns).await } else { (calls, None) };
    if alone.is_empty() {
        return turn;
    }
    drop(turn);
    if !node.commands.is_up() {
        // Not on a connection that nobody has greeted yet.
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

/// When the first of their answers has to be there.
fn first_limit(calls: &[Call]) -> Instant {
    calls.iter().map(|call| call.limit).min().unwrap_or(Instant::NEVER)
}

/// Asks until `limit`. What is dropped then may have been carried out, and its callers are told so.
async fn in_time<T>(node: &Node, limit: Instant, asking: impl Future<Output = T>) -> Option<T> {
    let answered = tokio::time::timeout(limit.since(node.clock.now()), asking).await.ok();
    if answered.is_none() {
        // As for whoever waits for an answer by himself to the end of the client's timeout.
        node.look_after();
    }
    answered
}

/// Waits for a turn, if they take turns; not for long, where the thread has other things to do.
async fn in_turn(turns: Option<Turns>) -> Option<OwnedMutexGuard<()>> {
    tokio::time::timeout(HELD_UP, turns?.lock_owned()).await.ok()
}

/// Sends calls together, and returns those that are to be sent alone: they did nothing, and their own script says why.
async fn together(
    node: &Node,
    joint: &'static Joint,
    calls: Vec<Call>,
    turns: Option<Turns>,
) -> (Vec<Call>, Option<OwnedMutexGuard<()>>) {
    if !node.commands.is_up() {
        return (tell(calls, &node.commands.down()), None);
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
    let asking = node.script((link, joint.body()), (keys, args), room, limit);
    let Some(answer) = in_time(node, first_limit(&calls), asking).await else { return (Vec::new(), None) };
    match answer {
        Ok(Reply::Array(answers)) if answers.len() == 1 + calls.len() => {
            let turn = in_turn(turns).await;
            let (mut answers, mut alone) = (answers.into_iter(), Vec::new());
            // Read once, and not by each of them.
            let time = answers.next().unwrap_or(Reply::Nil);
            for (call, answer) in calls.into_iter().zip(answers) {
                let told = match answer {
                    Reply::Error(_) => {
                        alone.push(call);
                        continue;
                    }
                    // Granted is what most are told.
                    Reply::Int(1) if call.turn == Turn::Second => time.clone(),
                    Reply::Int(short) if call.turn == Turn::Second => {
                        Reply::Array(vec![Reply::Int(short), time.clone(), Reply::Int(0)])
                    }
                    answer => answer,
                };
                // Nobody may wait for it any more.
                drop(call.answer.send(Ok(told)));
            }
            (alone, turn)
        }
        // Nothing was done: what is wrong with one of them may not be so with the others.
        Err(ServerError::Refused { code, .. }) if !concerns_all(code) => (calls, None),
        Ok(other) => (tell(calls, &other.misfit("a list of answers")), None),
        Err(error) => (tell(calls, &error), None),
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
