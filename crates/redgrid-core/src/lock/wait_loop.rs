//! The loop of a name that more than one waits for, or that others hold: only the first of the queue talks to the server.
//!
//! Try; if taken, watch the channel; try again when the subscription is confirmed, and from then on at every message, gap,
//! look of the poll that finds the key gone, and when the lease that was told has run out. After a stretch of ours others
//! go first: then only the end of the turn, or silence, is a reason to try.
//!
//! Of some kinds nobody tells a release. Their names are tried again after pauses that grow, and nothing is subscribed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::attempt::Attempt;
use super::fairness::YieldPlan;
use super::lock_state::{Busy, LockId, send};
use super::table::{State, Table};
use super::terms::Backoff;
use crate::clock::Instant;
use crate::wait::{Hub, Watch};

/// How long a name that a probe found free must stay free, and silent, before it is taken: 1 ms. A probe may meet the moment
/// between a release and the acquire of whoever's turn it is, whose message is on its way.
const STAYS_FREE: Duration = Duration::from_millis(1);

/// How long a name that nobody of us waits for any more may stay subscribed: half a second. Who asks again meanwhile finds it
/// in force.
const IDLE: Duration = Duration::from_millis(500);

/// Longer than any wait that a message or the poll does not end.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// Each sixteenth turn that ends by silence waits for 20 ms of it: a listener that is slow, as a process without its share of a
/// machine is, gets a turn at last; one that never wants the name costs a tenth of a stretch more.
const LONG_QUIET_PERIOD_EVERY: u32 = 16;
const LONG_QUIET_PERIOD: Duration = Duration::from_millis(20);

/// After so many tries without messages it is worth telling that somebody waits: some milliseconds.
const FLAG_WAITER_AFTER: u32 = 3;

/// How often who waits for a name that many hold looks whether one of them died: 1 s. It costs two calls.
const EVICTION_INTERVAL: Duration = Duration::from_secs(1);

enum Step {
    /// Nobody waits any more.
    Done,
    /// We hold the name, or something of ours is in flight: wait for a change. From `listen_at` on the end of the stretch is
    /// near, and what others do is to be heard.
    Local {
        listen_at: Instant,
    },
    Try(Box<Attempt>),
    /// Others go first.
    Yield,
}

/// What the loop knows of a name.
struct WaitLoop {
    key: LockId,
    hub: Arc<Hub>,
    channel: Bytes,
    mark: Bytes,
    changed: Arc<Notify>,
    watch: Option<Watch>,
    turn: Option<YieldPlan>,
    /// How often it is said that somebody waits, for kinds that others step back for.
    announces: Option<Duration>,
    /// Turns in a row that ended by silence.
    silent: u32,
    /// When it is looked whether somebody died inside.
    dead_due: Instant,
    /// How it waits where nobody sends messages.
    backoff: Option<Backoff>,
    /// Tries in a row that found it taken.
    tries: u32,
}

impl WaitLoop {
    /// The subscription, begun where there is none.
    fn watch(&mut self) -> &mut Watch {
        let WaitLoop { hub, channel, key, mark, watch, .. } = self;
        watch.get_or_insert_with(|| hub.watch_contended(channel.clone(), key.key().clone(), mark.clone()))
    }

    /// Whether everybody had a turn.
    fn turn_is_over(&mut self) -> bool {
        let heard = self.hub.heard(&self.channel);
        self.turn.as_mut().is_none_or(|turn| turn.is_over(heard))
    }

    /// Ends the turn. Returns of how many listeners how many took none, where that is known.
    fn end_turn(&mut self) -> Option<(u64, u64)> {
        self.turn.take()?.missing(self.hub.heard(&self.channel))
    }
}

