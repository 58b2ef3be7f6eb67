//! Events, notifications and conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use redgrid_barrier::{Condition, ConditionError, Event, Failure, Notify, WaitError};
use redgrid_core::Client;
use redgrid_locks::{FairLock, Lock};
use redgrid_testkit::{Action, Observer, Proxy, wait_until};
use redgrid_tests::process::Other;
use redgrid_tests::{NOTHING, SOON, client, client_with, server};
use tokio::task::JoinHandle;

use crate::barrier::{LEASE, MS, all_end, count, dropped, leased, sha_of, until};

fn happened(client: &Client) -> JoinHandle<Result<(), WaitError>> {
    tokio::spawn(Event::new(client, "a").wait().timeout(SOON).into_future())
}

async fn listening(observer: &Observer, channel: &str) {
    let listening = async || observer.pubsub_channels("*").await.unwrap().iter().any(|it| it == channel);
    wait_until(SOON, listening).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_wakes_all_waiters_until_it_is_reset() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let event = Event::new(&one, "a");
    let waiting: Vec<_> = (0..20).map(|n| happened(if n % 2 == 0 { &one } else { &two })).collect();
    listening(&observer, "redgrid_event__channel:{a}").await;
    assert!(!event.is_set().await.unwrap() && !event.reset().await.unwrap());
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    assert!(event.set().await.unwrap());
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    assert!(!event.set().await.unwrap(), "the event is already set");
    happened(&two).await.unwrap().unwrap();
    event_lives_for_weeks(&observer).await;
    assert!(event.reset().await.unwrap() && !event.is_set().await.unwrap());
    let late = Event::new(&two, "a").wait().timeout(1000 * MS).await;
    assert!(matches!(late, Err(WaitError::TimedOut { .. })), "{late:?}");
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    all_end(&observer).await;
}

async fn event_lives_for_weeks(observer: &Observer) {
    let left: i64 = observer.query(&["PTTL", "redgrid_event:{a}"]).await.unwrap();
    assert!(left > 29 * 24 * 3_600_000, "{left}");
}

/// The event is set and reset between two polls. The waiter completes all the same, without
/// messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_completes_although_the_event_is_reset_at_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.watchdog_lease(LEASE)).await;
    let event = Event::new(&client(&server).await, "a");
    for _ in 0..2 {
        proxy.drop_publishes(true);
        let waiting = happened(&deaf);
        listening(&observer, "redgrid_event__channel:{a}").await;
        assert!(event.set().await.unwrap() && event.reset().await.unwrap());
        tokio::time::timeout(2 * LEASE, waiting).await.expect("a poll in time").unwrap().unwrap();
        wait_until(SOON, async || deaf.stats() == NOTHING).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_ends_with_its_lifetime_which_is_optional() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let event = Event::new(&client, "a");
    event.clone().lifetime(300 * MS).set().await.unwrap();
    assert!(event.is_set().await.unwrap());
    wait_until(SOON, async || !event.is_set().await.unwrap()).await;
    event.without_lifetime().set().await.unwrap();
    assert_eq!(observer.query::<i64>(&["PTTL", "redgrid_event:{a}"]).await.unwrap(), -1);
}

fn notified(client: &Client) -> JoinHandle<Result<(), WaitError>> {
    tokio::spawn(Notify::new(client, "a").notified().timeout(SOON).into_future())
}

const LINE: &str = "redgrid_notify_line:{a}";

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_notified_in_order_and_one_notification_is_stored() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let notify = Notify::new(&two, "a");
    let first = notified(&one);
    until(&observer, LINE, 1).await;
    let second = notified(&two);
    until(&observer, LINE, 2).await;
    assert!(notify.notify_one().await.unwrap());
    first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    assert!(notify.notify_one().await.unwrap());
    second.await.unwrap().unwrap();
    // Without a waiter the notification is stored, but only once.
    assert!(!notify.notify_one().await.unwrap() && !notify.notify_one().await.unwrap());
    notified(&one).await.unwrap().unwrap();
    let none = Notify::new(&one, "a").notified().timeout(1000 * MS).await;
    assert!(matches!(none, Err(WaitError::TimedOut { .. })), "{none:?}");
    // All waiters are notified at once, and no notification is stored.
    let waiting: Vec<_> = (0..10).map(|n| notified(if n % 2 == 0 { &one } else { &two })).collect();
    until(&observer, LINE, 10).await;
    assert_eq!(notify.notify_waiters().await.unwrap(), 10);
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    assert_eq!(notify.notify_waiters().await.unwrap(), 0);
    let none = Notify::new(&one, "a").notified().timeout(1000 * MS).await;
    assert!(matches!(none, Err(WaitError::TimedOut { .. })), "{none:?}");
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    all_end(&observer).await;
}

