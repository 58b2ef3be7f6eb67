//! Latches during failovers, with many waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redgrid_core::Config;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_testkit::{Cluster, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::latch::crowd;

use crate::fixture::{by_seeds, by_sentinels, connected, replicated, scenarios};

scenarios![
    sentinel_latch_waiters_are_woken_by_the_message_of_the_new_primary,
    sentinel_count_downs_go_on_through_a_failover_and_none_counts_twice,
    cluster_count_downs_go_on_through_a_planned_failover_and_each_counts_once,
    cluster_latch_waiters_are_woken_by_the_message_of_the_new_primary,
    cluster_a_lost_message_of_a_latch_strands_no_waiter,
];

/// Waits until a client is subscribed to a latch's channel at a server.
async fn until_subscribed(server: &RedisServer, name: &str) {
    let channel = format!("redgrid_latch__channel:{{{name}}}");
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || {
        let plain = observer.pubsub_channels("*").await.unwrap();
        plain.contains(&channel) || observer.pubsub_shard_channels("*").await.unwrap_or_default().contains(&channel)
    })
    .await;
}

/// A hundred tasks wait while the primary dies; the rest of the count-downs reaches the new
/// primary.
async fn waiters_go_on<'a>(
    config: Config,
    former: &RedisServer,
    replicas: usize,
    fail_over: impl AsyncFnOnce() -> &'a RedisServer,
) {
    let (one, two) = (connected(config.clone()).await, connected(config.poll_interval(10 * SOON)).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(3).await.unwrap();
    let tasks = crowd(&there, 100).await;
    until_subscribed(former, "a").await;
    here.count_down().await.unwrap();
    replicated(former, replicas).await;
    former.kill().await.unwrap();
    let primary = fail_over().await;
    until_subscribed(primary, "a").await;
    assert_eq!(here.count_down().await.unwrap(), 1);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    assert_eq!(here.count_down().await.unwrap(), 0);
    for task in tasks {
        tokio::time::timeout(SOON, task).await.expect("it is woken").unwrap().unwrap();
    }
}

async fn sentinel_latch_waiters_are_woken_by_the_message_of_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    let fail_over = async || sentinels.wait_for_primary_other_than(address).await.unwrap();
    waiters_go_on(by_sentinels(&sentinels), former, 2, fail_over).await;
}

async fn cluster_latch_waiters_are_woken_by_the_message_of_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let fail_over = async || {
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
        wait_until(SOON, moved).await;
        cluster.primary_of(slot).await.unwrap()
    };
    waiters_go_on(by_seeds(&cluster), former, 1, fail_over).await;
}

/// Count-downs go on through a planned failover, and each counts once: a planned failover of a
/// cluster loses no write.
async fn cluster_count_downs_go_on_through_a_planned_failover_and_each_counts_once() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let former = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    let fail_over = async || {
        cluster.fail_over(former).await.unwrap();
    };
    let (counted, left) = counted_through(by_seeds(&cluster), fail_over).await;
    assert_eq!(left, ALL - counted);
}

/// No count-down counts twice in a failover of sentinels. Such a failover loses the writes that the
/// former primary accepts until it is demoted, so some count-downs may be missing.
async fn sentinel_count_downs_go_on_through_a_failover_and_none_counts_twice() {
    let sentinels = Sentinels::start().await.unwrap();
    let primary = sentinels.current_primary().await.unwrap();
    let fail_over = async || {
        replicated(primary, 2).await;
        sentinels.fail_over().await.unwrap();
    };
    let (counted, left) = counted_through(by_sentinels(&sentinels), fail_over).await;
    assert!(left >= ALL - counted, "{left} left after {counted}");
}

const ALL: u64 = 1_000_000;

/// Returns the number of count-downs of two clients around a failover, and the remaining count.
async fn counted_through(config: Config, fail_over: impl AsyncFnOnce()) -> (u64, u64) {
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(ALL).await.unwrap();
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let counting: Vec<_> = [&here, &there, &here, &there]
        .into_iter()
        .map(|latch| {
            let (latch, over, done) = (latch.clone(), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    latch.count_down().await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let more = async |more: u64| {
        let before = done.load(Ordering::Relaxed);
        wait_until(SOON, async || done.load(Ordering::Relaxed) >= before + more).await;
    };
    more(50).await;
    fail_over().await;
    more(50).await;
    over.store(true, Ordering::Relaxed);
    for task in counting {
        task.await.unwrap();
    }
    (done.load(Ordering::Relaxed), here.count().await.unwrap())
}

/// The waiters of a latch generation continue even if the message about its end is lost, because no
/// client is subscribed at that time. The generation number shows the end.
async fn cluster_a_lost_message_of_a_latch_strands_no_waiter() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let (one, two) =
        (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster).poll_interval(10 * SOON)).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(1).await.unwrap();
    let tasks = crowd(&there, 20).await;
    let former = cluster.primary_of(slot).await.unwrap();
    until_subscribed(former, "a").await;
    let observer = former.observer().await.unwrap();
    for _ in 0..5 {
        observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        here.count_down().await.unwrap();
        here.try_set_count(1).await.unwrap();
    }
    for task in tasks {
        tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
    }
}
