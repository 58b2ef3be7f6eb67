//! Repeated hand-over between both sides, without a missed wake-up.

use redgrid_locks::Lock;
use redgrid_tests::SOON;
use tokio::time::Instant;

use crate::fixture::{AT_ONCE, Fixture, at_once, scenarios};

scenarios![two_hundred_hand_overs_miss_no_wake_up, a_dropped_guard_admits_java];

const ROUNDS: usize = 100;

async fn two_hundred_hand_overs_miss_no_wake_up(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    let mut waits = Vec::with_capacity(2 * ROUNDS);
    let mut guard = lock.acquire().await.unwrap();
    for round in 0..ROUNDS {
        java.begin_lock(&on.name).await;
        if round % 2 == 0 {
            java.until_asleep().await;
        } else {
            // The release comes between Java's subscription and its second check.
            on.until_listening(1).await;
        }
        let freed = Instant::now();
        guard.release().await.unwrap();
        java.entered().await;
        waits.push(freed.elapsed());
        // Waits until the channel has no subscriber, so that the next subscriber is noticed.
        on.until_listening(0).await;

        let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
        on.until_listening(1).await;
        let freed = Instant::now();
        assert!(java.unlock(&on.name).await);
        guard = waiter.await.unwrap().unwrap();
        waits.push(freed.elapsed());
        on.until_listening(0).await;
    }
    guard.release().await.unwrap();
    waits.sort();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let seen = format!("median {:?}, 99% {:?}, longest {:?}", at(50), at(99), at(100));
    // A missed message would have cost 30 s.
    assert!(at(100) < AT_ONCE, "{seen}");
    println!("{} hand-overs with Redisson {}: {seen}", waits.len(), on.version());
}

async fn a_dropped_guard_admits_java(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    drop(guard);
    at_once(java.entered()).await;
    assert!(java.unlock(&on.name).await);
}
