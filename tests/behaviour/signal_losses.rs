//! Events, notifications and conditions under loss of messages, leases, time or permissions; and
//! the cost of waiting.

use redgrid_barrier::{Condition, Event, Notify, WaitError};
use redgrid_core::Client;
use redgrid_locks::Lock;
use redgrid_testkit::{Fault, Observer, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::barrier::{LEASE, MS, leased, until};
use crate::barrier_losses::mute;

const HASH: &str = "redgrid_notify:{a}";
const LINE: &str = "redgrid_notify_line:{a}";

fn notified(client: &Client) -> JoinHandle<Result<(), WaitError>> {
    tokio::spawn(Notify::new(client, "a").notified().timeout(SOON).into_future())
}

/// The ids of the waiters, in order of arrival.
async fn line(observer: &Observer) -> Vec<String> {
    observer.query(&["ZRANGE", LINE, "0", "-1"]).await.unwrap()
}

/// Lets the lease of a waiter end, as if its process had stopped.
async fn stall(observer: &Observer, hash: &str, seat: &str) {
    let text = "redis.call('HSET', KEYS[1], ARGV[1], (string.gsub(redis.call('HGET', KEYS[1], ARGV[1]), '%d+$', '1')))";
    observer.cmd(&["EVAL", text, "1", hash, seat]).await.unwrap();
}

/// How many scripts the server has run.
async fn scripts(observer: &Observer) -> u64 {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = |line: &str| line.split_once("calls=")?.1.split_once(',')?.0.parse::<u64>().ok();
    stats.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(calls).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_publish_a_client_sets_and_notifies() {
    let server = server().await;
    let client = mute(&server).await;
    let observer = server.observer().await.unwrap();
    let (event, notify) = (Event::new(&client, "a"), Notify::new(&client, "a"));
    assert!(event.set().await.unwrap() && event.is_set().await.unwrap());
    event.wait().timeout(SOON).await.unwrap();
    let waiting = [notified(&client), notified(&client), notified(&client)];
    until(&observer, LINE, 3).await;
    assert!(notify.notify_one().await.unwrap());
    until(&observer, LINE, 2).await;
    assert_eq!(notify.notify_waiters().await.unwrap(), 2);
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    let (lock, condition) = (Lock::new(&client, "l"), Condition::new(&client, "a"));
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    let waiting = tokio::spawn({
        let condition = condition.clone();
        async move { condition.wait_within(guard, SOON).await }
    });
    until(&observer, "redgrid_condition_line:{a}", 1).await;
    assert!(condition.notify_one().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_completes_although_the_events_lifetime_ends_at_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.watchdog_lease(LEASE)).await;
    let event = Event::new(&client(&server).await, "a");
    proxy.drop_publishes(true);
    let waiting = tokio::spawn(Event::new(&deaf, "a").wait().timeout(SOON).into_future());
    let listening = async || observer.pubsub_channels("redgrid_event*").await.unwrap().len() == 1;
    wait_until(SOON, listening).await;
    let before: u64 = scripts(&observer).await;
    wait_until(SOON, async || scripts(&observer).await > before).await;
    assert!(event.clone().lifetime(MS).set().await.unwrap());
    wait_until(SOON, async || !event.is_set().await.unwrap()).await;
    waiting.await.unwrap().unwrap();
    // The event has ended: a new waiter waits, a reset does nothing, and the event can be set
    // again.
    assert!(!event.reset().await.unwrap());
    let late = event.wait().timeout(1000 * MS).await;
    assert!(matches!(late, Err(WaitError::TimedOut { .. })), "{late:?}");
    assert!(event.set().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_wait_for_a_condition_over_a_slow_network_ends_with_the_lock() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let far = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let observer = server.observer().await.unwrap();
    let condition = Condition::new(&far, "a");
    let mut guard = Lock::new(&far, "l").acquire().await.unwrap();
    proxy.set_both(Fault::Delay(60 * MS));
    // The timeouts are shorter than the first poll, shorter than the poll and the release of the
    // lock, and slightly longer than both.
    for within in [MS, 60 * MS, 150 * MS, 250 * MS, 350 * MS] {
        let (again, was_notified) = condition.wait_within(guard, within).await.unwrap();
        assert!(again.is_held() && !was_notified);
        guard = again;
    }
    proxy.heal();
    until(&observer, "redgrid_condition_line:{a}", 0).await;
}

/// A stopped waiter is queued again, and is not notified twice. The notification that skipped it
/// went to another waiter.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_waiter_is_queued_again() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    // This client polls so rarely that no poll occurs during the test.
    let slow = |config: redgrid_core::Config| config.watchdog_lease(2 * LEASE);
    let (one, two) = (client_with(&server.url_via(proxy.addr()), slow).await, client(&server).await);
    let first = notified(&one);
    until(&observer, LINE, 1).await;
    let stalled = line(&observer).await.remove(0);
    let second = notified(&two);
    until(&observer, LINE, 2).await;
    proxy.set_both(Fault::Stall);
    let still = Instant::now();
    tokio::time::sleep_until(still + LEASE).await;
    stall(&observer, HASH, &stalled).await;
    assert!(Notify::new(&two, "a").notify_one().await.unwrap());
    second.await.unwrap().unwrap();
    proxy.heal();
    wait_until(SOON, async || line(&observer).await == [stalled.clone()] || first.is_finished()).await;
    assert!(!first.is_finished(), "it was not notified");
    assert!(Notify::new(&two, "a").notify_one().await.unwrap());
    first.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_waiters_in_front_are_dropped_and_entries_are_swept_once_a_minute() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = leased(&server).await;
    let fill = "for i = 1, 200 do local id = 'gone:' .. ARGV[1] .. ':' .. i redis.call('HSET', KEYS[1], id, '1 0 w 1') \
                if i <= 20 then redis.call('ZADD', KEYS[2], -i, id) end end";
    observer.cmd(&["EVAL", fill, "2", HASH, LINE, "a"]).await.unwrap();
    let first = notified(&client);
    until(&observer, LINE, 5).await;
    let fields: u64 = observer.query(&["HLEN", HASH]).await.unwrap();
    assert!(fields < 50, "{fields}: swept");
    observer.cmd(&["EVAL", fill, "2", HASH, LINE, "b"]).await.unwrap();
    let second = notified(&client);
    wait_until(SOON, async || line(&observer).await.iter().filter(|id| !id.starts_with("gone")).count() == 2).await;
    let fields: u64 = observer.query(&["HLEN", HASH]).await.unwrap();
    assert!(fields > 150, "{fields}: swept again within a minute");
    // For the second waiter, 16 of the 24 dead waiters were dropped.
    assert_eq!(Notify::new(&client, "a").notify_waiters().await.unwrap(), 8 + 2);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_notified_waiter_polls() {
    const CROWD: usize = 20;
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let calm = |config: redgrid_core::Config| config.poll_interval(2 * SOON).watchdog_lease(20 * SOON);
    let (one, other) = (client_with(&server.url(), calm).await, client_with(&server.url(), calm).await);
    Notify::new(&other, "b").notify_one().await.unwrap();
    let waiting: Vec<_> = (0..CROWD).map(|_| notified(&one)).collect();
    until(&observer, LINE, CROWD as u64).await;
    quiet(&observer).await;
    let before = scripts(&observer).await;
    assert!(Notify::new(&other, "a").notify_one().await.unwrap());
    wait_until(SOON, async || waiting.iter().any(JoinHandle::is_finished)).await;
    quiet(&observer).await;
    let spent = scripts(&observer).await - before;
    assert!(spent <= 4, "{spent} scripts: the notification, the waiter's poll, and no more");
    Notify::new(&other, "a").notify_waiters().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_not_polled_by_all_each_second() {
    const CROWD: usize = 20;
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.poll_interval(300 * MS)).await;
    let waiting: Vec<_> =
        (0..CROWD).map(|_| tokio::spawn(Event::new(&client, "a").wait().timeout(SOON).into_future())).collect();
    wait_until(SOON, async || !observer.pubsub_channels("redgrid_event*").await.unwrap().is_empty()).await;
    quiet(&observer).await;
    let before = scripts(&observer).await;
    let began = Instant::now();
    tokio::time::sleep_until(began + 1200 * MS).await;
    let spent = scripts(&observer).await - before;
    let whole = began.elapsed().as_millis() / 1500 + 1;
    assert!(spent <= CROWD as u64 * whole as u64 + 5, "{spent} scripts");
    Event::new(&client, "a").set().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}

/// Waits until no script is run for a while.
async fn quiet(observer: &Observer) {
    let last = std::cell::Cell::new((0, Instant::now()));
    wait_until(SOON, async || {
        let (before, since) = last.get();
        let now = scripts(observer).await;
        if now != before {
            last.set((now, Instant::now()));
        }
        now == before && since.elapsed() > 200 * MS
    })
    .await;
}
