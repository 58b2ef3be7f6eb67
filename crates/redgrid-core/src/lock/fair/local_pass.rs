//! Local pass: hand-over along the server's queue inside one process.
//!
//! The positions at the head of the queue may belong to this process. If so, a release hands the
//! lock to the waiter with the next position, without a request.
//!
//! The server's replies to pass requests list the positions of this process at the head, up to the
//! first position of another process. These positions are a *run*. New waiters are enqueued at the
//! end, so no waiter gets between two positions of a run. Therefore the lock can pass from waiter
//! to waiter of the run, while the holder field on the server stays the same.
//!
//! A position is served when its waiter gets the lock in this way. A pass request reports the
//! positions that were served since the last pass request, and enqueues the waiters that arrived
//! since then. Its reply lists the run anew. A run is used for no longer than the longest hand-over
//! window, because a forced takeover waits only that long for local hand-overs to end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{RequestOutcome, RetryPolicy};

use super::pass_request::{NewPosition, PassReply, PassRequest};
use super::queue_position::Place;
use super::{ReleaseAfterPass, ServerQueue};
use crate::clock::Instant;
use crate::lease::LONGEST_WINDOW;
use crate::lock::cleanup::DeferredRelease;
use crate::lock::error::LostReason;
use crate::lock::handover::Fitted;
use crate::lock::hold::ServerLease;
use crate::lock::release::{ReleaseMode, Released, released};
use crate::lock::table::{Answers, Busy, LockId, LockState, State, Table, Waiter, send};

/// The known positions of this process at the head of the server's queue, while this process has
/// the lock.
#[derive(Default)]
pub(in crate::lock) struct LocalPass {
    /// Numbers of the next positions, in their order. Some of their waiters may have left since the
    /// reply that listed the positions.
    next: VecDeque<u64>,
    /// When the pass request that returned the positions in `next` was sent.
    listed: Option<Instant>,
    /// Numbers of the served positions, which stay in the server's queue until they are reported.
    served: Vec<u64>,
    /// Whether a pass request is in flight.
    in_flight: bool,
    /// The served positions that the pass request in flight reports.
    reporting: Vec<u64>,
    /// Set if a hand-over is suspended until the pass request in flight completes. Contains the id
    /// of the server lease. If the length of that lease was changed to suit a waiter's request,
    /// also contains the last such change.
    suspended: Option<(u64, Option<Fitted>)>,
    /// Id of a server lease that is no longer passed along, for one of two reasons: a pass request
    /// has failed, or a pass request with `PassRequest::frees` was retransmitted, and a late copy
    /// of it can still release the lock.
    ended: Option<u64>,
}

impl LocalPass {
    pub(in crate::lock) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Forgets a position of the run, because it was served or is no longer in the queue.
    pub(super) fn lost(&mut self, number: u64) {
        self.next.retain(|next| *next != number);
    }
}

impl LockState {
    /// Moves the next waiter of the run to the front of the local queue. Returns false if the next
    /// waiter is not known.
    fn promote_next_of_pass(&mut self, now: Instant) -> bool {
        let Some(pass) = &mut self.local_pass else { return false };
        if pass.listed.is_none_or(|listed| now >= listed + LONGEST_WINDOW) {
            return false;
        }
        while let Some(number) = pass.next.front() {
            let is_it = |waiter: &Waiter| {
                let place = waiter.request.position.get();
                place.is_queued && place.number == *number && waiter.is_live(now)
            };
            if let Some(waiter) = self.queue.iter().position(is_it).and_then(|at| self.queue.remove(at)) {
                self.queue.push_front(waiter);
                return true;
            }
            pass.next.pop_front();
        }
        false
    }
}

impl Table {
    /// Resets the local pass for a new server lease: forgets the run, and removes served positions
    /// from the server's queue.
    pub(in crate::lock) fn begin_local_pass(self: &Arc<Self>, lock: &mut LockState) {
        if let Some(pass) = &mut lock.local_pass {
            (pass.next, pass.listed, pass.ended) = (VecDeque::new(), None, None);
        }
        self.take_out_served(lock);
    }

