//! Forced takeovers and releases by either side.

use std::time::Duration;

use redgrid_locks::{Lock, LostReason, ReleaseError};
use redgrid_tests::SOON;
use redgrid_tests::stopwatch::Stopwatch;

use crate::fixture::{Fixture, at_once, scenarios};

scenarios![
    a_guard_is_lost_when_java_forces_its_lock_open,
    java_learns_that_rust_forced_its_lock_open,
    rust_enters_when_java_forces_a_lock_of_java_open,
    java_learns_that_rust_took_its_lock,
];

/// A lease that is renewed, and so checked, after each third of this time.
const LEASE: Duration = Duration::from_secs(15);

async fn a_guard_is_lost_when_java_forces_its_lock_open(on: Fixture) {
    let (mut java, mut waiter) = (on.java(), on.java());
    let lock = Lock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    let guard = lock.acquire().await.unwrap();
    waiter.begin_lock(&on.name).await;
    waiter.until_asleep().await;
    assert!(java.force_unlock(&on.name).await);
    let forced = Stopwatch::start();
    at_once(waiter.entered()).await;
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    // The loss was reported before the lease ended by the client's clock, so a renewal reported it.
    forced.assert_within(LEASE * 2 / 3);
    assert_eq!(reason, LostReason::Gone);
    assert!(!guard.is_held());
    let released = guard.release().await;
    assert!(matches!(released, Err(ReleaseError::Lost { reason: LostReason::Gone, .. })), "{released:?}");
    assert!(waiter.is_held(&on.name).await);
    assert!(waiter.unlock(&on.name).await);
    assert!(!java.force_unlock(&on.name).await);
}

async fn java_learns_that_rust_forced_its_lock_open(on: Fixture) {
    let (mut java, mut next) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    assert!(!lock.force_release().await.unwrap());
    java.lock(&on.name).await;
    java.lock(&on.name).await;
    next.begin_lock(&on.name).await;
    next.until_asleep().await;
    assert!(lock.force_release().await.unwrap());
    at_once(next.entered()).await;
    assert!(!java.is_held(&on.name).await);
    assert!(!java.unlock(&on.name).await);
    assert!(next.is_held(&on.name).await);

    // A forced release also lets a waiter of Rust in.
    on.until_listening(0).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    assert!(lock.force_release().await.unwrap());
    let guard = at_once(waiter).await.unwrap().unwrap();
    assert!(!next.unlock(&on.name).await);
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

async fn rust_enters_when_java_forces_a_lock_of_java_open(on: Fixture) {
    let (mut holder, mut other) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    holder.lock(&on.name).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    assert!(other.force_unlock(&on.name).await);
    let guard = at_once(waiter).await.unwrap().unwrap();
    assert!(!holder.unlock(&on.name).await);
    guard.release().await.unwrap();
}

async fn java_learns_that_rust_took_its_lock(on: Fixture) {
    let (mut java, mut next) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    next.begin_lock(&on.name).await;
    next.until_asleep().await;
    let guard = lock.steal().await.unwrap();
    assert!(!java.is_held(&on.name).await);
    assert!(!java.unlock(&on.name).await);
    assert!(java.is_locked(&on.name).await);
    assert!(guard.is_held() && next.is_waiting());
    guard.release().await.unwrap();
    at_once(next.entered()).await;
    assert!(next.unlock(&on.name).await);
}
