//! The status of a request while its caller waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redgrid_client::internal::Progress;

use super::fair::QueuePosition;
use crate::clock::Instant;

/// Facts about a request. If the request times out, they decide which error the caller receives.
#[derive(Default)]
pub(super) struct RequestStatus {
    pub(super) progress: Progress,
    /// Whether the lock is known to be taken.
    busy: AtomicBool,
    /// Whether the request's wait was added to the contention statistics.
    is_counted: AtomicBool,
    /// Until when a retransmission of the request can still acquire the lock, in nanoseconds.
    may_execute_until: AtomicU64,
    /// The request's position in the server's queue, for lock kinds that have one.
    pub(super) position: QueuePosition,
}

impl RequestStatus {
    pub(super) fn set_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Returns whether the request has waited for a taken lock and this wait is not counted yet.
    /// Marks the wait as counted.
    pub(super) fn count_wait(&self) -> bool {
        self.is_busy() && !self.is_counted.swap(true, Ordering::Relaxed)
    }

    pub(super) fn set_maybe_executed(&self, until: Instant) {
        self.may_execute_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn may_execute_until(&self) -> Instant {
        Instant::from_nanos(self.may_execute_until.load(Ordering::Relaxed))
    }
}
