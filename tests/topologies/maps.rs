//! Maps on every topology.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use redgrid_core::Token;
use redgrid_core::fence::FenceError;
use redgrid_core::object::Lifetime;
use redgrid_map::codecs::{Long, Text};
use redgrid_map::{Loader, Map, ObjectError, StoreError, WriteBehind, Writer, async_trait};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "maps";
    an_entry_is_inserted_compared_updated_and_removed,
    entries_are_streamed_and_added_up,
    a_stale_token_writes_no_entry,
    a_map_gets_a_name_in_another_slot_and_keeps_its_lifetime,
    a_map_matches_its_model,
    a_value_is_computed_under_the_lock_of_its_key,
    a_map_and_its_backing_store_have_the_same_entries,
];

async fn an_entry_is_inserted_compared_updated_and_removed(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (Map<String, u64>, Map<String, u64>) = (Map::new(&one, &on.name), Map::new(&two, &on.name));
    assert_eq!((here.insert("a", &1).await.unwrap(), there.insert("a", &2).await.unwrap()), (None, Some(1)));
    assert!(!there.set("a", &3).await.unwrap() && here.set_if_absent("b", &4).await.unwrap());
    assert!(there.set_if_exists("b", &5).await.unwrap() && !here.set_if_exists("c", &5).await.unwrap());
    assert_eq!(here.insert_if_absent("b", &6).await.unwrap(), Some(5));
    assert_eq!((there.replace("b", &7).await.unwrap(), there.replace("c", &7).await.unwrap()), (Some(5), None));
    assert!(!here.compare_and_set("b", &5, &8).await.unwrap() && here.compare_and_set("b", &7, &8).await.unwrap());
    assert_eq!(there.update("b", |n| *n += 1).await.unwrap(), Some(9));
    assert_eq!(here.alter("c", |n| Some(n.unwrap_or(0) + 1)).await.unwrap(), Some(1));
    assert!(there.contains_key("c").await.unwrap() && there.contains_value(&9).await.unwrap());
    assert_eq!((here.get("b").await.unwrap(), here.len().await.unwrap()), (Some(9), 3));
    assert_eq!(here.get_many(["a", "d", "c"]).await.unwrap(), [Some(3), None, Some(1)]);
    let all = HashMap::from([("a".to_owned(), 3), ("b".to_owned(), 9), ("c".to_owned(), 1)]);
    assert_eq!(here.read_all().await.unwrap(), all);
    assert_eq!((here.read_all_keys().await.unwrap().len(), here.read_all_values().await.unwrap().len()), (3, 3));
    assert_eq!((here.random_keys(2).await.unwrap().len(), here.random_entries(9).await.unwrap().len()), (2, 3));
    assert_eq!(here.value_size("a").await.unwrap(), 1);
    assert!(!there.compare_and_remove("a", &1).await.unwrap() && there.compare_and_remove("a", &3).await.unwrap());
    assert_eq!((here.remove("b").await.unwrap(), here.remove_many(["a", "b", "c"]).await.unwrap()), (Some(9), 1));
    assert!(here.is_empty().await.unwrap() && !there.clear().await.unwrap());
}

async fn entries_are_streamed_and_added_up(on: Fixture) {
    let client = on.client().await;
    let map: Map<u32, i64, Text, Long> = Map::<u32, i64, Long, Long>::new(&client, &on.name).with_codecs(Text, Long);
    let all: BTreeMap<u32, i64> = (0..1500).map(|n| (n, i64::from(n))).collect();
    map.set_many(&all).await.unwrap();
    assert_eq!(map.add(&7, &100).await.unwrap(), 107);
    let found: BTreeMap<u32, i64> = map.entries().try_collect().await.unwrap();
    assert_eq!((found.len(), found.values().sum::<i64>()), (1500, all.values().sum::<i64>() + 100));
    let found: BTreeMap<u32, ()> =
        map.keys().try_collect::<Vec<_>>().await.unwrap().into_iter().map(|n| (n, ())).collect();
    assert_eq!(found.len(), 1500);
    assert!(map.clear().await.unwrap());
}

