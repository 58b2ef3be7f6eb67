//! Counts held permits for metrics. A guard of several permits counts several times.

use std::pin::pin;
use std::time::Duration;

use super::exchange::LeaseCheck;
use super::local_semaphore::LocalSemaphore;
use super::permit_set::PermitLease;
use crate::clock::Instant;
use crate::lease::renewal_lag;
use crate::lock::LostReason;
use crate::observe::count::{self, Labels};

/// Permits that count as held: the labels of their handle, and since when they are held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) labels: Labels,
    pub(super) since: Instant,
}

impl Held {
    /// Counts the end of `permits` permits. `how` is `None` if their guard was forgotten, so that
    /// they end with their leases.
    pub(super) fn end(self, permits: u64, now: Instant, how: Option<Result<(), LostReason>>) {
        count::permits_ended(self.labels, permits, now.since(self.since), how);
    }
}

impl PermitLease {
    /// Counts the permit as held by a guard.
    pub(super) fn begin_count(&self, held: Held) {
        let before = self.held.lock().replace(held);
        if let Some(before) = before {
            count::permits_never_held(before.labels, 1);
        }
        count::permits_held(held.labels, 1);
    }

    /// Counts the end of the permit. If the end was counted before, does nothing.
    pub(super) fn end_count(&self, how: Option<Result<(), LostReason>>) {
        let held = self.held.lock().take();
        if let Some(held) = held {
            held.end(1, self.clock.now(), how);
        }
    }

    /// Counts a failed renewal. If the renewal is overdue, also counts an overdue renewal, but only
    /// one until a renewal is confirmed. Checks of fixed leases, and renewals of permits without a
    /// guard, do not count.
    fn count_failed_renewal(&self, response_timeout: Duration) {
        let Some(labels) = self.renewed_labels() else { return };
        count::renewal_failed(labels);
        if self.overdue.begins(self.mode.duration(), self.deadline(), self.clock.now(), response_timeout) {
            count::renewal_overdue(labels);
        }
    }

    /// Counts a confirmed renewal. Call it before the deadline is extended.
    pub(super) fn count_renewal(&self) {
        if let Some(labels) = self.renewed_labels() {
            let lag = renewal_lag(self.mode.duration(), self.deadline(), self.clock.now());
            count::renewed(labels, lag);
        }
        self.overdue.confirmed();
    }

    fn renewed_labels(&self) -> Option<Labels> {
        let held = *self.held.lock();
        held.filter(|_| self.is_renewed()).map(|held| held.labels)
    }
}

impl LocalSemaphore {
    /// Counts a failed renewal of a lease.
    pub(super) fn count_failed_renewal(&self, lease: &PermitLease) {
        lease.count_failed_renewal(self.core.settings.response_timeout);
    }

    /// Waits for the reply to an exchange that was sent at `sent`. At each response timeout without
    /// it, counts the renewals of the exchange as failed: it is sent again for longer than most
    /// leases last. Also returns whether they were counted.
    pub(super) async fn count_unanswered<T>(
        &self,
        checks: &[LeaseCheck],
        sent: Instant,
        reply: impl Future<Output = T>,
    ) -> (T, bool) {
        if checks.is_empty() {
            return (reply.await, false);
        }
        let mut reply = pin!(reply);
        let (mut due, mut has_counted) = (sent + self.core.settings.response_timeout, false);
        loop {
            tokio::select! {
                biased;
                reply = &mut reply => return (reply, has_counted),
                () = self.clock().sleep_until(due) => {
                    checks.iter().for_each(|check| self.count_failed_renewal(&check.lease));
                    has_counted = true;
                    due = due + self.core.settings.response_timeout;
                }
            }
        }
    }
}
