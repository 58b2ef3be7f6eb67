//! Concurrent acquires and releases of locks: they are batched, and independent of each other.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use redgrid_core::{Client, Code, Failure};
use redgrid_locks::{AcquireError, Lock, LockGuard, ReleaseError};
use redgrid_testkit::{Action, Direction, Fault, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, calls_of, client, client_with, on_each_runtime, server, sha};

/// The script that executes many requests in one call.
pub(super) const BATCH: &str = include_str!("../../crates/redgrid-locks/src/scripts/batch.lua");

pub(super) const LEASE: Duration = Duration::from_secs(60);

pub(super) type Outcome = Result<LockGuard, AcquireError>;

pub(super) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n:{number}")).collect()
}

/// Requests all these locks while the server is paused, so that most requests wait to be batched.
pub(super) async fn ask(server: &RedisServer, client: &Client, names: &[String]) -> Vec<Outcome> {
    // Releases of earlier locks may still be in flight.
    wait_until(SOON, async || client.stats().holds == client.stats().names).await;
    server.pause().await.unwrap();
    let ask =
        |name: &String| tokio::spawn(Lock::new(client, &**name).acquire().lease(LEASE).timeout(SOON).into_future());
    let before = client.stats().names;
    let asking: Vec<_> = names.iter().map(ask).collect();
    wait_until(SOON, async || client.stats().names == before + names.len()).await;
    server.resume().await.unwrap();
    all(asking).await
}

pub(super) async fn all<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

pub(crate) async fn calls(observer: &Observer) -> u64 {
    calls_of(observer, "evalsha").await
}

pub(super) async fn held(observer: &Observer) -> Vec<String> {
    observer.keys("n:*").await.unwrap()
}

/// The server's time, in microseconds since 1970.
async fn micros(observer: &Observer) -> u64 {
    let [seconds, micros]: [u64; 2] = observer.query(&["TIME"]).await.unwrap();
    seconds * 1_000_000 + micros
}

/// The 800 requests of 400 tasks are sent in batches.
#[test]
fn requests_that_wait_for_a_server_are_batched() {
    on_each_runtime(async || {
        let server = server().await;
        let (client, observer) = (client(&server).await, server.observer().await.unwrap());
        let names = names(400);
        let before = calls(&observer).await;
        let begun = micros(&observer).await;
        let guards: Vec<_> = ask(&server, &client, &names).await.into_iter().map(Result::unwrap).collect();
        let ended = micros(&observer).await;
        let asked = calls(&observer).await - before;
        assert!(asked < 100, "{asked} calls");
        for guard in &guards {
            let token = guard.token().get();
            assert!((begun..ended).contains(&token), "{token} is not a time from {begun} to {ended}");
        }
        assert_eq!(held(&observer).await.len(), 400);
        for name in &names {
            let left = observer.time_to_live(name).await.unwrap().unwrap();
            assert!(left <= LEASE * 2 && left > LEASE / 2, "{left:?}");
        }
        server.pause().await.unwrap();
        let releasing: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
        // Each release is in flight, or waits for the next batch.
        wait_until(SOON, async || client.stats().holds == 0).await;
        server.resume().await.unwrap();
        all(releasing).await.into_iter().for_each(|released| released.unwrap());
        let released = calls(&observer).await - before - asked;
        assert!(released < 100, "{released} calls");
        assert!(held(&observer).await.is_empty());
    });
}

