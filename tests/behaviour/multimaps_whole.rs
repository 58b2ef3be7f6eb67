//! Multimaps as objects: lifetimes, renames, sizes, and their keys.

use std::time::{Duration, SystemTime};

use redgrid_core::object::ExpireCondition;
use redgrid_core::{Client, Failure};
use redgrid_keys::Keys;
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{
    Kind, Lifetime, ListMultimap, ListMultimapCache, Multimap, NativeSetMultimapCache, ObjectError, SetMultimap,
    SetMultimapCache,
};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};

const HOUR: Duration = Duration::from_secs(3600);
const MOVE: &str = concat!(
    include_str!("../../crates/redgrid-multimap/src/scripts/whole_prelude.lua"),
    include_str!("../../crates/redgrid-multimap/src/scripts/move_whole.lua")
);

type Map<Y> = Multimap<String, u32, Json, Json, Y>;

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

/// All keys that exist. DBSIZE also counts expired keys that are not yet removed.
async fn keys_of(observer: &Observer) -> Vec<String> {
    let mut all: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
    all.sort();
    all
}

/// Whether all keys of the server have a lifetime, or none has; both values if they differ.
async fn ends(observer: &Observer) -> Vec<bool> {
    let mut all = Vec::new();
    for key in keys_of(observer).await {
        all.push(observer.query::<i64>(&["PTTL", &key]).await.unwrap() > 0);
    }
    all.dedup();
    all
}

