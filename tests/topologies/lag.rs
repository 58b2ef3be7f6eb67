//! Replicas that fall behind while their connections are up.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_core::config::ReadMode;
use redgrid_core::{Client, Config, NodePart};
use redgrid_testkit::{RedisServer, Replicated, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_list, connected, scenarios};
use crate::pipe::Pipe;

scenarios![
    master_slave_a_replica_that_lags_is_not_used_until_it_has_caught_up,
    master_slave_a_replica_that_hangs_is_left_out_before_its_connection_is_given_up,
];

/// Starts a primary and a replica that follows it through a pipe.
pub(crate) async fn piped() -> (RedisServer, Pipe, RedisServer) {
    let primary = RedisServer::builder().config("repl-diskless-sync-delay 0").start().await.unwrap();
    let pipe = Pipe::to(primary.addr()).await;
    let following = format!("replicaof {} {}", pipe.addr.ip(), pipe.addr.port());
    let replica = RedisServer::builder().config(following).start().await.unwrap();
    (primary, pipe, replica)
}

pub(crate) fn of(primary: &RedisServer, replica: &RedisServer) -> Config {
    Config::master_slave(primary.addr().to_string(), [replica.addr().to_string()]).unwrap()
}

/// Returns the values of a key that ten reads see.
async fn seen(client: &Client, key: &str) -> BTreeSet<Option<String>> {
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        seen.insert(client.command("GET").key(key).unwrap().reads().query::<Option<String>>().await.unwrap());
    }
    seen
}

async fn is_behind(client: &Client) -> bool {
    let health = client.health().await;
    health.nodes.iter().find(|node| node.part == NodePart::Replica).is_some_and(|node| node.is_behind)
}

async fn master_slave_a_replica_that_lags_is_not_used_until_it_has_caught_up() {
    let (primary, pipe, replica) = piped().await;
    let settings = |config: Config| config.scan_interval(Duration::from_millis(50));
    let client = connected(settings(of(&primary, &replica).read_mode(ReadMode::Replica))).await;
    let observer = replica.observer().await.unwrap();
    let set = async |value: &str| {
        client.command("SET").key("a").unwrap().arg(value.to_owned()).query::<()>().await.unwrap();
    };
    set("1").await;
    wait_until(SOON, async || observer.get::<String>("a").await.unwrap().as_deref() == Some("1")).await;
    // Only the replica has this key, so the value shows that the client reads from the replica.
    observer.cmd(&["CONFIG", "SET", "replica-read-only", "no"]).await.unwrap();
    observer.cmd(&["SET", "who", "replica"]).await.unwrap();
    let by_replica = BTreeSet::from([Some("replica".to_owned())]);
    wait_until(SOON, async || seen(&client, "who").await == by_replica).await;
    pipe.hold(true);
    set("2").await;
    wait_until(SOON, async || seen(&client, "a").await == BTreeSet::from([Some("2".to_owned())])).await;
    assert!(is_behind(&client).await);
    // All connections are up, also that of the replica to its primary.
    let health = client.health().await;
    assert!(health.nodes.iter().all(|node| node.is_well() && node.connected), "{health:?}");
    let role = client.command("INFO").arg("replication").query::<String>().await.unwrap();
    assert!(role.contains("state=online"), "{role}");
    assert_eq!(observer.get::<String>("a").await.unwrap().as_deref(), Some("1"));
    pipe.hold(false);
    wait_until(SOON, async || seen(&client, "who").await == by_replica).await;
    assert_eq!(seen(&client, "a").await, BTreeSet::from([Some("2".to_owned())]));
    assert!(!is_behind(&client).await);
}

async fn master_slave_a_replica_that_hangs_is_left_out_before_its_connection_is_given_up() {
    let replicated = Replicated::start(1).await.unwrap();
    let settings =
        |config: Config| config.response_timeout(SOON).ping_interval(SOON).max_replica_lag(Duration::from_millis(200));
    let client = connected(settings(by_list(&replicated)).read_mode(ReadMode::Replica)).await;
    let replica = || async { client.health().timeout(Duration::from_millis(100)).await.nodes.into_iter().nth(1) };
    wait_until(SOON, async || replica().await.is_some_and(|replica| replica.is_well())).await;
    replicated.replicas()[0].pause().await.unwrap();
    wait_until(SOON / 2, async || replica().await.is_some_and(|replica| replica.is_behind)).await;
    assert!(replica().await.is_some_and(|replica| replica.connected));
    let asked = tokio::time::timeout(SOON / 2, seen(&client, "a")).await;
    assert!(asked.is_ok(), "the primary answers");
    replicated.replicas()[0].resume().await.unwrap();
    wait_until(SOON, async || replica().await.is_some_and(|replica| !replica.is_behind)).await;
}
