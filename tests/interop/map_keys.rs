//! Locks, semaphores and latches of a map key, under one name on both sides.

use redgrid_countdown_latch::CountDownLatch;
use redgrid_map::Map;
use redgrid_map::codecs::{Codec, Encode, Json, Kryo, Long, Raw, Text};
use redgrid_tests::SOON;

use crate::fixture::{AT_ONCE, Fixture, at_once, scenarios};

scenarios![
    the_lock_of_a_key_has_one_name_whatever_the_codec_and_the_length,
    rust_waits_for_the_key_that_java_has_locked,
    java_waits_for_the_key_that_rust_has_locked,
    fair_locks_of_keys_exclude_each_other,
    readers_and_writers_of_a_key_are_the_same,
    permits_of_a_key_are_the_same,
    leased_permits_of_a_key_are_the_same,
    a_latch_of_a_key_is_the_same,
    both_compute_one_value_and_none_is_lost,
    java_waits_to_compute_while_rust_does,
];

fn text(client: &redgrid_core::Client, on: &Fixture) -> Map<String, String, Text> {
    Map::<String, String, Text>::new(client, &on.name)
}

async fn the_lock_of_a_key_has_one_name_whatever_the_codec_and_the_length(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    // The hash processes packets of 32 bytes, and has a separate case for each length of the rest.
    for length in (1..70).chain([127, 128, 129, 1000]) {
        let key = "abcdefghij".repeat(100)[..length].to_owned();
        let theirs = java.value_of("key.name", &on.name, &["string", &key]).await;
        assert_eq!(theirs, name_of(&text(&client, &on), &key).await, "a key of {length} bytes");
    }
    let theirs = java.value_of("key.name", &on.name, &["long", "long:-5"]).await;
    assert_eq!(theirs, name_of(&Map::<i64, i64, Long>::new(&client, &on.name), &-5).await);
    let theirs = java.value_of("key.name", &on.name, &["kryo", "ünï"]).await;
    assert_eq!(theirs, name_of(&Map::<String, i64, Kryo>::new(&client, &on.name), &"ünï".to_owned()).await);
    let theirs = java.value_of("key.name", &on.name, &["json", "a b"]).await;
    assert_eq!(theirs, name_of(&Map::<String, i64, Json>::new(&client, &on.name), &"a b".to_owned()).await);
    let theirs = java.value_of("key.name", &on.name, &["bytes", "bytes:00ff"]).await;
    assert_eq!(theirs, name_of(&Map::<Vec<u8>, Vec<u8>, Raw>::new(&client, &on.name), &vec![0, 255]).await);
    // This name has a hash tag of its own.
    let tagged = format!("a{{{}}}b", on.name);
    let theirs = java.value_of("key.name", &tagged, &["string", "d"]).await;
    assert_eq!(theirs, name_of(&Map::<String, String, Text>::new(&client, &tagged), &"d".to_owned()).await);
}

async fn name_of<K, V, KC: Encode<K>, VC: Codec>(map: &Map<K, V, KC, VC>, key: &K) -> String {
    let guard = map.lock(key).unwrap().acquire().timeout(SOON).await.unwrap();
    let name = guard.name().to_string();
    guard.release().await.unwrap();
    name
}

async fn rust_waits_for_the_key_that_java_has_locked(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    java.value_of("key.lock", &on.name, &["string", "a", "lock"]).await;
    let map = text(&client, &on);
    assert!(map.lock("a").unwrap().try_acquire().await.unwrap().is_none());
    assert!(map.lock("b").unwrap().try_acquire().await.unwrap().is_some(), "another key is free");
    let waiter = tokio::spawn(map.lock("a").unwrap().acquire().into_future());
    redgrid_testkit::wait_until(SOON, async || client.stats().channels == 1).await;
    at_once(async {
        java.value_of("key.unlock", &on.name, &["string", "a", "lock"]).await;
        waiter.await.unwrap().unwrap().release().await.unwrap();
    })
    .await;
}

