//! The options of an acquire, and the lease that they need on the server.

use std::time::Duration;

use super::holder::HolderId;
use crate::backoff::Backoff;
use crate::config::Durability;
pub use crate::lease::LeaseMode;
pub(crate) use crate::lease::{deadline, margin, with_margin};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;

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
