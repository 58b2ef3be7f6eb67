//! Temporary or general errors of a real server: the reported error, and the recovery.

use std::time::Duration;

use redgrid_core::{Client, Code, Config, Failure};
use redgrid_locks::{AcquireError, Lock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Cluster, Proxy, wait_until};
use redgrid_tests::{SOON, client_with, server};

/// Makes a server a replica of another one, without waiting for it.
async fn demote(server: &redgrid_testkit::RedisServer, below: &redgrid_testkit::RedisServer) {
    let (host, port) = (below.addr().ip().to_string(), below.addr().port().to_string());
    server.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
}

/// An operator moves a name or an address to another server. The former server keeps its clients:
/// their connections stay open, and it would reject every lock for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_was_given_to_another_server_is_followed_when_the_former_takes_no_writes() {
    let (former, next) = (server().await, server().await);
    let address = Proxy::to(&former).await.unwrap();
    // Only a message wakes a waiter: its poll is later than its timeout.
    let settings = |config: Config| config.poll_interval(10 * SOON).connections_per_node(2);
    let client = client_with(&former.url_via(address.addr()), settings).await;
    let other = client_with(&next.url(), settings).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    demote(&former, &next).await;
    address.redirect(next.addr());

    let guard = Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    assert!(next.observer().await.unwrap().exists("a").await.unwrap());
    guard.release().await.unwrap();
    // Messages come from the new server, too.
    let observer = next.observer().await.unwrap();
    let held = Lock::new(&other, "b").acquire().await.unwrap();
    let waiting = tokio::spawn(Lock::new(&client, "b").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || !observer.pubsub_channels("redisson_lock__channel:{b}").await.unwrap().is_empty()).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || former.clients().await.unwrap().iter().all(|client| client.name.is_empty())).await;
}

/// A server that rejects writes and keeps its address is retried, with a new connection at most
/// every two seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_writes_is_waited_for_with_few_connections() {
    let (server, other) = (server().await, server().await);
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    demote(&server, &other).await;
    let before = proxy.counts().accepted;
    // The last copy may have no reply yet when the call times out.
    let bounded = Lock::new(&client, "a").acquire().timeout(Duration::from_millis(300)).await;
    let told =
        matches!(bounded, Err(AcquireError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })));
    assert!(told, "{bounded:?}");
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().timeout(SOON * 2).into_future());
    let began = tokio::time::Instant::now();
    wait_until(SOON, async || began.elapsed() > Duration::from_secs(3)).await;
    // The client opens one connection every two seconds. The change interrupts the subscriber, too,
    // which reconnects as often.
    let accepted = proxy.counts().accepted - before;
    let spent = began.elapsed().as_secs() + 1;
    assert!(accepted <= 2 * (spent / 2 + 2), "{accepted} connections in {spent} s");
    server.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// Waits for a lock and a permit until each has failed three times with the server's refusal as its
/// cause, and asserts that no error names another cause.
///
/// If the last copy has no reply yet, the outcome of the request is unknown.
async fn a_lasting_refusal_is_the_cause(client: &Client, expected: Code) {
    let (lock, semaphore) = (Lock::new(client, "a"), Semaphore::new(client, "{a}:permits", 2));
    let is_cause = |failure: Failure| match failure {
        // A lock reports a refusal that may pass as unavailable, a semaphore as refused.
        Failure::Unavailable { source, .. } | Failure::Refused { source, .. } if source.code() == Some(expected) => {
            true
        }
        Failure::OutcomeUnknown { .. } => false,
        other => panic!("{other:?}"),
    };
    let (mut locks, mut permits) = (0, 0);
    wait_until(2 * SOON, async || {
        let timeout = Duration::from_millis(1200);
        let (of_lock, of_permit) = tokio::join!(lock.acquire().timeout(timeout), semaphore.acquire().timeout(timeout));
        let Err(AcquireError::Failed(failure)) = of_lock else { panic!("{of_lock:?}") };
        locks += u32::from(is_cause(failure));
        let Err(redgrid_semaphore::AcquireError::Failed(failure)) = of_permit else { panic!("{of_permit:?}") };
        permits += u32::from(is_cause(failure));
        locks >= 3 && permits >= 3
    })
    .await;
}

/// A call waits for the end of a foreign script. The server replies to no client until the script
/// is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_endless_script_is_waited_for() {
    let server = server().await;
    // The name of `busy-reply-threshold` before 7.0, which still works.
    server.set_config("lua-time-limit", "50").await.unwrap();
    let (running, killing) = (server.observer().await.unwrap(), server.observer().await.unwrap());
    let client = client_with(&server.url(), |config| config).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let endless = tokio::spawn(async move { running.cmd(&["EVAL", "while true do end", "0"]).await });
    let is_busy = async || killing.cmd(&["GET", "a"]).await.is_err_and(|error| error.code() == Some("BUSY"));
    wait_until(SOON, is_busy).await;
    a_lasting_refusal_is_the_cause(&client, Code::Busy).await;
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    killing.cmd(&["SCRIPT", "KILL"]).await.unwrap();
    assert!(endless.await.unwrap().is_err());
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(held.is_held());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_can_not_save_refuses_at_once_and_grants_when_it_can_again() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config).await;
    let saved = async || -> bool {
        let info: String = observer.query(&["INFO", "persistence"]).await.unwrap();
        info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:ok")
    };
    server.set_config("save", "3600 1").await.unwrap();
    // A folder takes the place of the dump file, so the server cannot save.
    let setting = async |name: &str| -> String {
        let pair: Vec<String> = observer.query(&["CONFIG", "GET", name]).await.unwrap();
        pair[1].clone()
    };
    let file = std::path::Path::new(&setting("dir").await).join(setting("dbfilename").await);
    std::fs::create_dir(&file).unwrap();
    observer.cmd(&["BGSAVE"]).await.unwrap();
    wait_until(SOON, async || {
        let info: String = observer.query(&["INFO", "persistence"]).await.unwrap();
        info.contains("rdb_last_bgsave_status:err")
    })
    .await;
    let refused = Lock::new(&client, "a").acquire().await;
    let code = |source: &redgrid_core::ServerError| source.code();
    assert!(
        matches!(&refused, Err(AcquireError::Failed(Failure::Refused { source, .. })) if code(source) == Some(Code::MisConf)),
        "{refused:?}"
    );
    assert!(!observer.exists("a").await.unwrap());
    std::fs::remove_dir(&file).unwrap();
    observer.cmd(&["BGSAVE"]).await.unwrap();
    wait_until(SOON, saved).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_is_waited_for() {
    let cluster = Cluster::builder().primaries(3).replicas_per_primary(0).full_coverage(true).start().await.unwrap();
    let client = Client::connect(Config::from_url(cluster.url()).unwrap()).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    let home = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    let other = cluster.nodes().iter().find(|node| node.addr() != home.addr()).unwrap();
    other.kill().await.unwrap();
    let observer = home.observer().await.unwrap();
    let is_down = async || observer.cmd(&["GET", "a"]).await.is_err_and(|error| error.code() == Some("CLUSTERDOWN"));
    wait_until(SOON, is_down).await;
    a_lasting_refusal_is_the_cause(&client, Code::ClusterDown).await;
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().timeout(SOON * 2).into_future());
    other.restart_with_data().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
