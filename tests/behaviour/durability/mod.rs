//! Calls that wait for replicas or the disk get the correct result, and do not delay other calls.

mod holds;
mod troubles;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::author::Server;
use redgrid_core::config::Durability;
use redgrid_core::{CommitError, Config, ConnectionId, Request};
use redgrid_testkit::{Observer, RedisServer, ServerBinary, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, server};

/// How much later than its timeout a reply may arrive on a busy machine.
const SLACK: Duration = Duration::from_secs(2);
const COMMIT: &str = "redgrid:commit";

fn replicas(at_least: u32, timeout: Duration) -> Durability {
    Durability::Replicas { at_least, timeout }
}

/// Starts a replica of `primary`, and waits until it has all data.
async fn replica_of(primary: &RedisServer) -> RedisServer {
    // The delay is set before the replica joins: otherwise a full synchronization begins 5 s later.
    primary.set_config("repl-diskless-sync-delay", "0").await.unwrap();
    let replica = RedisServer::builder().binary(primary.binary().clone()).start().await.unwrap();
    let observer = replica.observer().await.unwrap();
    let (host, port) = (primary.addr().ip().to_string(), primary.addr().port().to_string());
    observer.cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    wait_until(SOON, async || info(&observer, "replication", "master_link_status").await == "up").await;
    // A new replica first acknowledges up to a second after its full synchronization.
    let primary = primary.observer().await.unwrap();
    let all = info(&primary, "replication", "connected_slaves").await;
    wait_until(SOON, async || {
        primary.cmd(&["SET", "warm", "up"]).await.unwrap();
        primary.query::<String>(&["WAIT", &all, "5000"]).await.unwrap() == all
    })
    .await;
    replica
}

async fn info(observer: &Observer, section: &str, field: &str) -> String {
    let info: String = observer.query(&["INFO", section]).await.unwrap();
    let value = |line: &str| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned);
    info.lines().find_map(value).unwrap_or_default()
}

/// Returns how often the server has executed a command.
async fn calls(observer: &Observer, command: &str) -> u64 {
    let stats = info(observer, "commandstats", &format!("cmdstat_{command}")).await;
    let calls = stats.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap_or("0");
    calls.parse().unwrap()
}

/// Connects to a node, and waits until it is ready.
async fn node(server: &RedisServer) -> Arc<dyn Server> {
    node_with(server, |config| config).await
}

async fn node_with(server: &RedisServer, settings: impl FnOnce(Config) -> Config) -> Arc<dyn Server> {
    let node = redgrid_core::server(&settings(Config::from_url(server.url()).unwrap())).unwrap();
    epoch(&node).await;
    node
}

async fn epoch(node: &Arc<dyn Server>) -> ConnectionId {
    let mut epochs = node.connection_id();
    let up = tokio::time::timeout(SOON, epochs.wait_for(Option::is_some));
    up.await.unwrap().unwrap().clone().unwrap()
}

/// Writes as a grant does. Returns the connection on which the reply arrived.
async fn grant(node: &Arc<dyn Server>, key: &str) -> ConnectionId {
    let since = epoch(node).await;
    let set = Request::command("SET").key(key.to_owned()).arg("held");
    node.call(vec![set]).await.pop().unwrap().unwrap();
    since
}

async fn commits(server: &RedisServer) -> usize {
    server.clients().await.unwrap().iter().filter(|client| client.name == COMMIT).count()
}

