//! The names that tasks wait for the longest, and the longest holds, from the reports of all
//! connected processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use redgrid_core::report::{ClientReport, HeldReport};

use crate::board::process_text;
use crate::snapshot::Process;
use crate::text::whole_seconds;

/// The most names that are kept: those with the most waiting time.
const MOST_NAMES: usize = 1_000;

/// The most entries of all reports that are read, so that the sums take bounded memory and time.
const MOST_ENTRIES: usize = 50_000;

/// The most processes of a name that are kept: those with the most waiting time.
pub(crate) const MOST_PROCESSES: usize = 10;

/// The most holds that are kept.
pub(crate) const MOST_HOLDS: usize = 20;

/// The contention of a deployment. Times are in milliseconds, moments since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contention {
    /// The names, the one with the most waiting time first.
    pub(crate) names: Vec<NameRow>,
    /// The longest holds, the oldest first.
    pub(crate) holds: Vec<LongHold>,
    /// Whether there are more names, or the reports have more entries than are read.
    pub(crate) is_cut: bool,
}

/// The waits for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameRow {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The waits of all processes.
    pub(crate) sum: Waits,
    /// The processes with the most waiting time.
    pub(crate) processes: Vec<(String, Waits)>,
    /// How many processes have waited, or wait.
    pub(crate) process_count: usize,
}

/// Waits that have ended, and waits of tasks now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Waits that have ended. Older ones count less.
    pub(crate) ended: u64,
    /// The sum of their times.
    pub(crate) total_ms: u64,
    /// The longest of them.
    pub(crate) longest_ms: u64,
    /// Tasks that wait now.
    pub(crate) tasks: u64,
    /// Since when the first of them waits.
    pub(crate) since: Option<u64>,
}

impl Waits {
    fn add(&mut self, other: &Waits) {
        self.ended = self.ended.saturating_add(other.ended);
        self.total_ms = self.total_ms.saturating_add(other.total_ms);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.tasks = self.tasks.saturating_add(other.tasks);
        self.since = self.since.into_iter().chain(other.since).min();
    }

    /// Returns the time by which names are sorted: a wait that has not ended counts, too, so that a
    /// lock that is never released comes first.
    fn weight(&self, now: u64) -> u64 {
        self.total_ms.saturating_add(self.since.map_or(0, |since| now.saturating_sub(since)))
    }
}

/// A hold that lasts long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LongHold {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) client: String,
    /// The number of the hold.
    pub(crate) number: u64,
    pub(crate) process: String,
    pub(crate) label: Option<String>,
    pub(crate) since: u64,
}

/// The last report of a connected process.
#[derive(Clone, Copy)]
struct Reported<'a> {
    client: &'a str,
    process: &'a Process,
    report: &'a ClientReport,
    /// When it came.
    at: u64,
}

impl Reported<'_> {
    /// Returns the name of an object for the console's namespace.
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.process.namespace)
    }

    /// Returns the start of a wait or hold that had lasted for this long at the time of the report.
    fn start(&self, lasted_ms: u64) -> u64 {
        whole_seconds(self.at.saturating_sub(lasted_ms))
    }
}

/// Returns the last reports of the connected processes.
fn reported(processes: &BTreeMap<String, Process>) -> impl Iterator<Item = Reported<'_>> {
    let connected = processes.iter().filter(|(_, process)| process.left_at.is_none());
    connected.filter_map(|(client, process)| {
        let (report, at) = process.report.as_ref()?;
        Some(Reported { client, process, report, at: *at })
    })
}

/// Sums the last reports of the connected processes.
pub(crate) fn contention(processes: &BTreeMap<String, Process>, now: u64) -> Contention {
    let (mut names, are_all) = names(processes, now);
    let (holds, are_all_holds) = longest_holds(processes);
    let is_cut = !are_all || !are_all_holds || names.len() > MOST_NAMES;
    names.truncate(MOST_NAMES);
    Contention { names, holds, is_cut }
}

