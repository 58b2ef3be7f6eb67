//! Counts allocations since a measurement began, if the feature `allocations` is enabled. Counting
//! has a cost, so builds for timing omit it.

#[cfg(feature = "allocations")]
mod counting {
    use std::alloc::System;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

    #[global_allocator]
    static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    static AT_THE_START: AtomicUsize = AtomicUsize::new(0);

    fn so_far() -> usize {
        let stats = COUNTING.stats();
        stats.allocations + stats.reallocations
    }

    pub(in super::super) fn begin() {
        AT_THE_START.store(so_far(), Relaxed);
    }

    pub(in super::super) fn since_the_start() -> Option<u64> {
        Some(so_far().saturating_sub(AT_THE_START.load(Relaxed)) as u64)
    }
}

#[cfg(not(feature = "allocations"))]
mod counting {
    pub(in super::super) fn begin() {}

    pub(in super::super) fn since_the_start() -> Option<u64> {
        None
    }
}

/// `begin` starts counting; `since_the_start` returns the count, or `None` without the feature.
pub(super) use counting::{begin, since_the_start};
