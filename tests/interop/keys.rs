//! Objects of one side are found and deleted by the other: by name, by pattern, with companion
//! keys.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_bucket::Bucket;
use redgrid_bucket::codecs::Text;
use redgrid_core::object::Lifetime;
use redgrid_keys::{Key, Keys, Kind};
use redgrid_map::Map;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, scenarios};

scenarios![
    objects_of_java_are_found_by_type_and_pattern,
    the_queue_of_javas_fair_lock_goes_with_it,
    the_leases_of_javas_permits_go_with_them,
    objects_of_rust_are_found_and_deleted_by_java,
    lifetimes_and_names_are_shared,
    each_side_deletes_the_others_objects_by_pattern,
];

async fn names(keys: &Keys, pattern: String) -> BTreeSet<String> {
    let found: BTreeSet<Key> = keys.objects().matching(pattern).try_collect().await.unwrap();
    found.iter().map(Key::to_string).collect()
}

async fn objects_of_java_are_found_by_type_and_pattern(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let keys = Keys::new(&client);
    let (text, map) = (format!("{}:text", on.name), format!("{}:map", on.name));
    java.value_of("bucket.set", &text, &["kryo", "a"]).await;
    java.value_of("map.put", &map, &["kryo", "a", "1"]).await;
    java.lock(&format!("{}:lock", on.name)).await;
    let all = [text.clone(), map.clone(), format!("{}:lock", on.name)];
    assert_eq!(names(&keys, format!("{}:*", on.name)).await, BTreeSet::from(all.clone()));
    assert_eq!(keys.exists(&all).await.unwrap(), 3);
    assert_eq!(java.value_of("keys.countExists", &all[0], &[&all[1], &all[2], "nothing"]).await, "3");
    assert_eq!(
        (keys.kind(&text).await.unwrap(), keys.kind(&map).await.unwrap()),
        (Some(Kind::String), Some(Kind::Hash))
    );
    assert_eq!(java.value_of("keys.type", &map, &[]).await, "MAP");
    assert_eq!(keys.delete(&all).await.unwrap(), 3);
    assert_eq!(java.value_of("bucket.get", &text, &["kryo"]).await, "null");
}

async fn the_queue_of_javas_fair_lock_goes_with_it(on: Fixture) {
    let (mut holder, redisson, client) = (on.java().fair(), on.own_redisson(SOON).await, on.client().await);
    holder.lock_for(&on.name, Duration::from_secs(600)).await;
    let mut waiter = redisson.actor().fair();
    waiter.begin_try_lock(&on.name, Duration::from_secs(600)).await;
    let queue = format!("redisson_lock_queue:{{{}}}", on.name);
    wait_until(SOON, async || on.observer.exists(&queue).await.unwrap()).await;
    // A living waiter tries again when it has subscribed, and could then enter the deleted lock.
    redisson.kill().await;
    let keys = Keys::new(&client);
    assert_eq!(names(&keys, format!("{}*", on.name)).await, BTreeSet::from([on.name.clone()]));
    let all: BTreeSet<Key> = keys.all().matching(on.name.clone()).try_collect().await.unwrap();
    assert_eq!(all.iter().filter(|key| key.is_companion()).count(), 2, "{all:?}");
    assert_eq!(keys.delete([&on.name]).await.unwrap(), 1);
    for key in [&on.name, &queue, &queue.replace("queue", "timeout")] {
        assert!(!on.observer.exists(key).await.unwrap(), "{key}");
    }
}

async fn the_leases_of_javas_permits_go_with_them(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    java.value_of("leased.trySetPermits", &on.name, &["3"]).await;
    java.value_of("leased.acquire", &on.name, &["1", "600000"]).await;
    let leases = format!("{{{}}}:timeout", on.name);
    assert!(on.observer.exists(&leases).await.unwrap());
    let keys = Keys::new(&client);
    assert_eq!(names(&keys, format!("*{}*", on.name)).await, BTreeSet::from([on.name.clone()]));
    assert_eq!(keys.expire_in(Duration::from_secs(3600), [&on.name]).await.unwrap(), 1);
    assert!(on.observer.time_to_live(&leases).await.unwrap().is_some());
    assert_eq!(keys.unlink([&on.name]).await.unwrap(), 1);
    assert!(!on.observer.exists(&leases).await.unwrap() && !on.observer.exists(&on.name).await.unwrap());
}

async fn objects_of_rust_are_found_and_deleted_by_java(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (text, map) = (format!("{}:text", on.name), format!("{}:map", on.name));
    Bucket::<String>::new(&client, &text).with_codec(Text).set(&"a".into()).await.unwrap();
    let entries: Map<String, String> = Map::new(&client, &map);
    entries.insert("a", &"1".into()).await.unwrap();
    let found = java.value_of("keys.byPattern", &format!("{}:*", on.name), &[]).await;
    assert_eq!(found, format!("{map} {text}"));
    assert_eq!(java.value_of("keys.touch", &text, &[&map]).await, "2");
    assert_eq!(java.value_of("keys.delete", &text, &[&map, "nothing"]).await, "2");
    assert_eq!(Keys::new(&client).exists([&text, &map]).await.unwrap(), 0);
}

async fn lifetimes_and_names_are_shared(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let keys = Keys::new(&client);
    let (here, there) = (on.name.clone(), format!("{}:there", on.name));
    java.value_of("bucket.set", &here, &["string", "a"]).await;
    assert_eq!(java.value_of("keys.expire", &here, &["3600000"]).await, "true");
    let lives = keys.lifetimes([&here, &there]).await.unwrap();
    let of = |name: &str| lives.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, life)| *life);
    assert!(matches!(of(&here), Some(Lifetime::Ends(left)) if left <= Duration::from_secs(3600)), "{lives:?}");
    assert_eq!(of(&there), Some(Lifetime::Absent));
    keys.rename(&here, &there).await.unwrap();
    assert_eq!(java.value_of("keys.clearExpire", &there, &[]).await, "true");
    assert_eq!(keys.persist([&there]).await.unwrap(), 0);
    assert_eq!(keys.expire_in(Duration::from_secs(3600), [&there]).await.unwrap(), 1);
    assert!(java.value_of("keys.remainTimeToLive", &there, &[]).await.parse::<u64>().unwrap() > 1_000_000);
    java.value_of("keys.rename", &there, &[&here]).await;
    assert!(keys.copy(&here, &there).await.unwrap() && !keys.rename_unless_taken(&here, &there).await.unwrap());
    assert_eq!(java.value_of("keys.renamenx", &here, &[&there]).await, "false");
}

async fn each_side_deletes_the_others_objects_by_pattern(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let keys = Keys::new(&client);
    for n in 0..5 {
        java.value_of("bucket.set", &format!("{}:java:{n}", on.name), &["string", "a"]).await;
        let ours = Bucket::<String>::new(&client, format!("{}:rust:{n}", on.name)).with_codec(Text);
        ours.set(&"a".into()).await.unwrap();
    }
    assert_eq!(keys.delete_by_pattern(format!("{}:java:*", on.name)).await.unwrap(), 5);
    assert_eq!(java.value_of("keys.deleteByPattern", &format!("{}:rust:*", on.name), &[]).await, "5");
    assert!(names(&keys, format!("{}*", on.name)).await.is_empty());
}