impl Table {
    pub(super) async fn wait_loop(self: Arc<Self>, key: LockId) {
        let Some(mut course) = self.new_wait_loop(key) else { return };
        loop {
            match self.step(&mut course) {
                Step::Done => return,
                Step::Local { listen_at } => {
                    if course.watch.is_none() && self.now() >= listen_at {
                        course.watch();
                    }
                    // Listening, it looks now and then whether anybody still waits: the last may have got the name.
                    let again = if course.watch.is_none() { listen_at } else { self.now() + IDLE };
                    tokio::select! {
                        () = course.changed.notified() => {}
                        () = self.core.clock.sleep_until(again) => {}
                    }
                }
                Step::Try(attempt) => {
                    if let Some(left) = Arc::clone(&self).try_for(*attempt).await {
                        self.until_worth_a_try(&mut course, left).await;
                    }
                }
                Step::Yield => self.until_worth_a_try(&mut course, Duration::MAX).await,
            }
        }
    }

    fn new_wait_loop(&self, key: LockId) -> Option<WaitLoop> {
        let mut state = self.state();
        let slot = state.slots.get_mut(&key)?;
        let (hub, changed) = (Arc::clone(&self.core.hub), slot.changed());
        let (channel, mark) = (slot.keys.channel.clone(), slot.keys.mark.clone());
        let announces = slot.protocol.announces_every();
        let backoff = slot.queue.front().and_then(|first| first.request.backoff);
        Some(WaitLoop {
            key,
            hub,
            channel,
            mark,
            changed,
            watch: None,
            turn: None,
            announces,
            silent: 0,
            dead_due: self.now() + EVICTION_INTERVAL,
            backoff,
            tries: 0,
        })
    }

    fn step(self: &Arc<Self>, course: &mut WaitLoop) -> Step {
        let mut state = self.state();
        let State { slots, phantoms, .. } = &mut *state;
        let Some(slot) = slots.get_mut(&course.key) else { return Step::Done };
        slot.contended = false;
        slot.queue.retain(|entry| !entry.answer.is_closed());
        if slot.queue.is_empty() {
            slot.loop_running = false;
            slot.shrink_if_idle();
            self.withdraw(slot);
            let turn = course.turn.take().or(slot.yield_plan.take().map(|turn| *turn));
            if let Some(turn) = turn.filter(|_| slot.server_lease.is_none()) {
                // Whoever comes next takes the place of those who have left.
                let now = self.now();
                self.remember_yield(&mut state, &course.key, turn.for_next_caller(), now);
            }
            Self::remove_if_idle(&mut state, &course.key);
            return Step::Done;
        }
        if let Some(server_lease) = &slot.server_lease {
            course.tries = 0;
            if let Some((listeners, missing)) = course.end_turn() {
                // It ended by silence, and the name was free: those are no listeners that wait.
                phantoms.turn_ended(&course.key, listeners, missing, self.now());
            }
            let half = self.handover_window(slot.protocol, &course.key) / 2;
            let listens = course.backoff.is_none();
            return Step::Local { listen_at: if listens { server_lease.stretch_ends - half } else { Instant::NEVER } };
        }
        if slot.busy != Busy::No || slot.asking {
            return Step::Local { listen_at: Instant::NEVER };
        }
        if let Some(turn) = slot.yield_plan.take() {
            course.turn = Some(*turn);
            slot.contended = true;
            // Who has come to look since the release landed: others go first, that is an answer.
            let answers = slot.reject_try_waiters();
            drop(state);
            send(answers);
            return Step::Yield;
        }
        match self.attempt_of(&course.key, slot, self.now()) {
            Some(attempt) => {
                slot.asking = true;
                Step::Try(Box::new(attempt))
            }
            None => Step::Local { listen_at: Instant::NEVER },
        }
    }

