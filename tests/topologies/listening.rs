//! Waiters that subscribe at a replica are woken, also when the replica dies, lags or is promoted,
//! even several times.

use std::time::Duration;

use redgrid_core::config::SubscriptionMode;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, Sentinels, wait_until};
use redgrid_tests::SOON;
use tokio::task::JoinHandle;

use crate::fixture::{by_list, by_seeds, by_sentinels, connected, is_skipped_before_7, scenarios};
use crate::lag::{of, piped};

scenarios![
    master_slave_a_replica_wakes_waiters,
    sentinel_a_replica_wakes_waiters,
    cluster_a_replica_wakes_waiters,
    single_without_a_replica_the_primary_wakes_waiters,
    master_slave_a_waiter_is_woken_although_its_replica_dies,
    master_slave_a_replica_that_lags_is_not_listened_to_until_it_has_caught_up,
    sentinel_a_waiter_is_woken_after_a_failover,
    cluster_a_waiter_is_woken_after_a_failover,
    cluster_a_subscription_that_the_server_ended_is_made_anew,
];

const MS: Duration = Duration::from_millis(1);

const CHANNEL: &str = "redisson_lock__channel:{a}";

/// Far longer than a test, so no poll wakes a waiter.
const NEVER: Duration = Duration::from_secs(3600);

fn at_replicas(config: Config) -> Config {
    config.subscription_mode(SubscriptionMode::Replica).poll_interval(NEVER).scan_interval(100 * MS)
}

/// Returns how many connections listen to the channel of the lock at a server.
async fn listeners(observer: &Observer) -> usize {
    let ask = async |question| {
        let counts: Result<(String, usize), _> = observer.query(&["PUBSUB", question, CHANNEL]).await;
        counts.map_or(0, |(_, count)| count)
    };
    ask("NUMSUB").await + ask("SHARDNUMSUB").await
}

async fn until_listening(at: &RedisServer, not_at: &RedisServer) {
    let (there, elsewhere) = (at.observer().await.unwrap(), not_at.observer().await.unwrap());
    wait_until(SOON, async || listeners(&there).await == 1 && listeners(&elsewhere).await == 0).await;
}

/// Starts a client that waits for the lock, which another client holds.
async fn waiting(config: Config) -> (Client, JoinHandle<()>) {
    let client = connected(config).await;
    let lock = Lock::new(&client, "a");
    let waiter = tokio::spawn(async move {
        let guard = lock.acquire().timeout(SOON * 2).await.unwrap();
        guard.release().await.unwrap();
    });
    (client, waiter)
}

/// Waits until the client reports that all its channels are subscribed at their node.
async fn until_subscribed(client: &Client) {
    let all = async || {
        let health = client.health().await;
        let of = |count: fn(&redgrid_core::NodeHealth) -> usize| health.nodes.iter().map(count).sum::<usize>();
        of(|node| node.channels) == 2 && of(|node| node.subscribed) == 2
    };
    wait_until(SOON, all).await;
}

async fn is_woken(waiter: JoinHandle<()>) {
    // The time limit is far shorter than the holder's lease and the poll interval.
    tokio::time::timeout(SOON / 2, waiter).await.expect("it is woken").unwrap();
}

async fn a_replica_wakes(config: Config, primary: &RedisServer, replicas: &[&RedisServer]) {
    let holder = connected(at_replicas(config.clone())).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(config)).await;
    let mut observers = Vec::new();
    for replica in replicas {
        observers.push(replica.observer().await.unwrap());
    }
    let at_replicas = async || {
        let mut count = 0;
        for observer in &observers {
            count += listeners(observer).await;
        }
        count
    };
    // While no replica is connected yet, the client listens at the primary. Then its subscription
    // moves to a replica.
    let at_primary = primary.observer().await.unwrap();
    wait_until(SOON, async || at_replicas().await == 1 && listeners(&at_primary).await == 0).await;
    until_subscribed(&client).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}

async fn master_slave_a_replica_wakes_waiters() {
    let replicated = Replicated::start(2).await.unwrap();
    let replicas: Vec<_> = replicated.replicas().iter().collect();
    a_replica_wakes(by_list(&replicated), replicated.primary(), &replicas).await;
}

async fn sentinel_a_replica_wakes_waiters() {
    let sentinels = Sentinels::start().await.unwrap();
    let primary = sentinels.current_primary().await.unwrap();
    let replicas: Vec<_> = sentinels.servers().iter().filter(|server| server.addr() != primary.addr()).collect();
    a_replica_wakes(by_sentinels(&sentinels), primary, &replicas).await;
}

async fn cluster_a_replica_wakes_waiters() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let primary = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    a_replica_wakes(by_seeds(&cluster), primary, &cluster.replicas_of(primary).await.unwrap()).await;
}

async fn single_without_a_replica_the_primary_wakes_waiters() {
    let server = RedisServer::start().await.unwrap();
    let config = Config::single(server.addr().to_string()).unwrap();
    let held = Lock::new(&connected(config.clone()).await, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(config)).await;
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || listeners(&observer).await == 1).await;
    until_subscribed(&client).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}

