//! Maps with several values and a lifetime for each key.

use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use redgrid_core::{Client, Failure};
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{
    Lifetime, Lifetimes, ListMultimapCache, Multimap, NativeListMultimapCache, NativeSetMultimapCache, ObjectError,
    SetMultimap, SetMultimapCache,
};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};

const HOUR: Duration = Duration::from_secs(3600);
const ENDS: &str = "{m}:redisson_set_multimap_ttl";
const INSERT: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/key_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/insert.lua")
);

const REMOVE_KEYS: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/key_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/remove_keys.lua")
);

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// Lets the lifetime of a key end.
async fn over(observer: &Observer, set: &str, key: &str) {
    let changed: u64 = observer.query(&["ZADD", set, "XX", "CH", "1000", key]).await.unwrap();
    assert_eq!(changed, 1, "{key} is in {set}");
}

async fn keys_of(observer: &Observer) -> Vec<String> {
    sorted(observer.query(&["KEYS", "*"]).await.unwrap())
}

/// Checks the rules of lifetimes that every kind of map has.
async fn lives<Y: Lifetimes>(map: &Multimap<String, u32, Json, Json, Y>, observer: &Observer) {
    let left = async |key: &str| map.key_lifetime(key).await.unwrap();
    let ends = async |key: &str| matches!(left(key).await, Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2);
    assert_eq!((left("a").await, map.expire_key("a", HOUR).await.unwrap()), (Lifetime::Absent, false));
    map.insert_many("a", &[1, 2]).await.unwrap();
    assert_eq!(left("a").await, Lifetime::Endless);
    assert!(map.expire_key("a", HOUR).await.unwrap() && ends("a").await);
    map.insert("a", &3).await.unwrap();
    assert!(ends("a").await, "more values keep the lifetime");
    assert_eq!((sorted(map.replace_all("a", &[4, 5]).await.unwrap()), ends("a").await), (vec![1, 2, 3], true));
    assert!(map.remove("a", &4).await.unwrap() && ends("a").await);
    assert!(map.persist_key("a").await.unwrap() && left("a").await == Lifetime::Endless);
    assert!(!map.persist_key("x").await.unwrap());
    assert!(map.expire_key_at("a", SystemTime::now() + HOUR).await.unwrap() && ends("a").await);
    // A removed key has no lifetime when it is inserted again, whatever removed it.
    for how in 0..4 {
        match how {
            0 => assert!(map.remove("a", &5).await.unwrap()),
            1 => assert_eq!(map.remove_all("a").await.unwrap(), [6]),
            2 => assert_eq!(map.remove_keys(["a"]).await.unwrap(), 1),
            _ => assert_eq!(map.clear().await.unwrap(), 1),
        }
        assert_eq!(keys_of(observer).await, [""; 0], "{how}");
        map.insert("a", &6).await.unwrap();
        assert_eq!(left("a").await, Lifetime::Endless, "{how}");
        assert!(map.expire_key("a", HOUR).await.unwrap());
    }
    // One of two keys expires.
    map.insert("b", &7).await.unwrap();
    assert!(map.expire_key("a", Duration::from_millis(20)).await.unwrap());
    wait_until(SOON, async || map.get_all("a").await.unwrap().is_empty()).await;
    wait_until(SOON, async || map.key_len().await.unwrap() == 1).await;
    assert!(!map.contains_key("a").await.unwrap() && !map.contains_entry("a", &6).await.unwrap());
    assert_eq!((map.values_len("a").await.unwrap(), left("a").await), (0, Lifetime::Absent));
    assert_eq!((map.len().await.unwrap(), map.read_all_keys().await.unwrap()), (1, vec!["b".to_owned()]));
    assert_eq!(map.entries().try_collect::<Vec<_>>().await.unwrap(), [("b".to_owned(), 7)]);
    assert!(!map.expire_key("a", HOUR).await.unwrap() && !map.contains_value(&6).await.unwrap());
    assert!(map.expire_key_at("b", SystemTime::UNIX_EPOCH).await.unwrap(), "the key existed");
    wait_until(SOON, async || map.is_empty().await.unwrap()).await;
    wait_until(SOON, async || keys_of(observer).await.is_empty()).await;
    let told = map.expire_key("b", Duration::ZERO).await.unwrap_err();
    assert!(told.to_string().contains("lifetime"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_live_as_long_as_they_are_to() {
    let (_server, client, observer) = ready().await;
    lives(&SetMultimapCache::<String, u32>::new(&client, "m"), &observer).await;
    lives(&ListMultimapCache::<String, u32>::new(&client, "m"), &observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_expires_fields_expires_keys() {
    let Some(newest) = ServerBinary::newest_or_skip("a_server_that_expires_fields_expires_keys") else { return };
    let server = RedisServer::builder().binary(newest).start().await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    lives(&NativeSetMultimapCache::<String, u32>::new(&client, "m"), &observer).await;
    lives(&NativeListMultimapCache::<String, u32>::new(&client, "m"), &observer).await;
    let beyond = SystemTime::UNIX_EPOCH + Duration::from_millis(1 << 46);
    let map = NativeSetMultimapCache::<String, u32>::new(&client, "m");
    assert!(matches!(map.expire_key_at("a", beyond).await, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))));
    // If a key with a lifetime gets new values, these have the lifetime, too.
    map.insert("a", &1).await.unwrap();
    map.expire_key("a", HOUR).await.unwrap();
    let values = keys_of(&observer).await.into_iter().find(|key| key.starts_with('{')).unwrap();
    observer.cmd(&["DEL", &values]).await.unwrap();
    map.insert("a", &2).await.unwrap();
    assert!(observer.query::<i64>(&["PTTL", &values]).await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_field_lifetimes_is_an_error() {
    let (_server, client, observer) = ready().await;
    let knows: u64 = observer
        .query(&["EVAL", "return #redis.call('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', 'hpexpire')", "0"])
        .await
        .unwrap();
    let map = NativeSetMultimapCache::<String, u32>::new(&client, "m");
    map.insert_many("a", &[1, 2]).await.unwrap();
    if knows > 0 {
        return assert!(map.expire_key("a", HOUR).await.unwrap());
    }
    assert!(map.remove("a", &1).await.unwrap(), "the rest is there");
    for told in [
        map.expire_key("a", HOUR).await.map(drop),
        map.persist_key("a").await.map(drop),
        map.key_lifetime("a").await.map(drop),
    ] {
        assert!(matches!(told, Err(ObjectError::Unsupported { .. })), "{told:?}");
    }
    assert_eq!(map.get_all("a").await.unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_keys_are_absent_and_removed_by_changes() {
    let (_server, client, observer) = ready().await;
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    let fill = async || {
        for key in 0..60 {
            map.insert_many(&format!("k{key}"), &[key, 100]).await.unwrap();
            map.expire_key(&format!("k{key}"), HOUR).await.unwrap();
        }
        map.insert("on", &7).await.unwrap();
        for key in 0..60 {
            over(&observer, ENDS, &format!("\"k{key}\"")).await;
        }
    };
    fill().await;
    let all = observer.query::<u64>(&["DBSIZE"]).await.unwrap();
    assert_eq!(all, 63, "the map, 61 values, the lifetimes");
    // Reads neither see nor remove expired entries.
    assert!(map.get_all("k1").await.unwrap().is_empty() && !map.contains_key("k1").await.unwrap());
    assert!(!map.contains_entry("k1", &1).await.unwrap() && !map.contains_value(&100).await.unwrap());
    assert_eq!((map.values_len("k1").await.unwrap(), map.len().await.unwrap()), (0, 1));
    assert_eq!(map.keys().try_collect::<Vec<String>>().await.unwrap(), ["on"]);
    assert_eq!(map.read_all_keys().await.unwrap(), ["on"]);
    assert_eq!(map.values().try_collect::<Vec<_>>().await.unwrap(), [7]);
    assert!(!map.remove("k1", &1).await.unwrap() && map.remove_all("k2").await.unwrap().is_empty());
    assert_eq!((map.remove_keys(["k3"]).await.unwrap(), map.replace_all("k4", &[5]).await.unwrap()), (0, vec![]));
    assert_eq!(map.key_lifetime("k4").await.unwrap(), Lifetime::Endless, "a new key");
    map.remove_all("k4").await.unwrap();
    // Each change removes some expired keys.
    for _ in 0..3 {
        map.insert("on", &8).await.unwrap();
    }
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 2, "the map and the values of one key");
    fill().await;
    assert!(map.insert("k1", &9).await.unwrap(), "as a new key");
    assert_eq!((map.get_all("k1").await.unwrap(), map.key_lifetime("k1").await.unwrap()), (vec![9], Lifetime::Endless));
    assert_eq!((map.key_len().await.unwrap(), observer.query::<u64>(&["DBSIZE"]).await.unwrap()), (2, 3));
    // A leftover lifetime of a removed key does not apply when the key is inserted again.
    observer.cmd(&["ZADD", ENDS, "1000", "\"new\""]).await.unwrap();
    map.insert("new", &1).await.unwrap();
    assert_eq!(map.get_all("new").await.unwrap(), [1]);
    observer.cmd(&["ZADD", ENDS, "99999999999999", "\"other\""]).await.unwrap();
    map.set_all("other", &[1]).await.unwrap();
    observer.cmd(&["ZADD", ENDS, "99999999999999", "\"more\""]).await.unwrap();
    map.insert("more", &1).await.unwrap();
    for key in ["other", "more"] {
        assert_eq!(map.key_lifetime(key).await.unwrap(), Lifetime::Endless, "{key}");
    }
    // A plain map of that name ignores lifetimes.
    map.expire_key("new", HOUR).await.unwrap();
    over(&observer, ENDS, "\"new\"").await;
    assert_eq!(SetMultimap::<String, u32>::new(&client, "m").get_all("new").await.unwrap(), [1]);
    assert!(map.get_all("new").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_lost_reply_is_made_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (client, url) = (client(&server).await, server.url_via(proxy.addr()));
    let map = ListMultimapCache::<String, u32>::new(&client, "m");
    map.insert("a", &1).await.unwrap();
    map.expire_key("a", HOUR).await.unwrap();
    let hasty = client_with(&url, |config| config.response_timeout(Duration::from_secs(2))).await;
    let hasty = ListMultimapCache::<String, u32>::new(&hasty, "m");
    proxy.next(1, sha(INSERT), Action::SwallowReply);
    assert!(matches!(hasty.insert("a", &2).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(map.get_all("a").await.unwrap(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_inserted_again_before_its_removal_stays() {
    let (server, client, observer) = ready().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    for key in ["a", "b"] {
        map.insert(key, &1).await.unwrap();
        map.expire_key(key, HOUR).await.unwrap();
    }
    for key in ["a", "b"] {
        over(&observer, ENDS, &format!("\"{key}\"")).await;
    }
    let through =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(20))).await;
    let theirs = SetMultimapCache::<String, u32>::new(&through, "m");
    proxy.next(1, sha(REMOVE_KEYS), Action::Hold);
    let inserted = tokio::spawn(async move { theirs.insert("on", &1).await });
    wait_until(SOON, async || proxy.counts().held > 0).await;
    assert!(map.insert("a", &2).await.unwrap() && map.expire_key("a", HOUR).await.unwrap());
    proxy.release_held().await;
    assert!(inserted.await.unwrap().unwrap());
    wait_until(SOON, async || observer.query::<u64>(&["ZCARD", ENDS]).await.unwrap() == 1).await;
    assert_eq!((map.get_all("a").await.unwrap(), map.key_len().await.unwrap()), (vec![2], 2));
}

/// Returns the calls that are refused to a user without this command. Checks that they change
/// nothing.
async fn refused_without(denied: &str) -> Vec<&'static str> {
    let (server, client, observer) = ready().await;
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    observer.cmd(&["ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", denied]).await.unwrap();
    let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
    let theirs = SetMultimapCache::<String, u32>::new(&half, "m");
    let mut refused = Vec::new();
    for call in ["insert", "over", "remove", "remove_keys", "replace_all", "expire"] {
        observer.cmd(&["FLUSHDB"]).await.unwrap();
        map.insert_many("a", &[1, 2]).await.unwrap();
        map.insert("b", &3).await.unwrap();
        map.insert("c", &4).await.unwrap();
        map.expire_key("a", HOUR).await.unwrap();
        map.expire_key("b", HOUR).await.unwrap();
        over(&observer, ENDS, "\"b\"").await;
        let told = match call {
            "insert" => theirs.insert("a", &7).await.map(drop),
            "over" => theirs.insert("b", &7).await.map(drop),
            "remove" => theirs.remove("c", &4).await.map(drop),
            "remove_keys" => theirs.remove_keys(["a"]).await.map(drop),
            "replace_all" => theirs.replace_all("a", &[8]).await.map(drop),
            _ => theirs.expire_key("c", HOUR).await.map(drop),
        };
        match told {
            Ok(()) => {}
            Err(ObjectError::Failed(Failure::Refused { .. })) => {
                refused.push(call);
                assert_eq!(sorted(map.get_all("a").await.unwrap()), [1, 2], "{call} {denied}");
                assert_eq!(map.get_all("b").await.unwrap(), [0; 0], "{call} {denied}: not revived");
                assert_eq!(map.get_all("c").await.unwrap(), [4], "{call} {denied}");
                assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 5, "{call} {denied}");
            }
            Err(other) => panic!("{call} {denied}: {other:?}"),
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_to_expire_nothing_is_changed() {
    let (_server, _client, observer) = ready().await;
    if observer.query::<u64>(&["EVAL", "return redis.acl_check_cmd and 1 or 0", "0"]).await.unwrap() == 0 {
        // A script cannot query the permissions of its user: docs/operating/acl.md describes the
        // consequences.
        return;
    }
    let all = ["insert", "over", "remove", "remove_keys", "replace_all", "expire"];
    for denied in ["-zrem", "-unlink", "-hdel"] {
        assert_eq!(refused_without(denied).await, all, "{denied}");
    }
    assert_eq!(refused_without("-zadd").await, ["expire"]);
    assert_eq!(refused_without("-sadd").await, ["insert", "over", "replace_all"]);
}
