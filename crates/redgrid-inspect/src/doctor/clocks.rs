//! Compares the clocks of the servers with each other and with this host's clock.

use std::time::Duration;

use super::facts::{Clock, Facts};
use super::finding::Finding;
use super::limits::Limits;

const CHECK: &str = "clocks";

/// The safety margin of a lease, as a divisor: a twentieth.
const MARGIN: u32 = 20;

/// From which difference, in microseconds, this host's clock is reported: 1 s. Locks do not depend
/// on it.
const OFF: i64 = 1_000_000;

pub(super) fn check(facts: &Facts, limits: &Limits) -> Vec<Finding> {
    let clocks: Vec<(String, Clock)> =
        facts.nodes.iter().filter_map(|node| Some((node.address.to_string(), node.clock?))).collect();
    let mut findings: Vec<Finding> = clocks.iter().map(|(node, clock)| host(*clock).at(node)).collect();
    let apart = clocks.iter().flat_map(|(_, one)| clocks.iter().map(|(_, two)| apart(*one, *two))).max();
    if let (Some(apart), true) = (apart, clocks.len() > 1) {
        findings.push(nodes(apart, limits.lease));
    }
    findings
}

/// Returns the minimum difference of two clocks, in microseconds.
fn apart(one: Clock, two: Clock) -> i64 {
    (one.at_least - two.at_most).max(0)
}

fn host(clock: Clock) -> Finding {
    let off = if clock.at_least > 0 { clock.at_least } else { clock.at_most.min(0) };
    let difference = |off: i64| format!("{:?}", Duration::from_millis(off.unsigned_abs() / 1000));
    match off {
        off if off.abs() < OFF => Finding::ok(CHECK, "agrees with this host to the second"),
        off => Finding::warn(
            CHECK,
            format!(
                "is {} {} this host's; leases do not depend on it, but times in logs and tokens do: synchronize both by NTP",
                difference(off),
                if off > 0 { "ahead of" } else { "behind" }
            ),
        ),
    }
}

fn nodes(apart: i64, lease: Duration) -> Finding {
    let margin = lease / MARGIN;
    let apart = Duration::from_micros(apart.unsigned_abs());
    let shown = Duration::from_millis(u64::try_from(apart.as_millis()).unwrap_or(u64::MAX));
    if apart > margin {
        Finding::fail(
            CHECK,
            format!(
                "the servers' clocks are {shown:?} apart, more than the margin of {margin:?} in a lease of {lease:?}: a promoted \
                 replica may free locks that are still held; synchronize the clocks by NTP"
            ),
        )
    } else if apart > margin / 2 {
        Finding::warn(
            CHECK,
            format!(
                "the servers' clocks are {shown:?} apart, more than half of the margin of {margin:?} in a lease of {lease:?}; \
                 synchronize them by NTP"
            ),
        )
    } else {
        Finding::ok(CHECK, format!("the servers' clocks agree within the safety margin of {margin:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn clocks_that_differ_by_more_than_the_margin_fail() {
        let lease = Duration::from_secs(30);
        let levels = [0, 700_000, 800_000, 1_600_000].map(|apart| nodes(apart, lease).level);
        assert_eq!(levels, [Level::Ok, Level::Ok, Level::Warn, Level::Fail]);
    }

    #[test]
    fn a_difference_within_the_round_trip_is_ignored() {
        let one = Clock { at_least: -500, at_most: 500 };
        let two = Clock { at_least: 200, at_most: 900 };
        assert_eq!((apart(one, two), apart(two, one)), (0, 0));
        let late = Clock { at_least: 2_000_000, at_most: 2_000_100 };
        assert_eq!(apart(late, one), 1_999_500);
        assert_eq!((host(one).level, host(late).level), (Level::Ok, Level::Warn));
    }
}
