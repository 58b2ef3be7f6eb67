//! A holder excludes the other side, and each side sees the other.

use std::time::Duration;

use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, NEVER, at_once, scenarios};

scenarios![
    rust_is_busy_while_java_holds_and_enters_by_its_message,
    java_is_busy_while_rust_holds_and_enters_by_our_message,
    a_wait_for_java_ends_in_time_and_leaves_nothing,
    javas_wait_for_us_ends_in_time_and_leaves_nothing,
    rust_sees_holders_of_java,
    java_sees_that_rust_holds,
    a_namespace_of_ours_is_the_front_of_a_name_in_java,
    odd_names_mean_the_same_lock,
];

async fn rust_is_busy_while_java_holds_and_enters_by_its_message(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    assert!(lock.try_acquire().await.unwrap().is_none());

    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    assert!(!waiter.is_finished());
    let guard = at_once(async {
        assert!(java.unlock(&on.name).await);
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&on.name, Duration::ZERO).await);
    guard.release().await.unwrap();
}

async fn java_is_busy_while_rust_holds_and_enters_by_our_message(on: Fixture) {
    let (mut one, mut two) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    assert!(!one.try_lock(&on.name, Duration::ZERO).await);

    two.begin_lock(&on.name).await;
    two.until_asleep().await;
    assert!(two.is_waiting());
    at_once(async {
        guard.release().await.unwrap();
        two.entered().await;
    })
    .await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(two.unlock(&on.name).await);
    lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn a_wait_for_java_ends_in_time_and_leaves_nothing(on: Fixture) {
    let (mut java, mut next) = (on.java(), on.java());
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    let waited = at_once(lock.acquire().timeout(Duration::from_secs(1)).into_future()).await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    on.until_listening(0).await;
    assert!(java.is_held(&on.name).await);

    // A waiter that was dropped before its entry does not block Java either.
    let dropped = tokio::spawn(lock.acquire().into_future());
    on.until_listening(1).await;
    dropped.abort();
    on.until_listening(0).await;
    next.begin_lock(&on.name).await;
    next.until_asleep().await;
    at_once(async {
        assert!(java.unlock(&on.name).await);
        next.entered().await;
    })
    .await;
    assert!(next.unlock(&on.name).await);
}

async fn javas_wait_for_us_ends_in_time_and_leaves_nothing(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    assert!(!at_once(java.try_lock(&on.name, Duration::from_millis(300))).await);
    on.until_listening(0).await;
    assert!(guard.is_held());

    let other = Lock::new(&on.client().await, &on.name);
    let waiter = tokio::spawn(other.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    guard.release().await.unwrap();
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(java.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
}

async fn rust_sees_holders_of_java(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    assert!(lock.inspect().await.unwrap().is_none());
    java.lock(&on.name).await;
    java.lock(&on.name).await;
    let state = lock.inspect().await.unwrap().expect("it is held");
    let [holder] = &state.holders[..] else { panic!("{state:?}") };
    assert_eq!((holder.client.as_str(), holder.number), (on.java_id(), Some(java.thread().await)));
    assert_eq!(holder.entries, 2);
    assert!(state.remaining.is_some_and(|left| left > NEVER / 2 && left <= NEVER), "{state:?}");
    assert!(lock.is_locked().await.unwrap());

    let free = tokio::spawn(async move { lock.wait_until_free(Some(SOON)).await });
    on.until_listening(1).await;
    assert!(java.unlock(&on.name).await && !free.is_finished());
    at_once(async {
        assert!(java.unlock(&on.name).await);
        assert!(free.await.unwrap().unwrap());
    })
    .await;
}

async fn java_sees_that_rust_holds(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    assert!(!java.is_locked(&on.name).await);
    let guard = lock.acquire().lease(Duration::from_secs(20)).await.unwrap();
    assert!(java.is_locked(&on.name).await);
    assert!(!java.is_held(&on.name).await);
    assert_eq!(java.hold_count(&on.name).await, 0);
    let left = java.time_to_live(&on.name).await;
    assert!((10_000..=25_000).contains(&left), "{left}");
    // Java can not release a lock of Rust.
    assert!(!java.unlock(&on.name).await);
    assert!(java.is_locked(&on.name).await && guard.is_held());
    guard.release().await.unwrap();
    assert!(!java.is_locked(&on.name).await);
    assert!(java.time_to_live(&on.name).await < 0);
}

async fn a_namespace_of_ours_is_the_front_of_a_name_in_java(on: Fixture) {
    let mut java = on.java();
    let client = on.client_with(|config| config.namespace("exclusion").unwrap()).await;
    let lock = Lock::new(&client, "spaced");
    let guard = lock.acquire().await.unwrap();
    java.begin_lock("exclusion:spaced").await;
    java.until_asleep().await;
    at_once(async {
        guard.release().await.unwrap();
        java.entered().await;
    })
    .await;
    assert!(lock.is_locked().await.unwrap());
    assert!(java.unlock("exclusion:spaced").await);
}

async fn odd_names_mean_the_same_lock(on: Fixture) {
    let mut java = on.java();
    let client = on.client().await;
    for (name, channel) in [
        ("{shop}:odd", "redisson_lock__channel:{shop}:odd"),
        ("odd:{shop}:1", "redisson_lock__channel:odd:{shop}:1"),
        ("Зал 7 – α", "redisson_lock__channel:{Зал 7 – α}"),
    ] {
        let lock = Lock::new(&client, name);
        let listening = async || on.observer.pubsub_channels("*").await.unwrap().contains(&channel.to_owned());
        let guard = lock.acquire().await.unwrap();
        java.begin_lock(name).await;
        java.until_asleep().await;
        assert!(listening().await);
        at_once(async {
            guard.release().await.unwrap();
            java.entered().await;
        })
        .await;
        wait_until(SOON, async || !listening().await).await;
        let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
        wait_until(SOON, listening).await;
        assert!(java.unlock(name).await);
        at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
}
