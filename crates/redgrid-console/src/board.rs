//! The list of locks: what the search found on the servers, together with what the processes report.

use std::collections::BTreeMap;

use redgrid_core::report::ClientReport;
use redgrid_inspect::ObjectKind;

use crate::holder_state::{State, state_of};
use crate::snapshot::{Living, Process, Reading};

/// Locks that are listed. A larger deployment is searched by a pattern instead.
pub(crate) const MOST_LOCKS: usize = 10_000;

/// A change of a lease's end by less than this is the inaccuracy of its measurement: 1.5 s.
const JITTER_MS: u64 = 1_500;

/// A lock in the list. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockRow {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Empty if the holders are not known, as for a read-write lock that no report mentions.
    pub(crate) holders: Vec<Holder>,
    /// When the lease ends.
    pub(crate) until: Option<u64>,
    /// Whether the key has no lifetime, so that a dead holder keeps the lock.
    pub(crate) is_endless: bool,
    /// Tasks that wait, in the processes that report.
    pub(crate) waiting_tasks: u64,
    /// Processes with such tasks.
    pub(crate) waiting_processes: u64,
}

impl LockRow {
    /// Returns whether the state of a holder is not known.
    pub(crate) fn has_unknown(&self) -> bool {
        self.holders.iter().any(|holder| holder.state == State::Unknown)
    }
}

/// A holder in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) client: String,
    pub(crate) number: Option<u64>,
    pub(crate) state: State,
    /// The program, host and process id, if the process has reported.
    pub(crate) process: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) since: Option<u64>,
    pub(crate) token: Option<u64>,
}

/// A lock that the search found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) kind: ObjectKind,
    pub(crate) holder: Option<(String, u64)>,
    pub(crate) until: Option<u64>,
    pub(crate) seen_at: u64,
    /// When this holder was first seen.
    pub(crate) holder_since: u64,
}

impl Found {
    /// Continues an older finding of the same name.
    pub(crate) fn after(mut self, old: Option<&Found>) -> Found {
        let Some(old) = old else { return self };
        if old.holder == self.holder {
            self.holder_since = old.holder_since;
            if let (Some(until), Some(before)) = (self.until, old.until)
                && until.abs_diff(before) < JITTER_MS
            {
                self.until = old.until;
            }
        }
        self
    }
}

/// The sources of the list.
pub(crate) struct Sources<'a> {
    pub(crate) found: &'a BTreeMap<String, Found>,
    /// When the last complete search for locks began; a lock that was reported before and not found
    /// then is free.
    pub(crate) searched_since: Option<u64>,
    pub(crate) living: &'a Reading<Living>,
    pub(crate) processes: &'a BTreeMap<String, Process>,
}

impl Sources<'_> {
    /// Returns the list, sorted by name.
    pub(crate) fn rows(&self) -> Vec<LockRow> {
        let mut rows = BTreeMap::new();
        for (name, found) in self.found {
            rows.insert(name.clone(), self.found_row(name, found));
        }
        for (id, process) in self.processes {
            let Some((report, at)) = &process.report else { continue };
            self.add_held(&mut rows, id, process, report, *at);
            add_waits(&mut rows, process, report);
        }
        rows.into_values().take(MOST_LOCKS).collect()
    }

    fn found_row(&self, name: &str, found: &Found) -> LockRow {
        let holder = found.holder.as_ref().map(|(client, number)| Holder {
            client: client.clone(),
            number: Some(*number),
            state: self.state(client, found.holder_since),
            process: self.processes.get(client).and_then(Process::report).map(process_text),
            label: None,
            since: None,
            token: None,
        });
        LockRow {
            name: name.to_owned(),
            kind: found.kind.as_str().to_owned(),
            holders: holder.into_iter().collect(),
            until: found.until,
            is_endless: found.until.is_none(),
            ..LockRow::default()
        }
    }

    /// Adds what a process reported at this time to hold.
    fn add_held(
        &self,
        rows: &mut BTreeMap<String, LockRow>,
        id: &str,
        process: &Process,
        report: &ClientReport,
        at: u64,
    ) {
        for held in report.held.iter().filter(|held| is_lock(&held.kind)) {
            let details = Holder {
                client: id.to_owned(),
                number: Some(held.number),
                state: self.state(id, at),
                process: Some(process_text(report)),
                label: held.label.clone(),
                since: Some(at.saturating_sub(held.held_for_ms)),
                token: held.token,
            };
            let name = format!("{}{}", process.namespace, held.name);
            let found = self.found.get(&name);
            if found.is_none() && self.searched_since.is_some_and(|since| since > at) {
                // The lock was released after the report.
                continue;
            }
            let row = rows.entry(name.clone()).or_insert_with(|| LockRow {
                name,
                kind: reported_kind(&held.kind).to_owned(),
                until: held.lease_left_ms.map(|left| at.saturating_add(left)),
                ..LockRow::default()
            });
            let same = |holder: &&mut Holder| holder.client == id && holder.number == Some(held.number);
            if let Some(holder) = row.holders.iter_mut().find(same) {
                *holder = details;
            } else if found.is_none_or(|found| found.holder.is_none() || found.seen_at < at) {
                if found.is_some_and(|found| found.holder.is_some()) {
                    // The report is newer: the lock has passed on since the search.
                    row.holders.clear();
                    row.until = held.lease_left_ms.map(|left| at.saturating_add(left));
                }
                row.holders.push(details);
            }
        }
    }

    /// Returns the state of a holder that was first seen at this time.
    fn state(&self, client: &str, seen_at: u64) -> State {
        state_of(client, seen_at, self.living, self.processes)
    }
}

