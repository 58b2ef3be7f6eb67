//! Tests of bugs that were found and fixed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_atomic_long::{AtomicError, AtomicLong};
use redgrid_core::author::{ClientExt, Server};
use redgrid_core::clock::Clock;
use redgrid_core::{Client, ClientStats, Config, Failure, Reply, Request, ServerError};
use redgrid_locks::{AcquireError, Holder, Lock, LockGuard};
use redgrid_testkit::{Direction, Fault, Proxy, wait_until};
use redgrid_tests::fake_server::{FakeServer, granting};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{NOTHING, SOON, client, client_with, server};

/// The token of each grant of the fake server.
const TOKEN: &str = "1700000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_contact_outlasts_the_contact_timeout() {
    let server = server().await;
    let holder = client(&server).await;
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(200)).retries(1);
    let waiter = client_with(&server.url(), quick).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let bounded = Lock::new(&waiter, "a").acquire().timeout(Duration::from_secs(2)).await;
    assert!(matches!(bounded, Err(AcquireError::TimedOut { .. })), "{bounded:?}");
    let waiting = tokio::spawn(Lock::new(&waiter, "a").acquire().into_future());
    // Waits five times as long as the timeout without contact, which is 400 ms.
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_lock_survives_a_shutdown() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    Lock::new(&client, "a").acquire().lease(SOON * 3).await.unwrap().forget();
    client.shutdown(SOON).await.unwrap();
    assert!(observer.exists("a").await.unwrap());
}

/// A forgotten lock stays in the client's table until the lease ends, and no longer. The clock is
/// paused, so a busy machine has no effect.
#[tokio::test(start_paused = true)]
async fn a_forgotten_lock_leaves_no_entry() {
    let server = Arc::new(FakeServer::new("one:1", granting(TOKEN)));
    let client = Client::over_one(server, Config::single("one").unwrap(), Clock::runtime()).unwrap();
    let (lock, lease) = (Lock::new(&client, "a"), Duration::from_secs(2));
    lock.acquire().lease(lease).await.unwrap().forget();
    tokio::time::sleep(lease / 2).await;
    assert_eq!(client.stats(), ClientStats { names: 1, holds: 1, ..NOTHING });
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_in_flight_at_shutdown_leaves_no_key() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(300)));
    let asking = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || observer.exists("a").await.unwrap()).await;
    client.shutdown(SOON).await.unwrap();
    assert!(matches!(asking.await.unwrap(), Err(AcquireError::Failed(Failure::ShuttingDown { .. }))));
    assert!(!observer.exists("a").await.unwrap());
    // After the shutdown, a call fails immediately.
    let late = tokio::time::timeout(Duration::from_secs(2), Lock::new(&client, "a").is_locked()).await;
    assert!(late.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_does_not_cut_the_time_a_job_keeps_its_name() {
    let server = server().await;
    let (client, other) = (client(&server).await, redgrid_tests::client(&server).await);
    let lock = Lock::new(&client, "a");
    let turn = lock.acquire().lease(Duration::from_secs(10)).hold_at_least(Duration::from_secs(5)).await.unwrap();
    turn.extend(Duration::from_millis(300)).await.unwrap();
    turn.lost().await;
    let expired = tokio::time::Instant::now() + Duration::from_millis(500);
    tokio::time::sleep_until(expired).await;
    assert!(Lock::new(&other, "a").try_acquire().await.unwrap().is_none());
    // A re-entrant acquire is rejected as well.
    let me = Holder::new();
    let outer = Lock::new(&client, "b").acquire().holder(&me).await.unwrap();
    let inner = Lock::new(&client, "b").acquire().holder(&me).hold_at_least(Duration::from_secs(5)).await;
    assert!(
        matches!(inner, Err(AcquireError::Failed(Failure::InvalidArgument { option: "hold_at_least", .. }))),
        "{inner:?}"
    );
    outer.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_takeovers_in_a_process_leave_the_highest_token() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let round = async |n: usize| {
        let lock = Lock::new(&client, format!("name:{n}"));
        let steal = |lock: Lock| tokio::spawn(async move { lock.steal().await.unwrap() });
        let trying = tokio::spawn(lock.try_acquire().into_future());
        let (one, two) = (steal(lock.clone()), steal(lock.clone()));
        let mut guards: Vec<LockGuard> = vec![one.await.unwrap(), two.await.unwrap()];
        guards.extend(trying.await.unwrap().unwrap());
        let highest = guards.iter().map(LockGuard::token).max().unwrap();
        for guard in &guards {
            assert!(!guard.is_held() || guard.token() == highest, "{n}: {guards:?}");
        }
    };
    futures_util::future::join_all((0..300).map(round)).await;
    wait_until(SOON, async || client.stats() == NOTHING && observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_a_caller_does_not_get_contended() {
    let server = server().await;
    let client = client(&server).await;
    server.kill().await.unwrap();
    let first = tokio::spawn(Lock::new(&client, "a").acquire().into_future());
    wait_until(SOON, async || client.stats().names == 1).await;
    let bound = Duration::from_millis(200);
    let tried = Lock::new(&client, "a").try_acquire().timeout(bound).await;
    assert!(tried.is_err(), "{tried:?}");
    let waited = Lock::new(&client, "a").acquire().timeout(bound).await;
    assert!(!matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_of_the_queue_enters_when_a_guard_outlives_its_lease() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let overdue = lock.acquire().lease(Duration::from_secs(1)).await.unwrap();
    let next = lock.acquire().timeout(SOON).await.unwrap();
    assert!(!overdue.is_held() && next.token() > overdue.token());
    assert!(overdue.release().await.is_err());
    assert!(next.is_held());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_without_contact_ends_when_its_patience_is_over() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(200)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let guard = Lock::new(&client, "a").acquire().lease(Duration::from_secs(60)).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let began = Stopwatch::start();
    assert!(guard.extend(Duration::from_secs(120)).await.is_err());
    began.assert_within(Duration::from_secs(3));
    guard.forget();
}

/// Concurrent requests are sent as one; a request that was cancelled before that is not sent.
#[tokio::test]
async fn a_cancelled_request_is_not_sent() {
    for kept in [false, true] {
        let added = Arc::new(Mutex::new(None::<Vec<String>>));
        let answer = {
            let added = Arc::clone(&added);
            move |request: &Request| {
                let mut added = added.lock().unwrap();
                let Some(added) = added.as_mut() else {
                    return Err(ServerError::NotSent { reason: "it is down".into() });
                };
                added.extend((request.label() == "INCRBY").then(|| format!("{:?}", request.arguments())));
                Ok(Reply::Int(1))
            }
        };
        let server = Arc::new(FakeServer::new("one:1", answer).down());
        let config = Config::single("one").unwrap();
        let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
        let number = AtomicLong::new(&client, "n");
        let mut calls: Vec<_> = (0..3).map(|_| Box::pin(number.add(5).into_future())).collect();
        for call in &mut calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        let first = calls.swap_remove(0);
        drop(calls);
        let stays = kept.then(|| tokio::spawn(first));
        // Cancelled requests leave the queue before the connection is established.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        *added.lock().unwrap() = Some(Vec::new());
        server.up();
        match stays {
            Some(stays) => assert_eq!(stays.await.unwrap().unwrap(), 1),
            None => assert_eq!(number.increment().await.unwrap(), 1),
        }
        let added = added.lock().unwrap().take().unwrap();
        assert_eq!(added.len(), 1, "{kept}: {added:?}");
    }
}

/// Requests queued behind another one are notified when the client shuts down, and not only at
/// their timeouts.
#[tokio::test]
async fn a_queued_request_is_notified_of_a_shutdown_at_once() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1))).stuck_at("INCRBY"));
    let config = Config::single("one").unwrap().response_timeout(SOON * 10);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let number = AtomicLong::new(&client, "n");
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(number.add(1).into_future())).collect();
    wait_until(SOON, async || server.asked() > 0).await;
    let _ = client.shutdown(Duration::from_millis(50)).await;
    let mut told_of_it = 0;
    for call in calls {
        match tokio::time::timeout(SOON, call).await.expect("an end in time").unwrap() {
            Err(AtomicError::Failed(Failure::ShuttingDown { .. })) => told_of_it += 1,
            told => assert!(matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}"),
        }
    }
    assert!(told_of_it >= 3, "{told_of_it} waited behind the first");
    let late = tokio::time::timeout(SOON, number.increment()).await.expect("an end in time");
    assert!(matches!(late, Err(AtomicError::Failed(Failure::ShuttingDown { .. }))), "{late:?}");
}

