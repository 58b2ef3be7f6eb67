//! Maps cached by both sides: a change by one invalidates the other.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_local_cached_map::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::fixture::{AT_ONCE, Fixture, scenarios};

scenarios![
    changes_of_java_invalidate_our_cache,
    our_changes_invalidate_the_cache_of_java,
    values_that_java_sends_along_are_read_anew,
    both_clear_the_cache_of_the_other,
    a_transaction_of_java_waits_for_us_and_is_seen,
];

/// Returns a map whose bound of staleness is so long that no entry is read again because of it.
fn cached_map<C: Codec>(client: &Client, name: &str, codec: C) -> LocalCachedMap<String, String, C> {
    let options = Options::default().max_stale(Duration::from_secs(3600));
    LocalCachedMap::<String, String>::with_options(client, name, options).with_codec(codec)
}

/// Waits until the map returns the value from its cache.
async fn until_cached<C>(map: &LocalCachedMap<String, String, C>, key: &str, value: &str)
where
    C: Codec + Encode<str> + Decode<String>,
{
    let from_cache = async || {
        let hits = map.stats().hits;
        map.get(key).await.unwrap().as_deref() == Some(value) && map.stats().hits > hits
    };
    wait_until(SOON, from_cache).await;
}

async fn java(actor: &mut Actor, name: &str, codec: &str, verb: &str, words: &[&str]) -> String {
    actor.value_of(&format!("near.{verb}"), name, &[&[codec], words].concat()).await
}

async fn changes_of_java_invalidate_our_cache(on: Fixture) {
    changed_by_java(&on, &on.name, "string", Text).await;
    changed_by_java(&on, &format!("{}:kryo", on.name), "kryo", Kryo).await;
}

async fn values_that_java_sends_along_are_read_anew(on: Fixture) {
    changed_by_java(&on, &format!("{}:update", on.name), "string", Text).await;
}

async fn changed_by_java<C>(on: &Fixture, name: &str, codec: &str, with: C)
where
    C: Codec + Encode<str> + Encode<String> + Decode<String>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let here = cached_map(&client, name, with);
    java(&mut actor, name, codec, "fastPut", &["a", "0"]).await;
    until_cached(&here, "a", "0").await;
    let changes: [(&str, &[&str], &str); 5] = [
        ("put", &["a", "1"], "1"),
        ("fastPut", &["a", "2"], "2"),
        ("replace", &["a", "2", "3"], "3"),
        ("putAll", &["a", "4", "b", "5"], "4"),
        ("fastPut", &["a", "6"], "6"),
    ];
    for (verb, words, value) in changes {
        java(&mut actor, name, codec, verb, words).await;
        until_cached(&here, "a", value).await;
    }
    for verb in ["remove", "fastRemove", "clear"] {
        java(&mut actor, name, codec, "fastPut", &["ü", "there"]).await;
        until_cached(&here, "ü", "there").await;
        java(&mut actor, name, codec, verb, if verb == "clear" { &[] } else { &["ü"] }).await;
        wait_until(SOON, async || here.get("ü").await.unwrap().is_none()).await;
    }
}

async fn our_changes_invalidate_the_cache_of_java(on: Fixture) {
    changed_here(&on, &on.name, "string", Text).await;
    changed_here(&on, &format!("{}:kryo", on.name), "kryo", Kryo).await;
}

async fn changed_here<C>(on: &Fixture, name: &str, codec: &str, with: C)
where
    C: Codec + Encode<str> + Encode<String> + Decode<String>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let here = cached_map(&client, name, with);
    for step in 0..9 {
        java(&mut actor, name, codec, "fastPut", &["a", "java"]).await;
        java(&mut actor, name, codec, "get", &["a"]).await;
        assert_eq!(java(&mut actor, name, codec, "cached", &[]).await, "{a=java}");
        let ours = "ours".to_owned();
        match step {
            0 => drop(here.set("a", &ours).await.unwrap()),
            1 => drop(here.insert("a", &ours).await.unwrap()),
            2 => drop(here.replace("a", &ours).await.unwrap()),
            3 => drop(here.set_if_exists("a", &ours).await.unwrap()),
            4 => drop(here.compare_and_set("a", &"java".to_owned(), &ours).await.unwrap()),
            5 => here.set_many([("a", &ours)]).await.unwrap(),
            6 => drop(here.alter("a", |_| Some("ours".to_owned())).await.unwrap()),
            7 => drop(here.remove("a").await.unwrap()),
            _ => drop(here.clear().await.unwrap()),
        }
        let has = if step < 7 { "ours" } else { "null" };
        let until = Instant::now() + SOON;
        while java(&mut actor, name, codec, "get", &["a"]).await != has {
            assert!(Instant::now() < until, "Java keeps what was changed by {step}");
        }
    }
}

async fn both_clear_the_cache_of_the_other(on: Fixture) {
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let here = cached_map(&client, name, Text);
    java(&mut actor, name, "string", "fastPut", &["a", "1"]).await;
    until_cached(&here, "a", "1").await;
    let (clears, began) = (here.stats().clears, Instant::now());
    // Java waits until all subscribers report that they have cleared their caches.
    java(&mut actor, name, "string", "clearLocalCache", &[]).await;
    assert!(began.elapsed() < AT_ONCE, "Java waited {:?}", began.elapsed());
    assert!(here.stats().clears > clears && here.cached_keys().unwrap().is_empty());
    java(&mut actor, name, "string", "get", &["a"]).await;
    here.clear_all_local().await.unwrap();
    let until = Instant::now() + SOON;
    while java(&mut actor, name, "string", "cached", &[]).await != "{}" {
        assert!(Instant::now() < until, "Java still caches it");
    }
    // Every semaphore that is left has a lifetime.
    for key in on.observer.keys(&format!("{name}:clear:*")).await.unwrap() {
        assert!(on.observer.time_to_live(&key).await.unwrap().is_some(), "{key}");
    }
}

async fn a_transaction_of_java_waits_for_us_and_is_seen(on: Fixture) {
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let here = cached_map(&client, name, Text);
    java(&mut actor, name, "string", "fastPut", &["a", "1"]).await;
    until_cached(&here, "a", "1").await;
    let began = Instant::now();
    java(&mut actor, name, "string", "transaction", &["a", "2"]).await;
    assert!(began.elapsed() < AT_ONCE, "Java waited {:?}", began.elapsed());
    until_cached(&here, "a", "2").await;
}
