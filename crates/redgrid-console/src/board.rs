//! The list of locks: what the search found on the servers, together with what the processes
//! report.

use std::collections::{BTreeMap, HashMap};

use redgrid_core::report::ClientReport;
use redgrid_inspect::ObjectKind;

use crate::holder_state::{Seen, State, state_of};
use crate::snapshot::{Living, Process, Reading};

/// Locks that are listed. A larger deployment is searched by a pattern instead.
pub(crate) const MOST_LOCKS: usize = 10_000;

/// Holders of a lock that are listed. Further ones are counted.
pub(crate) const MOST_HOLDERS: usize = 100;

/// Holds and waits of all reports that are read, so that the list takes bounded memory and time.
const MOST_ENTRIES: usize = 50_000;

/// A lock in the list. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockRow {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The first holders. Empty if they are not known, as for a read-write lock that no report
    /// mentions.
    pub(crate) holders: Vec<Holder>,
    /// How many holders are in each state, also those that are not listed.
    pub(crate) states: BTreeMap<State, u64>,
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
    /// Returns whether a holder is in this state.
    pub(crate) fn has(&self, state: State) -> bool {
        self.states.contains_key(&state)
    }

    /// Returns the number of known holders.
    pub(crate) fn holder_count(&self) -> u64 {
        self.states.values().sum()
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
    /// The readings of the holder, or of the lock if it has several.
    pub(crate) seen: Seen,
}

