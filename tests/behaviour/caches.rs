//! Maps and sets with a lifetime for each entry.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use redgrid_cache::{EntryEvent, Events, Lifetime, Limit, MapCache, Notice, ObjectError, codecs::Json};
use redgrid_core::{Client, Code, Failure, ServerError};
use redgrid_keys::Keys;
use redgrid_testkit::{Action, Kind as Connections, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};

pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const ENDS: &str = "redisson__timeout__set:{c}";
pub(super) const IDLES: &str = "redisson__idle__set:{c}";
pub(super) const USES: &str = "redisson__map_cache__last_access__set:{c}";
pub(super) const OPTIONS: &str = "{c}:redisson_options";

pub(super) type Cache = MapCache<String, u32>;

pub(super) async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// Ends the lifetime, or the idle time, of an entry.
pub(super) async fn over(observer: &Observer, set: &str, key: &str) {
    let changed: u64 = observer.query(&["ZADD", set, "XX", "CH", "1000", &format!("\"{key}\"")]).await.unwrap();
    assert_eq!(changed, 1, "{key} is in {set}");
}

pub(super) async fn score(observer: &Observer, set: &str, key: &str) -> Option<f64> {
    observer.query(&["ZSCORE", set, &format!("\"{key}\"")]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_a_map() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    assert!(map.is_empty().await.unwrap() && map.set("a", &1).await.unwrap() && !map.set("a", &2).await.unwrap());
    assert_eq!((map.insert("a", &3).await.unwrap(), map.insert("b", &4).await.unwrap()), (Some(2), None));
    assert_eq!(
        (map.insert_if_absent("a", &9).await.unwrap(), map.insert_if_absent("c", &5).await.unwrap()),
        (Some(3), None)
    );
    assert!(!map.set_if_absent("a", &9).await.unwrap() && map.set_if_absent("d", &6).await.unwrap());
    assert!(map.set_if_exists("a", &7).await.unwrap() && !map.set_if_exists("x", &7).await.unwrap());
    assert_eq!((map.replace("a", &8).await.unwrap(), map.replace("x", &8).await.unwrap()), (Some(7), None));
    assert!(map.compare_and_set("a", &8, &1).await.unwrap() && !map.compare_and_set("a", &8, &2).await.unwrap());
    assert!(!map.compare_and_set("x", &8, &2).await.unwrap());
    assert_eq!(
        (map.get("a").await.unwrap(), map.peek("b").await.unwrap(), map.get("x").await.unwrap()),
        (Some(1), Some(4), None)
    );
    assert_eq!(map.get_many(["d", "x", "a"]).await.unwrap(), [Some(6), None, Some(1)]);
    assert!(map.contains_key("a").await.unwrap() && !map.contains_key("x").await.unwrap());
    assert!(map.contains_value(&6).await.unwrap() && !map.contains_value(&9).await.unwrap());
    assert_eq!(map.update("a", |n| *n += 40).await.unwrap(), Some(41));
    assert_eq!(map.update("x", |n| *n += 1).await.unwrap(), None);
    assert_eq!(map.len().await.unwrap(), 4);
    assert_eq!(sorted(map.keys().try_collect::<Vec<_>>().await.unwrap()), ["a", "b", "c", "d"]);
    assert_eq!(sorted(map.values().try_collect::<Vec<_>>().await.unwrap()), [4, 5, 6, 41]);
    assert_eq!(map.entries().matching("\"a*").try_collect::<Vec<_>>().await.unwrap(), [("a".to_owned(), 41)]);
    assert!(!map.compare_and_remove("a", &1).await.unwrap() && map.compare_and_remove("a", &41).await.unwrap());
    assert_eq!((map.remove("b").await.unwrap(), map.remove("b").await.unwrap()), (Some(4), None));
    assert_eq!(map.remove_many(["c", "x", "d"]).await.unwrap(), 2);
    let many: BTreeMap<String, u32> = (0..1200).map(|n| (format!("k{n}"), n)).collect();
    map.set_many(many.iter().map(|(key, value)| (key.as_str(), value))).expires_in(HOUR).await.unwrap();
    assert_eq!(map.entries().try_collect::<BTreeMap<_, _>>().await.unwrap(), many);
    assert_eq!(observer.query::<u64>(&["ZCARD", ENDS]).await.unwrap(), 1200);
    let keys = many.keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(map.get_many(keys.iter().copied()).await.unwrap().into_iter().flatten().count(), 1200);
    assert_eq!(map.remove_many(keys).await.unwrap(), 1200);
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
    map.set("a", &1).idle_for(HOUR).expires_in(HOUR).await.unwrap();
    map.clear().await.unwrap();
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_above_the_limit_are_evicted_by_use() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    let keys = async || sorted(map.keys().try_collect::<Vec<_>>().await.unwrap());
    map.set_limit(Limit::least_recently_used(3)).await.unwrap();
    assert_eq!(map.limit().await.unwrap(), Some(Limit::least_recently_used(3)));
    assert!(!map.try_set_limit(Limit::least_recently_used(9)).await.unwrap());
    for (at, key) in ["a", "b", "c"].into_iter().enumerate() {
        map.set(key, &1).expires_in(HOUR).idle_for(HOUR).await.unwrap();
        // Uses within the same millisecond have no order, so the test sets distinct times.
        observer.cmd(&["ZADD", USES, &(1000 + at).to_string(), &format!("\"{key}\"")]).await.unwrap();
    }
    assert_eq!(map.get("a").await.unwrap(), Some(1));
    map.set("d", &1).await.unwrap();
    assert_eq!(keys().await, ["a", "c", "d"], "b was used longest ago");
    assert_eq!((score(&observer, ENDS, "b").await, score(&observer, IDLES, "b").await), (None, None));
    observer.cmd(&["ZADD", USES, "2000", "\"d\""]).await.unwrap();
    map.set("c", &2).await.unwrap();
    map.peek("d").await.unwrap();
    map.set("e", &1).await.unwrap();
    assert_eq!(keys().await, ["a", "c", "e"]);
    // With this limit, the entry with the fewest uses is evicted.
    map.clear().await.unwrap();
    assert_eq!(map.limit().await.unwrap(), Some(Limit::least_recently_used(3)), "the limit stays");
    map.set_limit(Limit::least_frequently_used(3)).await.unwrap();
    for (key, uses) in [("a", 3), ("b", 1), ("c", 2)] {
        map.set(key, &1).await.unwrap();
        for _ in 0..uses {
            map.get(key).await.unwrap();
        }
    }
    map.set("d", &1).await.unwrap();
    assert_eq!(keys().await, ["a", "c", "d"], "b was used least");
    map.set_limit(Limit::least_frequently_used(1)).await.unwrap();
    assert_eq!(keys().await, ["a"], "at once");
    map.clear_limit().await.unwrap();
    assert_eq!((map.limit().await.unwrap(), observer.exists(USES).await.unwrap()), (None, false));
    // Entries that are older than the limit are evicted too.
    for n in 0..10 {
        map.set(&format!("k{n}"), &n).await.unwrap();
    }
    map.set_limit(Limit::least_recently_used(4)).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 4);
    assert!(map.try_set_limit(Limit::least_recently_used(9)).await.is_ok_and(|set| !set));
    for (limit, got) in [(0, "0"), (u32::MAX, "4294967295")] {
        let told = map.set_limit(Limit::least_recently_used(limit)).await.unwrap_err();
        assert!(told.to_string().contains(&format!("expected 1 to 2147483647 entries, got {got}")), "{told}");
    }
}

