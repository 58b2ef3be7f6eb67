//! Lifetimes and idle times of cache entries: expired entries are absent, and get removed.

use std::time::{Duration, SystemTime};

use redgrid_cache::{Lifetime, MapCache};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use super::caches::{Cache, ENDS, HOUR, IDLES, over, ready, score};

#[tokio::test(flavor = "multi_thread")]
async fn expired_entries_are_absent_for_every_operation() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    // More entries than one call removes. `z` is the last one, so it is still stored after one
    // call.
    let others: Vec<String> = (0..150).map(|n| format!("a{n}")).collect();
    for set in [ENDS, IDLES] {
        let put = async || {
            let all = others.iter().map(|key| (key.as_str(), &1)).chain([("z", &7)]);
            let put = map.set_many(all);
            if set == ENDS {
                put.expires_in(HOUR).await.unwrap()
            } else {
                put.idle_for(HOUR).await.unwrap()
            }
            for key in others.iter().map(String::as_str).chain(["z"]) {
                over(&observer, set, key).await;
            }
        };
        let stored = async || observer.query::<u64>(&["HEXISTS", "c", "\"z\""]).await.unwrap() == 1;
        put().await;
        assert!(map.get("z").await.unwrap().is_none() && stored().await, "the entry is still stored");
        put().await;
        assert_eq!((map.peek("z").await.unwrap(), map.lifetime("z").await.unwrap()), (None, Lifetime::Absent));
        assert!(map.entries().try_collect::<Vec<_>>().await.unwrap().is_empty() && stored().await);
        assert!(map.keys().try_next().await.unwrap().is_none() && !map.contains_value(&7).await.unwrap());
        assert!(!map.contains_key("z").await.unwrap() && stored().await);
        put().await;
        assert!(map.get_many(["z"]).await.unwrap() == [None] && stored().await);
        put().await;
        assert!(map.remove("z").await.unwrap().is_none() && !stored().await);
        put().await;
        assert!(map.replace("z", &8).await.unwrap().is_none() && map.update("z", |n| *n += 1).await.unwrap().is_none());
        put().await;
        assert_eq!(map.expire(["z"]).await.unwrap(), 0);
        put().await;
        assert!(!map.compare_and_set("z", &7, &8).await.unwrap());
        put().await;
        assert!(!map.compare_and_remove("z", &7).await.unwrap());
        put().await;
        assert!(map.insert_if_absent("z", &9).await.unwrap().is_none(), "a new entry");
        assert_eq!((map.get("z").await.unwrap(), map.lifetime("z").await.unwrap()), (Some(9), Lifetime::Endless));
        put().await;
        assert!(map.set("z", &10).keep_lifetime().await.unwrap(), "a new entry");
        assert_eq!(map.lifetime("z").await.unwrap(), Lifetime::Endless, "there was none before");
        put().await;
        assert_eq!(map.len().await.unwrap(), 0);
        assert_eq!(observer.query::<u64>(&["DBSIZE"]).await.unwrap(), 0, "a count takes all out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_removes_a_hundred_expired_entries() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    let fill = async || {
        let keys: Vec<String> = (0..1250).map(|n| format!("k{n}")).collect();
        map.set_many(keys.iter().map(|key| (key.as_str(), &1))).expires_in(HOUR).await.unwrap();
        let command: Vec<String> = ["ZADD".to_owned(), ENDS.to_owned()]
            .into_iter()
            .chain(keys.iter().flat_map(|key| ["1000".to_owned(), format!("\"{key}\"")]))
            .collect();
        observer.cmd(&command).await.unwrap();
    };
    let stored = async || observer.query::<u64>(&["HLEN", "c"]).await.unwrap();
    fill().await;
    map.get("x").await.unwrap();
    assert_eq!(stored().await, 1150);
    map.remove("x").await.unwrap();
    assert_eq!(stored().await, 1050);
    map.set("x", &1).await.unwrap();
    assert_eq!(stored().await, 951);
    map.expire(["x"]).await.unwrap();
    assert_eq!(stored().await, 851);
    assert_eq!(map.len().await.unwrap(), 1, "only the entry that has not expired");
    assert_eq!((stored().await, observer.exists(ENDS).await.unwrap()), (1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_ends_by_its_lifetime_and_by_its_idle_time() {
    let (_server, client, observer) = ready().await;
    let map: Cache = MapCache::new(&client, "c");
    let ends = |told| match told {
        Lifetime::Ends(left) => left,
        other => panic!("{other:?}"),
    };
    map.set("a", &1).expires_in(Duration::from_millis(50)).await.unwrap();
    map.set("b", &1).idle_for(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || map.peek("a").await.unwrap().is_none() && map.peek("b").await.unwrap().is_none()).await;
    map.set("a", &1).expires_in(2 * HOUR).idle_for(HOUR).await.unwrap();
    let left = ends(map.lifetime("a").await.unwrap());
    assert!(left <= HOUR && left > HOUR / 2, "the earlier end: {left:?}");
    // A use restarts the idle time; a peek does not.
    let near = async || {
        let soon = observer.server_time_micros().await.unwrap() / 1000 + 600_000;
        observer.cmd(&["ZADD", IDLES, &soon.to_string(), "\"a\""]).await.unwrap();
        soon as f64
    };
    for is_use in [false, true] {
        let uses = [map.get("a").await.is_ok(), map.contains_key("a").await.is_ok()];
        assert_eq!(uses, [true, true]);
        let soon = near().await;
        if is_use {
            assert!(map.contains_key("a").await.unwrap());
            assert!(score(&observer, IDLES, "a").await.unwrap() > soon + 1e6);
            let soon = near().await;
            assert_eq!(map.insert_if_absent("a", &5).await.unwrap(), Some(1));
            assert!(score(&observer, IDLES, "a").await.unwrap() > soon + 1e6);
            let soon = near().await;
            assert_eq!(map.get("a").await.unwrap(), Some(1));
            assert!(score(&observer, IDLES, "a").await.unwrap() > soon + 1e6);
        } else {
            assert_eq!(map.peek("a").await.unwrap(), Some(1));
            assert_eq!(map.entries().try_collect::<Vec<_>>().await.unwrap().len(), 1);
            ends(map.lifetime("a").await.unwrap());
            assert_eq!(score(&observer, IDLES, "a").await, Some(soon));
        }
    }
    // A new value of an existing entry keeps its lifetime; `set` changes it.
    let end = score(&observer, ENDS, "a").await.unwrap();
    assert!(map.set_if_exists("a", &2).await.unwrap() && map.compare_and_set("a", &2, &3).await.unwrap());
    assert_eq!((map.replace("a", &4).await.unwrap(), map.update("a", |n| *n += 1).await.unwrap()), (Some(3), Some(5)));
    map.set("a", &6).keep_lifetime().await.unwrap();
    assert_eq!(score(&observer, ENDS, "a").await, Some(end));
    assert!(score(&observer, IDLES, "a").await.is_some(), "and its idle time");
    map.set_if_exists("a", &7).expires_in(HOUR).await.unwrap();
    assert!(score(&observer, ENDS, "a").await.unwrap() < end && score(&observer, IDLES, "a").await.is_none());
    map.set("a", &8).await.unwrap();
    assert_eq!(map.lifetime("a").await.unwrap(), Lifetime::Endless);
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(4_000_000_000_123);
    assert_eq!(map.expire(["a", "x"]).expires_at(at).await.unwrap(), 1);
    assert_eq!(score(&observer, ENDS, "a").await, Some(4_000_000_000_123.0));
    assert_eq!(map.expire(["a"]).expires_in(HOUR).only_if_no_expiry().await.unwrap(), 0);
    map.set("b", &1).await.unwrap();
    assert_eq!(map.expire(["a", "b"]).idle_for(HOUR).only_if_no_expiry().await.unwrap(), 1);
    ends(map.lifetime("b").await.unwrap());
    assert_eq!(map.expire(["a", "b"]).await.unwrap(), 2);
    assert_eq!(
        (map.lifetime("a").await.unwrap(), map.lifetime("b").await.unwrap()),
        (Lifetime::Endless, Lifetime::Endless)
    );
    map.set("a", &1).expires_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).await.unwrap();
    assert_eq!(map.get("a").await.unwrap(), None, "its end has passed");
}
