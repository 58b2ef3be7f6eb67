//! Nodes that die, and those that take their place.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_barrier::{Barrier, DoubleBarrier, Event, Phaser};
use redgrid_core::{Client, Config, InHand};
use redgrid_locks::{
    AcquireError, Election, FairLock, Fence, FenceError, FencedLock, Lock, LockGuard, MultiGuard, MultiLock, ReadGuard,
    RwLock,
};
use redgrid_semaphore::{Permit, Semaphore};
use redgrid_testkit::{Cluster, Observer, Proxy, RedisServer, Replicated, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::process::Other;
use tokio::task::JoinHandle;

use crate::ground::{by_list, by_seeds, by_sentinels, connected, is_skipped_before_7, scenarios};

scenarios![
    sentinel_a_killed_primary_is_followed_and_what_is_held_stays_held,
    sentinel_a_stopped_primary_is_left_and_gets_nothing_when_it_wakes,
    sentinel_a_primary_that_stops_together_with_a_sentinel_is_left_as_soon,
    sentinel_nobody_is_led_back_by_the_one_that_leads_an_election,
    sentinel_whom_the_sentinels_have_chosen_is_followed_before_they_name_it,
    sentinel_a_planned_failover_is_no_error_for_anybody,
    sentinel_any_one_sentinel_is_enough,
    sentinel_a_waiter_is_woken_by_a_release_on_the_new_primary,
    sentinel_a_long_retry_delay_holds_up_no_failover,
    sentinel_those_that_were_set_up_anew_are_followed,
    sentinel_calls_wait_for_the_first_sentinel_to_start,
    sentinel_what_is_around_a_lock_goes_on_at_the_new_primary,
    sentinel_who_waits_at_a_barrier_goes_on_at_the_new_primary,
    cluster_who_waits_at_a_barrier_goes_on_at_the_new_primary,
    sentinel_an_opening_that_a_failover_lost_is_made_known_at_a_barrier,
    sentinel_the_whole_family_goes_on_at_the_new_primary,
    cluster_the_whole_family_goes_on_at_the_new_primary,
    cluster_a_killed_primary_is_followed_and_the_others_see_no_error,
    cluster_a_call_that_waits_finds_the_promoted_one_without_a_scan,
    cluster_a_call_to_one_that_hangs_finds_the_promoted_one_without_a_scan,
    cluster_a_node_that_leaves_slots_out_of_its_map_ends_no_connection,
    cluster_a_planned_failover_is_no_error_for_anybody,
    cluster_a_waiter_is_woken_by_a_release_on_the_new_primary,
    cluster_one_seed_that_lives_is_enough,
    master_slave_a_primary_that_copies_another_by_now_is_left,
    master_slave_a_client_that_ends_while_its_primary_is_dead_leaves_nothing_behind,
    single_a_client_that_ends_too_late_leaves_nothing_behind,
];

/// A lease that outlives a failover.
const LEASE: Duration = Duration::from_secs(10);

/// No test runs so long.
const NEVER: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// Tasks that take and give back names of their own for as long as it lives, and what came of it.
struct Load {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Vec<AcquireError>>>,
}

impl Load {
    fn on(client: &Client, names: impl IntoIterator<Item = String>) -> Load {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks = names.into_iter().map(|name| {
            let (lock, over, done) = (Lock::new(client, name), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                let mut failures = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    match lock.acquire().wait(SOON).await {
                        Ok(guard) => {
                            done.fetch_add(1, Ordering::Relaxed);
                            // Lost with its primary, perhaps: that is told, and no failure.
                            let _ = guard.release().await;
                        }
                        Err(failure) => failures.push(failure),
                    }
                }
                failures
            })
        });
        let tasks = tasks.collect();
        Load { over, done, tasks }
    }

    /// Waits until so many more have been taken.
    async fn until_more(&self, more: u64) {
        let before = self.done.load(Ordering::Relaxed);
        wait_until(SOON, async || self.done.load(Ordering::Relaxed) >= before + more).await;
    }

    async fn end(self) -> Vec<AcquireError> {
        self.over.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for task in self.tasks {
            failures.extend(task.await.unwrap());
        }
        failures
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}:{n}")).collect()
}

