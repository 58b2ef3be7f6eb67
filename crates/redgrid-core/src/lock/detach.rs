//! Hands a hold to another process: one process detaches it, the other attaches it.
//!
//! The first process stops treating the hold as valid before the other process can use it. A
//! detached hold has left the table of its client and is not renewed. The other process takes the
//! hold over with one script, which replaces the holder field by a new one. So the hold cannot be
//! attached twice: the second attempt does not find the former field. Late renewals and
//! retransmissions of the process that detached the hold do not find that field, either.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{Progress, RetryPolicy};
use redgrid_client::{Client, ServerError};
use tokio::sync::oneshot;

use super::acquire::{GRACE, HoldGuard};
use super::attempt::GrantReply;
use super::cleanup::DeferredRelease;
use super::error::{AcquireFailure, AttachError, DetachError, LostReason};
use super::hold::Hold;
use super::not_granted::no_answer;
use super::protocol::{AcquireReply, AcquireRequest, HoldArgs, LockKeys, LockProtocol};
use super::table::{LockId, LockState, Table};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::{LeaseMode, deadline};
use crate::token::Token;

/// A hold that its process gave up without releasing it.
///
/// On the server the hold still exists, and its lease runs.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct DetachedHold {
    /// The holder field of the hold on the server.
    pub field: Bytes,
    /// The fencing token. It stays the same when the hold is attached.
    pub token: Token,
    /// The lease. A fixed lease ends at [`ends`](DetachedHold::ends). A renewed lease is extended
    /// when the hold is attached.
    pub lease: LeaseMode,
    /// The time from the detach to the hold's local deadline. The server keeps the hold longer, by
    /// a margin.
    pub left: Duration,
    /// When a fixed lease ends, in microseconds since 1970 by the clock of its server; 0 for a
    /// renewed lease. The value can be slightly too early.
    pub ends: u64,
    /// How much longer the lock stays taken after the detach, even if the hold is released earlier.
    pub at_least: Duration,
    /// How much longer the lease can be renewed after the detach; `None` for no limit.
    pub max_hold: Option<Duration>,
}

impl HoldGuard {
    /// Detaches the hold from this client without releasing it.
    ///
    /// Afterwards this client does not treat the hold as valid.
    ///
    /// # Errors
    ///
    /// [`DetachError`], with the guard. If the error does not say that the hold is lost, the hold
    /// continues.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the hold is released.
    pub async fn detach(mut self) -> Result<DetachedHold, (DetachError, HoldGuard)> {
        match self.try_detach().await {
            Ok(detached) => Ok(detached),
            Err(error) => Err((error, self)),
        }
    }

    async fn try_detach(&mut self) -> Result<DetachedHold, DetachError> {
        let (server_lease, name) = (&self.hold.server_lease, || self.name().clone());
        let kind = server_lease.protocol;
        let field = self.field();
        if kind.adopt(server_lease.claim(&field, Duration::ZERO), &field).is_none() {
            return Err(DetachError::Unsupported { name: name(), kind: kind.name() });
        }
        if server_lease.is_renewed_at(server_lease.clock.now()) {
            // Renew the hold first, so that the other process has the time of a whole lease to
            // attach it.
            let renewed = self.extend(server_lease.lease()).await;
            renewed.map_err(|source| DetachError::NotRenewed { name: name(), source })?;
        }
        if let Some(until) = server_lease.retransmission_ends() {
            // A late retransmission of the acquire could take the lock again after the other
            // process has released it. So wait until no retransmission can execute. While this
            // process holds the lock, a retransmission finds its own field, and changes nothing.
            let lost = tokio::select! {
                () = server_lease.clock.sleep_until(until) => None,
                reason = self.lost() => Some(reason),
            };
            if let Some(reason) = lost {
                return Err(DetachError::Lost { name: name(), reason });
            }
        }
        let detached = self.table().detach(&self.hold)?;
        self.armed = false;
        Ok(detached)
    }
}

