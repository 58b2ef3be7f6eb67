//! Sets with a lifetime for each value, and maps with entries that the server expires.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use redgrid_cache::{Lifetime, NativeMapCache, ObjectError, SetCache};
use redgrid_testkit::{RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client};

use super::caches::{HOUR, ready};

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_set_expire() {
    let (_server, client, observer) = ready().await;
    let set: SetCache<u32> = SetCache::new(&client, "s");
    assert!(set.is_empty().await.unwrap() && set.insert(&1).await.unwrap() && !set.insert(&1).await.unwrap());
    assert_eq!(set.lifetime(&1).await.unwrap(), Lifetime::Endless);
    assert!(!set.insert(&1).expires_in(HOUR).await.unwrap() && set.insert(&2).expires_in(HOUR).await.unwrap());
    assert!(matches!(set.lifetime(&1).await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2));
    assert!(!set.insert_if_absent(&1).await.unwrap() && set.insert_if_absent(&3).expires_in(HOUR).await.unwrap());
    assert!(set.prolong(&1).expires_in(2 * HOUR).await.unwrap() && !set.prolong(&1).expires_in(HOUR).await.unwrap());
    assert!(set.shorten(&1).expires_in(HOUR).await.unwrap() && !set.shorten(&1).expires_in(2 * HOUR).await.unwrap());
    assert!(set.expire(&1).await.unwrap() && !set.expire(&9).await.unwrap() && !set.prolong(&9).await.unwrap());
    assert_eq!(set.lifetime(&1).await.unwrap(), Lifetime::Endless);
    assert_eq!(set.insert_many(&[3, 4, 5]).expires_in(HOUR).await.unwrap(), 2);
    assert!(!set.try_insert_all(&[6, 5]).await.unwrap() && !set.contains(&6).await.unwrap());
    assert!(set.try_insert_all(&[6, 7]).expires_in(HOUR).await.unwrap());
    let over = async |value: u32| {
        observer.cmd(&["ZADD", "s", "XX", "1000", &value.to_string()]).await.unwrap();
    };
    assert!(set.try_insert_all(&[]).await.unwrap(), "an empty call succeeds");
    over(4).await;
    over(5).await;
    assert_eq!((set.len().await.unwrap(), set.lifetime(&4).await.unwrap()), (5, Lifetime::Absent));
    assert_eq!(set.contains_many(&[1, 4, 7, 8]).await.unwrap(), [true, false, true, false]);
    assert_eq!(set.stream().try_collect::<BTreeSet<_>>().await.unwrap(), BTreeSet::from([1, 2, 3, 6, 7]));
    assert!(!set.contains(&5).await.unwrap() && !set.remove(&5).await.unwrap());
    assert_eq!(observer.query::<u64>(&["ZCARD", "s"]).await.unwrap(), 5, "a write removes expired values");
    over(7).await;
    assert!(!set.expire(&7).await.unwrap() && set.insert(&7).await.unwrap());
    assert!(set.remove(&7).await.unwrap() && !set.remove(&7).await.unwrap());
    assert_eq!(set.remove_many(&[1, 2, 9]).await.unwrap(), 2);
    let many: Vec<u32> = (100..1300).collect();
    assert_eq!(set.insert_many(&many).await.unwrap(), 1200);
    assert_eq!(set.stream().try_collect::<BTreeSet<_>>().await.unwrap().len(), 1202);
    assert!(set.try_insert_all(&many).await.unwrap_err().to_string().contains("at most 500"));
    set.insert(&1).expires_in(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || !set.contains(&1).await.unwrap()).await;
    assert!(set.clear().await.unwrap() && !set.object().exists().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_expires_fields_with_lifetimes() {
    let test = "the_server_expires_fields_with_lifetimes";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    let server = RedisServer::builder().binary(newest).start().await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&client, "n");
    let ends = async |key: &str| matches!(map.lifetime(key).await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2);
    assert!(map.set("a", &1).expires_in(HOUR).await.unwrap() && ends("a").await);
    assert_eq!((map.replace("a", &2).await.unwrap(), map.update("a", |n| *n += 1).await.unwrap()), (Some(1), Some(3)));
    assert!(map.compare_and_set("a", &3, &4).await.unwrap() && ends("a").await, "the lifetime stays");
    assert!(!map.compare_and_set("a", &3, &9).await.unwrap());
    assert!(!map.set("a", &5).await.unwrap());
    assert_eq!(
        (map.lifetime("a").await.unwrap(), map.lifetime("x").await.unwrap()),
        (Lifetime::Endless, Lifetime::Absent)
    );
    assert_eq!(map.insert_if_absent("b", &6).expires_in(HOUR).await.unwrap(), None);
    assert_eq!(map.expire(["a", "b", "x"]).expires_in(HOUR).only_if_no_expiry().await.unwrap(), 1);
    assert!(ends("a").await && ends("b").await);
    assert_eq!(map.expire(["a", "b"]).await.unwrap(), 2);
    assert_eq!(map.lifetime("b").await.unwrap(), Lifetime::Endless);
    let at = SystemTime::now() + HOUR;
    assert!(map.set("c", &7).expires_at(at).await.unwrap() && ends("c").await);
    let all = [("d", &8), ("e", &9)];
    map.set_many(all).expires_in(HOUR).await.unwrap();
    assert!(ends("e").await && map.contains_key("e").await.unwrap() && !map.contains_key("x").await.unwrap());
    assert_eq!(map.get_many(["d", "x"]).await.unwrap(), [Some(8), None]);
    assert_eq!((map.len().await.unwrap(), map.entries().try_collect::<Vec<_>>().await.unwrap().len()), (5, 5));
    map.set("f", &1).expires_in(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || map.get("f").await.unwrap().is_none()).await;
    assert_eq!((map.remove("e").await.unwrap(), map.remove_many(["d", "x"]).await.unwrap()), (Some(9), 1));
    assert!(!map.compare_and_remove("a", &1).await.unwrap() && map.compare_and_remove("a", &5).await.unwrap());
    assert!(map.contains_value(&7).await.unwrap());
    map.clear().await.unwrap();
    assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_field_lifetimes_is_reported() {
    let (_server, client, observer) = ready().await;
    let knows: u64 = observer
        .query(&["EVAL", "return #redis.call('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', 'hpexpire')", "0"])
        .await
        .unwrap();
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&client, "n");
    if knows > 0 {
        return assert!(map.set("a", &1).expires_in(HOUR).await.unwrap());
    }
    assert!(map.set("a", &1).await.unwrap() && map.get("a").await.unwrap() == Some(1), "the rest works");
    for told in [
        map.set("b", &1).expires_in(HOUR).await.map(drop),
        map.expire(["a"]).expires_in(HOUR).await.map(drop),
        map.lifetime("a").await.map(drop),
    ] {
        assert!(matches!(told, Err(ObjectError::Unsupported { .. })), "{told:?}");
    }
    assert_eq!(observer.query::<u64>(&["HLEN", "n"]).await.unwrap(), 1, "no other field is written");
}
