//! The fair lock: the order of arrival at the server, queue positions, guards and leases.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_locks::{FairLock, Holder, Lock, QueuePosition};
use redgrid_testkit::{Action, Monitor, Proxy, wait_until};
use redgrid_tests::fair::{Record, Theirs, queue, until_waiting};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, nothing_is_left, server};
use tokio::task::JoinHandle;

pub(super) const MS: Duration = Duration::from_millis(1);

/// Starts a task that waits for the lock, and records its number when it enters.
pub(super) fn enqueue(client: &Client, number: usize, order: &Arc<Mutex<Vec<usize>>>) -> JoinHandle<()> {
    let (lock, order) = (FairLock::new(client, "a"), Arc::clone(order));
    tokio::spawn(async move {
        let guard = lock.acquire().timeout(SOON).await.unwrap();
        order.lock().unwrap().push(number);
        guard.release().await.unwrap();
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_enters_first_across_processes() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let gate = FairLock::new(&clients[0], "a").acquire().await.unwrap();
    let order = Arc::default();
    let mut waiting = Vec::new();
    for number in 0..24 {
        // Two consecutive waiters may belong to the same process.
        waiting.push(enqueue(&clients[(number / 2) % 3], number, &order));
        until_waiting(&observer, number + 1).await;
    }
    gate.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..24).collect::<Vec<_>>());
    nothing_is_left(&observer, &[&clients[0], &clients[1], &clients[2]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_under_load_by_the_servers_own_record() {
    let server = server().await;
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let mut record = Record::of("a");
    let mut working = Vec::new();
    for n in 0..12 {
        let client = if n % 4 == 0 { client(&server).await } else { continue };
        for _ in 0..4 {
            let lock = FairLock::new(&client, "a");
            working.push(tokio::spawn(async move {
                for _ in 0..25 {
                    lock.acquire().await.unwrap().release().await.unwrap();
                }
            }));
        }
    }
    for task in working {
        task.await.unwrap();
    }
    record.see(&monitor.take().await.unwrap());
    assert_eq!((record.grants, record.overtaken.len()), (300, 0), "{record:?}");
    assert_eq!(record.gone(), 0, "no waiter left, and none was evicted: {record:?}");
    assert!(record.by_place > 200, "most of them waited: {record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_never_queues_and_never_overtakes() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = FairLock::new(&one, "a");
    let guard = lock.try_acquire().await.unwrap().unwrap();
    assert!(FairLock::new(&two, "a").try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(queue(&observer, "a").await.is_empty());
    // The lock is free, but has a waiter, so a try does not acquire it.
    let java = Theirs::new(&observer, "a", 1, 0);
    assert!(!java.try_for(SOON).await);
    guard.release().await.unwrap();
    assert!(!observer.exists("a").await.unwrap());
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(FairLock::new(&two, "a").acquire().timeout(Duration::ZERO).await.is_err());
    assert_eq!(queue(&observer, "a").await, [java.holder.as_str()]);
    assert!(java.try_for(SOON).await);
    java.unlock().await;
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_a_queue_request_keeps_the_position() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let one = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(600 * MS)).await;
    let two = client(&server).await;
    FairLock::new(&one, "a").acquire().await.unwrap().release().await.unwrap();
    let gate = FairLock::new(&two, "a").acquire().await.unwrap();
    proxy.next(1, "{a}", Action::SwallowReply);
    let order = Arc::default();
    let first = enqueue(&one, 0, &order);
    until_waiting(&observer, 1).await;
    let place = queue(&observer, "a").await;
    let second = enqueue(&two, 1, &order);
    until_waiting(&observer, 2).await;
    wait_until(SOON, async || proxy.counts().swallowed == 1 && one.stats().channels == 1).await;
    assert_eq!(queue(&observer, "a").await[0], place[0]);
    gate.release().await.unwrap();
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 1]);
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_live_waiter_is_queued_again() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let gate = FairLock::new(&client, "a").acquire().await.unwrap();
    let order = Arc::default();
    let waiting = [enqueue(&client, 0, &order), enqueue(&client, 1, &order)];
    until_waiting(&observer, 2).await;
    // Evicts the head of the queue as Redisson evicts an expired one.
    let first = queue(&observer, "a").await.remove(0);
    observer.cmd(&["LPOP", "redisson_lock_queue:{a}"]).await.unwrap();
    observer.cmd(&["ZREM", "redisson_lock_timeout:{a}", &first]).await.unwrap();
    until_waiting(&observer, 2).await;
    assert_eq!(queue(&observer, "a").await[1], first, "at the end, under the same holder");
    gate.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap();
    }
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_positions_of_a_process_are_limited() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.fair_depth(3)).await;
    let gate = FairLock::new(&client, "a").acquire().await.unwrap();
    let order = Arc::default();
    let waiting: Vec<_> = (0..9).map(|number| enqueue(&client, number, &order)).collect();
    wait_until(SOON, async || client.stats().waiting == 9).await;
    until_waiting(&observer, 3).await;
    let mut most = 0;
    gate.release().await.unwrap();
    wait_until(SOON, async || {
        most = most.max(queue(&observer, "a").await.len());
        waiting.iter().all(JoinHandle::is_finished)
    })
    .await;
    assert!(most <= 3, "{most}");
    assert_eq!(order.lock().unwrap().len(), 9);
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_can_read_its_queue_position() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = FairLock::new(&two, "a");
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let java = Theirs::new(&observer, "a", 7, 0);
    assert!(!java.try_for(SOON).await);
    let position = QueuePosition::new();
    assert_eq!(lock.position(&position).await.unwrap(), None);
    let waiter = tokio::spawn(lock.acquire().track(&position).timeout(SOON).into_future());
    wait_until(SOON, async || lock.position(&position).await.unwrap() == Some(1)).await;
    let waiting = lock.waiting().await.unwrap();
    assert_eq!(waiting.iter().map(|waiter| waiter.ours).collect::<Vec<_>>(), [false, true]);
    assert_eq!((waiting[0].number, waiting[1].client.as_str()), (Some(7), two.id()));
    gate.release().await.unwrap();
    assert!(java.try_for(SOON).await);
    wait_until(SOON, async || lock.position(&position).await.unwrap() == Some(0)).await;
    java.unlock().await;
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(lock.position(&position).await.unwrap(), None);
    guard.release().await.unwrap();
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_long_queue_the_first_thousand_waiters_are_read() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let lock = FairLock::new(&client, "a");
    assert_eq!((lock.waiting_count().await.unwrap(), lock.waiting().await.unwrap().len()), (0, 0));
    // Waiters of Redisson, none of which polls.
    let fill = "for i = 1, 5000 do redis.call('RPUSH', KEYS[1], '0f8fad5b-d9cb-469f-a165-70867728950e:' .. i) \
                redis.call('ZADD', KEYS[2], 9e15, '0f8fad5b-d9cb-469f-a165-70867728950e:' .. i) end";
    let keys = ["redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"];
    observer.cmd(&["EVAL", fill, "2", keys[0], keys[1]]).await.unwrap();
    let position = QueuePosition::new();
    let waiter = tokio::spawn(lock.acquire().track(&position).timeout(SOON).into_future());
    wait_until(SOON, async || lock.position(&position).await.unwrap() == Some(5000)).await;
    let first = lock.waiting().await.unwrap();
    assert_eq!((first.len(), first[999].number, first[999].ours), (1000, Some(1000), false));
    assert_eq!(lock.waiting_count().await.unwrap(), 5001);
    observer.cmd(&["DEL", keys[0], keys[1]]).await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_leases_tokens_and_holders_work_like_those_of_a_lock() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = FairLock::new(&one, "a");
    let me = Holder::new();
    let outer = lock.acquire().holder(&me).lease(SOON).await.unwrap();
    let inner = lock.acquire().holder(&me).await.unwrap();
    assert_eq!(outer.token(), inner.token());
    outer.extend(SOON * 2).await.unwrap();
    assert!(lock.inspect().await.unwrap().unwrap().remaining.unwrap() > SOON);
    drop(outer);
    let next = tokio::spawn(FairLock::new(&two, "a").acquire().auto_renew(1500 * MS).into_future());
    until_waiting(&observer, 1).await;
    let token = inner.token();
    inner.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.token() > token);
    // The hold is renewed, so it lasts longer than its lease.
    let until = Instant::now() + 3200 * MS;
    wait_until(SOON, async || Instant::now() > until).await;
    assert!(next.is_held());
    // A waiter enters after a forced takeover, and the former holder is notified.
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    until_waiting(&observer, 1).await;
    assert!(FairLock::new(&one, "a").force_release().await.unwrap());
    tokio::time::timeout(SOON, next.lost()).await.unwrap();
    let waiter = waiter.await.unwrap().unwrap();
    assert!(waiter.token() > next.token());
    let thief = FairLock::new(&two, "a").steal().await.unwrap();
    tokio::time::timeout(SOON, waiter.lost()).await.unwrap();
    assert!(thief.token() > waiter.token());
    // The fair lock and the plain lock use the same hash, so a plain lock finds it taken.
    assert!(Lock::new(&one, "a").try_acquire().await.unwrap().is_none());
    thief.release().await.unwrap();
    drop((next, waiter));
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_without_a_message_admits_the_head() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let java = Theirs::new(&observer, "a", 1, 0);
    assert!(java.try_for(700 * MS).await);
    let (began, watch) = (Instant::now(), Stopwatch::start());
    let guard = FairLock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    assert!(began.elapsed() > 500 * MS, "{:?}", began.elapsed());
    watch.assert_within(2500 * MS);
    guard.release().await.unwrap();
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_has_a_lifetime_only_while_all_positions_are_ours() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let lifetimes = async || {
        let mut bounded = Vec::new();
        for key in ["redisson_lock_queue:{a}", "redisson_lock_timeout:{a}", "redgrid_fair:{a}"] {
            bounded.push(observer.query::<i64>(&["PTTL", key]).await.unwrap() > 0);
        }
        bounded
    };
    let gate = FairLock::new(&client, "a").acquire().await.unwrap();
    let order = Arc::default();
    let one = enqueue(&client, 0, &order);
    until_waiting(&observer, 1).await;
    assert_eq!(lifetimes().await, [true, true, true]);
    let java = Theirs::new(&observer, "a", 1, 0);
    assert!(!java.try_for(SOON).await);
    wait_until(SOON, async || lifetimes().await == [false, false, true]).await;
    gate.release().await.unwrap();
    one.await.unwrap();
    assert!(java.try_for(SOON).await);
    java.unlock().await;
    nothing_is_left(&observer, &[&client]).await;
}
