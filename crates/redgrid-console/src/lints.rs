//! Findings on the overview: what looks wrong, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::board::State;
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

/// Names in one finding.
const SHOWN: usize = 5;

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lint {
    /// What it is about, in short.
    pub(crate) title: String,
    /// What to do about it.
    pub(crate) advice: &'static str,
    /// The locks or nodes that it concerns; further ones are only counted in the title.
    pub(crate) names: Vec<String>,
    /// Whether the names are those of locks.
    pub(crate) are_locks: bool,
}

impl Lint {
    fn of_locks(title: String, advice: &'static str, names: Vec<String>) -> Lint {
        Lint { title, advice, names: names.into_iter().take(SHOWN).collect(), are_locks: true }
    }
}

/// Returns the findings, those about locks first.
pub(crate) fn check(snapshot: &Snapshot, now: u64) -> Vec<Lint> {
    let mut lints = Vec::new();
    of_locks(snapshot, now, &mut lints);
    of_processes(snapshot, &mut lints);
    of_servers(snapshot, &mut lints);
    lints
}

fn of_locks(snapshot: &Snapshot, now: u64, lints: &mut Vec<Lint>) {
    let (mut endless, mut gone, mut silent, mut crowded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in snapshot.locks.iter() {
        let has = |state| row.holders.iter().any(|holder| holder.state == state);
        if row.is_endless {
            endless.push(row.name.clone());
        }
        if has(State::Gone) && row.until.is_none_or(|until| until > now.saturating_add(GONE_MS)) {
            gone.push(row.name.clone());
        }
        if has(State::Silent) {
            silent.push(row.name.clone());
        }
        if row.waiting_tasks > MANY_WAITING {
            crowded.push(row.name.clone());
        }
    }
    let found = [
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
            "The processes are stopped or blocked. Look for long computations in asynchronous tasks, and for processes \
             without CPU time.",
        ),
        (
            crowded,
            "with more than 100 waiting tasks",
            "Hold such a lock for a shorter time, or split it by a part of its name.",
        ),
    ];
    for (names, what, advice) in found {
        if !names.is_empty() {
            lints.push(Lint::of_locks(format!("{} {what}", count(names.len(), "lock")), advice, names));
        }
    }
}

fn of_processes(snapshot: &Snapshot, lints: &mut Vec<Lint>) {
    let reports = || snapshot.processes.values().filter_map(|process| process.report());
    let mut holds: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for held in reports().flat_map(|report| &report.held) {
        holds.entry(&held.kind).or_default().push((held.held_for_ms, &held.name));
    }
    for (kind, mut held) in holds {
        if held.len() < FEWEST_HOLDS {
            continue;
        }
        held.sort_unstable();
        let median = held[held.len() / 2].0;
        let oldest = held.iter().rev().take_while(|(age, _)| *age > median.saturating_mul(OLD_FACTOR).max(OLD_MS));
        let names: Vec<String> = oldest.map(|(_, name)| (*name).to_owned()).collect();
        if !names.is_empty() {
            let median = duration(Duration::from_millis(median));
            let title = format!("{} of kind {kind} held far longer than usual ({median})", count(names.len(), "hold"));
            lints.push(Lint::of_locks(title, "The holder may hang. The page of the lock names its process.", names));
        }
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
    let evicts = |server: &&crate::snapshot::ServerInfo| {
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
mod tests {
    use std::sync::Arc;

    use redgrid_core::report::{ClientReport, HeldReport};

    use super::*;
    use crate::board::{Holder, LockRow};
    use crate::snapshot::{Process, ServerInfo};

    fn row(name: &str, state: State, until: Option<u64>) -> LockRow {
        let holder =
            Holder { client: "c".into(), number: Some(1), state, process: None, label: None, since: None, token: None };
        LockRow { name: name.into(), holders: vec![holder], until, is_endless: until.is_none(), ..LockRow::default() }
    }

    fn titles(snapshot: &Snapshot) -> Vec<String> {
        check(snapshot, 1_000).into_iter().map(|lint| lint.title).collect()
    }

    #[test]
    fn a_healthy_deployment_has_no_findings() {
        let locks = Arc::new(vec![row("a", State::Alive, Some(30_000)), row("b", State::Gone, Some(9_000))]);
        assert_eq!(titles(&Snapshot { locks, ..Snapshot::default() }), Vec::<String>::new());
    }

    #[test]
    fn locks_that_look_wrong_are_named() {
        let mut crowded = row("d", State::Alive, Some(2_000));
        crowded.waiting_tasks = 101;
        let endless = row("a", State::Alive, None);
        let locks = vec![endless, row("b", State::Gone, Some(30_000)), row("c", State::Silent, Some(2_000)), crowded];
        let snapshot = Snapshot { locks: Arc::new(locks), ..Snapshot::default() };
        let lints = check(&snapshot, 1_000);
        assert_eq!(lints.iter().map(|lint| lint.names.concat()).collect::<String>(), "abcd");
        assert_eq!(lints[0].title, "1 lock without a lifetime");
    }

    #[test]
    fn old_holds_and_mixed_versions_are_named() {
        let hold = |n: u64| {
            let mut held = HeldReport::default();
            held.kind = "lock".into();
            held.name = n.to_string();
            held.held_for_ms = if n == 20 { 100_000 } else { 10 };
            held
        };
        let report = |version: &str, holds| {
            let mut report = ClientReport::default();
            version.clone_into(&mut report.version);
            report.held = holds;
            Process { report: Some((Arc::new(report), 0)), ..Process::default() }
        };
        let many = report("0.1.0", (0..21).map(hold).collect());
        let few = report("0.2.0", vec![hold(20)]);
        let processes = BTreeMap::from([("a".into(), many), ("b".into(), few)]);
        let snapshot = Snapshot { processes: Arc::new(processes), ..Snapshot::default() };
        assert_eq!(
            titles(&snapshot),
            ["2 holds of kind lock held far longer than usual (10 ms)", "2 versions of redgrid in use"]
        );
    }

    #[test]
    fn eviction_is_reported_where_memory_is_limited() {
        let mut snapshot = Snapshot::default();
        let mut server = ServerInfo { eviction: "allkeys-lru".into(), ..ServerInfo::default() };
        snapshot.servers.answered(vec![server.clone()], 0);
        assert!(titles(&snapshot).is_empty());
        server.max_memory = Some(1);
        snapshot.servers.answered(vec![server], 0);
        assert_eq!(titles(&snapshot), ["1 node may evict keys"]);
    }
}
