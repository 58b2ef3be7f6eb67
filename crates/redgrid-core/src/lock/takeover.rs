//! Forced takeover of a lock. It ignores the queues of waiters.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{Progress, RequestOutcome, RetryPolicy};
use redgrid_client::{Client, Request, ServerError};
use tokio::sync::oneshot;

use super::acquire::HoldGuard;
use super::attempt::{GrantReply, NotInstalled};
use super::cleanup::DeferredRelease;
use super::error::{AcquireError, AcquireFailure, LostReason};
use super::hold::{Hold, ServerLease};
use super::protocol::{AcquireReply, AcquireRequest, HoldArgs, LockKeys, LockProtocol, parse_reply};
use super::table::{LockId, LockState, Table, send};
use crate::clock::Instant;
use crate::lease::{LONGEST_WINDOW, deadline, with_margin};

/// The condition of a takeover: from which holders the lock is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum TakeoverFrom {
    /// From all holders. A free lock is acquired.
    Anybody,
    /// From all holders. A free lock is not acquired.
    Holders,
    /// From the holder with this holder field. If the lock does not have this field, nothing is
    /// changed. Other holders, such as readers, keep the lock. For a kind that allows only one
    /// holder, the takeover also checks that there is no other holder field; if there is one,
    /// nothing is changed.
    Holder(Bytes),
}

/// The result of a takeover.
#[must_use = "the lock may not be taken over"]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum Takeover {
    /// The lock was taken over.
    ///
    /// If the caller polled too late, the guard is already released, and others may have the lock.
    /// This does not happen with [`TakeoverFrom::Anybody`]: the lock is then taken over again.
    Done(HoldGuard),
    /// The lock was free, and was left alone.
    Free,
    /// The lock is held, but the condition does not allow a takeover from its holders.
    HeldByAnother,
}

impl Table {
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> Result<Takeover, AcquireError> {
        if self.state().closed {
            return Err(AcquireFailure::ShuttingDown.into_error(&self.core, &target.name));
        }
        loop {
            let (answer, outcome) = oneshot::channel();
            let (table, client, target) = (Arc::clone(self), client.clone(), Arc::clone(target));
            let (wanted, condition, name) = (request.clone(), from.clone(), target.name.clone());
            // The takeover runs in a background task: the caller's future may be dropped, and a
            // grant must not stay without an owner.
            self.core.spawn_background(Box::pin(async move {
                let _ = answer.send(table.take_over_for(client, kind, target, wanted, condition).await);
            }));
            // If the task ended without an answer, it may have sent its request all the same.
            let taken = outcome.await.unwrap_or_else(|_| Err(maybe_taken(AcquireFailure::ShuttingDown)));
            match taken.map_err(|failure| failure.into_error(&self.core, &name))? {
                // The caller polled too late, so its grant was released. With the condition
                // `Anybody`, the lock is taken over again. The other conditions concern the former
                // holders, which have lost the lock already. A second takeover would find none of
                // them, or would take the lock from the next holder.
                Takeover::Done(grant) if !grant.accept() && from == TakeoverFrom::Anybody => {}
                taken => return Ok(taken),
            }
        }
    }

