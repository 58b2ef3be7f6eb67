//! Planned failovers, in which the former primary still answers, and releases that only a former
//! primary has executed.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_locks::{FairLock, FencedLock, Lock, MultiLock, RwLock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::redis::Value;
use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, Sentinels, wait_until};
use redgrid_tests::SOON;

use super::{Load, MS, names};
use crate::fixture::{by_list, by_seeds, by_sentinels, connected, is_replicated, is_skipped_before_7, replicated};

/// A lease longer than any test runs: a lock that is free earlier was released.
const LEASE: Duration = Duration::from_secs(3600);

/// Sets the INFO period of all sentinels to a minute. No sentinel then reads the state of a server
/// before a failover is in progress, and all sentinels rely on old states for a long time.
async fn ask_seldom(sentinels: &Sentinels) {
    for sentinel in sentinels.sentinels() {
        sentinel.observer().await.unwrap().cmd(&["SENTINEL", "DEBUG", "info-period", "60000"]).await.unwrap();
    }
}

async fn begin(sentinels: &Sentinels) {
    let observer = sentinels.sentinels()[0].observer().await.unwrap();
    observer.cmd(&["SENTINEL", "FAILOVER", sentinels.master_name()]).await.unwrap();
}

/// Returns the replicas of a deployment.
fn others<'a>(sentinels: &'a Sentinels, primary: &RedisServer) -> Vec<&'a RedisServer> {
    sentinels.servers().iter().filter(|server| server.addr() != primary.addr()).collect()
}

fn primary_of(client: &Client) -> Option<String> {
    client.topology().shards.first().map(|shard| shard.primary.0.to_string())
}

/// Returns the port of the primary that a sentinel names.
async fn named_by(sentinels: &Sentinels) -> u16 {
    let observer = sentinels.sentinels()[0].observer().await.unwrap();
    let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master_name()];
    observer.query::<(String, u16)>(&ask).await.unwrap().1
}

/// Returns the longest time between two acknowledged writes of a task.
async fn longest_pause(client: Client, until: impl AsyncFn() -> bool) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while !until().await {
        client.command("INCR").key("writes").unwrap().query::<u64>().await.unwrap();
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

/// No name stays locked after a planned failover. The former primary acknowledges writes after the
/// promotion, and they are lost. So the client suspends its requests once a replica is chosen. A
/// lost release would leave its name locked for a whole lease.
///
/// A sentinel promotes a replica within 0.1 s after it has chosen it. On a busy machine, the client
/// may learn of the choice too late, or the sentinels may also replace the new primary. Such a
/// failover is repeated.
pub(super) async fn sentinel_no_name_stays_locked_by_a_planned_failover() {
    for _ in 0..20 {
        if are_free_after_a_failover().await {
            return;
        }
    }
    panic!("no failover was as planned");
}

/// Checks that all names are free after a planned failover. Returns false if the client did not
/// suspend its requests before the promotion, or if another failover followed.
async fn are_free_after_a_failover() -> bool {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).watchdog_lease(LEASE)).await;
    let former = sentinels.current_primary().await.unwrap();
    let loads: Vec<_> = names("load", 18).into_iter().map(|name| Load::on(&client, [name])).collect();
    for load in &loads {
        load.until_more(5).await;
    }
    let replicas = others(&sentinels, former);
    let suspends = tokio::time::timeout(SOON, suspends_in_time(&loads, former, &replicas));
    let (is_replaced, suspends) = tokio::join!(is_replaced_at_once(&sentinels, former), suspends);
    if !is_replaced || suspends != Ok(true) {
        return false;
    }
    tokio::select! {
        () = async {
            for load in &loads {
                load.until_more(5).await;
            }
        } => {}
        () = another_failover(&sentinels) => return false,
    }
    for load in loads {
        let failures = load.end().await;
        assert!(failures.is_empty(), "{failures:?}");
    }
    true
}

/// Requests one failover. Returns false if the sentinel gives it up: the client has then resumed
/// its requests, and may not suspend them in time for a further failover.
async fn is_replaced_at_once(sentinels: &Sentinels, primary: &RedisServer) -> bool {
    let observer = sentinels.sentinels()[0].observer().await.unwrap();
    if observer.cmd(&["SENTINEL", "FAILOVER", sentinels.master_name()]).await.is_err() {
        return false;
    }
    let replaced = tokio::time::timeout(SOON, sentinels.wait_for_primary_other_than(primary.addr())).await;
    let is_replaced = replaced.is_ok_and(|replaced| replaced.is_ok());
    is_replaced && sentinels.wait_until_ok().await.is_ok()
}

/// Waits until a sentinel has counted a second failover. An attempt that it gave up counts, too.
async fn another_failover(sentinels: &Sentinels) {
    let observer = sentinels.sentinels()[0].observer().await.unwrap();
    wait_until(2 * SOON, async || {
        let ask = ["SENTINEL", "MASTER", sentinels.master_name()];
        let facts: HashMap<String, String> = observer.query(&ask).await.unwrap();
        facts["config-epoch"] != "1"
    })
    .await;
}

