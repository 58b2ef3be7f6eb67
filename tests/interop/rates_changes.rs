//! Shared rate limits that one side sets anew, keeps alive, or deletes.

use std::time::Duration;

use redgrid_rate_limiter::{LimitError, Rate, RateLimiter};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{AT_ONCE, Fixture, scenarios};
use crate::rates::{LONG, both, free, long};

scenarios![
    java_sets_the_rate_anew_and_rust_begins_anew,
    rust_sets_the_rate_anew_and_java_begins_anew,
    java_continues_from_rusts_state,
    rust_continues_from_javas_state,
    javas_keep_alive_is_kept_by_rust,
    rusts_keep_alive_is_kept_by_java,
    a_limiter_that_java_deletes_has_no_rate,
    a_limiter_that_rust_deletes_has_no_rate,
];

async fn java_sets_the_rate_anew_and_rust_begins_anew(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(5)).await.unwrap();
    limiter.acquire().permits(5).await.unwrap();
    java.set("setRate", "OVERALL", 3, LONG).await;
    assert_eq!(free(&limiter).await, 3);
    limiter.acquire().permits(3).await.unwrap();
    // The waiter receives no message from Java, and polls.
    let client = on.client_with(|config| config.poll_interval(Duration::from_millis(500))).await;
    let waiting = tokio::spawn(RateLimiter::new(&client, &on.name).acquire().into_future());
    wait_until(SOON, async || client.stats().channels > 0).await;
    java.set("setRate", "OVERALL", 2, LONG).await;
    tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(java.free().await, 1);
}

async fn rust_sets_the_rate_anew_and_java_begins_anew(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert_eq!(java.set("trySetRate", "OVERALL", 5, LONG).await, "true");
    assert!(java.try_take(5).await && !java.try_take(1).await);
    assert!(limiter.set_rate(long(3)).await.unwrap());
    assert!(java.try_take(3).await && !java.try_take(1).await);
}

async fn java_continues_from_rusts_state(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert_eq!(java.set("trySetRate", "OVERALL", 5, LONG).await, "true");
    assert!(java.try_take(4).await);
    assert!(limiter.set_rate(long(8)).keeping_state().if_set().await.unwrap());
    assert_eq!(java.free().await, 4);
    assert!(java.try_take(4).await && !java.try_take(1).await);
    assert!(limiter.set_rate(long(6)).keeping_state().await.unwrap());
    assert!(!java.try_take(1).await && limiter.try_acquire().await.unwrap().is_none());
    assert_eq!(limiter.release(4).await.unwrap(), 4);
    assert_eq!((java.free().await, free(&limiter).await), (2, 2));
}

/// Only the newer line of Redisson supports this.
async fn rust_continues_from_javas_state(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(5)).await.unwrap();
    limiter.acquire().permits(4).await.unwrap();
    if !on.version().starts_with('4') {
        assert_eq!(
            java.tries("keepState", &["OVERALL", "8", "600000"]).await.unwrap_err().class,
            "ClassNotFoundException"
        );
        return;
    }
    assert_eq!(java.set("keepState", "OVERALL", 8, LONG).await, "true");
    assert_eq!(free(&limiter).await, 4);
    limiter.acquire().permits(4).await.unwrap();
    // Eight permits were taken, and four are returned. By Redisson's count none is free, and Rust
    // reports the same.
    assert_eq!(java.set("keepState", "OVERALL", 2, LONG).await, "true");
    assert_eq!((limiter.release(4).await.unwrap(), free(&limiter).await), (4, 0));
    assert_eq!((limiter.release(4).await.unwrap(), free(&limiter).await, java.free().await), (4, 2, 2));
}

async fn lives(on: &Fixture, key: &str) -> Duration {
    on.observer.time_to_live(key).await.unwrap().unwrap_or_default()
}

async fn javas_keep_alive_is_kept_by_rust(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert_eq!(java.does("trySetRate", &["OVERALL", "5", "1000", "600000"]).await, "true");
    assert_eq!(limiter.rate().await.unwrap().keep_alive, Some(Duration::from_millis(LONG)));
    on.observer.cmd(&["PEXPIRE", &on.name, "60000"]).await.unwrap();
    limiter.acquire().await.unwrap();
    for key in [on.name.clone(), format!("{{{}}}:value", on.name), format!("{{{}}}:permits", on.name)] {
        assert!(lives(&on, &key).await > Duration::from_secs(500), "{key}");
    }
}

async fn rusts_keep_alive_is_kept_by_java(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    let rate = Rate::overall(5, Duration::from_secs(1)).keep_alive(Duration::from_millis(LONG));
    limiter.try_set_rate(rate).await.unwrap();
    on.observer.cmd(&["PEXPIRE", &on.name, "60000"]).await.unwrap();
    assert!(java.try_take(1).await);
    for key in [on.name.clone(), format!("{{{}}}:value", on.name), format!("{{{}}}:permits", on.name)] {
        assert!(lives(&on, &key).await > Duration::from_secs(500), "{key}");
    }
    assert_eq!(java.does("expire", &["60000"]).await, "true");
    assert!(lives(&on, &on.name).await <= Duration::from_secs(60));
}

async fn a_limiter_that_java_deletes_has_no_rate(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(5)).await.unwrap();
    limiter.acquire().permits(5).await.unwrap();
    assert_eq!(java.does("delete", &[]).await, "true");
    assert!(matches!(limiter.acquire().await, Err(LimitError::RateNotSet { .. })));
    assert!(!limiter.delete().await.unwrap());
    limiter.try_set_rate(long(5)).await.unwrap();
    assert_eq!(free(&limiter).await, 5);
}

async fn a_limiter_that_rust_deletes_has_no_rate(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert_eq!(java.set("trySetRate", "OVERALL", 5, LONG).await, "true");
    assert!(java.try_take(5).await);
    assert!(limiter.delete().await.unwrap());
    assert!(java.tries("tryAcquire", &["1", "0"]).await.unwrap_err().message.contains("not initialized"));
    assert_eq!(java.does("delete", &[]).await, "false");
    assert_eq!(java.set("trySetRate", "OVERALL", 5, LONG).await, "true");
    assert!(java.try_take(5).await);
}
