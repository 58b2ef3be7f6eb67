//! Latch waiters of one round: late and missed messages, and the start of the next round.

use std::time::Instant;

use redgrid_countdown_latch::CountDownLatch;
use redgrid_testkit::{Monitor, Proxy, wait_until};
use redgrid_tests::latch::{scripts, waiter};
use redgrid_tests::{SOON, client, client_with, server};

use super::latch::{AT_ONCE, MS, NO_POLL, OURS, THEIRS};

/// Waits until a client is subscribed to the latch, and a later poll was answered.
async fn until_sure(server: &redgrid_testkit::RedisServer, client: &redgrid_core::Client, channels: usize) {
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == channels).await;
    // This request uses the same connection, so its reply arrives after that of the poll.
    client.command("PING").query::<String>().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn late_messages_of_an_earlier_round_complete_no_wait() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (setting, waiting) =
        (client(&server).await, client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await);
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    set.try_set_count(1).await.unwrap();
    let former = observer.get::<String>("redgrid_latch:{a}").await.unwrap().unwrap();
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    let task = waiter(&waiting, &latch).await;
    until_sure(&server, &waiting, 2).await;
    let mut monitor = Monitor::start(&server).await.unwrap();
    // The test sends all messages that the end of the previous round and the start of this one
    // publish.
    for (channel, message) in [(OURS, former.as_str()), (THEIRS, "0"), (THEIRS, "1"), (OURS, "0"), (OURS, "x")] {
        let heard: u64 = observer.query(&["PUBLISH", channel, message]).await.unwrap();
        assert_eq!(heard, 1);
    }
    // The waiter polls, finds its round in progress, and continues to wait.
    let [.., look] = scripts();
    let mut looks = 0;
    wait_until(SOON, async || {
        let seen = monitor.take().await.unwrap();
        looks += seen.iter().filter(|command| command.args.first().is_some_and(|arg| *arg == look)).count();
        looks > 0
    })
    .await;
    waiting.command("PING").query::<String>().await.unwrap();
    assert!(!task.is_finished());
    let last = Instant::now();
    set.count_down().await.unwrap();
    task.await.unwrap().unwrap();
    assert!(last.elapsed() < AT_ONCE, "{:?}", last.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_of_the_same_name_in_another_database_completes_no_wait() {
    let server = server().await;
    let elsewhere = client_with(&server.url(), |config| config.database(1)).await;
    let here = client_with(&server.url(), |config| config.poll_interval(NO_POLL)).await;
    let (other, latch) = (CountDownLatch::new(&elsewhere, "a"), CountDownLatch::new(&here, "a"));
    latch.try_set_count(1).await.unwrap();
    let task = waiter(&here, &latch).await;
    until_sure(&server, &here, 2).await;
    let [.., look] = scripts();
    let mut monitor = Monitor::start(&server).await.unwrap();
    other.try_set_count(1).await.unwrap();
    other.count_down().await.unwrap();
    let mut looks = 0;
    wait_until(SOON, async || {
        let seen = monitor.take().await.unwrap();
        looks += seen.iter().filter(|command| command.args.first().is_some_and(|arg| *arg == look)).count();
        looks > 0
    })
    .await;
    here.command("PING").query::<String>().await.unwrap();
    assert!(!task.is_finished());
    latch.count_down().await.unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_missed_its_rounds_end_completes_during_the_next() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let setting = client(&server).await;
    let waiting = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(200 * MS)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    // No message arrives, so only polls can wake the waiters.
    proxy.drop_publishes(true);
    set.try_set_count(1).await.unwrap();
    let early = waiter(&waiting, &latch).await;
    until_sure(&server, &waiting, 2).await;
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    tokio::time::timeout(AT_ONCE, early).await.unwrap().unwrap().unwrap();
    wait_until(SOON, async || waiting.stats().channels == 0).await;
    // If a waiter of the next round exists, the same poll serves it too.
    let early = waiter(&waiting, &latch).await;
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    let late = tokio::spawn(latch.wait().into_future());
    tokio::time::timeout(AT_ONCE, early).await.unwrap().unwrap().unwrap();
    waiting.command("PING").query::<String>().await.unwrap();
    assert!(!late.is_finished(), "the wait is for the next round");
    set.count_down().await.unwrap();
    tokio::time::timeout(AT_ONCE, late).await.unwrap().unwrap().unwrap();
}

/// Each new waiter gets a poll of its own, because the state that other waiters have received may
/// be outdated.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_waiter_is_not_assigned_to_the_round_of_others() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let setting = client(&server).await;
    let waiting = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    set.try_set_count(1).await.unwrap();
    let former = observer.get::<String>("redgrid_latch:{a}").await.unwrap().unwrap();
    let early = waiter(&waiting, &latch).await;
    until_sure(&server, &waiting, 2).await;
    // The message about the end of the round is delayed for a long time.
    proxy.drop_publishes(true);
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    let late = tokio::spawn(latch.wait().into_future());
    tokio::time::timeout(AT_ONCE, early).await.unwrap().unwrap().unwrap();
    proxy.drop_publishes(false);
    let mut monitor = Monitor::start(&server).await.unwrap();
    observer.query::<u64>(&["PUBLISH", OURS, &former]).await.unwrap();
    let [.., look] = scripts();
    wait_until(SOON, async || {
        monitor.take().await.unwrap().iter().any(|command| command.args.first().is_some_and(|arg| *arg == look))
    })
    .await;
    waiting.command("PING").query::<String>().await.unwrap();
    assert!(!late.is_finished());
    set.count_down().await.unwrap();
    tokio::time::timeout(AT_ONCE, late).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_lost_its_subscription_at_the_rounds_end_completes() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let setting = client(&server).await;
    let waiting = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    set.try_set_count(1).await.unwrap();
    let task = waiter(&waiting, &latch).await;
    until_sure(&server, &waiting, 2).await;
    proxy.refuse_connections().await.unwrap();
    observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().is_empty()).await;
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    proxy.accept_connections().await.unwrap();
    tokio::time::timeout(SOON, task).await.unwrap().unwrap().unwrap();
}
