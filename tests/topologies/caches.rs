//! Caches on every topology.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_cache::{EntryEvent, Lifetime, Limit, MapCache, Notice, SetCache};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

clauses![
    "caches";
    entries_live_for_their_time_after_any_put,
    entries_above_the_limit_are_evicted_and_reported,
    values_of_a_set_expire,
];

const HOUR: Duration = Duration::from_secs(3600);

async fn entries_live_for_their_time_after_any_put(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: MapCache<String, u32> = MapCache::new(&one, &on.name);
    let there: MapCache<String, u32> = MapCache::new(&two, &on.name);
    assert!(here.set("a", &1).expires_in(HOUR).idle_for(HOUR).await.unwrap());
    assert_eq!((there.get("a").await.unwrap(), there.insert("a", &2).await.unwrap()), (Some(1), Some(1)));
    assert_eq!(there.insert_if_absent("b", &3).expires_in(HOUR).await.unwrap(), None);
    assert!(here.compare_and_set("b", &3, &4).await.unwrap() && here.contains_key("b").await.unwrap());
    assert!(matches!(here.lifetime("b").await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert_eq!((there.update("b", |n| *n += 1).await.unwrap(), here.peek("b").await.unwrap()), (Some(5), Some(5)));
    assert_eq!(there.expire(["a", "x"]).expires_in(Duration::from_millis(50)).await.unwrap(), 1);
    wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await;
    let keys: Vec<String> = (0..600).map(|n| format!("k{n}")).collect();
    there.set_many(keys.iter().map(|key| (key.as_str(), &1))).expires_in(HOUR).await.unwrap();
    assert_eq!(here.len().await.unwrap(), 601);
    let all: BTreeSet<String> = here.keys().try_collect().await.unwrap();
    assert_eq!(all, keys.iter().cloned().chain(["b".to_owned()]).collect());
    assert_eq!(there.remove_many(keys.iter().map(String::as_str)).await.unwrap(), 600);
    assert_eq!((here.remove("b").await.unwrap(), there.is_empty().await.unwrap()), (Some(5), true));
}

async fn entries_above_the_limit_are_evicted_and_reported(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: MapCache<String, u32> = MapCache::new(&one, &on.name);
    let there: MapCache<String, u32> = MapCache::new(&two, &on.name);
    let mut events = here.events().begin().await.unwrap();
    there.set_limit(Limit::least_frequently_used(2)).await.unwrap();
    assert_eq!(here.limit().await.unwrap(), Some(Limit::least_frequently_used(2)));
    let removed = EntryEvent::Removed { key: "a".to_owned(), value: 1 };
    let created = EntryEvent::Created { key: "c".to_owned(), value: 2 };
    let mut seen = Vec::new();
    'all: loop {
        for key in ["a", "b"] {
            there.set(key, &1).await.unwrap();
        }
        here.get("b").await.unwrap();
        there.set("c", &2).await.unwrap();
        assert_eq!(there.get_many(["a", "b", "c"]).await.unwrap(), [None, Some(1), Some(2)]);
        while !(seen.contains(&removed) && seen.contains(&created)) {
            let next = tokio::time::timeout(SOON, events.next()).await.expect("an event comes");
            match next.expect("the client lives") {
                Notice::Event(event) => seen.push(event),
                // A connection was lost. Events of that time never arrive, so the test repeats its
                // steps.
                Notice::Gap => {
                    seen.clear();
                    there.clear().await.unwrap();
                    continue 'all;
                }
                other => panic!("{other:?}"),
            }
        }
        break;
    }
    there.clear_limit().await.unwrap();
    there.clear().await.unwrap();
    assert!(here.is_empty().await.unwrap() && here.limit().await.unwrap().is_none());
    assert!(here.object().delete().await.is_ok());
}

async fn values_of_a_set_expire(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (SetCache<u32>, SetCache<u32>) = (SetCache::new(&one, &on.name), SetCache::new(&two, &on.name));
    assert!(here.insert(&1).expires_in(HOUR).await.unwrap() && !there.insert_if_absent(&1).await.unwrap());
    assert_eq!((there.insert_many(&[1, 2, 3]).await.unwrap(), here.len().await.unwrap()), (2, 3));
    assert!(there.expire(&3).expires_in(Duration::from_millis(50)).await.unwrap());
    wait_until(SOON, async || !here.contains(&3).await.unwrap()).await;
    assert_eq!(there.stream().try_collect::<BTreeSet<_>>().await.unwrap(), BTreeSet::from([1, 2]));
    assert_eq!(there.lifetime(&2).await.unwrap(), Lifetime::Endless);
    assert!(here.remove(&1).await.unwrap() && there.clear().await.unwrap());
}
