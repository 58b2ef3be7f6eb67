//! A hold ends locally before the server may grant the lock to another client.

use std::future::IntoFuture;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use redgrid_core::author::{ClientExt, Server};
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Failure, Reply, Request};
use redgrid_locks::{ExtendError, Lock, LockGuard, LostReason};
use redgrid_testkit::{Direction, Fault, Observer, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::fake_server::{FakeServer, granted};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client_with, server};

const HOLDS: usize = 1000;
const LEASE: Duration = Duration::from_secs(3);

fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Returns a command that reports when each key expires, in milliseconds since 1970. The server has
/// the same clock as this machine.
fn expiries() -> [String; 4] {
    let script = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) local out = {} \
                  for i = 0, ARGV[1] - 1 do out[#out + 1] = now + redis.call('PTTL', 'name:' .. i) end return out";
    ["EVAL".into(), script.into(), "0".into(), HOLDS.to_string()]
}

/// Returns the last expiries. In the same step, the server stops executing commands, so no renewal
/// can change them.
async fn last_expiries(observer: &Observer) -> Vec<u64> {
    observer.cmd(&["MULTI"]).await.unwrap();
    observer.cmd(&expiries()).await.unwrap();
    observer.cmd(&["CLIENT", "PAUSE", &(10 * SOON).as_millis().to_string()]).await.unwrap();
    observer.query::<(Vec<u64>, String)>(&["EXEC"]).await.unwrap().0
}

