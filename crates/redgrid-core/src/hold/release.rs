//! Giving back: what is held, what may be held without our knowing, and everything at once when the client ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::{LostReason, ReleaseError};
use super::flight::{Flight, Work};
use super::kind::{Claim, HoldKind, Target};
use super::state::{Hold, Phase};
use super::table::{Busy, Failure, SlotKey, Table};
use super::terms;
use crate::clock::Instant;
use crate::connection::{Persistence, Progress, Server};
use crate::error::ServerError;

/// Something that may be, or become, ours on the server although nobody here has it.
pub(super) struct Settlement {
    pub(super) server: Arc<dyn Server>,
    pub(super) kind: &'static dyn HoldKind,
    pub(super) target: Arc<Target>,
    pub(super) field: Bytes,
    /// Until when a late copy may take it.
    pub(super) limit: Instant,
    /// Give it back now as well as after `limit`.
    pub(super) at_once: bool,
    /// The name stays taken until then.
    pub(super) keep_until: Instant,
    /// The lease that a copy may have got: it ends what can not be given back.
    pub(super) lease: Duration,
}

/// Names given back by one script at shutdown.
const BULK: usize = 500;

/// What letting go of one guard leads to.
pub(super) enum LetGo {
    /// Other guards of the same holder still live.
    StillHeld,
    /// It had ended without us.
    Lost(LostReason),
    /// The last guard: the release is this work, and it tells its outcome here.
    Release(Work, oneshot::Receiver<Result<(), ReleaseError>>, bool),
}

impl Table {
    /// Takes one guard off a hold.
    pub(super) fn let_go(self: &Arc<Self>, hold: &Arc<Hold>) -> LetGo {
        let mut state = self.state();
        if hold.guards.fetch_sub(1, Ordering::AcqRel) > 1 {
            return hold.lost().map_or(LetGo::StillHeld, LetGo::Lost);
        }
        let lost = hold.lost();
        state.schedule.remove(hold.id);
        hold.end(Phase::Released);
        let key = SlotKey(hold.kind.name(), hold.target.key.clone());
        let mut alone = true;
        if let Some(slot) = state.slots.get_mut(&key) {
            if slot.hold.as_ref().is_some_and(|held| Arc::ptr_eq(held, hold)) {
                slot.busy = Busy::Release(hold.id);
                alone = slot.queue.is_empty() && !slot.driven;
            } else {
                Self::sweep(&mut state, &key);
            }
        }
        drop(state);
        if let Some(reason) = lost {
            // Our clock says that it has ended. The server's key may live on for the margin: free it.
            if reason != LostReason::ShutDown {
                self.hand_over(self.release_work(Arc::clone(hold), None));
            }
            return LetGo::Lost(reason);
        }
        let (sender, receiver) = oneshot::channel();
        LetGo::Release(self.release_work(Arc::clone(hold), Some(sender)), receiver, alone)
    }

    /// Makes a release visible as the exchange in flight of its name, to be polled in place by its caller.
    pub(super) fn fly(&self, hold: &Hold, work: Work) -> Flight {
        let flight = Flight::new(work);
        let key = SlotKey(hold.kind.name(), hold.target.key.clone());
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(&key)
            && slot.queue.is_empty()
            && !slot.driven
        {
            slot.flight = Some(flight.clone());
            return flight;
        }
        drop(state);
        // Somebody waits for it meanwhile: it must not depend on its caller's being polled.
        if let Some(work) = flight.take() {
            self.hand_over(work);
        }
        flight
    }

    /// The release of a hold as work that goes on until the server has answered or the lease has ended.
    pub(super) fn release_work(
        self: &Arc<Self>,
        hold: Arc<Hold>,
        tell: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    ) -> Work {
        let table = Arc::clone(self);
        Box::pin(async move {
            let outcome = table.release(&hold).await;
            table.release_landed(&hold);
            if let Some(tell) = tell {
                let _ = tell.send(outcome);
            }
        })
    }