/// Waits until a replica has all that its primary has.
async fn replicated(primary: &RedisServer, replicas: usize) {
    let observer = primary.observer().await.unwrap();
    let acknowledged: usize = observer.query(&["WAIT", &replicas.to_string(), "10000"]).await.unwrap();
    assert!(acknowledged >= replicas);
}

async fn sentinel_a_killed_primary_is_followed_and_what_is_held_stays_held() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).watchdog_lease(LEASE)).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    let former = sentinels.current_primary().await.unwrap();
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    let promoted = Instant::now();
    let fresh = Lock::new(&client, "fresh").acquire().wait(SOON).await.unwrap();
    assert!(promoted.elapsed() < Duration::from_secs(5), "{:?}", promoted.elapsed());
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.iter().all(|failure| matches!(failure, AcquireError::OutcomeUnknown { .. })), "{failures:?}");
    assert!(held.is_held());
    held.extend(LEASE).await.unwrap();
    fresh.release().await.unwrap();
    held.release().await.unwrap();
}

async fn sentinel_a_stopped_primary_is_left_and_gets_nothing_when_it_wakes() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    former.pause().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    load.until_more(50).await;
    former.resume().await.unwrap();
    // Awake, it is a primary by its own account until a sentinel tells it otherwise.
    let ours = async || Some(former.clients().await.ok()?.iter().filter(|it| it.name.starts_with("redgrid")).count());
    let is_replica = async || {
        let info = async || former.observer().await?.query::<String>(&["INFO", "replication"]).await;
        info().await.is_ok_and(|info| info.contains("role:slave")) && ours().await == Some(0)
    };
    wait_until(SOON, is_replica).await;
    load.until_more(50).await;
    load.end().await;
    assert_eq!(ours().await, Some(0));
}

async fn sentinel_a_primary_that_stops_together_with_a_sentinel_is_left_as_soon() {
    let sentinels = Sentinels::start().await.unwrap();
    // Whoever waited for the sentinel that is stopped would wait as long.
    let patience = Duration::from_secs(10);
    let client = connected(by_sentinels(&sentinels).timeout(patience).connect_timeout(patience)).await;
    let former = sentinels.current_primary().await.unwrap();
    sentinels.sentinels()[0].pause().await.unwrap();
    former.pause().await.unwrap();
    let left = async || {
        let told = sentinels.sentinels()[1].observer().await.unwrap();
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master_name()];
        told.query::<(String, u16)>(&ask).await.unwrap().1 != former.addr().port()
    };
    wait_until(SOON, left).await;
    let promoted = Instant::now();
    Lock::new(&client, "fresh").acquire().wait(SOON).await.unwrap().release().await.unwrap();
    assert!(promoted.elapsed() < patience / 2, "{:?}", promoted.elapsed());
}

async fn sentinel_nobody_is_led_back_by_the_one_that_leads_an_election() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).scan_interval(50 * MS)).await;
    let former = sentinels.current_primary().await.unwrap();
    // A replica that does not take the place of another, nor follows it when it is told so: until the leader has given up
    // on it, `SENTINEL MASTER` there counts the election and tells the former primary.
    let stubborn = sentinels.servers().iter().find(|server| server.addr() != former.addr()).unwrap();
    stubborn.set_config("replica-priority", "0").await.unwrap();
    for sentinel in sentinels.sentinels() {
        let is_told =
            |facts: &HashMap<String, String>| facts.get("slave-priority").is_some_and(|priority| priority == "0");
        let (observer, ask) = (sentinel.observer().await.unwrap(), ["SENTINEL", "REPLICAS", sentinels.master_name()]);
        wait_until(SOON, async || {
            observer.query::<Vec<HashMap<String, String>>>(&ask).await.unwrap().iter().any(is_told)
        })
        .await;
    }
    stubborn.deny(&["slaveof", "replicaof"]).await.unwrap();
    former.kill().await.unwrap();
    let primary = || client.topology().shards.first().map(|shard| shard.primary.0.to_string());
    let led_by_former = Some(former.addr().to_string());
    wait_until(SOON, async || primary().is_some_and(|primary| Some(primary) != led_by_former)).await;
    former.restart_empty().await.unwrap();
    let mut seen = 0;
    loop {
        let mut told = Vec::new();
        for sentinel in sentinels.sentinels() {
            let observer = sentinel.observer().await.unwrap();
            let ask = ["SENTINEL", "MASTER", sentinels.master_name()];
            let facts: HashMap<String, String> = observer.query(&ask).await.unwrap();
            told.push((facts["config-epoch"].clone(), facts["port"].clone()));
        }
        assert!(primary() != led_by_former, "{told:?}");
        // Before the election is counted they all tell the former one; the client has gone to the one they have chosen.
        if told.windows(2).all(|two| two[0] == two[1]) && told[0].1 != former.addr().port().to_string() {
            break;
        }
        seen += told.windows(2).filter(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1).count();
        Lock::new(&client, "a").acquire().wait(SOON).await.unwrap().release().await.unwrap();
    }
    assert!(seen > 0, "no sentinel told another primary than the others for the same election");
}

