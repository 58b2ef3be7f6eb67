//! Pure functions for the hand-over of a server lease to the next local task. They decide whether
//! the current lease suits the next request, and when the next owner's token is due.

use std::time::Duration;

use super::hold::ServerLease;
use super::protocol::AcquireRequest;
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::LeaseMode;

/// Whether the current lease suits the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseFit {
    /// The current lease can be used unchanged.
    Yes,
    /// Before the hand-over, the server must confirm that the lease was extended to this length.
    Lengthen(Duration),
    /// Before the hand-over, the lease must be shortened to this length. Otherwise, after a crash,
    /// the lock would stay taken for longer than requested.
    Shorten(Duration),
}

impl ServerLease {
    /// Returns whether this server lease, as it is at `now`, suits the request `next`.
    pub(super) fn fit(&self, next: &AcquireRequest, handover_window: Duration, now: Instant) -> LeaseFit {
        let renewed = self.has_renewed_lease().then(|| self.lease());
        fit((renewed, self.deadline(), self.durability()), next, handover_window, now)
    }
}

/// Returns whether the current lease, as it is at `now`, suits the request `next`.
///
/// The current lease has three properties: the length to which renewals set it, or `None` if it is
/// not renewed; until when it is valid locally; and its confirmed durability.
fn fit(
    (renewed, deadline, durability): (Option<Duration>, Instant, Durability),
    next: &AcquireRequest,
    handover_window: Duration,
    now: Instant,
) -> LeaseFit {
    let lease = next.server_lease(handover_window);
    let long_enough = now + next.at_least <= deadline;
    let covered = long_enough
        && durability.covers(next.durability)
        && match next.lease {
            // If less than half of the lease is left, the lease is lengthened first: either
            // renewals have failed, or a shorter lease was in force.
            LeaseMode::Renewed(wanted) => renewed == Some(wanted) && now + wanted / 2 <= deadline,
            LeaseMode::Fixed(wanted) => renewed.is_none() && now + wanted <= deadline,
        };
    // After a crash, the lock would stay taken until the lease ends. If more than twice the
    // requested lease plus a second is left, that is too long.
    let too_long = deadline.since(now) > lease * 2 + Duration::from_secs(1);
    match (covered, too_long) {
        (true, false) => LeaseFit::Yes,
        (_, true) => LeaseFit::Shorten(lease),
        (false, false) if renewed.is_some() && now + lease < deadline => LeaseFit::Shorten(lease),
        (false, false) => LeaseFit::Lengthen(lease),
    }
}

