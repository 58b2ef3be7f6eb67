//! The configurations, and functions that explore one of them.

use std::collections::BTreeSet;
use std::time::Instant;

use redgrid_models::two_level::{AcquireOptions, Bounds, Mishaps, Rules, Timing, TwoLevel};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// The task requests a lease of two ticks.
pub(crate) const SHORT: AcquireOptions = AcquireOptions { lease: Some(2), at_least: 0, by_holder: false };
/// The task requests a lease of three ticks.
pub(crate) const LONG: AcquireOptions = AcquireOptions { lease: Some(3), at_least: 0, by_holder: false };
/// The task requests no lease.
pub(crate) const PLAIN: AcquireOptions = AcquireOptions { lease: None, at_least: 0, by_holder: false };
/// The acquire is made by the one holder of the process.
pub(crate) const HOLDER: AcquireOptions = AcquireOptions { lease: Some(2), at_least: 0, by_holder: true };
/// The task keeps the name for longer than its lease.
pub(crate) const JOB: AcquireOptions = AcquireOptions { lease: Some(1), at_least: 3, by_holder: false };

/// No faults, and any number of acquires.
pub(crate) const NO_MISHAPS: Mishaps = Mishaps { losses: 0, crashes: 0, takeovers: 0, acquires: u8::MAX };

/// Two processes with two tasks each. A tick is long, so tokens are not compared.
pub(crate) const PAIR: TwoLevel = TwoLevel {
    rules: Rules::ALL,
    timing: Timing { lease: 2, handover_window: 1, window: 1, tokens: false },
    bounds: Bounds {
        processes: 2,
        tasks: 2,
        requests: &[SHORT],
        cancels: true,
        reentry: false,
        repeats: false,
        mishaps: NO_MISHAPS,
    },
};

/// Two processes. A tick is the unit of tokens, which are compared.
pub(crate) const TOKENS: TwoLevel = TwoLevel {
    timing: Timing { lease: 1, handover_window: 3, window: 0, tokens: true },
    bounds: Bounds { cancels: false, requests: &[PLAIN], ..PAIR.bounds },
    ..PAIR
};

/// Limit of states in the search for a violation: several times the number for the rarest
/// violation. Without a limit, the search for a superfluous rule would explore every state.
const MOST_STATES: usize = 50_000_000;

/// Returns the configuration with these requests and mishaps.
pub(crate) const fn with(model: TwoLevel, requests: &'static [AcquireOptions], mishaps: Mishaps) -> TwoLevel {
    TwoLevel { bounds: Bounds { requests, mishaps, ..model.bounds }, ..model }
}

/// Explores every state. Fails if a property is violated, or a property of `reached` is not
/// reached.
pub(crate) fn holds(name: &str, model: TwoLevel, reached: &[&str]) {
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    println!("{name}: {} states, depth {}, {seconds:.1} s", checker.unique_state_count(), checker.max_depth());
    let mut found = checker.discoveries();
    for property in model.properties() {
        if property.expectation == Expectation::Always
            && let Some(path) = found.remove(property.name)
        {
            println!("{:#?}", path.last_state());
            panic!("`{}` is violated by {:?}", property.name, path.into_actions());
        }
    }
    for name in reached {
        assert!(found.contains_key(name), "`{name}` was never reached");
    }
}

/// Explores until `property` is violated. Fails if it is not.
pub(crate) fn breaks(name: &str, model: TwoLevel, property: &'static str) {
    let began = Instant::now();
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).target_state_count(MOST_STATES).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    let found = checker.discovery(property);
    println!("{name}: {} states of {} generated, {seconds:.1} s", checker.unique_state_count(), checker.state_count());
    let path = found.unwrap_or_else(|| panic!("`{property}` holds without the rule"));
    println!("    `{property}` violated by {:?}", path.into_actions());
}
