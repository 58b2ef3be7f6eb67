//! Changes of a shared cache by either side: lifetimes, idle times, limits, values.

use std::time::Duration;

use redgrid_cache::codecs::{Json, Kryo, Long, Text};
use redgrid_cache::{Lifetime, Limit, MapCache, SetCache};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    a_use_by_either_side_extends_an_entrys_life,
    lifetimes_are_changed_by_either_side,
    every_change_of_java_is_seen_here,
    every_change_of_ours_is_seen_by_java,
    the_least_recently_used_entry_is_evicted_for_both,
    the_least_frequently_used_entry_is_evicted_for_both,
    a_map_that_java_deleted_has_no_limit_and_no_lifetimes,
    values_of_sets_are_prolonged_and_shortened_by_both,
    sets_of_kryo_are_read_on_both_sides,
];

const HOUR: Duration = Duration::from_secs(3600);

type Words = MapCache<String, String, Text>;

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(&format!("mapCache.{verb}"), &on.name, &[&["string"], words].concat()).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

async fn left(map: &Words, key: &str) -> Duration {
    match map.lifetime(key).await.unwrap() {
        Lifetime::Ends(left) => left,
        other => panic!("{key}: {other:?}"),
    }
}

async fn a_use_by_either_side_extends_an_entrys_life(on: Fixture) {
    const IDLE: Duration = Duration::from_secs(60);
    /// A time longer than any stall of the machine.
    const GONE_BY: Duration = Duration::from_millis(1500);
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    java(&mut actor, &on, "put", &["by java", "1", "0", "60000"]).await;
    map.set("by rust", &text("1")).idle_for(IDLE).await.unwrap();
    let shorter = async |key: &str| wait_until(SOON, async || left(&map, key).await < IDLE - GONE_BY).await;
    for key in ["by java", "by rust"] {
        shorter(key).await;
        java(&mut actor, &on, "get", &[key]).await;
        assert!(left(&map, key).await > IDLE - GONE_BY, "a use by Java counts: {key}");
        shorter(key).await;
        // A peek does not count as a use.
        assert!(map.peek(key).await.unwrap().is_some() && left(&map, key).await < IDLE - GONE_BY);
        map.get(key).await.unwrap();
        assert!(left(&map, key).await > IDLE - GONE_BY, "a use by Rust counts: {key}");
    }
}

async fn lifetimes_are_changed_by_either_side(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    let near = |left: Duration, asked: Duration| left <= asked + Duration::from_secs(5) && left > asked / 2;
    map.set("a", &text("1")).expires_in(HOUR).await.unwrap();
    assert_eq!(java(&mut actor, &on, "expireEntry", &["a", "7200000", "0"]).await, "true");
    assert!(near(left(&map, "a").await, 2 * HOUR) && left(&map, "a").await > HOUR);
    assert_eq!(map.expire(["a", "none"]).expires_in(HOUR / 4).await.unwrap(), 1);
    let left_there: u64 = java(&mut actor, &on, "remainTimeToLive", &["a"]).await.parse().unwrap();
    assert!(near(Duration::from_millis(left_there), HOUR / 4), "{left_there}");
    assert_eq!(java(&mut actor, &on, "expireEntryIfNotSet", &["a", "5000", "0"]).await, "false");
    assert_eq!(map.expire(["a"]).expires_in(HOUR).only_if_no_expiry().await.unwrap(), 0);
    assert_eq!(map.expire(["a"]).await.unwrap(), 1, "and none");
    assert_eq!(java(&mut actor, &on, "remainTimeToLive", &["a"]).await, "-1");
    assert_eq!(java(&mut actor, &on, "expireEntryIfNotSet", &["a", "3600000", "0"]).await, "true");
    assert!(near(left(&map, "a").await, HOUR));
    // Java sets a lifetime and an idle time; the entry ends with the shorter of them.
    assert_eq!(java(&mut actor, &on, "expireEntry", &["a", "7200000", "3600000"]).await, "true");
    assert!(left(&map, "a").await <= HOUR + Duration::from_secs(5));
    map.expire(["a"]).expires_in(Duration::from_millis(1)).await.unwrap();
    wait_until(SOON, async || map.peek("a").await.unwrap().is_none()).await;
    assert_eq!(java(&mut actor, &on, "getWithTTLOnly", &["a"]).await, "null");
    // One lifetime is given to all entries of a call.
    java(&mut actor, &on, "putAll", &["3600000", "x", "1", "y", "2"]).await;
    assert!(near(left(&map, "x").await, HOUR) && near(left(&map, "y").await, HOUR));
    map.set_many([("v", &text("3")), ("w", &text("4"))]).expires_in(HOUR).await.unwrap();
    for key in ["v", "w"] {
        let left_there: u64 = java(&mut actor, &on, "remainTimeToLive", &[key]).await.parse().unwrap();
        assert!(near(Duration::from_millis(left_there), HOUR), "{left_there}");
    }
}

