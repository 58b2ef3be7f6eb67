//! Background releases of three kinds: of locks that may be held without a local owner, of holds
//! whose release was denied, and of locks that become free only after a while.
//!
//! A late copy of an acquire can execute after a release. So the release is sent again when no
//! acquire for its holder field can execute any more.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{RequestOutcome, RetryPolicy};
use redgrid_client::{Code, ServerError};

use super::hold::ServerLease;
use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::release::ReleaseMode;
use super::table::Table;
use crate::clock::Instant;

/// The longest additional wait of a cleanup after the server's clock was set back: 20 s. No
/// retransmission is in flight for longer than 20 s.
const LONGEST_STEP: Duration = Duration::from_secs(20);

/// Largest number of locks that one script releases.
pub(super) const BULK: usize = 500;

/// Pause before a denied release is sent again for the first time: 100 ms. After each further
/// denial the pause doubles, but only up to 1 s, because a shutdown waits until the pause is over.
const DENIED_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_DENIED_PAUSE: Duration = Duration::from_secs(1);

/// A background release of locks that an unanswered request may have acquired, or can still
/// acquire.
pub(super) struct DeferredRelease {
    pub(super) protocol: &'static dyn LockProtocol,
    /// The keys of one hash slot, each with the number in its holder field.
    pub(super) claims: Vec<(Arc<LockKeys>, u64)>,
    /// Until when a retransmission can acquire the locks.
    pub(super) limit: Instant,
    /// Whether the locks are also released at once, not only after `limit`.
    pub(super) at_once: bool,
    /// Until when the locks stay taken; in the past if they become free at once.
    pub(super) keep_until: Instant,
    /// The lease that a retransmission may have acquired. Locks that cannot be released are free
    /// when this lease ends.
    pub(super) lease: Duration,
}

impl DeferredRelease {
    /// Creates a release of one key. The release is sent at once, and again after `limit`.
    pub(super) fn of(
        protocol: &'static dyn LockProtocol,
        keys: &Arc<LockKeys>,
        id: u64,
        lease: Duration,
        limit: Option<Instant>,
    ) -> Self {
        DeferredRelease::of_all(protocol, vec![(Arc::clone(keys), id)], lease, limit)
    }

    pub(super) fn of_all(
        protocol: &'static dyn LockProtocol,
        claims: Vec<(Arc<LockKeys>, u64)>,
        lease: Duration,
        limit: Option<Instant>,
    ) -> Self {
        let limit = limit.unwrap_or(Instant::MIN);
        DeferredRelease { protocol, claims, limit, at_once: true, keep_until: Instant::MIN, lease }
    }

    fn of_lease(server_lease: &ServerLease) -> Self {
        let ServerLease { protocol, keys, id, .. } = server_lease;
        let lease = server_lease.retransmitted_lease().unwrap_or_else(|| server_lease.lease());
        DeferredRelease::of(*protocol, keys, *id, lease, server_lease.retransmission_ends())
    }
}

impl Table {
    /// Gives up a server lease that no local task has received. Its lock stays taken until
    /// `keep_until`, and is free after that: at once, if that is in the past.
    pub(super) fn leave_until(self: &Arc<Self>, server_lease: &Arc<ServerLease>, keep_until: Instant) {
        server_lease.end();
        self.schedule_cleanup(DeferredRelease { keep_until, ..DeferredRelease::of_lease(server_lease) });
    }

    /// Releases a server lease again if a retransmission of its acquire can execute after `sent`.
    ///
    /// `sent` is the time at which the first release of the server lease was sent.
    pub(super) fn release_late_copies(
        self: &Arc<Self>,
        server_lease: &ServerLease,
        sent: Instant,
        keep_until: Instant,
    ) {
        if server_lease.retransmission_ends().is_some_and(|limit| limit > sent) {
            let again = DeferredRelease { at_once: false, keep_until, ..DeferredRelease::of_lease(server_lease) };
            self.schedule_cleanup(again);
        }
    }

    /// Starts a background release of the locks that an unanswered request may have acquired.
    ///
    /// The release is sent at once if the locks may be held already, and again when no
    /// retransmission can execute any more.
    pub(super) fn schedule_cleanup(self: &Arc<Self>, what: DeferredRelease) {
        let table = Arc::clone(self);
        self.core.spawn_background(Box::pin(async move {
            let mut left = Instant::MIN;
            if what.at_once {
                left = table.release_unclaimed(&what).await;
            }
            // Until the limit, a late retransmission of the acquire may execute after the release
            // and take the lock again. So the release is sent again after the limit.
            while left < table.certain_limit(&what) || left == Instant::MIN {
                table.core.clock.sleep_until(table.certain_limit(&what)).await;
                left = table.release_unclaimed(&what).await;
            }
        }));
    }

    /// Returns the time after which no retransmission executes. This time is later than `limit` if
    /// the server's clock was set back meanwhile.
    fn certain_limit(&self, what: &DeferredRelease) -> Instant {
        match what.claims.first() {
            Some((keys, _)) if what.limit > Instant::MIN => {
                what.limit + self.core.home(&keys.key).time().set_back(self.now()).min(LONGEST_STEP)
            }
            _ => what.limit,
        }
    }

