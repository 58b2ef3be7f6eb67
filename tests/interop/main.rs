//! Runs Redisson in another process on the same server as redgrid. Each side must see the locks and
//! objects of the other.
//!
//! Each scenario runs against both lines of Redisson that are in use, and needs Java and Maven.
//! Without them, every scenario prints SKIPPED and counts as ignored.

mod actor;
mod fixture;
mod permits;
mod program;
mod redisson;

mod adders;
mod bits;
mod bits_counts;
mod caches;
mod caches_changes;
mod caches_native;
mod codecs;
mod crowd;
mod deaths;
mod exclusion;
mod fair;
mod fenced;
mod force;
mod handover;
mod ids;
mod keys;
mod latch;
mod latch_ends;
mod leases;
mod lists;
mod local_maps;
mod local_maps_strategies;
mod map_keys;
mod multi;
mod multimaps;
mod multimaps_whole;
mod numbers;
mod numbers_real;
mod operators;
mod queues;
mod queues_shared;
mod rates;
mod rates_changes;
mod read_write;
mod read_write_leases;
mod reentry;
mod scripts;
mod semaphore;
mod semaphore_crowds;
mod semaphore_ids;
mod semaphore_leases;
mod semaphore_wire;
mod sets;
mod sets_ranges;
mod spin;
mod streams;
mod streams_shared;
mod table;
mod topics;
mod topics_shared;
mod traces;
mod transactions;
mod values;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Handle, Runtime};

use fixture::{Fixture, Line, Scenario};
use program::Program;

/// The newest release of each line that is in use.
const VERSIONS: [&str; 2] = ["4.7.0", "3.52.0"];

/// Ends a scenario that hangs. Far longer than a scenario takes on a machine with eight times the
/// load.
const PATIENCE: Duration = Duration::from_secs(900);

/// Scenarios mostly wait for the server, so more of them run at a time than there are cores.
const AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(AT_A_TIME);
    let runtime = Runtime::new().expect("a runtime starts");
    let scenarios = [
        adders::scenarios(),
        bits::scenarios(),
        bits_counts::scenarios(),
        codecs::scenarios(),
        crowd::scenarios(),
        deaths::scenarios(),
        exclusion::scenarios(),
        fair::scenarios(),
        fenced::scenarios(),
        force::scenarios(),
        handover::scenarios(),
        ids::scenarios(),
        latch::scenarios(),
        latch_ends::scenarios(),
        leases::scenarios(),
        lists::scenarios(),
        local_maps::scenarios(),
        local_maps_strategies::scenarios(),
        map_keys::scenarios(),
        multi::scenarios(),
        caches::scenarios(),
        caches_changes::scenarios(),
        caches_native::scenarios(),
        multimaps::scenarios(),
        multimaps_whole::scenarios(),
        streams::scenarios(),
        streams_shared::scenarios(),
        numbers::scenarios(),
        numbers_real::scenarios(),
        operators::scenarios(),
        queues::scenarios(),
        queues_shared::scenarios(),
        rates::scenarios(),
        rates_changes::scenarios(),
        read_write::scenarios(),
        read_write_leases::scenarios(),
        reentry::scenarios(),
        scripts::scenarios(),
        semaphore::scenarios(),
        semaphore_crowds::scenarios(),
        semaphore_ids::scenarios(),
        semaphore_leases::scenarios(),
        semaphore_wire::scenarios(),
        sets::scenarios(),
        sets_ranges::scenarios(),
        transactions::scenarios(),
        spin::scenarios(),
        topics::scenarios(),
        topics_shared::scenarios(),
        traces::scenarios(),
        values::scenarios(),
        keys::scenarios(),
    ]
    .concat();
    let mut trials = vec![table::trial(&scenarios, &VERSIONS)];
    for version in VERSIONS {
        let names: Vec<_> = scenarios.iter().map(|one| full_name(one, version)).collect();
        // Nothing is downloaded if the tests are only listed, or if the filter selects none of
        // them.
        let wanted = !args.list && args.filter.as_ref().is_none_or(|part| names.iter().any(|name| name.contains(part)));
        let line =
            wanted.then(|| runtime.block_on(Program::build(version)).map(|program| Arc::new(Line::new(program))));
        let (line, missing) = line.transpose().map_or_else(|missing| (None, Some(missing)), |line| (line, None));
        for (scenario, name) in scenarios.iter().zip(names) {
            if let Some(missing) = &missing {
                eprintln!("SKIPPED {name}: {missing}");
            }
            let (line, scenario, on) = (line.clone(), scenario.clone(), runtime.handle().clone());
            let trial = Trial::test(name, move || run(&on, line, scenario));
            trials.push(trial.with_ignored_flag(missing.is_some()));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn full_name(scenario: &Scenario, version: &str) -> String {
    format!("{}::redisson_{}", scenario.name, version.replace('.', "_"))
}

fn run(on: &Handle, line: Option<Arc<Line>>, scenario: Scenario) -> Result<(), Failed> {
    let line = line.ok_or("Redisson is missing")?;
    on.block_on(async {
        let scene = async { (scenario.run)(Fixture::of(line, scenario.name).await).await };
        // Thousands of lost answers, if they are requested, take more time.
        let patience = PATIENCE + Duration::from_millis(100 * semaphore_crowds::lost_answers());
        tokio::time::timeout(patience, scene).await.map_err(|_| Failed::from(format!("not done after {patience:?}")))
    })
}
