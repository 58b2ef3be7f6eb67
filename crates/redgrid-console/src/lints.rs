//! Findings on the overview: what looks wrong, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redgrid_core::observe::KINDS;
use redgrid_core::report::HeldReport;

use crate::board::LockRow;
use crate::holder_state::{State, connected_state};
use crate::object_name::full_id;
use crate::snapshot::Snapshot;
use crate::text::{count, duration};

/// A holder that is gone is reported while its lock stays taken for at least this long: 10 s.
const GONE_MS: u64 = 10_000;

/// Waiting tasks of one name that are reported.
const MANY_WAITING: u64 = 100;

/// A hold is old if it lasts this many times the median of its kind …
const OLD_FACTOR: u64 = 100;

/// … and at least this long: a minute.
const OLD_MS: u64 = 60_000;

/// Holds of a kind from which a median means something.
const FEWEST_HOLDS: usize = 20;

/// The most holds of a process that are compared. So their number is bounded, and a process with
/// many holds does not determine the median.
const SAMPLE: usize = 50;

/// Names in one finding.
const SHOWN: usize = 5;

/// Replaces the kinds of holds that this version does not know. Processes report the kinds, so
/// their number would not be bounded.
const OTHER_KIND: &str = "other";

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lint {
    /// Its subject, in a few words.
    pub(crate) title: String,
    /// The recommended action.
    pub(crate) advice: &'static str,
    /// The locks or nodes that it concerns; further ones are only counted in the title.
    pub(crate) names: Vec<String>,
    /// Whether the names are those of locks.
    pub(crate) are_locks: bool,
}

/// The findings, and the checks that were not possible.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) lints: Vec<Lint>,
    pub(crate) unchecked: Vec<String>,
    /// Whether a source is being read for the first time, so that there may be more findings soon.
    pub(crate) is_reading: bool,
}

/// Returns the findings.
pub(crate) fn findings(snapshot: &Snapshot, now: u64) -> Findings {
    Findings { lints: check(snapshot, now), unchecked: unchecked(snapshot), is_reading: is_reading(snapshot) }
}

/// Returns whether a source has neither answered nor failed yet.
fn is_reading(snapshot: &Snapshot) -> bool {
    let sweep = &snapshot.sweep;
    let is_searched = sweep.completed.is_some() || sweep.is_too_large || sweep.trouble.is_some();
    let are_known = snapshot.living.is_known() && snapshot.servers.is_known();
    !(is_searched && are_known) || (unasked(snapshot) > 0 && !snapshot.questions.is_known())
}

/// Returns the number of connected clients of which it is not known yet whether they answer.
fn unasked(snapshot: &Snapshot) -> usize {
    snapshot.connected().filter(|(_, process)| !process.is_asked).count()
}

/// Returns what could not be checked, and why. So nothing that could not be read looks well.
fn unchecked(snapshot: &Snapshot) -> Vec<String> {
    let mut parts = Vec::new();
    let sweep = &snapshot.sweep;
    if let Some((why, _)) = &sweep.trouble {
        parts.push(format!("the locks of processes that do not report ({why})"));
    } else if sweep.is_too_large {
        parts.push("the locks of processes that do not report, because the keys are not searched".to_owned());
    } else if sweep.completed.is_none() {
        parts.push("the locks, which are still searched for".to_owned());
    } else if sweep.is_cut || snapshot.are_locks_cut {
        parts.push("the locks that are not listed, because there are too many".to_owned());
    }
    match (&snapshot.living.trouble, snapshot.living.get()) {
        (Some((why, _)), _) => parts.push(format!("whether holders are connected ({why})")),
        (None, None) => parts.push("whether holders are connected, which is not known yet".to_owned()),
        (None, Some(living)) if !living.is_complete => {
            parts.push("whether holders are connected, because a part of the clients is not known".to_owned());
        }
        _ => {}
    }
    let unasked = unasked(snapshot);
    if let Some((why, _)) = &snapshot.questions.trouble {
        parts.push(format!("whether clients answer ({why})"));
    } else if unasked > 0 {
        let clients = count(unasked, "client");
        parts.push(format!("whether clients answer that were not asked yet ({clients})"));
    }
    let unreported = snapshot.connected().filter(|(_, it)| connected_state(Some(it)) == State::Unreported).count();
    if unreported > 0 {
        let clients = count(unreported, "client");
        parts.push(format!("whether processes are stopped or blocked that do not report ({clients})"));
    }
    match (&snapshot.servers.trouble, snapshot.servers.get()) {
        (Some((why, _)), _) => parts.push(format!("the settings of the memory ({why})")),
        (None, None) => parts.push("the settings of the memory, which are not known yet".to_owned()),
        _ => {}
    }
    parts
}