async fn sentinel_whom_the_sentinels_have_chosen_is_followed_before_they_name_it() {
    let scenario = "sentinel_whom_the_sentinels_have_chosen_is_followed_before_they_name_it";
    if is_skipped_before_7(scenario, "a sentinel's periods can not be set") {
        return;
    }
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    // From here on no sentinel learns how its replicas are. It chooses one by what it knows, which may be five such periods old,
    // has it promoted, and does not see that it was.
    for sentinel in sentinels.sentinels() {
        sentinel.observer().await.unwrap().cmd(&["SENTINEL", "DEBUG", "ping-period", "20000"]).await.unwrap();
    }
    for replica in sentinels.servers().iter().filter(|server| server.addr() != former.addr()) {
        replica.deny(&["info"]).await.unwrap();
    }
    former.kill().await.unwrap();
    Lock::new(&client, "fresh").acquire().wait(SOON).await.unwrap().release().await.unwrap();
    for sentinel in sentinels.sentinels() {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master_name()];
        let named: (String, u16) = sentinel.observer().await.unwrap().query(&ask).await.unwrap();
        assert_eq!(named.1, former.addr().port());
    }
}

async fn sentinel_a_planned_failover_is_no_error_for_anybody() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).watchdog_lease(LEASE)).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    replicated(sentinels.current_primary().await.unwrap(), 2).await;
    sentinels.fail_over().await.unwrap();
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.is_empty(), "{failures:?}");
    held.release().await.unwrap();
}

async fn sentinel_any_one_sentinel_is_enough() {
    let sentinels = Sentinels::start().await.unwrap();
    for last in 0..3 {
        let client = connected(by_sentinels(&sentinels)).await;
        for (n, sentinel) in sentinels.sentinels().iter().enumerate() {
            if n != last {
                sentinel.kill().await.unwrap();
            }
        }
        let lock = Lock::new(&client, "a");
        for _ in 0..10 {
            lock.acquire().wait(SOON).await.unwrap().release().await.unwrap();
        }
        let late = connected(by_sentinels(&sentinels)).await;
        Lock::new(&late, "a").acquire().wait(SOON).await.unwrap().release().await.unwrap();
        for (n, sentinel) in sentinels.sentinels().iter().enumerate() {
            if n != last {
                sentinel.restart_empty().await.unwrap();
            }
        }
        sentinels.wait_until_ok().await.unwrap();
    }
}

async fn sentinel_a_waiter_is_woken_by_a_release_on_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE).poll_interval(SOON);
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().wait(2 * SOON).into_future());
    let former = sentinels.current_primary().await.unwrap();
    listening(former, "a").await;
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    let primary = sentinels.wait_for_primary_other_than(address).await.unwrap();
    listening(primary, "a").await;
    assert!(held.is_held() && !waiter.is_finished());
    let released = Instant::now();
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_secs(5), "{:?}", released.elapsed());
}

/// Waits until somebody listens for the release of a name at a server.
async fn listening(server: &RedisServer, name: &str) {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let observer = server.observer().await.unwrap();
    let somebody = async || {
        let plain = observer.pubsub_channels("*").await.unwrap();
        let sharded = observer.pubsub_shard_channels("*").await.unwrap_or_default();
        plain.contains(&channel) || sharded.contains(&channel)
    };
    wait_until(SOON, somebody).await;
}

