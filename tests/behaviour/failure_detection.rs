//! Tests of failures that were suspected in the local lock table.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_locks::{AcquireError, Holder, Lock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{NOTHING, SOON, client, client_with, listening, published_rules, script, sections, server};
use tokio::io::AsyncWriteExt;

const MS: Duration = Duration::from_millis(1);

/// Number of takeovers that race with another task; each takes some 20 ms.
const TAKEOVERS: u32 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_unpolled_waiter_delays_no_other() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let owner = lock.acquire().await.unwrap();
    let mut stuck = Box::pin(lock.acquire().timeout(100 * MS).into_future());
    assert!(futures_util::poll!(&mut stuck).is_pending());
    let second = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 2).await;
    // After this time, the timeout of the stuck waiter has passed.
    tokio::time::sleep(300 * MS).await;
    owner.release().await.unwrap();
    let second = second.await.unwrap();
    assert!(second.is_ok(), "{second:?}");
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_polled_after_its_grant_and_its_timeout_has_timed_out() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lock = Lock::new(&client, "a");
    let owner = lock.acquire().await.unwrap();
    let entered = tokio::time::Instant::now();
    let mut late = Box::pin(lock.acquire().timeout(1200 * MS).into_future());
    assert!(futures_util::poll!(&mut late).is_pending());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    owner.release().await.unwrap();
    // The grant is offered to the waiter for a second, and then released.
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
    tokio::time::sleep_until(entered + 1300 * MS).await;
    let result = late.await;
    assert!(matches!(&result, Err(AcquireError::TimedOut { .. })), "{result:?}");
}

