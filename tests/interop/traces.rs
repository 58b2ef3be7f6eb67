//! Leftover keys of each side on the server do not disturb the other.

use std::time::Duration;

use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, at_once, scenarios};

scenarios![a_release_of_ours_leaves_no_key, javas_unlock_latch_has_no_effect_on_ours];

async fn a_release_of_ours_leaves_no_key(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(keys(&on).await, [on.name.as_str()]);
    assert!(!java.try_lock(&on.name, Duration::from_millis(50)).await);
    guard.release().await.unwrap();
    assert_eq!(keys(&on).await, [""; 0]);
    assert!(java.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
}

async fn javas_unlock_latch_has_no_effect_on_ours(on: Fixture) {
    let mut java = on.java();
    let lock = Lock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    assert!(java.unlock(&on.name).await);
    if on.version().starts_with("3.") {
        // The older line of Redisson does not delete its latch key, which expires only after 16 to
        // 20 s. This key must not disturb either side.
        let latch = format!("redisson_unlock_latch:{{{}}}:", on.name);
        let left = keys(&on).await;
        assert!(matches!(&left[..], [one] if one.starts_with(&latch)), "{left:?}");
    } else {
        wait_until(SOON, async || keys(&on).await.is_empty()).await;
    }
    // With the latch there, both sides take and release the lock as usual.
    let guard = lock.try_acquire().await.unwrap().expect("it is free");
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    guard.release().await.unwrap();
    at_once(java.entered()).await;
    on.until_listening(0).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    assert!(java.unlock(&on.name).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(!on.observer.exists(&on.name).await.unwrap());
}

/// Returns all keys with the lock's name in them.
async fn keys(on: &Fixture) -> Vec<String> {
    on.observer.keys(&format!("*{}*", on.name)).await.unwrap()
}
