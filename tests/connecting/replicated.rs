//! Nodes without sentinels: the client finds the primary by its role, and follows it.

use std::time::{Duration, Instant};

use redgrid_core::config::ReadMode;
use redgrid_core::{Client, Config, DeploymentKind};
use redgrid_locks::Lock;
use redgrid_map::Map;
use redgrid_testkit::{RedisServer, Replicated, wait_until};
use redgrid_tests::SOON;

/// Returns all nodes, a replica first, so that a client that takes the first node for the primary
/// fails.
fn nodes(group: &Replicated) -> Vec<String> {
    let replicas = group.replicas().iter().map(RedisServer::addr);
    replicas.chain([group.primary().addr()]).map(|addr| addr.to_string()).collect()
}

/// Makes `new` the primary, and `former` its replica.
async fn swap(former: &RedisServer, new: &RedisServer) {
    let (ip, port) = (new.addr().ip().to_string(), new.addr().port().to_string());
    new.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    former.observer().await.unwrap().cmd(&["REPLICAOF", &ip, &port]).await.unwrap();
}

async fn until_followed(client: &Client, server: &RedisServer) {
    let addr = server.addr().to_string();
    wait_until(SOON, async || client.topology().shards.iter().any(|shard| shard.primary.to_string() == addr)).await;
}

/// Checks that a lock passes between the clients, and that this server has it.
async fn a_lock_is_at(server: &RedisServer, one: &Client, two: &Client) {
    let observer = server.observer().await.unwrap();
    let guard = Lock::new(one, "a").acquire().timeout(SOON).await.unwrap();
    assert!(observer.exists("a").await.unwrap());
    let waiter = tokio::spawn(Lock::new(two, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting > 0).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn connected(config: Config) -> Client {
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_change_their_roles_are_followed() {
    let group = Replicated::start(1).await.unwrap();
    // Redisson's configuration files list the nodes in this way, without their roles.
    let config = Config::replicated(nodes(&group)).unwrap().read_mode(ReadMode::Replica);
    let one = connected(config.scan_interval(Duration::from_millis(200))).await;
    let two = connected(Config::replicated(nodes(&group)).unwrap()).await;
    let (primary, replica) = (group.primary(), &group.replicas()[0]);
    assert_eq!(one.topology().kind, DeploymentKind::Replicated);
    a_lock_is_at(primary, &one, &two).await;
    let map: Map<String, u64> = Map::new(&one, "map");
    map.insert("a", &1).await.unwrap();
    wait_until(SOON, async || one.topology().shards.iter().any(|shard| shard.replicas.len() == 1)).await;
    wait_until(SOON, async || map.get("a").await.unwrap() == Some(1)).await;
    for (former, new) in [(primary, replica), (replica, primary)] {
        swap(former, new).await;
        for client in [&one, &two] {
            until_followed(client, new).await;
        }
        a_lock_is_at(new, &one, &two).await;
    }
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_dies_is_replaced_by_the_node_that_is_promoted() {
    let group = Replicated::start(2).await.unwrap();
    // The scan interval is so long that no periodic check notices the change.
    let config = || {
        Config::replicated(nodes(&group)).unwrap().read_mode(ReadMode::Replica).scan_interval(Duration::from_secs(600))
    };
    let (one, two) = (connected(config()).await, connected(config()).await);
    a_lock_is_at(group.primary(), &one, &two).await;
    group.primary().kill().await.unwrap();
    let [new, other] = group.replicas() else { panic!("there are two") };
    new.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    a_lock_is_at(new, &one, &two).await;
    swap(other, new).await;
    let replicas = async || new.observer().await.unwrap().query::<String>(&["INFO", "replication"]).await.unwrap();
    wait_until(SOON, async || replicas().await.contains("connected_slaves:1")).await;
    // The former primary comes back as a primary without replicas. No client follows it, even if it
    // is the first of the list.
    group.primary().restart_empty().await.unwrap();
    let all = group.servers().iter().map(|server| server.addr().to_string());
    let three = connected(Config::replicated(all).unwrap()).await;
    a_lock_is_at(new, &one, &three).await;
    three.shutdown(SOON).await.unwrap();
    for client in [one, two] {
        client.shutdown(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_stalls_is_not_left_for_an_empty_node() {
    let (group, stray) = (Replicated::start(2).await.unwrap(), RedisServer::start().await.unwrap());
    let all = nodes(&group).into_iter().chain([stray.addr().to_string()]);
    let client = connected(Config::replicated(all).unwrap()).await;
    let primary = group.primary();
    until_followed(&client, primary).await;
    let (observer, other) = (primary.observer().await.unwrap(), stray.observer().await.unwrap());
    primary.pause().await.unwrap();
    // The primary stalls for this time. The client notices the stall because a request waits for
    // its reply.
    let paused_at = Instant::now();
    let waiter = tokio::spawn(Lock::new(&client, "a").acquire().timeout(SOON).into_future());
    while paused_at.elapsed() < Duration::from_millis(300) {
        assert_eq!(client.topology().shards[0].primary.to_string(), primary.addr().to_string());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    primary.resume().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert!(observer.exists("a").await.unwrap() && !other.exists("a").await.unwrap());
    guard.release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
}