async fn sentinel_calls_wait_for_the_first_sentinel_to_start() {
    let sentinels = Sentinels::start().await.unwrap();
    for sentinel in sentinels.sentinels() {
        sentinel.kill().await.unwrap();
    }
    let client = Client::connect(by_sentinels(&sentinels)).await.unwrap();
    let not_ready = client.wait_ready(200 * MS).await.unwrap_err();
    let source = std::error::Error::source(&not_ready).unwrap().to_string();
    assert!(source.contains("sentinel") && source.contains("mymaster"), "{source}");
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().wait(SOON).into_future());
    sentinels.sentinels()[1].restart_empty().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A detached hold, a fence and a leader with an observer.
async fn sentinel_what_is_around_a_lock_goes_on_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let lease = 2 * LEASE;
    let one = connected(by_sentinels(&sentinels).watchdog_lease(lease)).await;
    let two = connected(by_sentinels(&sentinels).watchdog_lease(lease)).await;
    let early = Lock::new(&one, "fenced").acquire().await.unwrap();
    let stale = early.token();
    early.release().await.unwrap();
    let late = Lock::new(&two, "fenced").acquire().wait(SOON).await.unwrap();
    Fence::new(&two, "{fenced}").set("{fenced}:value", "new", late.token()).await.unwrap();
    let leadership = Election::new(&one, "elected").campaign().proclaim("one").await.unwrap();
    let mut changes = Election::new(&two, "elected").observe();
    assert_eq!(changes.next().await.unwrap().map(|leader| leader.term), Some(leadership.term()));
    let detached = Lock::new(&one, "handed on").acquire().await.unwrap().detach().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();

    let guard = Lock::new(&two, "handed on").attach(&detached).await.unwrap();
    assert_eq!(guard.token(), detached.token());
    guard.release().await.unwrap();
    let refused = Fence::new(&one, "{fenced}").set("{fenced}:value", "old", stale).await;
    assert!(matches!(refused, Err(FenceError::Stale { .. })), "{refused:?}");
    assert!(leadership.is_leader());
    assert_eq!(
        Election::new(&two, "elected").leader().await.unwrap().map(|leader| leader.id_text()),
        Some("one".into())
    );
    leadership.resign().await.unwrap();
    let told = tokio::time::timeout(SOON, changes.next()).await.expect("it is told");
    assert_eq!(told.unwrap(), None);
    late.release().await.unwrap();
}

/// One of each kind, held by one of two clients, with those who wait for it; all in one slot.
struct Family {
    fair: LockGuard,
    fenced: LockGuard,
    several: MultiGuard,
    reads: [ReadGuard; 2],
    waiting: Vec<JoinHandle<()>>,
    writer: JoinHandle<()>,
    permit: Permit,
    permits: JoinHandle<()>,
}

impl Family {
    async fn of(clients: &[Client; 2], observer: &Observer) -> Family {
        let [one, two] = clients;
        let fair = FairLock::new(one, "{tag}:fair").acquire().await.unwrap();
        let mut waiting = Vec::new();
        for n in 0..4 {
            let lock = FairLock::new(&clients[n % 2], "{tag}:fair");
            waiting.push(tokio::spawn(async move {
                lock.acquire().wait(3 * SOON).await.unwrap().release().await.unwrap();
            }));
            let queue = ["LLEN", "redisson_lock_queue:{tag}:fair"];
            wait_until(SOON, async || observer.query::<usize>(&queue).await.unwrap() == n + 1).await;
        }
        let fenced = FencedLock::new(one, "{tag}:fenced").acquire().await.unwrap();
        let several = MultiLock::new(two, ["{tag}:1", "{tag}:2"]).acquire().await.unwrap();
        let reads =
            [RwLock::new(one, "{tag}:rw").read().await.unwrap(), RwLock::new(two, "{tag}:rw").read().await.unwrap()];
        let lock = RwLock::new(one, "{tag}:rw");
        let writer = tokio::spawn(async move { lock.write().wait(3 * SOON).await.unwrap().release().await.unwrap() });
        wait_until(SOON, async || observer.exists("redgrid_rw_wait:{tag}:rw").await.unwrap()).await;
        let permit = Semaphore::new(one, "{tag}:permits").capacity(3).acquire().await.unwrap();
        let theirs = Semaphore::new(two, "{tag}:permits").capacity(3);
        let permits = tokio::spawn(async move {
            theirs.acquire_many(3).wait(3 * SOON).await.unwrap().release().await.unwrap();
        });
        wait_until(SOON, async || two.in_hand().waiting > 0 && observer.exists("{tag}:permits").await.unwrap()).await;
        Family { fair, fenced, several, reads, waiting, writer, permit, permits }
    }

