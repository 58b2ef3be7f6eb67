//! Cleanup: releases what this process may have acquired on the server without a local owner.
//!
//! The release is repeated when no request that was sent for it can execute any more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::server_lease::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::connection::RetryPolicy;

/// Longest step of the server's clock that a cleanup waits for: 20 s. No retransmission is in
/// flight for longer than that.
const LONGEST_STEP: Duration = Duration::from_secs(20);

/// Release of what an unanswered request may have acquired, or may still acquire.
pub(super) struct DeferredRelease {
    pub(super) protocol: &'static dyn LockProtocol,
    pub(super) keys: Arc<LockKeys>,
    pub(super) field: Bytes,
    /// Until when a retransmission may acquire it.
    pub(super) limit: Instant,
    /// Release now as well as after `limit`.
    pub(super) at_once: bool,
    /// The lock stays taken until then.
    pub(super) keep_until: Instant,
    /// Lease that a retransmission may have got. It ends what cannot be released.
    pub(super) lease: Duration,
}

impl Table {
    /// Releases a server lease that no local task has received.
    pub(super) fn give_back(self: &Arc<Self>, server_lease: &Arc<ServerLease>) {
        self.leave_until(server_lease, Instant::MIN);
    }

    /// Releases a server lease that no local task has received.
    ///
    /// Its lock stays taken until `keep_until`.
    pub(super) fn leave_until(self: &Arc<Self>, server_lease: &Arc<ServerLease>, keep_until: Instant) {
        server_lease.end();
        let limit = server_lease.retransmission_ends().unwrap_or(Instant::MIN);
        self.schedule_cleanup(self.deferred_release(server_lease, limit, true, keep_until));
    }

    /// Releases a server lease again if a retransmission of its acquire may execute after `sent`.
    ///
    /// `sent` is when its first release left.
    pub(super) fn release_late_copies(
        self: &Arc<Self>,
        server_lease: &ServerLease,
        sent: Instant,
        keep_until: Instant,
    ) {
        if let Some(limit) = server_lease.retransmission_ends().filter(|limit| *limit > sent) {
            self.schedule_cleanup(self.deferred_release(server_lease, limit, false, keep_until));
        }
    }

    /// Releases a server lease when its lease is over.
    pub(super) fn release_when_over(self: &Arc<Self>, server_lease: &ServerLease) {
        let field = server_lease.copied_field();
        let request = server_lease.protocol.release(server_lease.claim(&field, Duration::ZERO));
        self.give_back_at(server_lease.lease_ends(), request, server_lease.lease());
    }

    fn deferred_release(
        &self,
        server_lease: &ServerLease,
        limit: Instant,
        at_once: bool,
        keep_until: Instant,
    ) -> DeferredRelease {
        DeferredRelease {
            protocol: server_lease.protocol,
            keys: Arc::clone(&server_lease.keys),
            field: server_lease.copied_field(),
            limit,
            at_once,
            keep_until,
            lease: server_lease.retransmission().map_or_else(|| server_lease.lease(), |(_, lease)| lease),
        }
    }

    /// Releases in the background what an unanswered request may have acquired.
    ///
    /// It does so at once if something may be held already, and again when no retransmission can
    /// execute any more. The entry is kept until then.
    pub(super) fn schedule_cleanup(self: &Arc<Self>, what: DeferredRelease) {
        let table = Arc::clone(self);
        self.spawn_background(Box::pin(async move {
            let mut left = Instant::MIN;
            if what.at_once {
                left = table.release_unclaimed(&what).await;
            }
            // A release that left before the limit may have executed before a late retransmission.
            while left < table.certain_limit(&what) || left == Instant::MIN {
                table.core.clock.sleep_until(table.certain_limit(&what)).await;
                left = table.release_unclaimed(&what).await;
            }
        }));
    }

    /// Returns from when on no retransmission executes. That is later than `limit` if the server's
    /// clock was set back meanwhile.
    fn certain_limit(&self, what: &DeferredRelease) -> Instant {
        if what.limit == Instant::MIN {
            return what.limit;
        }
        what.limit + self.core.home(&what.keys.key).time().set_back(self.now()).min(LONGEST_STEP)
    }

    /// Releases, and waits for the first release as long as one reply may take. What remains is
    /// scheduled.
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

    /// Sends the release until it is answered or the lease is over.
    ///
    /// Returns when the answered (or last) transmission left.
    async fn release_unclaimed(&self, what: &DeferredRelease) -> Instant {
        let keep = what.keep_until.since(self.now());
        let claim = HoldArgs { target: &what.keys, field: &what.field, lease: keep };
        let request = if keep.is_zero() { what.protocol.release(claim) } else { what.protocol.retain(claim) };
        let until = what.limit.max(self.now()) + what.lease;
        let asked = self.core.give_back(request, until, RetryPolicy::ToTheEnd).await;
        if let Err(error) = asked.result {
            tracing::debug!(name = %what.keys.name, %error, "could not give back; the lease ends it");
        }
        asked.sent
    }
}