impl Found {
    /// Continues an older finding of the same name.
    pub(crate) fn after(mut self, old: Option<&Found>, living: &Reading<Living>) -> Found {
        if let Some(old) = old.filter(|old| old.holder == self.holder) {
            let absent_since = self.holder.as_ref().and_then(|(client, _)| living.absent_since(client));
            self.seen = old.seen.again(self.seen.last_at, self.seen.until, absent_since);
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

/// The list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Board {
    /// The locks, sorted by name.
    pub(crate) rows: Vec<LockRow>,
    /// Whether there are more, or the reports have more entries than are read.
    pub(crate) is_cut: bool,
}

/// A holder's state, and its place if it is listed.
struct Known {
    state: State,
    place: Option<usize>,
}

/// A row while the list is made.
#[derive(Default)]
struct Draft<'a> {
    row: LockRow,
    /// All holders, by client and number.
    known: HashMap<(&'a str, Option<u64>), Known>,
    /// Whether a report is newer than what the search found.
    has_passed_on: bool,
}

impl<'a> Draft<'a> {
    fn has(&self, client: &'a str, number: Option<u64>) -> bool {
        self.known.contains_key(&(client, number))
    }

    /// Adds a holder, or replaces what is known of it.
    fn set(&mut self, client: &'a str, number: Option<u64>, state: State, details: impl FnOnce() -> Holder) {
        let holders = &mut self.row.holders;
        let place = match self.known.get(&(client, number)) {
            Some(old) => {
                if let Some(count) = self.row.states.get_mut(&old.state) {
                    *count -= 1;
                    if *count == 0 {
                        self.row.states.remove(&old.state);
                    }
                }
                if let Some(holder) = old.place.and_then(|place| holders.get_mut(place)) {
                    *holder = details();
                }
                old.place
            }
            None if holders.len() < MOST_HOLDERS => {
                holders.push(details());
                Some(holders.len() - 1)
            }
            None => None,
        };
        self.known.insert((client, number), Known { state, place });
        *self.row.states.entry(state).or_default() += 1;
    }

    /// Forgets the holder that the search found.
    fn pass_on(&mut self, until: Option<u64>) {
        self.known.clear();
        self.row.holders.clear();
        self.row.states.clear();
        self.row.until = until;
        self.has_passed_on = true;
    }
}

impl<'a> Sources<'a> {
    /// Returns the list.
    pub(crate) fn board(&self) -> Board {
        let mut drafts = BTreeMap::new();
        for (name, found) in self.found {
            drafts.insert(name.clone(), self.found_draft(name, found));
        }
        let mut left = MOST_ENTRIES;
        for (id, process) in self.processes {
            let Some((report, at)) = &process.report else { continue };
            self.add_held(&mut drafts, id, process, report, *at, &mut left);
            // The tasks of a process that has left wait no more.
            if process.left_at.is_none() {
                add_waits(&mut drafts, process, report, &mut left);
            }
        }
        let is_cut = left == 0 || drafts.len() > MOST_LOCKS;
        Board { rows: drafts.into_values().take(MOST_LOCKS).map(|draft| draft.row).collect(), is_cut }
    }

    fn found_draft(&self, name: &str, found: &'a Found) -> Draft<'a> {
        let row = LockRow {
            name: name.to_owned(),
            kind: found.kind.as_str().to_owned(),
            until: found.seen.until,
            is_endless: found.seen.until.is_none(),
            ..LockRow::default()
        };
        let mut draft = Draft { row, ..Draft::default() };
        if let Some((client, number)) = &found.holder {
            let state = self.state(client, &found.seen);
            draft.set(client, Some(*number), state, || Holder {
                client: client.clone(),
                number: Some(*number),
                state,
                process: self.processes.get(client).and_then(Process::report).map(process_text),
                label: None,
                since: None,
                token: None,
            });
        }
        draft
    }

    /// Adds what a process reported at this time to hold.
    fn add_held(
        &self,
        drafts: &mut BTreeMap<String, Draft<'a>>,
        id: &'a str,
        process: &Process,
        report: &ClientReport,
        at: u64,
        left: &mut usize,
    ) {
        for held in report.held.iter().filter(|held| is_lock(&held.kind)) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let name = format!("{}{}", process.namespace, held.name);
            let found = self.found.get(&name);
            if found.is_none() && self.searched_since.is_some_and(|since| since > at) {
                // The lock was released after the report.
                continue;
            }
            let until = held.lease_left_ms.map(|left| at.saturating_add(left));
            let draft = drafts.entry(name.clone()).or_insert_with(|| {
                let kind = reported_kind(&held.kind).to_owned();
                Draft { row: LockRow { name, kind, until, ..LockRow::default() }, ..Draft::default() }
            });
            let number = Some(held.number);
            if !draft.has(id, number) {
                let has_found_holder = found.is_some_and(|found| found.holder.is_some());
                if has_found_holder && found.is_some_and(|found| found.seen.last_at >= at) {
                    // The search is newer, and saw another holder.
                    continue;
                }
                let is_shared = found.is_some_and(|found| found.kind == ObjectKind::ReadWriteLock);
                if has_found_holder && !is_shared && !draft.has_passed_on {
                    // The report is newer: the lock has passed on since the search.
                    draft.pass_on(until);
                }
            }
            let is_found =
                |found: &&Found| found.holder.as_ref().is_some_and(|(client, n)| client == id && *n == held.number);
            let seen = found.filter(is_found).map_or_else(|| Seen::first(at, until), |found| found.seen);
            let state = self.state(id, &seen);
            draft.set(id, number, state, || Holder {
                client: id.to_owned(),
                number,
                state,
                process: Some(process_text(report)),
                label: held.label.clone(),
                since: Some(at.saturating_sub(held.held_for_ms)),
                token: held.token,
            });
        }
    }

    fn state(&self, client: &str, seen: &Seen) -> State {
        state_of(client, seen, self.living, self.processes)
    }
}

/// Names a process: `worker on host-1, pid 17`.
pub(crate) fn process_text(report: &ClientReport) -> String {
    let program = if report.program.is_empty() { &report.client_name } else { &report.program };
    format!("{program} on {}, pid {}", report.host, report.pid)
}

/// Adds what tasks of a process wait for.
fn add_waits(drafts: &mut BTreeMap<String, Draft<'_>>, process: &Process, report: &ClientReport, left: &mut usize) {
    for wait in report.waits.iter().filter(|wait| is_lock(&wait.kind)) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let name = format!("{}{}", process.namespace, wait.name);
        let draft = drafts.entry(name.clone()).or_insert_with(|| {
            let kind = reported_kind(&wait.kind).to_owned();
            Draft { row: LockRow { name, kind, ..LockRow::default() }, ..Draft::default() }
        });
        draft.row.waiting_tasks = draft.row.waiting_tasks.saturating_add(wait.tasks);
        draft.row.waiting_processes += 1;
    }
}

/// Returns whether what a report names is listed as a lock.
pub(crate) fn is_lock(kind: &str) -> bool {
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
mod tests;
