//! Durability confirmations that fail because of other processes, demotions, cut connections and
//! hung servers.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::{CommitError, ServerError};
use redgrid_testkit::wait_until;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, server};

use super::{COMMIT, SLACK, commits, epoch, grant, info, node, node_with, replica_of, replicas, unproven};

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_caller_cancels_no_other() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node(&primary).await;
    replica.pause().await.unwrap();
    let since = grant(&node, "key").await;
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let (node, since) = (Arc::clone(&node), since.clone());
            tokio::spawn(async move { node.commit(since, replicas(1, SOON), b"key").await })
        })
        .collect();
    let observer = primary.observer().await.unwrap();
    wait_until(SOON, async || info(&observer, "clients", "blocked_clients").await == "1").await;
    for (n, one) in waiting.iter().enumerate() {
        if n % 2 == 0 {
            one.abort();
        }
    }
    replica.resume().await.unwrap();
    for (n, one) in waiting.into_iter().enumerate() {
        match one.await {
            Ok(told) => told.unwrap(),
            Err(error) => assert!(error.is_cancelled() && n % 2 == 0),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_proves_nothing_of_an_earlier_one() {
    let primary = server().await;
    let node = node(&primary).await;
    let since = grant(&node, "key").await;
    primary.restart_with_data().await.unwrap();
    let _replica = replica_of(&primary).await;
    // The first call is before the client has noticed the new process, the second one after that.
    assert!(node.commit(since.clone(), replicas(1, SOON), b"key").await.is_err());
    wait_until(SOON, async || epoch(&node).await.run_id != since.run_id).await;
    assert!(unproven(&node.commit(since, replicas(1, SOON), b"key").await));
    // A grant of the new process can be confirmed, at the latest when the replica has joined.
    wait_until(SOON, async || {
        let since = grant(&node, "key").await;
        node.commit(since, replicas(1, SOON), b"key").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_was_demoted_and_promoted_meanwhile_proves_nothing() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let other = server().await;
    let node = node(&primary).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
    let since = grant(&node, "lost").await;
    // The primary copies the data of an empty server, and becomes a primary again. It is the same
    // process with the same connections.
    let observer = primary.observer().await.unwrap();
    other.set_config("repl-diskless-sync-delay", "0").await.unwrap();
    let (host, port) = (other.addr().ip().to_string(), other.addr().port().to_string());
    observer.cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    wait_until(SOON, async || info(&observer, "replication", "master_link_status").await == "up").await;
    observer.cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    assert!(!observer.exists("lost").await.unwrap());
    let on_the_replica = replica.observer().await.unwrap();
    wait_until(SOON, async || info(&on_the_replica, "replication", "master_link_status").await == "up").await;
    assert_eq!(node.connection_id().borrow().clone(), Some(since.clone()));
    assert!(unproven(&node.commit(since.clone(), replicas(1, SOON), b"lost").await));
    // Afterwards the client counts it as another connection, and writes on it can be confirmed.
    wait_until(SOON, async || node.connection_id().borrow().as_ref().is_some_and(|epoch| *epoch != since)).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_commit_connection_is_neither_an_acknowledgement_nor_a_hang() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let observer = primary.observer().await.unwrap();
    let blocked = async || info(&observer, "clients", "blocked_clients").await == "1";
    let spawn_commit = |since, asked| {
        let node = Arc::clone(&node);
        tokio::spawn(async move { node.commit(since, asked, b"key").await })
    };
    replica.pause().await.unwrap();
    for _ in 0..5 {
        let (asked, began) = (replicas(1, Duration::from_secs(1)), Stopwatch::start());
        let commit = spawn_commit(grant(&node, "key").await, asked);
        wait_until(SOON, blocked).await;
        assert_eq!(primary.kill_connections_named(COMMIT).await.unwrap(), 1);
        // A new connection has no earlier writes, and waits for the replicas that it finds.
        let told = commit.await.unwrap();
        let lost = matches!(told, Err(CommitError::Asking(ServerError::Unknown { .. })));
        assert!(lost || told == Err(CommitError::Shortfall { asked, acknowledged: 0 }), "{told:?}");
        began.assert_within(Duration::from_secs(1) + SLACK);
    }
    // If time is left, the confirmation is retried on the next connection.
    let commit = spawn_commit(grant(&node, "key").await, replicas(1, SOON));
    wait_until(SOON, blocked).await;
    primary.kill_connections_named(COMMIT).await.unwrap();
    wait_until(SOON, async || commits(&primary).await == 1 && blocked().await).await;
    replica.resume().await.unwrap();
    commit.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_primary_is_reported_within_the_timeout() {
    let primary = server().await;
    let _replica = replica_of(&primary).await;
    let timeout = Duration::from_millis(600);
    let node = node_with(&primary, |config| config.response_timeout(timeout)).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
    let since = grant(&node, "key").await;
    primary.pause().await.unwrap();
    let began = Stopwatch::start();
    let told = node.commit(since, replicas(1, Duration::from_millis(200)), b"key").await;
    primary.resume().await.unwrap();
    assert!(matches!(told, Err(CommitError::Asking(_) | CommitError::Unproven { .. })), "{told:?}");
    began.assert_within(Duration::from_millis(200) + timeout + SLACK);
    wait_until(SOON, async || {
        let since = epoch(&node).await;
        node.commit(since, replicas(1, SOON), b"key").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_far_longer_than_the_timeout_keeps_its_connection() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node_with(&primary, |config| config.response_timeout(Duration::from_millis(500))).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
    let ids = async || {
        let clients = primary.clients().await.unwrap();
        clients.into_iter().filter(|client| client.name == COMMIT).map(|client| client.id).collect::<Vec<_>>()
    };
    let before = ids().await;
    replica.pause().await.unwrap();
    // Long enough for the PING that is sent on an idle connection.
    let asked = replicas(1, Duration::from_secs(7));
    let since = grant(&node, "key").await;
    let told = node.commit(since, asked, b"key").await.unwrap_err();
    assert_eq!(told, CommitError::Shortfall { asked, acknowledged: 0 });
    assert_eq!(ids().await, before);
    replica.resume().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_for_the_run_id_is_reported() {
    let primary = server().await;
    primary.deny(&["info"]).await.unwrap();
    let node = node(&primary).await;
    let since = grant(&node, "key").await;
    let told = node.commit(since, replicas(1, SOON), b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("INFO")), "{told:?}");
    assert_eq!(commits(&primary).await, 0);
}
