//! Yields that remain in force for a moment after a release.
//!
//! The next request of this process lets waiting processes go first, even if no task of this
//! process waited when the lock was released.

use super::fairness::YieldPlan;
use super::lock_state::LockId;
use super::table::ByName;
use crate::clock::Instant;

/// Pending yields by key.
#[derive(Default)]
pub(super) struct PendingYields {
    names: ByName<PendingYield>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
pub(super) struct PendingYield {
    /// How other processes go first when the hand-over window has ended.
    pub(super) plan: YieldPlan,
    /// When the lock was released.
    pub(super) since: Instant,
    pub(super) until: Instant,
    pub(super) handover_ends: Instant,
}

impl PendingYield {
    /// Returns until when waiters elsewhere are being notified that the window has ended, if they
    /// are.
    pub(super) fn yields_until(&self, now: Instant) -> Option<Instant> {
        let until = self.since + self.plan.quiet_period(None);
        (now >= self.handover_ends && now < until).then_some(until)
    }
}

impl PendingYields {
    pub(super) fn insert(&mut self, key: LockId, recent: PendingYield, now: Instant) {
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, recent| recent.until > now);
            self.prune_at = self.names.len() * 2;
        }
        self.names.insert(key, recent);
    }

    pub(super) fn get(&self, key: &LockId, now: Instant) -> Option<PendingYield> {
        self.names.get(key).copied().filter(|recent| recent.until > now)
    }

    pub(super) fn take(&mut self, key: &LockId, now: Instant) -> Option<PendingYield> {
        if self.names.is_empty() {
            return None;
        }
        self.names.remove(key).filter(|recent| recent.until > now)
    }
}