impl Table {
    fn detach(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<DetachedHold, DetachError> {
        let server_lease = &hold.server_lease;
        let name = || server_lease.keys.name.clone();
        let key = server_lease.lock_id();
        let mut state = self.state();
        if hold.guards.load(Ordering::Acquire) > 1 {
            return Err(DetachError::Shared { name: name() });
        }
        let now = self.now();
        let lease = if server_lease.has_renewed_lease() {
            LeaseMode::Renewed(server_lease.lease())
        } else {
            LeaseMode::Fixed(hold.request.lease.duration())
        };
        let ends = match lease {
            LeaseMode::Renewed(_) => 0,
            LeaseMode::Fixed(_) => self.core.home(key.key()).time().at(hold.ends(), now).ok_or_else(|| {
                let source = ServerError::not_sent("the server's clock is not known at the moment");
                DetachError::Unavailable { name: name(), source }
            })?,
        };
        let detached = DetachedHold {
            field: self.core.field(server_lease.id),
            token: Token::new(hold.token),
            lease,
            left: hold.deadline().since(now),
            ends,
            at_least: hold.retained_until().since(now),
            max_hold: hold.request.max_hold.map(|longest| (hold.granted + longest).since(now)),
        };
        let lost = hold.lost();
        let is_alone = |lock: &&mut Box<LockState>| {
            lock.has(server_lease) && lock.holds.len() == 1 && lock.position(hold).is_some()
        };
        let lock = state.locks.get_mut(&key).filter(is_alone).filter(|_| lost.is_none());
        let Some(lock) = lock.filter(|_| hold.end(None)) else {
            let reason = lost.or_else(|| hold.lost()).unwrap_or(LostReason::Gone);
            return Err(DetachError::Lost { name: name(), reason });
        };
        hold.guards.fetch_sub(1, Ordering::AcqRel);
        lock.holds.clear();
        lock.server_lease = None;
        server_lease.end();
        state.schedule.remove(server_lease.id);
        // From now on, local waiters wait until another process releases the lock.
        self.go_on(&mut state, &key);
        Ok(detached)
    }

    pub(crate) async fn attach(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        detached: DetachedHold,
        durability: Durability,
    ) -> Result<HoldGuard, AttachError> {
        let name = target.name.clone();
        if self.state().closed {
            return Err(AcquireFailure::ShuttingDown.into_error(&self.core, &name).into());
        }
        let (answer, outcome) = oneshot::channel();
        let (table, client, target) = (Arc::clone(self), client.clone(), Arc::clone(target));
        let progress = Arc::new(Progress::default());
        let seen = Arc::clone(&progress);
        let over = self.now() + self.core.settings.patience() + durability.timeout() + GRACE;
        let key = target.key.clone();
        // The attempt runs in its own task. If it ran in the caller's future and this future were
        // dropped, this process could have taken over the hold without any task that owns the hold.
        self.core.spawn_background(Box::pin(async move {
            let _ = answer.send(table.attach_for(client, kind, target, detached, (durability, progress)).await);
        }));
        let outcome = tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or(Err(AcquireFailure::ShuttingDown)),
            () = self.core.clock.sleep_until(over) => Err(no_answer(&self.core, &seen, &key)),
        };
        match outcome {
            // If the caller accepts the grant too late, the grant has been released.
            Ok(grant) => grant.filter(HoldGuard::accept).ok_or(AttachError::Gone { name }),
            Err(failure) => Err(failure.into_error(&self.core, &name).into()),
        }
    }

    /// Attaches `detached`. Returns `None` if the server no longer has the hold under the former
    /// field, or if the lease has ended.
    async fn attach_for(
        self: Arc<Self>,
        client: Client,
        kind: &'static dyn LockProtocol,
        target: Arc<LockKeys>,
        detached: DetachedHold,
        (durability, progress): (Durability, Arc<Progress>),
    ) -> Result<Option<HoldGuard>, AcquireFailure> {
        let DetachedHold { lease, at_least, max_hold, .. } = detached;
        let mut acquire = AcquireRequest { at_least, max_hold, ..AcquireRequest::new(lease, durability) };
        // If nothing of `max_hold` is left, the lease is not extended.
        let wanted = match lease {
            LeaseMode::Renewed(_) if max_hold != Some(Duration::ZERO) => acquire.server_lease(Duration::ZERO),
            _ => Duration::ZERO,
        };
        let id = self.number();
        let field = self.core.field(id);
        let claim = HoldArgs { target: &target, field: &field, lease: wanted };
        let Some(request) = kind.adopt(claim, &detached.field) else { return Ok(None) };
        // The process that detached the hold has used it already. So the lock stays taken for
        // `at_least`, whatever the outcome of this attempt.
        let keep_until = if at_least.is_zero() { Instant::MIN } else { self.now() + at_least };
        let deferred_release =
            |limit| DeferredRelease { keep_until, ..DeferredRelease::of(kind, &target, id, lease.duration(), limit) };
        let until = self.now() + self.core.settings.patience();
        let (outcome, reply) = self.exchange_twice(request, until, RetryPolicy::Retries, &progress).await;
        let limit = outcome.retransmission_ends;
        let late = "the request reached the server too late";
        let (time, left) = match (reply, limit) {
            (AcquireReply::Granted { token, left }, _) => {
                (token, Duration::from_millis(u64::try_from(left).unwrap_or_default()))
            }
            (AcquireReply::Busy { .. }, _) => return Ok(None),
            (AcquireReply::TooLate, None) => return Err(ServerError::not_sent(late).into()),
            (reply, _) => {
                let failure = match reply {
                    AcquireReply::Failed(failure) => failure,
                    _ => AcquireFailure::Unknown(ServerError::unknown(late)),
                };
                if matches!(failure, AcquireFailure::Unknown(_)) {
                    self.schedule_cleanup(deferred_release(limit));
                }
                return Err(failure);
            }
        };
        if let Err(error) = self.core.commit(&outcome, durability, &target.key).await {
            self.clean_up(deferred_release(limit)).await;
            return Err(AcquireFailure::NotDurable(error));
        }
        if let LeaseMode::Fixed(_) = lease {
            // Count the rest of the lease from the time at which the request was sent. So attaching
            // does not prolong the lease.
            acquire.lease = LeaseMode::Fixed(Duration::from_micros(detached.ends.saturating_sub(time)));
        }
        let on_server = if wanted.is_zero() { left } else { wanted };
        let sent = outcome.sent;
        if self.now() >= deadline(sent, on_server).min(deadline(sent, acquire.lease.duration())) {
            self.schedule_cleanup(deferred_release(limit));
            return Ok(None);
        }
        let handover_window = self.handover_window(kind, &LockId::of(kind, &target));
        let granted =
            GrantReply::by(&outcome, id, detached.token.get(), (on_server, durability), sent + handover_window);
        let grant = self.install(client, kind, Arc::clone(&target), granted, (acquire, keep_until));
        grant.map(Some).ok_or(AcquireFailure::ShuttingDown)
    }
}