    /// What was held still is, nobody else got in, and everybody does in the end.
    async fn goes_on(self, clients: &[Client; 2]) {
        let [one, two] = clients;
        let held = [&self.fair, &self.fenced].iter().all(|guard| guard.is_held());
        assert!(held && self.several.is_held() && self.reads.iter().all(ReadGuard::is_held) && self.permit.is_held());
        assert!(FairLock::new(two, "{tag}:fair").try_acquire().await.unwrap().is_none());
        assert!(RwLock::new(two, "{tag}:rw").try_write().await.unwrap().is_none());
        assert!(Lock::new(one, "{tag}:2").try_acquire().await.unwrap().is_none());
        let waiting = || self.waiting.iter().chain([&self.writer, &self.permits]);
        assert!(waiting().all(|waiting| !waiting.is_finished()));
        let token = self.fenced.token();
        self.fair.release().await.unwrap();
        self.fenced.release().await.unwrap();
        self.several.release().await.unwrap();
        for read in self.reads {
            read.release().await.unwrap();
        }
        self.permit.release().await.unwrap();
        for waiting in self.waiting.into_iter().chain([self.writer, self.permits]) {
            waiting.await.unwrap();
        }
        let next = FencedLock::new(two, "{tag}:fenced").acquire().wait(SOON).await.unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
        let nothing = InHand { names: 0, holds: 0, waiting: 0, channels: 0 };
        wait_until(SOON, async || clients.iter().all(|client| client.in_hand() == nothing)).await;
    }
}

async fn sentinel_the_whole_family_goes_on_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(2 * LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let former = sentinels.current_primary().await.unwrap();
    let family = Family::of(&clients, &former.observer().await.unwrap()).await;
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    family.goes_on(&clients).await;
}

async fn cluster_the_whole_family_goes_on_at_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(2 * LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let slot = cluster.slot_of("{tag}").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let family = Family::of(&clients, &former.observer().await.unwrap()).await;
    replicated(former, 1).await;
    former.kill().await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    wait_until(SOON, moved).await;
    family.goes_on(&clients).await;
}

async fn cluster_a_killed_primary_is_followed_and_the_others_see_no_error() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).watchdog_lease(LEASE)).await;
    let victim = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
    let (mut its, mut others) = (Vec::new(), Vec::new());
    for name in names("load", 30) {
        let primary = cluster.primary_of(cluster.slot_of(&name).await.unwrap()).await.unwrap();
        if primary.addr() == victim.addr() { its.push(name) } else { others.push(name) }
    }
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let (its, others) = (Load::on(&client, its), Load::on(&client, others));
    its.until_more(50).await;
    others.until_more(50).await;
    replicated(victim, 1).await;
    victim.kill().await.unwrap();
    // While nobody serves the one third, the two others go on.
    others.until_more(500).await;
    its.until_more(50).await;
    let (its, others) = (its.end().await, others.end().await);
    assert!(others.is_empty(), "{others:?}");
    assert!(its.iter().all(|failure| matches!(failure, AcquireError::OutcomeUnknown { .. })), "{its:?}");
    assert!(held.is_held());
    held.release().await.unwrap();
}

async fn cluster_a_call_that_waits_finds_the_promoted_one_without_a_scan() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).scan_interval(NEVER)).await;
    let lock = Lock::new(&client, "fresh");
    cluster.primary_of(cluster.slot_of("fresh").await.unwrap()).await.unwrap().kill().await.unwrap();
    // It doubts once, long before anybody is promoted, and then waits.
    lock.acquire().wait(SOON).await.unwrap().release().await.unwrap();
}

async fn cluster_a_call_to_one_that_hangs_finds_the_promoted_one_without_a_scan() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    // Nothing is given up: neither the call, nor the connection.
    let config = by_seeds(&cluster).scan_interval(NEVER).timeout(4 * SOON).connect_timeout(4 * SOON);
    let client = connected(config.watchdog_lease(16 * SOON)).await;
    let lock = Lock::new(&client, "fresh");
    cluster.primary_of(cluster.slot_of("fresh").await.unwrap()).await.unwrap().pause().await.unwrap();
    lock.acquire().wait(SOON).await.unwrap().release().await.unwrap();
}

