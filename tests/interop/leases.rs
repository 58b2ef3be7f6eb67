//! Leases that end, and watchdogs that renew them.

use std::time::Duration;

use redgrid_locks::Lock;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, assert_entered_at, at_once, scenarios};

scenarios![
    rust_enters_when_javas_lease_is_over,
    java_enters_when_our_lease_is_over,
    javas_watchdog_keeps_the_lock_while_rust_waits,
    our_watchdog_keeps_the_lock_while_java_waits,
];

const LEASE: Duration = Duration::from_millis(1500);

async fn rust_enters_when_javas_lease_is_over(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock_for(&on.name, LEASE).await;
    let end = on.lease_end().await;
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert_entered_at(end, guard.token().get());
    assert!(!java.is_held(&on.name).await);
    assert!(!java.unlock(&on.name).await);
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

async fn java_enters_when_our_lease_is_over(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    let before = on.server_time().await;
    lock.acquire().lease(LEASE).await.unwrap().forget();
    // At the server the lease is a little longer than requested. Within this margin Rust may
    // release the lock.
    assert!(on.time_until(on.lease_end().await).await < LEASE * 2);
    java.begin_lock(&on.name).await;
    java.entered().await;
    assert_entered_at(before + LEASE.as_micros() as u64, on.server_time().await);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(java.unlock(&on.name).await);
}

async fn javas_watchdog_keeps_the_lock_while_rust_waits(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let mut java = redisson.actor();
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    let first = on.lease_end().await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    on.until_renewed_past(first).await;
    assert!(!waiter.is_finished());
    assert!(java.is_held(&on.name).await);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(java.unlock(&on.name).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
}

async fn our_watchdog_keeps_the_lock_while_java_waits(on: Fixture) {
    let (mut java, mut other) = (on.java(), on.java());
    let lock = Lock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    let guard = lock.acquire().await.unwrap();
    let first = on.lease_end().await;
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    on.until_renewed_past(first).await;
    assert!(java.is_waiting() && guard.is_held());
    assert!(!other.try_lock(&on.name, Duration::ZERO).await);
    guard.release().await.unwrap();
    at_once(java.entered()).await;
    assert!(java.unlock(&on.name).await);
}
