//! Maps backed by a store, with short shutdowns, lost replies, lost locks, and small queues.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_locks::LockLost;
use redgrid_map::{BackedError, Loss, ObjectError, StoreTimeout, WriteBehind};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::store::{NEVER, Store, before, behind, key};
use redgrid_tests::{SOON, client, client_with, server};

/// Counts the keys reported as lost.
fn counted() -> (Arc<AtomicU32>, impl Fn(Loss<String>) + Send + Sync + 'static) {
    let lost = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&lost);
    let on_loss = move |loss: Loss<String>| {
        count.fetch_add(u32::try_from(loss.keys.len()).unwrap(), Ordering::SeqCst);
    };
    (lost, on_loss)
}

#[tokio::test(flavor = "multi_thread")]
async fn unwritten_changes_of_a_short_shutdown_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let (lost, on_loss) = counted();
    // If the client were not shut down, the flush would continue for longer.
    let terms = WriteBehind { batch: 10, flush_timeout: SOON, ..behind(NEVER) };
    let map = before(&client, &store).store_timeout(NEVER).write_behind(terms).on_loss(on_loss).build().unwrap();
    store.shut();
    map.set_many((0..25).map(|n| (n.to_string(), n))).await.unwrap();
    store.until_came(1).await;
    let _ = client.shutdown(Duration::from_millis(300)).await;
    wait_until(SOON, async || lost.load(Ordering::SeqCst) == 25).await;
    assert_eq!(
        (map.write_behind_stats().lost, map.write_behind_stats().waiting, map.write_behind_stats().written),
        (25, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unwritten_changes_of_the_last_handle_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let (lost, on_loss) = counted();
    let terms = WriteBehind { batch: 2, ..behind(NEVER) };
    let map = before(&client, &store).store_timeout(NEVER).write_behind(terms).on_loss(on_loss).build().unwrap();
    store.shut();
    map.set_many((0..3).map(|n| (n.to_string(), n))).await.unwrap();
    store.until_came(1).await;
    drop((map, client));
    wait_until(SOON, async || lost.load(Ordering::SeqCst) == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_write_through() {
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
    let flush = map.flush(Duration::from_millis(50)).await;
    assert!(!flush, "a change is in flight");
    let shutdown = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(SOON).await }
    });
    wait_until(SOON, async || client.is_shut_down()).await;
    let late = map.insert(key("b"), 2).await.unwrap_err();
    assert!(matches!(late, BackedError::Closed { .. }), "{late:?}");
    assert!(!shutdown.is_finished());
    store.open();
    shutdown.await.unwrap().unwrap();
    assert_eq!((change.await.unwrap().unwrap(), store.get("a"), store.get("b")), (None, Some(1), None));
    assert!(map.flush(SOON).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_reverts_values_that_the_store_rejected() {
    let server = server().await;
    let (other, hung, failing) = (client(&server).await, client(&server).await, client(&server).await);
    let store = Store::with([]);
    let seen = before(&other, &store).build().unwrap();
    // During the shutdown, the store of one client hangs, and that of the other rejects the value.
    for (client, within, opens) in [(hung, Duration::from_secs(4), false), (failing, SOON, true)] {
        seen.insert(key("a"), 1).await.unwrap();
        let map = before(&client, &store).store_timeout(NEVER).build().unwrap();
        store.shut();
        let calls = store.calls();
        let change = tokio::spawn({
            let map = map.clone();
            async move { map.insert(key("a"), 2).await }
        });
        store.until_came(calls + 1).await;
        assert_eq!(seen.map().get("a").await.unwrap(), Some(2));
        let shutdown = tokio::spawn({
            let client = client.clone();
            async move { client.shutdown(within).await }
        });
        wait_until(SOON, async || client.is_shut_down()).await;
        if opens {
            store.fail(1);
            store.open();
        }
        let told = change.await.unwrap().unwrap_err();
        assert!(matches!(told, BackedError::NotStored { .. }), "{told:?}");
        shutdown.await.unwrap().unwrap();
        assert_eq!((seen.map().get("a").await.unwrap(), store.get("a")), (Some(1), Some(1)));
        store.open();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_lost_reply_reaches_the_store() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(2))).await;
    for behind_it in [false, true] {
        let store = Store::with([]);
        let map = before(&client, &store);
        let map = if behind_it { map.write_behind(behind(NEVER)) } else { map };
        let map = map.build().unwrap();
        // The server has cached the scripts after these calls.
        map.set(key("a"), 1).await.unwrap();
        map.set_many([(key("c"), 1), (key("d"), 1)]).await.unwrap();
        map.remove(key("d")).await.unwrap();
        assert!(map.flush(SOON).await);
        let unknown = |told: Result<(), BackedError>| {
            let told = told.unwrap_err();
            assert!(
                matches!(&told, BackedError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. }))),
                "{told:?}"
            );
        };
        proxy.next(1, "EVALSHA", Action::SwallowReply);
        unknown(map.set(key("a"), 2).await);
        proxy.next(1, "EVALSHA", Action::SwallowReply);
        unknown(map.remove(key("c")).await.map(drop));
        proxy.next(1, if behind_it { "HSET" } else { "EVALSHA" }, Action::SwallowReply);
        unknown(map.set_many([(key("e"), 5), (key("f"), 6)]).await);
        assert!(map.flush(SOON).await);
        assert_eq!(map.map().get_many(["a", "c", "e", "f"]).await.unwrap(), [Some(2), None, Some(5), Some(6)]);
        let has = ["a", "c", "e", "f"].map(|key| store.get(key));
        assert_eq!(has, [Some(2), None, Some(5), Some(6)], "behind: {behind_it}");
        assert_eq!(map.write_behind_stats().lost, 0);
        // A change that does not reach the server must not reach the store either.
        proxy.next(1, "EVALSHA", Action::CutBefore);
        map.set(key("a"), 3).await.unwrap_err();
        assert!(map.flush(SOON).await);
        assert_eq!((map.map().get("a").await.unwrap(), store.get("a")), (Some(2), Some(2)));
        map.map().clear().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_an_unknown_outcome_counts_as_lost() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let brief = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(500)).retries(0);
    let client = client_with(&server.url_via(proxy.addr()), brief).await;
    let store = Store::with([]);
    let (lost, on_loss) = counted();
    let map = before(&client, &store).write_behind(behind(NEVER)).on_loss(on_loss).build().unwrap();
    map.set(key("a"), 1).await.unwrap();
    assert!(map.flush(SOON).await);
    proxy.on_request(|request| match &request[0][..] {
        b"EVALSHA" | b"HMGET" => Action::SwallowReply,
        _ => Action::Forward,
    });
    map.set(key("a"), 2).await.unwrap_err();
    assert_eq!((map.write_behind_stats().lost, lost.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_shorter_than_a_batch_is_written_when_it_is_full() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([]);
    let short = WriteBehind { capacity: 2, batch: 50, capacity_timeout: SOON, ..behind(NEVER) };
    let map = before(&client, &store).write_behind(short).build().unwrap();
    map.set_many((0..7).map(|n| (n.to_string(), n))).await.unwrap();
    map.set(key("a"), 1).await.unwrap();
    map.set(key("b"), 2).await.unwrap();
    assert!(map.write_behind_stats().waiting <= 2 && store.get("5").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_lock_is_lost_is_no_longer_written_or_loaded() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("b", 1)]);
    let map = before(&client, &store).exclusive().store_timeout(NEVER).build().unwrap();
    store.shut();
    let change = tokio::spawn({
        let map = map.clone();
        async move { map.insert(key("a"), 1).await }
    });
    store.until_came(1).await;
    assert!(map.map().lock("a").unwrap().force_release().await.unwrap());
    let told = change.await.unwrap().unwrap_err();
    assert!(matches!(&told, BackedError::NotStored { source, .. } if source.is::<LockLost>()), "{told:?}");
    assert_eq!(map.map().get("a").await.unwrap(), None);
    let calls = store.calls();
    let load = tokio::spawn({
        let map = map.clone();
        async move { map.get(&key("b")).await }
    });
    store.until_came(calls + 1).await;
    assert!(map.map().lock("b").unwrap().force_release().await.unwrap());
    let told = load.await.unwrap().unwrap_err();
    assert!(matches!(&told, BackedError::NotLoaded { source, .. } if source.is::<LockLost>()), "{told:?}");
    assert_eq!(map.map().get("b").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_changes_read_old_values_in_one_step() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let store = Store::with([]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&asked);
    proxy.on_request(move |request| {
        sees.lock().unwrap().push(String::from_utf8_lossy(&request[0]).into_owned());
        Action::Forward
    });
    for behind_it in [false, true] {
        let map = before(&client, &store);
        let map = if behind_it { map.write_behind(behind(NEVER)) } else { map };
        let map = map.build().unwrap();
        map.set_many([(key("a"), 1), (key("b"), 2)]).await.unwrap();
        assert_eq!(map.remove_many([key("a"), key("x")]).await.unwrap(), 1);
    }
    let asked = asked.lock().unwrap();
    let count = |name: &str| asked.iter().filter(|asked| *asked == name).count();
    assert_eq!((count("HMGET"), count("HSET"), count("HDEL")), (0, 1, 1), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_name_its_keys_ends_a_load_of_all() {
    let server = server().await;
    let client = client(&server).await;
    let store = Store::with([("a", 1)]);
    store.silent.store(true, Ordering::SeqCst);
    let map = before(&client, &store).store_timeout(Duration::from_millis(100)).build().unwrap();
    let told = tokio::time::timeout(SOON, map.load_all(false, 2)).await.expect("an end in time").unwrap_err();
    assert!(matches!(&told, BackedError::NotLoaded { source, .. } if source.is::<StoreTimeout>()), "{told:?}");
}
