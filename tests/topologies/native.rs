//! Entries and keys that the servers expire, on every topology: Redis 7.4 or Valkey 9 and newer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redgrid_cache::{Lifetime, NativeMapCache, ObjectError};
use redgrid_map::Map;
use redgrid_multimap::{Lists, Native, Sets};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;
use crate::multimaps::keys_end;

clauses![
    "native";
    entries_live_for_their_time_after_any_put,
    keys_of_multimaps_expire,
];

const HOUR: Duration = Duration::from_secs(3600);

/// Prints a message and returns true if the servers do not support lifetimes of fields, or if the
/// user has only the permissions for commands of all servers.
async fn is_skipped(on: &Fixture) -> bool {
    let map: NativeMapCache<String, u32> = NativeMapCache::new(&on.client().await, &on.name);
    let skipped = !on.is_newest
        && (on.name.starts_with("app:") || matches!(map.lifetime("").await, Err(ObjectError::Unsupported { .. })));
    if skipped {
        eprintln!("SKIPPED {}: the servers know no lifetimes of fields, or this user may give none", on.name);
    }
    skipped
}

async fn entries_live_for_their_time_after_any_put(on: Fixture) {
    if is_skipped(&on).await {
        return;
    }
    let (one, two) = (on.client().await, on.client().await);
    let here: NativeMapCache<String, u32> = NativeMapCache::new(&one, &on.name);
    let there: NativeMapCache<String, u32> = NativeMapCache::new(&two, &on.name);
    let ends = async |key: &str| matches!(here.lifetime(key).await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2);
    assert!(here.set("a", &1).expires_in(HOUR).await.unwrap());
    assert_eq!((there.get("a").await.unwrap(), there.insert("a", &2).await.unwrap()), (Some(1), Some(1)));
    assert_eq!(here.lifetime("a").await.unwrap(), Lifetime::Endless);
    assert_eq!(there.insert_if_absent("b", &3).expires_in(HOUR).await.unwrap(), None);
    assert!(here.compare_and_set("b", &3, &4).await.unwrap() && ends("b").await);
    assert_eq!(
        (there.update("b", |n| *n += 1).await.unwrap(), here.replace("b", &6).await.unwrap()),
        (Some(5), Some(5))
    );
    assert!(ends("b").await, "another value keeps the lifetime");
    assert_eq!(there.expire(["a", "b", "x"]).expires_in(HOUR).only_if_no_expiry().await.unwrap(), 1);
    assert!(ends("a").await);
    let keys: Vec<String> = (0..600).map(|n| format!("k{n}")).collect();
    there.set_many(keys.iter().map(|key| (key.as_str(), &1))).expires_in(HOUR).await.unwrap();
    assert_eq!(here.get_many(keys.iter().map(String::as_str)).await.unwrap(), vec![Some(1); 600]);
    assert_eq!(here.keys().try_collect::<BTreeSet<String>>().await.unwrap().len(), 602);
    // A plain map sees all entries, and entries that it writes have no end.
    let past: Map<String, u32> = Map::new(&two, &on.name);
    assert!(!past.set("a", &7).await.unwrap());
    assert_eq!((past.len().await.unwrap(), here.lifetime("a").await.unwrap()), (602, Lifetime::Endless));
    assert_eq!(there.remove_many(keys.iter().skip(1).map(String::as_str)).await.unwrap(), 599);
    assert_eq!(here.expire(["a", "k0"]).expires_in(Duration::from_millis(50)).await.unwrap(), 2);
    wait_until(SOON, async || there.len().await.unwrap() == 1).await;
    let left: BTreeMap<String, u32> = there.entries().try_collect().await.unwrap();
    assert_eq!(left, BTreeMap::from([("b".to_owned(), 6)]));
    assert_eq!((here.remove("b").await.unwrap(), there.is_empty().await.unwrap()), (Some(6), true));
}

async fn keys_of_multimaps_expire(on: Fixture) {
    if is_skipped(&on).await {
        return;
    }
    keys_end::<Native<Sets>>(&on).await;
    keys_end::<Native<Lists>>(&on).await;
}