/// Each notification completes one waiter, even if other waiters are dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_waiter_consumes_no_notification() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let (through, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..12_u64)
        .map(|task| {
            let notify = Notify::new(if task % 2 == 0 { &one } else { &two }, "a");
            let (through, over) = (through.clone(), over.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(task);
                while !over.load(Ordering::SeqCst) {
                    let got = match random.bool() {
                        true => dropped(random.usize(1..12), notify.notified().into_future()).await,
                        false => Some(notify.notified().timeout(MS * random.u32(1..60)).await),
                    };
                    if let Some(Ok(())) = got {
                        through.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    let notify = Notify::new(&one, "a");
    for given in 1..=60 {
        notify.notify_one().await.unwrap();
        wait_until(SOON, async || through.load(Ordering::SeqCst) >= given).await;
        assert_eq!(through.load(Ordering::SeqCst), given);
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(through.load(Ordering::SeqCst), 60);
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    until(&observer, "redgrid_notify_notified:{a}", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_waiters_are_not_notified_and_lost_replies_notify_one() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let lossy = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(300 * MS)).await;
    let one = leased(&server).await;
    let lease = LEASE.as_millis().to_string();
    let dead = Other::start(env!("CARGO_BIN_EXE_role"), &["party", &server.url(), &lease, "notify", "a", "0"]).await;
    until(&observer, LINE, 1).await;
    dead.kill().await;
    let killed = tokio::time::Instant::now();
    tokio::time::sleep_until(killed + LEASE + LEASE / 10).await;
    let (first, second) = (notified(&one), notified(&one));
    until(&observer, LINE, 2).await;
    // The dead waiter has lost its position, so a live waiter is notified, although the reply is
    // lost.
    proxy.next(1, "notify_one.lua: notify", Action::SwallowReply);
    assert!(Notify::new(&lossy, "a").notify_one().await.unwrap());
    assert_eq!(proxy.counts().swallowed, 1);
    wait_until(SOON, async || first.is_finished() || second.is_finished()).await;
    until(&observer, LINE, 1).await;
    assert!(!(first.is_finished() && second.is_finished()));
    // A waiter whose reply is lost is notified all the same, and only once.
    Notify::new(&lossy, "a").notify_one().await.unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    Notify::new(&one, "a").notify_one().await.unwrap();
    proxy.next(1, sha_of("notify_wait.lua"), Action::SwallowReply);
    notified(&lossy).await.unwrap().unwrap();
    assert_eq!(proxy.counts().swallowed, 2);
    let none = Notify::new(&one, "a").notified().timeout(1000 * MS).await;
    assert!(matches!(none, Err(WaitError::TimedOut { .. })), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_leaves_the_queue_of_waiters() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (leaving, one) = (client(&server).await, client(&server).await);
    let first = notified(&leaving);
    until(&observer, LINE, 1).await;
    leaving.shutdown(SOON).await.unwrap();
    assert_eq!(count(&observer, LINE).await, 0);
    let told = first.await.unwrap();
    assert!(matches!(told, Err(WaitError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
    assert!(!Notify::new(&one, "a").notify_one().await.unwrap());
}

/// Many tasks take from a stock and many fill it, each only under the lock. No task takes from an
/// empty stock, and no task sleeps for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_loses_no_wake_up() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let (stock, taken) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for task in 0..6_usize {
        let client = clients[task % 2].clone();
        let (stock, taken) = (stock.clone(), taken.clone());
        tasks.push(tokio::spawn(async move {
            let (lock, filled) = (Lock::new(&client, "a"), Condition::new(&client, "a:filled"));
            for _ in 0..15 {
                let mut guard = lock.acquire().timeout(SOON).await.unwrap();
                while stock.load(Ordering::SeqCst) == 0 {
                    guard = filled.wait(guard).await.unwrap();
                }
                assert!(guard.is_held());
                assert!(stock.fetch_sub(1, Ordering::SeqCst) > 0, "one task at a time holds the lock");
                taken.fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in 0..3_u64 {
        let client = clients[task as usize % 2].clone();
        let stock = stock.clone();
        tasks.push(tokio::spawn(async move {
            let (lock, filled) = (Lock::new(&client, "a"), Condition::new(&client, "a:filled"));
            let mut random = fastrand::Rng::with_seed(task);
            for _ in 0..30 {
                if random.bool() {
                    tokio::time::sleep(MS * random.u32(..8)).await;
                }
                let guard = lock.acquire().timeout(SOON).await.unwrap();
                stock.fetch_add(1, Ordering::SeqCst);
                filled.notify_one().await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(3 * SOON, task).await.expect("no task sleeps for ever").unwrap();
    }
    assert_eq!((taken.load(Ordering::SeqCst), stock.load(Ordering::SeqCst)), (90, 0));
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
    let observer = server.observer().await.unwrap();
    until(&observer, "redgrid_condition_notified:{a:filled}", 0).await;
    all_end(&observer).await;
}

const WAITERS: &str = "redgrid_condition_line:{a}";

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_bounded_and_gives_the_lock_back_meanwhile() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let condition = Condition::new(&one, "a");
    let guard = Lock::new(&one, "l").acquire().await.unwrap();
    let (guard, was_notified) = condition.wait_within(guard, 1000 * MS).await.unwrap();
    assert!(guard.is_held() && !was_notified);
    let waiting = tokio::spawn({
        let condition = condition.clone();
        async move { condition.wait_within(guard, SOON).await }
    });
    until(&observer, WAITERS, 1).await;
    // Other holders have the lock meanwhile; the notified waiter waits for them.
    let other = Lock::new(&two, "l").acquire().timeout(SOON).await.unwrap();
    assert_eq!(Condition::new(&two, "a").notify_all().await.unwrap(), 1);
    wait_until(SOON, async || one.stats().waiting == 1).await;
    assert!(!waiting.is_finished());
    other.release().await.unwrap();
    let (guard, was_notified) = waiting.await.unwrap().unwrap();
    assert!(guard.is_held() && was_notified);
    // A notification without a waiter is not stored.
    assert!(!condition.notify_one().await.unwrap());
    let (guard, was_notified) = condition.wait_within(guard, 1000 * MS).await.unwrap();
    assert!(!was_notified);
    // The holder of two guards would keep the lock while it waits.
    let again = guard.reenter().unwrap();
    let refused = condition.wait(guard).await;
    assert!(matches!(refused, Err(ConditionError::Reentered { .. })), "{refused:?}");
    assert!(again.is_held());
    // A wait with a lost lock is rejected.
    Lock::new(&two, "l").force_release().await.unwrap();
    let lost = condition.wait(again).await;
    assert!(matches!(lost, Err(ConditionError::NotReleased { .. })), "{lost:?}");
    wait_until(SOON, async || one.stats() == NOTHING).await;
    until(&observer, WAITERS, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_works_with_a_fair_lock() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let (lock, condition) = (FairLock::new(&client, "l"), Condition::new(&client, "a"));
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let condition = condition.clone();
        async move { condition.wait(guard).await }
    });
    until(&observer, WAITERS, 1).await;
    let other = lock.acquire().timeout(SOON).await.unwrap();
    assert!(condition.notify_one().await.unwrap());
    other.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_of_a_killed_or_dropped_waiter_goes_to_the_next() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = leased(&server).await;
    let lease = LEASE.as_millis().to_string();
    let dying = Other::start(env!("CARGO_BIN_EXE_role"), &["party", &server.url(), &lease, "notified", "a", "0"]).await;
    until(&observer, WAITERS, 1).await;
    let (lock, condition) = (Lock::new(&one, "a"), Condition::new(&one, "a"));
    let waits = || {
        let (lock, condition) = (lock.clone(), condition.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().timeout(SOON).await.unwrap();
            condition.wait(guard).await
        })
    };
    let second = waits();
    until(&observer, WAITERS, 2).await;
    // The first waiter is notified while the lock is held, so it cannot continue. Then it dies.
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert!(condition.notify_one().await.unwrap());
    until(&observer, "redgrid_condition_notified:{a}", 1).await;
    dying.kill().await;
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(4 * LEASE, second).await.expect("a notification").unwrap().unwrap();
    // The same holds for a waiter that is dropped while it waits for the lock.
    guard.release().await.unwrap();
    let leaving = waits();
    until(&observer, WAITERS, 1).await;
    let third = waits();
    until(&observer, WAITERS, 2).await;
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert!(condition.notify_one().await.unwrap());
    wait_until(SOON, async || one.stats().waiting == 1).await;
    leaving.abort();
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, third).await.expect("a notification").unwrap().unwrap().release().await.unwrap();
    // A wait that is dropped at any point leaves nothing behind.
    for polls in 1..40 {
        let guard = lock.acquire().timeout(SOON).await.unwrap();
        drop(dropped(polls, condition.wait(guard)).await);
    }
    until(&observer, WAITERS, 0).await;
    wait_until(SOON, async || one.stats() == NOTHING && !observer.exists("a").await.unwrap()).await;
}
