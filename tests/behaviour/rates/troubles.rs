//! Lost replies, cancelled callers, and servers that reject requests or are gone.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_rate_limiter::{Config, LimitError, Rate, RateLimiter, Taken};
use redgrid_testkit::{Action, Direction, Fault, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::{SOON, client, client_with, server};

use super::{AT_ONCE, LONG, MS, limiter, log, until_waiting};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_lost_reply_takes_once() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: Config| config.response_timeout(150 * MS);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let limiter = limiter(&client, 10, LONG).await;
    limiter.acquire().await.unwrap();
    for n in 2..5 {
        let swallowed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&swallowed);
        proxy.on_request(move |request| {
            let asks = request.iter().any(|word| word.starts_with(b"redgrid_once:{a}"));
            match asks && count.fetch_add(1, Ordering::SeqCst) == 0 {
                true if n % 2 == 0 => Action::SwallowReply,
                true => Action::CutAfterForward,
                false => Action::Forward,
            }
        });
        limiter.acquire().timeout(SOON).await.unwrap();
        assert!(swallowed.load(Ordering::SeqCst) > 1, "the request was sent again");
        assert_eq!(observer.query::<i64>(&["GET", "{a}:value"]).await.unwrap(), 10 - n);
        assert_eq!(log(&observer).await, n);
    }
}

#[tokio::test]
async fn a_cancelled_caller_takes_nothing_at_any_point() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, LONG).await;
    for polls in 0..6 {
        for _ in 0..5 {
            let taken = at_most(polls, limiter.acquire().permits(2).into_future()).await;
            assert!(taken.is_none_or(|taken| taken.is_ok()));
            drop(at_most(polls, limiter.try_acquire()).await);
            let all = limiter.available_permits().await.unwrap();
            let used = 10 - all;
            // Returns the permits that were granted.
            if used > 4 {
                limiter.release(used).await.unwrap();
            }
        }
    }
    limiter.set_rate(Rate::overall(10, LONG)).await.unwrap();
    // The caller of a request in flight leaves before the reply arrives: on one thread it cannot
    // arrive during the first poll.
    for _ in 0..20 {
        let mut taking = Box::pin(limiter.acquire().permits(2).into_future());
        assert!(futures_util::poll!(&mut taking).is_pending());
        tokio::task::yield_now().await;
        drop(taking);
    }
    wait_until(SOON, async || limiter.available_permits().await.unwrap() == 10).await;
    assert_eq!(log(&observer).await, 0);
    // A cancelled waiter has no further effect, and lets the waiters behind it continue.
    limiter.acquire().permits(8).await.unwrap();
    let big = tokio::spawn(limiter.acquire().permits(5).into_future());
    until_waiting(&observer, "a").await;
    assert!(limiter.try_acquire().await.unwrap().is_none(), "an earlier request waits");
    let small = tokio::spawn(limiter.acquire().into_future());
    big.abort();
    let small = tokio::time::timeout(AT_ONCE, small).await.unwrap().unwrap().unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    drop(small);
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_a_cancelled_caller_are_returned() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let patient = |config: Config| config.response_timeout(SOON);
    let client = client_with(&server.url_via(proxy.addr()), patient).await;
    let limiter = limiter(&client, 10, LONG).await;
    limiter.acquire().permits(3).await.unwrap();
    proxy.set(Direction::ToClient, Fault::Stall);
    let leaving = tokio::spawn(limiter.acquire().permits(2).into_future());
    wait_until(SOON, async || log(&observer).await == 2).await;
    // A waiter that is not cancelled is not overtaken.
    let staying = tokio::spawn(limiter.acquire().permits(7).into_future());
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    proxy.heal();
    tokio::time::timeout(AT_ONCE, staying).await.unwrap().unwrap().unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_return_frees_no_permits_of_others() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let one = limiter(&clients[0], 4, LONG).await;
    let two = RateLimiter::new(&clients[1], "a");
    let early = one.acquire().permits(3).await.unwrap();
    assert_eq!((early.release().await.unwrap(), one.available_permits().await.unwrap()), (3, 4));
    // While the permits count, a release returns its own permits, even if one request acquired
    // permits for two callers.
    one.set_rate(Rate::overall(4, LONG)).await.unwrap();
    let both = join_all([one.acquire().into_future(), one.acquire().permits(2).into_future()]).await;
    let [first, second] = both.try_into().unwrap();
    assert_eq!((second.unwrap().release().await.unwrap(), one.available_permits().await.unwrap()), (2, 3));
    assert_eq!((first.unwrap().release().await.unwrap(), one.available_permits().await.unwrap()), (1, 4));
    // The permits have expired but are still in the log. They are available without a release.
    let observer = server.observer().await.unwrap();
    one.set_rate(Rate::overall(4, 300 * MS)).await.unwrap();
    let late = one.acquire().permits(3).await.unwrap();
    let had = observer.server_time_micros().await.unwrap();
    wait_until(SOON, async || observer.server_time_micros().await.unwrap() > had + 300_000).await;
    assert_eq!(log(&observer).await, 1);
    assert_eq!((late.release().await.unwrap(), one.available_permits().await.unwrap()), (0, 4));
    one.set_rate(Rate::overall(4, 500 * MS)).await.unwrap();
    let late = one.acquire().permits(3).await.unwrap();
    wait_until(SOON, async || two.available_permits().await.unwrap() == 4).await;
    two.set_rate(Rate::overall(4, LONG)).keeping_state().await.unwrap();
    two.acquire().permits(4).await.unwrap();
    assert_eq!(late.release().await.unwrap(), 0);
    assert_eq!(two.available_permits().await.unwrap(), 0);
    // Without a record of the owners, the oldest permits are released, but never more than the
    // permits that count.
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (3, 3));
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (1, 4));
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_all_end_in_time() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: Config| config.response_timeout(500 * MS).retries(2);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let limiter = limiter(&client, 100, LONG).await;
    limiter.acquire().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let began = Instant::now();
    let waiting = (0..10).map(|_| limiter.acquire().into_future());
    let told = join_all(waiting).await;
    let honest = |told: &LimitError| {
        matches!(told, LimitError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. }))
    };
    assert!(told.iter().all(|told| told.as_ref().is_err_and(honest)), "{told:?}");
    let told = limiter.try_acquire().await.unwrap_err();
    assert!(honest(&told), "{told:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    proxy.heal();
    wait_until(SOON, async || limiter.try_acquire().await.is_ok()).await;
}