/// Names a process: `worker on host-1, pid 17`.
pub(crate) fn process_text(report: &ClientReport) -> String {
    let program = if report.program.is_empty() { &report.client_name } else { &report.program };
    format!("{program} on {}, pid {}", report.host, report.pid)
}

/// Adds what tasks of a process wait for.
fn add_waits(rows: &mut BTreeMap<String, LockRow>, process: &Process, report: &ClientReport) {
    for wait in report.waits.iter().filter(|wait| is_lock(&wait.kind)) {
        let name = format!("{}{}", process.namespace, wait.name);
        let row = rows.entry(name.clone()).or_insert_with(|| LockRow {
            name,
            kind: reported_kind(&wait.kind).to_owned(),
            ..LockRow::default()
        });
        row.waiting_tasks = row.waiting_tasks.saturating_add(wait.tasks);
        row.waiting_processes += 1;
    }
}

/// Returns whether what a report names is listed as a lock.
fn is_lock(kind: &str) -> bool {
    !kind.contains("semaphore")
}

/// Returns the kind for the list from that of a report.
fn reported_kind(kind: &str) -> &'static str {
    match kind {
        "election" => ObjectKind::Election.as_str(),
        kind if kind.contains("read") || kind.contains("write") => ObjectKind::ReadWriteLock.as_str(),
        kind if kind.contains("fair") => ObjectKind::FairLock.as_str(),
        _ => ObjectKind::Lock.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redgrid_core::report::{HeldReport, WaitReport};

    use super::*;

    /// A client of redgrid, and one of Redisson.
    const OWN: &str = "0f8fad5b-d9cb-869f-a165-70867728950e";
    const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn found(client: &str, seen_at: u64) -> Found {
        let holder = Some((client.to_owned(), 7));
        Found { kind: ObjectKind::Lock, holder, until: Some(60_000), seen_at, holder_since: seen_at }
    }

    fn living(ids: &[&str], read_at: u64) -> Reading<Living> {
        let mut reading = Reading::default();
        reading.answered(Living::of(ids.iter().map(|id| (*id).to_owned()).collect(), true), read_at);
        reading
    }

    fn process(held: &[(&str, u64)], waits: &[(&str, u64)], at: u64) -> Process {
        let mut report = ClientReport::default();
        report.held = held.iter().map(|(name, number)| held_report(name, *number)).collect();
        report.waits = waits.iter().map(|(name, tasks)| wait_report(name, *tasks)).collect();
        Process { report: Some((Arc::new(report), at)), ..Process::default() }
    }

    fn held_report(name: &str, number: u64) -> HeldReport {
        let mut held = HeldReport::default();
        (held.name, held.kind, held.number, held.held_for_ms) = (name.to_owned(), "lock".into(), number, 100);
        (held.label, held.lease_left_ms) = (Some("nightly".into()), Some(5_000));
        held
    }

    fn wait_report(name: &str, tasks: u64) -> WaitReport {
        let mut wait = WaitReport::default();
        (wait.name, wait.kind, wait.tasks) = (name.to_owned(), "fair".into(), tasks);
        wait
    }

    fn rows(
        found: &[(&str, Found)],
        searched_since: Option<u64>,
        living: &Reading<Living>,
        processes: &[(&str, Process)],
    ) -> Vec<LockRow> {
        let found = found.iter().map(|(name, found)| ((*name).to_owned(), found.clone())).collect();
        let processes = processes.iter().map(|(id, process)| ((*id).to_owned(), process.clone())).collect();
        Sources { found: &found, searched_since, living, processes: &processes }.rows()
    }

    #[test]
    fn a_holder_without_a_client_is_gone_or_foreign_once_the_list_is_newer() {
        for (client, read_at, state) in [
            (OWN, 11, State::Gone),
            (JAVA, 11, State::Foreign),
            ("odd", 11, State::Foreign),
            // The list is older than the holder.
            (OWN, 10, State::Unknown),
            (JAVA, 9, State::Unknown),
        ] {
            let rows = rows(&[("a", found(client, 10))], None, &living(&[], read_at), &[]);
            assert_eq!(rows[0].holders[0].state, state, "{client} {read_at}");
        }
        let alive = rows(&[("a", found(OWN, 10))], None, &living(&[OWN], 1), &[]);
        assert_eq!(alive[0].holders[0].state, State::Alive);
        let unknown = rows(&[("a", found(OWN, 10))], None, &Reading::default(), &[]);
        assert_eq!(unknown[0].holders[0].state, State::Unknown);
        let silent = Process { silent_since: Some(5), ..Process::default() };
        let rows = rows(&[("a", found(OWN, 10))], None, &living(&[OWN], 1), &[(OWN, silent)]);
        assert_eq!(rows[0].holders[0].state, State::Silent);
    }

    #[test]
    fn a_report_adds_what_only_the_process_knows() {
        let reporter = process(&[("a", 7)], &[("b", 3)], 1_000);
        let rows = rows(&[("a", found(OWN, 900))], None, &living(&[OWN], 1_000), &[(OWN, reporter)]);
        let holder = &rows[0].holders[0];
        assert_eq!((rows[0].holders.len(), holder.since, holder.label.as_deref()), (1, Some(900), Some("nightly")));
        assert_eq!(rows[0].until, Some(60_000));
        assert_eq!((rows[1].name.as_str(), rows[1].kind.as_str(), rows[1].waiting_tasks), ("b", "fair lock", 3));
        assert!(rows[1].holders.is_empty() && !rows[1].is_endless);
    }

    #[test]
    fn the_newer_of_search_and_report_counts() {
        let list = living(&[OWN], 5_000);
        let report = |at| [(OWN, process(&[("a", 7)], &[], at))];
        // The search saw another holder later.
        let newer = rows(&[("a", found(JAVA, 2_000))], None, &list, &report(1_000));
        assert_eq!(newer[0].holders[0].client, JAVA);
        // The process got the lock after the search.
        let older = rows(&[("a", found(JAVA, 500))], None, &list, &report(1_000));
        assert_eq!((older[0].holders.len(), older[0].holders[0].client.as_str()), (1, OWN));
        assert_eq!(older[0].until, Some(6_000));
        // A complete search after the report has not found the lock.
        assert!(rows(&[], Some(1_001), &list, &report(1_000)).is_empty());
        assert_eq!(rows(&[], Some(999), &list, &report(1_000)).len(), 1);
    }

    #[test]
    fn names_of_another_namespace_have_it_as_prefix() {
        let mut reporter = process(&[("a", 7)], &[], 1_000);
        reporter.namespace = "prod:".into();
        let rows = rows(&[], None, &living(&[OWN], 1_000), &[(OWN, reporter)]);
        assert_eq!(rows[0].name, "prod:a");
    }

    #[test]
    fn the_end_of_a_lease_does_not_flicker() {
        let first = found(OWN, 10);
        let mut next = found(OWN, 20);
        next.until = Some(60_900);
        let next = next.after(Some(&first));
        assert_eq!((next.until, next.holder_since), (Some(60_000), 10));
        let mut renewed = found(OWN, 30);
        renewed.until = Some(70_000);
        assert_eq!(renewed.after(Some(&next)).until, Some(70_000));
        assert_eq!(found(JAVA, 40).after(Some(&next)).holder_since, 40);
    }
}
