//! Turns at the end of a hand-over window: the number of times a process is passed over is bounded.
//! One test for each rule switches it off.
//!
//! Run with `--nocapture` to see states, seconds, and the shortest path to each violation.

use std::collections::BTreeSet;
use std::time::Instant;

use redgrid_models::turns::{ALL_SERVED, BOUNDED, Bounds, PROGRESS, Rules, SILENCE, Turns};
use stateright::{Checker, HasDiscoveries, Model};

/// Three processes that join one by one. With a wrong rule, the number of hand-over windows that
/// pass a process over is unbounded; a bound of ten is enough to show this.
const THREE: Turns = Turns {
    rules: Rules::ALL,
    bounds: Bounds { processes: 3, passed_over: 10, all_wait: false, leaves: false, losses: 0, crashes: 0, slow: 0 },
};
/// Processes may release without waiters, and come back.
const LEAVING: Turns = with(Bounds { leaves: true, ..THREE.bounds });

const fn with(bounds: Bounds) -> Turns {
    Turns { bounds, ..THREE }
}

/// Before a process has its turn, each other process has at most one hand-over window.
#[test]
fn processes_that_all_wait_take_turns() {
    for processes in 2..=8 {
        let bounds = Bounds { processes, passed_over: processes - 1, all_wait: true, ..THREE.bounds };
        holds("all wait", with(bounds), &[BOUNDED, PROGRESS], &[ALL_SERVED]);
    }
}

/// A message that is read one hand-over window too late delays a process by at most one more round.
#[test]
fn slow_messages_cost_a_round() {
    for processes in 3..=5 {
        let bounds = Bounds { processes, passed_over: 2 * processes - 3, all_wait: true, slow: 2, ..THREE.bounds };
        holds("slow messages", with(bounds), &[BOUNDED, PROGRESS], &[ALL_SERVED]);
    }
}

/// A process that released before the others joined waits for fewer messages, until every process
/// has had a turn.
#[test]
fn processes_that_come_one_by_one_take_turns() {
    for processes in 2..=5 {
        let bounds = Bounds { processes, passed_over: processes * (processes - 1) / 2, ..THREE.bounds };
        holds("one by one", with(bounds), &[BOUNDED, PROGRESS], &[ALL_SERVED]);
    }
}

#[test]
fn processes_that_leave_and_come_back_take_turns() {
    for (processes, passed_over) in [(2, 1), (3, 4), (4, 8)] {
        let model = with(Bounds { processes, passed_over, ..LEAVING.bounds });
        holds("leaving", model, &[BOUNDED, PROGRESS], &[ALL_SERVED, SILENCE]);
    }
}

#[test]
fn a_lost_message_and_a_crash_strand_no_waiter() {
    let model = with(Bounds { losses: 2, crashes: 1, ..LEAVING.bounds });
    holds("losses and a crash", model, &[PROGRESS], &[SILENCE]);
}

/// Defines one test per rule: its name, the configuration, the rule that is off, the violated
/// property.
macro_rules! without {
    ($($test:ident: $model:expr, $rule:ident breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(stringify!($test), Turns { rules: Rules { $rule: false, ..Rules::ALL }, ..$model }, $property);
        }
    )+};
}

without! {
    tried_at_once: THREE, lets_others_go_first breaks BOUNDED;
    raced_after_the_own_message: THREE, counts_the_subscribers breaks BOUNDED;
    turn_ended_by_a_fixed_time: THREE, only_silence_ends_a_turn breaks BOUNDED;
    turn_without_silence: LEAVING, silence_ends_a_turn breaks PROGRESS;
    turn_forgotten_without_waiters: LEAVING, turn_outlives_the_queue breaks BOUNDED;
    turn_forgotten_within_a_window: LEAVING, turn_outlives_a_window breaks BOUNDED;
}

/// Explores every state. Fails if a property of `kept` is violated, or a property of `reached` is
/// not reached.
fn holds(name: &str, model: Turns, kept: &[&str], reached: &[&str]) {
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    let processes = model.bounds.processes;
    println!("{name}, {processes} processes: {} states, {seconds:.1} s", checker.unique_state_count());
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
fn breaks(name: &str, model: Turns, property: &'static str) {
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    let path = checker.discovery(property).unwrap_or_else(|| panic!("`{property}` holds without the rule"));
    println!("    `{property}` violated by {:?}", path.into_actions());
}
