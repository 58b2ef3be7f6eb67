//! The contents of a report while it is collected: bounded lists, and sums.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_client::report::{ClientReport, EventReport, HeldReport, WaitReport};

use super::contention::Contention;
use crate::clock::Instant;
use crate::config::Introspection;
use crate::name::Name;

/// Maximum number of holds in a report: 500. With more holds, a report would exceed its size limit,
/// even with short names.
const MAX_HELD: usize = 500;

/// Maximum number of names with waiting tasks in a report: 200.
const MAX_WAITS: usize = 200;

/// The contents of a client's report, about its locks and semaphores.
pub(crate) struct Gathered {
    /// The time of the report.
    pub(crate) now: Instant,
    /// Whether the report has lists, and not only sums.
    pub(crate) is_full: bool,
    pub(crate) holds: u64,
    waiting: u64,
    is_truncated: bool,
    /// Each hold with the number that distinguishes it from others of the same name and age.
    held: Oldest<(u64, HeldReport)>,
    waits: Oldest<WaitReport>,
    pub(crate) contention: Contention,
}

impl Gathered {
    pub(crate) fn new(introspection: Introspection, now: Instant) -> Gathered {
        Gathered {
            now,
            is_full: introspection == Introspection::Full,
            holds: 0,
            waiting: 0,
            is_truncated: false,
            held: Oldest::new(MAX_HELD),
            waits: Oldest::new(MAX_WAITS),
            contention: Contention::default(),
        }
    }

    /// Marks the report as truncated: some holds and waiting tasks were not read.
    pub(crate) fn set_truncated(&mut self) {
        self.is_truncated = true;
    }

    /// Adds a hold that began at `since`. `id` distinguishes it from other holds of the same name.
    /// `fill` sets all fields except name, kind and age.
    pub(crate) fn add_held(
        &mut self,
        (kind, name): (&'static str, &Name),
        (since, id): (Instant, u64),
        fill: impl FnOnce(&mut HeldReport),
    ) {
        let now = self.now;
        self.held.offer(since, || {
            let mut report = HeldReport::default();
            (report.name, report.kind) = (name.to_string(), kind.into());
            report.held_for_ms = millis(now.since(since));
            fill(&mut report);
            (id, report)
        });
    }

    /// Adds the tasks that wait for a name. The first of them has waited since `since`.
    pub(crate) fn add_waits(&mut self, (kind, name): (&'static str, &Name), tasks: usize, since: Instant) {
        let (now, tasks) = (self.now, tasks as u64);
        if tasks == 0 {
            return;
        }
        self.waiting += tasks;
        if self.is_full {
            self.waits.offer(since, || {
                let mut report = WaitReport::default();
                (report.name, report.kind) = (name.to_string(), kind.into());
                (report.tasks, report.longest_ms) = (tasks, millis(now.since(since)));
                report
            });
        }
    }

    pub(crate) fn into_report(self, events: impl FnOnce() -> Vec<EventReport>) -> ClientReport {
        let mut report = ClientReport::default();
        report.is_truncated = self.is_truncated || self.held.is_cut || self.waits.is_cut;
        (report.holds, report.waiting) = (self.holds, self.waiting);
        let mut held = self.held.into_list();
        // The holds are read in parts. If their table grew meanwhile, a hold may have been read
        // twice.
        let is_same = |one: &HeldReport, other: &HeldReport| {
            (one.number, one.held_for_ms) == (other.number, other.held_for_ms)
                && (&one.name, &one.kind) == (&other.name, &other.kind)
        };
        held.dedup_by(|one, other| one.0 == other.0 && is_same(&one.1, &other.1));
        report.held = held.into_iter().map(|(_, held)| held).collect();
        for waits in self.waits.into_list() {
            // A read-write lock has several queues, one for each grant that its readers may share.
            // The report has one entry for all of them.
            let is_same = |other: &&mut WaitReport| other.name == waits.name && other.kind == waits.kind;
            match report.waits.iter_mut().find(is_same) {
                Some(other) => other.tasks += waits.tasks,
                None => report.waits.push(waits),
            }
        }
        if self.is_full {
            report.contention = self.contention.into_report(self.now);
            report.events = events();
        }
        report
    }
}

/// Keeps the oldest of the values that are offered.
struct Oldest<T> {
    /// The values by age. The number defines the order of values with the same age.
    values: BTreeMap<(Instant, u64), T>,
    most: usize,
    /// The number of values that were accepted so far.
    accepted: u64,
    /// Whether the number of offered values has exceeded the limit `most`.
    is_cut: bool,
}

impl<T> Oldest<T> {
    fn new(most: usize) -> Oldest<T> {
        Oldest { values: BTreeMap::new(), most, accepted: 0, is_cut: false }
    }

    /// Adds the value that `make` returns. If the list is full, the newest value is dropped. If
    /// that would be the new value, `make` is not called.
    fn offer(&mut self, since: Instant, make: impl FnOnce() -> T) {
        if self.values.len() == self.most {
            self.is_cut = true;
            if self.values.last_key_value().is_some_and(|((newest, _), _)| *newest <= since) {
                return;
            }
            self.values.pop_last();
        }
        self.accepted += 1;
        self.values.insert((since, self.accepted), make());
    }

    /// Returns the values, the oldest first.
    fn into_list(self) -> Vec<T> {
        self.values.into_values().collect()
    }
}

/// Returns whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_values_stay_and_few_others_are_made() {
        let (mut oldest, mut made) = (Oldest::new(3), 0);
        for number in [7_u64, 3, 9, 1, 8, 3, 2, 9] {
            oldest.offer(Instant::from_nanos(number), || {
                made += 1;
                number
            });
        }
        assert!(oldest.is_cut && made == 6, "{made}");
        assert_eq!(oldest.into_list(), [1, 2, 3]);
    }

    #[test]
    fn a_hold_that_is_read_twice_is_one_entry_and_shared_holds_are_several() {
        let mut gathered = Gathered::new(Introspection::Full, Instant::MIN);
        let name = Name::new("a").unwrap();
        for id in [1, 2, 2, 3] {
            gathered.add_held(("read lock", &name), (Instant::MIN, id), |report| report.number = 7);
        }
        let report = gathered.into_report(Vec::new);
        assert_eq!(report.held.iter().map(|held| held.number).collect::<Vec<_>>(), [7, 7, 7]);
    }

    #[test]
    fn waits_for_one_name_are_one_entry() {
        let at = |ms| Instant::MIN + Duration::from_millis(ms);
        for introspection in [Introspection::Full, Introspection::Counts] {
            let mut gathered = Gathered::new(introspection, at(100));
            let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
            for (name, tasks, since) in [(&a, 2, 40), (&b, 1, 30), (&a, 3, 10), (&b, 0, 0)] {
                gathered.add_waits(("read lock", name), tasks, at(since));
            }
            let report = gathered.into_report(Vec::new);
            let waits: Vec<_> = report.waits.into_iter().map(|it| (it.name, it.tasks, it.longest_ms)).collect();
            let expected = [("a".to_owned(), 5, 90), ("b".into(), 1, 70)];
            assert_eq!(waits, if introspection == Introspection::Full { &expected[..] } else { &[] });
            assert_eq!((report.waiting, report.is_truncated), (6, false));
        }
    }
}