async fn after_a_cancelled_extend(fixed: bool) {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    let lease = Duration::from_secs(10);
    let owner = lock.acquire().lease(lease).await.unwrap();
    let ask = lock.acquire().timeout(SOON);
    let ask = if fixed { ask.lease(lease) } else { ask };
    let second = tokio::spawn(ask.into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    // If the thread stalls in the poll, the reply may arrive during it. The extension is then
    // repeated.
    while futures_util::poll!(Box::pin(owner.extend(Duration::from_secs(1)))).is_ready() {
        owner.extend(lease).await.unwrap();
    }
    owner.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.remaining() > Duration::from_secs(5), "{:?}", second.remaining());
    // Without further waiters, the lease would have ended by then.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(second.is_held(), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_extend_does_not_end_the_next_owners_fixed_lease() {
    after_a_cancelled_extend(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_extend_does_not_end_the_next_owners_renewed_lease() {
    after_a_cancelled_extend(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_per_name_is_in_flight_however_often_callers_leave() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    listening(&server, &client).await;
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let sha = script!("acquire");
    proxy.on_request(move |command| {
        if command.get(1).is_some_and(|arg| arg[..] == *sha.as_bytes()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Action::Forward
    });
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    server.pause().await.unwrap();
    asked.store(0, Ordering::Relaxed);
    let lock = Lock::new(&client, "a");
    let began = Instant::now();
    let mut tried = 0;
    while began.elapsed() < Duration::from_secs(1) {
        let _ = lock.acquire().timeout(5 * MS).await;
        tried += 1;
    }
    let asked = asked.load(Ordering::Relaxed);
    server.resume().await.unwrap();
    wait_until(SOON, async || client.stats() == NOTHING).await;
    assert!(asked <= 2, "{asked} attempts in flight for one name, {tried} asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_process_that_may_not_publish_is_not_slowed_down() {
    let server = server().await;
    let all = sections(&client(&server).await, 8, "a", Duration::from_secs(2)).await;
    server.set_user("app", &["on", ">secret", "~*", "&*", "+@all", "-publish"]).await.unwrap();
    let denied = client_with(&server.url_for("app", "secret"), |config| config).await;
    let mute = sections(&denied, 8, "b", Duration::from_secs(2)).await;
    assert!(mute * 3 > all, "{mute} without PUBLISH, {all} with it");
}

/// A takeover is not handed over locally. The server has lost the lock, while the previous guard is
/// dropped and another task acquires.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_local_takeover_is_not_handed_over() {
    let server = server().await;
    let client = client(&server).await;
    let observer = server.observer().await.unwrap();
    for round in 0..TAKEOVERS {
        let name = format!("n{round}");
        let lock = Lock::new(&client, &name);
        let owner = lock.acquire().await.unwrap();
        observer.cmd(&["DEL", &name]).await.unwrap();
        let thief = tokio::spawn({
            let lock = lock.clone();
            async move { lock.steal().await }
        });
        let other = tokio::task::spawn_blocking({
            let lock = lock.clone();
            move || {
                let wait = Duration::from_micros(fastrand::u64(50..600));
                let began = Instant::now();
                while began.elapsed() < wait {
                    std::hint::spin_loop();
                }
                drop(owner);
                let mut ask = Box::pin(lock.acquire().timeout(Duration::from_secs(5)).into_future());
                let waker = futures_util::task::noop_waker();
                let polled = ask.as_mut().poll(&mut std::task::Context::from_waker(&waker));
                (polled, ask)
            }
        });
        let (thief, other) = tokio::join!(thief, other);
        let (thief, (polled, ask)) = (thief.unwrap(), other.unwrap());
        let got = match polled {
            std::task::Poll::Ready(got) => Ok(got),
            std::task::Poll::Pending => tokio::time::timeout(20 * MS, ask).await,
        };
        if let (Ok(thief), Ok(Ok(other))) = (&thief, &got)
            && thief.is_held()
            && other.is_held()
        {
            panic!("round {round}: {thief:?} and {other:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_behind_an_unanswered_release_is_notified_in_time() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.response_timeout(300 * MS).retries(1)).await;
    let lock = Lock::new(&client, "a");
    let owner = lock.acquire().await.unwrap();
    server.pause().await.unwrap();
    drop(owner);
    wait_until(SOON, async || client.stats().holds == 0).await;
    let got = tokio::time::timeout(SOON, lock.acquire().into_future()).await;
    server.resume().await.unwrap();
    assert!(got.is_ok(), "no reply in a minute, but a call without contact ends after 0.6 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_and_reentered_hold_is_left_to_its_lease_or_renewed() {
    let server = server().await;
    // The lease is long enough for a machine that stalls for two seconds.
    let lease = Duration::from_secs(3);
    let client = client_with(&server.url(), |config| config.watchdog_lease(lease)).await;
    let lock = Lock::new(&client, "a");
    let me = Holder::new();
    lock.acquire().holder(&me).await.unwrap().forget();
    let again = lock.acquire().holder(&me).await.unwrap();
    let began = std::time::Instant::now();
    wait_until(SOON, async || began.elapsed() > lease + lease / 2).await;
    assert!(again.is_held(), "the lease is renewed");
}

/// A release waits for the server's reply. Before the release is sent, another acquire takes the
/// hold back, and releases it again.
#[tokio::test]
async fn a_release_completes_only_after_the_servers_reply() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(Duration::ZERO)).await;
    let lock = Lock::new(&client, "a");
    let owner = lock.acquire().await.unwrap();
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    server.pause().await.unwrap();
    let mut release = Box::pin(owner.release());
    let mut third = Box::pin(lock.acquire().timeout(SOON).into_future());
    let at_once = futures_util::poll!(&mut release);
    assert!(futures_util::poll!(&mut third).is_pending());
    let told = match at_once {
        std::task::Poll::Ready(told) => Ok(told),
        std::task::Poll::Pending => tokio::time::timeout(Duration::from_secs(1), release).await,
    };
    server.resume().await.unwrap();
    drop((waiter, third));
    assert!(told.is_err(), "the server is paused, and the release has completed: {told:?}");
}

/// A two-level lock needs no permissions beyond the line of `docs/operating/acl.md`. The prefix of
/// a namespace replaces `~*`, as the page describes.
#[tokio::test(flavor = "multi_thread")]
async fn the_narrow_acl_line_is_enough_for_two_levels() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let mut command = vec!["ACL".to_owned(), "SETUSER".to_owned(), "app".to_owned()];
    for rule in published_rules("on ") {
        if rule == "~*" {
            command.extend(["~prod:*".to_owned(), "~redgrid_wait:{prod:*".to_owned()]);
        } else {
            command.push(rule);
        }
    }
    observer.cmd(&command).await.unwrap();
    let url = server.url_for("app", "secret");
    let (one, two) = (
        client_with(&url, |config| config.namespace("prod").unwrap()).await,
        client_with(&url, |config| config.namespace("prod").unwrap()).await,
    );
    let (_, _) =
        tokio::join!(sections(&one, 4, "a", Duration::from_secs(1)), sections(&two, 4, "a", Duration::from_secs(1)));
    let log: Vec<redgrid_testkit::redis::Value> = observer.query(&["ACL", "LOG"]).await.unwrap();
    assert!(log.is_empty(), "{log:?}");
}

/// Flags of waiters need no permissions beyond the published line with `~*`. A waiter without a
/// subscription sets its flag, and the flag is read.
#[tokio::test(flavor = "multi_thread")]
async fn the_published_acl_line_is_enough_for_marks() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let mut command = vec!["ACL".to_owned(), "SETUSER".to_owned(), "app".to_owned()];
    command.extend(published_rules("on ").into_iter().filter(|rule| !rule.contains("redisson_lock")));
    observer.cmd(&command).await.unwrap();
    let url = server.url_for("app", "secret");
    let (one, two) = (client_with(&url, |config| config).await, client(&server).await);
    let held = Lock::new(&two, "a").acquire().await.unwrap();
    let waiting = tokio::spawn(Lock::new(&one, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || observer.exists("redgrid_wait:{a}").await.unwrap()).await;
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}

/// A `try_acquire` is answered immediately, whatever other tasks wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_does_not_wait_for_the_turn_of_others() {
    let server = server().await;
    server.set_user("deaf", &["on", ">secret", "~*", "+@all", "resetchannels", "&redgrid_client:*"]).await.unwrap();
    let deaf = client_with(&server.url_for("deaf", "secret"), |config| config).await;
    let busy = client(&server).await;
    let looking = async {
        let (mut worst, mut got, mut looked) = (Duration::ZERO, 0, 0);
        let mut asked = Stopwatch::start();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            asked.restart();
            let guard = Lock::new(&busy, "a").try_acquire().await.unwrap();
            worst = worst.max(asked.elapsed());
            looked += 1;
            got += usize::from(guard.is_some());
            if guard.is_none() {
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        }
        (worst, got, looked)
    };
    let (_, _, (worst, ..)) = tokio::join!(
        sections(&busy, 2, "a", Duration::from_secs(5)),
        sections(&deaf, 1, "a", Duration::from_secs(5)),
        looking
    );
    assert!(worst < 100 * MS, "{worst:?}");
}

/// A fixed lease ends in time, even after the hand-over of a longer one.
#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_fixed_lease_after_a_longer_one_is_enforced() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    let first = lock.acquire().lease(3000 * MS).await.unwrap();
    let second = tokio::spawn(lock.acquire().lease(1500 * MS).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let began = Stopwatch::start();
    let third = lock.acquire().timeout(SOON).await.unwrap();
    began.assert_within(2000 * MS);
    drop((second, third));
}

/// A `try_acquire` while others wait is answered as soon as another task has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_beside_a_waiter_is_answered_when_the_waiter_enters() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    server.pause().await.unwrap();
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    let look = tokio::spawn(lock.try_acquire().into_future());
    wait_until(SOON, async || client.stats().waiting == 2).await;
    server.resume().await.unwrap();
    let held = waiter.await.unwrap().unwrap();
    // The lock is still held.
    let look = tokio::time::timeout(SOON, look).await;
    assert!(matches!(look, Ok(Ok(Ok(None)))), "{look:?}");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_before_it_begins_does_not_affect_the_name() {
    let server = server().await;
    let client = client(&server).await;
    for _ in 0..20 {
        let _ = Lock::new(&client, "a").acquire().timeout(Duration::from_nanos(1)).await;
    }
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || client.stats().names == 0).await;
}

/// A release at the end of a hand-over window lets a subscriber go first. But a subscriber may not
/// be waiting for the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_finds_a_free_lock_despite_subscribers() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(MS)).await;
    let observer = server.observer().await.unwrap();
    let mut listener = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    listener.write_all(b"SUBSCRIBE redisson_lock__channel:{a}\r\n").await.unwrap();
    wait_until(SOON, async || observer.pubsub_channels("redisson*").await.unwrap().len() == 1).await;
    let lock = Lock::new(&client, "a");
    for _ in 0..10 {
        let held = lock.acquire().await.unwrap();
        let granted = Instant::now();
        wait_until(SOON, async || granted.elapsed() > 2 * MS).await;
        held.release().await.unwrap();
        lock.try_acquire().await.unwrap().expect("a free lock").release().await.unwrap();
    }
}
