//! Nodes of a cluster.

use std::time::Duration;

use redgrid_core::{Client, Failure};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{Cluster, Observer, wait_until};
use redgrid_tests::SOON;

use super::{FAILOVER, LEASE, Load, MS, listening, names};
use crate::fixture::{by_seeds, connected, replicated};

/// A time longer than any test runs.
const NEVER: Duration = Duration::from_secs(3600);

pub(super) async fn cluster_a_killed_primary_is_followed_and_the_others_see_no_error() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).watchdog_lease(LEASE)).await;
    let victim = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
    let (mut its, mut others) = (Vec::new(), Vec::new());
    for name in names("load", 30) {
        let primary = cluster.primary_of(cluster.slot_of(&name).await.unwrap()).await.unwrap();
        if primary.addr() == victim.addr() { its.push(name) } else { others.push(name) }
    }
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let (its, others) = (Load::on(&client, its), Load::on(&client, others));
    its.until_more(50).await;
    others.until_more(50).await;
    replicated(victim, 1).await;
    victim.kill().await.unwrap();
    // While one third of the slots has no primary, calls for the other two thirds continue.
    others.until_more(500).await;
    its.until_more(50).await;
    let (its, others) = (its.end().await, others.end().await);
    assert!(others.is_empty(), "{others:?}");
    assert!(
        its.iter().all(|failure| matches!(failure, AcquireError::Failed(Failure::OutcomeUnknown { .. }))),
        "{its:?}"
    );
    assert!(held.is_held());
    held.release().await.unwrap();
}

pub(super) async fn cluster_a_waiting_call_finds_the_promoted_replica_without_a_scan() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).scan_interval(NEVER)).await;
    let lock = Lock::new(&client, "fresh");
    cluster.primary_of(cluster.slot_of("fresh").await.unwrap()).await.unwrap().kill().await.unwrap();
    // The call makes the client check the topology once, long before a replica is promoted. After
    // that, the call waits.
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

pub(super) async fn cluster_a_call_to_a_hung_primary_finds_the_promoted_replica_without_a_scan() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    // Neither the call nor the connection times out.
    let config = by_seeds(&cluster).scan_interval(NEVER).response_timeout(4 * SOON).connect_timeout(4 * SOON);
    let client = connected(config.watchdog_lease(16 * SOON)).await;
    let lock = Lock::new(&client, "fresh");
    cluster.primary_of(cluster.slot_of("fresh").await.unwrap()).await.unwrap().pause().await.unwrap();
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

pub(super) async fn cluster_a_node_that_leaves_slots_out_of_its_map_ends_no_connection() {
    let cluster = Cluster::builder().primaries(3).replicas_per_primary(0).full_coverage(false).start().await.unwrap();
    let client = connected(by_seeds(&cluster).scan_interval(20 * MS)).await;
    let lock = Lock::new(&client, "held");
    lock.acquire().await.unwrap().release().await.unwrap();
    let owner = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
    let (its, owner_port) = (owner.observer().await.unwrap(), owner.addr().port());
    let forgetful = cluster.nodes().iter().find(|node| node.addr() != owner.addr()).unwrap().observer().await.unwrap();
    // Returns the slots that the owner serves according to a node, such as `0-5460`.
    let serves = async |observer: &Observer| -> Option<String> {
        let nodes: String = observer.query(&["CLUSTER", "NODES"]).await.unwrap();
        let line = nodes.lines().find(|line| line.contains(&format!(":{owner_port}@")))?;
        line.split(' ').nth(8).map(str::to_owned)
    };
    let connections = async || -> Vec<String> {
        let list: String = its.query(&["CLIENT", "LIST"]).await.unwrap();
        let ours = list.lines().filter(|line| line.contains(" name=redgrid"));
        ours.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    let asked = async || -> u64 {
        let info: String = forgetful.query(&["INFO", "commandstats"]).await.unwrap();
        let line = info
            .lines()
            .find(|line| ["cmdstat_cluster|slots:", "cmdstat_cluster:"].iter().any(|of| line.starts_with(of)));
        line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let range = serves(&its).await.unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let slots = first.parse::<u16>().unwrap()..=last.parse().unwrap();
    let forget: Vec<String> =
        ["CLUSTER", "DELSLOTS"].map(str::to_owned).into_iter().chain(slots.map(|slot| slot.to_string())).collect();
    let forget: Vec<&str> = forget.iter().map(String::as_str).collect();
    let (before, mut answers) = (connections().await, 0);
    wait_until(SOON, async || {
        // The node learns the slots again from the next message of their owner.
        let _ = forgetful.query::<String>(&forget).await;
        let from = asked().await;
        tokio::time::sleep(100 * MS).await;
        let until = asked().await;
        answers += if serves(&forgetful).await.is_none() { until - from } else { 0 };
        answers >= 5
    })
    .await;
    assert_eq!(connections().await, before);
    lock.acquire().await.unwrap().release().await.unwrap();
}

pub(super) async fn cluster_a_planned_failover_causes_no_error() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).watchdog_lease(LEASE)).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let load = Load::on(&client, names("load", 12));
    for _ in 0..2 {
        load.until_more(50).await;
        let primary = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
        cluster.fail_over(primary).await.unwrap();
    }
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.is_empty(), "{failures:?}");
    held.release().await.unwrap();
}

pub(super) async fn cluster_a_waiter_is_woken_by_a_release_on_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE).poll_interval(NEVER);
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(FAILOVER).into_future());
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    listening(former, "a").await;
    replicated(former, 1).await;
    former.kill().await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    wait_until(FAILOVER, moved).await;
    listening(cluster.primary_of(slot).await.unwrap(), "a").await;
    assert!(held.is_held() && !waiter.is_finished());
    held.release().await.unwrap();
    // The next poll is an hour away.
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn cluster_one_seed_that_lives_is_enough() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let dead = cluster.node_at(cluster.addrs()[0]).unwrap();
    dead.kill().await.unwrap();
    let client = Client::connect(by_seeds(&cluster)).await.unwrap();
    for name in names("a", 12) {
        Lock::new(&client, name).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    }
}
