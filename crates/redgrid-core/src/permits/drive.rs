//! The loop of a pool: when it asks the server, and what an answer changes.
//!
//! It asks when a request comes first in the queue, when permits go back, when the subscription is confirmed and at each
//! message, gap and look from then on, and when somebody's lease has ended. After a stretch of ours others go first: then only
//! the end of the turn, or silence, is a reason to ask.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;

use super::error::ReleaseError;
use super::exchange::{Asked, Said, on_server};
use super::pool::{Back, Call, Entry, Failure, Pool, State};
use super::stock::{Leased, Stock};
use crate::clock::Instant;
use crate::connection::{CommitError, Exchange};
use crate::error::ServerError;
use crate::hold::{Audience, Lease, LostReason, Turn, deadline, stretch_length};
use crate::once;
use crate::wait::{Copied, Watch};

/// How often who waits looks while it gets no messages: 100 ms, as for other names.
const UNSUBSCRIBED_LOOK: Duration = Duration::from_millis(100);

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
                        course.watch = Some(self.core.hub.watch_for(channel, &self.source.key, wake));
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
        let heard = self.core.hub.heard(&self.source.channel);
        let mut guard = self.state();
        let state = &mut *guard;
        state.in_force = course.watch.as_ref().is_some_and(Watch::in_force);
        if state.in_force {
            // Waiting on a connection that lives is not being without contact.
            state.contact = now;
        }
        state.prune(&self.source, &self.core.id, now);
        if let Some((turn, silence)) = &mut state.turn {
            if course.heard != heard {
                (course.heard, *silence) = (heard, now + turn.silence(heard));
            }
            if turn.is_over(heard) || now >= *silence {
                (state.turn, state.ask) = (None, true);
            }
        } else {
            state.ask |= woken.is_some();
        }
        if now >= state.look_at.min(state.next_end) {
            (state.look_at, state.next_end) = (Instant::NEVER, Instant::NEVER);
            state.ask |= state.turn.is_none();
        }
        state.serve(self, now);
        if let Some(call) = state.call(self, now) {
            course.idle_since = None;
            return Step::Ask(Box::new(call));
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
        let look = now + if state.in_force { self.core.settings.poll_interval } else { UNSUBSCRIBED_LOOK };
        state.look_at = state.look_at.min(look);
        let turn = state.turn.as_ref().map_or(Instant::NEVER, |(_, silence)| *silence);
        let first = state.queue.iter().map(|entry| entry.until).min().unwrap_or(Instant::NEVER);
        // The keeper wakes it for renewals.
        let until = [state.look_at, state.next_end, turn, first].into_iter().min().unwrap_or(look);
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
        let chase = once::chase(&self.core, &request, &call.progress);
        // Where others listen at a replica, it is asked how many.
        let channel = (&self.source.channel, &self.source.key);
        let counting = if call.ends_stretch { self.core.hub.copied(&[channel]) } else { None };
        let ((answer, asked), copied) = match counting {
            None => (chase.await, None),
            Some(counting) => {
                let (answer, copied) = join(chase, counting).await;
                (answer, copied.first().copied())
            }
        };
        match answer.and_then(Said::of) {
            Ok(said) => {
                let granted = said.taken.as_ref().is_some_and(|taken| taken.contains(&true));
                let proven = match granted {
                    true => self.core.commit(&asked, call.durability, &self.source.key).await,
                    false => Ok(()),
                };
                self.answered(call, said, proven, (sent, &asked, copied));
            }
            Err(error) => self.failed(call, error),
        }
    }

    fn answered(
        self: &Arc<Self>,
        call: Call,
        said: Said,
        proven: Result<(), CommitError>,
        (sent, by, copied): (Instant, &Exchange, Option<Copied>),
    ) {
        let now = self.clock().now();
        let heard = self.core.hub.heard(&self.source.channel);
        let Call { words, back, ends_stretch, .. } = call;
        let mut losses = false;
        let mut guard = self.state();
        let state = &mut *guard;
        state.contact = now;
        tell_back(self, back, &said.back);
        for (leased, kept) in words.renewed.iter().zip(&said.kept) {
            match kept {
                true => leased.confirmed(deadline(sent, on_server(leased.lease))),
                false => {
                    leased.end(LostReason::Gone);
                    state.leased.remove(&leased.id);
                    losses = true;
                }
            }
        }
        let nobody = said.taken.is_none();
        let taken = said.taken.unwrap_or_default();
        let mut granted = false;
        for (nth, asked) in words.asked.into_iter().enumerate() {
            let entry = state.queue.iter().position(|entry| entry.id == asked.id);
            if taken.get(nth).copied().unwrap_or(false) {
                granted = true;
                let entry = entry.and_then(|at| state.queue.remove(at));
                self.granted(state, entry, asked, (sent, now), &proven);
            } else if let Some(at) = entry {
                let entry = &state.queue[at];
                entry.seen.asked(None);
                let answer = match () {
                    () if nobody && !entry.ask.awaits_init => Some(Err(Failure::NotInitialised)),
                    () if entry.ask.once => Some(Ok(None)),
                    () => None,
                };
                if let Some(answer) = answer
                    && let Some(entry) = state.queue.remove(at)
                {
                    let _ = entry.answer.send(answer);
                }
            }
        }
        if granted && now >= state.stretch_ends {
            state.stretch_ends = sent + self.stretch();
        }
        state.contended = !state.queue.is_empty();
        state.next_end = said.next.map_or(Instant::NEVER, |next| now + next + Duration::from_millis(1));
        if ends_stretch {
            let listeners = said.told.unwrap_or(0);
            let audience = Audience { listeners, by_replica: false, unseen: false, heard }.with(copied);
            let round_trip = by.received.since(by.sent);
            match Turn::after(audience, round_trip) {
                Some(turn) => {
                    let silence = now + turn.silence(heard);
                    state.turn = Some((turn, silence));
                }
                None => state.ask = true,
            }
        }
        self.schedule_renewal(state, now);
        drop(guard);
        if losses {
            self.lost.notify_waiters();
        }
    }

    /// Permits are ours: they go to the one who asked, to the next who waits, or back.
    fn granted(
        self: &Arc<Self>,
        state: &mut State,
        entry: Option<Entry>,
        asked: Asked,
        (sent, now): (Instant, Instant),
        proven: &Result<(), CommitError>,
    ) {
        let mut stock = Stock { n: asked.n, leased: Vec::new() };
        if let Some(lease) = asked.lease {
            let deadline = deadline(sent, on_server(lease));
            let leased = |id| Leased::new(id, lease, deadline, self.clock().clone());
            stock.leased = asked.ids.into_iter().map(leased).collect();
        }
        let over = now >= stock.deadline();
        if proven.is_err() || over || state.closed {
            state.back.push(Back { stock, audience: None });
            let failure = match proven {
                Err(error) => Failure::NotDurable(error.clone()),
                Ok(()) if state.closed => Failure::ShuttingDown,
                Ok(()) => Failure::Unknown(ServerError::unknown("the answer came when the lease had ended")),
            };
            entry.map(|entry| entry.answer.send(Err(failure)));
            return;
        }
        state.leased.extend(stock.leased.iter().map(|leased| (leased.id, Arc::clone(leased))));
        match entry {
            Some(entry) => state.give(self, entry, stock),
            None => state.spare.merge(stock),
        }
    }

    /// When the next of our leases is due: a third of it after its last confirmation.
    pub(super) fn schedule_renewal(&self, state: &mut State, now: Instant) {
        let due = |leased: &Arc<Leased>| match leased.lease {
            Lease::Renewed(lease) => leased.deadline() - lease * 2 / 3,
            Lease::Fixed(_) => leased.deadline(),
        };
        let due = state.leased.values().map(due).min().unwrap_or(Instant::NEVER);
        // Not in a row, where one could not be renewed.
        state.renew_at = due.max(now + Duration::from_millis(20));
        self.pools.keep(state.renew_at);
    }

    fn failed(self: &Arc<Self>, call: Call, error: ServerError) {
        let now = self.clock().now();
        let name = || self.source.name.clone();
        let mut guard = self.state();
        let state = &mut *guard;
        let not_carried_out = matches!(error, ServerError::NotSent { .. });
        if not_carried_out && !state.closed {
            // Nothing was done: all of it is said again. Who does not wait that long leaves.
            state.back.splice(0..0, call.back);
            state.gone.extend(call.words.gone);
            state.ask |= !call.words.asked.is_empty();
            self.schedule_renewal(state, now);
            return;
        }
        let refused = matches!(error, ServerError::Refused { .. });
        tracing::debug!(name = %self.source.name, %error, "permits");
        for back in call.back {
            let told = match refused {
                true => ReleaseError::Refused { name: name(), source: error.clone() },
                false => ReleaseError::OutcomeUnknown { name: name(), source: error.clone() },
            };
            back.audience.map(|audience| audience.send(Err(told)));
            if !refused && !back.stock.leased.is_empty() {
                // Each is named: what has gone back does not go back twice.
                state.back.push(Back { stock: back.stock, audience: None });
            }
        }
        for asked in call.words.asked {
            let failure = match refused {
                true => Failure::Refused(error.clone()),
                false => Failure::Unknown(error.clone()),
            };
            if let Some(lease) = asked.lease.filter(|_| !refused) {
                let leased = |id| Leased::new(id, lease, now, self.clock().clone());
                let stock = Stock { n: asked.n, leased: asked.ids.into_iter().map(leased).collect() };
                state.back.push(Back { stock, audience: None });
            }
            let at = state.queue.iter().position(|entry| entry.id == asked.id);
            if let Some(entry) = at.and_then(|at| state.queue.remove(at)) {
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
