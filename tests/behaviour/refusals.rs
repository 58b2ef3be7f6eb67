//! What a real server refuses for a while, or to everybody: what the caller is told, and that it goes on by itself.

use std::time::Duration;

use redgrid_core::Config;
use redgrid_locks::Lock;
use redgrid_testkit::{Proxy, wait_until};
use redgrid_tests::{SOON, client_with, server};

/// Asks a server what it copies by now; nothing is awaited.
async fn demote(server: &redgrid_testkit::RedisServer, below: &redgrid_testkit::RedisServer) {
    let (host, port) = (below.addr().ip().to_string(), below.addr().port().to_string());
    server.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
}

/// A name or an address that an operator gives to another server, while the former one keeps its clients: nobody closes
/// their connections, and every lock was refused for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_was_given_to_another_server_is_followed_when_the_former_takes_no_writes() {
    let (former, next) = (server().await, server().await);
    let address = Proxy::to(&former).await.unwrap();
    let settings = |config: Config| config.poll_interval(Duration::from_secs(15)).connections_per_node(2);
    let client = client_with(&former.url_via(address.addr()), settings).await;
    let other = client_with(&next.url(), settings).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    demote(&former, &next).await;
    address.redirect(next.addr());

    let guard = Lock::new(&client, "a").acquire().wait(SOON).await.unwrap();
    assert!(next.observer().await.unwrap().exists("a").await.unwrap());
    guard.release().await.unwrap();
    // Messages come from there, too.
    let observer = next.observer().await.unwrap();
    let held = Lock::new(&other, "b").acquire().await.unwrap();
    let waiting = tokio::spawn(Lock::new(&client, "b").acquire().wait(SOON).into_future());
    wait_until(SOON, async || !observer.pubsub_channels("redisson_lock__channel:{b}").await.unwrap().is_empty()).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || former.clients().await.unwrap().iter().all(|client| client.name.is_empty())).await;
}

/// One that takes no writes and stays is asked again and again, and left no more often than every other second.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_for_a_while_is_waited_for_and_not_besieged() {
    let (server, other) = (server().await, server().await);
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    demote(&server, &other).await;
    let before = proxy.counts().accepted;
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().wait(SOON * 2).into_future());
    let began = tokio::time::Instant::now();
    wait_until(SOON, async || began.elapsed() > Duration::from_secs(3)).await;
    // One every two seconds; a subscriber that the change has cost its connection is as often new.
    let accepted = proxy.counts().accepted - before;
    let spent = began.elapsed().as_secs() + 1;
    assert!(accepted <= 2 * (spent / 2 + 2), "{accepted} connections in {spent} s");
    server.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
