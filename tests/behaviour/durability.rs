//! What waits until replicas or the disk have it is told the truth, and nobody else notices.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use redgrid_core::clock::Clock;
use redgrid_core::config::Durability;
use redgrid_core::{
    ChannelKind, Client, CommitError, Config, Epoch, NodeId, Push, Refused, Reply, Request, Server, ServerClock,
    ServerError,
};
use redgrid_locks::Lock;
use redgrid_semaphore::{self as semaphore, Semaphore};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, server};
use tokio::sync::{Notify, mpsc, watch};

/// On a busy machine, how much later than its time an answer may come.
const SLACK: Duration = Duration::from_secs(2);

const COMMIT: &str = "redgrid:commit";

fn replicas(at_least: u32, timeout: Duration) -> Durability {
    Durability::Replicas { at_least, timeout }
}

/// A replica of `primary` that has all its data.
async fn replica_of(primary: &RedisServer) -> RedisServer {
    // Set before it joins: a full copy otherwise begins 5 s later.
    primary.set_config("repl-diskless-sync-delay", "0").await.unwrap();
    let replica = RedisServer::builder().binary(primary.binary().clone()).start().await.unwrap();
    let observer = replica.observer().await.unwrap();
    let (host, port) = (primary.addr().ip().to_string(), primary.addr().port().to_string());
    observer.cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    wait_until(SOON, async || info(&observer, "replication", "master_link_status").await == "up").await;
    // A replica that has just copied everything acknowledges for the first time up to a second later.
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

/// How often a command was called.
async fn calls(observer: &Observer, command: &str) -> u64 {
    let stats = info(observer, "commandstats", &format!("cmdstat_{command}")).await;
    let calls = stats.split(',').find_map(|part| part.strip_prefix("calls=")).unwrap_or("0");
    calls.parse().unwrap()
}

/// A node on real connections, up.
async fn node(server: &RedisServer) -> Arc<dyn Server> {
    node_with(server, |config| config).await
}

async fn node_with(server: &RedisServer, settings: impl FnOnce(Config) -> Config) -> Arc<dyn Server> {
    let node = redgrid_core::server(&settings(Config::from_url(&server.url()).unwrap())).unwrap();
    epoch(&node).await;
    node
}

async fn epoch(node: &Arc<dyn Server>) -> Epoch {
    let mut epochs = node.epoch();
    let up = tokio::time::timeout(SOON, epochs.wait_for(Option::is_some));
    up.await.unwrap().unwrap().clone().unwrap()
}

/// Writes, as a grant does; the epoch it was answered in.
async fn grant(node: &Arc<dyn Server>, key: &str) -> Epoch {
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
async fn what_one_replica_acknowledged_is_there() {
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
    let since = Epoch { run_id: "any".into(), connection: 1 };
    assert!(node.commit(since, replicas(1, SOON), b"late").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_opened_or_sent_as_long_as_the_primary_is_enough() {
    let primary = server().await;
    let node = node(&primary).await;
    let observer = primary.observer().await.unwrap();
    wait_until(SOON, async || primary.clients().await.unwrap().len() == 2).await;
    for asked in [Durability::Primary, replicas(0, SOON)] {
        let since = grant(&node, "key").await;
        node.commit(since, asked, b"key").await.unwrap();
        // Nor for an answer that nothing can be proven of.
        let gone = Epoch { run_id: "another".into(), connection: 9 };
        node.commit(gone.clone(), asked, b"key").await.unwrap();
        assert!(unproven(&node.commit(gone, replicas(1, SOON), b"key").await));
    }
    assert_eq!((primary.clients().await.unwrap().len(), calls(&observer, "wait").await), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_replica_is_a_shortfall_in_time_and_in_numbers() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let node = node(&primary).await;
    let asked = replicas(1, Duration::from_millis(300));
    let since = grant(&node, "key").await;
    node.commit(since, asked, b"key").await.unwrap();
    replica.pause().await.unwrap();
    let (since, began) = (grant(&node, "other").await, Instant::now());
    let told = node.commit(since, asked, b"other").await.unwrap_err();
    assert_eq!(told, CommitError::Shortfall { asked, acknowledged: 0 });
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(300) + SLACK, "{took:?}");
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
async fn those_who_ask_for_less_are_not_held_up_by_a_dead_replica() {
    let primary = server().await;
    let (_one, two) = (replica_of(&primary).await, replica_of(&primary).await);
    let node = node(&primary).await;
    two.pause().await.unwrap();
    // Four that wait for the dead one the whole time.
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
    let mut took = Vec::new();
    for _ in 0..500 {
        let since = grant(&node, "key").await;
        let began = Instant::now();
        node.commit(since, replicas(1, SOON), b"key").await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    println!("beside a dead replica: p50 {:?}, p99 {:?}", took[249], took[494]);
    assert!(took[494] < Duration::from_millis(500), "{:?}", took[494]);
    // And of the same level, the impatient do not wait for the patient.
    let impatient = replicas(2, Duration::from_millis(50));
    let (since, began) = (grant(&node, "key").await, Instant::now());
    let told = node.commit(since, impatient, b"key").await.unwrap_err();
    assert!(matches!(told, CommitError::Shortfall { .. }), "{told:?}");
    assert!(began.elapsed() < Duration::from_millis(50) + SLACK, "{:?}", began.elapsed());
    for one in stuck {
        let told = one.await.unwrap().unwrap_err();
        assert!(matches!(told, CommitError::Shortfall { acknowledged: 0 | 1, .. }), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_takes_nobody_along() {
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
    // At once, and when the new process is known.
    assert!(node.commit(since.clone(), replicas(1, SOON), b"key").await.is_err());
    wait_until(SOON, async || epoch(&node).await.run_id != since.run_id).await;
    assert!(unproven(&node.commit(since, replicas(1, SOON), b"key").await));
    // A grant of the new process can be proven, at the latest once the replica's coming is known.
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
    // It copies the data of an empty server, and is made a primary again: same process, same connections.
    let observer = primary.observer().await.unwrap();
    other.set_config("repl-diskless-sync-delay", "0").await.unwrap();
    let (host, port) = (other.addr().ip().to_string(), other.addr().port().to_string());
    observer.cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    wait_until(SOON, async || info(&observer, "replication", "master_link_status").await == "up").await;
    observer.cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    assert!(!observer.exists("lost").await.unwrap());
    let on_the_replica = replica.observer().await.unwrap();
    wait_until(SOON, async || info(&on_the_replica, "replication", "master_link_status").await == "up").await;
    assert_eq!(node.epoch().borrow().clone(), Some(since.clone()));
    assert!(unproven(&node.commit(since.clone(), replicas(1, SOON), b"lost").await));
    // From then on it is another epoch, of which things can be proven.
    wait_until(SOON, async || node.epoch().borrow().as_ref().is_some_and(|epoch| *epoch != since)).await;
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
        let (asked, began) = (replicas(1, Duration::from_secs(1)), Instant::now());
        let commit = spawn_commit(grant(&node, "key").await, asked);
        wait_until(SOON, blocked).await;
        assert_eq!(primary.kill_connections_named(COMMIT).await.unwrap(), 1);
        // A fresh connection has nothing to wait for, and counts whom it finds.
        let told = commit.await.unwrap();
        let lost = matches!(told, Err(CommitError::Asking(ServerError::Unknown { .. })));
        assert!(lost || told == Err(CommitError::Shortfall { asked, acknowledged: 0 }), "{told:?}");
        assert!(began.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", began.elapsed());
    }
    // With time left, it is asked again on the next connection.
    let commit = spawn_commit(grant(&node, "key").await, replicas(1, SOON));
    wait_until(SOON, blocked).await;
    primary.kill_connections_named(COMMIT).await.unwrap();
    wait_until(SOON, async || commits(&primary).await == 1 && blocked().await).await;
    replica.resume().await.unwrap();
    commit.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_primary_is_told_within_the_time_and_one_timeout() {
    let primary = server().await;
    let _replica = replica_of(&primary).await;
    let timeout = Duration::from_millis(600);
    let node = node_with(&primary, |config| config.timeout(timeout)).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
    let since = grant(&node, "key").await;
    primary.pause().await.unwrap();
    let began = Instant::now();
    let told = node.commit(since, replicas(1, Duration::from_millis(200)), b"key").await;
    primary.resume().await.unwrap();
    assert!(matches!(told, Err(CommitError::Asking(_) | CommitError::Unproven { .. })), "{told:?}");
    assert!(began.elapsed() < Duration::from_millis(200) + timeout + SLACK, "{:?}", began.elapsed());
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
    let node = node_with(&primary, |config| config.timeout(Duration::from_millis(500))).await;
    let since = grant(&node, "key").await;
    node.commit(since, replicas(1, SOON), b"key").await.unwrap();
    let ids = async || {
        let clients = primary.clients().await.unwrap();
        clients.into_iter().filter(|client| client.name == COMMIT).map(|client| client.id).collect::<Vec<_>>()
    };
    let before = ids().await;
    replica.pause().await.unwrap();
    // Long enough for the PING that looks after an idle connection.
    let asked = replicas(1, Duration::from_secs(7));
    let since = grant(&node, "key").await;
    let told = node.commit(since, asked, b"key").await.unwrap_err();
    assert_eq!(told, CommitError::Shortfall { asked, acknowledged: 0 });
    assert_eq!(ids().await, before);
    replica.resume().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_read_the_run_id_is_refused_in_words() {
    let primary = server().await;
    primary.deny(&["info"]).await.unwrap();
    let node = node(&primary).await;
    let since = grant(&node, "key").await;
    let told = node.commit(since, replicas(1, SOON), b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("INFO")), "{told:?}");
    assert_eq!(commits(&primary).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_refused_by_a_server_that_can_not_tell() {
    let primary = RedisServer::builder().append_only(true).config("appendfsync always").start().await.unwrap();
    if primary.binary().version().major > 7 || primary.binary().version().minor >= 2 {
        return;
    }
    let node = node(&primary).await;
    let (since, began) = (grant(&node, "key").await, Instant::now());
    let told = node.commit(since, Durability::Disk { timeout: SOON }, b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("7.2")), "{told:?}");
    assert!(began.elapsed() < SLACK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_has_it_or_it_is_told_on_the_newest_server() {
    let test = "a_disk_has_it_or_it_is_told_on_the_newest_server";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let disk = |timeout| Durability::Disk { timeout };
    let kept = RedisServer::builder().binary(newest.clone()).append_only(true).config("appendfsync always");
    let kept = kept.start().await.unwrap();
    let to_disk = node(&kept).await;
    let since = grant(&to_disk, "key").await;
    to_disk.commit(since, disk(SOON), b"key").await.unwrap();
    // Where nothing is synced on purpose, it is not acknowledged.
    kept.set_config("appendfsync", "no").await.unwrap();
    let asked = disk(Duration::from_millis(200));
    let since = grant(&to_disk, "key").await;
    let told = to_disk.commit(since, asked, b"key").await;
    assert_eq!(told, Err(CommitError::Shortfall { asked, acknowledged: 0 }));
    // And without an append-only file it is refused at once.
    let forgetful = RedisServer::builder().binary(newest).start().await.unwrap();
    let node = node(&forgetful).await;
    let (since, began) = (grant(&node, "key").await, Instant::now());
    let told = node.commit(since, disk(SOON), b"key").await.unwrap_err();
    assert!(matches!(&told, CommitError::Unsupported { missing } if missing.contains("appendonly")), "{told:?}");
    assert!(began.elapsed() < SLACK);
}

/// A node that keeps the answer to one renewal back, once it is told so, and that proves nothing once it is told so.
struct Gated {
    node: Arc<dyn Server>,
    /// A renewal of two names was answered.
    renewed: Notify,
    pass: Notify,
    gated: AtomicBool,
    proves: AtomicBool,
}

#[async_trait]
impl Server for Gated {
    fn id(&self) -> &NodeId {
        self.node.id()
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let renews = requests.iter().any(|request| request.label() == "lock/renew" && request.touched().len() == 2);
        let answers = self.node.call(requests).await;
        if renews && self.gated.swap(false, Ordering::Relaxed) {
            self.renewed.notify_one();
            self.pass.notified().await;
        }
        answers
    }

    async fn commit(&self, _: Epoch, asked: Durability, _: &[u8]) -> Result<(), CommitError> {
        match self.proves.load(Ordering::Relaxed) || asked == Durability::Primary {
            true => Ok(()),
            false => Err(CommitError::Unsupported { missing: "a proof".into() }),
        }
    }

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.node.epoch()
    }

    fn time(&self) -> &ServerClock {
        self.node.time()
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        self.node.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.node.unsubscribe(kind, channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.node.pushes()
    }

    async fn close(&self) {
        self.node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_as_durable_as_each_of_its_names_asked_whoever_has_the_first_by_then() {
    let server = server().await;
    let gated = Arc::new(Gated {
        node: node(&server).await,
        renewed: Notify::new(),
        pass: Notify::new(),
        gated: AtomicBool::new(false),
        proves: AtomicBool::new(true),
    });
    let config = Config::from_url(&server.url()).unwrap();
    let config = config.watchdog_lease(Duration::from_millis(900)).stretch(Duration::from_millis(500));
    let client = Client::over_one(Arc::clone(&gated) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let strong = replicas(1, SOON);
    let (first, second) = (Lock::new(&client, "a"), Lock::new(&client, "b"));
    let one = first.acquire().durability(strong).await.unwrap();
    let other = second.acquire().durability(strong).await.unwrap();
    let next = tokio::spawn(first.acquire().into_future());
    wait_until(SOON, async || client.in_hand().waiting == 1).await;
    // A renewal that moves the deadline by far more than the test takes.
    wait_until(SOON, async || other.remaining() < Duration::from_millis(700)).await;
    gated.gated.store(true, Ordering::Relaxed);
    gated.renewed.notified().await;
    gated.proves.store(false, Ordering::Relaxed);
    let left = other.remaining();
    one.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    gated.pass.notify_one();
    // An answer that counted would have been heard by then, as a rule: nothing else tells that it does not.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(other.remaining() <= left, "{:?} {left:?}", other.remaining());
    drop((next, other));
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_count_once_replicas_have_them_and_others_do_not_wait_for_that() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    // What is released passes on, if it may.
    let passing = |config: Config| config.watchdog_lease(SOON).stretch(Duration::from_millis(500));
    let client = redgrid_tests::client_with(&primary.url(), passing).await;
    let mail = Semaphore::new(&client, "mail").capacity(3);
    let both = replicas(1, SOON);
    let proven = mail.acquire().durability(both).await.unwrap();
    let unproven = mail.acquire().await.unwrap();
    replica.pause().await.unwrap();
    // One waits for the replica; who comes behind it does not.
    let durable = replicas(1, Duration::from_secs(3));
    let short = tokio::spawn(mail.acquire().durability(durable).into_future());
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 0).await;
    unproven.release().await.unwrap();
    let behind = mail.acquire().wait(SOON).await.unwrap();
    assert!(!short.is_finished());
    let told = short.await.unwrap();
    assert!(matches!(told, Err(semaphore::AcquireError::NotDurable { .. })), "{told:?}");
    // What one had without that is not passed on to one who asks for it.
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 1).await;
    let all = [proven, behind, mail.acquire().await.unwrap()];
    let short = tokio::spawn(mail.acquire().durability(durable).into_future());
    wait_until(SOON, async || client.in_hand().waiting == 1).await;
    let [proven, behind, last] = all;
    last.release().await.unwrap();
    let told = short.await.unwrap();
    assert!(matches!(told, Err(semaphore::AcquireError::NotDurable { .. })), "{told:?}");
    replica.resume().await.unwrap();
    mail.acquire().durability(both).await.unwrap().release().await.unwrap();
    proven.release().await.unwrap();
    behind.release().await.unwrap();
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 3 && client.in_hand().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_permits_are_believed_once_replicas_have_them() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let lease = Duration::from_secs(3);
    let client = redgrid_tests::client_with(&primary.url(), |config| config.watchdog_lease(lease)).await;
    let mail = Semaphore::new(&client, "mail").capacity(2);
    let both = replicas(1, Duration::from_millis(500));
    let (proven, other) = (mail.acquire().durability(both).await.unwrap(), mail.acquire().await.unwrap());
    replica.pause().await.unwrap();
    let told = tokio::time::timeout(lease + SOON, proven.lost()).await.expect("it is not renewed");
    assert_eq!(told, redgrid_semaphore::LostReason::Expired);
    assert!(other.is_held());
    replica.resume().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_granted_while_its_client_shuts_down_goes_back() {
    for leases in [false, true] {
        let primary = server().await;
        let _replica = replica_of(&primary).await;
        let proxy = Proxy::to(&primary).await.unwrap();
        let observer = primary.observer().await.unwrap();
        let client = redgrid_tests::client_with(&primary.url_via(proxy.addr()), |config| config).await;
        let mail = Semaphore::new(&client, "mail").capacity(3);
        let mail = if leases { mail } else { mail.without_leases() };
        mail.acquire().await.unwrap().release().await.unwrap();
        proxy.next(1, "redgrid_once:{mail}", Action::Hold);
        let asked = tokio::spawn(mail.acquire().durability(replicas(1, SOON)).into_future());
        let left = async || observer.get::<i64>("mail").await.unwrap();
        wait_until(SOON, async || left().await == Some(2)).await;
        let closing = tokio::spawn({
            let client = client.clone();
            async move { client.shutdown(SOON).await }
        });
        wait_until(SOON, async || client.is_shut_down()).await;
        proxy.release_held().await;
        closing.await.unwrap().unwrap();
        assert!(asked.await.unwrap().is_err());
        assert_eq!(left().await, Some(3), "leases: {leases}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_is_proven_late_is_not_believed_over_a_later_one() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let (client, observer) = (redgrid_tests::client(&primary).await, primary.observer().await.unwrap());
    let mail = Semaphore::new(&client, "mail").capacity(1);
    let (lease, longer, shorter) = (Duration::from_secs(60), Duration::from_secs(90), Duration::from_secs(30));
    let permit = mail.acquire().lease(lease).durability(replicas(1, 2 * SOON)).await.unwrap();
    replica.pause().await.unwrap();
    let resumed = async {
        // Both have been carried out by then: the second is not kept by the proof of the first.
        wait_until(SOON, async || calls(&observer, "zadd").await >= 3).await;
        replica.resume().await.unwrap();
    };
    let (longer, shorter, ()) = tokio::join!(permit.extend(longer), permit.extend(shorter), resumed);
    longer.unwrap();
    shorter.unwrap();
    assert!(permit.remaining().unwrap() <= Duration::from_secs(30), "{:?}", permit.remaining());
    permit.release().await.unwrap();
}
