//! Barrier waiters after a failover.

use redgrid_barrier::{Barrier, DoubleBarrier, Event, Phaser};
use redgrid_core::Client;
use redgrid_testkit::{Cluster, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::process::{Other, Signal};

use super::{FAILOVER, LEASE};
use crate::fixture::{by_seeds, by_sentinels, connected, replicated};

/// Waits until `many` parties wait at a barrier, by the count of the server.
async fn wait_at(server: &RedisServer, name: &str, many: u64) {
    let (observer, key) = (server.observer().await.unwrap(), format!("redgrid_barrier_waiting:{{{name}}}"));
    wait_until(SOON, async || observer.query::<u64>(&["ZCARD", &key]).await.unwrap() == many).await;
}

async fn waiting_continues(clients: &[Client; 2], former: &RedisServer, replicas: usize, promoted: impl Future) {
    let barrier = |client| Barrier::new(client, "tag", 2);
    let first = tokio::spawn(barrier(&clients[0]).wait().timeout(FAILOVER).into_future());
    let party = Phaser::new(&clients[0], "{tag}:all").register().await.unwrap();
    let other = Phaser::new(&clients[1], "{tag}:all").register().await.unwrap();
    let phase = tokio::spawn(async move { party.arrive_and_wait().timeout(FAILOVER).await });
    let inside = tokio::spawn(DoubleBarrier::new(&clients[0], "{tag}:all", 2).enter().timeout(FAILOVER).into_future());
    let second = DoubleBarrier::new(&clients[1], "{tag}:all", 2).enter().timeout(FAILOVER).await.unwrap();
    let left = tokio::spawn(inside.await.unwrap().unwrap().leave().timeout(FAILOVER).into_future());
    let event = tokio::spawn(Event::new(&clients[0], "{tag}:all").wait().timeout(FAILOVER).into_future());
    wait_at(former, "tag", 1).await;
    replicated(former, replicas).await;
    former.kill().await.unwrap();
    promoted.await;
    assert!(!first.is_finished() && !phase.is_finished() && !left.is_finished() && !event.is_finished());
    let opened = barrier(&clients[1]).wait().timeout(FAILOVER).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().generation(), opened.generation());
    assert_eq!(other.arrive_and_wait().timeout(FAILOVER).await.unwrap(), 1);
    assert_eq!(phase.await.unwrap().unwrap(), 1);
    second.leave().timeout(FAILOVER).await.unwrap();
    left.await.unwrap().unwrap();
    Event::new(&clients[1], "{tag}:all").set().await.unwrap();
    event.await.unwrap().unwrap();
}

pub(super) async fn sentinel_barrier_waiters_continue_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let former = sentinels.current_primary().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(former.addr());
    waiting_continues(&clients, former, 2, promoted).await;
}

pub(super) async fn cluster_barrier_waiters_continue_at_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let slot = cluster.slot_of("tag").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    waiting_continues(&clients, former, 1, wait_until(FAILOVER, moved)).await;
}

/// An opening that a failover lost is announced again. One party waits and is stopped. Another
/// client opens the barrier, and no replica receives the opening. On the new primary, the first
/// party still waits for another one.
pub(super) async fn sentinel_a_barrier_opening_that_a_failover_lost_is_announced_again() {
    let sentinels = Sentinels::start().await.unwrap();
    let opener = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    let args = ["party", &sentinels.url(), "60000", "barrier", "tag", "2"];
    let mut waiting = Other::start(env!("CARGO_BIN_EXE_role"), &args).await;
    wait_at(former, "tag", 1).await;
    replicated(former, 2).await;
    // From here on the replicas receive nothing.
    former.deny(&["psync", "sync"]).await.unwrap();
    let observer = former.observer().await.unwrap();
    let cut = async || {
        observer.query::<u64>(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        let info: String = observer.query(&["INFO", "replication"]).await.unwrap();
        info.contains("connected_slaves:0")
    };
    wait_until(SOON, cut).await;
    waiting.signal(Signal::SIGSTOP);
    let opened = Barrier::new(&opener, "tag", 2).wait().timeout(SOON).await.unwrap();
    assert!(opened.is_leader());
    let address = former.addr();
    former.kill().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(address).await.unwrap();
    waiting.signal(Signal::SIGCONT);
    assert_eq!(waiting.next_line().await, "through");
    // The stopped party had received the opening from the former primary, and read it after it was
    // resumed. The opener itself announces the opening to the new primary.
    let observer = promoted.observer().await.unwrap();
    let round = async || {
        observer.query::<Option<String>>(&["HGET", "redgrid_barrier:{tag}", "round"]).await.unwrap_or_default()
    };
    wait_until(SOON, async || round().await.is_some()).await;
    let rounds = round().await.unwrap();
    assert_eq!(rounds, "1", "the barrier was not opened a second time");
}
