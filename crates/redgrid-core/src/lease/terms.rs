//! Leases, margins and deadlines, as functions of their inputs.

use std::time::Duration;

use crate::clock::Instant;

/// How long a lock or a permit is granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum LeaseMode {
    /// Renewed while the guard lives; the duration is that of one lease.
    Renewed(Duration),
    /// This long, without renewal.
    Fixed(Duration),
}

impl LeaseMode {
    /// Returns the duration of one lease.
    pub fn duration(self) -> Duration {
        match self {
            LeaseMode::Renewed(lease) | LeaseMode::Fixed(lease) => lease,
        }
    }
}

/// Returns how much earlier than the server this process stops trusting a lease.
///
/// It is a twentieth of the lease, and at least 20 ms. It covers the drift of clocks, the
/// granularity of timers, and the delivery of a `lost` notice to the working task.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 20).max(Duration::from_millis(20))
}

/// Returns the lease on the server that is valid locally for `believed`.
pub(crate) fn with_margin(believed: Duration) -> Duration {
    // The margin is a share of the whole lease: 20/19 of what remains after it, rounded up.
    (believed + believed / 19 + Duration::from_nanos(1)).max(believed + Duration::from_millis(20))
}

/// Returns until when a hold is valid whose confirmed request was sent at `sent`.
pub(crate) fn deadline(sent: Instant, lease: Duration) -> Instant {
    sent + lease.saturating_sub(margin(lease))
}

/// Returns when a lease is renewed or verified next, after a request that was sent at `from`.
///
/// It is due after a third of its length, so that one failed renewal is no loss.
pub(crate) fn next_renewal(lease: Duration, deadline: Instant, from: Instant) -> Instant {
    // Earlier, if less than the whole lease is left.
    from + (lease / 3).min(deadline.since(from) / 2).max(SHORTEST_INTERVAL)
}

/// The shortest time between two renewals or verifications, however near the end of the lease is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

/// Returns how long after a failed renewal the next one is sent.
///
/// It is a thirtieth of the lease, and at most 1 s.
pub(crate) fn retry_pause(lease: Duration) -> Duration {
    (lease / 30).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_deadline_is_before_the_servers_expiry_by_a_margin() {
        let sent = Instant::MIN + 1000 * MS;
        assert_eq!(deadline(sent, 30_000 * MS), sent + 28_500 * MS);
        assert_eq!(deadline(sent, 100 * MS), sent + 80 * MS);
    }

    #[test]
    fn a_lease_with_its_margin_is_believed_as_long_as_was_asked() {
        for believed in [0, 1, 19, 20, 100, 379, 380, 381, 30_000, 2_592_000_000].map(|ms| ms * MS) {
            let lease = with_margin(believed);
            assert!(lease - margin(lease) >= believed, "{believed:?}");
            assert!(lease - margin(lease) <= believed + MS, "{believed:?}");
        }
    }

    #[test]
    fn a_lease_is_renewed_after_a_third_and_more_often_towards_its_end() {
        let sent = Instant::MIN + 1000 * MS;
        for (lease, left, due) in [(30_000, 28_500, 10_000), (30_000, 6000, 3000), (100, 80, 33), (30_000, 10, 20)] {
            let next = next_renewal(lease * MS, sent + left * MS, sent);
            assert_eq!(next.since(sent).as_millis(), due, "{left} ms of {lease} ms are left");
        }
        assert_eq!([300, 60_000].map(|lease| retry_pause(lease * MS)), [10 * MS, 1000 * MS]);
    }
}
