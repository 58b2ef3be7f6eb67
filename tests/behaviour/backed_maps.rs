//! Maps backed by a store that is slow, fails, hangs and panics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_map::codecs::Json;
use redgrid_map::{BackedError, BackedMapBuilder, Loss, Map, ObjectError, WriteBehind};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::store::{NEVER, Store, before, behind, key};
use redgrid_tests::{SOON, client, client_with, server};

#[tokio::test(flavor = "multi_thread")]
async fn map_and_store_have_written_through_values() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).build().unwrap();
    assert_eq!(map.insert(key("a"), 1).await.unwrap(), None);
    assert_eq!((map.insert(key("a"), 2).await.unwrap(), store.get("a")), (Some(1), Some(2)));
    assert_eq!((map.insert_if_absent(key("a"), 3).await.unwrap(), store.get("a")), (Some(2), Some(2)));
    assert_eq!((map.insert_if_absent(key("b"), 3).await.unwrap(), store.get("b")), (None, Some(3)));
    assert_eq!((map.replace(key("c"), 4).await.unwrap(), store.get("c")), (None, None));
    assert_eq!((map.replace(key("b"), 4).await.unwrap(), store.get("b")), (Some(3), Some(4)));
    assert!(!map.compare_and_set(key("b"), &3, 5).await.unwrap() && store.get("b") == Some(4));
    assert!(map.compare_and_set(key("b"), &4, 5).await.unwrap() && store.get("b") == Some(5));
    assert!(!map.compare_and_remove(key("b"), &4).await.unwrap() && store.get("b") == Some(5));
    assert!(map.compare_and_remove(key("b"), &5).await.unwrap() && store.get("b").is_none());
    assert_eq!((map.remove(key("a")).await.unwrap(), store.get("a")), (Some(2), None));
    map.set_many((0..1100).map(|n| (n.to_string(), n))).await.unwrap();
    assert_eq!((store.get("1099"), map.map().len().await.unwrap()), (Some(1099), 1100));
    assert_eq!(map.remove_many((0..1200).map(|n| n.to_string())).await.unwrap(), 1100);
    assert!(store.has.lock().unwrap().is_empty() && map.map().is_empty().await.unwrap());
    // A change loads values that only the store has. Removing a value removes it from the store
    // too.
    store.has.lock().unwrap().extend([(key("d"), 7), (key("e"), 8)]);
    assert_eq!(map.alter(key("d"), |n| n.map(|n| n + 1)).await.unwrap(), Some(8));
    assert_eq!((store.get("d"), map.map().get("d").await.unwrap()), (Some(8), Some(8)));
    assert_eq!((map.alter(key("d"), |_| None).await.unwrap(), store.get("d")), (None, None));
    assert_eq!((map.remove(key("e")).await.unwrap(), store.get("e")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_the_store_rejects_are_reverted() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).attempts(2).retry_interval(Duration::from_millis(1)).build().unwrap();
    store.fail(1);
    map.insert(key("a"), 1).await.expect("the second try succeeds");
    let refused = |told: Result<Option<u64>, BackedError>| {
        assert!(matches!(&told, Err(BackedError::NotStored { attempts: 2, .. })), "{told:?}");
    };
    store.fail(2);
    refused(map.insert(key("a"), 2).await);
    assert_eq!(map.map().get("a").await.unwrap(), Some(1), "an old value comes back");
    store.fail(2);
    refused(map.insert(key("b"), 2).await);
    assert_eq!(map.map().get("b").await.unwrap(), None, "a new one goes");
    store.fail(2);
    refused(map.remove(key("a")).await);
    assert_eq!((map.map().get("a").await.unwrap(), store.get("a")), (Some(1), Some(1)), "a removed one comes back");
    store.fail(2);
    refused(map.alter(key("a"), |n| n.map(|n| n + 1)).await);
    assert_eq!(map.map().get("a").await.unwrap(), Some(1));
    store.fail(2);
    refused(map.set_many([(key("a"), 5), (key("c"), 6)]).await.map(|()| None));
    assert_eq!(map.map().get_many(["a", "c"]).await.unwrap(), [Some(1), None]);
    // If another client has changed a value meanwhile, it is not reverted.
    store.shut();
    let calls = store.calls();
    let change = tokio::spawn({
        let map = map.clone();
        async move { map.insert(key("a"), 9).await }
    });
    store.until_came(calls + 1).await;
    map.map().set("a", &77).await.unwrap();
    store.fail(2);
    store.open();
    refused(change.await.unwrap());
    assert_eq!(map.map().get("a").await.unwrap(), Some(77));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_revert_is_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(2))).await;
    let store = Store::with([]);
    let map = before(&client, &store).build().unwrap();
    map.insert(key("a"), 1).await.unwrap();
    // The revert script has run once, so the server has cached it.
    store.fail(1);
    map.insert(key("a"), 2).await.unwrap_err();
    store.shut();
    let calls = store.calls();
    let change = tokio::spawn({
        let map = map.clone();
        async move { map.insert(key("a"), 3).await }
    });
    store.until_came(calls + 1).await;
    proxy.next(1, "EVALSHA", Action::SwallowReply);
    store.fail(1);
    store.open();
    let told = change.await.unwrap().unwrap_err();
    let unknown = |undo: &ObjectError| matches!(undo, ObjectError::Failed(Failure::OutcomeUnknown { .. }));
    assert!(matches!(&told, BackedError::Divided { undo, .. } if unknown(undo)), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_a_waiter_reaches_the_store() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).build().unwrap();
    store.shut();
    let change = tokio::spawn({
        let map = map.clone();
        async move { map.insert(key("a"), 1).await }
    });
    store.until_came(1).await;
    change.abort();
    assert!(change.await.unwrap_err().is_cancelled());
    store.open();
    wait_until(SOON, async || store.get("a") == Some(1)).await;
    assert_eq!(map.map().get("a").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_key_reach_map_and_store_in_one_order() {
    let server = server().await;
    let client = client(&server).await;
    for behind_it in [false, true] {
        let store = Store::with([]);
        let map = before(&client, &store);
        let map = if behind_it { map.write_behind(behind(Duration::from_millis(1))) } else { map };
        let map = map.build().unwrap();
        let changes = (0..200_u64).map(|n| {
            let (map, key) = (map.clone(), format!("k{}", n % 4));
            tokio::spawn(async move {
                match n % 5 {
                    0 => map.remove(key).await.map(drop),
                    _ => map.set(key, n).await,
                }
                .unwrap();
            })
        });
        for change in join_all(changes).await {
            change.unwrap();
        }
        assert!(map.flush(SOON).await);
        let in_map: BTreeMap<String, u64> = map.map().entries().try_collect().await.unwrap();
        assert_eq!(*store.has.lock().unwrap(), in_map, "behind: {behind_it}");
        map.remove_many((0..4).map(|n| format!("k{n}"))).await.unwrap();
        assert!(map.flush(SOON).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_written_when_it_is_full_or_after_the_delay() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).write_behind(WriteBehind { batch: 3, ..behind(NEVER) }).build().unwrap();
    map.set(key("a"), 1).await.unwrap();
    map.set(key("a"), 2).await.unwrap();
    map.set(key("b"), 3).await.unwrap();
    assert_eq!((store.writes.load(Ordering::SeqCst), map.write_behind_stats().waiting), (0, 2), "one key waits once");
    map.set(key("c"), 4).await.unwrap();
    wait_until(SOON, async || map.write_behind_stats().written == 3).await;
    assert_eq!((store.writes.load(Ordering::SeqCst), store.get("a"), store.get("c")), (1, Some(2), Some(4)));
    assert_eq!(store.history.lock().unwrap().len(), 3, "the newest value alone is written");
    map.set(key("d"), 5).await.unwrap();
    assert!(map.flush(SOON).await);
    assert_eq!(store.get("d"), Some(5));
    let soon = before(&client, &store).write_behind(behind(Duration::from_millis(20))).build().unwrap();
    soon.set(key("e"), 6).await.unwrap();
    wait_until(SOON, async || store.get("e") == Some(6)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_waiting_for_removal_is_not_loaded_again() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1)]);
    let map = before(&client, &store).write_behind(behind(NEVER)).build().unwrap();
    assert_eq!(map.remove(key("a")).await.unwrap(), None);
    assert_eq!((map.get(&key("a")).await.unwrap(), store.get("a")), (None, Some(1)), "the store still has it");
    map.set(key("b"), 2).await.unwrap();
    map.map().remove("b").await.unwrap();
    assert_eq!(map.get(&key("b")).await.unwrap(), Some(2), "a waiting value is newer than that of the store");
    // A read sees the value also while the store writes it.
    store.shut();
    let flush = tokio::spawn({
        let map = map.clone();
        async move { map.flush(SOON).await }
    });
    store.until_came(1).await;
    let loads = store.loads.load(Ordering::SeqCst);
    assert_eq!(map.get(&key("a")).await.unwrap(), None);
    assert_eq!(store.loads.load(Ordering::SeqCst), loads);
    store.open();
    assert!(flush.await.unwrap());
    assert_eq!(store.get("a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_holds_changes_back_and_changes_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let terms = WriteBehind { capacity: 2, capacity_timeout: Duration::from_millis(100), ..behind(NEVER) };
    let map = before(&client, &store).write_behind(terms).build().unwrap();
    store.shut();
    map.set_many([(key("a"), 1), (key("b"), 2)]).await.unwrap();
    let told = map.set(key("c"), 3).await.unwrap_err();
    assert!(matches!(told, BackedError::Full { capacity: 2, .. }), "{told:?}");
    assert_eq!(map.map().get("c").await.unwrap(), None);
    store.open();
    assert!(map.flush(SOON).await);
    map.set(key("c"), 3).await.unwrap();
    // A batch is at most as large as the queue.
    let patient = WriteBehind { capacity: 2, batch: 1, capacity_timeout: SOON, ..behind(NEVER) };
    let map = before(&client, &store).write_behind(patient).build().unwrap();
    map.set_many((0..7).map(|n| (n.to_string(), n))).await.unwrap();
    assert!(map.flush(SOON).await);
    assert_eq!(store.get("6"), Some(6));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_the_store_never_accepts_are_counted_and_reported() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let lost = Arc::new(Mutex::new(BTreeSet::new()));
    let told = Arc::clone(&lost);
    let on_loss = move |loss: Loss<String>| {
        assert!(loss.error.to_string().contains("down") || loss.error.to_string().contains("panic"));
        told.lock().unwrap().extend(loss.keys);
        panic!("a panic in the callback, and the work continues");
    };
    let terms = before(&client, &store).attempts(3).retry_interval(Duration::from_millis(1));
    let map = terms.write_behind(WriteBehind { batch: 2, ..behind(NEVER) }).on_loss(on_loss).build().unwrap();
    store.fail(2);
    map.set_many([(key("a"), 1), (key("b"), 2)]).await.unwrap();
    wait_until(SOON, async || map.write_behind_stats().written == 2).await;
    store.fail(3);
    map.set_many([(key("c"), 3), (key("d"), 4)]).await.unwrap();
    wait_until(SOON, async || map.write_behind_stats().lost == 2).await;
    store.panics.store(true, Ordering::SeqCst);
    map.remove(key("a")).await.unwrap();
    assert!(map.flush(SOON).await, "a reported loss is done, too");
    store.panics.store(false, Ordering::SeqCst);
    map.set(key("e"), 5).await.unwrap();
    assert!(map.flush(SOON).await);
    assert_eq!(
        (map.write_behind_stats().written, map.write_behind_stats().lost, map.write_behind_stats().waiting),
        (3, 3, 0)
    );
    assert_eq!(*lost.lock().unwrap(), BTreeSet::from([key("a"), key("c"), key("d")]));
    assert_eq!(store.get("e"), Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_writes_pending_changes() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).write_behind(behind(NEVER)).build().unwrap();
    map.set_many((0..300).map(|n| (n.to_string(), n))).await.unwrap();
    client.shutdown(SOON).await.unwrap();
    assert_eq!(
        (store.has.lock().unwrap().len(), map.write_behind_stats().written, map.write_behind_stats().lost),
        (300, 300, 0)
    );
    let told = map.set(key("late"), 1).await.unwrap_err();
    assert!(matches!(told, BackedError::Closed { .. }), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_a_store_that_hangs() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let terms = WriteBehind { batch: 10, flush_timeout: Duration::from_millis(300), ..behind(NEVER) };
    let lost = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&lost);
    let on_loss = move |loss: Loss<String>| {
        count.fetch_add(u32::try_from(loss.keys.len()).unwrap(), Ordering::SeqCst);
    };
    let map = before(&client, &store).store_timeout(NEVER).write_behind(terms).on_loss(on_loss).build().unwrap();
    store.shut();
    map.set_many((0..25).map(|n| (n.to_string(), n))).await.unwrap();
    store.until_came(1).await;
    client.shutdown(SOON).await.unwrap();
    assert_eq!(
        (map.write_behind_stats().lost, map.write_behind_stats().waiting, lost.load(Ordering::SeqCst)),
        (25, 0, 25)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_leaves_no_unwritten_changes() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let map = before(&client, &store).write_behind(behind(NEVER)).build().unwrap();
    map.set(key("a"), 1).await.unwrap();
    drop(map);
    wait_until(SOON, async || store.get("a") == Some(1)).await;
    // The task has ended, and dropped its reference to the store.
    wait_until(SOON, async || Arc::strong_count(&store) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_are_reported_by_name() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let told = |backing: BackedMapBuilder<String, u64, Json, Json>| match backing.build() {
        Err(ObjectError::Failed(Failure::InvalidArgument { option, .. })) => option,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(before(&client, &store).attempts(0)), "attempts");
    assert_eq!(told(before(&client, &store).store_timeout(Duration::ZERO)), "store_timeout");
    assert_eq!(told(before(&client, &store).retry_interval(Duration::from_secs(3601))), "retry_interval");
    let behind = |terms| before(&client, &store).write_behind(terms);
    assert_eq!(told(behind(WriteBehind { batch: 0, ..WriteBehind::default() })), "batch");
    assert_eq!(told(behind(WriteBehind { capacity: 0, ..WriteBehind::default() })), "capacity");
    assert_eq!(told(behind(WriteBehind { delay: Duration::from_secs(3601), ..WriteBehind::default() })), "delay");
    let without = Map::<String, u64>::new(&client, "m").backed().write_behind(WriteBehind::default());
    assert_eq!(told(without), "write_behind");
    let nameless = Map::<String, u64>::new(&client, "{}").backed().build();
    assert!(matches!(nameless, Err(ObjectError::Failed(Failure::InvalidName(_)))));
}