/// Acquires a thousand locks and cuts the server off. For each lock, records the last instant at
/// which it was reported as held, and the instant at which its loss was reported.
async fn ends_before_the_server_frees_it(server: RedisServer, renewed: bool, cut: bool) {
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(LEASE)).await;
    // The locks are acquired concurrently. Otherwise the first lease could end before the last one
    // begins, on a busy machine.
    let asked = (0..HOLDS).map(|n| {
        let ask = Lock::new(&client, format!("name:{n}")).acquire();
        if renewed { ask } else { ask.lease(LEASE) }.into_future()
    });
    let guards: Vec<LockGuard> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
    let mut machine = Stopwatch::start();
    let watching: Vec<_> = guards
        .iter()
        .map(|guard| {
            let watch = guard.watch();
            tokio::spawn(async move {
                watch.lost().await;
                now_millis()
            })
        })
        .collect();
    if renewed {
        // One round of renewals moves each expiry by most of a second. The reported expiry may be
        // wrong by one millisecond.
        let look = async || observer.query::<Vec<u64>>(&expiries()).await.unwrap();
        let first = look().await;
        let renewed = async || look().await.iter().zip(&first).all(|(now, first)| *now > first + 500);
        wait_until(SOON, renewed).await;
    }
    let expiries = last_expiries(&observer).await;
    if cut {
        server.kill().await.unwrap()
    } else {
        server.pause().await.unwrap()
    }
    machine.restart();
    let mut last_held = vec![0; HOLDS];
    let mut holding = true;
    while holding {
        holding = false;
        for (n, guard) in guards.iter().enumerate() {
            // The clock is read before the check, so the recorded time is not later than the check.
            let now = now_millis();
            if guard.is_held() {
                last_held[n] = now;
                holding = true;
            }
        }
        tokio::task::yield_now().await;
    }
    let told = join_all(watching.into_iter().map(|task| tokio::time::timeout(SOON, task))).await;
    // Notified tasks run later if the machine stalls.
    let late = machine.delay().as_millis() as u64;
    for (n, told) in told.into_iter().enumerate() {
        let (told, expiry) = (told.unwrap().unwrap(), expiries[n]);
        assert!(last_held[n] < expiry, "{n}: held at {}, expired at {expiry}", last_held[n]);
        assert!(told < expiry + late, "{n}: reported at {told}, expired at {expiry}; the machine was {late} ms late");
    }
    if !cut {
        server.resume().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_lock_ends_locally_before_a_stopped_server_frees_it() {
    ends_before_the_server_frees_it(server().await, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_ends_locally_before_a_stopped_server_frees_it() {
    ends_before_the_server_frees_it(server().await, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_ends_locally_before_a_cut_off_server_frees_it() {
    ends_before_the_server_frees_it(server().await, true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_ends_locally_before_the_newest_server_frees_it() {
    let test = "a_lock_ends_locally_before_the_newest_server_frees_it";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let server = RedisServer::builder().binary(newest).start().await.unwrap();
    ends_before_the_server_frees_it(server, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lost_lock_is_dropped() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(3))).await;
    let lock = Lock::new(&client, "a");
    assert!(lock.with(|token| async move { token.get() > 0 }).await.unwrap());
    let work = lock.with(|_| std::future::pending::<()>());
    let fault = async {
        wait_until(SOON, async || observer.exists("a").await.unwrap()).await;
        observer.cmd(&["DEL", "a"]).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(tokio::time::timeout(SOON, work), fault);
    assert!(matches!(outcome.unwrap(), Err(redgrid_locks::WithError::Lost(_))));
    wait_until(SOON, async || client.stats().names == 0).await;
}

/// Returns a client whose replies take `delay` from now on.
async fn slow_answers(server: &RedisServer, delay: Duration) -> (Proxy, redgrid_locks::Client) {
    let proxy = Proxy::to(server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    proxy.set(Direction::ToClient, Fault::Delay(delay));
    (proxy, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_starts_before_its_request_is_sent() {
    let server = server().await;
    let delay = Duration::from_millis(300);
    let (_proxy, client) = slow_answers(&server, delay).await;
    let lease = Duration::from_secs(20);
    let guard = Lock::new(&client, "a").acquire().lease(lease).await.unwrap();
    assert!(guard.remaining() < lease - delay, "{:?}", guard.remaining());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_expired_before_its_reply_is_no_guard() {
    let server = server().await;
    let (_proxy, client) = slow_answers(&server, Duration::from_millis(300)).await;
    let got = Lock::new(&client, "a").acquire().lease(Duration::from_millis(200)).await;
    assert!(matches!(got, Err(redgrid_locks::AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{got:?}");
    wait_until(SOON, async || client.stats().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_seen_lost_is_never_held_again() {
    let server = server().await;
    let (proxy, client) = slow_answers(&server, Duration::ZERO).await;
    let guard = Lock::new(&client, "a").acquire().lease(Duration::from_millis(1500)).await.unwrap();
    // The server executes the extension in time, but its reply arrives after the local end of the
    // lease.
    proxy.set(Direction::ToClient, Fault::Delay(Duration::from_millis(2000)));
    let (extended, reason) = tokio::join!(guard.extend(Duration::from_secs(10)), guard.lost());
    assert!(extended.is_err(), "{extended:?}");
    assert_eq!(reason, redgrid_locks::LostReason::Expired);
    assert!(!guard.is_held() && guard.remaining().is_zero());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_lease_starts_before_its_request_is_sent() {
    let server = server().await;
    let (delay, lease) = (Duration::from_millis(400), Duration::from_secs(8));
    let (_proxy, client) = slow_answers(&server, delay).await;
    let guard = Lock::new(&client, "a").acquire().auto_renew(lease).await.unwrap();
    let mut last = guard.remaining();
    let renewed = async || {
        let before = std::mem::replace(&mut last, guard.remaining());
        last > before
    };
    wait_until(SOON, renewed).await;
    // The safety margin and the delay of the reply each take 400 ms of the lease.
    assert!(guard.remaining() < lease - Duration::from_millis(600), "{:?}", guard.remaining());
}

/// The lease is extended in time on the server, but the reply is read only after the loss was
/// reported. The hold stays lost.
///
/// The test has one thread and does not yield in between, so the renewal loop cannot report the end
/// first.
#[tokio::test]
async fn a_hold_that_was_seen_lost_is_not_held_again_by_an_extension() {
    let server = Arc::new(
        FakeServer::new("one:1", |request: &Request| match request.label() {
            "lock/acquire" => Ok(granted("1700000000000000")),
            _ => Ok(Reply::Array(vec![Reply::Int(1)])),
        })
        .stuck_at("lock/renew"),
    );
    let config = Config::single("one").unwrap().local_handover_window(Duration::from_millis(500));
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::runtime()).unwrap();
    let held = Lock::new(&client, "a").acquire().lease(Duration::from_millis(300)).await.unwrap();
    let mut extend = std::pin::pin!(held.extend(Duration::from_secs(600)));
    assert!(futures_util::poll!(&mut extend).is_pending());
    server.confirm();
    while held.is_held() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = match futures_util::poll!(&mut extend) {
        Poll::Ready(told) => told,
        Poll::Pending => panic!("the reply has arrived"),
    };
    assert!(!held.is_held(), "{told:?}");
    assert!(matches!(told, Err(ExtendError::Lost { reason: LostReason::Expired, .. })), "{told:?}");
    assert_eq!(held.watch().lost_reason(), Some(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_begins_with_the_first_poll() {
    let timeout = Duration::from_secs(1);
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1))));
    let config = Config::single("one").unwrap().response_timeout(timeout);
    let client = Client::over_one(server as Arc<dyn Server>, config, Clock::runtime()).unwrap();
    let size = || Request::command("DBSIZE").idempotent();
    let primary = client.primaries().await.unwrap().remove(0);
    let one = client.run_same_slot::<i64>(size());
    let (on, all, primaries) =
        (client.run_on::<i64>(&primary, size()), client.run_on_primaries::<i64>(size()), client.primaries());
    tokio::time::sleep(10 * timeout).await;
    assert_eq!((one.await.unwrap(), on.await.unwrap()), (1, 1));
    assert_eq!(all.await.unwrap().remove(0).1.unwrap(), 1);
    assert_eq!(primaries.await.unwrap().len(), 1);
}