/// Returns the local time by which the server's clock has certainly advanced by `k` µs since a
/// grant. A grant's token is the server's time of the grant, in µs. So at the returned time, the
/// server's clock has reached the token plus `k`.
///
/// The reply with the grant arrived at `granted`. The clocks of this process and of the server can
/// each drift by 500 ppm, and the server counts whole microseconds.
pub(super) fn token_due(granted: Instant, k: u64) -> Instant {
    granted + Duration::from_micros(k + k / 500 + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn tokens_wait_for_the_servers_clock() {
        let granted = Instant::MIN + SECOND;
        for k in [1, 2, 10, 499, 500, 10_000, u64::from(u32::MAX)] {
            let due = token_due(granted, k);
            let slowest = due.since(granted).as_micros() as f64 * 0.999;
            assert!(slowest.floor() >= k as f64, "{k}");
            assert!(token_due(granted, k + 1) > due, "{k}");
        }
    }

    /// Cases: (current lease, its age, requested lease, `at_least` in seconds, expected result).
    #[test]
    fn each_request_after_a_hand_over_changes_the_lease_as_needed() {
        let now = Instant::MIN + 100 * SECOND;
        let handover_window = 10 * MS;
        let renewed = |seconds: u32| LeaseMode::Renewed(seconds * SECOND);
        let fixed = |seconds: u32| LeaseMode::Fixed(seconds * SECOND);
        let server = |lease| request(lease, Duration::ZERO).server_lease(handover_window);
        let cases = [
            // A request for the same lease as the current one needs no change until the window
            // ends.
            (renewed(30), 5 * MS, renewed(30), 0, LeaseFit::Yes),
            (fixed(10), Duration::ZERO, fixed(10), 0, LeaseFit::Yes),
            (fixed(10), 9 * MS, fixed(10), 0, LeaseFit::Yes),
            // A longer lease of the same kind covers the request.
            (fixed(10), 5 * MS, fixed(6), 0, LeaseFit::Yes),
            // From a shorter lease to a longer one.
            (fixed(10), 5 * MS, fixed(11), 0, LeaseFit::Lengthen(server(fixed(11)))),
            (renewed(10), 5 * MS, renewed(30), 0, LeaseFit::Lengthen(server(renewed(30)))),
            // From a renewed lease to a fixed one, and back.
            (renewed(30), 5 * MS, fixed(10), 0, LeaseFit::Shorten(server(fixed(10)))),
            (renewed(30), 5 * MS, fixed(40), 0, LeaseFit::Lengthen(server(fixed(40)))),
            (fixed(10), 5 * MS, renewed(30), 0, LeaseFit::Lengthen(server(renewed(30)))),
            // After a crash, the lock must not stay taken for ten minutes if one second was
            // requested.
            (fixed(600), 5 * MS, fixed(1), 0, LeaseFit::Shorten(server(fixed(1)))),
            (fixed(600), 5 * MS, renewed(30), 0, LeaseFit::Shorten(server(renewed(30)))),
            // A request with `at_least` needs a lease of at least that length.
            (renewed(30), 5 * MS, renewed(30), 60, LeaseFit::Lengthen(crate::lease::with_margin(60 * SECOND))),
            (renewed(30), 5 * MS, renewed(30), 5, LeaseFit::Yes),
        ];
        for (held, ago, next, at_least, expected) in cases {
            let lease = request(held, Duration::ZERO).server_lease(handover_window);
            let renewed = matches!(held, LeaseMode::Renewed(_)).then(|| held.duration());
            let held_for = (renewed, crate::lease::deadline(now - ago, lease), Durability::Primary);
            let next_wish = request(next, at_least * SECOND);
            assert_eq!(
                fit(held_for, &next_wish, handover_window, now),
                expected,
                "{held:?} {ago:?} {next:?} {at_least}"
            );
        }
    }

    /// A grant with the durability `held` is handed to a request for the durability `requested`.
    #[test]
    fn a_weaker_grant_is_made_as_durable_as_requested_before_it_is_handed_over() {
        let now = Instant::MIN + 100 * SECOND;
        let replicas = |at_least| Durability::Replicas { at_least, timeout: SECOND };
        let disk = Durability::Disk { timeout: SECOND };
        let lease = LeaseMode::Renewed(30 * SECOND);
        let again = LeaseFit::Lengthen(30 * SECOND);
        for (held, requested, expected) in [
            (Durability::Primary, Durability::Primary, LeaseFit::Yes),
            (replicas(1), Durability::Primary, LeaseFit::Yes),
            (replicas(2), replicas(1), LeaseFit::Yes),
            (Durability::Primary, replicas(1), again),
            (replicas(1), replicas(2), again),
            (replicas(2), disk, again),
            (disk, replicas(1), again),
        ] {
            let deadline = crate::lease::deadline(now, 30 * SECOND);
            let held = (Some(30 * SECOND), deadline, held);
            let next = AcquireRequest { durability: requested, ..request(lease, Duration::ZERO) };
            assert_eq!(fit(held, &next, 10 * MS, now), expected, "{requested:?}");
        }
    }

    fn request(lease: LeaseMode, at_least: Duration) -> AcquireRequest {
        AcquireRequest { at_least, ..AcquireRequest::new(lease, Durability::Primary) }
    }
}
