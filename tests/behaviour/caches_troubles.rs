//! Partial states of caches: lost flags, maps with a lifetime, users with a part of the
//! permissions, more entries than one call handles.

use std::time::{Duration, SystemTime};

use redgrid_cache::{EntryEvent, Events, Limit, MapCache, NativeMapCache, Notice, ObjectError, SetCache, codecs::Json};
use redgrid_core::{Code, Failure, ServerError};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client_with};

use super::caches::{Cache, ENDS, HOUR, IDLES, OPTIONS, USES, next, ready};

/// Whether the server supports lifetimes of fields.
async fn supports_field_lifetimes(observer: &Observer) -> bool {
    let script = "return #redis.call('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', 'hpexpire')";
    observer.query::<u64>(&["EVAL", script, "0"]).await.unwrap() > 0
}

async fn gap(events: &mut Events<String, u32, Json, Json>) {
    while !matches!(next(events).await, Notice::Gap) {}
}

/// Checks that the next event is this one; only gaps may precede it.
async fn created(events: &mut Events<String, u32, Json, Json>, new: &str) {
    loop {
        match next(events).await {
            Notice::Event(EntryEvent::Created { key, .. }) if key == new => return,
            Notice::Gap => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_map_replaces_on_every_server() {
    let (_server, client, _observer) = ready().await;
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&client, "n");
    map.set("a", &1).await.unwrap();
    assert_eq!(map.replace("a", &2).await.unwrap(), Some(1));
    assert!(map.set_if_exists("a", &3).await.unwrap() && !map.set_if_exists("x", &3).await.unwrap());
    assert!(map.compare_and_set("a", &3, &4).await.unwrap() && !map.compare_and_set("a", &3, &5).await.unwrap());
    assert_eq!(map.update("a", |n| *n += 1).await.unwrap(), Some(5));
    map.set("a", &6).keep_lifetime().await.unwrap();
    map.set("b", &7).keep_lifetime().await.unwrap();
    assert_eq!(map.get_many(["a", "b", "x"]).await.unwrap(), [Some(6), Some(7), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_map_rejects_ends_that_servers_reject() {
    let (_server, client, observer) = ready().await;
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&client, "n");
    map.set("a", &1).await.unwrap();
    let far = SystemTime::UNIX_EPOCH + Duration::from_millis(70_368_744_177_664);
    let other: Cache = MapCache::new(&client, "c");
    for told in [map.set("a", &2).expires_at(far).await.map(drop), map.expire(["a"]).expires_at(far).await.map(drop)] {
        let told = told.unwrap_err();
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "lifetime", .. })), "{told:?}");
        assert!(told.to_string().contains("4199"), "{told}");
    }
    assert!(other.set("a", &2).expires_at(far).await.unwrap(), "a packed map accepts it");
    let last = far - Duration::from_millis(1);
    if supports_field_lifetimes(&observer).await {
        assert!(!map.set("a", &3).expires_at(last).await.unwrap());
    }
}

