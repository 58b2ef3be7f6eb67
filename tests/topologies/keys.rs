//! Listing and deleting objects on every topology.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_bucket::Buckets;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Name, Request};
use redgrid_keys::{FlushScope, Key, Keys, Kind, Listing, UnlessLock};
use redgrid_locks::{FairLock, Lock, RwLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "keys";
    objects_are_listed_counted_and_deleted_on_all_nodes,
    companion_keys_are_deleted_with_their_object,
    a_held_lock_is_left_alone_on_request,
    a_random_key_is_an_existing_key,
];

pub(crate) async fn names(listing: Listing) -> BTreeSet<String> {
    let all: BTreeSet<Key> = listing.try_collect().await.unwrap();
    all.iter().map(Key::to_string).collect()
}

/// Returns the keys that are left, except those that outlive their object.
async fn left(keys: &Keys, pattern: String) -> Vec<Key> {
    let all: Vec<Key> = keys.all().matching(pattern).try_collect().await.unwrap();
    all.into_iter().filter(|key| !key.outlives()).collect()
}

pub(crate) async fn fill(client: &Client, names: &BTreeSet<String>) {
    let buckets: Buckets<u64> = Buckets::new(client);
    buckets.set_each(names.iter().map(|name| (name, &1))).await.unwrap();
}

async fn objects_are_listed_counted_and_deleted_on_all_nodes(on: Fixture) {
    let client = on.client().await;
    let keys = Keys::new(&client);
    let all: BTreeSet<String> = (0..100).map(|n| format!("{}:{n}", on.name)).collect();
    fill(&client, &all).await;
    let pattern = format!("{}:*", on.name);
    assert_eq!(names(keys.objects().matching(pattern.clone()).page(7)).await, all);
    assert_eq!(names(keys.objects().matching(pattern.clone()).of_kind(Kind::String)).await, all);
    assert!(names(keys.objects().matching(pattern.clone()).of_kind(Kind::Hash)).await.is_empty());
    assert!(keys.count().await.unwrap() >= 100);
    assert_eq!((keys.exists(&all).await.unwrap(), keys.touch(&all).await.unwrap()), (100, 100));
    assert_eq!(keys.expire_in(HOUR, &all).await.unwrap(), 100);
    let lives = keys.lifetimes(&all).await.unwrap();
    assert!(lives.len() == 100 && lives.values().all(|life| matches!(life, Lifetime::Ends(_))), "{lives:?}");
    assert_eq!(keys.persist(&all).await.unwrap(), 100);
    let first = all.first().unwrap();
    assert_eq!(keys.kind(first).await.unwrap(), Some(Kind::String));
    keys.rename(first, format!("{}:renamed", on.name)).await.unwrap();
    assert_eq!((keys.delete([first]).await.unwrap(), keys.unlink(all.iter().take(11)).await.unwrap()), (0, 10));
    assert_eq!(keys.delete_by_pattern(pattern.clone()).await.unwrap(), 90);
    assert!(left(&keys, pattern).await.is_empty());
}

async fn companion_keys_are_deleted_with_their_object(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let keys = Keys::new(&one);
    let (permits, fair) = (format!("{}:permits", on.name), format!("{}:fair", on.name));
    let semaphore = PermitExpirableSemaphore::new(&one, &permits);
    assert!(semaphore.try_set_permits(3).await.unwrap());
    let permit = semaphore.acquire().lease(HOUR).await.unwrap();
    let held = FairLock::new(&one, &fair).acquire().await.unwrap();
    let waiter = tokio::spawn(FairLock::new(&two, &fair).acquire().timeout(SOON).into_future());
    let companions = async || {
        let all: Vec<Key> = keys.all().matching(format!("{}:*", on.name)).try_collect().await.unwrap();
        all.into_iter().filter(|key| key.is_companion()).count()
    };
    // The companions are the leases, and the queue of the lock with its times.
    wait_until(SOON, async || companions().await >= 4).await;
    assert_eq!(names(keys.objects().matching(format!("{}:*", on.name))).await, [fair.clone(), permits.clone()].into());
    waiter.abort();
    drop(held);
    two.shutdown(SOON).await.unwrap();
    assert!(keys.delete([&permits, &fair]).await.unwrap() >= 1);
    let left = left(&keys, format!("{}:*", on.name)).await;
    assert!(left.is_empty(), "{left:?}");
    drop(permit);
}

async fn a_held_lock_is_left_alone_on_request(on: Fixture) {
    let client = on.client().await;
    let keys = Keys::new(&client);
    let name = |suffix: &str| format!("{}:{suffix}", on.name);
    let plain = Lock::new(&client, name("plain")).acquire().lease(HOUR).await.unwrap();
    let fair = FairLock::new(&client, name("fair")).acquire().lease(HOUR).await.unwrap();
    let read = RwLock::new(&client, name("read")).read().lease(HOUR).await.unwrap();
    let write = RwLock::new(&client, name("write")).write().lease(HOUR).await.unwrap();
    for lock in ["plain", "fair", "read", "write"].map(name) {
        assert_eq!(keys.unlink_unless_lock(&*lock).await.unwrap(), UnlessLock::IsLock, "{lock}");
        for lifetime in [Some(Duration::from_millis(1)), None] {
            let changed = keys.set_lifetime_unless_lock(&*lock, lifetime).await.unwrap();
            assert_eq!(changed, UnlessLock::IsLock, "{lock}");
        }
        let lives = keys.lifetimes([&lock]).await.unwrap();
        assert!(matches!(lives.values().next(), Some(Lifetime::Ends(left)) if *left > HOUR / 2), "{lives:?}");
    }
    plain.release().await.unwrap();
    fair.release().await.unwrap();
    read.release().await.unwrap();
    write.release().await.unwrap();

    let (permits, map) = (name("permits"), name("map"));
    assert!(PermitExpirableSemaphore::new(&client, &permits).try_set_permits(3).await.unwrap());
    // A map of the client's own with a field that is nearly a holder's.
    let fill = Request::command("HSET").key(client.key(&Name::new(&map).unwrap())).arg("mode").arg("read");
    client.run::<()>(fill).await.unwrap();
    for object in [&permits, &map] {
        assert_eq!(keys.set_lifetime_unless_lock(object, Some(HOUR)).await.unwrap(), UnlessLock::Done);
        assert_eq!(keys.set_lifetime_unless_lock(object, None).await.unwrap(), UnlessLock::Done);
        assert_eq!(keys.set_lifetime_unless_lock(object, None).await.unwrap(), UnlessLock::Absent, "it has none");
        assert_eq!(keys.unlink_unless_lock(object).await.unwrap(), UnlessLock::Done);
        assert_eq!(keys.unlink_unless_lock(object).await.unwrap(), UnlessLock::Absent);
    }
    let left = left(&keys, format!("{permits}*")).await;
    assert!(left.is_empty(), "{left:?}");
}

async fn a_random_key_is_an_existing_key(on: Fixture) {
    let client = on.client_with(|config| config.namespace(&on.name).unwrap()).await;
    let keys = Keys::new(&client);
    assert_eq!(keys.random().await.unwrap(), None);
    let all: BTreeSet<String> = (0..20).map(|n| format!("n:{n}")).collect();
    fill(&client, &all).await;
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        seen.insert(keys.random().await.unwrap().unwrap().to_string());
    }
    assert!(seen.is_subset(&all) && seen.len() > 3, "{seen:?}");
    assert_eq!(names(keys.objects()).await, all);
    keys.flush(FlushScope::Namespace).await.unwrap();
    assert_eq!(keys.count().await.unwrap(), 0);
}
