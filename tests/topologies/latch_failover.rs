//! Latches whose primary dies while many wait.

use std::time::{Duration, Instant};

use redgrid_core::Config;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_testkit::{Cluster, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::latch::crowd;

use crate::ground::{by_seeds, by_sentinels, connected, scenarios};

scenarios![
    sentinel_those_who_wait_for_a_latch_go_on_by_the_message_of_the_new_primary,
    sentinel_count_downs_go_on_through_a_failover_and_each_counts_once,
    cluster_those_who_wait_for_a_latch_go_on_by_the_message_of_the_new_primary,
    cluster_a_round_that_ends_and_begins_anew_while_nobody_hears_strands_nobody,
];

/// Waits until all replicas have what their primary has.
async fn replicated(primary: &RedisServer, replicas: usize) {
    let observer = primary.observer().await.unwrap();
    let acknowledged: usize = observer.query(&["WAIT", &replicas.to_string(), "10000"]).await.unwrap();
    assert!(acknowledged >= replicas);
}

/// Waits until somebody hears a latch at a server.
async fn heard(server: &RedisServer, name: &str) {
    let channel = format!("redgrid_latch__channel:{{{name}}}");
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || {
        let plain = observer.pubsub_channels("*").await.unwrap();
        plain.contains(&channel) || observer.pubsub_shard_channels("*").await.unwrap_or_default().contains(&channel)
    })
    .await;
}

/// A hundred wait, the primary dies, the new one has the rest of the count.
async fn those_who_wait_go_on<'a>(
    config: Config,
    former: &RedisServer,
    replicas: usize,
    fail_over: impl AsyncFnOnce() -> &'a RedisServer,
) {
    let (one, two) = (connected(config.clone()).await, connected(config.poll_interval(SOON)).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(3).await.unwrap();
    let tasks = crowd(&there, 100).await;
    heard(former, "a").await;
    here.count_down().await.unwrap();
    replicated(former, replicas).await;
    former.kill().await.unwrap();
    let primary = fail_over().await;
    heard(primary, "a").await;
    assert_eq!(here.count_down().await.unwrap(), 1);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    let last = Instant::now();
    assert_eq!(here.count_down().await.unwrap(), 0);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(last.elapsed() < Duration::from_secs(5), "{:?}", last.elapsed());
}

async fn sentinel_those_who_wait_for_a_latch_go_on_by_the_message_of_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    let fail_over = async || sentinels.wait_for_primary_other_than(address).await.unwrap();
    those_who_wait_go_on(by_sentinels(&sentinels), former, 2, fail_over).await;
}

async fn cluster_those_who_wait_for_a_latch_go_on_by_the_message_of_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let fail_over = async || {
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
        wait_until(SOON, moved).await;
        cluster.primary_of(slot).await.unwrap()
    };
    those_who_wait_go_on(by_seeds(&cluster), former, 1, fail_over).await;
}

/// A planned one loses no write, so all of them are there afterwards, once each.
async fn sentinel_count_downs_go_on_through_a_failover_and_each_counts_once() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels);
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(1_000_000).await.unwrap();
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let counting: Vec<_> = [&here, &there, &here, &there]
        .into_iter()
        .map(|latch| {
            let (latch, over) = (latch.clone(), over.clone());
            tokio::spawn(async move {
                let mut counted = 0;
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    latch.count_down().await.unwrap();
                    counted += 1;
                }
                counted
            })
        })
        .collect();
    let until = async |less: u64| wait_until(SOON, async || here.count().await.unwrap() < 1_000_000 - less).await;
    until(50).await;
    sentinels.fail_over().await.unwrap();
    let at_failover = 1_000_000 - here.count().await.unwrap();
    until(at_failover + 50).await;
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut counted: u64 = 0;
    for task in counting {
        counted += task.await.unwrap();
    }
    assert_eq!(here.count().await.unwrap(), 1_000_000 - counted);
}

/// The messages of a round's end can not be heard where nobody is subscribed at the moment; its number tells.
async fn cluster_a_round_that_ends_and_begins_anew_while_nobody_hears_strands_nobody() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let (one, two) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster).poll_interval(SOON)).await);
    let (here, there) = (CountDownLatch::new(&one, "a"), CountDownLatch::new(&two, "a"));
    here.try_set_count(1).await.unwrap();
    let tasks = crowd(&there, 20).await;
    let former = cluster.primary_of(slot).await.unwrap();
    heard(former, "a").await;
    let observer = former.observer().await.unwrap();
    for _ in 0..5 {
        observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        here.count_down().await.unwrap();
        here.try_set_count(1).await.unwrap();
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap().unwrap();
    }
}