/// Operations of every kind of multimap as an object.
async fn whole<Y: Kind>(client: &Client, observer: &Observer) {
    let map: Map<Y> = Multimap::new(client, "m");
    let object = map.object();
    assert!(!object.exists().await.unwrap() && !object.touch().await.unwrap() && !object.delete().await.unwrap());
    assert_eq!((object.memory().await.unwrap(), object.lifetime().await.unwrap()), (None, Lifetime::Absent));
    assert!(!object.expire_in(HOUR).await.unwrap() && !object.persist().await.unwrap());
    assert!(matches!(object.rename("n").await, Err(ObjectError::Absent { .. })));
    for key in ["a", "b"] {
        map.insert_many(key, &[1, 2]).await.unwrap();
    }
    assert!(object.exists().await.unwrap() && object.touch().await.unwrap());
    let small = object.memory().await.unwrap().unwrap();
    map.insert_many("c", &(0..1000).collect::<Vec<_>>()).await.unwrap();
    assert!(object.memory().await.unwrap().unwrap() > small + 3000, "values are counted");
    // One lifetime for all keys, and for keys that are added later.
    assert!(
        !object.expire_in(HOUR).only_if(ExpireCondition::HasExpiry).await.unwrap() && ends(observer).await == [false]
    );
    assert!(object.expire_in(HOUR).only_if(ExpireCondition::NoExpiry).await.unwrap() && ends(observer).await == [true]);
    map.insert("d", &4).await.unwrap();
    map.replace_all("a", &[5]).await.unwrap();
    assert_eq!(ends(observer).await, [true], "of {:?}", keys_of(observer).await);
    assert!(!object.expire_in(HOUR / 2).only_if(ExpireCondition::ExpiresSooner).await.unwrap());
    assert!(object.expire_at(SystemTime::now() + HOUR * 2).only_if(ExpireCondition::ExpiresSooner).await.unwrap());
    assert!(matches!(object.lifetime().await.unwrap(), Lifetime::Ends(left) if left > HOUR));
    assert!(object.persist().await.unwrap() && ends(observer).await == [false]);
    assert!(!object.persist().await.unwrap());
    // Renames and copies to a name that is in use.
    let other: Map<Y> = Multimap::new(client, "n");
    other.insert("old", &9).await.unwrap();
    other.insert("a", &9).await.unwrap();
    assert!(!object.rename("n").unless_taken().await.unwrap() && !object.copy_to("n").await.unwrap());
    assert_eq!(other.key_len().await.unwrap(), 2);
    assert!(object.copy_to("n").replacing().await.unwrap());
    assert_eq!((other.key_len().await.unwrap(), other.get_all("a").await.unwrap()), (4, vec![5]));
    assert_eq!((map.key_len().await.unwrap(), map.get_all("a").await.unwrap()), (4, vec![5]));
    assert_eq!(keys_of(observer).await.len(), 10, "nothing is left of the replaced map");
    assert!(other.object().rename("m").await.unwrap() && !other.object().exists().await.unwrap());
    assert!(object.rename("{m}x").await.unwrap() && map.is_empty().await.unwrap());
    let told = Map::<Y>::new(client, "{m}x").object().rename("{m}x").await;
    assert!(told.unwrap(), "to its own name");
    assert!(Map::<Y>::new(client, "{m}x").object().rename("m").unless_taken().await.unwrap());
    assert_eq!((map.len().await.unwrap(), keys_of(observer).await.len()), (1004, 5));
    let told = object.copy_to("{m}").await.unwrap_err();
    assert!(told.to_string().contains("only a hash tag"), "{told:?}");
    assert!(object.delete().await.unwrap());
    assert_eq!(keys_of(observer).await, [""; 0]);
    // All keys expire together.
    map.insert_many("a", &[1, 2]).await.unwrap();
    assert!(object.expire_in(Duration::from_millis(20)).await.unwrap());
    wait_until(SOON, async || keys_of(observer).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multimap_lives_and_is_renamed_with_all_its_keys() {
    use redgrid_multimap::{Expiring, Lists, Sets};

    let (_server, client, observer) = ready().await;
    whole::<Sets>(&client, &observer).await;
    whole::<Lists>(&client, &observer).await;
    whole::<Expiring<Sets>>(&client, &observer).await;
    whole::<Expiring<Lists>>(&client, &observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_multimap_lives_and_is_renamed_with_all_its_keys() {
    use redgrid_multimap::{Native, Sets};

    let Some(newest) = ServerBinary::newest_or_skip("a_native_multimap_lives_and_is_renamed_with_all_its_keys") else {
        return;
    };
    let server = RedisServer::builder().binary(newest).start().await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    whole::<Native<Sets>>(&client, &observer).await;
    // A key that expires before the map expires with its values, even if the map gets a lifetime
    // and loses it.
    let map = NativeSetMultimapCache::<String, u32>::new(&client, "m");
    map.insert("a", &1).await.unwrap();
    map.expire_key("a", HOUR).await.unwrap();
    let sooner = async || matches!(map.key_lifetime("a").await.unwrap(), Lifetime::Ends(left) if left <= HOUR);
    assert!(map.object().expire_in(HOUR * 2).await.unwrap() && sooner().await);
    let values = keys_of(&observer).await.into_iter().find(|key| key.starts_with('{')).unwrap();
    let left: i64 = observer.query(&["PTTL", &values]).await.unwrap();
    assert!(left > 0 && left <= 3_600_000, "{left}");
    assert!(map.object().persist().await.unwrap() && sooner().await);
    assert!(observer.query::<i64>(&["PTTL", &values]).await.unwrap() > 0, "the values live as long as the key");
    assert!(map.object().copy_to("n").await.unwrap());
    let copy = NativeSetMultimapCache::<String, u32>::new(&client, "n");
    assert!(matches!(copy.key_lifetime("a").await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_of_keys_are_renamed_along() {
    let (_server, client, observer) = ready().await;
    let map = SetMultimapCache::<String, u32>::new(&client, "m");
    map.insert("a", &1).await.unwrap();
    map.expire_key("a", HOUR).await.unwrap();
    let other = SetMultimapCache::<String, u32>::new(&client, "n");
    other.insert("b", &1).await.unwrap();
    other.expire_key("b", HOUR).await.unwrap();
    assert!(map.object().copy_to("n").replacing().await.unwrap());
    let ends = async |map: &SetMultimapCache<String, u32>, key| matches!(map.key_lifetime(key).await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2);
    assert!(ends(&map, "a").await && ends(&other, "a").await);
    assert_eq!(observer.query::<u64>(&["ZCARD", "{n}:redisson_set_multimap_ttl"]).await.unwrap(), 1);
    assert!(map.object().rename("o").await.unwrap());
    assert!(ends(&SetMultimapCache::new(&client, "o"), "a").await);
    // If the map has a lifetime, a key that gets its first lifetime does not outlive the map.
    other.persist_key("a").await.unwrap();
    assert!(other.object().expire_in(HOUR / 4).await.unwrap() && other.expire_key("a", HOUR).await.unwrap());
    assert!(matches!(other.key_lifetime("a").await.unwrap(), Lifetime::Ends(left) if left <= HOUR / 4));
    // `Keys` deletes the companion keys of a map, too.
    let keys = Keys::new(&client);
    assert_eq!(keys.delete(["n"]).await.unwrap(), 1);
    assert!(!observer.exists("{n}:redisson_set_multimap_ttl").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_map_changes_are_bounded_and_executed_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let url = server.url_via(proxy.addr());
    // Above 10,000 keys, changes of the whole map are rejected, but not `memory` and `delete`.
    let script = "for i = 1, 10001 do redis.call('HSET', KEYS[1], i, 'h' .. i) end return 1";
    observer.cmd(&["EVAL", script, "1", "large"]).await.unwrap();
    let large = SetMultimap::<u32, u32>::new(&client, "large").object();
    for told in [large.expire_in(HOUR).await, large.rename("x").await, large.copy_to("x").await, large.persist().await]
    {
        assert!(told.unwrap_err().to_string().contains("up to 10000"));
    }
    assert!(large.memory().await.unwrap().is_some() && large.delete().await.unwrap() && !large.exists().await.unwrap());
    observer.cmd(&["EVAL", &script.replace("10001", "10000"), "1", "large"]).await.unwrap();
    assert!(large.rename("full").await.unwrap());
    assert!(SetMultimap::<u32, u32>::new(&client, "full").object().delete().await.unwrap());
    // A key inserted between the two steps of a rename is renamed, too: the rename reads the keys
    // again.
    let map = ListMultimap::<String, u32>::new(&client, "m");
    map.insert("a", &1).await.unwrap();
    let through = client_with(&url, |config| config.response_timeout(Duration::from_secs(20))).await;
    let theirs = ListMultimap::<String, u32>::new(&through, "m");
    proxy.next(1, sha(MOVE), Action::Hold);
    let renamed = tokio::spawn(async move { theirs.object().rename("n").await });
    wait_until(SOON, async || proxy.counts().held > 0).await;
    map.insert("b", &2).await.unwrap();
    assert_eq!(proxy.release_held().await, 1);
    assert!(renamed.await.unwrap().unwrap());
    let other = ListMultimap::<String, u32>::new(&client, "n");
    assert_eq!((other.get_all("a").await.unwrap(), other.get_all("b").await.unwrap()), (vec![1], vec![2]));
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 3, "no key was left behind");
    // The reply to a rename is lost.
    let hasty = client_with(&url, |config| config.response_timeout(Duration::from_secs(2))).await;
    proxy.next(1, sha(MOVE), Action::SwallowReply);
    let theirs = ListMultimap::<String, u32>::new(&hasty, "n");
    assert!(matches!(theirs.object().rename("m").await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!((map.key_len().await.unwrap(), other.key_len().await.unwrap()), (2, 0), "renamed, and once");
    // A key of another type has the target name.
    observer.cmd(&["SET", "text", "x"]).await.unwrap();
    assert!(matches!(map.object().rename("text").await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert!(!map.object().rename("text").unless_taken().await.unwrap());
    // A user without all permissions changes nothing.
    let cached = ListMultimapCache::<String, u32>::new(&client, "c");
    cached.insert("a", &1).await.unwrap();
    let before = keys_of(&observer).await;
    for denied in ["-rename", "-copy", "-pexpire"] {
        observer.cmd(&["ACL", "SETUSER", "half", "reset", "on", ">secret", "~*", "&*", "+@all", denied]).await.unwrap();
        let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
        let theirs = ListMultimapCache::<String, u32>::new(&half, "c").object();
        let told = match denied {
            "-rename" => theirs.rename("d").await,
            "-copy" => theirs.copy_to("d").await,
            _ => theirs.expire_in(HOUR).await,
        };
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{denied}: {told:?}");
        assert_eq!((keys_of(&observer).await, ends(&observer).await), (before.clone(), vec![false]), "{denied}");
    }
}
