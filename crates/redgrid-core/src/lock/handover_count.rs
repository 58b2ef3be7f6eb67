//! Number of tasks that have had a server lease one after another, and the tokens that they got.

use std::sync::atomic::{AtomicU64, Ordering};

use super::handover_window;
use crate::clock::Instant;

/// Number of local tasks that have had a server lease; changed under the table's lock.
///
/// A server lease that is passed along the server's queue has no last owner. 32 bits would be full
/// after a day of hand-overs, and tokens would begin again.
#[derive(Default)]
pub(super) struct HandoverCount(AtomicU64);

impl HandoverCount {
    pub(super) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    pub(super) fn increment(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the token of the next owner, and from when on the server's clock is certainly past
    /// it.
    ///
    /// `first` is the token of the first owner, and `granted` is when its grant arrived.
    pub(super) fn next_token(&self, first: u64, granted: Instant) -> (u64, Instant) {
        match self.0.load(Ordering::Acquire) {
            0 => (first, Instant::MIN),
            k => (first + k, handover_window::token_due(granted, k)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_rise_however_many_there_were() {
        let (first, granted) = (1_700_000_000_000_000, Instant::MIN);
        for former in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
            let owners = HandoverCount::default();
            owners.0.store(former, Ordering::Relaxed);
            let before = owners.next_token(first, granted);
            owners.increment();
            let after = owners.next_token(first, granted);
            assert!(after > before && after.1 > before.1, "{former}: {before:?}, {after:?}");
            assert!(!owners.is_zero(), "{former}");
        }
    }
}