async fn every_change_of_java_is_seen_here(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    let changes: [(&str, &[&str], &str, Option<&str>); 13] = [
        ("fastPut", &["a", "1"], "true", Some("1")),
        ("fastPutFor", &["a", "2", "3600000", "0"], "false", Some("2")),
        ("replace", &["a", "3"], "2", Some("3")),
        ("replace", &["a", "x", "4"], "false", Some("3")),
        ("replace", &["a", "3", "4"], "true", Some("4")),
        ("putIfExists", &["a", "5"], "4", Some("5")),
        ("fastPutIfAbsent", &["a", "6", "3600000"], "false", Some("5")),
        ("computeIfAbsent", &["a", "7"], "5", Some("5")),
        ("removeIf", &["a", "x"], "false", Some("5")),
        ("removeIf", &["a", "5"], "true", None),
        ("fastPutIfAbsent", &["a", "8", "3600000"], "true", Some("8")),
        ("fastRemove", &["a", "b"], "1", None),
        ("computeIfAbsent", &["a", "9"], "9", Some("9")),
    ];
    for (verb, words, answer, value) in changes {
        assert_eq!(java(&mut actor, &on, verb, words).await, answer, "{verb} {words:?}");
        assert_eq!(map.get("a").await.unwrap().as_deref(), value, "{verb} {words:?}");
        assert_eq!(map.len().await.unwrap(), u64::from(value.is_some()));
    }
    // An expired entry counts as absent for the conditions of both sides.
    map.set("b", &text("1")).expires_in(Duration::from_millis(1)).await.unwrap();
    wait_until(SOON, async || map.peek("b").await.unwrap().is_none()).await;
    assert_eq!(java(&mut actor, &on, "putIfExists", &["b", "2"]).await, "null");
    assert_eq!(java(&mut actor, &on, "replace", &["b", "1", "2"]).await, "false");
    assert!(map.peek("b").await.unwrap().is_none());
}

async fn every_change_of_ours_is_seen_by_java(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    let new = |value: &str| text(value);
    assert!(map.set_if_absent("a", &new("1")).expires_in(HOUR).await.unwrap());
    assert_eq!(java(&mut actor, &on, "get", &["a"]).await, "1");
    assert!(!map.set_if_absent("a", &new("2")).await.unwrap() && map.set_if_exists("a", &new("2")).await.unwrap());
    assert_eq!(java(&mut actor, &on, "getWithTTLOnly", &["a"]).await, "2");
    assert!(map.compare_and_set("a", &new("2"), &new("3")).await.unwrap());
    assert_eq!(map.update("a", |value| value.push('4')).await.unwrap().as_deref(), Some("34"));
    map.set_many([("b", &new("5")), ("c", &new("6"))]).await.unwrap();
    assert_eq!(java(&mut actor, &on, "getAll", &["a", "b", "x"]).await, "{a=34, b=5}");
    assert_eq!(java(&mut actor, &on, "keySet", &[]).await, "[a, b, c]");
    assert_eq!(java(&mut actor, &on, "containsValue", &["6"]).await, "true");
    assert!(map.compare_and_remove("b", &new("5")).await.unwrap() && map.remove_many(["c", "x"]).await.unwrap() == 1);
    assert_eq!(java(&mut actor, &on, "readAllMap", &[]).await, "{a=34}");
    map.clear().await.unwrap();
    assert_eq!(java(&mut actor, &on, "size", &[]).await, "0");
    // Keys and values may have different codecs.
    let name = format!("{}:mixed", on.name);
    let numbers = MapCache::<String, i64, Json>::new(&client, &name).with_codecs(Text, Long);
    numbers.set("n", &7).expires_in(HOUR).await.unwrap();
    assert_eq!(actor.value_of("mapCache.addAndGet", &name, &["string+long", "n", "long:5"]).await, "12");
    assert_eq!(numbers.get("n").await.unwrap(), Some(12));
    assert!(matches!(numbers.lifetime("n").await.unwrap(), Lifetime::Ends(_)), "the lifetime stays");
}

