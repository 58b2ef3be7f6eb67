//! The queue of a fair lock keeps its order, and every client is served. One test for each rule
//! switches it off.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest path to each violation.

use std::collections::BTreeSet;
use std::time::Instant;

use redgrid_models::fair::{BOTH, CLEAN, DEAD_REMOVED, Fair, KEPT, ONE, ORDER, Rules, SERVED};
use stateright::{Checker, HasDiscoveries, Model};

/// Two clients of ours and one of Redisson.
const MIXED: Fair =
    Fair { rules: Rules::ALL, ours: 2, theirs: 1, losses: 1, crashes: 0, leaves: 1, deletions: 0, calm: 2, ticks: 5 };
const DYING: Fair = Fair { losses: 0, crashes: 1, leaves: 0, ticks: 14, ..MIXED };
const OURS: Fair = Fair { ours: 3, theirs: 0, crashes: 1, leaves: 0, ticks: 6, ..MIXED };
const THEIR_TWO: Fair = Fair { ours: 1, theirs: 2, losses: 0, crashes: 1, leaves: 0, calm: 5, ticks: 18, ..MIXED };
const LATE: Fair = Fair { calm: 3, ticks: 6, ..MIXED };
const DELETED: Fair = Fair { losses: 0, leaves: 0, deletions: 1, ..MIXED };

#[test]
fn our_clients_and_redissons_are_served_in_order() {
    holds("mixed", MIXED, &[ORDER, KEPT, ONE, CLEAN, SERVED], &[BOTH]);
}

#[test]
fn a_mixed_queue_passes_a_crash() {
    holds("dying", DYING, &[ORDER, KEPT, ONE, CLEAN, SERVED], &[DEAD_REMOVED, BOTH]);
}

#[test]
fn our_queue_passes_a_crash_and_a_lost_message() {
    holds("ours", OURS, &[ORDER, KEPT, ONE, CLEAN, SERVED], &[DEAD_REMOVED]);
}

#[test]
fn a_place_of_ours_between_two_of_redissons_is_kept() {
    holds("their two", THEIR_TWO, &[ORDER, KEPT, ONE, CLEAN, SERVED], &[BOTH]);
}

#[test]
fn a_place_that_was_deleted_is_taken_again() {
    holds("deleted", DELETED, &[KEPT, ONE, CLEAN, SERVED], &[BOTH]);
}

/// Defines one test per rule: its name, the configuration, the rule that is off, the violated
/// property.
macro_rules! without {
    ($($test:ident: $model:expr, $rule:ident breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(stringify!($test), Fair { rules: Rules { $rule: false, ..Rules::ALL }, ..$model }, $property);
        }
    )+};
}

without! {
    a_field_for_each_try: MIXED, one_field breaks ONE;
    a_late_request_enqueues: LATE, not_after breaks CLEAN;
    gives_up_only_once: MIXED, gives_up_twice breaks CLEAN;
    any_client_that_finds_it_free: MIXED, only_the_head breaks ORDER;
    the_dead_stay: OURS, removes_the_dead breaks SERVED;
    their_dead_stay: THEIR_TWO, removes_theirs breaks SERVED;
    scores_are_not_raised: THEIR_TWO, raises_scores breaks KEPT;
    messages_only: MIXED, checks_by_itself breaks SERVED;
    removed_for_good: DELETED, enqueues_again breaks SERVED;
}

/// Explores every state. Fails if a property of `kept` is violated, or a property of `reached` is
/// not reached.
fn holds(name: &str, model: Fair, kept: &[&str], reached: &[&str]) {
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    println!("{name}: {} states, {seconds:.1} s", checker.unique_state_count());
    let mut found = checker.discoveries();
    for name in reached {
        assert!(found.contains_key(name), "`{name}` was never reached");
    }
    for name in kept {
        if let Some(path) = found.remove(name) {
            panic!("`{name}` is violated by {path}");
        }
    }
}

/// Explores until `property` is violated. Fails if it is not.
fn breaks(name: &str, model: Fair, property: &'static str) {
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    let path = checker.discovery(property).unwrap_or_else(|| panic!("`{property}` holds without the rule"));
    println!("    `{property}` violated by {:?}", path.into_actions());
}
