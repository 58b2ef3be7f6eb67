//! The read-write lock keeps its properties in every schedule within the bounds, and every rule is
//! necessary.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest path to each violation.

use std::time::Instant;

use redgrid_models::read_write::{
    Bounds, CONVERTED, DOWNGRADED, EXCLUSIVE, OWNED, ReadWrite, Rules, SHARED, STEPS_BACK, WOKEN,
};
use stateright::{Checker, HasDiscoveries, Model};

const KEPT: [&str; 4] = [EXCLUSIVE, STEPS_BACK, WOKEN, OWNED];

/// Three clients without faults.
const CALM: ReadWrite =
    ReadWrite { rules: Rules::ALL, bounds: Bounds { processes: 3, requests: 5, losses: 0, crashes: 0, expiries: 0 } };
/// Two losses, a crash and an expired lease.
const STORM: ReadWrite =
    ReadWrite { bounds: Bounds { processes: 3, requests: 3, losses: 2, crashes: 1, expiries: 1 }, ..CALM };

#[test]
fn without_faults_every_property_holds() {
    holds("calm", CALM, &[SHARED, CONVERTED, DOWNGRADED]);
}

#[test]
fn losses_a_crash_and_an_expiry_change_nothing() {
    holds("storm", STORM, &[SHARED, CONVERTED, DOWNGRADED]);
}

#[test]
fn two_clients_with_more_requests() {
    let bounds = Bounds { processes: 2, requests: 4, losses: 1, crashes: 1, expiries: 1 };
    holds("two clients", ReadWrite { bounds, ..CALM }, &[SHARED, CONVERTED, DOWNGRADED]);
}

/// Defines one test per rule: its name, the configuration, the rule that is off, the violated
/// property.
macro_rules! without {
    ($($test:ident: $model:expr, $rule:ident breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(stringify!($test), ReadWrite { rules: Rules { $rule: false, ..Rules::ALL }, ..$model }, $property);
        }
    )+};
}

without! {
    handed_over_with_a_reader_inside: CALM, keeps_a_write_with_a_read breaks EXCLUSIVE;
    upgraded_while_shared: CALM, upgrades_alone breaks EXCLUSIVE;
    shared_during_an_upgrade: CALM, stops_sharing breaks EXCLUSIVE;
    one_of_two_readers_writes: CALM, only_reader_upgrades breaks EXCLUSIVE;
    readers_do_not_step_back: CALM, steps_back breaks STEPS_BACK;
    readers_that_came_first_step_back: CALM, first_come breaks WOKEN;
    downgraded_without_a_message: CALM, downgrade_wakes breaks WOKEN;
    gave_up_without_a_message: CALM, leaving_wakes breaks WOKEN;
    lifetime_cut_by_a_release: STORM, keeps_the_longest_lease breaks EXCLUSIVE;
    believed_too_long: STORM, stops_in_time breaks EXCLUSIVE;
    late_copies_are_executed: STORM, refuses_late breaks OWNED;
}

/// Explores every state. Fails if a property is violated, or a property of `reached` is not
/// reached.
fn holds(name: &str, model: ReadWrite, reached: &[&str]) {
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, {:.1} s", checker.unique_state_count(), began.elapsed().as_secs_f32());
    let found = checker.discoveries();
    for name in reached {
        assert!(found.contains_key(name), "`{name}` was never reached");
    }
    for name in KEPT {
        assert!(
            !found.contains_key(name),
            "`{name}` is violated:\n{:?}",
            found.get(name).map(|path| path.clone().into_actions())
        );
    }
}

fn breaks(name: &str, model: ReadWrite, property: &'static str) {
    let until = HasDiscoveries::AnyOf(std::collections::BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    let found = checker.discoveries().remove(property);
    let path = found.unwrap_or_else(|| panic!("without its rule, `{property}` still holds"));
    println!("{name}: {:?}", path.into_actions());
}
