//! Findings on the overview: what looks wrong, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::holder_state::{State, connected_state};
use crate::snapshot::Snapshot;
use crate::text::{count, duration, visible};

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

/// Kinds of holds that are compared. A process reports the kind, so there could be any number.
const MOST_KINDS: usize = 16;

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

impl Lint {
    fn of_locks(title: String, advice: &'static str, names: Vec<String>) -> Lint {
        Lint { title, advice, names: names.into_iter().take(SHOWN).collect(), are_locks: true }
    }
}

/// The findings, and the checks that were not possible.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) lints: Vec<Lint>,
    pub(crate) unchecked: Vec<String>,
}

/// Returns the findings.
pub(crate) fn findings(snapshot: &Snapshot, now: u64) -> Findings {
    Findings { lints: check(snapshot, now), unchecked: unchecked(snapshot) }
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
    if let Some((why, _)) = &snapshot.questions.trouble {
        parts.push(format!("whether clients answer ({why})"));
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

fn of_locks(snapshot: &Snapshot, now: u64, lints: &mut Vec<Lint>) {
    let (mut kept, mut endless, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let (mut silent, mut crowded) = (Vec::new(), Vec::new());
    for row in snapshot.locks.iter() {
        let is_gone = row.has(State::Gone);
        match (row.is_endless, is_gone) {
            (true, true) => kept.push(row.name.clone()),
            (true, false) => endless.push(row.name.clone()),
            (false, true) if row.until.is_none_or(|until| until > now.saturating_add(GONE_MS)) => {
                gone.push(row.name.clone());
            }
            _ => {}
        }
        if row.has(State::Silent) {
            silent.push(row.name.clone());
        }
        if row.waiting_tasks > MANY_WAITING {
            crowded.push(row.name.clone());
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
        if !names.is_empty() {
            lints.push(Lint::of_locks(format!("{} {what}", count(names.len(), "lock")), advice, names));
        }
    }
}

fn of_processes(snapshot: &Snapshot, lints: &mut Vec<Lint>) {
    let reports = || snapshot.connected().filter_map(|(_, process)| process.report());
    let mut holds: BTreeMap<&str, Vec<(u64, String)>> = BTreeMap::new();
    for (_, process) in snapshot.connected() {
        for held in process.report().into_iter().flat_map(|report| &report.held) {
            let is_listed = holds.len() < MOST_KINDS || holds.contains_key(held.kind.as_str());
            let kind = if is_listed { held.kind.as_str() } else { "other" };
            holds.entry(kind).or_default().push((held.held_for_ms, format!("{}{}", process.namespace, held.name)));
        }
    }
    for (kind, mut held) in holds {
        if held.len() < FEWEST_HOLDS {
            continue;
        }
        held.sort_unstable();
        let median = held[held.len() / 2].0;
        let oldest = held.iter().rev().take_while(|(age, _)| *age > median.saturating_mul(OLD_FACTOR).max(OLD_MS));
        let names: Vec<String> = oldest.map(|(_, name)| name.clone()).collect();
        if !names.is_empty() {
            let median = duration(Duration::from_millis(median));
            let (holds, kind) = (count(names.len(), "hold"), visible(kind));
            let title = format!("{holds} of kind {kind} held far longer than usual; the median is {median}");
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
        let states = BTreeMap::from([(state, 1)]);
        let holders = vec![holder];
        LockRow { name: name.into(), holders, states, until, is_endless: until.is_none(), ..LockRow::default() }
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
        let locks = Arc::new(vec![row("a", State::Gone, None)]);
        let kept = check(&Snapshot { locks, ..Snapshot::default() }, 1_000);
        assert_eq!(
            (kept.len(), kept[0].title.as_str()),
            (1, "1 lock without a lifetime, held by clients that are gone")
        );
        assert!(kept[0].advice.starts_with("Nothing frees"), "{}", kept[0].advice);
    }

    #[test]
    fn what_could_not_be_read_is_not_called_well() {
        let all = unchecked(&Snapshot::default());
        assert_eq!(all.len(), 3, "{all:?}");
        let mut snapshot = Snapshot::default();
        snapshot.sweep.completed = Some((1, 2));
        snapshot.living.answered(crate::snapshot::Living::of(Vec::new(), true), 1);
        snapshot.servers.answered(Vec::new(), 1);
        assert_eq!(unchecked(&snapshot), Vec::<String>::new());
        snapshot.sweep.trouble = Some(("no permission for SCAN".into(), 1));
        snapshot.living.failed("no permission for PUBSUB".into(), 1);
        snapshot.questions.failed("no permission for PUBLISH".into(), 1);
        snapshot.servers.failed("no permission for INFO".into(), 1);
        let off = Process { is_asked: true, silent_since: Some(1), ..Process::default() };
        snapshot.processes = Arc::new(BTreeMap::from([("a".to_owned(), off)]));
        let all = unchecked(&snapshot);
        assert_eq!(all.len(), 5);
        assert!(["SCAN", "PUBSUB", "PUBLISH", "INFO"].iter().all(|what| all.concat().contains(what)), "{all:?}");
    }

    #[test]
    fn forged_kinds_are_shown_as_text_and_in_bounded_number() {
        let held = |nth: u64| {
            let mut held = HeldReport::default();
            held.kind = format!("\u{202e}{}", nth / 21);
            held.held_for_ms = if nth % 21 == 20 { 100_000 } else { 10 };
            held
        };
        let mut report = ClientReport::default();
        report.held = (0..21 * 100).map(held).collect();
        let forger = Process { report: Some((Arc::new(report), 0)), ..Process::default() };
        let processes = Arc::new(BTreeMap::from([("a".to_owned(), forger)]));
        let titles = titles(&Snapshot { processes, ..Snapshot::default() });
        assert_eq!(titles.len(), MOST_KINDS + 1);
        assert!(titles.iter().all(|title| !title.contains('\u{202e}')), "{titles:?}");
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
            ["2 holds of kind lock held far longer than usual; the median is 10 ms", "2 versions of redgrid in use"]
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