async fn cluster_a_node_that_leaves_slots_out_of_its_map_ends_no_connection() {
    let cluster = Cluster::builder().primaries(3).replicas_per_primary(0).full_coverage(false).start().await.unwrap();
    let client = connected(by_seeds(&cluster).scan_interval(20 * MS)).await;
    let lock = Lock::new(&client, "held");
    lock.acquire().await.unwrap().release().await.unwrap();
    let owner = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
    let (its, owner_port) = (owner.observer().await.unwrap(), owner.addr().port());
    let forgetful = cluster.nodes().iter().find(|node| node.addr() != owner.addr()).unwrap().observer().await.unwrap();
    // What a node says the owner serves, as `0-5460`.
    let serves = async |observer: &Observer| -> Option<String> {
        let nodes: String = observer.query(&["CLUSTER", "NODES"]).await.unwrap();
        let line = nodes.lines().find(|line| line.contains(&format!(":{owner_port}@")))?;
        line.split(' ').nth(8).map(str::to_owned)
    };
    let connections = async || -> Vec<String> {
        let list: String = its.query(&["CLIENT", "LIST"]).await.unwrap();
        let ours = list.lines().filter(|line| line.contains(" name=redgrid"));
        ours.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    let asked = async || -> u64 {
        let info: String = forgetful.query(&["INFO", "commandstats"]).await.unwrap();
        let line = info
            .lines()
            .find(|line| ["cmdstat_cluster|slots:", "cmdstat_cluster:"].iter().any(|of| line.starts_with(of)));
        line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let range = serves(&its).await.unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let slots = first.parse::<u16>().unwrap()..=last.parse().unwrap();
    let forget: Vec<String> =
        ["CLUSTER", "DELSLOTS"].map(str::to_owned).into_iter().chain(slots.map(|slot| slot.to_string())).collect();
    let forget: Vec<&str> = forget.iter().map(String::as_str).collect();
    let (before, mut told) = (connections().await, 0);
    wait_until(SOON, async || {
        // It hears of them again by the next word of their owner.
        let _ = forgetful.query::<String>(&forget).await;
        let from = asked().await;
        tokio::time::sleep(100 * MS).await;
        let until = asked().await;
        told += if serves(&forgetful).await.is_none() { until - from } else { 0 };
        told >= 5
    })
    .await;
    assert_eq!(connections().await, before);
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn cluster_a_planned_failover_is_no_error_for_anybody() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let client = connected(by_seeds(&cluster).watchdog_lease(LEASE)).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let load = Load::on(&client, names("load", 12));
    for _ in 0..2 {
        load.until_more(50).await;
        let primary = cluster.primary_of(cluster.slot_of("held").await.unwrap()).await.unwrap();
        cluster.fail_over(primary).await.unwrap();
    }
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.is_empty(), "{failures:?}");
    held.release().await.unwrap();
}

async fn cluster_a_waiter_is_woken_by_a_release_on_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE).poll_interval(SOON);
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().wait(2 * SOON).into_future());
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    listening(former, "a").await;
    replicated(former, 1).await;
    former.kill().await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    wait_until(SOON, moved).await;
    listening(cluster.primary_of(slot).await.unwrap(), "a").await;
    assert!(held.is_held() && !waiter.is_finished());
    let released = Instant::now();
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_secs(5), "{:?}", released.elapsed());
}

async fn cluster_one_seed_that_lives_is_enough() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let dead = cluster.node_at(cluster.addrs()[0]).unwrap();
    dead.kill().await.unwrap();
    let client = Client::connect(by_seeds(&cluster)).await.unwrap();
    for name in names("a", 12) {
        Lock::new(&client, name).acquire().wait(SOON).await.unwrap().release().await.unwrap();
    }
}

