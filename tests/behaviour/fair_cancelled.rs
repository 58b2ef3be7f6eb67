//! The fair lock: cancelled and unpolled waiters, and late requests of waiters that have left.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, FairLock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::fair::{Theirs, queue, until_waiting};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, calls_of, client, client_with, nothing_is_left, server};

use super::fair::{MS, enqueue};

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_waiter_leaves_the_queue_and_the_next_enters() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let dropped = tokio::spawn(FairLock::new(&one, "a").acquire().into_future());
    until_waiting(&observer, 1).await;
    // The timeout is so long that the last waiter can queue behind this one before it ends.
    let late = tokio::spawn(FairLock::new(&two, "a").acquire().timeout(3000 * MS).into_future());
    until_waiting(&observer, 2).await;
    let order = Arc::default();
    let last = enqueue(&two, 0, &order);
    until_waiting(&observer, 3).await;
    dropped.abort();
    assert!(matches!(late.await.unwrap(), Err(AcquireError::TimedOut { .. })));
    until_waiting(&observer, 1).await;
    let released = Stopwatch::start();
    gate.release().await.unwrap();
    last.await.unwrap();
    released.assert_within(5000 * MS);
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_head_of_a_free_lock_notifies_the_next() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    // A waiter of Redisson, which never acquires the lock in this test.
    let java = Theirs::new(&observer, "a", 1, 0);
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    assert!(!java.try_for(SOON).await);
    let order = Arc::default();
    let next = enqueue(&two, 0, &order);
    until_waiting(&observer, 2).await;
    gate.release().await.unwrap();
    // Redisson's waiters leave the queue without a message.
    observer.cmd(&["LREM", "redisson_lock_queue:{a}", "1", &java.holder]).await.unwrap();
    observer.cmd(&["ZREM", "redisson_lock_timeout:{a}", &java.holder]).await.unwrap();
    let left = Stopwatch::start();
    next.await.unwrap();
    left.assert_within(2000 * MS);
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_leaves_no_queue_position() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let waiting: Vec<_> = (0..5).map(|_| tokio::spawn(FairLock::new(&two, "a").acquire().into_future())).collect();
    until_waiting(&observer, 5).await;
    two.shutdown(SOON).await.unwrap();
    assert!(queue(&observer, "a").await.is_empty());
    for waiter in waiting {
        assert!(matches!(waiter.await.unwrap(), Err(AcquireError::Failed(Failure::ShuttingDown { .. }))));
    }
    gate.release().await.unwrap();
    nothing_is_left(&observer, &[&one]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_waits_dropped_at_random_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for n in 0..10_u64 {
        let clients = [one.clone(), two.clone()];
        tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(n);
            let mut granted = 0;
            for _ in 0..200 {
                let lock = FairLock::new(&clients[random.usize(..2)], format!("name:{}", random.u8(..3)));
                let mut ask = lock.acquire();
                if random.bool() {
                    ask = ask.timeout(Duration::from_millis(random.u64(1..20)));
                }
                let got = match random.u8(..3) {
                    0 => at_most(random.usize(1..8), ask.into_future()).await,
                    1 => tokio::time::timeout(Duration::from_micros(random.u64(..5000)), ask).await.ok(),
                    _ => at_most(1, lock.try_acquire().into_future()).await.and_then(|tried| tried.transpose()),
                };
                let Some(Ok(guard)) = got else { continue };
                granted += 1;
                match random.u8(..3) {
                    0 => drop(guard),
                    1 => drop(at_most(1, guard.release()).await),
                    _ => guard.release().await.unwrap(),
                }
            }
            granted
        }));
    }
    let mut granted = 0;
    for task in tasks {
        granted += task.await.unwrap();
    }
    assert!(granted > 50, "some acquires succeed: {granted}");
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_a_queue_request_leaves_no_position() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let timeout = 600 * MS;
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
    let lock = FairLock::new(&client, "a");
    lock.acquire().await.unwrap().release().await.unwrap();
    let java = Theirs::new(&observer, "a", 1, 0);
    assert!(java.try_for(SOON).await);
    // The proxy holds the first copy until its wait has ended.
    proxy.next(1, "{a}", Action::Hold);
    let waited = lock.acquire().timeout(200 * MS).await;
    assert!(waited.is_err(), "{waited:?}");
    proxy.release_held().await;
    java.unlock().await;
    nothing_is_left(&observer, &[&client]).await;
    // After every copy has expired, the queue still has no position of this waiter.
    let over = Instant::now() + 2 * timeout;
    wait_until(SOON, async || {
        assert!(queue(&observer, "a").await.is_empty());
        Instant::now() > over
    })
    .await;
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_after_its_waiter_left_takes_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(5))).await;
    let lock = FairLock::new(&client, "a");
    lock.acquire().await.unwrap().release().await.unwrap();
    let before = calls_of(&observer, "evalsha").await;
    proxy.next(1, "{a}", Action::Hold);
    let waited = lock.acquire().timeout(300 * MS).await;
    assert!(waited.is_err(), "{waited:?}");
    // The client releases a possible grant on another connection. This release arrives before the
    // request itself.
    proxy.cut_all();
    wait_until(SOON, async || calls_of(&observer, "evalsha").await > before).await;
    assert_eq!(proxy.release_held().await, 1);
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_unpolled_waiter_blocks_no_other() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let gate = FairLock::new(&two, "a").acquire().await.unwrap();
    let mut parked = pin!(FairLock::new(&one, "a").acquire().timeout(4000 * MS).into_future());
    // The future is polled until the client itself renews the position, and not afterwards.
    let kept = async {
        until_waiting(&observer, 1).await;
        let place = queue(&observer, "a").await;
        let until = async || observer.query::<f64>(&["ZSCORE", "redgrid_fair:{a}", &place[0]]).await.unwrap();
        let first = until().await;
        wait_until(SOON, async || until().await > first).await;
        place
    };
    let place = tokio::select! {
        _ = &mut parked => panic!("its timeout is four seconds"),
        place = kept => place,
    };
    let order = Arc::default();
    let next = enqueue(&two, 0, &order);
    wait_until(SOON, async || queue(&observer, "a").await.last() != place.last()).await;
    // The client gives up the position although the future is not polled.
    wait_until(SOON, async || !queue(&observer, "a").await.contains(&place[0])).await;
    gate.release().await.unwrap();
    next.await.unwrap();
    let told = parked.await;
    assert!(matches!(told, Err(AcquireError::TimedOut { .. })), "{told:?}");
    nothing_is_left(&observer, &[&one, &two]).await;
}
