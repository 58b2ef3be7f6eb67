//! The configurations, and functions that explore one of them.

use std::collections::BTreeSet;
use std::time::Instant;

use redgrid_models::one_level::model::Mishaps;
use redgrid_models::one_level::{Bounds, OneLevel, Rules, Timing};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Two clients with every operation, two requests in flight, two lost connections. This
/// configuration shows most mistakes.
pub(crate) const PAIR: OneLevel = OneLevel {
    rules: Rules::ALL,
    timing: Timing { lease: 2, extends: &[1, 4], window: 1, margin: 0, offset_gap: 0 },
    bounds: Bounds {
        clients: 2,
        renewals: true,
        in_flight: 2,
        holds: 3,
        drop_idle_bytes: true,
        mishaps: Mishaps { losses: 2, attempts: 3, ..NO_MISHAPS },
    },
};

/// No faults.
pub(crate) const NO_MISHAPS: Mishaps =
    Mishaps { losses: 0, crashes: 0, slow_ticks: 0, fast_ticks: 0, deletions: 0, attempts: u8::MAX };

/// One client, and leases so long that a shortened one ends after the window. This configuration
/// shows mistakes with extends.
pub(crate) const ALONE: OneLevel = timed(
    bounded(PAIR, 1, 2, Mishaps { losses: 2, ..NO_MISHAPS }),
    Timing { lease: 4, extends: &[3], window: 1, margin: 0, offset_gap: 0 },
);

/// Limit of states in the search for a violation: several times the number for the rarest
/// violation. Without a limit, the search for a superfluous rule would explore every state.
const MOST_STATES: usize = 50_000_000;

/// Returns the configuration with other bounds.
pub(crate) const fn bounded(model: OneLevel, clients: u8, in_flight: u8, mishaps: Mishaps) -> OneLevel {
    OneLevel { bounds: Bounds { clients, in_flight, mishaps, ..model.bounds }, ..model }
}

/// Returns the configuration with other times.
pub(crate) const fn timed(model: OneLevel, timing: Timing) -> OneLevel {
    OneLevel { timing, ..model }
}

/// Explores every state. Fails if a property is violated, or a property of `reached` is not
/// reached.
pub(crate) fn holds(name: &str, model: OneLevel, reached: &[&str]) {
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    println!("{name}: {} states, depth {}, {seconds:.1} s", checker.unique_state_count(), checker.max_depth());
    let found = checker.discoveries();
    for property in model.properties() {
        if property.expectation == Expectation::Always {
            assert!(!found.contains_key(property.name), "`{}` is violated: {:?}", property.name, found[property.name]);
        }
    }
    for name in reached {
        assert!(found.contains_key(name), "`{name}` was never reached");
    }
}

/// Explores until `property` is violated. Fails if it is not.
pub(crate) fn breaks(name: &str, model: OneLevel, property: &'static str) {
    let began = Instant::now();
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(until).target_state_count(MOST_STATES).spawn_bfs().join();
    let seconds = began.elapsed().as_secs_f32();
    let found = checker.discovery(property);
    println!("{name}: {} states of {} generated, {seconds:.1} s", checker.unique_state_count(), checker.state_count());
    let path = found.unwrap_or_else(|| panic!("`{property}` holds without the rule"));
    println!("    `{property}` violated by {:?}", path.into_actions());
}
