//! Reentry on one side: the other side waits for the last release.

use std::time::Duration;

use redgrid_locks::{Holder, Lock};
use redgrid_tests::SOON;

use crate::fixture::{Fixture, at_once, scenarios};

scenarios![
    rust_waits_until_java_has_unlocked_as_often_as_it_locked,
    java_waits_until_the_last_guard_of_a_holder_is_gone,
    another_thread_of_java_is_another_holder,
];

async fn rust_waits_until_java_has_unlocked_as_often_as_it_locked(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    java.lock(&on.name).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    assert!(java.unlock(&on.name).await);
    assert_eq!(java.hold_count(&on.name).await, 1);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(!waiter.is_finished());
    assert!(java.unlock(&on.name).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(!java.unlock(&on.name).await);
}

async fn java_waits_until_the_last_guard_of_a_holder_is_gone(on: Fixture) {
    let (mut one, mut two) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    let me = Holder::new();
    let outer = lock.acquire().holder(&me).await.unwrap();
    let inner = lock.acquire().holder(&me).await.unwrap();
    one.begin_lock(&on.name).await;
    one.until_asleep().await;
    outer.release().await.unwrap();
    assert!(!two.try_lock(&on.name, Duration::ZERO).await);
    assert!(inner.is_held() && one.is_waiting());
    inner.release().await.unwrap();
    at_once(one.entered()).await;
    assert!(one.unlock(&on.name).await);
}

async fn another_thread_of_java_is_another_holder(on: Fixture) {
    let (mut one, mut two) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    one.lock(&on.name).await;
    assert!(!two.try_lock(&on.name, Duration::ZERO).await);
    assert!(!two.unlock(&on.name).await);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(one.unlock(&on.name).await);
    // A release by Rust wakes the client of both threads, and both threads acquire the lock, one
    // after the other.
    let guard = lock.acquire().await.unwrap();
    one.begin_lock(&on.name).await;
    two.begin_lock(&on.name).await;
    two.until_asleep().await;
    guard.release().await.unwrap();
    let (mut first, mut second) = at_once(async {
        tokio::select! {
            () = one.entered() => (true, false),
            () = two.entered() => (false, true),
        }
    })
    .await;
    if second {
        std::mem::swap(&mut one, &mut two);
        std::mem::swap(&mut first, &mut second);
    }
    assert!(first && lock.try_acquire().await.unwrap().is_none());
    assert!(one.unlock(&on.name).await);
    at_once(two.entered()).await;
    assert!(two.unlock(&on.name).await);
}