/// Returns the findings, those about locks first.
fn check(snapshot: &Snapshot, now: u64) -> Vec<Lint> {
    let mut lints = Vec::new();
    of_locks(snapshot, now, &mut lints);
    of_processes(snapshot, &mut lints);
    of_servers(snapshot, &mut lints);
    lints
}

/// Locks of a finding: how many, and the names that are shown.
#[derive(Debug, Default)]
struct Names {
    total: usize,
    shown: Vec<String>,
}

impl Names {
    fn add(&mut self, row: &LockRow) {
        self.total += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(row.name.clone());
        }
    }
}

fn of_locks(snapshot: &Snapshot, now: u64, lints: &mut Vec<Lint>) {
    let (mut kept, mut endless, mut gone) = (Names::default(), Names::default(), Names::default());
    let (mut silent, mut crowded) = (Names::default(), Names::default());
    for row in snapshot.locks.iter() {
        let is_gone = row.has(State::Gone);
        match (row.is_endless, is_gone) {
            (true, true) => kept.add(row),
            (true, false) => endless.add(row),
            (false, true) if row.until.is_none_or(|until| until > now.saturating_add(GONE_MS)) => gone.add(row),
            _ => {}
        }
        if row.has(State::Silent) {
            silent.add(row);
        }
        if row.waiting_tasks > MANY_WAITING {
            crowded.add(row);
        }
    }
    let found = [
        (
            kept,
            "without a lifetime, held by clients that are gone",
            "Nothing frees such a lock. Take it away with redgrid unlock, and check the program that took it.",
        ),
        (
            endless,
            "without a lifetime",
            "A holder that dies keeps such a lock for ever. Check the program that took it; then free the lock with \
             redgrid unlock.",
        ),
        (
            gone,
            "held by clients that are gone",
            "The locks are free when their leases end. A shorter lease frees the locks of dead processes sooner.",
        ),
        (
            silent,
            "held by clients that do not answer",
            "The clients have answered before. Their processes may be stopped or blocked: look for long computations in \
             asynchronous tasks, and for processes without CPU time.",
        ),
        (
            crowded,
            "with more than 100 waiting tasks",
            "Hold such a lock for a shorter time, or split it by a part of its name.",
        ),
    ];
    for (names, what, advice) in found {
        if names.total > 0 {
            let title = format!("{} {what}", count(names.total, "lock"));
            lints.push(Lint { title, advice, names: names.shown, are_locks: true });
        }
    }
}

/// Returns the kind of a hold, or [`OTHER_KIND`].
fn kind_of(held: &HeldReport) -> &'static str {
    KINDS.into_iter().find(|kind| *kind == held.kind).unwrap_or(OTHER_KIND)
}

/// Returns the median age of the holds of each kind that has enough of them. Each process counts
/// with a sample of its holds.
fn medians(snapshot: &Snapshot) -> BTreeMap<&'static str, u64> {
    let mut ages: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for report in snapshot.connected().filter_map(|(_, process)| process.report()) {
        for held in report.held.iter().step_by(report.held.len().div_ceil(SAMPLE).max(1)) {
            ages.entry(kind_of(held)).or_default().push(held.held_for_ms);
        }
    }
    ages.retain(|_, ages| ages.len() >= FEWEST_HOLDS);
    let median = |mut ages: Vec<u64>| {
        let middle = ages.len() / 2;
        *ages.select_nth_unstable(middle).1
    };
    ages.into_iter().map(|(kind, ages)| (kind, median(ages))).collect()
}

