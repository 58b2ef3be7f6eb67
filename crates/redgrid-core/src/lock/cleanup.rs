//! Settling what is unclear: what may be, or become, ours on the server although nobody here has it is given back, and once more when
//! nothing that was sent for it can be carried out any more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::server_lease::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::connection::Persistence;

/// The longest step of a server's clock that a settlement waits for: 20 s. No copy is on its way for longer than that.
const LONGEST_STEP: Duration = Duration::from_secs(20);

/// Something that may be, or become, ours on the server although nobody here has it.
pub(super) struct DeferredRelease {
    pub(super) kind: &'static dyn LockProtocol,
    pub(super) target: Arc<LockKeys>,
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

impl Table {
    /// Gives back a server lease that nobody here has got.
    pub(super) fn give_back(self: &Arc<Self>, server_lease: &Arc<ServerLease>) {
        self.leave_until(server_lease, Instant::PAST);
    }

    /// The same, and its name stays taken until `keep_until`.
    pub(super) fn leave_until(self: &Arc<Self>, server_lease: &Arc<ServerLease>, keep_until: Instant) {
        server_lease.end();
        let limit = server_lease.retransmission_ends().unwrap_or(Instant::PAST);
        self.schedule_cleanup(self.deferred_release(server_lease, limit, true, keep_until));
    }

    /// Gives a server lease back once more whose release left at `sent`, where a copy of its acquire may be carried out later.
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

    /// Gives a server lease back when its lease is over.
    pub(super) fn release_when_over(self: &Arc<Self>, server_lease: &ServerLease) {
        self.schedule_cleanup(self.deferred_release(server_lease, server_lease.lease_ends(), false, Instant::PAST));
    }

    fn deferred_release(
        &self,
        server_lease: &ServerLease,
        limit: Instant,
        at_once: bool,
        keep_until: Instant,
    ) -> DeferredRelease {
        DeferredRelease {
            kind: server_lease.kind,
            target: Arc::clone(&server_lease.target),
            field: server_lease.copied_field(),
            limit,
            at_once,
            keep_until,
            lease: server_lease.first_lease(),
        }
    }

    /// Releases what a copy without an answer may have taken: at once where it may be taken already, and once more when
    /// no copy can be carried out any more. Only then is it forgotten.
    pub(super) fn schedule_cleanup(self: &Arc<Self>, what: DeferredRelease) {
        let table = Arc::clone(self);
        self.spawn_background(Box::pin(async move {
            let mut left = Instant::PAST;
            if what.at_once {
                left = table.release_unclaimed(&what).await;
            }
            // What left before the limit may have been carried out before a late copy.
            while left < table.certain_limit(&what) || left == Instant::PAST {
                table.core.clock.sleep_until(table.certain_limit(&what)).await;
                left = table.release_unclaimed(&what).await;
            }
        }));
    }

    /// From when on no late copy is carried out: later than its limit where the server's clock was set back meanwhile.
    fn certain_limit(&self, what: &DeferredRelease) -> Instant {
        if what.limit == Instant::PAST {
            return what.limit;
        }
        what.limit + self.core.home(&what.target.key).time().set_back(self.now()).min(LONGEST_STEP)
    }

    /// The same, waiting for the first release as long as one answer may take.
    pub(super) async fn clean_up(self: &Arc<Self>, what: DeferredRelease) {
        let until = self.now() + self.core.settings.timeout;
        let left = tokio::select! {
            left = self.release_unclaimed(&what) => left,
            () = self.core.clock.sleep_until(until) => Instant::PAST,
        };
        if left < self.certain_limit(&what) || left == Instant::PAST {
            self.schedule_cleanup(DeferredRelease { at_once: left == Instant::PAST, ..what });
        }
    }

    /// Returns when the answered release left.
    async fn release_unclaimed(&self, what: &DeferredRelease) -> Instant {
        let keep = what.keep_until.since(self.now());
        let claim = HoldArgs { target: &what.target, field: &what.field, lease: keep };
        let request = if keep.is_zero() { what.kind.release(claim) } else { what.kind.retain(claim) };
        let until = what.limit.max(self.now()) + what.lease;
        let asked = self.core.give_back(request, until, Persistence::ToTheEnd).await;
        if let Err(error) = asked.result {
            tracing::debug!(name = %what.target.name, %error, "could not give back; the lease ends it");
        }
        asked.sent
    }
}