    /// Sends the release, and waits for its reply, but no longer than one response timeout.
    /// Schedules the release again if no reply arrived, or if a late retransmission can still
    /// execute.
    pub(super) async fn clean_up(self: &Arc<Self>, what: DeferredRelease) {
        let until = self.now() + self.core.settings.response_timeout;
        let left = tokio::select! {
            left = self.release_unclaimed(&what) => left,
            () = self.core.clock.sleep_until(until) => Instant::MIN,
        };
        if left < self.certain_limit(&what) || left == Instant::MIN {
            self.schedule_cleanup(DeferredRelease { at_once: left == Instant::MIN, ..what });
        }
    }

    /// Sends each of the releases until it is answered or its lease has ended.
    ///
    /// Returns the time at which the answered transmission was sent; if none was answered, that of
    /// the last transmission. If there are several releases, returns the earliest of their times.
    async fn release_unclaimed(&self, what: &DeferredRelease) -> Instant {
        let (protocol, mut sent) = (what.protocol, Instant::MAX);
        let fields: Vec<_> = what.claims.iter().map(|(_, id)| self.core.field(*id)).collect();
        let each = what.claims.iter().zip(&fields);
        let claims: Vec<_> =
            each.map(|((keys, _), field)| HoldArgs { target: keys, field, lease: Duration::ZERO }).collect();
        for part in claims.chunks(BULK) {
            let until = || what.limit.max(self.now()) + what.lease;
            let keep = what.keep_until.since(self.now());
            let (request, policy) = match part {
                [claim] if keep.is_zero() => (protocol.release(*claim), RetryPolicy::ToTheEnd),
                [claim] => (protocol.retain(HoldArgs { lease: keep, ..*claim }), RetryPolicy::ToTheEnd),
                _ => (protocol.release_many(part), RetryPolicy::Together),
            };
            let outcome = self.core.give_back(request, until(), policy).await;
            sent = sent.min(outcome.sent);
            let Err(error) = outcome.result else { continue };
            tracing::debug!(name = %what.claims[0].0.name, %error, "could not release a hold; it ends with its lease");
            if part.len() > 1 && matches!(error, ServerError::Refused { .. }) {
                // The server may have rejected the whole request because of one invalid key or a
                // slot migration: release the locks one by one.
                for claim in part {
                    self.core.give_back(protocol.release(*claim), until(), RetryPolicy::ToTheEnd).await;
                }
            }
        }
        sent
    }

    /// Returns how a lock is released now, and until when the release is retried if no reply
    /// arrives.
    ///
    /// Before `keep_until` the mode is [`ReleaseMode::Retain`], which keeps the lock taken until
    /// that time. Such a release is retried for at most one response timeout, because its argument,
    /// the remaining time, becomes outdated. Other releases are retried until the end of the lease.
    pub(super) fn release_mode(
        &self,
        server_lease: &ServerLease,
        keep_until: Instant,
        yields: bool,
    ) -> (ReleaseMode, Instant) {
        let (now, ends) = (self.now(), server_lease.lease_ends());
        match keep_until.since(now) {
            Duration::ZERO if yields => (ReleaseMode::Yield, ends),
            Duration::ZERO => (ReleaseMode::Release, ends),
            keep => (ReleaseMode::Retain(keep), ends.min(now + self.core.settings.response_timeout)),
        }
    }

    /// Repeats a failed release until the server can no longer have a lease of the hold.
    ///
    /// Returns the mode and the outcome of the last release.
    pub(super) async fn release_again(
        &self,
        server_lease: &ServerLease,
        (keep_until, yields): (Instant, bool),
        (mut mode, mut until): (ReleaseMode, Instant),
        mut outcome: RequestOutcome,
    ) -> (ReleaseMode, RequestOutcome) {
        while outcome.result.is_err() && server_lease.lease_ends() > until && self.now() >= until {
            // Either a renewal in flight has lengthened the lease, or the mode of the release was
            // `Retain`. In the second case, the mode contains how long the lock has to stay taken,
            // and this time is outdated by now. So the mode is determined anew.
            (mode, until) = self.release_mode(server_lease, keep_until, yields);
            let again = self.send_release(server_lease, mode, until).await;
            let retransmission_ends = again.retransmission_ends.max(outcome.retransmission_ends);
            outcome = RequestOutcome { retransmission_ends, ..again };
        }
        let lacks_permission = |error: &ServerError| error.code() == Some(Code::NoPermission);
        if mode == ReleaseMode::Yield && outcome.result.as_ref().is_err_and(lacks_permission) {
            // Perhaps the server denied only the read of the flag of polling waiters. So release
            // the lock without reading that flag.
            outcome = self.send_release(server_lease, ReleaseMode::Release, until).await;
        }
        (mode, outcome)
    }

    /// Retries a denied release until it succeeds or the lease ends.
    ///
    /// The release removes only the server lease's own holder field: a later holder is not
    /// affected. Until `keep_until` the lock stays taken.
    pub(super) async fn release_denied(self: Arc<Self>, server_lease: Arc<ServerLease>, keep_until: Instant) {
        let mut pause = DENIED_PAUSE;
        loop {
            let again = self.now() + pause;
            if again >= server_lease.lease_ends() || self.state().closed {
                return;
            }
            self.core.clock.sleep_until(again).await;
            let (mode, _) = self.release_mode(&server_lease, keep_until, false);
            if self.send_release(&server_lease, mode, server_lease.lease_ends()).await.result.is_ok() {
                return;
            }
            pause = (pause * 2).min(LONGEST_DENIED_PAUSE);
        }
    }
}