/// Waits until no lock is acquired while another client gets twenty replies of the primary. Then
/// waits until the replicas have all data. Returns false if a replica is promoted earlier.
async fn suspends_in_time(loads: &[Load], primary: &RedisServer, replicas: &[&RedisServer]) -> bool {
    let observer = primary.observer().await.unwrap();
    let acquired = || loads.iter().map(|load| load.done.load(Ordering::Relaxed)).sum::<u64>();
    loop {
        let before = acquired();
        for _ in 0..20 {
            // A demoted server closes its connections, so a replica was promoted.
            if observer.ping().await.is_err() {
                return false;
            }
        }
        let is_suspended = acquired() == before;
        if is_suspended && !is_replicated(&observer, replicas.len()).await.unwrap_or(false) {
            return false;
        }
        for replica in replicas {
            // A sentinel closes the connections of the server that it promotes.
            let role: Vec<Value> = match replica.observer().await {
                Ok(observer) => observer.query(&["ROLE"]).await.unwrap_or_default(),
                Err(_) => Vec::new(),
            };
            if role.first() != Some(&Value::BulkString(b"slave".to_vec())) {
                return false;
            }
        }
        if is_suspended {
            return true;
        }
    }
}

pub(super) async fn sentinel_a_promoted_replica_is_followed_before_the_sentinels_name_it() {
    let scenario = "sentinel_a_promoted_replica_is_followed_before_the_sentinels_name_it";
    if is_skipped_before_7(scenario, "a sentinel's periods can not be set") {
        return;
    }
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    ask_seldom(&sentinels).await;
    // No sentinel sees that a replica was promoted.
    for replica in others(&sentinels, former) {
        replica.deny(&["info"]).await.unwrap();
    }
    begin(&sentinels).await;
    let led_by_former = Some(former.addr().to_string());
    wait_until(SOON, async || primary_of(&client) != led_by_former).await;
    let guard = Lock::new(&client, "fresh").acquire().timeout(SOON).await.unwrap();
    assert!(!former.observer().await.unwrap().exists("fresh").await.unwrap());
    assert_eq!(named_by(&sentinels).await, former.addr().port());
    guard.release().await.unwrap();
}

/// Between the choice of a replica and its promotion, writes would be lost, so the client delays
/// them. If the promotion fails, the client continues with the former primary, and uses no other
/// server that claims to be a primary.
pub(super) async fn sentinel_a_failover_without_promotion_delays_writes_briefly() {
    let scenario = "sentinel_a_failover_without_promotion_delays_writes_briefly";
    if is_skipped_before_7(scenario, "a sentinel's periods can not be set") {
        return;
    }
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    let [chosen, by_hand] = others(&sentinels, former)[..] else { panic!("two replicas") };
    by_hand.set_config("replica-priority", "0").await.unwrap();
    for sentinel in sentinels.sentinels() {
        let (observer, ask) = (sentinel.observer().await.unwrap(), ["SENTINEL", "REPLICAS", sentinels.master_name()]);
        let knows = |replicas: &[HashMap<String, String>]| {
            let priority = |facts: &HashMap<String, String>| facts.get("slave-priority").cloned();
            replicas.iter().any(|facts| priority(facts).as_deref() == Some("0"))
        };
        wait_until(SOON, async || knows(&observer.query::<Vec<_>>(&ask).await.unwrap())).await;
    }
    ask_seldom(&sentinels).await;
    by_hand.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    for replica in [chosen, by_hand] {
        replica.deny(&["slaveof", "replicaof"]).await.unwrap();
    }
    let leader = sentinels.sentinels()[0].observer().await.unwrap();
    let flags = async || -> String {
        let ask = ["SENTINEL", "MASTER", sentinels.master_name()];
        let mut facts: HashMap<String, String> = leader.query(&ask).await.unwrap();
        facts.remove("flags").unwrap_or_default()
    };
    begin(&sentinels).await;
    assert!(flags().await.contains("failover_in_progress"));
    let is_over = async || !flags().await.contains("failover_in_progress");
    let longest = tokio::time::timeout(SOON, longest_pause(client.clone(), is_over)).await.unwrap();
    assert!(longest > 500 * MS, "{longest:?}: nothing was held back");
    assert_eq!(primary_of(&client), Some(former.addr().to_string()));
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
}

/// Holds of every kind, released at a primary after its replicas were cut off.
struct Holds {
    lock: redgrid_locks::LockGuard,
    fenced: redgrid_locks::LockGuard,
    fair: redgrid_locks::LockGuard,
    several: redgrid_locks::MultiGuard,
    read: redgrid_locks::ReadGuard,
    write: redgrid_locks::WriteGuard,
    permit: redgrid_semaphore::Permit,
    theirs: redgrid_locks::LockGuard,
}