    async fn take_over_for(
        self: Arc<Self>,
        client: Client,
        kind: &'static dyn LockProtocol,
        target: Arc<LockKeys>,
        request: AcquireRequest,
        from: TakeoverFrom,
    ) -> Result<Takeover, AcquireFailure> {
        let handover_window = self.handover_window(kind, &LockId::of(kind, &target));
        // The takeover waits until the former holder's hand-over window has ended. The lease must
        // be longer than that wait, even if a shorter lease was requested.
        let lease = request
            .server_lease(handover_window)
            .max(with_margin(LONGEST_WINDOW + self.core.settings.response_timeout));
        let id = self.number();
        let field = self.core.field(id);
        let claim = HoldArgs { target: &target, field: &field, lease };
        let call = kind.take_over(claim, &self.core.notice_prefix(), &from);
        let takeover = TakeoverRequest { kind, target, lease, from };
        let until = self.now() + self.core.settings.patience();
        let (policy, progress) = (RetryPolicy::Within(lease), Progress::default());
        let (outcome, reply) = self.exchange_twice(call, until, policy, &progress).await;
        let (token, preempted) = match (reply, outcome.retransmission_ends) {
            // A retransmission finds only the hold of the first transmission. It cannot report
            // whether the first transmission preempted a holder, so a preemption is assumed.
            (AcquireReply::Granted { token, left }, copies) => (token, left > 0 || copies.is_some()),
            (AcquireReply::Busy { is_gone: true, .. }, None) => return Ok(Takeover::Free),
            (AcquireReply::Busy { .. }, None) => return Ok(Takeover::HeldByAnother),
            (AcquireReply::TooLate, None) => return Err(AcquireFailure::too_late_twice()),
            (AcquireReply::Failed(failure), None) => return Err(failure),
            (reply, Some(limit)) => {
                // Release only after the hand-over window of the former holder. Otherwise the next
                // holder could get a lower token than the tokens that the former holder issues in
                // its window.
                self.free(&takeover, id, limit + LONGEST_WINDOW);
                let why = "an earlier copy of the request was not answered, and no time is left for another";
                return Err(match reply {
                    AcquireReply::Failed(failure) => maybe_taken(failure),
                    _ => AcquireFailure::Unknown(ServerError::unknown(why)),
                });
            }
        };
        let handover_ends = outcome.sent + handover_window;
        let granted = GrantReply::by(&outcome, id, token, (lease, request.durability), handover_ends);
        let granted = if preempted { self.wait_out_previous(&takeover, granted).await? } else { granted };
        if let Err(error) = self.core.commit(&outcome, request.durability, &takeover.target.key).await {
            let limit = granted.retransmission_ends.unwrap_or(Instant::MIN);
            self.free(&takeover, granted.id, limit.max(self.now()));
            return Err(AcquireFailure::NotDurable(error));
        }
        let TakeoverRequest { kind, target, .. } = takeover;
        let guard = self.install(client, kind, target, granted, (request, Instant::MIN));
        // If the table was closed before the grant was installed, the former holder has lost the
        // lock all the same. So the outcome is unknown.
        guard.map(Takeover::Done).ok_or_else(|| maybe_taken(AcquireFailure::ShuttingDown))
    }

    /// Sends a request. If it reaches the server too late, sends it once more.
    pub(super) async fn exchange_twice(
        &self,
        request: Request,
        until: Instant,
        policy: RetryPolicy,
        progress: &Progress,
    ) -> (RequestOutcome, AcquireReply) {
        let outcome = self.core.exchange(request.clone(), until, policy, progress).await;
        match parse_reply(&outcome) {
            AcquireReply::TooLate if !outcome.was_retransmitted() => {
                let outcome = self.core.exchange(request, until, policy, progress).await;
                let reply = parse_reply(&outcome);
                (outcome, reply)
            }
            reply => (outcome, reply),
        }
    }

    /// Waits until the former holder's hand-over window is over, and renews the grant.
    ///
    /// Until then, if a former holder has not received the notice, it can hand the lock over within
    /// its process. The tokens of these hand-overs are server times within the window. So after the
    /// window, the renewal gives the grant a higher token, read from the server's clock.
    ///
    /// After an error, the outcome of the takeover is unknown: the former holder has lost the lock
    /// all the same.
    async fn wait_out_previous(
        self: &Arc<Self>,
        takeover: &TakeoverRequest,
        granted: GrantReply,
    ) -> Result<GrantReply, AcquireFailure> {
        self.invalidate_local(takeover, &granted);
        self.core.clock.sleep_until(granted.received + LONGEST_WINDOW).await;
        let (id, field) = (granted.id, self.core.field(granted.id));
        let claim = HoldArgs { target: &takeover.target, field: &field, lease: takeover.lease };
        // The request finds the hold of this takeover. So it acquires nothing, but restarts the
        // lease and returns the server's time.
        let request = takeover.kind.acquire(claim);
        let until = deadline(granted.sent, takeover.lease);
        let outcome = self.core.exchange(request, until, RetryPolicy::Retries, &Progress::default()).await;
        let unanswered_until = outcome.retransmission_ends.max(granted.retransmission_ends);
        // While the hold of this takeover exists, a late retransmission changes nothing. Without
        // that hold, a late retransmission can take the lock from yet another holder. So
        // `Self::free` releases the lock only at `settled`. By then no retransmission can execute
        // any more. If a retransmission has taken the lock, another holder has lost it, and the
        // hand-over window of that holder is over.
        let settled = unanswered_until.map_or(Instant::MIN, |limit| limit + LONGEST_WINDOW);
        match parse_reply(&outcome) {
            AcquireReply::Granted { token, .. } => {
                let again =
                    GrantReply::by(&outcome, id, token, (takeover.lease, granted.durability), granted.handover_ends);
                Ok(GrantReply { retransmission_ends: unanswered_until, ..again })
            }
            AcquireReply::Busy { .. } => {
                // Another client took the lock over from this grant, and the notice may still be in
                // flight. Record the takeover, so that this grant counts as lost when it is
                // installed.
                self.state().forced.insert(granted.id, self.now());
                Ok(GrantReply { retransmission_ends: unanswered_until, ..granted })
            }
            AcquireReply::TooLate => {
                self.free(takeover, id, settled);
                Err(AcquireFailure::Unknown(ServerError::unknown("the request reached the server too late")))
            }
            AcquireReply::Failed(failure) => {
                self.free(takeover, id, settled);
                Err(maybe_taken(failure))
            }
        }
    }

