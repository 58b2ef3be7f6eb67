//! The recent waits of a client's tasks, summed for each name.

use std::collections::HashMap;
use std::time::Duration;

use redgrid_client::report::ContentionReport;

use super::gathered::millis;
use crate::clock::Instant;
use crate::name::Name;

/// Time after which a wait counts only half as much: 10 minutes. If the longest wait ended longer
/// ago than this, the next wait replaces it.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// Minimum time between two reductions of the sums: 1 s. A reduction makes older waits count less.
const AGING_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of names that are remembered: 1,000. If there are more, the half of them with the
/// least waiting time is forgotten.
const MAX_NAMES: usize = 1000;

/// The number of names in a report: 20.
const REPORTED: usize = 20;

/// The waits for one name.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    /// The number of waits. The older a wait is, the less it counts.
    waits: f64,
    /// The sum of the waits in seconds. The older a wait is, the less it counts.
    total: f64,
    longest: Duration,
    longest_at: Instant,
    /// When the sums were last reduced.
    aged: Instant,
}

impl Tally {
    /// Adds a wait that has ended at `now`.
    pub(crate) fn add(&mut self, waited: Duration, now: Instant) {
        self.age(now);
        self.waits += 1.0;
        self.total += waited.as_secs_f64();
        self.set_longest(waited, now);
    }

    fn set_longest(&mut self, longest: Duration, at: Instant) {
        if longest >= self.longest || at.since(self.longest_at) > HALF_LIFE {
            (self.longest, self.longest_at) = (longest, at);
        }
    }

    fn age(&mut self, now: Instant) {
        let passed = now.since(self.aged);
        if passed > AGING_INTERVAL {
            let factor = (-passed.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
            self.waits *= factor;
            self.total *= factor;
            self.aged = now;
        }
    }

    fn merge(&mut self, mut other: Tally) {
        let now = self.aged.max(other.aged);
        self.age(now);
        other.age(now);
        self.waits += other.waits;
        self.total += other.total;
        self.set_longest(other.longest, other.longest_at);
    }

    fn report(&self, kind: &'static str, name: &Name) -> ContentionReport {
        let mut report = ContentionReport::default();
        report.name = name.to_string();
        report.kind = kind.into();
        // The casts are safe: no sum is negative, and a cast saturates at the bounds of the type.
        report.waits = self.waits.round() as u64;
        report.total_ms = (self.total * 1000.0).round() as u64;
        report.longest_ms = millis(self.longest);
        report
    }
}

/// The waits of a client, by kind and name.
#[derive(Default)]
pub(crate) struct Contention(HashMap<(&'static str, Name), Tally, foldhash::fast::RandomState>);

impl Contention {
    /// Adds the waits for one name.
    pub(crate) fn merge(&mut self, kind: &'static str, name: &Name, tally: Tally) {
        self.0.entry((kind, name.clone())).or_default().merge(tally);
        if self.0.len() > MAX_NAMES {
            self.forget_half();
        }
    }

    fn forget_half(&mut self) {
        let newest = self.0.values().map(|tally| tally.aged).max().unwrap_or_default();
        self.0.values_mut().for_each(|tally| tally.age(newest));
        let mut totals: Vec<f64> = self.0.values().map(|tally| tally.total).collect();
        let middle = totals.len() / 2;
        let (_, least, _) = totals.select_nth_unstable_by(middle, f64::total_cmp);
        let least = *least;
        self.0.retain(|_, tally| tally.total > least);
    }

    /// Adds the waits of `other`.
    pub(crate) fn merge_all(&mut self, other: &Contention) {
        other.0.iter().for_each(|((kind, name), tally)| self.merge(kind, name, tally.clone()));
    }

    /// Returns the names with the most waiting time, the longest time first.
    pub(crate) fn into_report(mut self, now: Instant) -> Vec<ContentionReport> {
        self.0.values_mut().for_each(|tally| tally.age(now));
        let mut all: Vec<_> = self.0.into_iter().filter(|(_, tally)| tally.waits >= 0.5).collect();
        all.sort_unstable_by(|(_, one), (_, other)| other.total.total_cmp(&one.total));
        all.iter().take(REPORTED).map(|((kind, name), tally)| tally.report(kind, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::MIN + Duration::from_secs(seconds)
    }

    fn tally(waits: &[(Duration, u64)]) -> Tally {
        let mut tally = Tally::default();
        waits.iter().for_each(|(waited, ended)| tally.add(*waited, at(*ended)));
        tally
    }

    fn name(name: impl std::fmt::Display) -> Name {
        Name::new(name.to_string()).unwrap()
    }

    #[test]
    fn waits_are_added_up_and_count_less_with_their_age() {
        let mut contention = Contention::default();
        contention.merge("lock", &name("a"), tally(&[(2 * S, 5000), (4 * S, 5000)]));
        contention.merge("lock", &name("b"), tally(&[(9 * S, 5000)]));
        contention.merge("lock", &name("a"), tally(&[(5 * S, 5000)]));
        let mut now = Contention::default();
        now.merge_all(&contention);
        let figures = |contention: Contention, seconds| {
            let of = |it: ContentionReport| (it.name, it.waits, it.total_ms, it.longest_ms);
            contention.into_report(at(seconds)).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(figures(now, 5000), [("a".into(), 3, 11_000, 5000), ("b".into(), 1, 9000, 9000)]);
        let later = [("a".to_owned(), 2, 5500, 5000), ("b".into(), 1, 4500, 9000)];
        assert_eq!(figures(contention, 5600), later, "one half-life later");
    }

    #[test]
    fn a_longest_wait_is_forgotten() {
        let tally = tally(&[(9 * S, 5000), (S, 5500), (2 * S, 5601)]);
        assert_eq!(tally.longest, 2 * S);
    }

    #[test]
    fn of_many_names_those_with_the_least_waiting_time_are_forgotten() {
        let mut contention = Contention::default();
        for number in 0..100_000 {
            contention.merge("lock", &name(number), tally(&[(number * S, 5000)]));
            assert!(contention.0.len() <= MAX_NAMES);
        }
        let report = contention.into_report(at(5000));
        assert!(report.len() == REPORTED && report[0].name == "99999" && report[19].name == "99980", "{report:?}");
    }

    #[test]
    fn many_equal_waits_stay_bounded() {
        let mut contention = Contention::default();
        (0..10_000).for_each(|number| contention.merge("lock", &name(number), tally(&[(S, 5000)])));
        assert!(contention.0.len() <= MAX_NAMES);
    }
}
