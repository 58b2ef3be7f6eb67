//! Locks without messages, and locks without reentry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_locks::{AcquireError, FencedLock, Holder, Lock, SpinLock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, script, server};

const MS: Duration = Duration::from_millis(1);
/// A client that polls so rarely that no waiter enters because of a poll.
async fn patient(url: &str) -> Client {
    client_with(url, |config| config.poll_interval(2 * SOON)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinning_waiter_subscribes_nothing_and_enters_soon_after_a_silent_release() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let heard = Lock::new(&two, "a");
    let guard = SpinLock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(SpinLock::new(&two, "a").acquire().timeout(SOON).into_future());
    // A waiter that does subscribe shows that `listened` would find a subscription.
    let listener = tokio::spawn(async move { heard.wait_until_free(Some(SOON)).await });
    let listened = async || !observer.pubsub_channels("redisson_lock__channel:*").await.unwrap().is_empty();
    wait_until(SOON, listened).await;
    let mark = async || observer.exists("redgrid_wait:{a}").await.unwrap();
    wait_until(SOON, mark).await;
    listener.abort();
    wait_until(SOON, async || !listened().await).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let entered = waiter.await.unwrap().unwrap();
    assert!(!listened().await);
    entered.release().await.unwrap();
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kind_of_release_publishes() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let published = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&published);
    proxy.on_request(move |command| {
        let tells = command.iter().any(|word| word.as_ref().starts_with(b"redisson_lock__channel"));
        seen.fetch_add(u64::from(tells), Ordering::Relaxed);
        Action::Forward
    });
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let lock = SpinLock::new(&client, "a");
    lock.acquire().await.unwrap().release().await.unwrap();
    lock.acquire().hold_at_least(200 * MS).await.unwrap().release().await.unwrap();
    let one = async |lock: SpinLock| lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    tokio::join!(one(lock.clone()), one(lock.clone()), one(lock.clone()), one(lock.clone()));
    assert_eq!(published.load(Ordering::Relaxed), 0);
    // The counter works: a release of a plain lock is counted.
    Lock::new(&client, "b").acquire().await.unwrap().release().await.unwrap();
    assert!(published.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tries_become_rarer_up_to_the_longest_pause() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (other, client) = (client(&server).await, patient(&server.url_via(proxy.addr())).await);
    let tries = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, acquire) = (Arc::clone(&tries), script!("acquire"));
    proxy.on_request(move |command| {
        if command.iter().any(|word| *word == acquire) {
            seen.lock().unwrap().push(Instant::now());
        }
        Action::Forward
    });
    let guard = SpinLock::new(&other, "a").acquire().await.unwrap();
    let lock = SpinLock::new(&client, "a").backoff(4 * MS, 64 * MS);
    let waited = lock.acquire().timeout(1000 * MS).await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    guard.release().await.unwrap();
    let tries = tries.lock().unwrap();
    // The pauses are 4, 8, 16, 32, 64, 64 … ms, each shortened by up to a half. So there are at
    // most two immediate tries and 36 later ones; a busy machine makes fewer.
    assert!((5..=40).contains(&tries.len()), "{}", tries.len());
    // The pauses grow: from the seventh on, each is at least 32 ms, less a tolerance.
    let pauses: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().skip(6).all(|pause| *pause >= 30 * MS), "{pauses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_pass_the_lock_on_and_two_processes_both_get_it() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let stop = Arc::new(AtomicBool::new(false));
    let counts: [Arc<AtomicU64>; 2] = Default::default();
    let inside = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (lock, count) = (SpinLock::new(&clients[task % 2], "a"), Arc::clone(&counts[task % 2]));
            let (stop, inside) = (Arc::clone(&stop), Arc::clone(&inside));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    count.fetch_add(1, Ordering::Relaxed);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    // Each process enters many times, although the other one always has a waiter.
    wait_until(SOON, async || counts.iter().all(|count| count.load(Ordering::Relaxed) >= 200)).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    for client in &clients {
        wait_until(SOON, async || client.stats() == NOTHING).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_spinning_waiters_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = SpinLock::new(&one, "a").acquire().await.unwrap();
    for polls in 1..30 {
        let lock = SpinLock::new(&two, "a");
        redgrid_tests::cancel::at_most(polls, lock.acquire().timeout(20 * MS).into_future()).await;
    }
    guard.release().await.unwrap();
    wait_until(SOON, async || two.stats() == NOTHING && !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_try_of_a_holder_fails_without_reentry() {
    let server = server().await;
    let client = client(&server).await;
    let me = Holder::new();
    let lock = Lock::new(&client, "a").non_reentrant();
    let guard = lock.acquire().holder(&me).await.unwrap();
    for again in [lock.acquire().holder(&me).await.err(), lock.try_acquire().holder(&me).await.err()] {
        assert!(matches!(again, Some(AcquireError::AlreadyHeld { .. })), "{again:?}");
    }
    assert!(guard.is_held());
    assert!(lock.try_acquire().holder(&Holder::new()).await.unwrap().is_none());
    // A plain lock of the same name admits its holder again.
    Lock::new(&client, "a").acquire().holder(&me).await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    let fenced = FencedLock::new(&client, "b").non_reentrant();
    let guard = fenced.acquire().holder(&me).await.unwrap();
    assert!(matches!(fenced.acquire().holder(&me).await, Err(AcquireError::AlreadyHeld { .. })));
    guard.release().await.unwrap();
    assert_eq!(client.stats().names, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_wait_of_a_holder_enters_once_without_reentry() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (lock, me) = (Lock::new(&two, "a").non_reentrant(), Holder::new());
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    let ask = || tokio::spawn(lock.acquire().holder(&me).timeout(SOON).into_future());
    let (first, second) = (ask(), ask());
    wait_until(SOON, async || two.stats().waiting == 2).await;
    held.release().await.unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let told = [&first, &second].into_iter().filter(|one| matches!(one, Err(AcquireError::AlreadyHeld { .. }))).count();
    assert_eq!((told, [&first, &second].into_iter().filter(|one| one.is_ok()).count()), (1, 1), "{first:?} {second:?}");
}