async fn master_slave_a_primary_that_copies_another_by_now_is_left() {
    let replicated = Replicated::start(2).await.unwrap();
    // What the former primary does between the two commands is lost, and ends with its lease.
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

/// A doubt had the sentinels asked only after the pause between two tries of a call, deaf to their news meanwhile.
async fn sentinel_a_long_retry_delay_holds_up_no_failover() {
    let pause = Duration::from_secs(15);
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).retry_delay(pause)).await;
    let (lock, stop) = (Lock::new(&client, "doubting"), Arc::new(AtomicBool::new(false)));
    let doubting = tokio::spawn({
        let stop = stop.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                // Whatever it comes to: it is in the way of the failover.
                let _ = tokio::time::timeout(100 * MS, lock.try_acquire().into_future()).await;
            }
        }
    });
    sentinels.fail_over().await.unwrap();
    let began = Instant::now();
    let guard = Lock::new(&client, "a").acquire().wait(2 * pause).await.unwrap();
    let took = began.elapsed();
    assert!(took < pause / 2, "{took:?}");
    stop.store(true, Ordering::Relaxed);
    doubting.await.unwrap();
    guard.release().await.unwrap();
}

/// The former ones counted as voters for ever, at addresses where nobody answers any more.
async fn sentinel_those_that_were_set_up_anew_are_followed() {
    let (former, next) = tokio::join!(Sentinels::start(), Sentinels::start());
    let (former, next) = (former.unwrap(), next.unwrap());
    let name = Proxy::to(&former.sentinels()[0]).await.unwrap();
    let config = Config::sentinel(former.master_name(), [name.addr().to_string()]).unwrap();
    let client = connected(config.scan_interval(100 * MS)).await;
    // An election later than those that the new ones know of; and the others were named.
    former.fail_over().await.unwrap();
    Lock::new(&client, "a").acquire().wait(SOON).await.unwrap().release().await.unwrap();
    for sentinel in &former.sentinels()[1..] {
        let ours = async || sentinel.clients().await.unwrap().iter().any(|client| client.name == "redgrid");
        wait_until(SOON, ours).await;
    }
    name.redirect(next.sentinels()[0].addr());
    for server in former.sentinels().iter().chain(former.servers()) {
        server.kill().await.unwrap();
    }
    let guard = Lock::new(&client, "a").acquire().wait(3 * SOON).await.unwrap();
    let primary = next.current_primary().await.unwrap();
    assert!(primary.observer().await.unwrap().exists("a").await.unwrap());
    guard.release().await.unwrap();
}

/// Nobody of ours connects to a server that has just been started: not for longer than the waits between two attempts.
async fn stays_alone(server: &RedisServer) {
    let observer = server.observer().await.unwrap();
    let mut before = HashSet::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let list: String = observer.query(&["CLIENT", "LIST"]).await.unwrap();
        assert!(![" name=redgrid ", " name=redgrid:"].iter().any(|ours| list.contains(ours)), "{list}");
        // Those that were never greeted have no name. Other servers have none either, for a moment, or are told by their flags.
        let others = [" flags=S ", " flags=M ", " user=redgrid-testkit "];
        let is_unnamed = |line: &&str| line.contains(" name= ") && !others.iter().any(|other| line.contains(other));
        let unnamed = list.lines().filter(is_unnamed).filter_map(|line| line.split(' ').next());
        let unnamed: HashSet<String> = unnamed.map(str::to_owned).collect();
        assert!(unnamed.is_disjoint(&before), "{list}");
        before = unnamed;
        tokio::time::sleep(200 * MS).await;
    }
}

async fn master_slave_a_client_that_ends_while_its_primary_is_dead_leaves_nothing_behind() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated)).await;
    replicated.primary().kill().await.unwrap();
    let lock = Lock::new(&client, "a");
    assert!(lock.acquire().wait(Duration::from_secs(1)).await.is_err());
    // What may have been granted in the last moment is given back until its lease is over: that may be too long.
    let _ = client.shutdown(Duration::from_secs(3)).await;
    drop((lock, client));
    replicated.primary().restart_empty().await.unwrap();
    stays_alone(replicated.primary()).await;
}

async fn single_a_client_that_ends_too_late_leaves_nothing_behind() {
    let server = RedisServer::start().await.unwrap();
    let mut ended = Vec::new();
    for n in 0..8 {
        let client = connected(redgrid_core::Config::from_url(&server.url()).unwrap()).await;
        let guard = Lock::new(&client, format!("a{n}")).acquire().await.unwrap();
        ended.push((client, guard));
    }
    server.kill().await.unwrap();
    for (client, _) in &ended {
        assert!(client.shutdown(200 * MS).await.is_err());
    }
    server.restart_empty().await.unwrap();
    stays_alone(&server).await;
}