    /// Waits until another try may succeed, or nobody waits any more. The name is taken for `left`. While others go first,
    /// silence is a reason to look once whether it is free.
    async fn until_worth_a_try(&self, course: &mut WaitLoop, left: Duration) {
        if let Some(backoff) = course.backoff {
            return self.back_off(course, backoff, left).await;
        }
        let mut until = self.now() + left.min(NO_TIMEOUT);
        let mut silence = self.quiet_until(course);
        let mut found_free = false;
        // Not while others go first: the try that found it taken has said it.
        let mut said = course.announces.filter(|_| course.turn.is_none()).map(|_| self.now());
        course.watch();
        self.evict_expired_holders(course).await;
        loop {
            if course.turn.is_some() && course.turn_is_over() {
                if let Some((listeners, missing)) = course.end_turn() {
                    self.state().phantoms.turn_ended(&course.key, listeners, missing, self.now());
                }
                course.silent = 0;
                return;
            }
            let say = said.zip(course.announces).map_or(Instant::NEVER, |(said, every)| said + every);
            let WaitLoop { watch, changed, turn, key, .. } = &mut *course;
            let Some(watch) = watch else { return };
            tokio::select! {
                wake = watch.wake() => {
                    if turn.is_none() {
                        return;
                    }
                    let anew = self.quiet_until(course);
                    if wake.messages > 0 {
                        (silence, found_free) = (anew, false);
                    } else {
                        // A reason to look is no message: silence goes on, or begins.
                        silence = silence.min(anew);
                    }
                }
                () = self.core.clock.wait_until(until) => return,
                () = self.core.clock.wait_until(silence) => {
                    if found_free {
                        course.silent = course.silent.wrapping_add(1);
                        return;
                    }
                    match course.hub.peek(course.key.key()).await {
                        Some(left) => {
                            (until, silence) = (self.now() + left.min(NO_TIMEOUT), Instant::NEVER);
                            // They had their turn, and it is to have an end.
                            said = said.or(course.announces.map(|_| Instant::PAST));
                        }
                        None => (silence, found_free) = (self.now() + STAYS_FREE, true),
                    }
                }
                () = self.core.clock.wait_until(say) => {
                    said = Some(self.now());
                    if let Some(every) = course.announces {
                        self.announce(&course.key, every).await;
                    }
                    self.evict_expired_holders(course).await;
                }
                () = changed.notified() => if self.nobody_waits(key) { return },
            }
        }
    }

    /// Now and then, where one who died inside is in the way until the lifetime of the whole name ends.
    async fn evict_expired_holders(&self, course: &mut WaitLoop) {
        if let Some(within) = course.announces.filter(|_| self.now() >= course.dead_due) {
            self.evict_expired(&course.key, within).await;
            course.dead_due = self.now() + EVICTION_INTERVAL;
        }
    }

    /// The same where no message comes: a pause, twice as long each time. Who is to let others go first gives each the time of
    /// its longest.
    async fn back_off(&self, course: &mut WaitLoop, backoff: Backoff, left: Duration) {
        let others = course.turn.take().map_or(Duration::ZERO, |_| backoff.longest);
        let pause = backoff.after(course.tries).mul_f64(0.5 + fastrand::f64() / 2.0);
        let until = self.now() + others + pause.min(left);
        course.tries = course.tries.saturating_add(1);
        if course.tries > FLAG_WAITER_AFTER {
            course.hub.mark(&course.mark).await;
        }
        loop {
            tokio::select! {
                () = self.core.clock.sleep_until(until) => return,
                () = course.changed.notified() => if self.nobody_waits(&course.key) { return },
            }
        }
    }

    /// Until when it must be silent while others go first.
    fn quiet_until(&self, course: &WaitLoop) -> Instant {
        let heard = course.hub.heard(&course.channel);
        // Now and then longer, for listeners that need more time to answer than most.
        let least = if course.silent % LONG_QUIET_PERIOD_EVERY == LONG_QUIET_PERIOD_EVERY - 1 {
            LONG_QUIET_PERIOD
        } else {
            Duration::ZERO
        };
        course.turn.as_ref().map_or(Instant::NEVER, |turn| self.now() + turn.quiet_period(heard).max(least))
    }

    fn nobody_waits(&self, key: &LockId) -> bool {
        let now = self.now();
        let state = self.state();
        state
            .slots
            .get(key)
            .is_none_or(|slot| slot.queue.iter().all(|entry| entry.answer.is_closed() || entry.until <= now))
    }
}
