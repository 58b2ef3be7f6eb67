//! The loop of a pool: when it asks the server, and what an answer changes.
//!
//! It asks when a request comes first in the queue, when permits go back, when the subscription is confirmed and at each
//! message, gap and look from then on, and when somebody's lease has ended. After a stretch of ours others go first: then only
//! the end of the turn, or silence, is a reason to ask.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;

use super::counter::return_of;
use super::error::ReleaseError;
use super::exchange::{Asked, Said, Words};
use super::pool::{Failure, Granted, Pool};
use super::queue::{Back, Call, Entry, Extension, State};
use super::settle::{Belief, Grant, Unproven};
use super::stock::{Leased, Stock};
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::RequestOutcome;
use crate::error::ServerError;
use crate::exactly_once;
use crate::lock::{ExtendError, LostReason, SubscriberCount, YieldPlan, deadline, stretch_length};
use crate::pubsub::{OwnSubscription, ReplicaSubscribers, Watch};

/// How long what was refused stays with us before it is offered again: from 100 ms on, twice as long each time, up to 30 s.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a name that nobody of us waits for any more may stay subscribed: half a second.
const IDLE: Duration = Duration::from_millis(500);

enum Step {
    Done,
    Ask(Box<Call>),
    Wait { until: Instant, listens: bool },
}

/// What the loop knows of its own.
#[derive(Default)]
struct Course {
    watch: Option<Watch>,
    /// Since when nobody waits.
    idle_since: Option<Instant>,
    /// Messages heard when the silence began that is waited for.
    heard: Option<u64>,
}