/// Two takeovers leave no lock behind. A steal checks its lock once more when the former holder can
/// no longer pass it on. By then, the lock may have been stolen again, and the server may have lost
/// its data. The check would then acquire the free lock without a caller.
#[tokio::test(flavor = "multi_thread")]
async fn two_takeovers_leave_nothing_on_a_server_that_lost_its_data() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    observer.cmd(&["HSET", "a", "other:1", "1"]).await.unwrap();
    observer.cmd(&["PEXPIRE", "a", "60000"]).await.unwrap();
    let holders = async || observer.query::<Vec<String>>(&["HKEYS", "a"]).await.unwrap();
    let steal = |client: &Client| {
        let lock = Lock::new(client, "a");
        tokio::spawn(async move { lock.steal().await })
    };
    let first = steal(&one);
    wait_until(SOON, async || holders().await != ["other:1"]).await;
    let robbed = holders().await;
    let second = steal(&two);
    wait_until(SOON, async || holders().await != robbed).await;
    observer.cmd(&["DEL", "a"]).await.unwrap();
    drop((first.await.unwrap(), second.await.unwrap()));
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_background_request_may_have_been_executed_by_a_copy_without_a_reply() {
    let is_first = AtomicBool::new(true);
    let answer = move |request: &Request| match request.label() {
        "INCR" if is_first.swap(false, Ordering::Relaxed) => Err(ServerError::Unknown { reason: "cut".into() }),
        "INCR" => Err(ServerError::NotSent { reason: "no connection".into() }),
        _ => Ok(Reply::Nil),
    };
    let server = Arc::new(FakeServer::new("one:1", answer));
    let client = Client::over_one(server, Config::single("one").unwrap(), Clock::runtime()).unwrap();
    let (told, outcome) = tokio::sync::oneshot::channel();
    client.spawn_attached(|client| async move {
        let until = client.clock().now() + Duration::from_secs(1);
        let request = Request::command("INCR").key("a").idempotent();
        let _ = told.send(client.run_until::<u64>(request, until).await);
    });
    let error = outcome.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error}");
}
