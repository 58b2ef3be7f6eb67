//! Rate limits shared by all processes: the sliding log.

mod limit;
mod troubles;

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_rate_limiter::{Client, LimitError, Rate, RateLimiter, Taken};
use redgrid_testkit::{Observer, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The most permits of one request.
const MOST: u64 = u32::MAX as u64;

/// A time longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// A time longer than a message takes on a busy machine, and far shorter than a wait without a
/// message.
const AT_ONCE: Duration = SOON;

async fn limiter(client: &Client, permits: u64, per: Duration) -> RateLimiter {
    let limiter = RateLimiter::new(client, "a");
    assert!(limiter.try_set_rate(Rate::overall(permits, per)).await.unwrap());
    limiter
}

/// Returns a client that polls only after a long time.
async fn patient(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.poll_interval(LONG)).await
}

/// Waits until a client subscribes to changes: its request was rejected, and it waits.
async fn until_waiting(observer: &Observer, name: &str) {
    let channel = format!("redgrid_rate__channel:{{{name}}}");
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
}

/// Starts a request for five permits that has to wait.
async fn waits(limiter: &RateLimiter, observer: &Observer) -> JoinHandle<Result<Taken, LimitError>> {
    let waiting = tokio::spawn(limiter.acquire().permits(5).into_future());
    until_waiting(observer, "a").await;
    waiting
}

