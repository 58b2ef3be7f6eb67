//! Servers without automatic failover: a manual demotion, and clients that end before their server
//! returns.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, Replicated};

use super::{Load, MS, names};
use crate::fixture::{by_list, connected};

pub(super) async fn master_slave_a_primary_that_became_a_replica_is_left() {
    let replicated = Replicated::start(2).await.unwrap();
    // Writes to the former primary between the two commands are lost; such a lock ends with its
    // lease.
    let client = connected(by_list(&replicated).watchdog_lease(Duration::from_secs(2))).await;
    let load = Load::on(&client, names("load", 4));
    load.until_more(50).await;
    let (former, promoted) = (replicated.primary(), &replicated.replicas()[0]);
    promoted.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let (host, port) = (promoted.addr().ip().to_string(), promoted.addr().port().to_string());
    former.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.is_empty(), "{failures:?}");
    let guard = Lock::new(&client, "there").acquire().await.unwrap();
    assert!(promoted.observer().await.unwrap().exists("there").await.unwrap());
    guard.release().await.unwrap();
}

/// Checks that no client connects to a server that has just been started, for longer than the pause
/// between two connection attempts.
async fn no_client_connects(server: &RedisServer) {
    let observer = server.observer().await.unwrap();
    let mut before = HashSet::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
        assert!(![" name=redgrid ", " name=redgrid:"].iter().any(|ours| list.contains(ours)), "{list}");
        // A connection has no name before its handshake. Connections of other servers have no name
        // for a moment, or are recognized by their flags.
        let others = [" flags=S ", " flags=M ", " user=redgrid-testkit "];
        let is_unnamed = |line: &&str| line.contains(" name= ") && !others.iter().any(|other| line.contains(other));
        let unnamed = list.lines().filter(is_unnamed).filter_map(|line| line.split(' ').next());
        let unnamed: HashSet<String> = unnamed.map(str::to_owned).collect();
        assert!(unnamed.is_disjoint(&before), "{list}");
        before = unnamed;
        tokio::time::sleep(200 * MS).await;
    }
}

pub(super) async fn master_slave_a_client_that_ends_while_its_primary_is_dead_leaves_nothing_behind() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated)).await;
    replicated.primary().kill().await.unwrap();
    let lock = Lock::new(&client, "a");
    assert!(lock.acquire().timeout(Duration::from_secs(1)).await.is_err());
    // A grant may have been sent at the last moment. The shutdown repeats its release until the
    // lease of that grant ends, which may take longer than the shutdown waits.
    let _ = client.shutdown(Duration::from_secs(3)).await;
    drop((lock, client));
    replicated.primary().restart_empty().await.unwrap();
    no_client_connects(replicated.primary()).await;
}

pub(super) async fn single_a_client_that_ends_too_late_leaves_nothing_behind() {
    let server = RedisServer::start().await.unwrap();
    let mut ended = Vec::new();
    for n in 0..8 {
        let client = connected(redgrid_core::Config::from_url(server.url()).unwrap()).await;
        let guard = Lock::new(&client, format!("a{n}")).acquire().await.unwrap();
        ended.push((client, guard));
    }
    server.kill().await.unwrap();
    for (client, _) in &ended {
        assert!(client.shutdown(200 * MS).await.is_err());
    }
    server.restart_empty().await.unwrap();
    no_client_connects(&server).await;
}
