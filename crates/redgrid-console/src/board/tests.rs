use std::sync::Arc;

use redgrid_core::report::{HeldReport, WaitReport};

use super::*;

/// A client of redgrid, and one of Redisson.
const OWN: &str = "0f8fad5b-d9cb-869f-a165-70867728950e";
const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// Another client of redgrid.
const OTHER: &str = "1f8fad5b-d9cb-869f-a165-70867728950e";

fn found(client: &str, seen_at: u64) -> Found {
    let holder = Some((client.to_owned(), 7));
    Found { kind: ObjectKind::Lock, holder, seen: Seen::first(seen_at, Some(60_000)) }
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
    Sources { found: &found, searched_since, living, processes: &processes }.board().rows
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
fn a_reported_name_is_not_the_id_of_another_one() {
    let reporter = process(&[("\0bytes:ff", 7)], &[("\0bytes:ff", 1)], 1_000);
    let rows = rows(&[], None, &living(&[OWN], 1_000), &[(OWN, reporter)]);
    assert_eq!((rows.len(), &rows[0].name), (1, &crate::object_name::id_of(b"\0bytes:ff")));
}

#[test]
fn two_readers_that_came_after_the_search_are_both_listed() {
    let mut reader = found(JAVA, 500);
    reader.kind = ObjectKind::ReadWriteLock;
    let processes = [(OWN, process(&[("a", 7)], &[], 1_000)), (OTHER, process(&[("a", 8)], &[], 1_000))];
    let shared = rows(&[("a", reader)], None, &living(&[OWN, OTHER], 5_000), &processes);
    assert_eq!(shared[0].holders.len(), 3);
    let passed_on = rows(&[("a", found(JAVA, 500))], None, &living(&[OWN, OTHER], 5_000), &processes[..1]);
    assert_eq!(passed_on[0].holders.len(), 1);
}

#[test]
fn a_holder_is_followed_from_search_to_search() {
    let list = living(&[OWN], 5);
    let again = found(OWN, 20).after(Some(&found(OWN, 10)), &list);
    assert_eq!((again.seen.first_at, again.seen.last_at), (10, 20));
    assert_eq!(found(JAVA, 40).after(Some(&again), &list).seen.first_at, 40);
}

#[test]
fn the_last_report_of_a_client_that_has_left_names_its_process() {
    let mut left = process(&[("a", 7)], &[("b", 3)], 900);
    left.left_at = Some(2_000);
    let rows = rows(&[("a", found(OWN, 1_000))], Some(950), &living(&[], 5_000), &[(OWN, left)]);
    let holder = &rows[0].holders[0];
    assert_eq!((rows.len(), holder.process.is_some(), holder.label.as_deref()), (1, true, Some("nightly")));
}

#[test]
fn what_a_client_held_when_it_left_is_not_listed_unless_it_was_found() {
    let mut left = process(&[("a", 7), ("b", 8)], &[], 900);
    left.left_at = Some(2_000);
    let processes = [(OWN, left)];
    let once = living(&[], 2_000);
    // The client may reconnect.
    assert_eq!(rows(&[], None, &once, &processes).len(), 2);
    let mut twice = once.clone();
    twice.answered(Living::of(Vec::new(), true).after(&once, 4_000), 4_000);
    assert!(rows(&[], None, &twice, &processes).is_empty());
    // A dead client keeps its lock. Before it left, the lock may have been its own, too.
    for (at, state) in [(1_999, State::Unknown), (2_000, State::Gone)] {
        let kept = Found { seen: Seen::first(1_000, Some(60_000)), ..found(OWN, 0) };
        let kept = Found { seen: kept.seen.again(at, Some(60_000), Presence::Unknown), ..kept };
        let listed = rows(&[("a", kept)], None, &twice, &processes);
        assert_eq!((listed.len(), listed[0].holders.len(), listed[0].holders[0].state), (1, 1, state), "{at}");
        assert_eq!(listed[0].holders[0].label.as_deref(), Some("nightly"));
    }
}

#[test]
fn many_holders_of_one_lock_are_counted() {
    let ids: Vec<String> = (0..50).map(|nth| format!("0f8fad5b-d9cb-869f-a165-{nth:012}")).collect();
    let numbers: Vec<(&str, u64)> = (0..500).map(|number| ("a", number)).collect();
    let processes: Vec<(&str, Process)> = ids.iter().map(|id| (id.as_str(), process(&numbers, &[], 1_000))).collect();
    let list = living(&ids.iter().map(String::as_str).collect::<Vec<_>>(), 1_000);
    let began = std::time::Instant::now();
    let rows = rows(&[], None, &list, &processes);
    assert_eq!((rows.len(), rows[0].holders.len(), rows[0].holder_count()), (1, MOST_HOLDERS, 25_000));
    assert_eq!(rows[0].states, BTreeMap::from([(State::Alive, 25_000)]));
    // With a search through all holders for each of them, it takes half a minute.
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn forged_reports_are_read_up_to_a_limit() {
    let ids: Vec<String> = (0..110).map(|nth| format!("0f8fad5b-d9cb-869f-a165-{nth:012}")).collect();
    let held =
        |nth: usize| (0..500).map(|number| held_report(&format!("{}:{number}", nth % 10), 1)).collect::<Vec<_>>();
    let reported = |nth: usize| {
        let mut report = ClientReport::default();
        report.held = held(nth);
        Process { report: Some((Arc::new(report), 1_000)), ..Process::default() }
    };
    let processes = ids.iter().enumerate().map(|(nth, id)| (id.clone(), reported(nth))).collect();
    let sources =
        Sources { found: &BTreeMap::new(), searched_since: None, living: &living(&[], 1), processes: &processes };
    let board = sources.board();
    let holders: u64 = board.rows.iter().map(LockRow::holder_count).sum();
    assert_eq!((board.rows.len(), holders, board.is_cut), (5_000, 50_000, true));
}
