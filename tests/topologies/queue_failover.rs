//! Queues during failovers, with many waiters and takers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_queue::Queue;
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_seeds, by_sentinels, connected, scenarios};

scenarios![
    cluster_elements_are_taken_once_each_through_a_planned_failover,
    sentinel_waiters_for_an_element_get_one_of_the_new_primary,
];

/// Each element is taken once through a planned failover, also by calls that are dropped. A planned
/// failover of a cluster loses no write.
async fn cluster_elements_are_taken_once_each_through_a_planned_failover() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let former = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
    let (one, two) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await);
    let (here, there): (Queue<u64>, Queue<u64>) = (Queue::new(&one, "a"), Queue::new(&two, "a"));
    let all = 3_000;
    here.push_many(&(0..all).collect::<Vec<_>>()).await.unwrap();
    let (over, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let taking: Vec<_> = [&here, &there, &here, &there]
        .into_iter()
        .map(|queue| {
            let (queue, over, taken) = (queue.clone(), Arc::clone(&over), Arc::clone(&taken));
            tokio::spawn(async move {
                let mut got = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    // Some calls give up while their request is in flight.
                    let within = Duration::from_millis(fastrand::u64(1..50));
                    if let Ok(one) = tokio::time::timeout(within, queue.take()).await {
                        got.push(one.unwrap());
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
                got
            })
        })
        .collect();
    wait_until(SOON, async || taken.load(Ordering::Relaxed) >= 50).await;
    let successor = cluster.fail_over(former).await.unwrap();
    assert_ne!(successor.addr(), former.addr());
    // The tasks also take elements that only the new primary has received, however few of the
    // others are left.
    let all = all + 500;
    there.push_many(&(all - 500..all).collect::<Vec<_>>()).await.unwrap();
    let before = taken.load(Ordering::Relaxed);
    wait_until(SOON, async || taken.load(Ordering::Relaxed) >= before + 50).await;
    over.store(true, Ordering::Relaxed);
    let mut got = Vec::new();
    for task in taking {
        got.extend(task.await.unwrap());
    }
    while let Some(one) = here.take_within(Duration::from_secs(2)).await.unwrap() {
        got.push(one);
    }
    got.sort_unstable();
    assert_eq!(got, (0..all).collect::<Vec<_>>());
}

/// A task that waits when the primary dies goes on waiting at the new primary.
async fn sentinel_waiters_for_an_element_get_one_of_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    // The waiters must wait for longer than a failover takes on a busy machine.
    let client = connected(by_sentinels(&sentinels).retries(39)).await;
    let queue: Queue<u64> = Queue::new(&client, "a");
    let taking: Vec<_> = (0..50)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await })
        })
        .collect();
    let subscribed = async || {
        let primary = sentinels.current_primary().await.ok()?;
        let channels = primary.observer().await.ok()?.pubsub_channels("redgrid_queue__channel:*").await.ok()?;
        (channels.len() == 1).then_some(primary.addr())
    };
    wait_until(SOON, async || subscribed().await == Some(address)).await;
    former.kill().await.unwrap();
    let primary = sentinels.wait_for_primary_other_than(address).await.unwrap().addr();
    wait_until(SOON, async || subscribed().await == Some(primary)).await;
    queue.push_many(&(0..50).collect::<Vec<_>>()).await.unwrap();
    let mut got = Vec::new();
    for task in taking {
        got.push(tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, (0..50).collect::<Vec<_>>());
}
