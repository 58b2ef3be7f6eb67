//! Leases, margins and deadlines: decisions as functions of their inputs.

use std::time::Duration;

use super::holder::HolderId;
use crate::clock::Instant;
use crate::config::Durability;

/// How long a hold is granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseMode {
    /// Renewed while the guard lives; the duration is that of one lease.
    Renewed(Duration),
    /// This long, and renewed by nobody.
    Fixed(Duration),
}

impl LeaseMode {
    /// The duration of one lease.
    pub fn duration(self) -> Duration {
        match self {
            LeaseMode::Renewed(lease) | LeaseMode::Fixed(lease) => lease,
        }
    }
}

/// What an acquire asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcquireRequest {
    /// The lease.
    pub lease: LeaseMode,
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
    /// How durable the grant and its renewals must be before they are believed.
    pub durability: Durability,
    /// Whether the holder gets in again where it already is; otherwise it is told that it is in.
    pub reenters: bool,
    /// How others are waited for who send no messages; `None` where they do.
    pub backoff: Option<Backoff>,
}

/// The pauses between two tries of who waits without messages: each twice as long as the one before, jittered by half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Backoff {
    /// The mean of the pause after so many tries.
    pub(crate) fn after(self, tries: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX)).min(self.longest)
    }
}

impl AcquireRequest {
    /// The lease that is asked for on the server: with a fixed one, what the last owner of the stretch needs, too; and long
    /// enough for `at_least` also if nobody lives to renew it.
    pub(crate) fn server_lease(&self, stretch: Duration) -> Duration {
        let lease = match self.lease {
            LeaseMode::Renewed(lease) => lease,
            LeaseMode::Fixed(lease) => with_margin(lease + stretch),
        };
        if self.at_least.is_zero() { lease } else { lease.max(with_margin(self.at_least)) }
    }
}

/// How much earlier than the server we stop to believe: a twentieth of the lease, at least 20 ms. It covers the drift of
/// clocks, the granularity of timers and the way of a `lost` notice to the task that works.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 20).max(Duration::from_millis(20))
}

/// The lease on the server that may be believed for `believed`.
pub(crate) fn with_margin(believed: Duration) -> Duration {
    // The margin is a share of the whole lease: 20/19 of what is left of it, rounded up.
    (believed + believed / 19 + Duration::from_nanos(1)).max(believed + Duration::from_millis(20))
}

/// Until when a hold may be believed whose (confirmed) request left at `sent`.
pub(crate) fn deadline(sent: Instant, lease: Duration) -> Instant {
    sent + lease.saturating_sub(margin(lease))
}

/// When a server lease is looked after next: a renewed one after a third of its lease, so that one failed renewal is not yet a
/// loss; another one as often as if it were renewed, to see whether it is still ours.
pub(crate) fn next_look(lease: LeaseMode, watchdog: Duration, deadline: Instant, from: Instant) -> Instant {
    let third = match lease {
        LeaseMode::Renewed(lease) => lease / 3,
        LeaseMode::Fixed(_) => watchdog / 3,
    };
    // Where less than the whole lease is left, earlier.
    from + third.min(deadline.since(from) / 2).max(SHORTEST_LOOK)
}

/// The shortest time between two looks after a server lease, however near its end is.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn wish(lease: Duration, at_least: Duration) -> AcquireRequest {
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
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: MS, longest: 128 * MS };
        assert_eq!([0, 1, 2, 7, 8, 40].map(|tries| backoff.after(tries)), [1, 2, 4, 128, 128, 128].map(|ms| ms * MS));
    }

    #[test]
    fn the_deadline_is_before_the_servers_expiry_by_a_margin() {
        let sent = Instant::PAST + 1000 * MS;
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
        let stretch = 10 * MS;
        assert_eq!(wish(30_000 * MS, Duration::ZERO).server_lease(stretch), 30_000 * MS);
        assert!(wish(1000 * MS, 5000 * MS).server_lease(stretch) >= 5250 * MS);
        assert_eq!(wish(30_000 * MS, 5000 * MS).server_lease(stretch), 30_000 * MS);
    }

    #[test]
    fn a_fixed_lease_lasts_for_whoever_gets_it_at_the_end_of_the_stretch() {
        let fixed = AcquireRequest { lease: LeaseMode::Fixed(10_000 * MS), ..wish(MS, Duration::ZERO) };
        let lease = fixed.server_lease(10 * MS);
        assert!(deadline(Instant::PAST, lease) >= Instant::PAST + 10_010 * MS);
    }
}
