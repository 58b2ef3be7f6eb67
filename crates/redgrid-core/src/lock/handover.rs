//! Hand-over of a server lease from task to task of this process.
//!
//! Tasks get the lock in the order of their requests. While the hand-over window lasts, a hand-over
//! normally needs no request to the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::handover_window::{LeaseFit, token_due};
use super::hold::ServerLease;
use super::release::Release;
use super::table::{Answers, Busy, LockId, LockState, State, Table, send};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::deadline;
use crate::observe::count;

/// How often a hand-over that waits for the next token reads the clock before it sleeps: 100 times.
/// These reads take some microseconds.
///
/// The `k`-th hand-over after a grant gives the lock to a task with a new token: the grant's token
/// plus `k`. Before this hand-over, the server's clock, in microseconds, must have reached the new
/// token. The clock has done so about `k` + 2 µs after the grant ([`token_due`]). So the wait is
/// needed only if the tasks hold the lock for at most a few microseconds each, on average.
const SPINS: usize = 100;

/// The last adjustment of a server lease to the request of a waiter, made while no task had the
/// lock. The fields are the id of the waiter, and the time at which the adjusted lease begins.
pub(super) type Fitted = (u64, Instant);

impl ServerLease {
    /// Returns whether another task can get the server lease, or share it, without a request.
    pub(super) fn may_hand_over(&self, now: Instant) -> bool {
        now < self.handover_ends && !self.sealed.load(Ordering::Acquire)
    }

    /// Returns the time at which the server's clock is certainly past the next owner's token.
    fn next_token_due(&self) -> Instant {
        match self.owners.load(Ordering::Acquire) {
            0 => Instant::MIN,
            owners => token_due(self.granted, owners),
        }
    }

    /// Returns whether the server lease has had no owner yet.
    fn is_unowned(&self) -> bool {
        self.owners.load(Ordering::Acquire) == 0
    }
}

impl Table {
    /// Returns whether a waiter of this process gets the server lease when the owner releases its
    /// hold.
    pub(super) fn may_pass_on(&self, lock: &mut LockState, server_lease: &ServerLease, now: Instant) -> bool {
        let passes_on = server_lease.may_hand_over(now) || self.passes_locally(lock).is_some();
        passes_on && server_lease.is_valid_locally_at(now) && lock.next(now).is_some()
    }

    /// Hands a free server lease to the next waiter, or releases it if no waiter can use it.
    ///
    /// Returns the answers to send.
    pub(super) fn hand_over_next(
        self: &Arc<Self>,
        state: &mut State,
        key: &LockId,
        fitted: Option<Fitted>,
        now: Instant,
    ) -> Answers {
        let Some(lock) = state.locks.get_mut(key) else { return Answers::new() };
        let Some(server_lease) = lock.server_lease.clone().filter(|_| lock.holds.is_empty()) else {
            return Answers::new();
        };
        let in_queue = lock.protocol.queue().is_some();
        // In the server's queue, another process may be ahead of the next waiter of this process.
        if in_queue && lock.next(now).is_some() && !self.is_next(state, key, &server_lease, fitted) {
            return Answers::new();
        }
        let State { locks, schedule, .. } = state;
        let Some(lock) = locks.get_mut(key) else { return Answers::new() };
        let Some(at) = lock.next_at(now) else {
            self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
            return Answers::new();
        };
        let next = &lock.queue[at];
        let confirmed = fitted.filter(|(waiter, _)| *waiter == next.request.id).map(|(_, sent)| sent);
        let is_usable = match confirmed {
            // The lease was adjusted to this request. But a slow pass request may have followed,
            // and the lease may have ended meanwhile.
            Some(sent) => !in_queue || now < deadline(sent, next.request.options.lease.duration()),
            // A grant without a previous owner can be used, even if the grant arrived after the end
            // of its hand-over window.
            None => {
                let in_window = in_queue || server_lease.may_hand_over(now) || server_lease.is_unowned();
                in_window && server_lease.is_valid_locally_at(now)
            }
        };
        if !is_usable {
            self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
            return Answers::new();
        }
        if confirmed.is_none() {
            let fit = server_lease.fit(&next.request.options, self.extra_lease(lock.protocol, key), now);
            if fit != LeaseFit::Yes {
                let (waiter, durability) = (next.request.id, next.request.options.durability);
                lock.busy = Busy::AdjustingLease(server_lease.id);
                let table = Arc::clone(self);
                self.core.spawn_background(Box::pin(table.adjust_lease(
                    key.clone(),
                    server_lease,
                    waiter,
                    fit,
                    durability,
                )));
                return Answers::new();
            }
        }
        let due = server_lease.next_token_due();
        if due > now && !self.is_past(due) {
            lock.busy = Busy::AdjustingLease(server_lease.id);
            let (table, key) = (Arc::clone(self), key.clone());
            self.core.spawn_background(Box::pin(async move {
                table.core.clock.sleep_until(due).await;
                table.lease_adjusted(&key, &server_lease, true, fitted);
            }));
            return Answers::new();
        }
        let Some(waiter) = lock.queue.remove(at) else { return Answers::new() };
        let from = confirmed.unwrap_or(now);
        if server_lease.protocol.is_shared() {
            let all = std::iter::once(waiter).chain(std::mem::take(&mut lock.queue));
            return self.share((schedule, lock), &server_lease, (from, now), all);
        }
        if in_queue {
            self.served(lock, &waiter, now);
        }
        if confirmed.is_none() && !server_lease.is_unowned() {
            count::handed_over(server_lease.labels());
        }
        let answers = self.admit((schedule, lock), &server_lease, (from, now), waiter);
        if in_queue {
            self.send_pass(state, key, false);
        }
        answers
    }

