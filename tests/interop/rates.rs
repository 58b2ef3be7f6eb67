//! Rate limits shared by both sides.

use std::time::Duration;

use redgrid_rate_limiter::{LimitError, Rate, RateKind, RateLimiter};
use redgrid_tests::SOON;

use crate::actor::{Actor, Thrown};
use crate::fixture::{Fixture, scenarios};

scenarios![
    a_rate_of_javas_is_read_by_rust,
    a_rate_of_rusts_is_read_by_java,
    only_the_first_sets_the_rate,
    both_take_from_one_rate,
    java_is_refused_permits_of_rust_and_waits_for_them,
    rust_is_refused_permits_of_java_and_waits_for_them,
    no_window_has_more_than_the_rate_with_both_at_the_limit,
    rust_returns_permits_of_java,
    java_returns_permits_of_rust,
    permits_that_java_returned_too_often_are_not_free,
    each_client_has_its_own_log,
    entries_are_redissons,
    a_name_with_a_hash_tag_is_the_same_limiter,
    javas_largest_rate_is_counted_exactly,
];

/// Longer than any scenario takes, in milliseconds.
pub(super) const LONG: u64 = 600_000;

pub(super) struct Java {
    actor: Actor,
    name: String,
}

impl Java {
    pub(super) async fn tries(&mut self, method: &str, with: &[&str]) -> Result<String, Thrown> {
        self.begins(method, with).await;
        self.actor.done().await
    }

    pub(super) async fn does(&mut self, method: &str, with: &[&str]) -> String {
        self.tries(method, with).await.unwrap()
    }

    async fn begins(&mut self, method: &str, with: &[&str]) {
        let with: Vec<String> = with.iter().map(|word| word.to_string()).collect();
        self.actor.begin_permits(&format!("rate.{method}"), &self.name, &with).await;
    }

    pub(super) async fn set(&mut self, method: &str, kind: &str, permits: u64, millis: u64) -> String {
        self.does(method, &[kind, &permits.to_string(), &millis.to_string()]).await
    }

    pub(super) async fn free(&mut self) -> i64 {
        self.does("availablePermits", &[]).await.parse().unwrap()
    }

    pub(super) async fn try_take(&mut self, permits: u64) -> bool {
        self.does("tryAcquire", &[&permits.to_string(), "0"]).await == "true"
    }
}

fn named(on: &Fixture, name: &str) -> Java {
    Java { actor: on.java(), name: name.to_owned() }
}

fn java(on: &Fixture) -> Java {
    named(on, &on.name)
}

pub(super) async fn both(on: &Fixture) -> (Java, RateLimiter) {
    (java(on), RateLimiter::new(&on.client().await, &on.name))
}

pub(super) fn long(permits: u64) -> Rate {
    Rate::overall(permits, Duration::from_millis(LONG))
}

pub(super) async fn free(limiter: &RateLimiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

async fn a_rate_of_javas_is_read_by_rust(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert!(matches!(limiter.rate().await, Err(LimitError::RateNotSet { .. })));
    assert_eq!(java.set("trySetRate", "OVERALL", 7, 1500).await, "true");
    let rate = limiter.rate().await.unwrap();
    assert_eq!((rate.permits, rate.per, rate.kind), (7, Duration::from_millis(1500), RateKind::Overall));
    java.set("setRate", "PER_CLIENT", 3, LONG).await;
    assert_eq!(limiter.rate().await.unwrap(), Rate::per_client(3, Duration::from_millis(LONG)));
}

async fn a_rate_of_rusts_is_read_by_java(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    let thrown = java.tries("tryAcquire", &["1", "0"]).await.unwrap_err();
    assert!(thrown.message.contains("not initialized"), "{thrown:?}");
    limiter.try_set_rate(Rate::overall(7, Duration::from_millis(1500))).await.unwrap();
    assert_eq!(java.does("getConfig", &[]).await, "OVERALL 7 1500");
    limiter.set_rate(Rate::per_client(3, Duration::from_millis(LONG))).await.unwrap();
    assert_eq!(java.does("getConfig", &[]).await, format!("PER_CLIENT 3 {LONG}"));
}

async fn only_the_first_sets_the_rate(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert!(limiter.try_set_rate(long(5)).await.unwrap());
    assert_eq!(java.set("trySetRate", "OVERALL", 9, 1).await, "false");
    assert!(!limiter.try_set_rate(long(1)).await.unwrap());
    assert!(limiter.delete().await.unwrap());
    assert_eq!(java.set("trySetRate", "OVERALL", 9, LONG).await, "true");
    assert!(!limiter.try_set_rate(long(1)).await.unwrap());
    assert_eq!(limiter.rate().await.unwrap().permits, 9);
}

async fn both_take_from_one_rate(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(10)).await.unwrap();
    assert!(java.try_take(2).await);
    limiter.acquire().permits(3).await.unwrap();
    assert_eq!((java.free().await, free(&limiter).await), (5, 5));
    java.does("acquire", &["1"]).await;
    assert!(limiter.try_acquire_many(4).await.unwrap().is_some());
    assert!(limiter.try_acquire().await.unwrap().is_none() && !java.try_take(1).await);
    let error = limiter.try_acquire_many(11).await.unwrap_err();
    assert!(matches!(error, LimitError::TooManyPermits { most: 10, .. }), "{error:?}");
    assert!(java.tries("tryAcquire", &["11", "0"]).await.unwrap_err().message.contains("exceed"));
}

