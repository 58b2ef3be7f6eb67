//! Events and health of a client when nodes die, are promoted or lose slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redgrid_core::config::ReadMode;
use redgrid_core::{Client, ConnectionEvent, ConnectionEvents, DeploymentKind, NodeHealth, NodeId, NodePart};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_list, by_seeds, by_sentinels, connected, scenarios};

scenarios![
    sentinel_a_failover_is_one_changed_primary,
    cluster_a_failover_is_one_changed_primary,
    cluster_a_migration_is_a_changed_topology,
    cluster_health_reports_a_dead_primary,
    sentinel_health_reports_that_no_sentinel_answers,
    master_slave_health_reports_a_dead_replica_and_stays_ready,
];

fn id(server: &RedisServer) -> NodeId {
    NodeId(server.addr().to_string().into())
}

/// Returns all events up to `last`.
async fn up_to(events: &mut ConnectionEvents, last: &ConnectionEvent) -> Vec<ConnectionEvent> {
    let mut seen = Vec::new();
    let all = async {
        while seen.last() != Some(last) {
            seen.push(events.recv().await.expect("the client lives"));
        }
    };
    let in_time = tokio::time::timeout(SOON, all).await.is_ok();
    assert!(in_time, "{last:?} did not come after {seen:?}");
    seen
}

fn place(events: &[ConnectionEvent], wanted: &ConnectionEvent) -> usize {
    events.iter().position(|event| event == wanted).unwrap_or_else(|| panic!("no {wanted:?} in {events:?}"))
}

fn changed(events: &[ConnectionEvent]) -> Vec<&ConnectionEvent> {
    events
        .iter()
        .filter(|event| matches!(event, ConnectionEvent::PrimaryChanged { .. } | ConnectionEvent::TopologyChanged))
        .collect()
}

async fn node(client: &Client, server: &RedisServer) -> Option<NodeHealth> {
    client.health().await.nodes.into_iter().find(|node| node.node == id(server))
}

async fn sentinel_a_failover_is_one_changed_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    let topology = client.topology();
    assert_eq!((topology.kind, &topology.shards[0].primary), (DeploymentKind::Sentinel, &id(former)));
    wait_until(SOON, async || node(&client, former).await.is_some_and(|node| node.subscribed == 1)).await;
    let mut events = client.events();
    let address = former.addr();
    former.kill().await.unwrap();
    let promoted = id(sentinels.wait_for_primary_other_than(address).await.unwrap());
    let seen = up_to(&mut events, &ConnectionEvent::Gap { node: promoted.clone() }).await;
    let change = ConnectionEvent::PrimaryChanged { from: id(former), to: promoted.clone() };
    assert_eq!(changed(&seen), [&change], "{seen:?}");
    let lost = seen.iter().position(|event| matches!(event, ConnectionEvent::Lost { node, .. } if *node == id(former)));
    assert!(lost.unwrap() < place(&seen, &change), "{seen:?}");
    assert!(place(&seen, &change) < place(&seen, &ConnectionEvent::Connected { node: promoted.clone() }), "{seen:?}");
    assert_eq!(client.topology().shards[0].primary, promoted);
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    // No other change follows.
    let more = async {
        while let Some(event) = events.recv().await {
            assert!(changed(std::slice::from_ref(&event)).is_empty(), "{event:?}");
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), more).await;
}

async fn cluster_a_failover_is_one_changed_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let mut events = client.events();
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    // Redirections report the new primary slot by slot, before the client requests the whole slot
    // map.
    let load = tokio::spawn({
        let (lock, over) = (Lock::new(&client, "a"), Arc::clone(&over));
        async move {
            while !over.load(Ordering::Relaxed) {
                lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
            }
        }
    });
    let promoted = id(cluster.fail_over(former).await.unwrap());
    let change = ConnectionEvent::PrimaryChanged { from: id(former), to: promoted.clone() };
    let seen = up_to(&mut events, &change).await;
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    let is_primary = |event: &&ConnectionEvent| matches!(event, ConnectionEvent::PrimaryChanged { .. });
    assert_eq!(seen.iter().filter(is_primary).count(), 1, "{seen:?}");
    assert_eq!(client.topology().shard(&promoted).unwrap().primary, promoted);
}