/// Returns all names, the one with the most waiting time first, and whether all entries were read.
fn names(processes: &BTreeMap<String, Process>, now: u64) -> (Vec<NameRow>, bool) {
    // Maps a name and kind to the waits of each client.
    let mut names: BTreeMap<(String, &str), BTreeMap<&str, Waits>> = BTreeMap::new();
    let mut left = MOST_ENTRIES;
    for one in reported(processes) {
        let ended = one.report.contention.iter().map(|entry| {
            let (ended, total_ms, longest_ms) = (entry.waits, entry.total_ms, entry.longest_ms);
            (entry.name.as_str(), entry.kind.as_str(), Waits { ended, total_ms, longest_ms, ..Waits::default() })
        });
        let current = one.report.waits.iter().map(|entry| {
            let since = Some(one.start(entry.longest_ms));
            (entry.name.as_str(), entry.kind.as_str(), Waits { tasks: entry.tasks, since, ..Waits::default() })
        });
        for (name, kind, waits) in ended.chain(current).take(left) {
            left -= 1;
            names.entry((one.name(name), kind)).or_default().entry(one.client).or_default().add(&waits);
        }
    }
    let mut rows: Vec<NameRow> = names.into_iter().map(|(name, waits)| row(name, waits, processes, now)).collect();
    rows.sort_by_key(|row| Reverse(row.sum.weight(now)));
    (rows, left > 0)
}

fn row(
    (name, kind): (String, &str),
    by_client: BTreeMap<&str, Waits>,
    processes: &BTreeMap<String, Process>,
    now: u64,
) -> NameRow {
    let mut sum = Waits::default();
    by_client.values().for_each(|waits| sum.add(waits));
    let process_count = by_client.len();
    let mut shares: Vec<(&str, Waits)> = by_client.into_iter().collect();
    shares.sort_by_key(|(_, waits)| Reverse(waits.weight(now)));
    shares.truncate(MOST_PROCESSES);
    let process = |client: &str| {
        let report = processes.get(client).and_then(Process::report);
        report.map_or_else(|| client.to_owned(), process_text)
    };
    let shares = shares.into_iter().map(|(client, waits)| (process(client), waits)).collect();
    NameRow { name, kind: kind.to_owned(), sum, processes: shares, process_count }
}