async fn master_slave_a_waiter_is_woken_although_its_replica_dies() {
    let replicated = Replicated::start(1).await.unwrap();
    let (primary, replica) = (replicated.primary(), &replicated.replicas()[0]);
    let holder = connected(by_list(&replicated)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(by_list(&replicated))).await;
    until_listening(replica, primary).await;
    until_subscribed(&client).await;
    replica.kill().await.unwrap();
    let observer = primary.observer().await.unwrap();
    wait_until(SOON, async || listeners(&observer).await == 1).await;
    // The client returns to the replica when it is up again.
    replica.restart_empty().await.unwrap();
    until_listening(replica, primary).await;
    replica.kill().await.unwrap();
    // By now the client may or may not listen elsewhere.
    held.release().await.unwrap();
    is_woken(waiter).await;
}

async fn master_slave_a_replica_that_lags_is_not_listened_to_until_it_has_caught_up() {
    let (primary, pipe, replica) = piped().await;
    let config = of(&primary, &replica);
    let holder = connected(config.clone()).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(config.clone())).await;
    until_listening(&replica, &primary).await;
    until_subscribed(&client).await;
    pipe.hold(true);
    // The replica does not receive this write.
    holder.command("SET").key("b").unwrap().arg("1").query::<()>().await.unwrap();
    until_listening(&primary, &replica).await;
    until_subscribed(&client).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(config)).await;
    pipe.hold(false);
    until_listening(&replica, &primary).await;
    until_subscribed(&client).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}

async fn sentinel_a_waiter_is_woken_after_a_failover() {
    let sentinels = Sentinels::start().await.unwrap();
    let holder = connected(by_sentinels(&sentinels)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (client, waiter) = waiting(at_replicas(by_sentinels(&sentinels))).await;
    until_subscribed(&client).await;
    // A server that is promoted without the lock would admit the waiter, which then listens
    // nowhere.
    for server in sentinels.servers() {
        let observer = server.observer().await.unwrap();
        wait_until(SOON, async || observer.query::<u64>(&["EXISTS", "a"]).await.is_ok_and(|there| there == 1)).await;
    }
    let former = sentinels.current_primary().await.unwrap();
    former.kill().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(former.addr()).await.unwrap();
    let is_other = |server: &&RedisServer| ![former.addr(), promoted.addr()].contains(&server.addr());
    let left = sentinels.servers().iter().find(is_other).unwrap();
    until_listening(left, promoted).await;
    until_subscribed(&client).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}

async fn cluster_a_waiter_is_woken_after_a_failover() {
    let cluster = Cluster::builder().replicas_per_primary(2).start().await.unwrap();
    let primary = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    let holder = connected(by_seeds(&cluster)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (_client, waiter) = waiting(at_replicas(by_seeds(&cluster))).await;
    let at_one_of = async |servers: &[&RedisServer]| {
        let mut count = 0;
        for server in servers {
            count += listeners(&server.observer().await.unwrap()).await;
        }
        count == 1
    };
    let replicas = cluster.replicas_of(primary).await.unwrap();
    wait_until(SOON, async || at_one_of(&replicas).await).await;
    let promoted = cluster.fail_over(primary).await.unwrap();
    // Each server ends its subscriptions when it learns of the failover, so they are counted anew.
    let replicas: Vec<_> = replicas.into_iter().filter(|one| one.addr() != promoted.addr()).chain([primary]).collect();
    wait_until(SOON, async || at_one_of(&replicas).await && !at_one_of(&[promoted]).await).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}

/// A subscription that the server ended is made anew. A replica ends it if it learns of a new
/// primary later than the client.
async fn cluster_a_subscription_that_the_server_ended_is_made_anew() {
    let scenario = "cluster_a_subscription_that_the_server_ended_is_made_anew";
    if is_skipped_before_7(scenario, "there are no sharded channels, which a server ends with their slot") {
        return;
    }
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let primary = cluster.primary_of(slot).await.unwrap();
    let replica = cluster.replicas_of(primary).await.unwrap()[0];
    let holder = connected(by_seeds(&cluster)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let (_client, waiter) = waiting(at_replicas(by_seeds(&cluster))).await;
    until_listening(replica, primary).await;
    // The replica forgets the owner of the slot until the next message of its primary.
    let observer = replica.observer().await.unwrap();
    let subscriptions = async || {
        let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
        let calls = |line: &str| line.strip_prefix("cmdstat_ssubscribe:calls=")?.split(',').next()?.parse::<u64>().ok();
        info.lines().find_map(calls)
    };
    let before = subscriptions().await;
    observer.cmd(&["CLUSTER", "DELSLOTS", &slot.to_string()]).await.unwrap();
    wait_until(SOON, async || listeners(&observer).await == 1 && subscriptions().await > before).await;
    held.release().await.unwrap();
    is_woken(waiter).await;
}
