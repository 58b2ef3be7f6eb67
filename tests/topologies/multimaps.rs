//! Multimaps on every topology.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::Failure;
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{
    Expiring, Lifetime, Lifetimes, ListMultimap, ListMultimapCache, Lists, Multimap, ObjectError, SetMultimap, Sets,
};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "multimaps";
    a_key_has_the_values_of_all_clients,
    all_keys_are_iterated_and_removed,
    keys_with_a_lifetime_expire,
    a_map_is_copied_renamed_and_deleted_with_its_keys,
];

async fn a_key_has_the_values_of_all_clients(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (sets, lists) = (format!("{}:sets", on.name), format!("{}:lists", on.name));
    let here: SetMultimap<String, u32> = SetMultimap::new(&one, &sets);
    let there: SetMultimap<String, u32> = SetMultimap::new(&two, &sets);
    assert!(here.insert("a", &1).await.unwrap() && !there.insert("a", &1).await.unwrap());
    assert_eq!((there.insert_many("a", &[1, 2]).await.unwrap(), here.values_len("a").await.unwrap()), (1, 2));
    assert!(there.contains_entry("a", &2).await.unwrap() && here.contains_key("a").await.unwrap());
    assert!(here.remove("a", &2).await.unwrap() && there.contains_value(&1).await.unwrap());
    assert_eq!((there.get_all("a").await.unwrap(), here.replace_all("a", &[3]).await.unwrap()), (vec![1], vec![1]));
    assert_eq!((there.remove_all("a").await.unwrap(), here.is_empty().await.unwrap()), (vec![3], true));
    let here: ListMultimap<String, u32> = ListMultimap::new(&one, &lists);
    let there: ListMultimap<String, u32> = ListMultimap::new(&two, &lists);
    assert_eq!((here.insert_many("a", &[1, 2]).await.unwrap(), there.insert("a", &1).await.unwrap()), (2, true));
    assert!(there.contains_entry("a", &2).await.unwrap() && here.remove("a", &1).await.unwrap());
    assert_eq!(
        (there.get_all("a").await.unwrap(), here.read_all_keys().await.unwrap()),
        (vec![2, 1], vec!["a".to_owned()])
    );
    there.set_all("a", &[5]).await.unwrap();
    assert_eq!(here.remove_keys(["a"]).await.unwrap(), 1);
}

async fn all_keys_are_iterated_and_removed(on: Fixture) {
    let client = on.client().await;
    let map: SetMultimap<u32, u32> = SetMultimap::new(&client, &on.name);
    let mut all = BTreeSet::new();
    for key in 0..250 {
        map.insert_many(&key, &[key, 7]).await.unwrap();
        all.extend([(key, key), (key, 7)]);
    }
    assert_eq!((map.len().await.unwrap(), map.key_len().await.unwrap()), (499, 250));
    assert_eq!(map.entries().try_collect::<BTreeSet<_>>().await.unwrap(), all);
    assert_eq!(map.keys().try_collect::<BTreeSet<u32>>().await.unwrap().len(), 250);
    assert_eq!(map.values().try_collect::<Vec<_>>().await.unwrap().len(), 499);
    assert!(map.contains_value(&249).await.unwrap() && !map.contains_value(&250).await.unwrap());
    assert_eq!((map.clear().await.unwrap(), map.is_empty().await.unwrap()), (250, true));
}

async fn keys_with_a_lifetime_expire(on: Fixture) {
    keys_end::<Expiring<Sets>>(&on).await;
    keys_end::<Expiring<Lists>>(&on).await;
}

pub(crate) async fn keys_end<Y: Lifetimes>(on: &Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: Multimap<u32, u32, Json, Json, Y> = Multimap::new(&one, &on.name);
    let there: Multimap<u32, u32, Json, Json, Y> = Multimap::new(&two, &on.name);
    for key in 0..150 {
        here.insert_many(&key, &[key, 7]).await.unwrap();
        assert!(there.expire_key(&key, if key < 120 { Duration::from_millis(1) } else { HOUR }).await.unwrap());
    }
    wait_until(SOON, async || there.len().await.unwrap() == 60 && there.key_len().await.unwrap() == 30).await;
    assert_eq!(there.keys().try_collect::<BTreeSet<u32>>().await.unwrap(), (120..150).collect());
    assert!(here.get_all(&0).await.unwrap().is_empty() && !there.contains_key(&119).await.unwrap());
    assert!(matches!(here.key_lifetime(&120).await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(there.persist_key(&120).await.unwrap() && here.key_lifetime(&120).await.unwrap() == Lifetime::Endless);
    assert!(here.insert(&0, &1).await.unwrap() && there.key_lifetime(&0).await.unwrap() == Lifetime::Endless);
    assert_eq!((here.remove_all(&0).await.unwrap(), there.key_len().await.unwrap()), (vec![1], 30));
    assert_eq!((here.read_all_keys().await.unwrap().len(), there.remove_keys(&[120, 121]).await.unwrap()), (30, 2));
    assert_eq!((here.clear().await.unwrap(), there.is_empty().await.unwrap()), (28, true));
}

async fn a_map_is_copied_renamed_and_deleted_with_its_keys(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (name, other) = (format!("{{{}}}:one", on.name), format!("{{{}}}:other", on.name));
    let here: ListMultimapCache<u32, u32> = ListMultimapCache::new(&one, &name);
    let there: ListMultimapCache<u32, u32> = ListMultimapCache::new(&two, &other);
    for key in 0..50 {
        here.insert_many(&key, &[key, key]).await.unwrap();
    }
    assert!(here.expire_key(&0, HOUR).await.unwrap() && here.object().expire_in(HOUR * 2).await.unwrap());
    assert!(here.object().memory().await.unwrap() > Some(50 * 2) && here.object().touch().await.unwrap());
    assert!(here.object().copy_to(&other).await.unwrap() && !here.object().copy_to(&other).await.unwrap());
    assert!(matches!(there.key_lifetime(&0).await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(matches!(there.key_lifetime(&1).await.unwrap(), Lifetime::Ends(left) if left > HOUR));
    assert!(there.object().persist().await.unwrap() && there.key_lifetime(&1).await.unwrap() == Lifetime::Endless);
    assert!(there.object().rename(&name).await.unwrap() && !there.object().exists().await.unwrap());
    assert_eq!((here.len().await.unwrap(), here.object().lifetime().await.unwrap()), (100, Lifetime::Endless));
    if matches!(on.topology, Topology::Cluster) {
        let elsewhere = here.object().rename(format!("{}:elsewhere", on.name)).await;
        assert!(matches!(elsewhere, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))), "{elsewhere:?}");
    }
    assert!(here.object().delete().await.unwrap() && !here.object().exists().await.unwrap());
}
