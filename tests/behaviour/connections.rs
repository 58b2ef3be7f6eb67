//! Several connections to a node, which are reported as one.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redgrid_core::author::ClientExt;
use redgrid_core::config::Durability;
use redgrid_core::{Client, CommitError, Config, Request, ServerError};
use redgrid_locks::{Lock, LockGuard};
use redgrid_testkit::{Action, Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, server};

const CONNECTIONS: u32 = 4;

fn config(server: &RedisServer) -> Config {
    Config::from_url(server.url()).unwrap().connections_per_node(CONNECTIONS)
}

/// Returns the ids of the connections for requests.
async fn connections(server: &RedisServer) -> Vec<String> {
    let clients = server.clients().await.unwrap();
    clients.into_iter().filter(|client| client.name == "redgrid").map(|client| client.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_spread_over_the_connections_and_each_keeps_to_one() {
    let server = server().await;
    let node = redgrid_core::server(&config(&server)).unwrap();
    node.connection_id().wait_for(Option::is_some).await.unwrap();
    assert_eq!(connections(&server).await.len(), CONNECTIONS as usize);
    let last = async || {
        let list: String = server.observer().await.unwrap().query(&["CLIENT", "LIST"]).await.unwrap();
        let ours = list.lines().filter(|line| line.contains(" name=redgrid "));
        let command = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("cmd=").map(str::to_owned));
        ours.filter_map(command).collect::<Vec<_>>()
    };
    let gets: Vec<_> =
        (0..64).map(|n| node.call(vec![Request::command("GET").key(format!("{{name:{n}}}:x"))])).collect();
    join_all(gets).await;
    assert_eq!(last().await, vec!["get"; CONNECTIONS as usize], "every connection has a share of the names");
    for n in 0..64 {
        let lengths = ["", ":a", ":b"].map(|rest| Request::command("STRLEN").key(format!("{{name}}{rest}{n}")));
        let _ = node.call(lengths.into()).await;
    }
    let by_one = last().await.iter().filter(|command| *command == "strlen").count();
    assert_eq!(by_one, 1, "all requests for a name use one connection");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_changes_the_epoch_and_proves_no_former_write() {
    let server = server().await;
    let node = redgrid_core::server(&config(&server).durability(Durability::Primary)).unwrap();
    let mut seen = HashSet::new();
    let mut epoch = node.connection_id().wait_for(Option::is_some).await.unwrap().clone().unwrap();
    let observer = server.observer().await.unwrap();
    for id in connections(&server).await {
        assert!(seen.insert(epoch.connection));
        let former = epoch.clone();
        observer.cmd(&["CLIENT", "KILL", "ID", &id]).await.unwrap();
        let mut epochs = node.connection_id();
        epoch = epochs.wait_for(|now| now.as_ref().is_some_and(|now| *now != former)).await.unwrap().clone().unwrap();
        assert!(epoch.connection > former.connection && epoch.run_id == former.run_id);
        let within = Durability::Replicas { at_least: 1, timeout: Duration::from_millis(50) };
        let proven = node.commit(former, within, b"a").await;
        assert!(matches!(proven, Err(CommitError::Unproven { .. })), "{proven:?}");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_ids_of_two_nodes_differ_without_permissions() {
    let servers = [server().await, server().await];
    let mut epochs = Vec::new();
    for server in &servers {
        server.deny(&["info"]).await.unwrap();
        let node = redgrid_core::server(&config(server)).unwrap();
        epochs.push(node.connection_id().wait_for(Option::is_some).await.unwrap().clone().unwrap());
        node.close().await;
    }
    assert!(epochs.iter().all(|epoch| epoch.run_id.is_empty()) && epochs[0] != epochs[1], "{epochs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_and_waiters_outlive_each_connection() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // The lease is long, so that renewals do not affect the test, even on a slow machine.
    let lease = Duration::from_secs(20);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = Client::connect(config(&server).watchdog_lease(lease)).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        clients.push(client);
    }
    let acquired = join_all((0..16).map(|n| Lock::new(&clients[0], format!("a:{n}")).acquire().into_future())).await;
    let guards: Vec<LockGuard> = acquired.into_iter().map(Result::unwrap).collect();
    let waiting: Vec<_> = (0..16)
        .map(|n| tokio::spawn(Lock::new(&clients[1], format!("a:{n}")).acquire().timeout(SOON).into_future()))
        .collect();
    for _ in 0..2 {
        for id in connections(&server).await {
            let _ = observer.cmd(&["CLIENT", "KILL", "ID", &id]).await;
            let is_replaced = async || {
                let now = connections(&server).await;
                now.len() == 2 * CONNECTIONS as usize && !now.contains(&id)
            };
            wait_until(SOON, is_replaced).await;
        }
    }
    assert!(guards.iter().all(LockGuard::is_held));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    // Every connection detects that another process is behind the address.
    server.restart_empty().await.unwrap();
    wait_until(SOON, async || connections(&server).await.len() == 2 * CONNECTIONS as usize).await;
    Lock::new(&clients[1], "b").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    for client in clients {
        client.shutdown(SOON).await.unwrap();
    }
}

/// A lost connection is followed by exactly one handshake. A late event of the old connection is
/// not applied to the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_followed_by_one_handshake() {
    let server = server().await;
    let node = redgrid_core::server(&config(&server).connections_per_node(1)).unwrap();
    let mut told = node.connection_id();
    let mut epoch = told.wait_for(Option::is_some).await.unwrap().clone();
    let observer = server.observer().await.unwrap();
    for _ in 0..10 {
        observer.cmd(&["CLIENT", "KILL", "ID", &connections(&server).await[0]]).await.unwrap();
        let is_another = |now: &Option<_>| now.is_some() && *now != epoch;
        let another = tokio::time::timeout(SOON, told.wait_for(is_another)).await.unwrap().unwrap().clone();
        epoch = another;
        let called = node.call(vec![Request::command("PING")]).await.pop().unwrap();
        assert!(called.is_ok(), "{called:?}");
    }
    let later = tokio::time::timeout(Duration::from_millis(500), told.wait_for(|now| *now != epoch)).await;
    assert!(later.is_err(), "another epoch than {epoch:?}");
    node.close().await;
}

/// Returns a node behind a proxy. In these tests, only a missing reply can cause a check of its
/// connection.
async fn behind_a_proxy() -> (RedisServer, Proxy, Config) {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let config = Config::from_url(server.url_via(proxy.addr())).unwrap();
    (server, proxy, config.response_timeout(Duration::from_secs(1)).ping_interval(Duration::from_secs(3600)))
}

/// A connection without replies is closed, even if all callers have stopped waiting and there are
/// no other requests.
#[tokio::test]
async fn an_unresponsive_connection_is_closed_without_waiters() {
    let (_server, proxy, config) = behind_a_proxy().await;
    let node = redgrid_core::server(&config).unwrap();
    let first = node.connection_id().wait_for(Option::is_some).await.unwrap().clone();
    proxy.next(1, "GET", Action::SwallowReply);
    let asked = node.call(vec![Request::command("GET").key("name")]);
    let swallowed = wait_until(SOON, async || proxy.counts().swallowed == 1);
    assert!(matches!(select(asked, pin!(swallowed)).await, Either::Right(_)), "the request has no reply");
    let is_another = |epoch: &Option<_>| epoch.is_some() && *epoch != first;
    tokio::time::timeout(SOON, node.connection_id().wait_for(is_another)).await.expect("another connection").unwrap();
    node.close().await;
}

/// Waiters are notified when the connection is closed, and not only at their timeout or on the next
/// connection.
#[tokio::test]
async fn waiters_are_notified_when_the_connection_is_closed() {
    let (_server, proxy, config) = behind_a_proxy().await;
    let node = redgrid_core::server(&config.response_timeout(Duration::from_secs(3))).unwrap();
    node.connection_id().wait_for(Option::is_some).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let told = node.call(vec![Request::command("GET").key("name")]).await.pop().unwrap();
    let Err(ServerError::Unknown { reason }) = told else { panic!("{told:?}") };
    assert_ne!(reason, "Request timed out.");
    node.close().await;
}

/// With constant requests, received data is not processed. Each request times out, and the timeouts
/// cause a check of the connection.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_notified_and_the_connection_closed_despite_constant_requests() {
    let (_server, proxy, config) = behind_a_proxy().await;
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let others = async {
        let mut often = tokio::time::interval(Duration::from_millis(20));
        loop {
            often.tick().await;
            let client = client.clone();
            tokio::spawn(async move { client.run::<i64>(Request::command("INCR").key("others")).await });
        }
    };
    let told = async {
        let told = client.run::<i64>(Request::command("INCR").key("name")).await;
        assert!(told.as_ref().is_err_and(ServerError::is_unknown), "{told:?}");
        wait_until(SOON, async || client.epoch_of(b"name").is_none()).await;
    };
    let told = tokio::time::timeout(2 * SOON, told);
    match select(pin!(told), pin!(others)).await {
        Either::Left((told, _)) => told.expect("a reply or an error"),
        Either::Right(((), _)) => unreachable!("the requests continue"),
    }
}

#[tokio::test]
async fn a_connection_without_handshake_is_closed() {
    let (_server, proxy, config) = behind_a_proxy().await;
    proxy.next(2, "SETNAME", Action::SwallowReply);
    let node = redgrid_core::server(&config).unwrap();
    tokio::time::timeout(SOON, node.connection_id().wait_for(Option::is_some))
        .await
        .expect("a connection with a handshake")
        .unwrap();
    wait_until(SOON, async || proxy.counts().open == 2).await;
    let counts = proxy.counts();
    assert_eq!((counts.swallowed, counts.accepted), (2, 4), "one for requests and one for messages, each twice");
    node.close().await;
}