impl Holds {
    async fn of([one, two]: &[Client; 2]) -> Holds {
        // This lock is released, and another client acquires it before the replicas are cut off.
        // The hold of that client must not end.
        Lock::new(one, "{tag}:theirs").acquire().await.unwrap().release().await.unwrap();
        Holds {
            lock: Lock::new(one, "{tag}:lock").acquire().await.unwrap(),
            fenced: FencedLock::new(one, "{tag}:fenced").acquire().await.unwrap(),
            fair: FairLock::new(one, "{tag}:fair").acquire().await.unwrap(),
            several: MultiLock::new(one, ["{tag}:1", "{tag}:2"]).acquire().await.unwrap(),
            read: RwLock::new(one, "{tag}:read").read().await.unwrap(),
            write: RwLock::new(one, "{tag}:write").write().await.unwrap(),
            permit: Semaphore::new(one, "{tag}:permits", 1).acquire().await.unwrap(),
            theirs: Lock::new(two, "{tag}:theirs").acquire().timeout(SOON).await.unwrap(),
        }
    }

    async fn release(self) -> redgrid_locks::LockGuard {
        self.lock.release().await.unwrap();
        self.fenced.release().await.unwrap();
        self.fair.release().await.unwrap();
        self.several.release().await.unwrap();
        self.read.release().await.unwrap();
        self.write.release().await.unwrap();
        self.permit.release().await.unwrap();
        self.theirs
    }

    /// Checks that another client can acquire all of them.
    async fn are_free(two: &Client) {
        let _ = Lock::new(two, "{tag}:lock").acquire().timeout(SOON).await.unwrap();
        let _ = FencedLock::new(two, "{tag}:fenced").acquire().timeout(SOON).await.unwrap();
        let _ = FairLock::new(two, "{tag}:fair").acquire().timeout(SOON).await.unwrap();
        let _ = MultiLock::new(two, ["{tag}:1", "{tag}:2"]).acquire().timeout(SOON).await.unwrap();
        let _ = RwLock::new(two, "{tag}:read").write().timeout(SOON).await.unwrap();
        let _ = RwLock::new(two, "{tag}:write").write().timeout(SOON).await.unwrap();
        let _ = Semaphore::new(two, "{tag}:permits", 1).acquire().timeout(SOON).await.unwrap();
    }
}

/// Cuts off the replicas: from here on they receive nothing.
async fn cut_off(primary: &RedisServer) -> Observer {
    primary.deny(&["psync", "sync"]).await.unwrap();
    let observer = primary.observer().await.unwrap();
    let cut = async || {
        observer.query::<u64>(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        let info: String = observer.query(&["INFO", "replication"]).await.unwrap();
        info.contains("connected_slaves:0")
    };
    wait_until(SOON, cut).await;
    observer
}

async fn nothing_stays_locked(clients: [Client; 2], former: &RedisServer, replicas: usize, fails: impl AsyncFnOnce()) {
    let holds = Holds::of(&clients).await;
    replicated(former, replicas).await;
    cut_off(former).await;
    let theirs = holds.release().await;
    fails().await;
    // If only a refusal shows that a primary was replaced, the client needs a request to notice it.
    let _ = Lock::new(&clients[0], "{tag}:other").acquire().timeout(SOON).await.unwrap();
    Holds::are_free(&clients[1]).await;
    // A client that has acquired a name meanwhile keeps it.
    theirs.extend(LEASE).await.unwrap();
    assert!(theirs.is_held());
}

pub(super) async fn sentinel_a_release_that_no_replica_received_is_retried() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let former = sentinels.current_primary().await.unwrap();
    let fails = async || {
        former.kill().await.unwrap();
        sentinels.wait_for_primary_other_than(former.addr()).await.unwrap();
    };
    nothing_stays_locked(clients, former, 2, fails).await;
}

pub(super) async fn cluster_a_release_that_no_replica_received_is_retried() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let slot = cluster.slot_of("{tag}").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let fails = async || {
        former.kill().await.unwrap();
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
        wait_until(SOON, moved).await;
    };
    nothing_stays_locked(clients, former, 1, fails).await;
}

pub(super) async fn master_slave_a_release_that_no_replica_received_is_retried() {
    let servers = Replicated::start(1).await.unwrap();
    let config = by_list(&servers).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let (former, promoted) = (servers.primary(), &servers.replicas()[0]);
    let fails = async || {
        promoted.observer().await.unwrap().cmd(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        let (host, port) = (promoted.addr().ip().to_string(), promoted.addr().port().to_string());
        former.observer().await.unwrap().cmd(&["REPLICAOF", &host, &port]).await.unwrap();
    };
    nothing_stays_locked(clients.clone(), former, 1, fails).await;
    let role: Vec<Value> = promoted.observer().await.unwrap().query(&["ROLE"]).await.unwrap();
    assert!(format!("{role:?}").contains("master"));
}
