//! Semaphores.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_semaphore::{AcquireError, LostReason, ReleaseError, Semaphore};
use redgrid_testkit::{Observer, RedisServer, wait_until};
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, client, client_with, server};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const NAME: &str = "mail";
const LEASES: &str = "{mail}:timeout";

pub(super) async fn left(observer: &Observer) -> i64 {
    observer.query(&["GET", NAME]).await.unwrap()
}

async fn leased(observer: &Observer) -> u64 {
    observer.query(&["ZCARD", LEASES]).await.unwrap()
}

/// Waits until all permits are free, none is leased, and the client is idle.
async fn all_are_back(observer: &Observer, capacity: i64, clients: &[&redgrid_locks::Client]) {
    wait_until(SOON, async || left(observer).await == capacity && leased(observer).await == 0).await;
    for client in clients {
        wait_until(SOON, async || {
            let hand = client.stats();
            (hand.names, hand.holds, hand.waiting, hand.channels) == (0, 0, 0, 0)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_taken_and_given_back() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    for leases in [true, false] {
        let mail = EitherSemaphore::new(&client, NAME, 3, leases).await;
        let one = mail.acquire().await.unwrap();
        let two = mail.acquire_many(2).await.unwrap();
        assert_eq!((left(&observer).await, leased(&observer).await), (0, if leases { 3 } else { 0 }));
        assert_eq!((one.num_permits(), two.num_permits(), two.ids().count()), (1, 2, if leases { 2 } else { 0 }));
        assert!(mail.try_acquire().await.unwrap().is_none());
        assert_eq!(mail.available_permits().await.unwrap(), 0);
        one.release().await.unwrap();
        assert_eq!(mail.available_permits().await.unwrap(), 1);
        assert!(mail.try_acquire_many(2).await.unwrap().is_none());
        let again = mail.try_acquire().await.unwrap().unwrap();
        drop((again, two));
        all_are_back(&observer, 3, &[&client]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unset_semaphore_is_reported_or_waited_for() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let mail = Semaphore::plain(&client, NAME);
    for refused in [mail.acquire().await.err(), mail.try_acquire().await.err()] {
        assert!(matches!(refused, Some(AcquireError::NotInitialised { .. })), "{refused:?}");
    }
    let waiter = tokio::spawn(mail.acquire().wait_for_init().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().channels == 1).await;
    assert!(mail.try_set_permits(1).await.unwrap());
    assert!(!mail.try_set_permits(5).await.unwrap());
    waiter.await.unwrap().unwrap().release().await.unwrap();
    all_are_back(&observer, 1, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_enters_when_another_process_gives_back() {
    let server = server().await;
    let (observer, one, two) = (server.observer().await.unwrap(), client(&server).await, client(&server).await);
    let (mine, theirs) = (Semaphore::new(&one, NAME, 2), Semaphore::new(&two, NAME, 2));
    let both = mine.acquire_many(2).await.unwrap();
    let waiters = (0..2).map(|_| tokio::spawn(theirs.acquire().timeout(SOON).into_future()));
    let waiters: Vec<_> = waiters.collect();
    wait_until(SOON, async || two.stats().waiting == 2 && two.stats().channels == 1).await;
    both.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    all_are_back(&observer, 2, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_a_wait_and_a_try_does_not_wait() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let mail = Semaphore::new(&client, NAME, 1);
    let held = mail.acquire().timeout(Duration::ZERO).await.expect("a free permit");
    let refused = mail.acquire().timeout(1000 * MS).await.err();
    assert!(matches!(refused, Some(AcquireError::TimedOut { waited, .. }) if waited >= 1000 * MS), "{refused:?}");
    let refused = mail.acquire().timeout(Duration::ZERO).await.err();
    assert!(matches!(refused, Some(AcquireError::TimedOut { .. })), "{refused:?}");
    assert!(mail.try_acquire().timeout(500 * MS).await.unwrap().is_none());
    held.release().await.unwrap();
    all_are_back(&observer, 1, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_of_many_processes_never_exceed_the_permits() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for leases in [true, false] {
        let (inside, most, rounds) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)), 30);
        let mut clients = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let client = client(&server).await;
            for task in 0..8_u64 {
                let mail = EitherSemaphore::new(&client, NAME, 5, leases).await;
                let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
                tasks.push(tokio::spawn(async move {
                    for round in 0..rounds {
                        let n = 1 + (task + round) % 3;
                        let permit = mail.acquire_many(n).timeout(SOON).await.unwrap();
                        let now = inside.fetch_add(n as i64, Ordering::SeqCst) + n as i64;
                        most.fetch_max(now, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(n as i64, Ordering::SeqCst);
                        permit.release().await.unwrap();
                    }
                }));
            }
            clients.push(client);
        }
        for done in join_all(tasks).await {
            done.unwrap();
        }
        assert!((1..=5).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        all_are_back(&observer, 5, &clients.iter().collect::<Vec<_>>()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_not_starved_by_small_ones() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let mail = Semaphore::new(&client, NAME, 4);
    let held = mail.acquire().await.unwrap();
    let large = tokio::spawn(mail.acquire_many(4).timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    let small = tokio::spawn(mail.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 2).await;
    assert!(mail.try_acquire().await.unwrap().is_none(), "earlier requests go first");
    held.release().await.unwrap();
    let large = large.await.unwrap().unwrap();
    assert!(!small.is_finished());
    large.release().await.unwrap();
    small.await.unwrap().unwrap().release().await.unwrap();
    all_are_back(&observer, 4, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_first_waiter_admits_those_behind() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    for fair in [false, true] {
        let mut mail = Semaphore::new(&client, NAME, 4);
        if fair {
            mail = mail.fair();
        }
        let held = mail.acquire().await.unwrap();
        let large = tokio::spawn(mail.acquire_many(4).into_future());
        wait_until(SOON, async || client.stats().waiting == 1).await;
        let small = tokio::spawn(mail.acquire().timeout(SOON).into_future());
        wait_until(SOON, async || client.stats().waiting == 2).await;
        large.abort();
        small.await.unwrap().unwrap().release().await.unwrap();
        held.release().await.unwrap();
        all_are_back(&observer, 4, &[&client]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_renewed_while_their_guard_lives_and_come_back_when_it_is_forgotten() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(1500 * MS)).await;
    let elsewhere = redgrid_tests::client(&server).await;
    let mail = Semaphore::new(&client, NAME, 2);
    let (kept, forgotten) = (mail.acquire().await.unwrap(), mail.acquire().await.unwrap());
    let theirs = Semaphore::new(&elsewhere, NAME, 2);
    let waiter = tokio::spawn(theirs.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || elsewhere.stats().channels == 1).await;
    forgotten.forget();
    let theirs = waiter.await.unwrap().unwrap();
    let began = std::time::Instant::now();
    wait_until(SOON, async || {
        assert!(kept.is_held());
        began.elapsed() > 3000 * MS
    })
    .await;
    kept.release().await.unwrap();
    theirs.release().await.unwrap();
    all_are_back(&observer, 2, &[&client, &elsewhere]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_permit_is_reported() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(1500 * MS)).await;
    let mail = Semaphore::new(&client, NAME, 2);
    let fixed = mail.acquire().lease(1000 * MS).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, fixed.lost()).await.unwrap(), LostReason::Expired);
    assert!(!fixed.is_held());
    let released = fixed.release().await;
    assert!(matches!(released, Err(ReleaseError::Lost { reason: LostReason::Expired, .. })), "{released:?}");
    let renewed = mail.acquire().await.unwrap();
    observer.query::<i64>(&["DEL", LEASES]).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, renewed.lost()).await.unwrap(), LostReason::Gone);
    drop(renewed);
    wait_until(SOON, async || client.stats().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_handle_wakes_waiters_and_a_shutdown_returns_all() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    for leases in [true, false] {
        let mail = EitherSemaphore::new(&client, NAME, 1, leases).await;
        let held = mail.acquire().await.unwrap();
        let waiter = tokio::spawn(mail.acquire().into_future());
        wait_until(SOON, async || client.stats().waiting == 1).await;
        mail.close();
        let told = waiter.await.unwrap().err();
        assert!(matches!(told, Some(AcquireError::Closed { .. })), "{told:?}");
        assert!(mail.is_closed() && matches!(mail.acquire().await.err(), Some(AcquireError::Closed { .. })));
        held.release().await.unwrap();
        all_are_back(&observer, 1, &[&client]).await;

        let other = redgrid_tests::client(&server).await;
        let mail = EitherSemaphore::new(&other, NAME, 1, leases).await;
        let held = mail.acquire().await.unwrap();
        let waiter = tokio::spawn(mail.acquire().into_future());
        wait_until(SOON, async || other.stats().waiting == 1).await;
        other.shutdown(SOON).await.unwrap();
        let told = waiter.await.unwrap().err();
        assert!(matches!(told, Some(AcquireError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
        assert_eq!((left(&observer).await, leased(&observer).await, held.is_held()), (1, 0, !leases));
        drop(held);
        assert_eq!(left(&observer).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_split_and_merged() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    for leases in [true, false] {
        let mail = EitherSemaphore::new(&client, NAME, 5, leases).await;
        let mut five = mail.acquire_many(5).await.unwrap();
        let all = five.split(5).unwrap();
        five.release().await.unwrap();
        let mut five = all;
        assert!(five.split(6).is_none());
        let two = five.split(2).unwrap();
        assert_eq!((five.num_permits(), two.num_permits()), (3, 2));
        two.release().await.unwrap();
        assert_eq!(left(&observer).await, 2);
        let one = mail.acquire().await.unwrap();
        five.merge(one).unwrap();
        let other = Semaphore::new(&client, "other", 1).acquire().await.unwrap();
        assert!(five.merge(other).is_err());
        assert_eq!(five.num_permits(), 4);
        five.release().await.unwrap();
        all_are_back(&observer, 5, &[&client]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_set_changed_and_drained() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let mail = Semaphore::plain(&client, NAME);
    assert!(!mail.release_if_exists(1).await.unwrap());
    assert!(mail.try_set_permits(5).expires_in(SOON).await.unwrap());
    assert_eq!(mail.add_permits(-2).await.unwrap(), 3);
    assert!(observer.query::<i64>(&["PTTL", NAME]).await.unwrap() > 0, "its lifetime stays");
    assert_eq!(mail.drain().await.unwrap(), 3);
    assert_eq!((mail.drain().await.unwrap(), mail.available_permits().await.unwrap()), (0, 0));
    mail.release(2).await.unwrap();
    assert!(mail.release_if_exists(1).await.unwrap());
    assert_eq!(mail.available_permits().await.unwrap(), 3);
    let held = Semaphore::new(&client, NAME, 3).acquire_many(2).await.unwrap();
    let leased = Semaphore::new(&client, NAME, 1);
    assert!(leased.resize().await.unwrap());
    assert_eq!((left(&observer).await, leased.available_permits().await.unwrap()), (-1, 0));
    assert!(!leased.resize().await.unwrap(), "already this number");
    held.release().await.unwrap();
    assert_eq!(left(&observer).await, 1);
    assert!(leased.delete().await.unwrap() && !leased.delete().await.unwrap());
}

/// The number of requests that the server gets during `work`.
async fn asked(observer: &Observer, work: impl Future<Output = ()>) -> u64 {
    let calls = async || {
        let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
        let of = |line: &str| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok();
        let scripts =
            info.lines().filter(|line| line.starts_with("cmdstat_evalsha:") || line.starts_with("cmdstat_eval:"));
        scripts.filter_map(of).sum::<u64>()
    };
    let before = calls().await;
    work.await;
    calls().await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_process_pass_permits_on() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    for leases in [true, false] {
        let mail = EitherSemaphore::new(&client, NAME, 8, leases).await;
        let pairs = Arc::new(AtomicU64::new(0));
        let calls = asked(&observer, async {
            let tasks = (0..32).map(|_| {
                let (mail, pairs) = (mail.clone(), Arc::clone(&pairs));
                tokio::spawn(async move {
                    for _ in 0..100 {
                        let permit = mail.acquire().await.unwrap();
                        tokio::task::yield_now().await;
                        permit.release().await.unwrap();
                        pairs.fetch_add(1, Ordering::Relaxed);
                    }
                })
            });
            join_all(tasks).await;
        })
        .await;
        let pairs = pairs.load(Ordering::Relaxed);
        assert_eq!(pairs, 3200);
        assert!(calls * 2 <= pairs, "{calls} calls for {pairs} pairs");
        println!("{calls} calls for {pairs} pairs");
        all_are_back(&observer, 8, &[&client]).await;
    }
}

fn _is_send(server: &RedisServer) -> impl Send + '_ {
    async move {
        let client = client(server).await;
        let permit = Semaphore::new(&client, NAME, 1).acquire().await.unwrap();
        permit.lost().await;
    }
}
