//! Streams whose primary is replaced while some add and others consume.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redgrid_core::Config;
use redgrid_stream::{Start, Stream};
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;
use tokio::sync::Mutex;

use crate::ground::{by_seeds, by_sentinels, connected, scenarios};

scenarios![
    sentinel_a_consumer_gets_each_entry_that_a_failover_has_left,
    cluster_a_consumer_gets_each_entry_through_a_planned_failover,
];

/// One of sentinels may lose what the former primary took last: nobody gets that, and all that is left is given.
async fn sentinel_a_consumer_gets_each_entry_that_a_failover_has_left() {
    let sentinels = Sentinels::start().await.unwrap();
    consumed_through(by_sentinels(&sentinels), async || {
        sentinels.fail_over().await.unwrap();
    })
    .await;
}

/// A planned one of a cluster loses nothing.
async fn cluster_a_consumer_gets_each_entry_through_a_planned_failover() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let former = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    let (added, left) = consumed_through(by_seeds(&cluster), async || {
        cluster.fail_over(former).await.unwrap();
    })
    .await;
    assert!(left.is_superset(&added), "lost: {:?}", added.difference(&left));
}

/// What was added for sure while a primary was replaced, and what is in the stream behind it: all of that was given.
async fn consumed_through(config: Config, fail_over: impl AsyncFnOnce()) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let (here, there): (Stream<String, u64>, Stream<String, u64>) = (Stream::new(&one, "a"), Stream::new(&two, "a"));
    let mut deliveries = there.group("g").consumer("c").create_if_missing(Start::Beginning).page(10);
    let given = Arc::new(Mutex::new(BTreeSet::new()));
    let gives = Arc::clone(&given);
    let consuming = tokio::spawn(async move {
        loop {
            // What can not be asked at the moment is an item, and it goes on.
            let Ok(Some(delivery)) = deliveries.try_next().await else { continue };
            gives.lock().await.extend(delivery.get("n"));
            let _ = delivery.ack().await;
        }
    });
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (stops, does, adds) = (Arc::clone(&over), Arc::clone(&done), here.clone());
    let adding = tokio::spawn(async move {
        let mut added = BTreeSet::new();
        for n in 0.. {
            if stops.load(Ordering::Relaxed) {
                break;
            }
            if adds.add("n", &n).exactly_once().await.is_ok() {
                added.insert(n);
                does.fetch_add(1, Ordering::Relaxed);
            }
        }
        added
    });
    let more = async |more: u64| {
        let before = done.load(Ordering::Relaxed);
        wait_until(SOON, async || done.load(Ordering::Relaxed) >= before + more).await;
    };
    more(50).await;
    fail_over().await;
    more(50).await;
    over.store(true, Ordering::Relaxed);
    let added = adding.await.unwrap();
    let left: BTreeSet<u64> =
        here.range(..).await.unwrap().iter().filter_map(|entry| entry.get("n").copied()).collect();
    wait_until(SOON, async || given.lock().await.is_superset(&left)).await;
    wait_until(SOON, async || there.group("g").pending().await.is_ok_and(|pending| pending.total == 0)).await;
    consuming.abort();
    (added, left)
}