/// Returns the longest holds, and whether all entries were read.
fn longest_holds(processes: &BTreeMap<String, Process>) -> (Vec<LongHold>, bool) {
    let mut left = MOST_ENTRIES;
    let mut all: Vec<(u64, Reported<'_>, &HeldReport)> = Vec::new();
    for one in reported(processes) {
        for held in one.report.held.iter().take(left) {
            left -= 1;
            all.push((one.start(held.held_for_ms), one, held));
        }
    }
    all.sort_by_key(|(since, ..)| *since);
    let holds = all.into_iter().take(MOST_HOLDS).map(|(since, one, held)| LongHold {
        name: one.name(&held.name),
        kind: held.kind.clone(),
        client: one.client.to_owned(),
        number: held.number,
        process: process_text(one.report),
        label: held.label.clone(),
        since,
    });
    (holds.collect(), left > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redgrid_core::report::{ContentionReport, WaitReport};

    use super::*;

    fn ended(name: &str, waits: u64, total_ms: u64, longest_ms: u64) -> ContentionReport {
        let mut entry = ContentionReport::default();
        (entry.name, entry.kind) = (name.to_owned(), "lock".to_owned());
        (entry.waits, entry.total_ms, entry.longest_ms) = (waits, total_ms, longest_ms);
        entry
    }

    fn waiting(name: &str, tasks: u64, longest_ms: u64) -> WaitReport {
        let mut entry = WaitReport::default();
        (entry.name, entry.kind, entry.tasks, entry.longest_ms) = (name.to_owned(), "lock".into(), tasks, longest_ms);
        entry
    }

    fn held(name: &str, held_for_ms: u64) -> HeldReport {
        let mut entry = HeldReport::default();
        (entry.name, entry.kind, entry.held_for_ms) = (name.to_owned(), "lock".into(), held_for_ms);
        entry
    }

    /// A process with a report that came after 100 s.
    fn process(pid: u32, fill: impl FnOnce(&mut ClientReport)) -> Process {
        let mut report = ClientReport::default();
        (report.program, report.host, report.pid) = ("worker".into(), "web".into(), pid);
        fill(&mut report);
        Process { report: Some((Arc::new(report), 100_000)), ..Process::default() }
    }

    fn of(processes: impl IntoIterator<Item = Process>) -> Contention {
        let named = processes.into_iter().enumerate().map(|(n, process)| (format!("client-{n:05}"), process));
        contention(&named.collect(), 110_000)
    }

    fn names(contention: &Contention) -> Vec<&str> {
        contention.names.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn the_waits_of_all_processes_are_added_up() {
        let one = process(1, |report| {
            report.contention = vec![ended("stock", 10, 4_000, 900), ended("mail", 1, 50, 50)];
            report.waits = vec![waiting("stock", 2, 3_000)];
        });
        let other = process(2, |report| {
            report.contention = vec![ended("stock", 5, 9_000, 2_000)];
            report.waits = vec![waiting("stock", 1, 7_500)];
        });
        let found = of([one, other]);
        assert_eq!((names(&found), found.is_cut), (vec!["stock", "mail"], false));
        let expected = Waits { ended: 15, total_ms: 13_000, longest_ms: 2_000, tasks: 3, since: Some(92_000) };
        assert_eq!((found.names[0].sum, found.names[0].process_count), (expected, 2));
        let processes: Vec<_> =
            found.names[0].processes.iter().map(|(text, waits)| (text.as_str(), waits.tasks)).collect();
        assert_eq!(processes, [("worker on web, pid 2", 1), ("worker on web, pid 1", 2)]);
    }

    #[test]
    fn a_lock_that_nobody_releases_comes_first() {
        let found = of([process(1, |report| {
            report.contention = vec![ended("busy", 1_000, 60_000, 100)];
            report.waits = vec![waiting("stuck", 1, 55_000)];
        })]);
        // 55 s at the report, and 10 s since then.
        assert_eq!(names(&found), ["stuck", "busy"]);
    }

    #[test]
    fn the_longest_holds_come_first() {
        let holds = (0..30).map(|n| held(&n.to_string(), n * 1_000));
        let found = of([process(1, |report| report.held = holds.collect())]);
        assert_eq!((found.holds.len(), found.holds[0].name.as_str(), found.holds[0].since), (MOST_HOLDS, "29", 71_000));
        assert!(!found.is_cut);
    }

    #[test]
    fn the_sums_are_bounded_and_processes_that_have_left_do_not_count() {
        let many = |pid: u32| {
            process(pid, |report| {
                report.contention = (0..20).map(|n| ended(&format!("{pid}:{n}"), 1, 1, 1)).collect();
                report.contention.push(ended("all", u64::MAX, u64::MAX, u64::MAX));
            })
        };
        let found = of((0..100).map(many));
        assert_eq!((found.names.len(), found.is_cut), (MOST_NAMES, true));
        let all = &found.names[0];
        assert_eq!((all.name.as_str(), all.sum.total_ms, all.process_count), ("all", u64::MAX, 100));
        assert_eq!(all.processes.len(), MOST_PROCESSES);
        let cut = of((0..3_000).map(many));
        assert!(cut.is_cut && cut.names[0].process_count < 3_000);

        let left = Process { left_at: Some(1), ..process(1, |report| report.waits = vec![waiting("a", 1, 1)]) };
        assert_eq!(of([left]), Contention::default());
    }

    #[test]
    fn names_are_those_of_the_console_and_kinds_are_kept_apart() {
        let mut one = process(1, |report| {
            let mut write = ended("a", 1, 5, 5);
            write.kind = "write lock".into();
            report.contention = vec![ended("a", 1, 9, 9), write];
        });
        one.namespace = "prod:".into();
        let found = of([one]);
        let kinds: Vec<_> = found.names.iter().map(|row| (row.name.as_str(), row.kind.as_str())).collect();
        assert_eq!(kinds, [("prod:a", "lock"), ("prod:a", "write lock")]);
    }
}