    /// Returns the server queue along which the current server lease is passed locally; `None` if
    /// the server lease is not passed along.
    pub(in crate::lock) fn passes_locally(&self, lock: &LockState) -> Option<&'static dyn ServerQueue> {
        let queue = lock.protocol.queue().filter(|_| self.core.settings.handover_window != Some(Duration::ZERO))?;
        let server_lease = lock.server_lease.as_ref().filter(|server_lease| server_lease.is_valid_locally())?;
        let has_ended = lock.local_pass.as_ref().is_some_and(|pass| pass.ended == Some(server_lease.id));
        (!has_ended && !matches!(lock.busy, Busy::Release { .. })).then_some(queue)
    }

    /// Moves the next waiter of the run to the front of the local queue. Returns false if the next
    /// waiter is not known.
    ///
    /// If the next waiter is not known, a pass request fetches the next positions, or the server
    /// lease is released.
    pub(in crate::lock) fn is_next(
        self: &Arc<Self>,
        state: &mut State,
        key: &LockId,
        server_lease: &Arc<ServerLease>,
        fitted: Option<Fitted>,
    ) -> bool {
        let now = self.now();
        let Some(lock) = state.locks.get_mut(key) else { return false };
        if lock.promote_next_of_pass(now) {
            return true;
        }
        lock.busy = Busy::AdjustingLease(server_lease.id);
        let is_requested =
            lock.local_pass.as_ref().is_some_and(|pass| pass.in_flight) || self.send_pass(state, key, true);
        let Some(lock) = state.locks.get_mut(key) else { return false };
        match lock.local_pass.as_mut().filter(|_| is_requested) {
            Some(pass) => pass.suspended = Some((server_lease.id, fitted)),
            None => self.release_unclaimed_grant(lock, server_lease, Instant::MIN),
        }
        false
    }

    /// Records that a waiter got the server lease through its queue position.
    pub(in crate::lock) fn served(self: &Arc<Self>, lock: &mut LockState, waiter: &Waiter, now: Instant) {
        let Place { number, is_queued, .. } = waiter.request.position.get();
        if !is_queued {
            return;
        }
        waiter.request.position.left();
        let pass = lock.local_pass.get_or_insert_default();
        pass.lost(number);
        pass.served.push(number);
        let limit = waiter.request.may_execute_until();
        if now < limit {
            // An earlier request for this position can still execute, and create a position without
            // a waiter. So the position is removed again at `limit`.
            self.take_out(lock, number, Some(limit), false);
        }
    }

    /// Releases a server lease by a pass request that reports the served positions.
    ///
    /// Returns `None` in three cases: there are no served positions, the lock must stay taken for a
    /// while, or the pass request failed. Then the caller must send a plain release.
    pub(in crate::lock) async fn release_in_queue(
        self: &Arc<Self>,
        server_lease: &ServerLease,
        keep_until: Instant,
    ) -> Option<Released> {
        let queue = server_lease.protocol.queue()?;
        let (mode, until) = self.release_mode(server_lease, keep_until, false);
        if let ReleaseMode::Retain(_) = mode {
            self.take_out_served_of(server_lease);
            return None;
        }
        let served = {
            let mut state = self.state();
            let pass = Self::pass_of(&mut state, server_lease)?.local_pass.as_mut()?;
            // Another pass request may have been started, and may never be sent. So this request
            // also reports the served positions of that request.
            pass.reporting.iter().copied().chain(std::mem::take(&mut pass.served)).collect::<Vec<_>>()
        };
        if served.is_empty() {
            return None;
        }
        let outcome = self
            .send_pass_request(queue, server_lease, (&served, &[]), ReleaseAfterPass::Yes, until, RetryPolicy::ToTheEnd)
            .await;
        let reply = outcome.result.clone().and_then(PassReply::read);
        if reply.is_err() {
            let mut state = self.state();
            let lock = state.locks.get_mut(&server_lease.lock_id())?;
            lock.local_pass.get_or_insert_default().served.extend(served);
            self.take_out_served(lock);
            // The server may refuse a pass request and yet accept a plain release, so a plain
            // release follows.
            return None;
        }
        self.released_by_pass(server_lease, &outcome);
        let was_ours = reply.map(|reply| matches!(reply, PassReply::Released));
        Some(Released { result: released(server_lease, &outcome, was_ours), subscribers: None })
    }

    fn pass_of<'a>(state: &'a mut State, server_lease: &ServerLease) -> Option<&'a mut LockState> {
        let lock = state.locks.get_mut(&server_lease.lock_id())?;
        lock.server_lease.as_ref().is_some_and(|ours| ours.id == server_lease.id).then_some(&mut **lock)
    }

    /// Completes the release of a server lease by a pass request.
    ///
    /// If a retransmission can acquire the lock again, schedules another release. If a failover
    /// follows, the release is repeated. For that case, this method remembers a plain release
    /// request in place of the pass request.
    fn released_by_pass(self: &Arc<Self>, server_lease: &ServerLease, answered: &RequestOutcome) {
        self.release_late_copies(server_lease, answered.sent, Instant::MIN);
        let field = self.core.field(server_lease.id);
        let release = server_lease.protocol.release(server_lease.claim(&field, Duration::ZERO));
        self.core.given_back.remember(&release, answered);
    }

    /// Removes from the server's queue, one by one, the served positions that were not reported.
    pub(in crate::lock) fn take_out_served(self: &Arc<Self>, lock: &mut LockState) {
        let served = lock.local_pass.as_mut().map(|pass| std::mem::take(&mut pass.served)).unwrap_or_default();
        for number in served {
            self.take_out(lock, number, None, true);
        }
    }

    /// Removes the served positions of a server lease from the server's queue. The caller releases
    /// the server lease without a pass request.
    pub(in crate::lock) fn take_out_served_of(self: &Arc<Self>, server_lease: &ServerLease) {
        if let Some(lock) = Self::pass_of(&mut self.state(), server_lease) {
            self.take_out_served(lock);
        }
    }

    fn take_out(self: &Arc<Self>, lock: &LockState, number: u64, limit: Option<Instant>, at_once: bool) {
        let lease = self.core.settings.watchdog_lease;
        let release = DeferredRelease::of(lock.protocol, &lock.keys, number, lease, limit);
        self.schedule_cleanup(DeferredRelease { at_once, ..release });
    }

    /// Starts a pass request, if none is in flight and the request would have an effect.
    ///
    /// The request reports the served positions, enqueues new waiters, and fetches the next
    /// positions. With `frees`, it also releases the lock if no position of this process is next.
    /// Returns whether a request was started.
    pub(in crate::lock) fn send_pass(self: &Arc<Self>, state: &mut State, key: &LockId, frees: bool) -> bool {
        let now = self.now();
        let depth = usize::try_from(self.core.settings.fair_depth).unwrap_or(usize::MAX);
        let Some(lock) = state.locks.get_mut(key) else { return false };
        let Some((queue, server_lease)) = self.passes_locally(lock).zip(lock.server_lease.clone()) else {
            return false;
        };
        let pass = lock.local_pass.get_or_insert_default();
        if pass.in_flight {
            return false;
        }
        let waits = lock.queue.iter().filter(|waiter| !waiter.request.options.once && waiter.is_live(now));
        let is_outside = |waiter: &&Waiter| {
            let place = waiter.request.position.get();
            !place.is_queued && !place.has_request_in_flight
        };
        let new: Vec<_> = waits.take(depth).filter(is_outside).map(NewPosition::of).collect();
        if new.is_empty() && pass.served.is_empty() && !frees {
            return false;
        }
        pass.in_flight = true;
        let served = std::mem::take(&mut pass.served);
        pass.reporting.clone_from(&served);
        let request = PassRequest { server_lease, queue, served, new, frees };
        self.core.spawn_background(Box::pin(Arc::clone(self).run_pass(key.clone(), request)));
        true
    }

    async fn run_pass(self: Arc<Self>, key: LockId, request: PassRequest) {
        let PassRequest { server_lease, queue, served, new, frees } = &request;
        let gives_back = if *frees { ReleaseAfterPass::UnlessNext } else { ReleaseAfterPass::No };
        let until = (self.now() + self.core.settings.patience()).min(server_lease.deadline());
        let positions = (&served[..], &new[..]);
        let outcome =
            self.send_pass_request(*queue, server_lease, positions, gives_back, until, RetryPolicy::Retries).await;
        self.passed(&key, request, &outcome);
    }

    fn passed(self: &Arc<Self>, key: &LockId, request: PassRequest, outcome: &RequestOutcome) {
        let reply = outcome.result.clone().and_then(PassReply::read);
        let PassRequest { server_lease, served, new, frees, .. } = request;
        let mut state = self.state();
        let mut answers = Answers::new();
        for new in &new {
            self.enqueued(&state, &server_lease, new, outcome, reply.is_ok());
        }
        let Some(lock) = state.locks.get_mut(key) else { return };
        let pass = lock.local_pass.get_or_insert_default();
        pass.in_flight = false;
        pass.reporting.clear();
        if reply.is_ok() {
            lock.contact = outcome.received;
        } else {
            pass.served.extend(served);
        }
        // Resume the hand-over only if it is still suspended: the server lease may have been
        // released or replaced meanwhile.
        let suspended = pass.suspended.take().filter(|(id, _)| lock.busy == Busy::AdjustingLease(*id));
        let suspended = suspended.map(|(_, fitted)| fitted);
        if suspended.is_some() {
            lock.busy = Busy::No;
        }
        if !lock.has(&server_lease) {
            self.take_out_served(lock);
            // The hand-over of the current server lease was suspended until this request completed:
            // resume it.
            if let Some(fitted) = suspended {
                answers = self.hand_over_next(&mut state, key, fitted, self.now());
            }
            self.go_on(&mut state, key);
            drop(state);
            return send(answers);
        }
        let pass = lock.local_pass.get_or_insert_default();
        match reply {
            Ok(PassReply::Held(next)) => {
                (pass.next, pass.listed) = (next, Some(outcome.sent));
                // A late retransmission could release the lock while the next task holds it. So the
                // server lease is not passed along any more.
                let may_be_undone = frees && outcome.was_retransmitted();
                if may_be_undone {
                    pass.ended = Some(server_lease.id);
                }
                if let Some(fitted) = suspended {
                    match may_be_undone || (frees && !lock.promote_next_of_pass(outcome.received)) {
                        true => self.release_unclaimed_grant(lock, &server_lease, Instant::MIN),
                        false => answers = self.hand_over_next(&mut state, key, fitted, self.now()),
                    }
                }
                self.send_pass(&mut state, key, false);
                self.go_on(&mut state, key);
            }
            Ok(PassReply::NotOurs) if !frees => {
                self.mark_lost(&mut state, &server_lease, LostReason::Gone);
            }
            Ok(PassReply::Released | PassReply::NotOurs) => {
                state.schedule.remove(server_lease.id);
                drop(state);
                self.released_by_pass(&server_lease, outcome);
                return self.release_answered(None, &server_lease, None);
            }
            Err(error) => {
                tracing::debug!(name = %server_lease.keys.name, %error, "a pass request failed");
                pass.ended = Some(server_lease.id);
                self.take_out_served(lock);
                if suspended.is_some() {
                    self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
                }
                self.go_on(&mut state, key);
            }
        }
        drop(state);
        send(answers);
    }

    /// Records for one waiter whether a pass request has enqueued it. `is_known` means that the
    /// waiter is known to be queued.
    fn enqueued(
        self: &Arc<Self>,
        state: &State,
        server_lease: &ServerLease,
        new: &NewPosition,
        outcome: &RequestOutcome,
        is_known: bool,
    ) {
        let NewPosition { number, request } = new;
        let lock = state.locks.get(&server_lease.lock_id());
        if request.position.get().number == *number {
            outcome.retransmission_ends.into_iter().for_each(|until| request.set_maybe_executed(until));
            let is_it = |waiter: &Waiter| waiter.request.id == request.id && !waiter.answer.is_closed();
            if lock.is_some_and(|lock| lock.queue.iter().any(is_it)) {
                return request.position.request_ended(is_known);
            }
            request.position.left();
        }
        // The waiter has left, or its position has another number by now. So whatever has this
        // number on the server is released: the position or, if the position was granted, the lock.
        // If this process has a server lease with this number, nothing is done here, because the
        // end of that lease's holds releases the lock.
        let ours = lock.and_then(|lock| lock.server_lease.as_ref());
        if ours.is_none_or(|ours| ours.id != *number) {
            let limit = outcome.retransmission_ends.unwrap_or(Instant::MIN).max(request.may_execute_until());
            let (keys, lease) = (&server_lease.keys, request.options.lease.duration());
            self.schedule_cleanup(DeferredRelease::of(server_lease.protocol, keys, *number, lease, Some(limit)));
        }
    }
}
