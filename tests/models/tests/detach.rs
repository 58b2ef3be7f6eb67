//! A hold is handed over to another process: at most one process believes at a time, and only one
//! attaches. One test for each rule switches it off.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest path to each violation.

use std::collections::BTreeSet;
use std::time::Instant;

use redgrid_models::detach::{DETACHED, Detach, FREE_AGAIN, IS_HELD, ONCE, ONE_BELIEVES, Rules};
use stateright::{Checker, HasDiscoveries, Model};

/// Two processes that attach, one loss, and enough ticks for a lease of each process.
const TWO: Detach = Detach { rules: Rules::ALL, ticks: 8, others: 2, losses: 1 };

#[test]
fn at_most_one_process_believes_and_one_attaches() {
    let began = Instant::now();
    let checker = TWO.checker().threads(2).spawn_bfs().join();
    println!("{} states, {:.1} s", checker.unique_state_count(), began.elapsed().as_secs_f32());
    let mut found = checker.discoveries();
    for name in [DETACHED, FREE_AGAIN] {
        assert!(found.contains_key(name), "`{name}` was never reached");
    }
    for name in [ONE_BELIEVES, IS_HELD, ONCE] {
        if let Some(path) = found.remove(name) {
            panic!("`{name}` is violated by {path}");
        }
    }
}

/// Defines one test per rule: its name, the rule that is off, the violated property.
macro_rules! without {
    ($($test:ident: $rule:ident breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(stringify!($test), Detach { rules: Rules { $rule: false, ..Rules::ALL }, ..TWO }, $property);
        }
    )+};
}

without! {
    believed_after_it_was_detached: stops_believing breaks ONE_BELIEVES;
    detached_while_a_copy_may_come: waits_for_late_copies breaks ONCE;
    late_copies_executed: refuses_late breaks ONCE;
    attached_from_any_holder: compares_the_field breaks ONE_BELIEVES;
    counted_from_the_answer: counts_from_sending breaks IS_HELD;
}

/// Explores until `property` is violated. Fails if it is not.
fn breaks(name: &str, model: Detach, property: &'static str) {
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    let path = checker.discovery(property).unwrap_or_else(|| panic!("`{property}` holds without the rule"));
    println!("    `{property}` violated by {:?}", path.into_actions());
}