    async fn release(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<(), ReleaseError> {
        let now = self.now();
        let name = || hold.target.name.clone();
        let keep = terms::still_to_keep(hold.wish.at_least, hold.granted, now);
        let request = match keep.is_zero() {
            true => hold.kind.release(hold.claim(Duration::ZERO)),
            false => hold.kind.linger(hold.claim(keep)),
        };
        let lease_ends = hold.deadline() + terms::margin(hold.lease());
        let asked =
            self.core.exchange(&*hold.server, request, lease_ends, Persistence::ToTheEnd, &Progress::default()).await;
        if let Some(limit) = hold.unanswered_until.filter(|limit| *limit > asked.sent) {
            let keep_until = if keep.is_zero() { Instant::PAST } else { hold.granted + hold.wish.at_least };
            self.settle(self.settlement(hold, limit, false, keep_until));
        }
        let in_time = asked.received <= hold.deadline();
        let repeat = asked.is_repeat();
        let unclear =
            |what: &'static str| Err(ReleaseError::OutcomeUnknown { name: name(), source: ServerError::unknown(what) });
        match asked.result.and_then(|reply| reply.into_typed::<bool>()) {
            // A late copy of its acquire may have put it back after the lease, with others in between.
            Ok(true) if !in_time && hold.unanswered_until.is_some() => unclear("the lease may have ended in between"),
            Ok(true) => Ok(()),
            // An earlier copy of this release may have done it; nobody else can have had it before the deadline.
            Ok(false) if repeat && in_time => Ok(()),
            Ok(false) if repeat => unclear("the lease ended before the release was answered"),
            Ok(false) => Err(ReleaseError::Lost { name: name(), reason: LostReason::Gone }),
            Err(source @ ServerError::Refused { .. }) => Err(ReleaseError::Refused { name: name(), source }),
            Err(source) => Err(ReleaseError::OutcomeUnknown { name: name(), source }),
        }
    }

    fn release_landed(self: &Arc<Self>, hold: &Arc<Hold>) {
        let key = SlotKey(hold.kind.name(), hold.target.key.clone());
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(&key) {
            if slot.busy == Busy::Release(hold.id) {
                slot.busy = Busy::No;
                slot.flight = None;
                if slot.hold.as_ref().is_some_and(|held| Arc::ptr_eq(held, hold)) {
                    slot.hold = None;
                }
            }
            slot.contact = self.core.clock.now();
            self.go_on(&mut state, &key);
        }
    }

    /// Gives back a hold that nobody here has got.
    pub(super) fn give_back(self: &Arc<Self>, hold: &Arc<Hold>) {
        hold.end(Phase::Released);
        let limit = hold.unanswered_until.unwrap_or(Instant::PAST);
        self.settle(self.settlement(hold, limit, true, Instant::PAST));
    }

    fn settlement(&self, hold: &Hold, limit: Instant, at_once: bool, keep_until: Instant) -> Settlement {
        Settlement {
            server: Arc::clone(&hold.server),
            kind: hold.kind,
            target: Arc::clone(&hold.target),
            field: hold.field.clone(),
            limit,
            at_once,
            keep_until,
            lease: hold.wish.first_lease(),
        }
    }

    /// Releases what a copy without an answer may have taken: at once where it may be taken already, and once more when
    /// no copy can be carried out any more. Only then is it forgotten.
    pub(super) fn settle(self: &Arc<Self>, what: Settlement) {
        let table = Arc::clone(self);
        self.hand_over(Box::pin(async move {
            // What left before the limit may have been carried out before a late copy.
            if what.at_once && table.release_unclaimed(&what).await >= what.limit {
                return;
            }
            table.core.clock.sleep_until(what.limit).await;
            table.release_unclaimed(&what).await;
        }));
    }

    /// Returns when the answered release left.
    async fn release_unclaimed(&self, what: &Settlement) -> Instant {
        let keep = what.keep_until.since(self.now());
        let claim = Claim { target: &what.target, field: &what.field, lease: keep };
        let request = if keep.is_zero() { what.kind.release(claim) } else { what.kind.linger(claim) };
        let until = what.limit.max(self.now()) + what.lease;
        let asked =
            self.core.exchange(&*what.server, request, until, Persistence::ToTheEnd, &Progress::default()).await;
        if let Err(error) = asked.result {
            tracing::debug!(name = %what.target.name, %error, "could not give back; the lease ends it");
        }
        asked.sent
    }

    /// Refuses new requests, wakes those who wait, ends all holds and gives them back in bulk. Returns the work that is
    /// still to be done for it.
    pub(crate) fn close(self: &Arc<Self>) -> Vec<Work> {
        let mut state = self.state();
        state.closed = true;
        let mut waiting = Vec::new();
        let mut flights = Vec::new();
        for slot in state.slots.values_mut() {
            waiting.extend(slot.queue.drain(..).map(|entry| entry.answer));
            slot.changed.notify_one();
            // What its caller polls is driven to its end from here: the caller may stop to poll.
            flights.extend(slot.flight.take());
        }
        let holds = state.schedule.drain();
        let held: Vec<_> = holds.into_iter().filter(|hold| hold.end(Phase::ShutDown)).collect();
        for hold in &held {
            let key = SlotKey(hold.kind.name(), hold.target.key.clone());
            if let Some(slot) = state.slots.get_mut(&key) {
                slot.hold = None;
            }
            Self::sweep(&mut state, &key);
        }
        drop(state);
        for answer in waiting {
            let _ = answer.send(Err(Failure::ShuttingDown));
        }
        let now = self.now();
        let held = held.into_iter().filter(|hold| !hold.is_forgotten());
        let (keeping, plain): (Vec<_>, Vec<_>) = held.partition(|hold| {
            !terms::still_to_keep(hold.wish.at_least, hold.granted, now).is_zero() || hold.unanswered_until.is_some()
        });
        let mut work: Vec<Work> = flights.into_iter().filter_map(|flight: Flight| flight.take()).collect();
        for hold in keeping {
            let table = Arc::clone(self);
            work.push(Box::pin(async move {
                let _ = table.release(&hold).await;
            }));
        }
        let mut plain = plain;
        plain.sort_by(|a, b| (a.kind.name(), a.server.id()).cmp(&(b.kind.name(), b.server.id())));
        let together = |a: &Arc<Hold>, b: &Arc<Hold>| a.kind.name() == b.kind.name() && a.server.id() == b.server.id();
        for group in plain.chunk_by(together) {
            for part in group.chunks(BULK) {
                let (table, part) = (Arc::clone(self), part.to_vec());
                work.push(Box::pin(async move { table.release_many(&part).await }));
            }
        }
        work
    }

    async fn release_many(&self, holds: &[Arc<Hold>]) {
        let Some(first) = holds.first() else { return };
        let claims: Vec<_> = holds.iter().map(|hold| hold.claim(Duration::ZERO)).collect();
        let request = first.kind.release_many(&claims);
        let until = self.now() + self.core.settings.patience();
        let asked =
            self.core.exchange(&*first.server, request, until, Persistence::ToTheEnd, &Progress::default()).await;
        if asked.result.is_err() && holds.len() > 1 {
            // One bad name refuses them all: one by one, then.
            for hold in holds {
                let request = hold.kind.release(hold.claim(Duration::ZERO));
                self.core.exchange(&*hold.server, request, until, Persistence::ToTheEnd, &Progress::default()).await;
            }
        }
    }
}
