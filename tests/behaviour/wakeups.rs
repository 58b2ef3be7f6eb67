//! Waiters wake even if messages are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redgrid_core::author::{ClientExt, Server};
use redgrid_core::clock::Clock;
use redgrid_core::{ChannelEvent, Client, Config, Push, Reply};
use redgrid_locks::Lock;
use redgrid_testkit::{Proxy, wait_until};
use redgrid_tests::fake_server::FakeServer;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server};

/// The interval between polls of a subscribed waiter, and a little for the network.
const POLL: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_enters_soon_after_a_release_although_its_subscriber_dies_every_second() {
    let server = server().await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let killer = tokio::spawn({
        let observer = server.observer().await.unwrap();
        async move {
            let mut every = tokio::time::interval(Duration::from_secs(1));
            loop {
                every.tick().await;
                observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
            }
        }
    });
    let (mut too_long, mut watch) = (Vec::new(), Stopwatch::start());
    let until = Instant::now() + Duration::from_secs(8);
    let mut n = 0_u64;
    while Instant::now() < until || n < 100 {
        n += 1;
        let held = Lock::new(&holder, "a").acquire().await.unwrap();
        let entering = tokio::spawn({
            let lock = Lock::new(&waiter, "a");
            async move {
                lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
            }
        });
        wait_until(SOON, async || waiter.stats().channels == 1).await;
        // Different delays, so that releases meet every moment of a reconnect.
        tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_millis(n * 7 % 40)).await;
        watch.restart();
        held.release().await.unwrap();
        entering.await.unwrap();
        let waited = watch.elapsed();
        if waited > Duration::from_millis(250) {
            too_long.push(waited);
        }
    }
    killer.abort();
    assert!(too_long.len() * 100 <= n as usize, "{} of {n} waits: {too_long:?}", too_long.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_enters_within_the_poll_although_every_message_is_lost() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    proxy.drop_publishes(true);
    let holder = client(&server).await;
    let waiter = client_with(&server.url_via(proxy.addr()), |config| config).await;
    for _ in 0..3 {
        let held = Lock::new(&holder, "a").acquire().await.unwrap();
        let entering = tokio::spawn({
            let lock = Lock::new(&waiter, "a");
            async move { lock.acquire().await }
        });
        wait_until(SOON, async || waiter.stats().channels == 1).await;
        let watch = Stopwatch::start();
        held.release().await.unwrap();
        entering.await.unwrap().unwrap().release().await.unwrap();
        watch.assert_within(POLL);
    }
    assert!(proxy.counts().publishes_dropped > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_may_not_subscribe_polls_and_gets_no_error() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let rules = ["ACL", "SETUSER", "mute", "on", ">secret", "~*", "resetchannels", "+@all"];
    observer.cmd(&rules).await.unwrap();
    let (holder, waiter) =
        (client(&server).await, client_with(&server.url_for("mute", "secret"), |config| config).await);
    for name in ["a", "b", "c"] {
        let held = Lock::new(&holder, name).acquire().await.unwrap();
        let entering = tokio::spawn({
            let lock = Lock::new(&waiter, name);
            async move { lock.acquire().await }
        });
        wait_until(SOON, async || waiter.stats().channels == 1).await;
        let watch = Stopwatch::start();
        held.release().await.unwrap();
        let guard = entering.await.unwrap().unwrap();
        // The waiter polls every 100 ms.
        watch.assert_within(Duration::from_millis(600));
        // The user may not publish either; the release still frees the lock.
        guard.release().await.unwrap();
        assert!(!observer.exists(name).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_channel_does_not_disturb_the_others() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let rules = ["ACL", "SETUSER", "half", "on", ">secret", "~*", "resetchannels", "&redgrid_client:*", "+@all"];
    observer.cmd(&rules).await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "half", "&redisson_lock__channel:{open*"]).await.unwrap();
    let holder = client(&server).await;
    let waiter = client_with(&server.url_for("half", "secret"), |config| config).await;
    let mut held = Vec::new();
    let mut entering = Vec::new();
    for n in 0..20 {
        let name = format!("{}:{n}", if n % 4 == 0 { "denied" } else { "open" });
        held.push(Lock::new(&holder, &name).acquire().await.unwrap());
        let lock = Lock::new(&waiter, &name);
        entering.push(tokio::spawn(async move { lock.acquire().timeout(SOON).await }));
    }
    // The permitted channels are subscribed in spite of the denied ones.
    wait_until(SOON, async || observer.pubsub_channels("redisson*open*").await.unwrap().len() == 15).await;
    for guard in held {
        guard.release().await.unwrap();
    }
    for task in entering {
        task.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_enters_when_the_known_lease_ends() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let waiter = client(&server).await;
    for name in ["a", "b", "c"] {
        observer.cmd(&["HSET", name, "6f1c7a52-3c2e-4a8f-9a63-5c1f0ad7b9aa:1", "1"]).await.unwrap();
        observer.cmd(&["PEXPIRE", name, "400"]).await.unwrap();
        let watch = Stopwatch::start();
        let guard = Lock::new(&waiter, name).acquire().await.unwrap();
        // The waiter enters when the lease expires, not at its next poll.
        watch.assert_within(Duration::from_millis(700));
        guard.release().await.unwrap();
    }
}

/// A poll interval so long that a test fails if its waiter depends on a poll.
const NO_POLL: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_lost_its_subscriber_long_ago_is_subscribed_again() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let holder = client(&server).await;
    let waiter = client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let entering = tokio::spawn(Lock::new(&waiter, "a").acquire().timeout(SOON).into_future());
    let subscribed = async || !observer.pubsub_channels("redisson*").await.unwrap().is_empty();
    wait_until(SOON, subscribed).await;
    observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    wait_until(SOON, async || !subscribed().await).await;
    wait_until(SOON, subscribed).await;
    held.release().await.unwrap();
    entering.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_subscriber_polls_often() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let holder = client(&server).await;
    let waiter = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let entering = tokio::spawn(Lock::new(&waiter, "a").acquire().timeout(SOON).into_future());
    let subscribed = async || !observer.pubsub_channels("redisson*").await.unwrap().is_empty();
    wait_until(SOON, subscribed).await;
    proxy.refuse_connections().await.unwrap();
    observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    wait_until(SOON, async || !subscribed().await).await;
    held.release().await.unwrap();
    entering.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_release_between_poll_and_subscription_is_not_missed() {
    let server = server().await;
    let holder = client(&server).await;
    let waiter = client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await;
    // Another watcher keeps the subscription active, so no confirmation makes the waiter poll
    // again.
    let watching = waiter.watch("redisson_lock__channel:{a}".into(), "a".into());
    wait_until(SOON, async || watching.is_active()).await;
    for _ in 0..400 {
        let held = Lock::new(&holder, "a").acquire().timeout(SOON).await.unwrap();
        let lock = Lock::new(&waiter, "a");
        let entering = tokio::spawn(async move {
            lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
        });
        let moment = Instant::now() + Duration::from_micros(fastrand::u64(..500));
        while Instant::now() < moment {
            tokio::task::yield_now().await;
        }
        held.release().await.unwrap();
        entering.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_wakes_waiters_elsewhere() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let holder = client(&server).await;
    let waiter = client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let entering = tokio::spawn(Lock::new(&waiter, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || !observer.pubsub_channels("redisson*").await.unwrap().is_empty()).await;
    holder.shutdown(SOON).await.unwrap();
    entering.await.unwrap().unwrap().release().await.unwrap();
    drop(held);
}

#[tokio::test]
async fn a_subscription_abandoned_during_a_gap_does_not_stay() {
    let channel = Bytes::from_static(b"left");
    let server = Arc::new(FakeServer::new("slow", |_| Ok(Reply::Nil)).unconfirmed(channel.clone()));
    let config = Config::single("slow").unwrap();
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let mut watch = client.watch(channel.clone(), channel.clone());
    wait_until(SOON, async || server.listened().contains(&channel)).await;
    // The gap is reported after the new connection has subscribed: a waiter that receives the
    // message has seen the gap.
    server.push(Push::Gap);
    server.push(Push::Message { channel: channel.clone(), payload: Bytes::new() });
    while watch.wake().await.messages == 0 {}
    drop(watch);
    server.confirm();
    wait_until(SOON, async || !server.listened().contains(&channel)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_without_a_key_learn_of_every_gap() {
    let server = server().await;
    // With this poll budget, only one subscription with a key at a time is notified of a gap; the
    // others rely on their polls. Subscriptions without a key are always notified.
    let client = client_with(&server.url(), |config| config.poll_budget(1)).await;
    let mut hearings = Vec::new();
    for n in 0..5 {
        let key = Bytes::from(format!("{{told}}:{n}"));
        let mut hearing = client.subscribe_ordered_unpolled([Bytes::from(format!("channel:{{told}}:{n}"))], &key);
        let first = tokio::time::timeout(SOON, hearing.next()).await;
        assert_eq!(first, Ok(ChannelEvent::Resync), "the subscription is in force");
        hearings.push(hearing);
    }
    let observer = server.observer().await.unwrap();
    observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    for hearing in &mut hearings {
        assert_eq!(tokio::time::timeout(SOON, hearing.next()).await, Ok(ChannelEvent::Resync));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_subscriber_receives_all_messages_before_its_end() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    for channel in (0..100).map(|round| Bytes::from(format!("channel {round}"))) {
        let heard = Arc::new(AtomicU64::new(0));
        let (told, end) = tokio::sync::oneshot::channel();
        let ended = tokio::spawn({
            let (client, channel, heard) = (client.clone(), channel.clone(), Arc::clone(&heard));
            async move {
                client.spawn_attached(move |on| async move {
                    let mut hearing = on.subscribe_at_primary([channel.clone()], &channel);
                    let is_message = |heard| matches!(heard, ChannelEvent::Message { .. });
                    while !is_message(hearing.next().await) {}
                    heard.fetch_add(1, Ordering::Relaxed);
                    while let Some(next) = hearing.take() {
                        heard.fetch_add(u64::from(is_message(next)), Ordering::Relaxed);
                    }
                    let mut last = hearing.drain();
                    while let Some(next) = last.next().await {
                        heard.fetch_add(u64::from(is_message(next)), Ordering::Relaxed);
                    }
                    let _ = told.send(());
                });
                tokio::time::timeout(SOON, end).await.expect("the end is reported").unwrap();
            }
        });
        let mut counted = 0;
        // Some messages are published before the end is requested, some during it, and the last
        // after it.
        loop {
            let is_over = ended.is_finished();
            let listening: u64 = observer.query(&["PUBLISH".as_bytes(), &channel, b"1"]).await.unwrap();
            counted += listening;
            if is_over {
                assert_eq!(listening, 0, "an ended subscription has no listener");
                break;
            }
        }
        ended.await.unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), counted, "{channel:?}");
    }
}
