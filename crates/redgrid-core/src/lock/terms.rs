//! Leases, margins and deadlines, as functions of their inputs.

use std::time::Duration;

use super::holder::HolderId;
use crate::backoff::Backoff;
use crate::clock::Instant;
use crate::config::Durability;

/// How long a hold is granted for.
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

/// The options of an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub struct AcquireRequest {
    /// The lease.
    pub lease: LeaseMode,
    /// The holder that requests; a request without one never re-enters.
    pub holder: Option<HolderId>,
    /// The lock stays taken at least this long, even if it is released or abandoned earlier.
    pub at_least: Duration,
    /// Renewal ends after this time.
    pub max_hold: Option<Duration>,
    /// Try only, without waiting.
    pub once: bool,
    /// How long the caller waits; `None` for no limit.
    pub wait: Option<Duration>,
    /// How durable the grant and its renewals must be before they are valid.
    pub durability: Durability,
    /// Whether the holder may re-enter its own hold; otherwise the request fails as already held.
    pub reenters: bool,
    /// The pauses between tries if releases send no messages; `None` if they do. Each is shortened at
    /// random by up to half.
    pub backoff: Option<Backoff>,
}

impl AcquireRequest {
    /// Returns the lease to request from the server.
    ///
    /// A fixed lease includes what the last owner of the hand-over window needs. The lease also
    /// covers `at_least` if the process dies and no longer renews it.
    pub(crate) fn server_lease(&self, handover_window: Duration) -> Duration {
        let lease = match self.lease {
            LeaseMode::Renewed(lease) => lease,
            LeaseMode::Fixed(lease) => with_margin(lease + handover_window),
        };
        if self.at_least.is_zero() { lease } else { lease.max(with_margin(self.at_least)) }
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

/// Returns when a server lease is renewed or verified next.
///
/// A renewed lease is due after a third of its length, so that one failed renewal is no loss. A
/// fixed one is verified as often as if it were renewed.
pub(crate) fn next_look(lease: LeaseMode, watchdog: Duration, deadline: Instant, from: Instant) -> Instant {
    let third = match lease {
        LeaseMode::Renewed(lease) => lease / 3,
        LeaseMode::Fixed(_) => watchdog / 3,
    };
    // Earlier, if less than the whole lease is left.
    from + third.min(deadline.since(from) / 2).max(SHORTEST_LOOK)
}

/// The shortest time between two renewals or verifications, however near the end of the lease is.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn request(lease: Duration, at_least: Duration) -> AcquireRequest {
        AcquireRequest {
            lease: LeaseMode::Renewed(lease),
            holder: None,
            at_least,
            max_hold: None,
            once: false,
            wait: None,
            durability: Durability::Primary,
            reenters: true,
            backoff: None,
        }
    }

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
    fn a_job_that_must_run_once_outlives_its_process() {
        let handover_window = 10 * MS;
        assert_eq!(request(30_000 * MS, Duration::ZERO).server_lease(handover_window), 30_000 * MS);
        assert!(request(1000 * MS, 5000 * MS).server_lease(handover_window) >= 5250 * MS);
        assert_eq!(request(30_000 * MS, 5000 * MS).server_lease(handover_window), 30_000 * MS);
    }

    #[test]
    fn a_fixed_lease_that_is_handed_over_last_has_its_whole_length() {
        let fixed = AcquireRequest { lease: LeaseMode::Fixed(10_000 * MS), ..request(MS, Duration::ZERO) };
        let lease = fixed.server_lease(10 * MS);
        assert!(deadline(Instant::MIN, lease) >= Instant::MIN + 10_010 * MS);
    }
}