/// Waits until so many wait at a barrier, as a server knows it.
async fn wait_at(server: &RedisServer, name: &str, many: u64) {
    let (observer, key) = (server.observer().await.unwrap(), format!("redgrid_barrier_waiting:{{{name}}}"));
    wait_until(SOON, async || observer.query::<u64>(&["ZCARD", &key]).await.unwrap() == many).await;
}

async fn waiting_goes_on(clients: &[Client; 2], former: &RedisServer, replicas: usize, promoted: impl Future) {
    let barrier = |client| Barrier::new(client, "tag", 2);
    let first = tokio::spawn(barrier(&clients[0]).wait().within(3 * SOON).into_future());
    let party = Phaser::new(&clients[0], "{tag}").register().await.unwrap();
    let other = Phaser::new(&clients[1], "{tag}").register().await.unwrap();
    let phase = tokio::spawn(async move { party.arrive_and_wait().within(3 * SOON).await });
    let inside = tokio::spawn(DoubleBarrier::new(&clients[0], "{tag}", 2).enter().within(3 * SOON).into_future());
    let second = DoubleBarrier::new(&clients[1], "{tag}", 2).enter().within(3 * SOON).await.unwrap();
    let left = tokio::spawn(inside.await.unwrap().unwrap().leave().within(3 * SOON).into_future());
    let told = tokio::spawn(Event::new(&clients[0], "{tag}").wait().within(3 * SOON).into_future());
    wait_at(former, "tag", 1).await;
    replicated(former, replicas).await;
    former.kill().await.unwrap();
    promoted.await;
    assert!(!first.is_finished() && !phase.is_finished() && !left.is_finished() && !told.is_finished());
    let opened = barrier(&clients[1]).wait().within(3 * SOON).await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().generation(), opened.generation());
    assert_eq!(other.arrive_and_wait().within(3 * SOON).await.unwrap(), 1);
    assert_eq!(phase.await.unwrap().unwrap(), 1);
    second.leave().within(3 * SOON).await.unwrap();
    left.await.unwrap().unwrap();
    Event::new(&clients[1], "{tag}").set().await.unwrap();
    told.await.unwrap().unwrap();
}

async fn sentinel_who_waits_at_a_barrier_goes_on_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let former = sentinels.current_primary().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(former.addr());
    waiting_goes_on(&clients, former, 2, promoted).await;
}

async fn cluster_who_waits_at_a_barrier_goes_on_at_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let slot = cluster.slot_of("tag").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    waiting_goes_on(&clients, former, 1, wait_until(SOON, moved)).await;
}

/// One waits and stands still. Another opens, which no replica hears of, and is gone on when the primary dies: the new one believes
/// that the first still waits for somebody.
async fn sentinel_an_opening_that_a_failover_lost_is_made_known_at_a_barrier() {
    let sentinels = Sentinels::start().await.unwrap();
    let opener = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    let args = [&sentinels.url(), "60000", "barrier", "tag", "2"];
    let mut waiting = Other::start(env!("CARGO_BIN_EXE_party"), &args).await;
    wait_at(former, "tag", 1).await;
    replicated(former, 2).await;
    // From here on replicas hear of nothing.
    former.deny(&["psync", "sync"]).await.unwrap();
    let observer = former.observer().await.unwrap();
    let cut = async || {
        observer.query::<u64>(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        let info: String = observer.query(&["INFO", "replication"]).await.unwrap();
        info.contains("connected_slaves:0")
    };
    wait_until(SOON, cut).await;
    waiting.signal("-STOP");
    let opened = Barrier::new(&opener, "tag", 2).wait().within(SOON).await.unwrap();
    assert!(opened.is_leader());
    let address = former.addr();
    former.kill().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(address).await.unwrap();
    waiting.signal("-CONT");
    assert_eq!(waiting.says().await, "through");
    let rounds: String =
        promoted.observer().await.unwrap().query(&["HGET", "redgrid_barrier:{tag}", "round"]).await.unwrap();
    assert_eq!(rounds, "1", "nobody opened it a second time");
}