pub(super) async fn next(events: &mut Events<String, u32, Json, Json>) -> Notice<String, u32> {
    tokio::time::timeout(SOON, events.next()).await.expect("an item in time").expect("the client lives")
}

async fn event(events: &mut Events<String, u32, Json, Json>) -> EntryEvent<String, u32> {
    match next(events).await {
        Notice::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entry_events_and_gaps_are_delivered() {
    let (server, client, observer) = ready().await;
    let other = redgrid_tests::client(&server).await;
    let (map, there): (Cache, Cache) = (MapCache::new(&client, "c"), MapCache::new(&other, "c"));
    let mut events = map.events().begin().await.unwrap();
    let key = |key: &str| key.to_owned();
    there.set("a", &1).expires_in(HOUR).await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Created { key: key("a"), value: 1 });
    there.set_if_exists("a", &2).await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Updated { key: key("a"), value: 2, was: 1 });
    over(&observer, ENDS, "a").await;
    there.get("b").await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Expired { key: key("a"), value: 2 });
    there.set("b", &3).await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Created { key: key("b"), value: 3 });
    there.remove("b").await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Removed { key: key("b"), value: 3 });
    there.set_limit(Limit::least_recently_used(1)).await.unwrap();
    there.set("c", &4).await.unwrap();
    there.set("d", &5).await.unwrap();
    assert_eq!(event(&mut events).await, EntryEvent::Created { key: key("c"), value: 4 });
    let both = [event(&mut events).await, event(&mut events).await];
    assert!(both.contains(&EntryEvent::Removed { key: key("c"), value: 4 }), "{both:?}");
    assert!(both.contains(&EntryEvent::Created { key: key("d"), value: 5 }), "{both:?}");
    // Invalid messages are reported as errors, and later messages are received.
    observer.cmd(&["PUBLISH", "redisson_map_cache_created:{c}", "x"]).await.unwrap();
    assert!(matches!(next(&mut events).await, Notice::Unreadable(ObjectError::Unexpected { .. })));
    // A lost connection is reported as a gap.
    server.kill_connections(Connections::PubSub).await.unwrap();
    assert!(matches!(next(&mut events).await, Notice::Gap));
    wait_until(SOON, async || {
        there.set("e", &6).await.unwrap();
        matches!(tokio::time::timeout(Duration::from_millis(500), events.next()).await, Ok(Some(Notice::Event(_))))
    })
    .await;
    drop(events);
    wait_until(SOON, async || observer.pubsub_channels("redisson_map_cache*").await.unwrap().is_empty()).await;
    // A slow reader is notified of the number of missed events.
    let mut slow = map.events().buffer(1).begin().await.unwrap();
    wait_until(SOON, async || {
        // More events arrive than are read.
        for value in 0..20 {
            there.set_if_exists("e", &value).await.unwrap();
        }
        matches!(next(&mut slow).await, Notice::Missed(_))
    })
    .await;
    let told = map.events().buffer(0).begin().await.unwrap_err();
    assert!(told.to_string().contains("1 to 1048576 messages"));
}