/// Waits until the server's clock has moved on: uses within one millisecond have no order.
async fn a_moment_later(on: &Fixture) {
    let began = on.server_time().await;
    wait_until(SOON, async || on.server_time().await > began + 3_000).await;
}

async fn the_least_recently_used_entry_is_evicted_for_both(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    map.set_limit(Limit::least_recently_used(3)).await.unwrap();
    for (at, key) in ["a", "b", "c"].into_iter().enumerate() {
        match at {
            1 => drop(java(&mut actor, &on, "fastPut", &[key, "1"]).await),
            _ => drop(map.set(key, &text("1")).await.unwrap()),
        }
        a_moment_later(&on).await;
    }
    // One side uses an entry, and the other side adds the next entry.
    let steps = [("a", true, "d", "b"), ("c", false, "e", "a"), ("d", false, "f", "c"), ("e", true, "g", "d")];
    for (used, by_java, new, goes) in steps {
        if by_java {
            assert_eq!(java(&mut actor, &on, "get", &[used]).await, "1");
        } else {
            assert!(map.get(used).await.unwrap().is_some());
        }
        a_moment_later(&on).await;
        if by_java {
            map.set(new, &text("1")).await.unwrap();
        } else {
            java(&mut actor, &on, "fastPut", &[new, "1"]).await;
        }
        a_moment_later(&on).await;
        assert!(map.peek(goes).await.unwrap().is_none(), "{goes} was used longest ago when {new} came");
        assert_eq!(map.len().await.unwrap(), 3);
        assert!(map.peek(used).await.unwrap().is_some() && map.peek(new).await.unwrap().is_some());
    }
}

async fn the_least_frequently_used_entry_is_evicted_for_both(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    java(&mut actor, &on, "setMaxSize", &["3", "LFU"]).await;
    for key in ["a", "b", "c"] {
        map.set(key, &text("1")).await.unwrap();
    }
    // Both sides use these entries together: a 6 times, b 4 times, c 2 times.
    for (key, times) in [("a", 3), ("b", 2), ("c", 1)] {
        for _ in 0..times {
            java(&mut actor, &on, "get", &[key]).await;
            map.get(key).await.unwrap();
        }
    }
    for (new, by_java, goes) in [("d", true, "c"), ("e", false, "d"), ("f", true, "e")] {
        if by_java {
            java(&mut actor, &on, "fastPut", &[new, "1"]).await;
        } else {
            map.set(new, &text("1")).await.unwrap();
        }
        assert!(map.peek(goes).await.unwrap().is_none(), "{goes} was used least when {new} came");
        assert!(map.peek("a").await.unwrap().is_some() && map.peek("b").await.unwrap().is_some());
    }
    assert!(!map.try_set_limit(Limit::least_recently_used(9)).await.unwrap());
    map.clear_limit().await.unwrap();
    java(&mut actor, &on, "fastPut", &["g", "1"]).await;
    assert_eq!(map.len().await.unwrap(), 4);
}

async fn a_map_that_java_deleted_has_no_limit_and_no_lifetimes(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Words::new(&client, &on.name);
    map.set_limit(Limit::least_recently_used(1)).await.unwrap();
    map.set("a", &text("1")).expires_in(HOUR).idle_for(HOUR).await.unwrap();
    assert_eq!(java(&mut actor, &on, "delete", &[]).await, "true");
    assert_eq!((map.limit().await.unwrap(), map.len().await.unwrap()), (None, 0));
    for key in ["a", "b"] {
        java(&mut actor, &on, "fastPut", &[key, "1"]).await;
        assert_eq!(map.lifetime(key).await.unwrap(), Lifetime::Endless);
    }
    assert!(map.object().delete().await.unwrap());
    assert_eq!(java(&mut actor, &on, "readAllMap", &[]).await, "{}");
    let keys = on.observer.keys(&format!("*{}*", on.name)).await.unwrap();
    assert!(keys.is_empty(), "no key is left: {keys:?}");
}