async fn log(observer: &Observer) -> i64 {
    observer.query(&["ZCARD", "{a}:permits"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_set_read_changed_and_deleted() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let rate = Rate::overall(5, LONG);
    assert!(!limiter.set_rate(rate).if_set().await.unwrap());
    assert!(limiter.try_set_rate(rate).await.unwrap());
    assert!(!limiter.try_set_rate(Rate::overall(7, SECOND)).await.unwrap());
    assert_eq!(limiter.rate().await.unwrap(), rate);
    let hash: Vec<String> = observer.query(&["HMGET", "a", "rate", "interval", "type", "keepAliveTime"]).await.unwrap();
    assert_eq!(hash, ["5", "600000", "0", "0"]);
    assert_eq!(limiter.available_permits().await.unwrap(), 5);
    assert_eq!(limiter.try_acquire_many(3).await.unwrap().unwrap().permits(), 3);
    assert!(limiter.try_acquire_many(3).await.unwrap().is_none());
    assert_eq!(limiter.available_permits().await.unwrap(), 2);
    // With `keeping_state` the taken permits are still counted; later calls without it discard
    // them.
    assert!(limiter.set_rate(Rate::overall(9, LONG)).keeping_state().await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 6);
    assert!(limiter.set_rate(Rate::overall(2, LONG)).keeping_state().if_set().await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
    assert_eq!(limiter.release(2).await.unwrap(), 2);
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    let per_client = Rate::per_client(4, LONG).keep_alive(2 * LONG);
    assert!(limiter.set_rate(per_client).keeping_state().await.unwrap());
    assert_eq!((limiter.available_permits().await.unwrap(), limiter.rate().await.unwrap()), (4, per_client));
    assert!(limiter.set_rate(Rate::overall(3, LONG)).await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 3);
    assert!(limiter.delete().await.unwrap() && !limiter.delete().await.unwrap());
    let left: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
    assert!(left.iter().all(|key| key.starts_with("redgrid_once:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_reported() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let unset = |told| matches!(told, Err(LimitError::RateNotSet { .. }));
    assert!(unset(limiter.try_acquire().await.map(drop)));
    assert!(unset(limiter.acquire().await.map(drop)));
    assert!(unset(limiter.acquire().timeout(SOON).await.map(drop)));
    assert!(unset(limiter.release(1).await.map(drop)));
    assert!(unset(limiter.available_permits().await.map(drop)));
    assert!(unset(limiter.rate().await.map(drop)));
    limiter.try_set_rate(Rate::overall(5, LONG)).await.unwrap();
    let told = limiter.acquire().permits(6).await.unwrap_err();
    assert!(matches!(told, LimitError::TooManyPermits { permits: 6, most: 5, .. }), "{told:?}");
    let told = limiter.try_acquire_many(6).await.unwrap_err();
    assert!(matches!(told, LimitError::TooManyPermits { .. }), "{told:?}");
    let argument = |told| matches!(told, Err(LimitError::Failed(Failure::InvalidArgument { .. })));
    assert!(argument(limiter.acquire().permits(0).await.map(drop)));
    assert!(argument(limiter.try_acquire_many(1 << 32).await.map(drop)));
    assert_eq!(limiter.release(0).await.unwrap(), 0, "nothing to do, as with Redisson");
    assert!(argument(limiter.expire(Duration::ZERO).await.map(drop)));
    for bad in [Rate::overall(0, SECOND), Rate::overall(1, MS / 2), Rate::overall(1, SECOND).keep_alive(MS)] {
        assert!(argument(limiter.try_set_rate(bad).await.map(drop)));
        assert!(argument(limiter.set_rate(bad).await.map(drop)));
    }
    limiter.acquire().permits(5).await.unwrap();
    let told = limiter.acquire().timeout(Duration::ZERO).await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { .. }), "{told:?}");
    let told = limiter.acquire().timeout(1000 * MS).await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { waited, .. } if waited >= 1000 * MS), "{told:?}");
    observer.cmd(&["SET", "b", "1"]).await.unwrap();
    let refused = RateLimiter::new(&client, "b").try_acquire().await.unwrap_err();
    assert!(matches!(refused, LimitError::Failed(Failure::Refused { .. })), "{refused:?}");
    observer.cmd(&["SET", "{a}:permits", "1"]).await.unwrap();
    let refused = limiter.acquire().await.unwrap_err();
    assert!(matches!(refused, LimitError::Failed(Failure::Refused { .. })), "{refused:?}");
    let invalid = RateLimiter::new(&client, "{}").acquire().await.unwrap_err();
    assert!(matches!(invalid, LimitError::Failed(Failure::InvalidName(_))), "{invalid:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_learn_of_changes_at_once() {
    let server = server().await;
    let (one, two) = (patient(&server).await, patient(&server).await);
    let observer = server.observer().await.unwrap();
    let (here, there) = (limiter(&one, 5, LONG).await, RateLimiter::new(&two, "a"));
    let mut held = here.acquire().permits(5).await.unwrap();
    for change in 0..4 {
        let waiting = waits(&there, &observer).await;
        match change {
            0 => drop(held.release().await.unwrap()),
            1 => drop(here.release(5).await.unwrap()),
            2 => drop(here.set_rate(Rate::overall(10, LONG)).keeping_state().await.unwrap()),
            _ => drop(here.set_rate(Rate::overall(5, LONG)).await.unwrap()),
        }
        held = tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
        wait_until(SOON, async || two.stats().channels == 0).await;
        if change == 2 {
            assert_eq!(here.available_permits().await.unwrap(), 0);
        }
    }
    // A release in the same process wakes its waiters.
    let waiting = waits(&there, &observer).await;
    assert_eq!(held.release().await.unwrap(), 5);
    tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
    let waiting = waits(&there, &observer).await;
    here.delete().await.unwrap();
    let told = tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap();
    assert!(matches!(told, Err(LimitError::RateNotSet { .. })), "{told:?}");
    here.set_rate(Rate::overall(5, LONG)).await.unwrap();
    here.acquire().permits(5).await.unwrap();
    let waiting = waits(&there, &observer).await;
    two.shutdown(SOON).await.unwrap();
    let told = waiting.await.unwrap();
    assert!(matches!(told, Err(LimitError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_live_as_long_as_they_are_to() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let lives = async || {
        let mut all = Vec::new();
        for key in observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap() {
            if !key.starts_with("redgrid_once") {
                all.push((observer.query::<i64>(&["PTTL", &key]).await.unwrap() as f64 / 60_000.0).ceil() as i64);
            }
        }
        all
    };
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let rate = Rate::overall(5, SECOND);
    limiter.try_set_rate(rate.keep_alive(minutes(10))).await.unwrap();
    assert_eq!(lives().await, [10]);
    limiter.acquire().permits(5).await.unwrap();
    assert_eq!(lives().await, [10, 10, 10]);
    // Each use restarts the lifetime, even if it is rejected.
    limiter.expire(minutes(5)).await.unwrap();
    assert_eq!(lives().await, [5, 5, 5]);
    limiter.try_acquire().await.unwrap();
    assert_eq!(lives().await, [10, 10, 10]);
    limiter.set_rate(rate).keeping_state().await.unwrap();
    assert_eq!(lives().await, [-1, -1, -1].map(|_: i32| 0), "as long as Redisson's");
    limiter.expire(minutes(7)).await.unwrap();
    limiter.acquire().await.unwrap();
    assert_eq!(lives().await, [7, 7, 7]);
    assert!(limiter.persist().await.unwrap() && !limiter.persist().await.unwrap());
    assert_eq!(lives().await, [0, 0, 0]);
    // The state of one client lives only a little longer than its permits.
    limiter.set_rate(Rate::per_client(5, minutes(2))).await.unwrap();
    limiter.acquire().await.unwrap();
    let mut each = lives().await;
    each.sort();
    assert_eq!(each, [0, 5, 5, 5]);
    limiter.set_rate(Rate::per_client(5, minutes(2)).keep_alive(minutes(9))).keeping_state().await.unwrap();
    limiter.acquire().await.unwrap();
    assert_eq!(lives().await, [9, 9, 9, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_its_own_rate_and_learns_of_a_new_one() {
    let server = server().await;
    let (one, two) = (patient(&server).await, patient(&server).await);
    let observer = server.observer().await.unwrap();
    let (here, there) = (RateLimiter::new(&one, "a"), RateLimiter::new(&two, "a"));
    here.try_set_rate(Rate::per_client(3, LONG)).await.unwrap();
    for limiter in [&here, &there] {
        limiter.acquire().permits(3).await.unwrap();
        assert!(limiter.try_acquire().await.unwrap().is_none());
    }
    let waiting = tokio::spawn(there.acquire().permits(2).into_future());
    until_waiting(&observer, "a").await;
    // The permits that each client took are still counted for that client.
    here.set_rate(Rate::per_client(5, LONG)).keeping_state().await.unwrap();
    tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (2, 0));
    here.set_rate(Rate::per_client(4, LONG)).keeping_state().await.unwrap();
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (1, 0));
    assert_eq!(there.release(2).await.unwrap(), 2);
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_is_corrected() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, LONG).await;
    let value = async || observer.query::<String>(&["GET", "{a}:value"]).await.unwrap();
    limiter.acquire().permits(7).await.unwrap();
    limiter.acquire().await.unwrap();
    observer.cmd(&["DEL", "{a}:value"]).await.unwrap();
    assert_eq!((limiter.available_permits().await.unwrap(), value().await), (2, "2".into()));
    // Too high or too low: this occurs when Redisson releases more than it took, or when keys are
    // lost separately.
    observer.cmd(&["SET", "{a}:value", "11"]).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 2);
    observer.cmd(&["SET", "{a}:value", "-5"]).await.unwrap();
    assert!(limiter.acquire().permits(2).timeout(SOON).await.is_ok());
    assert_eq!(value().await, "0");
    observer.cmd(&["DEL", "{a}:permits"]).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 10);
    observer.cmd(&["SET", "{a}:value", "many"]).await.unwrap();
    assert!(matches!(limiter.try_acquire().await, Err(LimitError::Failed(Failure::Refused { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_exact_at_their_ends() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let value = async || observer.query::<i64>(&["GET", "{a}:value"]).await.unwrap();
    let (whole, limiter) = (1_u64 << 53, limiter(&client, 1 << 53, LONG).await);
    limiter.acquire().await.unwrap();
    assert_eq!(value().await, (1 << 53) - 1);
    let most = limiter.acquire().permits(MOST).await.unwrap();
    assert_eq!(value().await, (1 << 53) - 1 - MOST as i64);
    assert_eq!((most.release().await.unwrap(), value().await), (MOST, (1 << 53) - 1));
    assert_eq!(limiter.rate().await.unwrap().permits, whole);
    // Redisson may set this value, the largest `long` of Java.
    observer.cmd(&["HSET", "a", "rate", &i64::MAX.to_string()]).await.unwrap();
    observer.cmd(&["DEL", "{a}:value", "{a}:permits"]).await.unwrap();
    let taken = limiter.acquire().permits(MOST).await.unwrap();
    assert_eq!(value().await, i64::MAX - MOST as i64);
    limiter.acquire().await.unwrap();
    assert_eq!((taken.release().await.unwrap(), value().await), (MOST, i64::MAX - 1));
    assert_eq!((limiter.release(9).await.unwrap(), value().await), (1, i64::MAX));
    // If the number of permits exceeds four bytes, they form two entries.
    let many = join_all((0..3).map(|_| limiter.acquire().permits(MOST).into_future())).await;
    assert_eq!(value().await, i64::MAX - 3 * MOST as i64);
    for one in many {
        assert_eq!(one.unwrap().release().await.unwrap(), MOST);
    }
    assert_eq!(value().await, i64::MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_costs_one_window() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 2, 400 * MS).await;
    limiter.acquire().permits(2).await.unwrap();
    // Moves all entries an hour ahead, like a clock that was set back.
    let shift = "for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], 3600000, entry) end";
    observer.cmd(&["EVAL", shift, "1", "{a}:permits"]).await.unwrap();
    assert!(limiter.try_acquire().await.unwrap().is_none());
    limiter.acquire().permits(2).timeout(SOON).await.unwrap();
}
