//! Maps backed by a store: values that the map lacks are loaded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_map::codecs::Json;
use redgrid_map::{BackedError, BackedMap, StoreTimeout};
use redgrid_testkit::wait_until;
use redgrid_tests::store::{Store, before, key};
use redgrid_tests::{SOON, client, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_value_is_loaded_once_and_stays() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1), ("b", 2)]);
    let map = before(&client, &store).build().unwrap();
    assert_eq!((map.get(&key("a")).await.unwrap(), map.get(&key("x")).await.unwrap()), (Some(1), None));
    assert_eq!((map.get(&key("a")).await.unwrap(), map.map().get("a").await.unwrap()), (Some(1), Some(1)));
    assert_eq!(store.loads.load(Ordering::SeqCst), 2, "an existing value is not loaded");
    assert!(map.contains_key(&key("b")).await.unwrap() && !map.contains_key(&key("x")).await.unwrap());
    assert_eq!(map.map().get("b").await.unwrap(), Some(2));
    let keys = [key("b"), key("x"), key("a")];
    assert_eq!(map.get_many(&keys).await.unwrap(), [Some(2), None, Some(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reads_of_a_key_load_it_once() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1)]);
    store.shut();
    let map = before(&client, &store).build().unwrap();
    let wants = || {
        let map = map.clone();
        tokio::spawn(async move { map.get(&key("a")).await.unwrap() })
    };
    let first = wants();
    store.until_came(1).await;
    let crowd: Vec<_> = (0..50).map(|_| wants()).collect();
    // The caller that started the load is cancelled. The other callers still get the value.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.open();
    let found = join_all(crowd).await;
    assert!(found.into_iter().all(|value| value.unwrap() == Some(1)));
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_load_a_key_once_under_its_lock() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let store = Store::with([("a", 1)]);
    store.shut();
    let maps = [&one, &two].map(|client| before(client, &store).exclusive().build().unwrap());
    let waits = maps.clone().map(|map| tokio::spawn(async move { map.get(&key("a")).await.unwrap() }));
    store.until_came(1).await;
    // The other client waits for the lock and does not call the store.
    wait_until(SOON, async || one.stats().waiting + two.stats().waiting == 1).await;
    store.open();
    for wait in waits {
        assert_eq!(wait.await.unwrap(), Some(1));
    }
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_hangs_or_panics_is_reported_and_changes_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1)]);
    let map = before(&client, &store).build().unwrap();
    let hasty = before(&client, &store).store_timeout(Duration::from_millis(300)).build().unwrap();
    let not_loaded = async |map: &BackedMap<String, u64, Json, Json>| match map.get(&key("a")).await {
        Err(BackedError::NotLoaded { source, .. }) => source,
        other => panic!("{other:?}"),
    };
    store.fail(1);
    assert_eq!(not_loaded(&map).await.to_string(), "the store is down");
    store.shut();
    assert!(not_loaded(&hasty).await.is::<StoreTimeout>());
    store.open();
    store.panics.store(true, Ordering::SeqCst);
    assert!(not_loaded(&map).await.to_string().contains("panic"));
    store.panics.store(false, Ordering::SeqCst);
    assert!(map.map().is_empty().await.unwrap());
    assert_eq!(map.get(&key("a")).await.unwrap(), Some(1), "no error is remembered");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_values_are_loaded_and_replaced_on_request() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1), ("b", 2), ("c", 3)]);
    let map = before(&client, &store).build().unwrap();
    map.map().set("a", &10).await.unwrap();
    let all = map.load_all(false, 2).await.unwrap();
    assert_eq!((all.loaded, all.kept, all.missing), (2, 1, 0));
    assert_eq!(map.map().get_many(["a", "b", "c"]).await.unwrap(), [Some(10), Some(2), Some(3)]);
    let some = [key("a"), key("x")];
    let some = map.load_many(some, true, 2).await.unwrap();
    assert_eq!((some.loaded, some.kept, some.missing), (1, 0, 1));
    assert_eq!(map.map().get("a").await.unwrap(), Some(1));
}