async fn values_of_sets_are_prolonged_and_shortened_by_both(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let set = SetCache::<String, Text>::new(&client, &on.name);
    let mut ask = async |verb: &str, words: &[&str]| {
        actor.value_of(&format!("setCache.{verb}"), &on.name, &[&["string"], words].concat()).await
    };
    let left = async || match set.lifetime("a").await.unwrap() {
        Lifetime::Ends(left) => left.as_secs_f64() / HOUR.as_secs_f64(),
        other => panic!("{other:?}"),
    };
    assert!(set.insert("a").expires_in(HOUR).await.unwrap());
    assert_eq!(ask("addIfGreater", &["a", "1800000"]).await, "false");
    assert_eq!(ask("addIfGreater", &["a", "7200000"]).await, "true");
    assert!(left().await > 1.5);
    assert!(!set.shorten("a").expires_in(3 * HOUR).await.unwrap() && set.shorten("a").expires_in(HOUR).await.unwrap());
    assert_eq!(ask("addIfLess", &["a", "7200000"]).await, "false");
    assert_eq!(ask("addIfLess", &["a", "1200000"]).await, "true");
    assert!(left().await < 0.5);
    assert!(set.prolong("a").expires_in(2 * HOUR).await.unwrap() && left().await > 1.5);
    assert_eq!(ask("addIfExists", &["a", "3600000"]).await, "true");
    assert!(left().await < 1.5 && set.expire("a").expires_in(2 * HOUR).await.unwrap());
    assert_eq!(ask("addIfAbsent", &["a", "1000"]).await, "false");
    assert_eq!(ask("addIfAbsent", &["b", "3600000"]).await, "true");
    assert!(!set.insert_if_absent("b").await.unwrap() && !set.expire("x").expires_in(HOUR).await.unwrap());
    // Both sides insert all values or none.
    assert_eq!(ask("tryAdd", &["3600000", "b", "c"]).await, "false");
    assert_eq!(ask("tryAdd", &["3600000", "c", "d"]).await, "true");
    assert!(!set.try_insert_all(["d", "e"]).await.unwrap() && set.try_insert_all(["e", "f"]).await.unwrap());
    assert_eq!(ask("containsAll", &["a", "b", "c", "d", "e", "f"]).await, "true");
    assert_eq!(set.contains_many(["a", "x", "f"]).await.unwrap(), [true, false, true]);
    assert_eq!(ask("removeAll", &["a", "b", "x"]).await, "true");
    assert_eq!((set.remove_many(["c", "x"]).await.unwrap(), ask("readAll", &[]).await), (1, text("[d, e, f]")));
    assert_eq!((ask("delete", &[]).await, set.len().await.unwrap()), (text("true"), 0));
}

async fn sets_of_kryo_are_read_on_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let set = SetCache::<i64, Kryo>::new(&client, &on.name);
    let mut ask = async |verb: &str, words: &[&str]| {
        actor.value_of(&format!("setCache.{verb}"), &on.name, &[&["kryo"], words].concat()).await
    };
    assert_eq!(set.insert_many(&[1, -2, i64::MAX]).expires_in(HOUR).await.unwrap(), 3);
    assert_eq!(ask("readAll", &[]).await, format!("[-2, 1, {}]", i64::MAX));
    assert_eq!(ask("add", &["long:1", "50"]).await, "false");
    wait_until(SOON, async || !set.contains(&1).await.unwrap()).await;
    assert_eq!(ask("add", &["long:1"]).await, "true");
    let mut all: Vec<i64> = set.stream().try_collect().await.unwrap();
    all.sort_unstable();
    assert_eq!(all, [-2, 1, i64::MAX]);
    assert!(set.remove(&-2).await.unwrap());
    assert_eq!(ask("contains", &["long:-2"]).await, "false");
}
