//! Leases, margins and deadlines: decisions as functions of their inputs.

use std::time::Duration;

use super::holder::HolderId;
use crate::clock::Instant;

/// How long a hold is granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Renewed while the guard lives; the duration is that of one lease.
    Renewed(Duration),
    /// This long, and renewed by nobody.
    Fixed(Duration),
}

impl Lease {
    /// The duration of one lease.
    pub fn duration(self) -> Duration {
        match self {
            Lease::Renewed(lease) | Lease::Fixed(lease) => lease,
        }
    }
}

/// What an acquire asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The lease.
    pub lease: Lease,
    /// Who asks; without one, nobody who holds already.
    pub holder: Option<HolderId>,
    /// The name stays taken at least this long, also when released or abandoned earlier.
    pub at_least: Duration,
    /// Renewal ends after this long.
    pub max_hold: Option<Duration>,
    /// One look, no waiting.
    pub once: bool,
    /// How long the caller waits; `None` as long as it takes.
    pub wait: Option<Duration>,
}

impl Wish {
    /// The lease that is asked for in the acquire: long enough for `at_least` also if nobody lives to renew it.
    pub(crate) fn first_lease(&self) -> Duration {
        let lease = self.lease.duration();
        if self.at_least.is_zero() { lease } else { lease.max(self.at_least + margin(self.at_least)) }
    }

    /// Whether a hold that was granted for `self` serves `other` as well.
    pub(crate) fn serves(&self, other: &Wish) -> bool {
        self.lease == other.lease && self.at_least == other.at_least && self.max_hold == other.max_hold
    }
}

/// How much earlier than the server we stop to believe: a twentieth of the lease, at least 20 ms. It covers the drift of
/// clocks, the granularity of timers and the way of a `lost` notice to the task that works.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 20).max(Duration::from_millis(20))
}

/// Until when a hold may be believed whose (confirmed) request left at `sent`.
pub(crate) fn deadline(sent: Instant, lease: Duration) -> Instant {
    sent + lease.saturating_sub(margin(lease))
}

/// When a hold that was confirmed by a request sent at `sent` is renewed next: after a third of its lease, so that one
/// failed renewal is not yet a loss.
pub(crate) fn next_renewal(sent: Instant, lease: Duration) -> Instant {
    sent + lease / 3
}

/// How long a name must still stay taken for `at_least`, counted from when the grant was known.
pub(crate) fn still_to_keep(at_least: Duration, granted: Instant, now: Instant) -> Duration {
    at_least.saturating_sub(now.since(granted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn wish(lease: Duration, at_least: Duration) -> Wish {
        Wish { lease: Lease::Renewed(lease), holder: None, at_least, max_hold: None, once: false, wait: None }
    }

    #[test]
    fn the_deadline_is_before_the_servers_expiry_by_a_margin() {
        let sent = Instant::PAST + 1000 * MS;
        assert_eq!(deadline(sent, 30_000 * MS), sent + 28_500 * MS);
        assert_eq!(deadline(sent, 100 * MS), sent + 80 * MS);
    }

    #[test]
    fn a_job_that_must_run_once_outlives_its_process() {
        assert_eq!(wish(30_000 * MS, Duration::ZERO).first_lease(), 30_000 * MS);
        assert_eq!(wish(1000 * MS, 5000 * MS).first_lease(), 5250 * MS);
        assert_eq!(wish(30_000 * MS, 5000 * MS).first_lease(), 30_000 * MS);
        let granted = Instant::PAST + 100 * MS;
        assert_eq!(still_to_keep(5000 * MS, granted, granted + 1000 * MS), 4000 * MS);
        assert_eq!(still_to_keep(5000 * MS, granted, granted + 6000 * MS), Duration::ZERO);
    }
}