    /// Marks this process's server leases of the lock as lost, if their tokens are lower than the
    /// grant's token.
    fn invalidate_local(self: &Arc<Self>, takeover: &TakeoverRequest, granted: &GrantReply) {
        let mut state = self.state();
        let all = match takeover.from {
            // The reads of a writer stay.
            TakeoverFrom::Holder(_) => state.grants_of(takeover.kind.name(), &takeover.target).collect(),
            _ => state.all_of(takeover.kind, &takeover.target),
        };
        let former: Vec<_> = all.iter().filter_map(|key| state.locks.get(key)?.server_lease.clone()).collect();
        for former in former.into_iter().filter(|former| former.token < granted.token) {
            self.mark_lost(&mut state, &former, LostReason::Forced);
        }
    }

    /// Installs the grant, which replaces this process's holds of the same key.
    ///
    /// If no caller can receive the grant, the lock stays taken until `keep_until`.
    pub(super) fn install(
        self: &Arc<Self>,
        client: Client,
        kind: &'static dyn LockProtocol,
        target: Arc<LockKeys>,
        granted: GrantReply,
        (request, keep_until): (AcquireRequest, Instant),
    ) -> Option<HoldGuard> {
        let sent = granted.sent;
        let key = LockId::of(kind, &target);
        let now = self.now();
        let server_lease = Arc::new(ServerLease::new(granted, &key, kind, self.core.clock.clone()));
        let mut state = self.state();
        state.locks.entry(key.clone()).or_insert_with(|| Box::new(LockState::new(kind, target, now)));
        let wanted = state.shared(&request);
        match self.install_grant(&mut state, &key, &server_lease, sent) {
            Ok((lock, schedule)) => {
                let hold = self.create_hold((schedule, lock), &server_lease, (sent, now), wanted);
                if keep_until != Instant::MIN {
                    // The hold was detached by a process that has already used it. So the lock
                    // stays taken until `keep_until`, even if no caller accepts the grant.
                    hold.set_given();
                }
                let grant = HoldGuard::first(client, hold);
                let answers = lock.reject_try_waiters();
                drop(state);
                send(answers);
                Some(grant)
            }
            Err(NotInstalled::Superseded) => {
                // Another takeover ended this grant before it was installed here. Usually nothing
                // is left to release. But if the server has lost data since that takeover, the
                // acquire request of `wait_out_previous` may have taken the lock again. So the lock
                // is released in any case.
                server_lease.end();
                let hold = Arc::new(Hold::new(Arc::clone(&server_lease), sent, now, wanted));
                hold.end(Some(LostReason::Forced));
                self.note_lost(&server_lease, LostReason::Forced, 1);
                if let Some(lock) = state.locks.get_mut(&key) {
                    lock.remember_lost(&hold);
                }
                drop(state);
                self.leave_until(&server_lease, keep_until);
                Some(HoldGuard::first(client, hold))
            }
            Err(NotInstalled::Closed) => {
                state.remove_if_idle(&key);
                drop(state);
                self.leave_until(&server_lease, keep_until);
                None
            }
        }
    }

    /// Releases the lock after `limit`, because a takeover that failed may have acquired it.
    fn free(self: &Arc<Self>, takeover: &TakeoverRequest, id: u64, limit: Instant) {
        let TakeoverRequest { kind, target, lease, .. } = takeover;
        let release = DeferredRelease::of(*kind, target, id, *lease, Some(limit));
        self.schedule_cleanup(DeferredRelease { at_once: false, ..release });
    }
}

/// Converts a failure after which a former holder may have lost the lock.
///
/// Unlike [`AcquireFailure::unknown`], this function also converts a shutdown, because a caller of
/// a takeover needs to know whether a holder was affected.
fn maybe_taken(failure: AcquireFailure) -> AcquireFailure {
    match failure {
        AcquireFailure::ShuttingDown => {
            AcquireFailure::Unknown(ServerError::unknown("the client shut down during the takeover"))
        }
        other => other.unknown(),
    }
}

struct TakeoverRequest {
    kind: &'static dyn LockProtocol,
    target: Arc<LockKeys>,
    lease: Duration,
    from: TakeoverFrom,
}
