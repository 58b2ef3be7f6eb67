//! Counts held permits for metrics, and emits events in the spans of their callers. A guard of
//! several permits counts several times, and has as many events.

use std::pin::pin;
use std::time::Duration;

use super::exchange::LeaseCheck;
use super::local_semaphore::LocalSemaphore;
use super::permit_set::PermitLease;
use crate::clock::Instant;
use crate::lease::renewal_lag;
use crate::lock::LostReason;
use crate::name::Name;
use crate::observe::count::{self, Labels};
use crate::observe::{CallerSpan, OpContext};

/// Permits that count as held: the labels of their handle, and since when they are held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) labels: Labels,
    since: Instant,
    /// The span of the caller.
    caller: CallerSpan,
}

impl Held {
    pub(super) fn new(labels: Labels, since: Instant) -> Held {
        Held { labels, since, caller: CallerSpan::default() }
    }

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

    /// Records the span of the caller of a permit that counts as held.
    pub(super) fn set_caller(&self, caller: CallerSpan, labels: Labels) {
        let mut held = self.held.lock();
        if cfg!(not(feature = "metrics")) {
            // Without metrics, no permit was counted.
            *held = Some(Held::new(labels, self.clock.now()));
        }
        if let Some(held) = &mut *held {
            held.caller = caller;
        }
    }

    /// Counts the end of the permit of the semaphore `name`, and emits an event if it was lost. If
    /// the end was counted before, does nothing.
    pub(super) fn end_count(&self, name: &Name, how: impl FnOnce() -> Option<Result<(), LostReason>>) {
        let held = self.held.lock().take();
        let Some(held) = held else { return };
        let how = how();
        held.end(1, self.clock.now(), how);
        if let Some(Err(reason)) = how {
            held.caller.lost(OpContext { labels: held.labels, name }, None, reason);
        }
    }

    /// Counts a failed renewal, and emits an event. If the renewal is overdue, also counts an
    /// overdue renewal, but only one until a renewal is confirmed. Checks of fixed leases, and
    /// renewals of permits without a guard, do not count.
    fn count_failed_renewal(&self, name: &Name, response_timeout: Duration) {
        let Some(Held { labels, caller, .. }) = self.renewed_by() else { return };
        count::renewal_failed(labels);
        caller.renewal_failed(OpContext { labels, name }, None);
        if self.overdue.begins(self.mode.duration(), self.deadline(), self.clock.now(), response_timeout) {
            count::renewal_overdue(labels);
        }
    }

    /// Counts a confirmed renewal. Call it before the deadline is extended.
    pub(super) fn count_renewal(&self) {
        if let Some(held) = self.renewed_by() {
            let lag = renewal_lag(self.mode.duration(), self.deadline(), self.clock.now());
            count::renewed(held.labels, lag);
        }
        self.overdue.confirmed();
    }

    /// Returns what is known of the guard for which the permit is renewed.
    fn renewed_by(&self) -> Option<Held> {
        let held = *self.held.lock();
        held.filter(|_| self.is_renewed())
    }
}

impl LocalSemaphore {
    /// Counts a failed renewal of a lease, and emits an event.
    pub(super) fn count_failed_renewal(&self, lease: &PermitLease) {
        lease.count_failed_renewal(&self.keys.name, self.core.settings.response_timeout);
    }

    /// Waits for the reply to an exchange that was sent at `sent`. Whenever a response timeout
    /// passes without the reply, counts the renewals of the exchange as failed. To count them only
    /// at the end would be too late: an unanswered exchange is sent again for longer than most
    /// leases last. Also returns whether renewals were counted as failed.
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
