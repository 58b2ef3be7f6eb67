//! The read-write lock: every schedule within the bounds keeps what it promises, and each rule is
//! needed.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest way to each violation.

use std::time::Instant;

use redgrid_models::read_write::{
    Bounds, CONVERTED, DOWNGRADED, EXCLUSIVE, OWNED, ReadWrite, Rules, SHARED, STEPS_BACK, TOLD,
};
use stateright::{Checker, HasDiscoveries, Model};

const KEPT: [&str; 4] = [EXCLUSIVE, STEPS_BACK, TOLD, OWNED];

/// Three clients in good weather.
const CALM: ReadWrite =
    ReadWrite { rules: Rules::ALL, bounds: Bounds { processes: 3, asks: 5, losses: 0, crashes: 0, expiries: 0 } };
/// Two losses, a crash and a lease that runs out.
const STORM: ReadWrite =
    ReadWrite { bounds: Bounds { processes: 3, asks: 3, losses: 2, crashes: 1, expiries: 1 }, ..CALM };

#[test]
fn in_good_weather_all_is_kept() {
    holds("calm", CALM, &[SHARED, CONVERTED, DOWNGRADED]);
}

#[test]
fn losses_a_crash_and_an_expiry_change_nothing() {
    holds("storm", STORM, &[SHARED, CONVERTED, DOWNGRADED]);
}

#[test]
fn two_clients_with_more_to_do() {
    let bounds = Bounds { processes: 2, asks: 4, losses: 1, crashes: 1, expiries: 1 };
    holds("two clients", ReadWrite { bounds, ..CALM }, &[SHARED, CONVERTED, DOWNGRADED]);
}

/// A test per rule: its name, the configuration, the rule that is off, the property that is
/// violated.
macro_rules! without {
    ($($test:ident: $model:expr, $rule:ident breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(stringify!($test), ReadWrite { rules: Rules { $rule: false, ..Rules::ALL }, ..$model }, $property);
        }
    )+};
}

without! {
    handed_on_with_a_reader_inside: CALM, keeps_what_is_read_under breaks EXCLUSIVE;
    asked_to_write_while_shared: CALM, asks_alone breaks EXCLUSIVE;
    shared_while_asking_to_write: CALM, shares_no_more breaks EXCLUSIVE;
    one_of_two_readers_writes: CALM, only_reader_writes breaks EXCLUSIVE;
    readers_do_not_step_back: CALM, steps_back breaks STEPS_BACK;
    readers_that_came_first_step_back: CALM, first_come breaks TOLD;
    downgraded_in_silence: CALM, downgrade_tells breaks TOLD;
    left_in_silence: CALM, leaving_tells breaks TOLD;
    lifetime_cut_by_a_release: STORM, keeps_the_longest breaks EXCLUSIVE;
    believed_too_long: STORM, stops_in_time breaks EXCLUSIVE;
    late_copies_are_taken: STORM, refuses_late breaks OWNED;
}

/// Explores every state and expects no violation, and every one of `reached`.
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
    let way = found.unwrap_or_else(|| panic!("without its rule, `{property}` still holds"));
    println!("{name}: {:?}", way.into_actions());
}