/// If the user may set fields and read their lifetimes, but not set lifetimes, the map stays
/// unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_native_map_without_permissions_is_unchanged() {
    let (server, client, observer) = ready().await;
    if !supports_field_lifetimes(&observer).await {
        return;
    }
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&client, "n");
    map.set("a", &1).expires_in(HOUR).await.unwrap();
    map.set("c", &1).await.unwrap();
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-hpexpire", "-hpexpireat"];
    observer.cmd(&[&["ACL", "SETUSER", "half"], &rules[..]].concat()).await.unwrap();
    let half = client_with(&server.url_for("half", "secret"), |config| config).await;
    let there: NativeMapCache<String, u32> = NativeMapCache::new(&half, "n");
    let at = SystemTime::now() + HOUR;
    for told in [
        there.set("a", &2).expires_in(HOUR).await.map(drop),
        there.set("b", &2).expires_at(at).await.map(drop),
        there.replace("a", &2).await.map(drop),
    ] {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{told:?}");
        assert_eq!(map.get_many(["a", "b"]).await.unwrap(), [Some(1), None]);
        // Valkey and Redis both report milliseconds.
        let left: Vec<i64> = observer.query(&["HPTTL", "n", "FIELDS", "1", "\"a\""]).await.unwrap();
        assert!(left[0] == -1 || left[0] > 1_800_000, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_get_events_after_the_map_was_deleted() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set("a", &1).await.unwrap();
    let mut events = map.events().begin().await.unwrap();
    map.object().delete().await.unwrap();
    assert!(!observer.exists(OPTIONS).await.unwrap());
    gap(&mut events).await;
    map.set("b", &1).await.unwrap();
    created(&mut events, "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_resume_after_a_server_lost_all() {
    let (server, client, _observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    let mut events = map.events().begin().await.unwrap();
    map.set("a", &1).await.unwrap();
    created(&mut events, "a").await;
    server.restart_empty().await.unwrap();
    // Events after a gap are received without another poll of the server.
    gap(&mut events).await;
    client.wait_ready(SOON).await.unwrap();
    let mut n = 0;
    wait_until(SOON, async || {
        n += 1;
        map.set(&format!("b{n}"), &1).await.is_ok()
    })
    .await;
    created(&mut events, &format!("b{n}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_map_has_no_lifetime_of_a_former_one() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    for how in ["remove", "clear", "expired"] {
        map.set_limit(Limit::least_recently_used(3)).await.unwrap();
        map.set("a", &1).expires_in(2 * HOUR).idle_for(2 * HOUR).await.unwrap();
        assert!(map.object().expire_in(HOUR).await.unwrap());
        map.get("a").await.unwrap();
        match how {
            "remove" => map.remove("a").await.map(drop).unwrap(),
            "clear" => map.clear().await.unwrap(),
            _ => {
                observer.cmd(&["ZADD", ENDS, "XX", "1000", "\"a\""]).await.unwrap();
                assert_eq!(map.get("a").await.unwrap(), None);
            }
        }
        assert_eq!(observer.query::<i64>(&["PTTL", OPTIONS]).await.unwrap(), -1, "the limit stays: {how}");
        map.set("b", &1).expires_in(HOUR).idle_for(HOUR).await.unwrap();
        for key in ["c", ENDS, IDLES, USES, OPTIONS] {
            assert_eq!(observer.query::<i64>(&["PTTL", key]).await.unwrap(), -1, "{key}: {how}");
        }
        map.object().delete().await.unwrap();
    }
    // Redisson's `expire` adds an entry to the sets of lifetimes.
    map.set("a", &1).await.unwrap();
    for set in [ENDS, IDLES] {
        observer.cmd(&["ZADD", set, "92233720368547758", "redisson__expiretag"]).await.unwrap();
    }
    for key in ["c", ENDS, IDLES] {
        observer.cmd(&["PEXPIRE", key, "3600000"]).await.unwrap();
    }
    map.set("a", &2).await.unwrap();
    assert_eq!(observer.query::<u64>(&["EXISTS", ENDS, IDLES]).await.unwrap(), 2, "while the map has a lifetime");
    map.remove("a").await.unwrap();
    map.set("b", &1).expires_in(HOUR).await.unwrap();
    assert_eq!(observer.query::<i64>(&["PTTL", ENDS]).await.unwrap(), -1, "the set of lifetimes does not expire");
    assert_eq!(observer.query::<Vec<String>>(&["ZRANGE", ENDS, "0", "-1"]).await.unwrap(), ["\"b\""]);
    map.remove("b").await.unwrap();
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "nothing is left");
    // A new subscription does not leave a key for a map that expires.
    map.set("a", &1).await.unwrap();
    assert!(map.object().expire_in(HOUR).await.unwrap());
    drop(map.events().begin().await.unwrap());
    assert!(observer.time_to_live(OPTIONS).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_type_is_reported_before_any_write() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set("a", &1).await.unwrap();
    for key in [ENDS, IDLES, USES] {
        observer.cmd(&["SET", key, "x"]).await.unwrap();
        for told in [
            map.set("a", &2).await.map(drop),
            map.set("b", &2).expires_in(HOUR).await.map(drop),
            map.remove("a").await.map(drop),
            map.expire(["a"]).expires_in(HOUR).await.map(drop),
            map.set_limit(Limit::least_recently_used(3)).await,
        ] {
            let wrong = matches!(
                &told,
                Err(ObjectError::Failed(Failure::Refused {
                    source: ServerError::Refused { code: Code::WrongType, .. },
                    ..
                }))
            );
            assert!(wrong, "{key}: {told:?}");
        }
        observer.cmd(&["DEL", key]).await.unwrap();
        assert_eq!(observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap(), ["c"]);
        assert_eq!((map.get("a").await.unwrap(), map.len().await.unwrap()), (Some(1), 1));
    }
}

/// If only a part of a change is permitted, nothing is changed. From Redis 7.0 on, a script can
/// query the permissions of a user.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_some_of_the_permissions_changes_nothing() {
    let (server, client, observer) = ready().await;
    let asks = "return redis.acl_check_cmd and 1 or 0";
    if observer.query::<u64>(&["EVAL", asks, "0"]).await.unwrap() == 0 {
        return;
    }
    let map: Cache = MapCache::new(&client, "c");
    map.set_limit(Limit::least_frequently_used(2)).await.unwrap();
    map.set("a", &1).expires_in(HOUR).await.unwrap();
    map.set("z", &1).await.unwrap();
    let state = async || {
        let mut all: Vec<Vec<String>> = vec![observer.query(&["HGETALL", OPTIONS]).await.unwrap()];
        all.push(observer.query(&["HKEYS", "c"]).await.unwrap());
        for set in [ENDS, IDLES, USES] {
            all.push(observer.query(&["ZRANGE", set, "0", "-1", "WITHSCORES"]).await.unwrap());
        }
        all
    };
    let before = state().await;
    for without in ["hset", "hdel", "zadd", "zrem", "zincrby", "zrange", "hrandfield", "hlen", "pexpire", "persist"] {
        let rules = ["reset", "on", ">secret", "~*", "&*", "+@all", &format!("-{without}")];
        observer.cmd(&[&["ACL", "SETUSER", "half"], &rules[..]].concat()).await.unwrap();
        let half = client_with(&server.url_for("half", "secret"), |config| config).await;
        let there: Cache = MapCache::new(&half, "c");
        for told in [
            there.set("b", &2).await.map(drop),
            there.set("a", &2).idle_for(HOUR).await.map(drop),
            there.remove("a").await.map(drop),
            there.expire(["a"]).await.map(drop),
        ] {
            assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "without {without}: {told:?}");
            assert_eq!(state().await, before, "without {without}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_counted_once() {
    let (_server, client, _observer) = ready().await;
    let set: SetCache<u32> = SetCache::new(&client, "s");
    assert_eq!(set.insert_many(&[5, 5, 6]).await.unwrap(), 2);
    assert_eq!(set.insert_many(&[5, 7, 7]).await.unwrap(), 1);
    assert!(set.try_insert_all(&[8, 8]).await.unwrap() && set.len().await.unwrap() == 4);
    let map: Cache = MapCache::new(&client, "c");
    map.set("a", &1).await.unwrap();
    assert_eq!(map.expire(["a", "a", "x"]).expires_in(HOUR).await.unwrap(), 1);
}

/// Inserts keys, and lets the first `over` of them expire.
async fn fill(map: &Cache, observer: &Observer, keys: u32, over: u32) {
    let keys: Vec<String> = (0..keys).map(|n| format!("k{n}")).collect();
    map.set_many(keys.iter().map(|key| (key.as_str(), &1))).expires_in(HOUR).await.unwrap();
    for key in keys.iter().take(over as usize) {
        observer.cmd(&["ZADD", ENDS, "XX", "1000", &format!("\"{key}\"")]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_entry_displaces_no_other() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set_limit(Limit::least_recently_used(500)).await.unwrap();
    fill(&map, &observer, 500, 250).await;
    let new: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
    map.set_many(new.iter().map(|key| (key.as_str(), &1))).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 450, "all entries that have not expired");
    // A limit also removes expired entries first.
    map.clear().await.unwrap();
    fill(&map, &observer, 300, 150).await;
    map.set_limit(Limit::least_recently_used(150)).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_removes_at_most_a_hundred_more_than_it_adds() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    fill(&map, &observer, 2000, 0).await;
    map.set_limit(Limit::least_recently_used(10)).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 1900);
    let new: Vec<String> = (0..50).map(|n| format!("n{n}")).collect();
    map.set_many(new.iter().map(|key| (key.as_str(), &1))).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 1800);
    for _ in 0..20 {
        map.set("n0", &1).await.unwrap();
    }
    assert_eq!(map.len().await.unwrap(), 10);
    assert!(map.contains_key("n0").await.unwrap(), "the newest entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_limit_leaves_nothing_behind() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set_limit(Limit::least_frequently_used(3)).await.unwrap();
    map.set("a", &1).await.unwrap();
    map.clear_limit().await.unwrap();
    assert!(map.limit().await.unwrap().is_none());
    map.clear().await.unwrap();
    assert_eq!(observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replacing_an_expired_entry_resets_its_use() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    map.set_limit(Limit::least_frequently_used(1000)).await.unwrap();
    // More entries than one call removes, so the last expired one is still stored.
    fill(&map, &observer, 250, 0).await;
    for _ in 0..3 {
        map.get("k99").await.unwrap();
    }
    for n in 0..250 {
        observer.cmd(&["ZADD", ENDS, "XX", "1000", &format!("\"k{n}\"")]).await.unwrap();
    }
    observer.cmd(&["ZADD", ENDS, "XX", "2000", "\"k99\""]).await.unwrap();
    assert!(map.set("k99", &2).await.unwrap(), "a new entry");
    assert_eq!(observer.query::<f64>(&["ZSCORE", USES, "\"k99\""]).await.unwrap(), 1.0);
}