impl Pool {
    pub(super) async fn drive(self: Arc<Self>) {
        let mut course = Course::default();
        loop {
            match self.step(&mut course) {
                Step::Done => {
                    self.pools.sweep(&self);
                    return;
                }
                Step::Ask(call) => self.ask(*call).await,
                Step::Wait { until, listens } => {
                    if listens && course.watch.is_none() {
                        let (channel, wake) = (self.source.channel.clone(), Arc::clone(&self.wake));
                        course.watch = Some(self.core.subscriptions.watch_with_notify(channel, &self.source.key, wake));
                    }
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = self.clock().sleep_until(until) => {}
                    }
                }
            }
        }
    }

    fn step(self: &Arc<Self>, course: &mut Course) -> Step {
        let now = self.clock().now();
        let woken = course.watch.as_mut().and_then(Watch::take);
        let heard = self.core.subscriptions.message_count(&self.source.channel);
        let mut guard = self.state();
        let state = &mut *guard;
        state.in_force = course.watch.as_ref().is_some_and(Watch::is_active);
        state.prune(self, now);
        if let Some((turn, silence)) = &mut state.turn {
            if course.heard != heard {
                (course.heard, *silence) = (heard, now + turn.quiet_period(heard) + self.stretch());
            }
            if turn.is_over(heard) || now >= *silence {
                state.silent_turn = turn.missing(heard);
                (state.turn, state.ask) = (None, true);
            }
        } else {
            state.ask |= woken.is_some();
        }
        if now >= state.look_at.min(state.next_end) {
            (state.look_at, state.next_end) = (Instant::MAX, Instant::MAX);
            state.ask |= state.turn.is_none();
        }
        state.serve(self, now);
        state.dismiss_lookers(now);
        if let Some(call) = state.call(self, now) {
            course.idle_since = None;
            return Step::Ask(Box::new(call));
        }
        if state.queue.is_empty() && !state.back.is_empty() {
            // It was refused, and is offered again.
            return Step::Wait { until: state.paused_until, listens: false };
        }
        if state.queue.is_empty() {
            let idle_since = *course.idle_since.get_or_insert(now);
            let stays = course.watch.is_some() && now < idle_since + IDLE && !state.closed;
            if stays {
                return Step::Wait { until: idle_since + IDLE, listens: true };
            }
            (state.driven, state.flight, state.turn, state.contended) = (false, None, None, false);
            return Step::Done;
        }
        course.idle_since = None;
        let look = state.next_look(self, now);
        state.look_at = state.look_at.min(look);
        let turn = state.turn.as_ref().map_or(Instant::MAX, |(_, silence)| *silence);
        let paused = if state.back.is_empty() { Instant::MAX } else { state.paused_until };
        // The keeper wakes it for renewals.
        let until = [state.look_at, state.next_end, turn, state.first_until, paused].into_iter().min().unwrap_or(look);
        Step::Wait {
            until,
            listens: state.contended || state.turn.is_some() || now + self.stretch() / 2 >= state.stretch_ends,
        }
    }

    /// How long permits pass from task to task without asking.
    fn stretch(&self) -> Duration {
        if self.source.fair {
            return Duration::ZERO;
        }
        stretch_length(self.core.settings.stretch, self.core.home(&self.source.key).time().round_trip())
    }

    async fn ask(self: &Arc<Self>, call: Call) {
        let request = call.words.request(&self.core, &self.source, self.pools.number());
        // Of all copies the first one may be the one that was carried out: leases are counted from before it.
        let sent = self.clock().now();
        let chase = exactly_once::send_until_answered(&self.core, &request, &call.progress);
        // Its own message may be heard before the answer.
        let own = self.core.subscriptions.own_subscription(&self.source.channel);
        // Where others listen at a replica, it is asked how many.
        let channel = (&self.source.channel, &self.source.key);
        let counting = if call.ends_stretch { self.core.subscriptions.replica_subscribers(&[channel]) } else { None };
        let ((answer, asked), copied) = match counting {
            None => (chase.await, None),
            Some(counting) => {
                let (answer, copied) = join(chase, counting).await;
                (answer, copied.first().copied())
            }
        };
        match answer.and_then(Said::of) {
            Ok(said) => {
                let unproven = self.answered(call, said, (sent, &asked), (own, copied));
                if !unproven.is_empty() {
                    self.prove(unproven, asked);
                }
            }
            Err(error) => self.failed(call, error),
        }
    }

    /// Takes an answer in. What is to be more durable than the answer says is returned.
    fn answered(
        self: &Arc<Self>,
        call: Call,
        said: Said,
        (sent, by): (Instant, &RequestOutcome),
        (own, copied): (OwnSubscription, Option<ReplicaSubscribers>),
    ) -> Vec<Unproven> {
        let now = self.clock().now();
        let Call { words, back, ends_stretch, durability, extension, .. } = call;
        let mut guard = self.state();
        let state = &mut *guard;
        state.contact = now;
        (state.paused_until, state.refusals, state.left) = (Instant::MIN, 0, said.left);
        self.remember_back(&words, by);
        tell_back(self, back, &said.back);
        let returned = words.returned + said.back.iter().filter(|found| **found).count() as u64;

        let mut beliefs = Vec::new();
        let mut losses = false;
        for (looked, kept) in words.looked.iter().zip(&said.kept) {
            match kept {
                true if looked.lease.is_zero() => {}
                true => {
                    let until = deadline(sent, looked.lease);
                    beliefs.push((Arc::clone(&looked.leased), until, looked.shortened));
                }
                false => {
                    looked.leased.end(LostReason::Gone);
                    state.leased.remove(&looked.leased.id);
                    losses = true;
                }
            }
        }

        let (nobody, asked_for) = (said.taken.is_none(), words.asked.len());
        let taken = said.taken.unwrap_or_default();
        let mut grants = Vec::new();
        for (nth, asked) in words.asked.into_iter().enumerate() {
            let at = state.queue.iter().position(|entry| entry.id == asked.id);
            if taken.get(nth).copied().unwrap_or(false) {
                let entry = at.and_then(|at| state.queue.remove(at));
                grants.push(self.granted(entry, asked, durability, sent));
            } else if let Some(at) = at {
                let entry = &state.queue[at];
                entry.seen.asked(None);
                let answer = match () {
                    () if nobody && !entry.ask.awaits_init => Some(Err(Failure::NotInitialised)),
                    () if entry.ask.once => Some(Ok(Granted::Nothing)),
                    () => None,
                };
                if let Some(answer) = answer
                    && let Some(entry) = state.remove(at, self)
                {
                    let _ = entry.answer.send(answer);
                }
            }
        }
        if let Some((listeners, missing)) = state.silent_turn.take_if(|_| asked_for > 0) {
            let granted: u64 = grants.iter().map(|grant| grant.stock.n).sum();
            // Permits are taken without a message: if some are gone, a silent listener may have taken them.
            let is_untouched =
                said.left.saturating_add_unsigned(granted) == state.turn_left.saturating_add_unsigned(returned);
            if missing == 0 || granted > 0 && is_untouched {
                state.phantom.turn_ended(listeners, missing, now);
            }
        }
        if !grants.is_empty() && now >= state.stretch_ends {
            state.stretch_ends = sent + self.stretch();
        }
        let unproven = self.take_in(state, (grants, durability), Belief { leased: beliefs, extension });
        state.note_contention(self.source.fair);
        state.next_end = said.next.map_or(Instant::MAX, |next| now + next + Duration::from_millis(1));
        if let Some((turn, _)) = &mut state.turn
            && said.told.is_some()
        {
            // What goes back behind the first of a stretch.
            turn.let_pass();
            state.turn_left = state.turn_left.saturating_add_unsigned(returned);
        }
        if ends_stretch {
            let listeners = said.told.unwrap_or(0);
            let unannounced = said.refused.then_some(self.core.settings.poll_interval);
            let audience = SubscriberCount { listeners, unannounced, own, ..SubscriberCount::default() }.with(copied);
            let audience = state.phantom.without(audience, now);
            let round_trip = by.received.since(by.sent);
            match YieldPlan::after(audience, round_trip) {
                Some(turn) => {
                    // Nobody has anything to say while his stretch lasts.
                    let silence = now + turn.quiet_period(own.message_count) + self.stretch();
                    (state.turn, state.turn_left) = (Some((turn, silence)), said.left);
                }
                None => state.ask = true,
            }
        }
        if state.turn.is_some() {
            // It is for others.
            state.left = 0;
        }
        self.schedule_renewal(state, now);
        drop(guard);
        if losses {
            self.lost.notify_waiters();
        }
        unproven
    }

    /// Permits that have ids go back once more to a primary that takes the place of this one. Of those without, a plain
    /// number is all that the servers have: a second return would be one too many.
    fn remember_back(&self, words: &Words, answered: &RequestOutcome) {
        for id in &words.back {
            self.core.given_back.remember(&return_of(&self.source, *id), answered);
        }
    }

    /// Permits are ours: those that one asked for, who may have left.
    fn granted(&self, entry: Option<Entry>, asked: Asked, durability: Durability, sent: Instant) -> Grant {
        let mut stock = Stock { n: asked.n, leased: Vec::new(), durability };
        if let Some(lease) = asked.lease {
            let leased = |id| Leased::new(id, (lease, durability), sent, self.clock().clone());
            stock.leased = asked.ids.into_iter().map(leased).collect();
        }
        Grant { entry, stock }
    }

    /// Has the keeper look when the next of our leases is due.
    pub(super) fn schedule_renewal(&self, state: &mut State, now: Instant) {
        // Not in a row, where one could not be renewed; but not put off by what else is asked meanwhile either.
        let pause = now + Duration::from_millis(20);
        let soonest = if state.renew_at > now { state.renew_at.min(pause) } else { pause };
        state.renew_at = state.next_due().max(soonest);
        self.pools.keep(state.renew_at);
    }

    fn failed(self: &Arc<Self>, call: Call, error: ServerError) {
        let now = self.clock().now();
        let name = || self.source.name.clone();
        let mut guard = self.state();
        let state = &mut *guard;
        let Call { words, back, extension, .. } = call;
        state.left = i64::MAX;
        if !state.closed {
            state.gone.extend(words.gone);
        }
        words.looked.iter().for_each(|looked| looked.leased.look_now());
        let refused = matches!(error, ServerError::Refused { .. } | ServerError::Unauthorized { .. });
        if let Some(Extension { audience, .. }) = extension {
            let _ = audience.send(Err(ExtendError::of(name(), error.clone())));
        }
        if matches!(error, ServerError::NotSent { .. }) && !state.closed {
            // Nothing was done: all of it is said again. Who does not wait that long leaves.
            state.back.splice(0..0, back);
            state.ask |= !words.asked.is_empty();
            self.schedule_renewal(state, now);
            return;
        }
        tracing::debug!(name = %self.source.name, %error, "permits");
        let alone = words.asked.is_empty();
        state.apart |= refused && !alone && !(back.is_empty() && words.looked.is_empty());
        if refused && alone && !back.is_empty() {
            let pause = REFUSED_PAUSE.saturating_mul(1 << state.refusals.min(16)).min(LONGEST_PAUSE);
            (state.paused_until, state.refusals) = (now + pause, state.refusals + 1);
        }
        for Back { stock, audience } in back {
            let told = match refused {
                true => ReleaseError::Refused { name: name(), source: error.clone() },
                false => ReleaseError::OutcomeUnknown { name: name(), source: error.clone() },
            };
            audience.map(|audience| audience.send(Err(told)));
            // Each that has a lease is named: what has gone back does not go back twice.
            if !state.closed && (refused || !stock.leased.is_empty()) {
                state.back.push(Back { stock, audience: None });
            }
        }
        for asked in words.asked {
            let failure = match &error {
                ServerError::Unauthorized { .. } => Failure::Unauthorized(error.clone()),
                ServerError::Refused { .. } => Failure::Refused(error.clone()),
                ServerError::ShuttingDown => Failure::ShuttingDown,
                _ => Failure::Unknown(error.clone()),
            };
            if let Some(lease) = asked.lease.filter(|_| !error.is_not_done()) {
                let leased = |id| Leased::new(id, (lease, Durability::Primary), now, self.clock().clone());
                let leased = asked.ids.into_iter().map(leased).collect();
                let stock = Stock { n: asked.n, leased, durability: Durability::Primary };
                state.back.push(Back { stock, audience: None });
            }
            let at = state.queue.iter().position(|entry| entry.id == asked.id);
            if let Some(entry) = at.and_then(|at| state.remove(at, self)) {
                let _ = entry.answer.send(Err(failure));
            }
        }
        self.schedule_renewal(state, now);
    }
}

/// Tells those who gave something back what became of it.
fn tell_back(pool: &Pool, back: Vec<Back>, found: &[bool]) {
    let mut found = found.iter();
    for Back { stock, audience } in back {
        let all = stock.leased.iter().fold(true, |all, _| found.next().copied().unwrap_or(false) && all);
        let lost = stock.lost().or((!all).then_some(LostReason::Gone));
        let told = lost.map_or(Ok(()), |reason| Err(pool.was_lost(reason)));
        audience.map(|audience| audience.send(told));
    }
}
