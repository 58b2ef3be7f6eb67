//! Fairness between processes on a simulated network, where only sleeping takes time. `cargo xtask
//! fairness` runs the same contests with real servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::contest::contest;
use redgrid_tests::simulated_network::{Plan, SimulatedServer, Witness, World};
use redgrid_tests::{SOON, sections_of_length};

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(3);

/// Seeds of the network's delays.
const SEEDS: u64 = 5;

/// Checks nothing.
struct NoChecks;

impl Witness for NoChecks {}

/// Returns clients of one server, which runs as long as the runtime.
async fn clients(seed: u64, count: usize) -> Vec<Client> {
    let world = World::new(Plan::near(seed, TIMEOUT), Arc::new(NoChecks));
    tokio::spawn(Arc::clone(&world).run());
    let mut clients = Vec::new();
    for _ in 0..count {
        let clock = Clock::runtime();
        let config = Config::single("near:1").expect("an address").response_timeout(TIMEOUT);
        let server = SimulatedServer::new(Arc::clone(&world), clock.clone(), TIMEOUT);
        let client = Client::over_one(Arc::new(server), config, clock).expect("a client");
        // The client is connected after this.
        Lock::new(&client, "warm").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
        clients.push(client);
    }
    clients
}

#[tokio::test(start_paused = true)]
async fn three_processes_have_equal_shares() {
    for seed in 0..SEEDS {
        for (tasks, section, turns) in [(16, 1, 500), (1, 1, 3000), (16, 5, 500), (1, 5, 500)] {
            let outcome = contest(&clients(seed, 3).await, tasks, section * MS, turns).await;
            let spread = outcome.spread();
            assert!(spread <= 1.25, "{seed}, {tasks} tasks, {section} ms: {spread:.2}: {outcome:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_process_waits_longer_than_a_window_of_each_of_the_others() {
    for seed in 0..SEEDS {
        for (processes, tasks, section) in [(2, 16, 1), (8, 16, 1), (16, 8, 5)] {
            contest(&clients(seed, processes).await, tasks, section * MS, 230).await.assert_each_in_turn();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_sections_longer_than_the_window_processes_alternate() {
    for seed in 0..SEEDS {
        let outcome = contest(&clients(seed, 2).await, 4, 20 * MS, 100).await;
        assert!(outcome.turns * 10 >= outcome.sections() * 9, "{outcome:?}");
    }
}

/// With a listener, each window of 10 ms is followed by a quiet period of some milliseconds and a
/// probe, so more than half of the time is left for sections.
#[tokio::test(start_paused = true)]
async fn a_listener_that_never_acquires_costs_no_more_than_the_probe() {
    for seed in 0..SEEDS {
        let clients = clients(seed, 2).await;
        let alone = sections_of(&clients[0]).await;
        let watch = clients[1].watch("redisson_lock__channel:{contested}".into(), Bytes::from_static(b"contested"));
        wait_until(SOON, async || watch.is_active()).await;
        let listened_to = sections_of(&clients[0]).await;
        assert!(listened_to * 2 >= alone, "{seed}: {listened_to} against {alone} sections");
    }
}

/// Returns how many critical sections of a millisecond eight tasks of a process have in a second.
async fn sections_of(client: &Client) -> u64 {
    sections_of_length(MS, client, 8, "contested", 1000 * MS).await
}
