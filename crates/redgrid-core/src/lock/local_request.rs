//! A request of a caller, and its status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redgrid_client::internal::Progress;

use super::fair::QueuePosition;
use super::protocol::AcquireRequest;
use crate::clock::Instant;

/// A request. Its caller, its waiter and its attempts share it.
///
/// If the request times out, its status decides which error the caller receives.
pub(super) struct LocalRequest {
    /// Unique in this client.
    pub(super) id: u64,
    pub(super) options: Arc<AcquireRequest>,
    /// When the caller began to wait.
    pub(super) entered: Instant,
    /// When the request times out.
    pub(super) until: Instant,
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

impl LocalRequest {
    pub(super) fn new(id: u64, options: Arc<AcquireRequest>, entered: Instant) -> Arc<LocalRequest> {
        Arc::new(LocalRequest {
            id,
            entered,
            until: options.wait.map_or(Instant::MAX, |wait| entered + wait),
            options,
            progress: Progress::default(),
            busy: AtomicBool::default(),
            is_counted: AtomicBool::default(),
            may_execute_until: AtomicU64::default(),
            position: QueuePosition::new(id),
        })
    }

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
