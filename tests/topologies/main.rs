//! The contract of every topology, from one definition, and the behaviour when nodes die or slots
//! move.

mod adders;
mod around;
mod atomics;
mod barriers;
mod bits;
mod buckets;
mod caches;
mod contract;
mod durable;
mod events;
mod failover;
mod fixture;
mod ids;
mod ids_failover;
mod keys;
mod keys_moving;
mod kinds;
mod lag;
mod latch;
mod latch_failover;
mod listening;
mod lists;
mod local_maps;
mod maps;
mod migration;
mod migration_collections;
mod migration_waiters;
mod multimaps;
mod native;
mod object_events;
mod pipe;
mod queue_failover;
mod queues;
mod rates;
mod rates_failover;
mod read_write;
mod reliable;
mod reports;
mod scripts;
mod semaphores;
mod sets;
mod sharded;
mod stream_failover;
mod streams;
mod topics;
mod transactions;
mod unpolled;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use redgrid_testkit::ServerBinary;
use tokio::runtime::{Handle, Runtime};

use fixture::{Clause, Fixture, Shared, Topology, User};

/// Ends a scenario that hangs. Far longer than a scenario takes on a machine with eight times the
/// load.
const PATIENCE: Duration = Duration::from_secs(900);

/// Scenarios mostly wait for servers, so more of them run at a time than there are cores.
const AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(AT_A_TIME);
    let runtime = Runtime::new().expect("a runtime starts");
    let mut trials = Vec::new();
    for topology in Topology::ALL {
        let shared = Arc::new(Shared::new(topology, None));
        for scenario in [
            contract::scenarios(),
            kinds::scenarios(),
            atomics::scenarios(),
            ids::scenarios(),
            rates::scenarios(),
            adders::scenarios(),
            semaphores::scenarios(),
            read_write::scenarios(),
            around::scenarios(),
            latch::scenarios(),
            barriers::scenarios(),
            bits::scenarios(),
            buckets::scenarios(),
            scripts::scenarios(),
            maps::scenarios(),
            local_maps::scenarios(),
            object_events::scenarios(),
            keys::scenarios(),
            lists::scenarios(),
            reliable::scenarios(),
            reports::scenarios(),
            sets::scenarios(),
            sharded::scenarios(),
            caches::scenarios(),
            multimaps::scenarios(),
            native::scenarios(),
            streams::scenarios(),
            topics::scenarios(),
            transactions::scenarios(),
            queues::scenarios(),
        ]
        .concat()
        {
            trials.extend(trials_of(&scenario, &shared, &runtime, ""));
        }
        // Nothing in these scenarios depends on replicas or permissions.
        if matches!(topology, Topology::Single | Topology::Cluster) {
            let trials_there = unpolled::scenarios().into_iter();
            trials.extend(trials_there.map(|scenario| trial_of(&scenario, &shared, &runtime, User::Default, "")));
        }
    }
    // Commands that only newer servers know are tested on the newest server that is installed.
    let newest = ServerBinary::newest().ok();
    for topology in Topology::ALL {
        let shared = Arc::new(Shared::new(topology, newest.clone()));
        for scenario in native::scenarios() {
            let trials_there = trials_of(&scenario, &shared, &runtime, "::newest").into_iter();
            trials.extend(trials_there.map(|trial| trial.with_ignored_flag(newest.is_none())));
        }
    }
    let alone = [
        adders::failovers(),
        durable::scenarios(),
        events::scenarios(),
        failover::scenarios(),
        ids_failover::scenarios(),
        keys_moving::scenarios(),
        latch_failover::scenarios(),
        queue_failover::scenarios(),
        lag::scenarios(),
        listening::scenarios(),
        local_maps::local_maps_failover::scenarios(),
        migration::scenarios(),
        migration_collections::scenarios(),
        migration_waiters::scenarios(),
        object_events::object_events_alone::scenarios(),
        rates_failover::scenarios(),
        topics::topics_alone::scenarios(),
        sharded::sharded_alone::scenarios(),
        stream_failover::scenarios(),
        transactions::transactions_alone::scenarios(),
    ];
    for scenario in alone.concat() {
        let on = runtime.handle().clone();
        trials.push(Trial::test(scenario.name, move || run(&on, (scenario.run)())));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// Returns the trials of a scenario of the contract. One user has the permissions of the page about
/// permissions. A scenario that works with these permissions works with all of them. The scenarios
/// therefore run with all permissions only in a cluster. The scenarios with their own deployment
/// mostly use that user, as `behaviour` does.
fn trials_of(scenario: &Clause, shared: &Arc<Shared>, runtime: &Runtime, on: &str) -> Vec<Trial> {
    let default = (shared.topology() == Topology::Cluster).then_some((User::Default, ""));
    let users = [(User::Published, "::published_acl")].into_iter().chain(default);
    users.map(|(user, under)| trial_of(scenario, shared, runtime, user, &format!("{on}{under}"))).collect()
}

fn trial_of(scenario: &Clause, shared: &Arc<Shared>, runtime: &Runtime, user: User, on: &str) -> Trial {
    let (shared, handle, run_it, clause) = (Arc::clone(shared), runtime.handle().clone(), scenario.run, scenario.name);
    Trial::test(format!("{clause}::{}{on}", shared.topology()), move || {
        run(&handle, async {
            let fixture = Fixture::of(&shared, clause, user).await;
            let observer = fixture.observer.clone();
            run_it(fixture).await;
            if user == User::Published {
                let denied = Fixture::denied(&observer).await;
                assert!(denied.is_empty(), "{denied:#?}");
            }
        })
    })
}

fn run(on: &Handle, scene: impl Future<Output = ()>) -> Result<(), Failed> {
    on.block_on(async {
        let late = |_| Failed::from(format!("not done after {PATIENCE:?}"));
        tokio::time::timeout(PATIENCE, scene).await.map_err(late)
    })
}