/// A change that is denied half way changes nothing. The test has one thread, so both requests are
/// queued before either is sent.
#[tokio::test]
async fn a_change_denied_half_way_changes_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 5, LONG).await;
    let taken = limiter.acquire().permits(3).await.unwrap();
    // Adds an expired entry, so that the change has an entry to remove.
    let fill = "redis.call('ZADD', KEYS[1], 1000, struct.pack('Bc0I', 16, '0123456789abcdef', 1)) redis.call('SET', KEYS[2], '1')";
    observer.cmd(&["EVAL", fill, "2", "{a}:permits", "{a}:value"]).await.unwrap();
    let state = async || {
        let value: String = observer.query(&["GET", "{a}:value"]).await.unwrap();
        let log: Vec<(Vec<u8>, String)> =
            observer.query(&["ZRANGE", "{a}:permits", "0", "-1", "WITHSCORES"]).await.unwrap();
        let rate: Vec<String> = observer.query(&["HMGET", "a", "rate", "interval", "type"]).await.unwrap();
        (value, log, rate)
    };
    let before = state().await;
    let steps = [
        ("incrby", "take"),
        ("zremrangebyrank", "take"),
        ("zrem", "release"),
        ("zadd", "release"),
        ("incrby", "release"),
        ("zremrangebyrank", "release"),
        ("unlink", "set"),
        ("hset", "set"),
        ("zadd", "take"),
    ];
    for (denied, step) in steps {
        server.deny(&[denied]).await.unwrap();
        let told = match step {
            // Releases a part of a valid entry.
            "release" => limiter.release(2).await.map(drop),
            "set" => limiter.set_rate(Rate::overall(9, LONG)).await.map(drop),
            _ => limiter.try_acquire_many(2).await.map(drop),
        };
        assert!(matches!(told, Err(LimitError::Failed(Failure::Refused { .. }))), "{denied}: {told:?}");
        server.allow(&[denied]).await.unwrap();
        if (denied, step) != ("zadd", "take") {
            assert_eq!(state().await, before, "{denied} {step}");
        }
    }
    // Expired permits are removed, and are free again.
    let after = state().await;
    assert_eq!((after.0.as_str(), after.1.len()), ("2", 1));
    assert_eq!((taken.release().await.unwrap(), limiter.available_permits().await.unwrap()), (3, 5));
    // The permits of two callers in one request form one entry, and a part of it is returned.
    limiter.set_rate(Rate::overall(5, LONG).keep_alive(2 * LONG)).await.unwrap();
    let both = join_all([limiter.acquire().into_future(), limiter.acquire().permits(2).into_future()]).await;
    let [one, two]: [Result<Taken, LimitError>; 2] = both.try_into().unwrap();
    let (mut one, mut two) = (one.ok(), two.ok());
    for (denied, step) in [("pexpire", "take"), ("pexpire", "release"), ("zadd", "one"), ("zrem", "two")] {
        let before = state().await;
        assert_eq!((before.0.as_str(), before.1.len()), ("2", 1));
        server.deny(&[denied]).await.unwrap();
        let told = match step {
            "take" => limiter.try_acquire().await.map(drop),
            "release" => limiter.release(1).await.map(drop),
            "one" => one.take().unwrap().release().await.map(drop),
            _ => two.take().unwrap().release().await.map(drop),
        };
        assert!(matches!(told, Err(LimitError::Failed(Failure::Refused { .. }))), "{denied}: {told:?}");
        server.allow(&[denied]).await.unwrap();
        assert_eq!(state().await, before, "{denied} {step}");
    }
}
