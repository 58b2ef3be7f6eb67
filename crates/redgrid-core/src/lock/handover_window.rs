//! The second level's decisions as functions of their inputs: how long a name may pass from task to task without asking
//! the server, who fits what is held, and when a token is due.

use std::time::Duration;

use super::terms::{AcquireRequest, LeaseMode};
use crate::clock::Instant;
use crate::config::Durability;

/// The shortest stretch unless set: 10 ms. Throughput is flat from there on, and what others wait grows with it (measured:
/// 5 ms 17.9 thousand sections a second, 10 ms 18.8, 20 ms 18.3, at three processes of 16 tasks).
const SHORTEST: Duration = Duration::from_millis(10);

/// The longest stretch: half a second. A lock that is taken by force is free that much later, because until then its former
/// holder may hand on tokens.
pub(crate) const LONGEST: Duration = Duration::from_millis(500);

/// What is held, as far as the next one's wishes are concerned.
pub(crate) struct CurrentLease {
    /// Whether its lease is renewed, and the lease that renewals write.
    pub(crate) renewed: bool,
    pub(crate) lease: Duration,
    /// Until when it is believed.
    pub(crate) deadline: Instant,
    /// How durable it is, its present lease included.
    pub(crate) durability: Durability,
}

/// Whether what is held serves the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseFit {
    /// As it is.
    Yes,
    /// With a longer lease, which must be confirmed first.
    Lengthen(Duration),
    /// With a shorter one: otherwise a crash would keep the name for longer than was asked for.
    Shorten(Duration),
}

/// How long a stretch is: as set, otherwise ten round trips, so that two of them (the release and the next acquire) cost a
/// sixth of it at most.
pub(crate) fn length(set: Option<Duration>, round_trip: Duration) -> Duration {
    set.unwrap_or((round_trip * 10).max(SHORTEST)).min(LONGEST)
}

/// Whether what is held serves `next` at `now`.
pub(crate) fn fit(held: &CurrentLease, next: &AcquireRequest, stretch: Duration, now: Instant) -> LeaseFit {
    let lease = next.server_lease(stretch);
    let believed_long_enough = now + next.at_least <= held.deadline;
    let covered = believed_long_enough
        && held.durability.covers(next.durability)
        && match next.lease {
            // With less than half of it left, renewals have failed, or a shorter lease was in force.
            LeaseMode::Renewed(wanted) => held.renewed && held.lease == wanted && now + wanted / 2 <= held.deadline,
            LeaseMode::Fixed(wanted) => !held.renewed && now + wanted <= held.deadline,
        };
    // Twice what was asked for and a second more is too long to be left behind by a crash.
    let too_long = held.deadline.since(now) > lease * 2 + Duration::from_secs(1);
    match (covered, too_long) {
        (true, false) => LeaseFit::Yes,
        (_, true) => LeaseFit::Shorten(lease),
        (false, false) if held.renewed && now + lease < held.deadline => LeaseFit::Shorten(lease),
        (false, false) => LeaseFit::Lengthen(lease),
    }
}

