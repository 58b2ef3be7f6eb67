//! Maps cached by both sides, with each of Redisson's synchronization strategies.

use std::time::Duration;

use redgrid_local_cached_map::codecs::Text;
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    our_changes_invalidate_java_with_sync_updates,
    changes_of_java_without_sync_are_seen_after_the_time_to_live,
    our_changes_invalidate_java_with_a_small_cache,
    changes_of_many_keys_are_synchronized_both_ways,
    conditional_changes_of_java_are_synchronized_if_made,
];

type Words = LocalCachedMap<String, String, Text>;

async fn java(actor: &mut Actor, name: &str, verb: &str, words: &[&str]) -> String {
    actor.value_of(&format!("near.{verb}"), name, &[&["string"], words].concat()).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

/// Returns options with a bound of staleness so long that no entry is read again because of it.
fn options() -> Options {
    Options::default().max_stale(Duration::from_secs(3600))
}

/// Waits until the map returns the value from its cache.
async fn until_cached(map: &Words, key: &str, value: &str) {
    let from_cache = async || {
        let hits = map.stats().hits;
        map.get(key).await.unwrap().as_deref() == Some(value) && map.stats().hits > hits
    };
    wait_until(SOON, from_cache).await;
}

async fn until_java_has(actor: &mut Actor, name: &str, key: &str, value: &str) {
    let until = Instant::now() + SOON;
    while java(actor, name, "get", &[key]).await != value {
        assert!(Instant::now() < until, "Java does not see {key}={value}");
    }
}

/// Makes nine changes of each kind to a key that Java caches.
async fn changed_here(on: &Fixture, name: &str) {
    let (mut actor, client) = (on.java(), on.client().await);
    let here = Words::with_options(&client, name, options());
    for n in 0..9 {
        java(&mut actor, name, "fastPut", &["a", "java"]).await;
        until_java_has(&mut actor, name, "a", "java").await;
        let ours = text(&format!("ours {n}"));
        match n % 3 {
            0 => drop(here.set("a", &ours).await.unwrap()),
            1 => drop(here.replace("a", &ours).await.unwrap()),
            _ => drop(here.compare_and_set("a", &text("java"), &ours).await.unwrap()),
        }
        until_java_has(&mut actor, name, "a", &ours).await;
    }
    here.remove("a").await.unwrap();
    until_java_has(&mut actor, name, "a", "null").await;
}

async fn our_changes_invalidate_java_with_sync_updates(on: Fixture) {
    changed_here(&on, &format!("{}:update", on.name)).await;
}

async fn our_changes_invalidate_java_with_a_small_cache(on: Fixture) {
    let name = format!("{}:small", on.name);
    let mut actor = on.java();
    for key in ["x", "y", "z"] {
        java(&mut actor, &name, "fastPut", &[key, "1"]).await;
        java(&mut actor, &name, "get", &[key]).await;
    }
    changed_here(&on, &name).await;
    assert_eq!(java(&mut actor, &name, "get", &["x"]).await, "1");
}

async fn changes_of_java_without_sync_are_seen_after_the_time_to_live(on: Fixture) {
    let name = format!("{}:none", on.name);
    let (mut actor, client) = (on.java(), on.client().await);
    let here = Words::with_options(&client, &name, options().time_to_live(Duration::from_secs(1)));
    java(&mut actor, &name, "fastPut", &["a", "1"]).await;
    until_cached(&here, "a", "1").await;
    let invalidations = here.stats().invalidations;
    java(&mut actor, &name, "fastPut", &["a", "2"]).await;
    wait_until(SOON, async || here.get("a").await.unwrap().as_deref() == Some("2")).await;
    assert_eq!(here.stats().invalidations, invalidations, "no message came");
    // Java keeps its own cached value in any case; the server has Rust's value.
    here.set("a", &text("3")).await.unwrap();
    assert_eq!(java(&mut actor, &name, "get", &["a"]).await, "2");
    java(&mut actor, &name, "clearLocalCache", &[]).await;
    assert_eq!(java(&mut actor, &name, "get", &["a"]).await, "3");
}

async fn changes_of_many_keys_are_synchronized_both_ways(on: Fixture) {
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let here = Words::with_options(&client, name, options());
    let keys: Vec<_> = (0..50).map(|n| format!("k{n}")).collect();
    let words: Vec<_> = keys.iter().flat_map(|key| [key.as_str(), "java"]).collect();
    java(&mut actor, name, "putAll", &words).await;
    for key in &keys {
        until_cached(&here, key, "java").await;
        until_java_has(&mut actor, name, key, "java").await;
    }
    let ours = text("ours");
    here.set_many(keys.iter().map(|key| (key.as_str(), &ours))).await.unwrap();
    for key in &keys {
        until_java_has(&mut actor, name, key, "ours").await;
        until_cached(&here, key, "ours").await;
    }
    java(&mut actor, name, "putAll", &words[..60]).await;
    for (at, key) in keys.iter().enumerate() {
        until_cached(&here, key, if at < 30 { "java" } else { "ours" }).await;
    }
    assert_eq!(here.remove_many(keys.iter().map(String::as_str)).await.unwrap(), 50);
    for key in &keys {
        until_java_has(&mut actor, name, key, "null").await;
    }
}

async fn conditional_changes_of_java_are_synchronized_if_made(on: Fixture) {
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let here = Words::with_options(&client, name, options());
    java(&mut actor, name, "fastPut", &["a", "1"]).await;
    until_cached(&here, "a", "1").await;
    let changes: [(&str, &[&str], &str, Option<&str>); 8] = [
        ("fastPutIfAbsent", &["a", "2"], "false", Some("1")),
        ("putIfAbsent", &["a", "2"], "1", Some("1")),
        ("fastReplace", &["a", "3"], "true", Some("3")),
        ("fastPutIfExists", &["a", "4"], "true", Some("4")),
        ("replace", &["a", "x", "5"], "false", Some("4")),
        ("removeIf", &["a", "x"], "false", Some("4")),
        ("removeIf", &["a", "4"], "true", None),
        ("putIfAbsent", &["a", "6"], "null", Some("6")),
    ];
    for (verb, words, answer, value) in changes {
        assert_eq!(java(&mut actor, name, verb, words).await, answer, "{verb} {words:?}");
        match value {
            Some(value) => until_cached(&here, "a", value).await,
            None => wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await,
        }
    }
    java(&mut actor, name, "clear", &[]).await;
    wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await;
}