async fn java_is_refused_permits_of_rust_and_waits_for_them(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(Rate::overall(3, Duration::from_secs(2))).await.unwrap();
    for _ in 0..2 {
        let taken = on.server_time().await;
        limiter.acquire().permits(3).timeout(SOON).await.unwrap();
        java.does("acquire", &["2"]).await;
        let had = on.server_time().await;
        // Java's clock is that of the same machine.
        assert!(had >= taken + 1_900_000, "{}", had - taken);
    }
}

async fn rust_is_refused_permits_of_java_and_waits_for_them(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(Rate::overall(3, Duration::from_secs(2))).await.unwrap();
    for _ in 0..2 {
        let taken = on.server_time().await;
        java.does("acquire", &["3"]).await;
        limiter.acquire().permits(2).timeout(SOON).await.unwrap();
        let had = on.server_time().await;
        assert!(had >= taken + 1_900_000, "{}", had - taken);
    }
}

/// Returns the permits that were taken, with their times in microseconds, as the log has them.
async fn log(on: &Fixture) -> Vec<(u64, u64, Vec<u8>)> {
    let key = format!("{{{}}}:permits", on.name);
    let all: Vec<(Vec<u8>, f64)> = on.observer.query(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await.unwrap();
    let read = |(member, score): (Vec<u8>, f64)| {
        let permits = u32::from_le_bytes(member[17..21].try_into().unwrap());
        ((score * 1000.0) as u64, permits.into(), member)
    };
    all.into_iter().map(read).collect()
}

async fn no_window_has_more_than_the_rate_with_both_at_the_limit(on: Fixture) {
    let (one, two) = (RateLimiter::new(&on.client().await, &on.name), RateLimiter::new(&on.client().await, &on.name));
    one.try_set_rate(Rate::overall(40, Duration::from_secs(2))).await.unwrap();
    let mut threads = Vec::new();
    for _ in 0..3 {
        let mut thread = java(&on);
        thread.begins("acquireMany", &["30"]).await;
        threads.push(thread);
    }
    let tasks: Vec<_> = [one, two]
        .into_iter()
        .map(|limiter| {
            tokio::spawn(async move {
                for _ in 0..40 {
                    limiter.acquire().timeout(3 * SOON).await.unwrap();
                }
            })
        })
        .collect();
    // Collects all entries of the log as they appear.
    let mut seen = std::collections::BTreeMap::new();
    let (mut before, mut running): (Vec<(u64, u64, Vec<u8>)>, _) = (Vec::new(), true);
    while running {
        running =
            tasks.iter().any(|task| !task.is_finished()) || threads.iter().any(|thread| thread.actor.is_waiting());
        let there = log(&on).await;
        // An entry may be dropped only after its interval has ended, because every client counts it
        // until then.
        let now = on.observer.server_time_micros().await.unwrap();
        for gone in before.iter().filter(|entry| !there.contains(entry)) {
            assert!(gone.0 + 2_000_000 <= now + 1000, "{gone:?} was dropped before {now}");
        }
        // A client uses permits that it reserved ahead only after other entries have ended.
        let newest = there.iter().map(|(at, ..)| *at).max().unwrap_or(0);
        let inside = there.iter().filter(|(at, ..)| at + 2_000_000 > newest).map(|(_, permits, _)| permits);
        let inside: u64 = inside.sum();
        assert!(inside <= 40, "{inside} at {newest}: {there:?}");
        seen.extend(there.iter().cloned().map(|(at, permits, member)| ((at, member), permits)));
        before = there;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    for thread in &mut threads {
        thread.actor.done().await.unwrap();
    }
    let all: Vec<(u64, u64)> = seen.into_iter().map(|((at, _), permits)| (at, permits)).collect();
    assert_eq!(all.iter().map(|(_, permits)| permits).sum::<u64>(), 170);
    for (end, (at, _)) in all.iter().enumerate() {
        // Redisson reads its clock before it sends its request, and may pause in between. When the
        // request is executed, entries with a later time may already have been dropped.
        let inside = all[..=end].iter().filter(|(other, _)| other + 1_000_000 > *at);
        let inside: u64 = inside.map(|(_, permits)| permits).sum();
        assert!(inside <= 40, "{inside} before {at}: {all:?}");
    }
}

async fn rust_returns_permits_of_java(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(5)).await.unwrap();
    assert!(java.try_take(5).await);
    assert_eq!(limiter.release(2).await.unwrap(), 2);
    assert_eq!((java.free().await, free(&limiter).await), (2, 2));
    assert!(java.try_take(2).await && !java.try_take(1).await);
    assert_eq!(limiter.release(9).await.unwrap(), 5);
    assert_eq!((java.free().await, free(&limiter).await), (5, 5));
}

async fn java_returns_permits_of_rust(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(5)).await.unwrap();
    let taken = limiter.acquire().permits(5).await.unwrap();
    java.does("release", &["2"]).await;
    assert_eq!((java.free().await, free(&limiter).await), (2, 2));
    assert!(limiter.try_acquire_many(3).await.unwrap().is_none());
    assert_eq!((java.free().await, free(&limiter).await), (2, 2), "a refusal changes nothing");
    // Some releases of Redisson log even a refused request. Even then, the number of free permits
    // never exceeds the rate.
    assert!(taken.release().await.unwrap() >= 3);
    assert_eq!(free(&limiter).await, 5);
    assert_eq!(java.free().await, 5);
}