/// The holds of a kind that are far older than its median.
#[derive(Default)]
struct Old<'a> {
    total: usize,
    /// The oldest ones that are the first of their process. They are shown before the others, so
    /// that a process with many does not displace those of other processes.
    first: Vec<Hold<'a>>,
    /// The oldest ones of the other holds.
    further: Vec<Hold<'a>>,
}

#[derive(Clone, Copy)]
struct Hold<'a> {
    age: u64,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Old<'a> {
    fn add(&mut self, hold: Hold<'a>, is_first: bool) {
        self.total += 1;
        let list = if is_first { &mut self.first } else { &mut self.further };
        list.push(hold);
        list.sort_by_key(|hold| std::cmp::Reverse(hold.age));
        list.truncate(SHOWN);
    }

    fn names(&self) -> Vec<String> {
        let shown = self.first.iter().chain(&self.further).take(SHOWN);
        shown.map(|hold| full_id(hold.namespace, hold.name)).collect()
    }
}

/// Returns the holds that are far older than the median of their kind.
fn old_holds<'a>(snapshot: &'a Snapshot, medians: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, Old<'a>> {
    let mut old: BTreeMap<&str, Old<'_>> = BTreeMap::new();
    for (_, process) in snapshot.connected() {
        // A report has the oldest holds first.
        let mut kinds = BTreeSet::new();
        for held in process.report().into_iter().flat_map(|report| &report.held) {
            let (kind, age) = (kind_of(held), held.held_for_ms);
            let Some(median) = medians.get(kind) else { continue };
            if age > median.saturating_mul(OLD_FACTOR).max(OLD_MS) {
                let hold = Hold { age, namespace: &process.namespace, name: &held.name };
                old.entry(kind).or_default().add(hold, kinds.insert(kind));
            }
        }
    }
    old
}

fn of_processes(snapshot: &Snapshot, lints: &mut Vec<Lint>) {
    let reports = || snapshot.connected().filter_map(|(_, process)| process.report());
    let medians = medians(snapshot);
    for (kind, old) in old_holds(snapshot, &medians) {
        let median = duration(Duration::from_millis(medians.get(kind).copied().unwrap_or_default()));
        let holds = count(old.total, "hold");
        lints.push(Lint {
            title: format!("{holds} of kind {kind} held far longer than usual; the median is {median}"),
            advice: "The holder may hang. The page of the lock names its process.",
            names: old.names(),
            are_locks: true,
        });
    }
    let versions: BTreeSet<&str> = reports().map(|report| report.version.as_str()).filter(|v| !v.is_empty()).collect();
    if versions.len() > 1 {
        lints.push(Lint {
            title: format!("{} of redgrid in use", count(versions.len(), "version")),
            advice: "That is right during a rollout. Afterwards, look for processes that were not restarted.",
            names: versions.into_iter().take(SHOWN).map(str::to_owned).collect(),
            are_locks: false,
        });
    }
}

fn of_servers(snapshot: &Snapshot, lints: &mut Vec<Lint>) {
    let Some(servers) = snapshot.servers.get() else { return };
    let evicts = |server: &&crate::server_info::ServerInfo| {
        server.max_memory.is_some() && !matches!(server.eviction.as_str(), "" | "noeviction")
    };
    let names: Vec<String> = servers.iter().filter(evicts).map(|server| server.node.clone()).collect();
    if !names.is_empty() {
        lints.push(Lint {
            title: format!("{} may evict keys", count(names.len(), "node")),
            advice: "An evicted lock is free while its holder still works. Set maxmemory-policy to noeviction.",
            names: names.into_iter().take(SHOWN).collect(),
            are_locks: false,
        });
    }
}

#[cfg(test)]
mod tests;