async fn java_waits_for_the_key_that_rust_has_locked(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let guard = text(&client, &on).lock("a").unwrap().acquire().await.unwrap();
    assert_eq!(java.value_of("key.tryLock", &on.name, &["string", "a", "lock"]).await, "false");
    java.begin_value("key.lock", &on.name, &["string", "a", "lock"]).await;
    java.until_asleep().await;
    at_once(async {
        guard.release().await.unwrap();
        java.done().await.unwrap();
    })
    .await;
    java.value_of("key.unlock", &on.name, &["string", "a", "lock"]).await;
}

async fn fair_locks_of_keys_exclude_each_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let lock = text(&client, &on).fair_lock("a").unwrap();
    java.value_of("key.lock", &on.name, &["string", "a", "fairlock"]).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    java.value_of("key.unlock", &on.name, &["string", "a", "fairlock"]).await;
    let guard = lock.acquire().timeout(AT_ONCE).await.unwrap();
    assert_eq!(java.value_of("key.tryLock", &on.name, &["string", "a", "fairlock"]).await, "false");
    guard.release().await.unwrap();
}

async fn readers_and_writers_of_a_key_are_the_same(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let lock = text(&client, &on).rw_lock("a").unwrap();
    java.value_of("key.lock", &on.name, &["string", "a", "read"]).await;
    let reader = lock.try_read().await.unwrap().expect("readers share");
    assert!(lock.try_write().await.unwrap().is_none());
    reader.release().await.unwrap();
    java.value_of("key.unlock", &on.name, &["string", "a", "read"]).await;
    let writer = lock.try_write().await.unwrap().expect("it is free");
    assert_eq!(java.value_of("key.tryLock", &on.name, &["string", "a", "read"]).await, "false");
    writer.release().await.unwrap();
}

async fn permits_of_a_key_are_the_same(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let semaphore = text(&client, &on).plain_semaphore("a").unwrap();
    assert!(semaphore.try_set_permits(3).await.unwrap());
    assert_eq!(java.value_of("key.permits", &on.name, &["string", "a"]).await, "3");
    java.value_of("key.release", &on.name, &["string", "a"]).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 4);
}

async fn leased_permits_of_a_key_are_the_same(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let semaphore = text(&client, &on).permit_expirable_semaphore("a").unwrap();
    assert!(semaphore.try_set_permits(3).await.unwrap());
    assert_eq!(java.value_of("key.leasedPermits", &on.name, &["string", "a"]).await, "3");
    java.value_of("key.addLeasedPermits", &on.name, &["string", "a"]).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 4);
}

async fn a_latch_of_a_key_is_the_same(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch: CountDownLatch = text(&client, &on).countdown_latch("a").unwrap();
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(java.value_of("key.countDown", &on.name, &["string", "a"]).await, "1");
    assert_eq!(latch.count_down().await.unwrap(), 0);
}

/// Both sides compute one value, and no change is lost. Redisson reads, computes and writes without
/// a comparison. Only the lock of the key keeps both sides apart.
async fn both_compute_one_value_and_none_is_lost(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let map: Map<String, i64, Kryo> = Map::new(&client, &on.name);
    java.begin_value("key.compute", &on.name, &["kryo", "n", "100"]).await;
    for _ in 0..50 {
        let computed = map.locked().timeout(SOON).compute("n", |n| async move { Some(n.unwrap_or(0) + 1) }).await;
        computed.unwrap().unwrap();
        map.locked().timeout(SOON).merge("n", &1, |n, one| async move { Some(n + one) }).await.unwrap().unwrap();
    }
    java.done().await.unwrap();
    assert_eq!(map.get("n").await.unwrap(), Some(200));
}

async fn java_waits_to_compute_while_rust_does(on: Fixture) {
    let (java, client) = (tokio::sync::Mutex::new(on.java()), on.client().await);
    let map: Map<String, i64, Kryo> = Map::new(&client, &on.name);
    let computed = map.locked().compute("n", |n| {
        assert_eq!(n, None);
        async {
            let mut java = java.lock().await;
            java.begin_value("key.compute", &on.name, &["kryo", "n", "1"]).await;
            java.until_asleep().await;
            assert_eq!(map.get("n").await.unwrap(), None, "it waits");
            Some(10)
        }
    });
    assert_eq!(computed.await.unwrap(), Some(10));
    java.into_inner().done().await.unwrap();
    assert_eq!(map.get("n").await.unwrap(), Some(11));
}