/// Permits that Java returned too often are not free. Redisson frees them a second time when their
/// entry ends, although other clients already have them.
async fn permits_that_java_returned_too_often_are_not_free(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(Rate::overall(5, Duration::from_secs(3))).await.unwrap();
    limiter.acquire().permits(2).await.unwrap();
    limiter.acquire().permits(2).await.unwrap();
    java.does("release", &["9"]).await;
    assert!(limiter.try_acquire_many(5).await.unwrap().is_some());
    let (had, _, last) = log(&on).await.pop().unwrap();
    loop {
        let free = free(&limiter).await;
        if on.server_time().await >= had + 3_000_000 {
            break;
        }
        assert_eq!(free, 0);
    }
    assert_eq!(free(&limiter).await, 5);
    assert!(log(&on).await.iter().all(|(_, _, member)| *member != last));
}

async fn each_client_has_its_own_log(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(Rate::per_client(3, Duration::from_millis(LONG))).await.unwrap();
    assert!(java.try_take(3).await && !java.try_take(1).await);
    limiter.acquire().permits(3).await.unwrap();
    assert!(limiter.try_acquire().await.unwrap().is_none());
    let other = RateLimiter::new(&on.client().await, &on.name);
    assert!(other.try_acquire_many(3).await.unwrap().is_some());
    let key = format!("{{{}}}:permits:{}", on.name, on.java_id());
    assert_eq!(on.observer.query::<i64>(&["ZCARD", &key]).await.unwrap(), 1);
    // Java's new rate applies to all clients.
    java.set("setRate", "PER_CLIENT", 5, LONG).await;
    assert_eq!((free(&limiter).await, free(&other).await, java.free().await), (2, 2, 5));
}

async fn entries_are_redissons(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    limiter.try_set_rate(long(10)).await.unwrap();
    let began = on.server_time().await;
    limiter.acquire().permits(3).await.unwrap();
    java.does("acquire", &["2"]).await;
    let ended = on.server_time().await;
    let log = log(&on).await;
    assert_eq!(log.iter().map(|(_, permits, _)| *permits).collect::<Vec<_>>().iter().sum::<u64>(), 5);
    for (at, _, member) in &log {
        assert_eq!((member.len(), member[0]), (21, 16), "{member:?}");
        assert!(began / 1000 * 1000 <= at + 1000 && *at <= ended + 1000, "{began} {at} {ended}");
    }
    let value = format!("{{{}}}:value", on.name);
    assert_eq!(on.observer.get::<String>(&value).await.unwrap().as_deref(), Some("5"));
    assert!(on.observer.time_to_live(&value).await.unwrap().is_none());
}

async fn a_name_with_a_hash_tag_is_the_same_limiter(on: Fixture) {
    let name = format!("{}:x{{y}}z", on.name);
    let (mut java, limiter) = (named(&on, &name), RateLimiter::new(&on.client().await, &name));
    limiter.try_set_rate(long(4)).await.unwrap();
    assert!(java.try_take(3).await);
    limiter.acquire().await.unwrap();
    assert!(!java.try_take(1).await && limiter.try_acquire().await.unwrap().is_none());
    assert!(limiter.delete().await.unwrap());
}

async fn javas_largest_rate_is_counted_exactly(on: Fixture) {
    let (mut java, limiter) = both(&on).await;
    assert_eq!(java.set("trySetRate", "OVERALL", i64::MAX as u64, LONG).await, "true");
    let taken = limiter.acquire().permits(7).await.unwrap();
    assert!(java.try_take(2).await);
    let value = format!("{{{}}}:value", on.name);
    assert_eq!(on.observer.get::<i64>(&value).await.unwrap(), Some(i64::MAX - 9));
    assert_eq!(taken.release().await.unwrap(), 7);
    assert_eq!(on.observer.get::<i64>(&value).await.unwrap(), Some(i64::MAX - 2));
}
