use std::sync::Arc;

use redgrid_core::report::ClientReport;

use super::*;
use crate::board::Holder;
use crate::server_info::ServerInfo;
use crate::snapshot::Process;

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
    assert_eq!((kept.len(), kept[0].title.as_str()), (1, "1 lock without a lifetime, held by clients that are gone"));
    assert!(kept[0].advice.starts_with("Nothing frees"), "{}", kept[0].advice);
}

#[test]
fn what_could_not_be_read_is_not_called_well() {
    let all = unchecked(&Snapshot::default());
    assert_eq!(all.len(), 3, "{all:?}");
    let mut snapshot = Snapshot::default();
    snapshot.sweep.completed = Some((1, 2));
    snapshot.living.answered(crate::snapshot::Living::of(Vec::new(), true), 1);
    assert!(is_reading(&snapshot));
    snapshot.servers.answered(Vec::new(), 1);
    assert_eq!((unchecked(&snapshot), is_reading(&snapshot)), (Vec::<String>::new(), false));
    // The first questions were not answered yet.
    snapshot.processes = Arc::new(BTreeMap::from([("a".to_owned(), Process::default())]));
    assert_eq!(unchecked(&snapshot), ["whether clients answer that were not asked yet (1 client)"]);
    assert!(is_reading(&snapshot));
    snapshot.questions.answered((), 1);
    assert!(!is_reading(&snapshot));
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
fn forged_kinds_are_one_kind_and_displace_no_other() {
    let held = |kind: String, nth: u64| {
        let mut held = HeldReport::default();
        held.kind = kind;
        held.held_for_ms = if nth % 21 == 20 { 100_000 } else { 10 };
        held
    };
    let reported = |holds: Vec<HeldReport>| {
        let mut report = ClientReport::default();
        report.held = holds;
        Process { report: Some((Arc::new(report), 0)), is_asked: true, ..Process::default() }
    };
    let forged = reported((0..21 * 100).map(|nth| held(format!("\u{202e}{}", nth / 21), nth)).collect());
    let real = reported((0..21).map(|nth| held("lock".into(), nth)).collect());
    let processes = Arc::new(BTreeMap::from([("a".to_owned(), forged), ("b".to_owned(), real)]));
    let titles = titles(&Snapshot { processes, ..Snapshot::default() });
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert!(titles[0].starts_with("1 hold of kind lock") && titles[1].contains("of kind other"), "{titles:?}");
}

#[test]
fn a_process_with_many_old_holds_displaces_no_other() {
    let reported = |name: &str, old: u64| {
        let mut report = ClientReport::default();
        let held = |nth: u64| {
            let mut held = HeldReport::default();
            (held.kind, held.name) = ("lock".into(), format!("{name}{nth}"));
            held.held_for_ms = if nth < old { 1_000_000 + old - nth } else { 10 };
            held
        };
        report.held = (0..100).map(held).collect();
        Process { report: Some((Arc::new(report), 0)), namespace: "prod:".into(), ..Process::default() }
    };
    let processes = BTreeMap::from([("a".to_owned(), reported("a", 30)), ("b".to_owned(), reported("b", 1))]);
    let lints = check(&Snapshot { processes: Arc::new(processes), ..Snapshot::default() }, 0);
    assert_eq!(lints[0].title, "31 holds of kind lock held far longer than usual; the median is 10 ms");
    assert_eq!(lints[0].names, ["prod:a0", "prod:b0", "prod:a1", "prod:a2", "prod:a3"]);
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
