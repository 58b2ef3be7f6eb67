//! Metrics and events of a hold: its end, and renewals that fail.

use std::sync::Arc;

use super::acquire::HoldGuard;
use super::error::LostReason;
use super::hold::{Hold, ServerLease};
use super::release::op_context;
use super::table::State;
use crate::observe::CallerSpan;
use crate::observe::count::{self, Labels};

impl ServerLease {
    /// Returns the labels of the lock in metrics.
    pub(super) fn labels(&self) -> Labels {
        Labels { kind: self.protocol.name(), family: self.keys.family }
    }
}

impl HoldGuard {
    /// Records the span in which the hold was acquired.
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for spans"))]
    pub(crate) fn set_caller(&self, caller: CallerSpan) {
        self.hold.span.set(caller);
    }
}

impl Hold {
    /// Counts the end of the hold in the metrics, and emits an event in the span of its caller if
    /// the hold was lost.
    pub(super) fn record_end(&self, lost: Option<LostReason>) {
        let (labels, now) = (self.server_lease.labels(), self.server_lease.clock.now());
        let held = now.since(self.granted);
        if !self.is_given() {
            count::never_held(labels);
        } else if lost.is_some() && !self.is_guarded() {
            // The hold had no guard when it was lost, because it was forgotten. So it counts
            // neither as released nor as lost.
            count::ended(labels, held, None);
        } else {
            // A hold that is released after its deadline is counted as lost.
            let lost = lost.or((now >= self.deadline()).then_some(LostReason::Expired));
            count::ended(labels, held, Some(lost.map_or(Ok(()), Err)));
            if let Some(reason) = lost {
                self.span.get().lost(op_context(self), Some(self.token), reason);
            }
        }
    }
}

impl State {
    /// Counts a failed renewal of a server lease, and emits an event in the spans of the callers
    /// that hold it.
    pub(super) fn record_failed_renewal(&self, server_lease: &Arc<ServerLease>) {
        count::renewal_failed(server_lease.labels());
        if cfg!(not(feature = "tracing")) {
            return;
        }
        let lock = self.locks.get(&server_lease.lock_id()).filter(|lock| lock.has(server_lease));
        for hold in lock.into_iter().flat_map(|lock| lock.held()) {
            hold.span.get().renewal_failed(op_context(hold), Some(hold.token));
        }
    }
}

/// Counts a hold that was still held when its client ended.
#[cfg(feature = "metrics")]
impl Drop for Hold {
    fn drop(&mut self) {
        if self.end.get().is_none() {
            count::never_held(self.server_lease.labels());
        }
    }
}
