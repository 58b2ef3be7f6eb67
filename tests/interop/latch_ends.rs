//! One latch of both sides: deletion, lifetimes, timeouts, killed processes and missed messages.

use std::time::Duration;

use redgrid_countdown_latch::WaitError;
use redgrid_tests::latch::waiter;

use crate::fixture::{AT_ONCE, Fixture, at_once, scenarios};
use crate::latch::{count, count_down, latch, set, until_subscribed};

scenarios![
    javas_delete_completes_rusts_waits,
    rusts_delete_completes_javas_waits,
    a_lifetime_of_ours_is_kept_by_javas_count_down_and_ends_for_java_too,
    waits_of_both_sides_end_at_their_timeout,
    count_downs_of_a_killed_java_still_count,
    rust_continues_although_it_missed_javas_message,
];

async fn javas_delete_completes_rusts_waits(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(5).await.unwrap());
    let task = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    at_once(async {
        assert_eq!(java.verb("latch.delete", &on.name).await.unwrap(), "true");
        task.await.unwrap().unwrap();
    })
    .await;
    assert!(!latch.delete().await.unwrap());
}

/// Rust's delete completes Java's waits. Redisson's own delete publishes `1`, and leaves its
/// waiters asleep.
async fn rusts_delete_completes_javas_waits(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 5).await);
    java.begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 1).await;
    java.until_waiting_for_a_latch().await;
    at_once(async {
        assert!(latch.delete().await.unwrap());
        java.done().await.unwrap();
    })
    .await;
    assert_eq!(java.verb("latch.delete", &on.name).await.unwrap(), "false");
}

async fn a_lifetime_of_ours_is_kept_by_javas_count_down_and_ends_for_java_too(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(3).expires_in(Duration::from_millis(1500)).await.unwrap());
    count_down(&mut java, &on.name).await;
    assert!(on.observer.time_to_live(&on.name).await.unwrap().is_some());
    at_once(waiter(&client, &latch).await).await.unwrap().unwrap();
    assert_eq!(count(&mut java, &on.name).await, 0);
    java.verb("latch.await", &on.name).await.unwrap();
    assert!(set(&mut java, &on.name, 1).await);
}

async fn waits_of_both_sides_end_at_their_timeout(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 1).await);
    assert_eq!(java.latch("await", &on.name, &[200]).await, "false");
    let waited = latch.wait().timeout(Duration::from_secs(2)).await;
    assert!(matches!(waited, Err(WaitError::TimedOut { .. })), "{waited:?}");
    latch.count_down().await.unwrap();
    assert_eq!(java.latch("await", &on.name, &[2000]).await, "true");
    latch.wait().timeout(Duration::from_secs(2)).await.unwrap();
}

async fn count_downs_of_a_killed_java_still_count(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(30)).await;
    let client = on.client().await;
    let latch = latch(&client, &on);
    let mut java = redisson.actor();
    assert!(set(&mut java, &on.name, 2).await);
    count_down(&mut java, &on.name).await;
    redisson.actor().begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 1).await;
    redisson.kill().await;
    until_subscribed(&on, 0).await;
    let task = waiter(&client, &latch).await;
    assert_eq!(latch.count_down().await.unwrap(), 0);
    at_once(task).await.unwrap().unwrap();
}

/// Rust continues although it missed Java's message. Redisson's own waiters would wait for ever.
async fn rust_continues_although_it_missed_javas_message(on: Fixture) {
    let mut java = on.java();
    let client = on.client_with(|config| config.poll_interval(Duration::from_secs(1))).await;
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 1).await);
    let task = waiter(&client, &latch).await;
    // Deletes the latch as Redisson does, but without Redisson's message.
    on.observer.cmd(&["DEL", &on.name]).await.unwrap();
    tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap().unwrap();
}