/// An error of one name, or a missing permission, does not affect the others.
#[test]
fn an_error_of_one_request_is_reported_to_that_one() {
    on_each_runtime(async || {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        observer.cmd(&["ACL", "SETUSER", "app", "on", ">secret", "~n:*", "&*", "+@all"]).await.unwrap();
        observer.cmd(&["SET", "n:20", "text"]).await.unwrap();
        let client = client_with(&server.url_for("app", "secret"), |config| config).await;
        let outcomes = ask(&server, &client, &names(40)).await;
        let (granted, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let [Err(AcquireError::Failed(Failure::Refused { operation, source }))] = &refused[..] else {
            panic!("{refused:?}")
        };
        assert_eq!((operation.object(), source.code()), (Some("n:20"), Some(Code::WrongType)));
        drop(granted);
        wait_until(SOON, async || held(&observer).await == ["n:20"]).await;

        observer.cmd(&["DEL", "n:20"]).await.unwrap();
        let mut names = names(40);
        names[20] = "forbidden".into();
        let outcomes = ask(&server, &client, &names).await;
        let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        let [AcquireError::Failed(Failure::Refused { operation, source })] = &refused[..] else {
            panic!("{refused:?}")
        };
        assert_eq!((operation.object(), source.code()), (Some("forbidden"), Some(Code::NoPermission)));
        assert_eq!(held(&observer).await.len(), 39);
    });
}

/// A batch fails half way if its user may not query remaining times. The releases before that point
/// are executed, and get their replies.
#[test]
fn a_batch_that_fails_half_way_loses_no_replies() {
    on_each_runtime(async || {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        observer.cmd(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-pttl"]).await.unwrap();
        let client = client_with(&server.url_for("app", "secret"), |config| config).await;
        // So few requests all wait for one reply, and then form one batch.
        let guards: Vec<_> = ask(&server, &client, &names(25)).await.into_iter().map(Result::unwrap).collect();
        observer.cmd(&["HSET", "busy", "other", "1"]).await.unwrap();
        let before = calls(&observer).await;
        server.pause().await.unwrap();
        let releasing: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
        let lock = Lock::new(&client, "busy");
        let denied = tokio::spawn(lock.try_acquire().lease(LEASE).into_future());
        wait_until(SOON, async || client.stats().holds == 0 && client.stats().waiting == 1).await;
        server.resume().await.unwrap();
        all(releasing).await.into_iter().for_each(|released| released.unwrap());
        let denied = denied.await.unwrap();
        let asked = calls(&observer).await - before;
        assert!(asked < 10, "{asked} calls");
        assert!(matches!(&denied, Err(AcquireError::Failed(Failure::Refused { .. }))), "{denied:?}");
        assert!(held(&observer).await.is_empty());
    });
}

/// Each request of a batch finds its own outcome again after a lost reply.
#[test]
fn each_request_of_a_batch_finds_its_lost_reply_again() {
    on_each_runtime(async || {
        let server = server().await;
        let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
        let url = server.url_via(proxy.addr());
        let client = client_with(&url, |config| config.response_timeout(Duration::from_secs(1))).await;
        // These requests load the script, so the server executes the next batch at its first call.
        ask(&server, &client, &names(40)).await;
        wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
        proxy.next(1, sha(BATCH), Action::SwallowReply);
        let guards: Vec<_> = ask(&server, &client, &names(40)).await.into_iter().map(Result::unwrap).collect();
        assert_eq!((proxy.counts().swallowed, held(&observer).await.len()), (1, 40));
        proxy.next(1, sha(BATCH), Action::SwallowReply);
        server.pause().await.unwrap();
        let releasing: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
        wait_until(SOON, async || client.stats().holds == 0).await;
        server.resume().await.unwrap();
        for released in all(releasing).await {
            // A call lasts `response_timeout` and 20 ms. The copy with the lost reply may take all
            // of `response_timeout`, if the server has sent other replies meanwhile. The release
            // then continues after the call.
            let is_bounded = matches!(&released, Ok(()) | Err(ReleaseError::OutcomeUnknown { .. }));
            assert!(is_bounded, "{released:?}");
        }
        assert_eq!(proxy.counts().swallowed, 2);
        wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
    });
}

/// A request that arrives after its caller's timeout takes nothing.
#[test]
fn a_batch_that_arrives_too_late_is_not_executed() {
    on_each_runtime(async || {
        let (server, timeout) = (server().await, Duration::from_millis(1500));
        let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
        let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
        // These requests load the script, so the server executes the next batch at its first call.
        ask(&server, &client, &names(40)).await;
        wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
        proxy.next(1, sha(BATCH), Action::Hold);
        // Most requests wait to be batched.
        server.pause().await.unwrap();
        let asking: Vec<_> = names(40)
            .iter()
            .map(|name| Lock::new(&client, &**name).acquire().lease(LEASE).timeout(Duration::from_secs(1)))
            .map(|asking| tokio::spawn(asking.into_future()))
            .collect();
        wait_until(SOON, async || client.stats().names == 40).await;
        server.resume().await.unwrap();
        wait_until(SOON, async || proxy.counts().held == 1).await;
        let sent = micros(&observer).await;
        let granted: Vec<_> = all(asking).await.into_iter().filter_map(Result::ok).collect();
        assert!(granted.len() < 40);
        proxy.cut_all();
        // After this time, the server does not execute the held requests.
        let over = sent + 1_000_000 + u64::try_from(timeout.as_micros()).unwrap();
        wait_until(SOON, async || micros(&observer).await > over).await;
        let taken = calls_of(&observer, "hset").await;
        assert_eq!(proxy.release_held().await, 1);
        assert_eq!(calls_of(&observer, "hset").await, taken, "no caller wants it any more");
        drop(granted);
    });
}

/// A future that is not polled delays no other request.
#[test]
fn no_request_waits_for_an_unpolled_one() {
    on_each_runtime(async || {
        let server = server().await;
        let client = client(&server).await;
        let mut lying = Vec::new();
        for name in names(8) {
            let mut future = Lock::new(&client, name).acquire().lease(LEASE).into_future();
            // Each future is polled once. A fast server may have replied already.
            if std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await {
                lying.push(future);
            }
        }
        let others: Vec<_> = (100..140)
            .map(|number| tokio::spawn(Lock::new(&client, format!("n:{number}")).acquire().timeout(SOON).into_future()))
            .collect();
        for guard in all(others).await {
            guard.unwrap().release().await.unwrap();
        }
        for future in lying {
            future.await.unwrap().release().await.unwrap();
        }
    });
}

/// The server is distant: no request waits for replies to others, however many are in flight.
#[test]
fn requests_are_pipelined_before_any_reply() {
    on_each_runtime(async || {
        let server = server().await;
        let proxy = Proxy::to(&server).await.unwrap();
        let url = server.url_via(proxy.addr());
        let client = client_with(&url, |config| config.response_timeout(SOON)).await;
        // These requests load the script, so each later request is sent once.
        ask(&server, &client, &names(80)).await;
        wait_until(SOON, async || client.stats().names == 0).await;
        let keys = Arc::new(AtomicUsize::new(0));
        proxy.on_request({
            let keys = Arc::clone(&keys);
            move |words| {
                if words[0] == *"EVALSHA" {
                    keys.fetch_add(std::str::from_utf8(&words[2]).unwrap().parse().unwrap(), Ordering::Relaxed);
                }
                Action::Forward
            }
        });
        proxy.set(Direction::ToClient, Fault::Stall);
        let ask = |name: &String| tokio::spawn(Lock::new(&client, &**name).acquire().lease(LEASE).into_future());
        let asking: Vec<_> = names(400).iter().map(ask).collect();
        wait_until(SOON, async || keys.load(Ordering::Relaxed) >= 400).await;
        proxy.heal();
        for guard in all(asking).await {
            guard.unwrap().release().await.unwrap();
        }
    });
}

/// Each connection batches the requests for its own names.
#[test]
fn each_connection_batches_its_own_requests() {
    on_each_runtime(async || {
        let server = server().await;
        let client = client_with(&server.url(), |config| config.connections_per_node(3)).await;
        let observer = server.observer().await.unwrap();
        let before = calls(&observer).await;
        let guards = ask(&server, &client, &names(400)).await;
        let asked = calls(&observer).await - before;
        assert!(asked < 100, "{asked} calls");
        assert_eq!(held(&observer).await.len(), 400);
        for guard in guards {
            guard.unwrap().release().await.unwrap();
        }
    });
}