async fn a_stale_token_writes_no_entry(on: Fixture) {
    let client = on.client().await;
    let map: Map<String, u64> = Map::new(&client, &on.name);
    let now = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    assert!(map.set_fenced("a", &1, Token::new(now)).await.unwrap());
    let refused = map.set_fenced("a", &2, Token::new(now - 1)).await.unwrap_err();
    assert!(matches!(refused, ObjectError::Fenced { source: FenceError::Stale { .. }, .. }), "{refused:?}");
    assert!(map.remove_fenced("a", Token::new(now)).await.unwrap());
}

async fn a_map_gets_a_name_in_another_slot_and_keeps_its_lifetime(on: Fixture) {
    let client = on.client().await;
    let all: BTreeMap<String, u64> = (0..700).map(|n| (format!("key {n}"), n)).collect();
    let names: Vec<String> = (0..8).map(|n| format!("{}:{n}", on.name)).collect();
    let map = |name: &str| -> Map<String, u64> { Map::new(&client, name) };
    map(&names[0]).set_many(&all).await.unwrap();
    assert!(map(&names[0]).object().expire_in(HOUR).await.unwrap());
    for pair in names.windows(2) {
        assert!(map(&pair[0]).object().rename(&pair[1]).await.unwrap());
        assert!(map(&pair[0]).is_empty().await.unwrap());
    }
    let last = map(&names[7]);
    assert_eq!(last.entries().try_collect::<BTreeMap<String, u64>>().await.unwrap(), all);
    assert!(matches!(last.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(last.clear().await.unwrap());
}

async fn a_map_matches_its_model(on: Fixture) {
    redgrid_tests::model::map(&on.client().await, &on.name, 8).await;
}

async fn a_value_is_computed_under_the_lock_of_its_key(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let tasks = (0..20).map(|n| {
        let map: Map<String, u64> = Map::new(&clients[n % 2], &on.name);
        tokio::spawn(async move {
            let computed = map.locked().timeout(SOON).compute("a", |n| async move { Some(n.unwrap_or(0) + 1) });
            computed.await.unwrap()
        })
    });
    for task in futures_util::future::join_all(tasks).await {
        task.unwrap();
    }
    let map: Map<String, u64> = Map::new(&clients[0], &on.name);
    assert_eq!(map.remove("a").await.unwrap(), Some(20));
}

/// The store behind the map.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<BTreeMap<String, u64>>>);

#[async_trait]
impl Loader<String, u64> for Store {
    async fn load(&self, key: &String) -> Result<Option<u64>, StoreError> {
        Ok(self.0.lock().unwrap().get(key).copied())
    }
}

#[async_trait]
impl Writer<String, u64> for Store {
    async fn write(&self, entries: &[(String, u64)]) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend(entries.iter().cloned());
        Ok(())
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        self.0.lock().unwrap().retain(|key, _| !keys.contains(key));
        Ok(())
    }
}

async fn a_map_and_its_backing_store_have_the_same_entries(on: Fixture) {
    let client = on.client().await;
    let store = Store::default();
    store.0.lock().unwrap().insert("old".into(), 7);
    let map: Map<String, u64> = Map::new(&client, &on.name);
    let through = map.backed().loader(store.clone()).writer(store.clone()).exclusive().build().unwrap();
    assert_eq!(through.get(&"old".into()).await.unwrap(), Some(7));
    through.set_many((0..20).map(|n| (format!("k{n}"), n))).await.unwrap();
    assert_eq!(through.alter("k1".into(), |n| n.map(|n| n + 1)).await.unwrap(), Some(2));
    let behind = WriteBehind { delay: HOUR, ..WriteBehind::default() };
    let behind = map.backed().loader(store.clone()).writer(store.clone()).write_behind(behind).build().unwrap();
    assert_eq!(behind.remove("k2".into()).await.unwrap(), Some(2));
    assert_eq!(behind.insert("k3".into(), 9).await.unwrap(), Some(3));
    assert!(behind.flush(SOON).await);
    assert_eq!(map.entries().try_collect::<BTreeMap<String, u64>>().await.unwrap(), *store.0.lock().unwrap());
    assert!(map.clear().await.unwrap());
}
