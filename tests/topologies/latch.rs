//! Latches on every topology.

use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_countdown_latch::{CountDownLatch, LatchError, WaitError};
use redgrid_testkit::wait_until;
use redgrid_tests::latch::{crowd, placed, waiter};
use redgrid_tests::{NOTHING, SOON};

use crate::contract::{AT_ONCE, clauses};
use crate::fixture::Fixture;

clauses![
    "latch";
    a_latch_counts_down_opens_and_is_set_again,
    waiters_of_two_processes_are_woken_by_the_last_count_down,
    waiters_complete_when_the_latch_is_deleted_or_expires,
    a_new_round_completes_waits_of_the_last_round_only,
    count_downs_of_three_processes_have_their_own_results,
    a_latch_may_have_a_hash_tag_in_its_name,
    waits_that_end_early_leave_nothing,
];

async fn a_latch_counts_down_opens_and_is_set_again(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (CountDownLatch::new(&one, &on.name), CountDownLatch::new(&two, &on.name));
    for _ in 0..3 {
        assert!(here.try_set_count(3).await.unwrap());
        assert!(!there.try_set_count(5).await.unwrap());
        assert_eq!((there.count_down().await.unwrap(), here.count().await.unwrap()), (2, 2));
        let early = there.wait().timeout(Duration::ZERO).await;
        assert!(matches!(early, Err(WaitError::TimedOut { .. })), "{early:?}");
        assert_eq!(here.count_down_by(2).await.unwrap(), 0);
        there.wait().await.unwrap();
        assert!(!on.observer.exists(&on.name).await.unwrap());
    }
    assert!(matches!(here.try_set_count(0).await, Err(LatchError::InvalidCount { .. })));
}

/// Waits until this many clients are subscribed to the latch at its server, on a plain or a sharded
/// channel.
async fn until_subscribed(on: &Fixture, clients: u64) {
    let channel = format!("redgrid_latch__channel:{{{}}}", on.name);
    let subscribed = async || {
        let plain = on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1;
        let sharded = on.observer.query::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
        plain + sharded.map_or(0, |(_, sharded)| sharded) == clients
    };
    wait_until(SOON, subscribed).await;
}

/// A hundred waiters of two processes are woken by the message alone: their polls come too late.
async fn waiters_of_two_processes_are_woken_by_the_last_count_down(on: Fixture) {
    let one = on.client().await;
    let others = [
        on.client_with(|config| config.poll_interval(SOON)).await,
        on.client_with(|config| config.poll_interval(SOON)).await,
    ];
    let latch = CountDownLatch::new(&one, &on.name);
    for _ in 0..3 {
        latch.try_set_count(2).await.unwrap();
        let mut tasks = Vec::new();
        for client in &others {
            tasks.extend(crowd(&CountDownLatch::new(client, &on.name), 50).await);
        }
        until_subscribed(&on, 2).await;
        latch.count_down().await.unwrap();
        assert!(tasks.iter().all(|task| !task.is_finished()));
        let last = Instant::now();
        latch.count_down().await.unwrap();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert!(last.elapsed() < AT_ONCE, "{:?}", last.elapsed());
        until_subscribed(&on, 0).await;
    }
    wait_until(SOON, async || others.iter().all(|client| client.stats() == NOTHING)).await;
}

async fn waiters_complete_when_the_latch_is_deleted_or_expires(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let (here, there) = (CountDownLatch::new(&one, &on.name), CountDownLatch::new(&two, &on.name));
    here.try_set_count(1).await.unwrap();
    let task = waiter(&two, &there).await;
    until_subscribed(&on, 1).await;
    let deleted = Instant::now();
    assert!(here.delete().await.unwrap());
    task.await.unwrap().unwrap();
    assert!(deleted.elapsed() < AT_ONCE, "{:?}", deleted.elapsed());
    wait_until(SOON, async || two.stats() == NOTHING).await;
    here.try_set_count(1).expires_in(Duration::from_millis(800)).await.unwrap();
    let set = Instant::now();
    waiter(&two, &there).await.await.unwrap().unwrap();
    assert!(set.elapsed() < AT_ONCE, "{:?}", set.elapsed());
    // The key is deleted by hand, without any message: a poll notices that.
    here.try_set_count(1).await.unwrap();
    let task = waiter(&one, &here).await;
    on.observer.cmd(&["DEL", &on.name]).await.unwrap();
    tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap().unwrap();
}

async fn a_new_round_completes_waits_of_the_last_round_only(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (CountDownLatch::new(&one, &on.name), CountDownLatch::new(&two, &on.name));
    here.try_set_count(1).await.unwrap();
    let mut former = waiter(&two, &there).await;
    for _ in 0..20 {
        here.count_down().await.unwrap();
        here.try_set_count(1).await.unwrap();
        let next = crowd(&there, 1).await.remove(0);
        tokio::time::timeout(SOON, former).await.unwrap().unwrap().unwrap();
        placed(&there).await;
        assert!(!next.is_finished());
        former = next;
    }
    here.delete().await.unwrap();
    tokio::time::timeout(SOON, former).await.unwrap().unwrap().unwrap();
}

async fn count_downs_of_three_processes_have_their_own_results(on: Fixture) {
    let mut latches = Vec::new();
    for _ in 0..3 {
        latches.push(CountDownLatch::new(&on.client().await, &on.name));
    }
    latches[0].try_set_count(30).await.unwrap();
    let results = futures_util::future::join_all((0..30).map(|n| latches[n % 3].count_down())).await;
    let mut left: Vec<u64> = results.into_iter().map(Result::unwrap).collect();
    left.sort();
    assert!(left.iter().copied().eq(0..30), "{left:?}");
}

/// A latch may have a hash tag in its name. In a cluster, Redisson can not use such a name at all.
async fn a_latch_may_have_a_hash_tag_in_its_name(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let name = format!("{}:x{{{}}}z", on.name, on.name);
    let (here, there) = (CountDownLatch::new(&one, &name), CountDownLatch::new(&two, &name));
    assert!(here.try_set_count(2).await.unwrap());
    assert_eq!(here.count_down().await.unwrap(), 1);
    let task = waiter(&two, &there).await;
    wait_until(SOON, async || {
        // The check after the confirmation is in flight or done by the time that other clients see
        // the subscription.
        let ours = format!("redgrid_latch__channel:{name}");
        let plain = on.observer.pubsub_channels("*").await.unwrap();
        plain.contains(&ours) || on.observer.pubsub_shard_channels("*").await.unwrap_or_default().contains(&ours)
    })
    .await;
    let last = Instant::now();
    assert_eq!(here.count_down().await.unwrap(), 0);
    task.await.unwrap().unwrap();
    assert!(last.elapsed() < AT_ONCE, "{:?}", last.elapsed());
}

async fn waits_that_end_early_leave_nothing(on: Fixture) {
    let client = on.client().await;
    let latch = CountDownLatch::new(&client, &on.name);
    latch.try_set_count(1).await.unwrap();
    let late = latch.wait().timeout(Duration::from_secs(3)).await;
    assert!(matches!(late, Err(WaitError::TimedOut { .. })), "{late:?}");
    for moment in 0..8 {
        let wait = latch.wait().into_future();
        assert!(tokio::time::timeout(Duration::from_millis(moment), wait).await.is_err());
    }
    wait_until(SOON, async || client.stats() == NOTHING).await;
    until_subscribed(&on, 0).await;
    let task = waiter(&client, &latch).await;
    client.shutdown(SOON).await.unwrap();
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(WaitError::Failed(Failure::ShuttingDown { .. }))), "{ended:?}");
}
