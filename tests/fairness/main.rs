//! Fairness between processes on real servers, for `cargo xtask fairness`.
//!
//! The shares and turns hold on a machine without other load. `tests/simulated_network` runs the
//! same contests on a paused clock.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::config::SubscriptionMode;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, Replicated, Sentinels, wait_until};
use redgrid_tests::contest::{Outcome, contest};
use redgrid_tests::{SOON, client, sections, server};

/// One contest at a time: each measures time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const MS: Duration = Duration::from_millis(1);

/// Runs a contest of this many processes on the servers of `config`.
async fn contest_by(config: &Config, processes: usize, tasks: usize, section: Duration, turns: u64) -> Outcome {
    let _alone = ALONE.lock().await;
    let mut clients = Vec::new();
    for _ in 0..processes {
        let client = Client::connect(config.clone()).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        // After this request the server has cached the scripts, so that all clients can begin at
        // the same time.
        Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
        clients.push(client);
    }
    contest(&clients, tasks, section, turns).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_have_equal_shares() {
    let server = server().await;
    let config = Config::from_url(server.url()).unwrap();
    // With one task per process, a process does not listen while it holds the lock. The next
    // process and the number of its sections within a window are random, so the shares are equal
    // only in the long run. The spread exceeded 1.25 in 4 of 12 contests of 500 turns, and in none
    // of 12 contests of 2,000 turns. The highest spread of 12 contests of 4,000 turns was 1.10.
    // With sections of 5 ms, 500 turns are enough: the highest spread of 12 contests was 1.20.
    for (tasks, section, turns) in [(16, 0, 500), (1, 0, 4000), (16, 5, 500), (1, 5, 500)] {
        let outcome = contest_by(&config, 3, tasks, section * MS, turns).await;
        let spread = outcome.spread();
        assert!(spread <= 1.25, "{tasks} tasks, {section} ms: {spread:.2}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_waits_longer_than_a_window_of_each_of_the_others() {
    let server = server().await;
    let config = Config::from_url(server.url()).unwrap();
    for (processes, tasks, section) in [(2, 16, 0), (8, 16, 0), (16, 8, 5)] {
        contest_by(&config, processes, tasks, section * MS, 230).await.assert_each_in_turn();
    }
}

/// The primary does not count subscribers at a replica, and a replica notifies them later.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_the_same_where_a_replica_is_listened_to() {
    let replicated = Replicated::start(2).await.unwrap();
    let replicas = replicated.replicas().iter().map(|replica| replica.addr().to_string());
    let config = Config::master_slave(replicated.primary().addr().to_string(), replicas).unwrap();
    rounds_at_replicas(config, &[(2, 16), (3, 16), (8, 16)]).await;
    drop(replicated);
    let sentinels = Sentinels::start().await.unwrap();
    rounds_at_replicas(Config::from_url(sentinels.url()).unwrap(), &[(3, 16)]).await;
    drop(sentinels);
    let cluster = Cluster::start(3, 1).await.unwrap();
    rounds_at_replicas(Config::from_url(cluster.url()).unwrap(), &[(3, 16)]).await;
}

async fn rounds_at_replicas(config: Config, contests: &[(usize, usize)]) {
    let config = config.subscription_mode(SubscriptionMode::Replica).max_replica_lag(SOON);
    for (processes, tasks) in contests.iter().copied() {
        contest_by(&config, processes, tasks, Duration::ZERO, 230).await.assert_each_in_turn();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_sections_longer_than_the_window_processes_alternate() {
    let server = server().await;
    let outcome = contest_by(&Config::from_url(server.url()).unwrap(), 2, 4, 20 * MS, 100).await;
    assert!(outcome.turns * 10 >= outcome.sections() * 9, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_never_acquires_costs_no_more_than_the_probe() {
    let server = server().await;
    let client = client(&server).await;
    let _alone = ALONE.lock().await;
    let alone = sections(&client, 8, "contested", 400 * MS).await;
    // This client listens, and never acquires.
    let idle = redgrid_tests::client(&server).await;
    let watch = idle.watch("redisson_lock__channel:{contested}".into(), "contested".into());
    wait_until(SOON, async || watch.is_active()).await;
    let listened_to = sections(&client, 8, "contested", 400 * MS).await;
    // Each window of 10 ms is followed by a quiet period of 2 to 4 ms and a probe of 1 or 2 ms, so
    // more than half of the time is left for sections.
    assert!(listened_to * 2 >= alone, "{listened_to} against {alone} sections");
}