async fn cluster_a_migration_is_a_changed_topology() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let topology = client.topology();
    assert_eq!(topology.kind, DeploymentKind::Cluster);
    let mut slots: Vec<_> = topology.shards.iter().flat_map(|shard| shard.slots.clone()).collect();
    slots.sort_by_key(|range| *range.start());
    assert!(slots.len() == 3 && slots[0].start() == &0 && slots[2].end() == &16_383, "{slots:?}");
    assert!(slots.windows(2).all(|pair| pair[0].end() + 1 == *pair[1].start()), "{slots:?}");
    let slot = cluster.slot_of("a").await.unwrap();
    let (from, mut events) = (cluster.primary_of(slot).await.unwrap(), client.events());
    let to = cluster.nodes().iter().find(|node| node.addr() != from.addr()).unwrap();
    cluster.migrate_slot(slot, to).await.unwrap();
    // The former node of the slot answers MOVED.
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    let seen = up_to(&mut events, &ConnectionEvent::TopologyChanged).await;
    assert!(!seen.iter().any(|event| matches!(event, ConnectionEvent::PrimaryChanged { .. })), "{seen:?}");
    let serves = |node: &RedisServer| {
        let topology = client.topology();
        let shard = topology.shards.iter().find(|shard| shard.primary == id(node)).unwrap();
        shard.slots.iter().any(|range| range.contains(&slot))
    };
    assert!(serves(to) && !serves(from));
}

async fn cluster_health_reports_a_dead_primary() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    assert!(client.health().await.is_ready());
    let dead = cluster.primary_of(0).await.unwrap();
    dead.kill().await.unwrap();
    wait_until(SOON, async || !client.health().await.is_ready()).await;
    wait_until(SOON, async || node(&client, dead).await.is_some_and(|node| !node.connected)).await;
    let health = client.health().await;
    let (ill, well): (Vec<_>, Vec<_>) = health.nodes.iter().partition(|node| node.trouble.is_some());
    assert!(well.len() == 2 && well.iter().all(|node| node.is_well()), "{health:?}");
    assert!(matches!(&ill[..], [node] if node.node == id(dead) && node.round_trip.is_none()), "{health:?}");
}

async fn sentinel_health_reports_that_no_sentinel_answers() {
    let sentinels = Sentinels::start().await.unwrap();
    for sentinel in sentinels.sentinels() {
        sentinel.kill().await.unwrap();
    }
    let client = Client::connect(by_sentinels(&sentinels)).await.unwrap();
    assert!(client.topology().shards.is_empty());
    let reported = async || {
        let health = client.health().await;
        let [node] = &health.nodes[..] else { panic!("{health:?}") };
        !health.is_ready() && node.trouble.as_ref().is_some_and(|trouble| trouble.contains("mymaster"))
    };
    wait_until(SOON, reported).await;
}

async fn master_slave_health_reports_a_dead_replica_and_stays_ready() {
    let replicated = Replicated::start(2).await.unwrap();
    let client = connected(by_list(&replicated).read_mode(ReadMode::Any)).await;
    let topology = client.topology();
    let mut replicas: Vec<_> = replicated.replicas().iter().map(id).collect();
    replicas.sort();
    let mut known = topology.shards[0].replicas.clone();
    known.sort();
    assert_eq!((topology.kind, &known), (DeploymentKind::MasterSlave, &replicas));
    let all_well = async || {
        let health = client.health().await;
        health.nodes.len() == 3 && health.nodes.iter().all(NodeHealth::is_well)
    };
    wait_until(SOON, all_well).await;
    let mut events = client.events();
    let dead = &replicated.replicas()[1];
    dead.kill().await.unwrap();
    let lost = tokio::time::timeout(SOON, events.recv()).await.unwrap();
    assert!(matches!(&lost, Some(ConnectionEvent::Lost { node, .. }) if *node == id(dead)), "{lost:?}");
    let health = client.health().await;
    let ill: Vec<_> = health.nodes.iter().filter(|node| !node.is_well()).collect();
    assert!(matches!(&ill[..], [node] if node.node == id(dead) && node.part == NodePart::Replica), "{health:?}");
    assert!(health.is_ready(), "{health:?}");
}