fn unproven(told: &Result<(), CommitError>) -> bool {
    matches!(told, Err(CommitError::Unproven { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_are_on_the_replica() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let observer = replica.observer().await.unwrap();
    for n in 0..50 {
        let key = format!("key:{n}");
        let since = grant(&node, &key).await;
        node.commit(since, replicas(1, SOON), key.as_bytes()).await.unwrap();
        assert!(observer.exists(&key).await.unwrap(), "{key}");
    }
    assert_eq!(commits(&primary).await, 1);
    node.close().await;
    let ours = async || primary.clients().await.unwrap().iter().any(|client| client.name.starts_with("redgrid"));
    wait_until(SOON, async || !ours().await).await;
    let since = ConnectionId { run_id: "any".into(), connection: 1 };
    assert!(node.commit(since, replicas(1, SOON), b"late").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_connected_or_sent_if_the_primary_is_enough() {
    let primary = server().await;
    let node = node(&primary).await;
    let observer = primary.observer().await.unwrap();
    wait_until(SOON, async || primary.clients().await.unwrap().len() == 2).await;
    for asked in [Durability::Primary, replicas(0, SOON)] {
        let since = grant(&node, "key").await;
        node.commit(since, asked, b"key").await.unwrap();
        // A confirmation on another connection does not apply to this write.
        let gone = ConnectionId { run_id: "another".into(), connection: 9 };
        node.commit(gone.clone(), asked, b"key").await.unwrap();
        assert!(unproven(&node.commit(gone, replicas(1, SOON), b"key").await));
    }
    assert_eq!((primary.clients().await.unwrap().len(), calls(&observer, "wait").await), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_replica_is_reported_in_time_with_numbers() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let asked = replicas(1, Duration::from_millis(300));
    let since = grant(&node, "key").await;
    node.commit(since, asked, b"key").await.unwrap();
    replica.pause().await.unwrap();
    let (since, began, watch) = (grant(&node, "other").await, Instant::now(), Stopwatch::start());
    let told = node.commit(since, asked, b"other").await.unwrap_err();
    assert_eq!(told, CommitError::Shortfall { asked, acknowledged: 0 });
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    watch.assert_within(Duration::from_millis(300) + SLACK);
    replica.resume().await.unwrap();
    let since = grant(&node, "third").await;
    node.commit(since, replicas(1, SOON), b"third").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_is_not_two() {
    let primary = server().await;
    let _replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let asked = replicas(2, Duration::from_millis(200));
    let since = grant(&node, "key").await;
    let told = node.commit(since, asked, b"key").await.unwrap_err();
    assert_eq!(told, CommitError::Shortfall { asked, acknowledged: 1 });
    assert_eq!(told.to_string(), "1 of 2 replicas acknowledged within 200ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_share_one_wait() {
    let primary = server().await;
    let _replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let observer = primary.observer().await.unwrap();
    let began = Instant::now();
    let callers = (0..64).map(|caller| {
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            for _ in 0..32 {
                let key = format!("key:{caller}");
                let since = grant(&node, &key).await;
                node.commit(since, replicas(1, SOON), key.as_bytes()).await.unwrap();
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    let (waits, commits) = (calls(&observer, "wait").await, 64 * 32);
    println!("{waits} WAITs for {commits} grants and commits in {:?}", began.elapsed());
    assert!(waits * 8 < commits, "{waits} WAITs for {commits} commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn weaker_requests_are_not_delayed_by_a_dead_replica() {
    let primary = server().await;
    let (_one, two) = (replica_of(&primary).await, replica_of(&primary).await);
    let node = node(&primary).await;
    two.pause().await.unwrap();
    // Four requests that wait for the dead replica until their timeouts.
    let stuck: Vec<_> = (0..4)
        .map(|_| {
            let node = Arc::clone(&node);
            tokio::spawn(async move {
                let since = grant(&node, "stuck").await;
                node.commit(since, replicas(2, Duration::from_secs(5)), b"stuck").await
            })
        })
        .collect();
    wait_until(SOON, async || commits(&primary).await == 1).await;
    let (mut took, mut began) = (Vec::new(), Stopwatch::start());
    for _ in 0..500 {
        let since = grant(&node, "key").await;
        began.restart();
        node.commit(since, replicas(1, SOON), b"key").await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    println!("beside a dead replica: p50 {:?}, p99 {:?}", took[249], took[494]);
    assert!(took[494] < Duration::from_millis(500), "{:?}", took[494]);
    // Requests of the same level with short timeouts do not wait for those with long ones.
    let impatient = replicas(2, Duration::from_millis(50));
    let (since, began) = (grant(&node, "key").await, Stopwatch::start());
    let told = node.commit(since, impatient, b"key").await.unwrap_err();
    assert!(matches!(told, CommitError::Shortfall { .. }), "{told:?}");
    began.assert_within(Duration::from_millis(50) + SLACK);
    for one in stuck {
        let told = one.await.unwrap().unwrap_err();
        assert!(matches!(told, CommitError::Shortfall { acknowledged: 0 | 1, .. }), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_durability_is_rejected_by_servers_without_support() {
    let primary = RedisServer::builder().append_only(true).config("appendfsync always").start().await.unwrap();
    if primary.binary().version().major > 7 || primary.binary().version().minor >= 2 {
        return;
    }
    let node = node(&primary).await;
    let (since, began) = (grant(&node, "key").await, Stopwatch::start());
    let told = node.commit(since, Durability::Disk { timeout: SOON }, b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("7.2")), "{told:?}");
    began.assert_within(SLACK);
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_durability_is_confirmed_or_reported_on_the_newest_server() {
    let test = "disk_durability_is_confirmed_or_reported_on_the_newest_server";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let disk = |timeout| Durability::Disk { timeout };
    let kept = RedisServer::builder().binary(newest.clone()).append_only(true).config("appendfsync always");
    let kept = kept.start().await.unwrap();
    let to_disk = node(&kept).await;
    let since = grant(&to_disk, "key").await;
    to_disk.commit(since, disk(SOON), b"key").await.unwrap();
    // A server that does not sync to disk never acknowledges.
    kept.set_config("appendfsync", "no").await.unwrap();
    let asked = disk(Duration::from_millis(200));
    let since = grant(&to_disk, "key").await;
    let told = to_disk.commit(since, asked, b"key").await;
    assert_eq!(told, Err(CommitError::Shortfall { asked, acknowledged: 0 }));
    // Without an append-only file, the request is rejected immediately.
    let forgetful = RedisServer::builder().binary(newest).start().await.unwrap();
    let node = node(&forgetful).await;
    let (since, began) = (grant(&node, "key").await, Stopwatch::start());
    let told = node.commit(since, disk(SOON), b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("appendonly")), "{told:?}");
    began.assert_within(SLACK);
}
