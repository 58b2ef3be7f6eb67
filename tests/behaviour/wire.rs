//! Redisson's format on the server: hash, field, lifetime, and channel.

use std::time::Duration;

use futures_util::StreamExt;
use redgrid_locks::Lock;
use redgrid_testkit::{redis, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const JAVA: &str = "6f1c7a52-3c2e-4a8f-9a63-5c1f0ad7b9aa:37";

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_written_by_redisson_is_respected_and_its_message_wakes_us() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.poll_interval(10 * SOON)).await;
    observer.cmd(&["HSET", "a", JAVA, "2"]).await.unwrap();
    observer.cmd(&["PEXPIRE", "a", "600000"]).await.unwrap();
    let lock = Lock::new(&client, "a");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let state = lock.inspect().await.unwrap().unwrap();
    assert_eq!((state.holders[0].number, state.holders[0].entries), (Some(37), 2));
    assert!(state.holders[0].client.starts_with("6f1c7a52"));
    assert!(state.remaining.is_some_and(|left| left > Duration::from_secs(500)));

    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().timeout(SOON).await }
    });
    let listening =
        async || observer.pubsub_channels("*").await.unwrap().contains(&"redisson_lock__channel:{a}".into());
    wait_until(SOON, listening).await;
    // These are the commands of Redisson's unlock script.
    observer.cmd(&["DEL", "a"]).await.unwrap();
    observer.cmd(&["PUBLISH", "redisson_lock__channel:{a}", "0"]).await.unwrap();
    // The waiter's timeout is much shorter than the poll interval and the lease, so the message
    // woke it.
    let guard = waiter.await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_redissons_protocol_is_woken_by_redgrid() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    // Redisson's holder field and count, so that its own scripts can read them.
    let fields: Vec<(String, String)> = observer.query(&["HGETALL", "a"]).await.unwrap();
    let (field, count) = &fields[0];
    assert_eq!(count, "1");
    let (id, number) = field.split_once(':').unwrap();
    assert!(id.len() == 36 && number.parse::<u64>().is_ok(), "{field}");
    let left = observer.time_to_live("a").await.unwrap().unwrap();
    assert!(left > Duration::from_secs(25) && left <= Duration::from_secs(30), "{left:?}");

    let mut java = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    java.subscribe("redisson_lock__channel:{a}").await.unwrap();
    guard.release().await.unwrap();
    let message = tokio::time::timeout(SOON, java.on_message().next()).await.unwrap().unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "0");
    assert!(!observer.exists("a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_in_front_of_every_key_and_channel() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = redgrid_tests::client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let held = Lock::new(&client, "a").acquire().await.unwrap();
    let other = redgrid_tests::client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let waiter = tokio::spawn(async move { Lock::new(&other, "a").acquire().timeout(SOON).await });
    let listening =
        async || observer.pubsub_channels("*").await.unwrap().contains(&"redisson_lock__channel:{prod:a}".into());
    wait_until(SOON, listening).await;
    assert_eq!(observer.keys("*").await.unwrap(), ["prod:a"]);
    let channels = observer.pubsub_channels("*").await.unwrap();
    assert!(channels.iter().all(|channel| channel.contains("{prod:")), "{channels:?}");
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_lock_to_become_free_does_not_take_it() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&waiter, "a");
    assert!(lock.wait_until_free(None).await.unwrap());
    let guard = Lock::new(&holder, "a").acquire().await.unwrap();
    assert!(!lock.wait_until_free(Some(Duration::from_millis(50))).await.unwrap());
    let waiting = tokio::spawn(async move { lock.wait_until_free(Some(SOON)).await });
    wait_until(SOON, async || waiter.stats().channels == 1).await;
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap());
    assert!(!observer.exists("a").await.unwrap());
    wait_until(SOON, async || waiter.stats().channels == 0).await;
}
