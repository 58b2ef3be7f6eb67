//! Hand-over of a server lease from task to task of this process: the second level.
//!
//! Tasks get it in the order of their requests. While its hand-over window lasts, no request to the
//! server is needed.

use std::sync::Arc;

use super::change_lease::LeaseChange;
use super::error::LostReason;
use super::guard::HoldGuard;
use super::handover_window::{CurrentLease, LeaseFit};
use super::hold::{Hold, Phase};
use super::lock_state::{Busy, LockId, LockState};
use super::server_lease::{Schedule, ServerLease};
use super::table::{State, Table};
use super::terms::AcquireRequest;
use super::waiter::{AcquireFailure, Answers, Waiter, send};
use super::{handover_window, terms};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::next_renewal;
use crate::observe::count;
/// How often the clock is read while a token becomes due: some microseconds.
///
/// A token is due at once unless a thousand tasks in a row hold the lock for less than a
/// microsecond each.
const SPINS: usize = 100;

/// What has made a server lease free for the next waiter.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandoverReason {
    /// The server granted it to the waiter `entry`, by a request that left at `sent`.
    Granted { entry: u64, sent: Instant },
    /// Its lease was adjusted for the waiter `entry`, by a request that left at `sent`.
    Fitted { entry: u64, sent: Instant },
    /// Its owner has released it.
    HandOver,
}

/// Outcome of installing a grant of the server.
pub(super) enum InstallOutcome<'a> {
    Ours {
        /// State of the lock, which has the server lease now.
        lock: &'a mut LockState,
        schedule: &'a mut Schedule,
    },
    /// The lock was taken from this process by force before the grant was known here.
    Superseded,
    /// The client is shut down.
    Closed,
}

