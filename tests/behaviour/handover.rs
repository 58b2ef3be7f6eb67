//! The limits of handing a lock over between tasks of one process without a request.

use std::time::{Duration, Instant};

use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, client_with, server};

const MS: Duration = Duration::from_millis(1);

/// An expired lock is not handed over. The test has one thread. While the test blocks that thread,
/// no task of the client runs, as in a process that stalls.
#[tokio::test(flavor = "current_thread")]
async fn a_lock_that_expired_in_a_stalled_process_is_not_handed_over() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client =
        client_with(&server.url(), |config| config.local_handover_window(500 * MS).watchdog_lease(1000 * MS)).await;
    let lock = Lock::new(&client, "a");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire().timeout(2 * SOON).into_future());
    wait_until(SOON, async || !waiting.is_finished()).await;
    tokio::task::yield_now().await;
    let url = server.url();
    let elsewhere = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let other = client_with(&url, |config| config).await;
            let guard = Lock::new(&other, "a").acquire().timeout(SOON).await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        })
    };
    let token = std::thread::spawn(elsewhere).join().unwrap();
    assert!(guard.release().await.is_err());
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token, "{} after {token}", next.token());
    assert!(next.is_held() && observer.exists("a").await.unwrap());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_hold_reclaimed_from_an_unsent_release_stays_held() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    let guard = lock.acquire().await.unwrap();
    let first = guard.token().get();
    drop(guard);
    let second = lock.acquire().await.unwrap();
    assert_eq!(second.token().get(), first + 1, "adopted");
    drop(second);
    // Two releases are queued, and neither of them may release this hold.
    let third = lock.acquire().await.unwrap();
    assert_eq!(third.token().get(), first + 2, "adopted");
    for _ in 0..20 {
        assert!(lock.is_locked().await.unwrap());
    }
    assert!(third.is_held() && observer.exists("a").await.unwrap());
    third.release().await.unwrap();
    assert!(!observer.exists("a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_its_window_a_lock_goes_to_another_process() {
    let server = server().await;
    let (here, there) =
        (client_with(&server.url(), |config| config.local_handover_window(50 * MS)).await, client(&server).await);
    let lock = Lock::new(&here, "a");
    let guard = lock.acquire().await.unwrap();
    let granted = Instant::now();
    let local = tokio::spawn(lock.acquire().into_future());
    let remote = tokio::spawn(Lock::new(&there, "a").acquire().into_future());
    let observer = server.observer().await.unwrap();
    // Both processes are subscribed; ours subscribes when its window ends.
    let subscribers = async || {
        let told: (String, u64) = observer.query(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{a}"]).await.unwrap();
        told.1
    };
    wait_until(SOON, async || subscribers().await == 2 && granted.elapsed() > 60 * MS).await;
    guard.release().await.unwrap();
    let remote = tokio::time::timeout(SOON, remote).await.unwrap().unwrap().unwrap();
    assert!(!local.is_finished());
    remote.release().await.unwrap();
    local.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_ends_as_requested_although_the_key_lives_longer() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    let overdue = lock.acquire().lease(300 * MS).await.unwrap();
    let began = Instant::now();
    let next = lock.acquire().lease(300 * MS).timeout(SOON).await.unwrap();
    // The server lease is longer than the window and a margin, so the hand-over needs no new grant.
    assert!(began.elapsed() >= 250 * MS, "{:?}", began.elapsed());
    assert_eq!(next.token().get(), overdue.token().get() + 1, "handed on");
    assert!(!overdue.is_held() && next.is_held());
    assert!(overdue.release().await.is_err());
    assert!(next.is_held());
    next.release().await.unwrap();
}

/// A poll that finds the lock free does not restart the quiet period, which ends a process's
/// yielding.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_although_polls_are_more_frequent_than_its_quiet_period() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client =
        client_with(&server.url(), |config| config.local_handover_window(Duration::ZERO).poll_interval(200 * MS)).await;
    let lock = Lock::new(&client, "a");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire().timeout(5000 * MS).into_future());
    let listens = async || !observer.pubsub_channels("redisson_lock__*").await.unwrap().is_empty();
    wait_until(SOON, listens).await;
    // Another process waits without a subscription, and then leaves.
    observer.cmd(&["SET", "redgrid_wait:{a}", "1", "PX", "300"]).await.unwrap();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.is_ok(), "{next:?}");
    next.unwrap().release().await.unwrap();
}

/// The next task enters after the window. By default, a lock is polled every 100 ms if messages are
/// not available.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_task_enters_after_the_window_without_subscribe_permission() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    server.set_user("mute", &["on", ">secret", "~*", "+@all", "resetchannels"]).await.unwrap();
    let client = client_with(&server.url_for("mute", "secret"), |config| config).await;
    let lock = Lock::new(&client, "a");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire().timeout(5000 * MS).into_future());
    wait_until(SOON, async || observer.exists("redgrid_wait:{a}").await.unwrap()).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.is_ok(), "{next:?}");
    next.unwrap().release().await.unwrap();
}