    /// Releases a server lease that no local task needs or can use.
    ///
    /// Until the release is sent, a new request can reclaim the server lease. If `keep_until` is
    /// set (not `Instant::MIN`), the lock stays taken until then and cannot be reclaimed.
    pub(super) fn release_unclaimed_grant(
        self: &Arc<Self>,
        lock: &mut LockState,
        server_lease: &Arc<ServerLease>,
        keep_until: Instant,
    ) {
        let id = self.number();
        lock.busy = Busy::Release { id, queued: keep_until == Instant::MIN };
        let release = Release { id: Some(id), server_lease: Arc::clone(server_lease), keep_until };
        self.core.spawn_background(self.release_task(release, None, None));
    }

    /// Reads the clock until it shows `due`, but only for some microseconds.
    ///
    /// Returns whether `due` has passed.
    fn is_past(&self, due: Instant) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.now() >= due
        })
    }

    /// Adjusts the current lease to the request of the next waiter, by one script.
    async fn adjust_lease(
        self: Arc<Self>,
        key: LockId,
        server_lease: Arc<ServerLease>,
        waiter: u64,
        fit: LeaseFit,
        durability: Durability,
    ) {
        let set = match fit {
            LeaseFit::Yes => Ok(self.now()),
            LeaseFit::Lengthen(lease) => self.lengthen(&server_lease, lease, durability).await,
            LeaseFit::Shorten(lease) => {
                // A renewal would undo the shortening.
                server_lease.stop_renewing();
                self.shorten(&server_lease, lease, durability).await
            }
        };
        // A server lease without a confirmed adjustment is not handed over. It is released, and the
        // waiter requests the lock anew.
        let fitted = set.ok().map(|sent| (waiter, sent));
        self.lease_adjusted(&key, &server_lease, fitted.is_some(), fitted);
    }

    /// Continues after a server lease was adjusted, or after the wait for the next token has ended.
    fn lease_adjusted(
        self: &Arc<Self>,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        is_adjusted: bool,
        fitted: Option<Fitted>,
    ) {
        let mut state = self.state();
        let is_its_own = |lock: &&mut Box<LockState>| lock.busy == Busy::AdjustingLease(server_lease.id);
        let Some(lock) = state.locks.get_mut(key).filter(is_its_own) else { return };
        lock.busy = Busy::No;
        let mut answers = Answers::new();
        match (lock.has(server_lease), is_adjusted) {
            (true, true) => answers = self.hand_over_next(&mut state, key, fitted, self.now()),
            (true, false) => self.release_unclaimed_grant(lock, server_lease, Instant::MIN),
            (false, _) => self.go_on(&mut state, key),
        }
        drop(state);
        send(answers);
    }
}