#[tokio::test(flavor = "multi_thread")]
async fn companion_keys_follow_their_map() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set_limit(Limit::least_recently_used(100)).await.unwrap();
    map.set("a", &1).expires_in(HOUR).idle_for(HOUR).await.unwrap();
    assert_eq!(observer.query::<u64>(&["EXISTS", "c", ENDS, IDLES, USES, OPTIONS]).await.unwrap(), 5);
    map.object().rename("{c}:new").await.unwrap();
    let renamed: Cache = MapCache::new(&client, "{c}:new");
    assert_eq!((renamed.get("a").await.unwrap(), renamed.limit().await.unwrap().is_some()), (Some(1), true));
    assert!(matches!(renamed.lifetime("a").await.unwrap(), Lifetime::Ends(_)));
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 5);
    assert_eq!(Keys::new(&client).delete(["{c}:new"]).await.unwrap(), 1);
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
    // An entry added to a map that has a lifetime expires with the map.
    map.set("a", &1).await.unwrap();
    assert!(map.object().expire_in(HOUR).await.unwrap());
    map.set("b", &1).expires_in(2 * HOUR).idle_for(2 * HOUR).await.unwrap();
    map.set_limit(Limit::least_frequently_used(100)).await.unwrap();
    map.get("a").await.unwrap();
    for key in ["c", ENDS, IDLES, USES, OPTIONS] {
        assert!(observer.time_to_live(key).await.unwrap().is_some(), "{key} ends");
    }
    // Redisson's lease of a key ends when another client writes the key.
    for written in [true, false] {
        observer.cmd(&["SET", "redisson__map__lease:{c}:\"a\"", "x", "PX", "60000"]).await.unwrap();
        if written {
            map.set("a", &1).await.map(drop).unwrap()
        } else {
            map.remove("a").await.map(drop).unwrap()
        }
        assert!(!observer.exists("redisson__map__lease:{c}:\"a\"").await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_several_clients_are_all_counted() {
    let (server, client, observer) = ready().await;
    let other = redgrid_tests::client(&server).await;
    let map: Cache = MapCache::new(&client, "c");
    map.set("a", &0).expires_in(HOUR).await.unwrap();
    let end = score(&observer, ENDS, "a").await;
    let count = |client: &Client| {
        let map: Cache = MapCache::new(client, "c");
        async move {
            for _ in 0..30 {
                map.update("a", |n| *n += 1).await.unwrap();
            }
        }
    };
    tokio::join!(count(&client), count(&other), count(&other));
    assert_eq!((map.get("a").await.unwrap(), score(&observer, ENDS, "a").await), (Some(90), end));
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_calls_change_nothing_and_lost_replies_are_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let url = server.url_via(proxy.addr());
    let client = client_with(&url, |config| config.response_timeout(Duration::from_millis(500))).await;
    let map: Cache = MapCache::new(&client, "c");
    map.set("a", &1).expires_in(HOUR).await.unwrap();
    let end = score(&observer, ENDS, "a").await;
    let wrong = |told: &ObjectError| {
        matches!(
            told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::WrongType, .. }, .. })
        )
    };
    for key in [IDLES, USES] {
        observer.cmd(&["SET", key, "x"]).await.unwrap();
        observer.cmd(&["HSET", OPTIONS, "max-size", "5"]).await.unwrap();
        for told in [
            map.set("a", &2).idle_for(HOUR).await.map(drop),
            map.set("b", &2).await.map(drop),
            map.remove("a").await.map(drop),
            map.get("a").await.map(drop),
            map.expire(["a"]).await.map(drop),
        ] {
            assert!(wrong(told.as_ref().unwrap_err()), "{told:?}");
        }
        observer.cmd(&["DEL", key, OPTIONS]).await.unwrap();
        assert_eq!((map.get("a").await.unwrap(), map.get("b").await.unwrap()), (Some(1), None));
        assert_eq!(score(&observer, ENDS, "a").await, end);
    }
    // A plain hash is rejected.
    observer.cmd(&["HSET", "plain", "\"a\"", "1"]).await.unwrap();
    let plain: Cache = MapCache::new(&client, "plain");
    for told in [plain.get("a").await.map(drop), plain.set("a", &2).await.map(drop)] {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{told:?}");
    }
    assert_eq!(observer.query::<String>(&["HGET", "plain", "\"a\""]).await.unwrap(), "1");
    for (told, wrong) in [
        (map.set("a", &1).expires_in(Duration::ZERO).await.map(drop), "lifetime"),
        (map.set("a", &1).expires_in(HOUR).idle_for(Duration::from_micros(10)).await.map(drop), "idle time"),
        (map.expire(["a"]).expires_in(Duration::MAX).await.map(drop), "lifetime"),
        (map.set("a", &1).expires_at(SystemTime::UNIX_EPOCH - HOUR).await.map(drop), "lifetime"),
    ] {
        assert!(
            matches!(told, Err(ObjectError::Failed(Failure::InvalidArgument { option, .. })) if option == wrong),
            "{told:?}"
        );
    }
    let unnamed: Cache = MapCache::new(&client, "a{b");
    assert!(matches!(unnamed.set("a", &1).await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    // An undecodable entry yields one error, and the stream continues after it.
    let texts: MapCache<String, String> = MapCache::new(&client, "c");
    texts.set("b", &"text".to_owned()).await.unwrap();
    assert!(matches!(map.get("b").await, Err(ObjectError::Decode { .. })));
    let (mut entries, mut read) = (map.entries(), Vec::new());
    while let Some(entry) = entries.try_next().await.unwrap_or(Some(("?".into(), 0))) {
        read.push(entry.0);
    }
    assert_eq!(sorted(read), ["?", "a"]);
    // The reply to a change is lost.
    let put = concat!(
        include_str!("../../crates/redgrid-cache/src/scripts/packed.lua"),
        include_str!("../../crates/redgrid-cache/src/scripts/put.lua")
    );
    proxy.next(1, sha(put), Action::SwallowReply);
    assert!(matches!(map.set("d", &5).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(map.get("d").await.unwrap(), Some(5), "executed, and reported as unknown");
}