/// From when on the token that is `k` above that of a grant is certainly not above the server's clock: the grant's answer
/// arrived at `granted`, the server's clock may run slower than ours by 500 ppm each, and it counts whole microseconds.
pub(crate) fn token_due(granted: Instant, k: u64) -> Instant {
    granted + Duration::from_micros(k + k / 500 + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_stretch_is_ten_round_trips_within_its_bounds() {
        assert_eq!(length(None, Duration::from_micros(80)), 10 * MS);
        assert_eq!(length(None, 3 * MS), 30 * MS);
        assert_eq!(length(None, SECOND), LONGEST);
        assert_eq!(length(Some(Duration::ZERO), SECOND), Duration::ZERO);
        assert_eq!(length(Some(SECOND), MS), LONGEST);
    }

    #[test]
    fn tokens_wait_for_the_servers_clock() {
        let granted = Instant::PAST + SECOND;
        for k in [1, 2, 10, 499, 500, 10_000] {
            let due = token_due(granted, k);
            let slowest = due.since(granted).as_micros() as f64 * 0.999;
            assert!(slowest.floor() >= k as f64, "{k}");
        }
    }

    /// (held for, what is held for another, what is asked for, at least) → what is to be done.
    #[test]
    fn wishes_across_a_hand_over() {
        let now = Instant::PAST + 100 * SECOND;
        let stretch = 10 * MS;
        let renewed = |seconds: u32| LeaseMode::Renewed(seconds * SECOND);
        let fixed = |seconds: u32| LeaseMode::Fixed(seconds * SECOND);
        let server = |lease| wish(lease, Duration::ZERO).server_lease(stretch);
        let cases = [
            // The same again is free, to the end of the stretch.
            (renewed(30), 5 * MS, renewed(30), 0, LeaseFit::Yes),
            (fixed(10), Duration::ZERO, fixed(10), 0, LeaseFit::Yes),
            (fixed(10), 9 * MS, fixed(10), 0, LeaseFit::Yes),
            // Covered by a longer one of the same kind.
            (fixed(10), 5 * MS, fixed(6), 0, LeaseFit::Yes),
            // Short to long.
            (fixed(10), 5 * MS, fixed(11), 0, LeaseFit::Lengthen(server(fixed(11)))),
            (renewed(10), 5 * MS, renewed(30), 0, LeaseFit::Lengthen(server(renewed(30)))),
            // Watchdog to explicit, and back.
            (renewed(30), 5 * MS, fixed(10), 0, LeaseFit::Shorten(server(fixed(10)))),
            (renewed(30), 5 * MS, fixed(40), 0, LeaseFit::Lengthen(server(fixed(40)))),
            (fixed(10), 5 * MS, renewed(30), 0, LeaseFit::Lengthen(server(renewed(30)))),
            // A crash is not to keep the name for ten minutes where one second was asked for.
            (fixed(600), 5 * MS, fixed(1), 0, LeaseFit::Shorten(server(fixed(1)))),
            (fixed(600), 5 * MS, renewed(30), 0, LeaseFit::Shorten(server(renewed(30)))),
            // A job that must run once needs a key that lives so long.
            (renewed(30), 5 * MS, renewed(30), 60, LeaseFit::Lengthen(super::super::terms::with_margin(60 * SECOND))),
            (renewed(30), 5 * MS, renewed(30), 5, LeaseFit::Yes),
        ];
        for (held, ago, next, at_least, expected) in cases {
            let lease = wish(held, Duration::ZERO).server_lease(stretch);
            let held_for = CurrentLease {
                renewed: matches!(held, LeaseMode::Renewed(_)),
                lease: held.duration(),
                deadline: super::super::terms::deadline(now - ago, lease),
                durability: Durability::Primary,
            };
            let next_wish = wish(next, at_least * SECOND);
            assert_eq!(fit(&held_for, &next_wish, stretch, now), expected, "{held:?} {ago:?} {next:?} {at_least}");
        }
    }

    /// What was granted with `held` is handed to who asks for `asked`.
    #[test]
    fn a_weaker_grant_is_made_as_durable_as_asked_before_it_is_handed_over() {
        let now = Instant::PAST + 100 * SECOND;
        let replicas = |at_least| Durability::Replicas { at_least, timeout: SECOND };
        let disk = Durability::Disk { timeout: SECOND };
        let lease = LeaseMode::Renewed(30 * SECOND);
        let again = LeaseFit::Lengthen(30 * SECOND);
        for (held, asked, expected) in [
            (Durability::Primary, Durability::Primary, LeaseFit::Yes),
            (replicas(1), Durability::Primary, LeaseFit::Yes),
            (replicas(2), replicas(1), LeaseFit::Yes),
            (Durability::Primary, replicas(1), again),
            (replicas(1), replicas(2), again),
            (replicas(2), disk, again),
            (disk, replicas(1), again),
        ] {
            let deadline = super::super::terms::deadline(now, 30 * SECOND);
            let held = CurrentLease { renewed: true, lease: 30 * SECOND, deadline, durability: held };
            let next = AcquireRequest { durability: asked, ..wish(lease, Duration::ZERO) };
            assert_eq!(fit(&held, &next, 10 * MS, now), expected, "{asked:?}");
        }
    }

    fn wish(lease: LeaseMode, at_least: Duration) -> AcquireRequest {
        let durability = Durability::Primary;
        AcquireRequest {
            lease,
            holder: None,
            at_least,
            max_hold: None,
            once: false,
            wait: None,
            durability,
            reenters: true,
            backoff: None,
        }
    }
}
