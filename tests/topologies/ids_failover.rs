//! Ids after a failover to a lagging server, which has an older counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::Config;
use redgrid_id_generator::TimeOrderedId;
use redgrid_testkit::{Cluster, RedisServer, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_seeds, by_sentinels, connected, replicated, scenarios};

scenarios![
    sentinel_no_id_in_the_order_of_time_comes_twice_when_the_primary_is_killed,
    sentinel_no_id_in_the_order_of_time_comes_twice_in_a_planned_failover,
    cluster_no_id_in_the_order_of_time_comes_twice_when_the_primary_is_killed,
    cluster_no_ordered_id_repeats_when_a_lagging_replica_takes_over,
];

/// The tag keeps the keys of all days in one slot.
const NAME: &str = "{order}:ids";

/// No time-ordered id is issued twice when the primary is killed. The next primary lacks some
/// numbers, and takes over when the seconds of the lost numbers are over.
async fn sentinel_no_id_in_the_order_of_time_comes_twice_when_the_primary_is_killed() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    no_id_comes_twice(by_sentinels(&sentinels), Some(former), async || {
        former.kill().await.unwrap();
        sentinels.wait_for_primary_other_than(former.addr()).await.unwrap();
    })
    .await;
}

/// A planned failover loses no number. Two clients move to the new primary at different times.
async fn sentinel_no_id_in_the_order_of_time_comes_twice_in_a_planned_failover() {
    let sentinels = Sentinels::start().await.unwrap();
    let primary = sentinels.current_primary().await.unwrap();
    no_id_comes_twice(by_sentinels(&sentinels), None, async || {
        replicated(primary, 2).await;
        sentinels.fail_over().await.unwrap();
    })
    .await;
}

async fn cluster_no_id_in_the_order_of_time_comes_twice_when_the_primary_is_killed() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of(NAME).await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    no_id_comes_twice(by_seeds(&cluster), Some(former), async || {
        former.kill().await.unwrap();
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
        wait_until(SOON, moved).await;
    })
    .await;
}

/// Numbers are lost, and the next primary takes over within the second in which they were taken.
async fn cluster_no_ordered_id_repeats_when_a_lagging_replica_takes_over() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of(NAME).await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let next = cluster.replicas_of(former).await.unwrap()[0];
    let observer = next.observer().await.unwrap();
    no_id_comes_twice(by_seeds(&cluster), Some(former), async || {
        observer.cmd(&["CLUSTER", "FAILOVER", "TAKEOVER"]).await.unwrap();
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() == next.addr());
        wait_until(SOON, moved).await;
    })
    .await;
}

/// Cuts off the replicas: from here on they receive no write of the primary.
async fn cut_off_replicas(primary: &RedisServer) {
    primary.deny(&["psync", "sync"]).await.unwrap();
    let observer = primary.observer().await.unwrap();
    observer.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    let info = async || observer.query::<String>(&["INFO", "replication"]).await.unwrap();
    wait_until(SOON, async || info().await.contains("connected_slaves:0")).await;
}

/// Two clients take ids while the primary is replaced. If `forgets` names the former primary, its
/// replicas receive nothing for a while before the failover.
async fn no_id_comes_twice(config: Config, forgets: Option<&RedisServer>, fail_over: impl AsyncFnOnce()) {
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut taking = Vec::new();
    for _ in 0..2 {
        let client = connected(config.clone()).await;
        for _ in 0..2 {
            let (ids, over, done) = (TimeOrderedId::new(&client, NAME), Arc::clone(&over), Arc::clone(&done));
            taking.push(tokio::spawn(async move {
                let mut had = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    // Without a primary some calls fail.
                    if let Ok(id) = ids.next().await {
                        had.push(id);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    if had.len() % 100 == 0 {
                        // Without this pause, ids would fill the memory while there is no primary,
                        // and would not make the test stricter.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                assert!(had.is_sorted_by(|a, b| a < b));
                had
            }));
        }
    }
    let more = async |more: u64| {
        let before = done.load(Ordering::Relaxed);
        wait_until(SOON, async || done.load(Ordering::Relaxed) >= before + more).await;
    };
    more(20_000).await;
    if let Some(former) = forgets {
        cut_off_replicas(former).await;
        more(50_000).await;
    }
    fail_over().await;
    more(20_000).await;
    over.store(true, Ordering::Relaxed);
    let mut had = Vec::new();
    for task in taking {
        had.extend(task.await.unwrap());
    }
    let count = had.len();
    had.sort_unstable();
    had.dedup();
    assert_eq!(had.len(), count, "some ids came twice");
}