impl Table {
    /// Installs what the server granted to a request that left at `sent`.
    pub(super) fn install_grant<'a>(
        self: &Arc<Self>,
        state: &'a mut State,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        sent: Instant,
    ) -> InstallOutcome<'a> {
        if state.closed {
            return InstallOutcome::Closed;
        }
        let State { locks, schedule, forced, .. } = state;
        let forced = !forced.is_empty() && forced.remove(&server_lease.id).is_some();
        let Some(lock) = locks.get_mut(key) else { return InstallOutcome::Closed };
        // A lower token shows the earlier grant only if both requests were in flight at the same
        // time.
        let (token, known) = lock.last;
        if forced || (sent <= known && server_lease.token < token) {
            return InstallOutcome::Superseded;
        }
        lock.last = (server_lease.token, server_lease.granted);
        lock.contact = server_lease.granted;
        lock.contended = false;
        lock.yield_plan = None;
        lock.begin_local_pass();
        self.take_out_served(lock);
        // Operations in flight concerned the former server lease.
        lock.busy = Busy::No;
        let former = lock.server_lease.take();
        if let Some(former) = former.filter(|former| former.end()) {
            // It was valid until now: it was lost unnoticed, or this process took the lock from
            // itself.
            schedule.remove(former.id);
            for hold in lock.holds.drain(..).filter(|hold| hold.end(Phase::Forced)) {
                lock.lost.push(Arc::downgrade(&hold));
            }
        }
        lock.server_lease = Some(Arc::clone(server_lease));
        InstallOutcome::Ours { lock, schedule }
    }

    /// Hands a free server lease to the next waiter, or releases it if no waiter may have it.
    ///
    /// Returns the results to deliver.
    pub(super) fn hand_over_next(
        self: &Arc<Self>,
        state: &mut State,
        key: &LockId,
        basis: HandoverReason,
        now: Instant,
    ) -> Answers {
        let State { locks, schedule, .. } = state;
        let Some(lock) = locks.get_mut(key) else { return Answers::new() };
        let Some(server_lease) = lock.server_lease.clone().filter(|_| lock.holds.is_empty()) else {
            return Answers::new();
        };
        let Some(at) = lock.next_at(now) else {
            self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
            return Answers::new();
        };
        // On the server, another process may be before the next waiter of this one.
        let is_its_own = matches!(basis, HandoverReason::Granted { entry, .. } if entry == lock.queue[at].id);
        let along = lock.protocol.queue().is_some() && !is_its_own;
        let (lock, schedule, at) = if along {
            if !self.is_next(state, key, &server_lease, basis) {
                return Answers::new();
            }
            let State { locks, schedule, .. } = state;
            let Some(lock) = locks.get_mut(key) else { return Answers::new() };
            let Some(at) = lock.next_at(now) else { return Answers::new() };
            (lock, schedule, at)
        } else {
            (lock, schedule, at)
        };
        let next = &lock.queue[at];
        let (entry, holder) = (next.id, next.request.holder);
        let confirmed = match basis {
            HandoverReason::Granted { entry, sent } | HandoverReason::Fitted { entry, sent } if entry == next.id => {
                Some(sent)
            }
            _ => None,
        };
        if along && confirmed.is_some_and(|sent| now >= terms::deadline(sent, next.request.lease.duration())) {
            // The adjusted lease is over, because a pass request was slow.
            self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
            return Answers::new();
        }
        if confirmed.is_none() {
            // A grant that has had no owner yet is used while a task waits, however late it
            // arrived.
            let in_window = along || server_lease.may_hand_over(now) || server_lease.is_unowned();
            if !in_window || !server_lease.is_valid_locally_at(now) {
                self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
                return Answers::new();
            }
            let (renewed, lease) = (server_lease.has_renewed_lease(), server_lease.lease());
            let (deadline, durability) = (server_lease.deadline(), server_lease.durability());
            let held = CurrentLease { renewed, lease, deadline, durability };
            let handover_window = self.extra_lease(lock.protocol, key);
            let (fit, wanted) =
                (handover_window::fit(&held, &next.request, handover_window, now), next.request.durability);
            if fit != LeaseFit::Yes {
                lock.busy = Busy::AdjustingLease(server_lease.id);
                self.spawn_background(Box::pin(Arc::clone(self).adjust_lease(
                    key.clone(),
                    server_lease,
                    entry,
                    fit,
                    wanted,
                )));
                return Answers::new();
            }
        }
        let (_, due) = server_lease.next_token();
        if due > now && !self.is_past(due) {
            lock.busy = Busy::AdjustingLease(server_lease.id);
            self.spawn_background(Box::pin(Arc::clone(self).hand_over_at(key.clone(), server_lease, due, basis)));
            return Answers::new();
        }
        let Some(first) = lock.queue.remove(at) else { return Answers::new() };
        if server_lease.protocol.is_shared() {
            let others = std::mem::take(&mut lock.queue);
            let first = std::iter::once(first).chain(others).filter(|entry| !entry.answer.is_closed());
            return self.share((schedule, lock), &server_lease, (confirmed.unwrap_or(now), now), first);
        }
        // A holder that waits with several requests is admitted with all of them.
        let mut same = Vec::new();
        if holder.is_some() && lock.queue.iter().any(|entry| entry.request.holder == holder) {
            let (mine, others) = lock.queue.drain(..).partition::<Vec<_>, _>(|entry| entry.request.holder == holder);
            (same, lock.queue) = (mine, others.into());
        }
        if along {
            self.served(lock, &first, now);
        }
        for entry in std::iter::once(&first).chain(&same) {
            // Admitted through another request's queue position; release its own.
            self.release_position(lock.protocol, &lock.keys, (entry.id, &entry.status), &entry.request);
        }
        if confirmed.is_none() && !server_lease.is_unowned() {
            count::handed_over(server_lease.protocol.name());
        }
        let hold = self.create_hold((schedule, lock), &server_lease, (confirmed.unwrap_or(now), now), first.request);
        lock.shrink_if_idle();
        if along {
            self.send_pass(state, key, false);
        }
        let mut answers = Answers::new();
        answers.push((first.answer, Ok(Some(HoldGuard::first(first.client, hold)))));
        // They reenter when their callers poll them; until then they are not admitted.
        let again = |entry: Waiter| match entry.request.reenters {
            true => (entry.answer, Err(AcquireFailure::Reenters)),
            false => (entry.answer, Err(AcquireFailure::AlreadyHeld)),
        };
        if !same.is_empty() {
            answers.extend(same.into_iter().map(again));
        }
        answers
    }

    /// Creates a hold of a server lease now, for the owner that made `request`.
    ///
    /// Its own lease counts from `from`.
    pub(super) fn create_hold(
        &self,
        (schedule, lock): (&mut Schedule, &mut LockState),
        server_lease: &Arc<ServerLease>,
        (from, now): (Instant, Instant),
        request: Arc<AcquireRequest>,
    ) -> Arc<Hold> {
        let (token, _) = server_lease.next_token();
        let (lease, mut owner_due) =
            ((server_lease.has_renewed_lease(), server_lease.lease()), server_lease.owner_due());
        let hold = Arc::new(Hold::new(Arc::clone(server_lease), token, from, now, request));
        server_lease.count_owner();
        if !lock.holds.is_empty() {
            // The hold whose lease ends first is checked first.
            let first = owner_due.min(server_lease.owner_due());
            server_lease.set_owner_due(first);
            if first < owner_due {
                schedule.moved(server_lease.id);
            }
            owner_due = first;
        }
        if schedule.get(server_lease.id).is_none() {
            // New, or reclaimed from its release.
            schedule.insert(Arc::clone(server_lease), self.next_look(server_lease, server_lease.granted, now));
        } else if lease != (server_lease.has_renewed_lease(), server_lease.lease())
            || server_lease.owner_due() < owner_due
        {
            schedule.reschedule(server_lease.id, self.next_look(server_lease, now, now));
        }
        self.wake_renewal(schedule);
        lock.add(Arc::clone(&hold));
        hold
    }

    /// Returns when a server lease that was confirmed at `from` is checked next.
    pub(super) fn next_look(&self, server_lease: &ServerLease, from: Instant, now: Instant) -> Instant {
        let (lease, watchdog) = (server_lease.lease(), self.core.settings.watchdog_lease);
        let lease = match server_lease.is_renewed_at(now) {
            // A holder beside this one may shorten the common lease to that of a watchdog, which
            // must be found in time.
            true if server_lease.protocol.is_shared() => lease.min(watchdog),
            true => lease,
            // A fixed lease is verified as often as one that is renewed.
            false => watchdog,
        };
        next_renewal(lease, server_lease.deadline(), from)
    }

    /// Releases a server lease that no local task wants, or may have.
    ///
    /// Until the release leaves, a new request may still reclaim the server lease.
    pub(super) fn release_unclaimed_grant(
        self: &Arc<Self>,
        lock: &mut LockState,
        server_lease: &Arc<ServerLease>,
        keep_until: Instant,
    ) {
        let id = self.number();
        lock.busy = Busy::Release { id, server_lease: server_lease.id, queued: keep_until == Instant::MIN };
        self.spawn_background(self.release_work(Some(id), Arc::clone(server_lease), keep_until, None));
    }

    /// Reads the clock until it shows `due`, if that is a matter of microseconds.
    ///
    /// Returns whether `due` has passed.
    fn is_past(&self, due: Instant) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.now() >= due
        })
    }

    async fn hand_over_at(
        self: Arc<Self>,
        key: LockId,
        server_lease: Arc<ServerLease>,
        due: Instant,
        basis: HandoverReason,
    ) {
        self.core.clock.sleep_until(due).await;
        self.lease_adjusted(&key, &server_lease, Some(basis));
    }

    /// Adjusts the current lease to the request of the next waiter, by one script.
    async fn adjust_lease(
        self: Arc<Self>,
        key: LockId,
        server_lease: Arc<ServerLease>,
        entry: u64,
        fit: LeaseFit,
        durability: Durability,
    ) {
        if let LeaseFit::Shorten(_) = fit {
            // A renewal would undo it.
            server_lease.stop_renewing();
        }
        let set = match fit {
            LeaseFit::Yes => LeaseChange::Done { sent: self.now() },
            LeaseFit::Lengthen(lease) => self.lengthen(&server_lease, lease, durability).await,
            LeaseFit::Shorten(lease) => self.shorten(&server_lease, lease, durability).await,
        };
        match set {
            LeaseChange::Done { sent } => {
                self.lease_adjusted(&key, &server_lease, Some(HandoverReason::Fitted { entry, sent }))
            }
            LeaseChange::Gone => {
                self.mark_lost(&mut self.state(), &server_lease, LostReason::Gone);
                self.lease_adjusted(&key, &server_lease, None);
            }
            // An unconfirmed lease is not handed on: it is released, and the lock requested anew.
            LeaseChange::TooLate | LeaseChange::Failed(_) | LeaseChange::NotDurable(_) => {
                self.lease_adjusted(&key, &server_lease, None)
            }
        }
    }

    /// Continues after a server lease was adjusted. `basis` is `None` if that failed.
    fn lease_adjusted(self: &Arc<Self>, key: &LockId, server_lease: &Arc<ServerLease>, basis: Option<HandoverReason>) {
        let mut state = self.state();
        let Some(lock) = state.locks.get_mut(key).filter(|lock| lock.busy == Busy::AdjustingLease(server_lease.id))
        else {
            return;
        };
        lock.busy = Busy::No;
        let mut answers = Answers::new();
        match (lock.has(server_lease), basis) {
            (true, Some(basis)) => answers = self.hand_over_next(&mut state, key, basis, self.now()),
            (true, None) => self.release_unclaimed_grant(lock, server_lease, Instant::MIN),
            (false, _) => self.go_on(&mut state, key),
        }
        drop(state);
        send(answers);
    }
}
