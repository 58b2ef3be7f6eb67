//! Shared maps whose entries the server expires, on the newest server.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_cache::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_cache::{Lifetime, NativeMapCache};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    native_maps_of_text_are_read_on_both_sides,
    native_maps_of_kryo_are_read_on_both_sides,
    lifetimes_set_by_java_are_kept_here,
    lifetimes_set_here_are_kept_by_java,
];

const HOUR: Duration = Duration::from_secs(3600);
/// An hour in milliseconds, as Java's verbs take it.
const AN_HOUR: &str = "3600000";

type Native<C> = NativeMapCache<String, String, C>;

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(&format!("nativeMapCache.{verb}"), &on.name, words).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

fn ends(life: Lifetime) -> bool {
    matches!(life, Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2)
}

async fn native_maps_of_text_are_read_on_both_sides(on: Fixture) {
    both_sides(on, "string", Text).await;
}

async fn native_maps_of_kryo_are_read_on_both_sides(on: Fixture) {
    both_sides(on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let Some((_server, on)) = on.on_newest().await else { return };
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Native::<Text>::new(&client, &on.name).with_codec(with);
    assert_eq!(java(&mut actor, &on, "put", &[codec, "ä", "1", AN_HOUR]).await, "null");
    assert_eq!(java(&mut actor, &on, "put", &[codec, "b", "2"]).await, "null");
    java(&mut actor, &on, "putAll", &[codec, AN_HOUR, "c", "3", "d", "4"]).await;
    let all: BTreeMap<String, String> = map.entries().try_collect().await.unwrap();
    assert_eq!(
        all,
        [("ä", "1"), ("b", "2"), ("c", "3"), ("d", "4")].map(|(key, value)| (text(key), text(value))).into()
    );
    assert!(ends(map.lifetime("ä").await.unwrap()) && ends(map.lifetime("d").await.unwrap()));
    assert_eq!(map.lifetime("b").await.unwrap(), Lifetime::Endless);
    assert_eq!(map.insert("b", &text("5")).expires_in(HOUR).await.unwrap().as_deref(), Some("2"));
    assert!(map.compare_and_set("ä", &text("1"), &text("6")).await.unwrap());
    assert_eq!(java(&mut actor, &on, "readAllMap", &[codec]).await, "{b=5, c=3, d=4, ä=6}");
    assert_eq!(java(&mut actor, &on, "putIfAbsent", &[codec, "b", "9", AN_HOUR]).await, "5");
    assert_eq!((map.len().await.unwrap(), java(&mut actor, &on, "size", &[codec]).await), (4, text("4")));
    // An entry that expired is gone on both sides.
    java(&mut actor, &on, "put", &[codec, "e", "7", "50"]).await;
    wait_until(SOON, async || map.get("e").await.unwrap().is_none()).await;
    map.set("e", &text("8")).expires_in(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || map.get("e").await.unwrap().is_none()).await;
    assert_eq!(java(&mut actor, &on, "containsKey", &[codec, "e"]).await, "false");
    assert_eq!(map.remove("b").await.unwrap().as_deref(), Some("5"));
    assert_eq!(java(&mut actor, &on, "get", &[codec, "b"]).await, "null");
    assert_eq!(java(&mut actor, &on, "remove", &[codec, "d"]).await, "4");
    assert!(!map.contains_key("d").await.unwrap());
}

async fn lifetimes_set_by_java_are_kept_here(on: Fixture) {
    let Some((_server, on)) = on.on_newest().await else { return };
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Native::<Text>::new(&client, &on.name);
    java(&mut actor, &on, "put", &["string", "a", "1", AN_HOUR]).await;
    assert_eq!(map.replace("a", &text("2")).await.unwrap().as_deref(), Some("1"));
    assert!(ends(map.lifetime("a").await.unwrap()), "another value keeps the lifetime");
    assert_eq!(map.update("a", |value| value.push('3')).await.unwrap().as_deref(), Some("23"));
    assert!(ends(map.lifetime("a").await.unwrap()), "and another");
    assert_eq!(java(&mut actor, &on, "clearExpire", &["string", "a"]).await, "true");
    assert_eq!(map.lifetime("a").await.unwrap(), Lifetime::Endless);
    assert_eq!(java(&mut actor, &on, "expireEntryIfNotSet", &["string", "a", AN_HOUR]).await, "true");
    assert_eq!(map.expire(["a"]).expires_in(2 * HOUR).only_if_no_expiry().await.unwrap(), 0, "it has a lifetime");
    assert!(ends(map.lifetime("a").await.unwrap()));
}

async fn lifetimes_set_here_are_kept_by_java(on: Fixture) {
    let Some((_server, on)) = on.on_newest().await else { return };
    let (mut actor, client) = (on.java(), on.client().await);
    let map = Native::<Text>::new(&client, &on.name);
    let mut left = async || java(&mut actor, &on, "remainTimeToLive", &["string", "a"]).await.parse::<i64>().unwrap();
    let hour = 1_800_000..=3_600_000;
    map.set("a", &text("1")).expires_in(HOUR).await.unwrap();
    assert!(hour.contains(&left().await));
    map.set("a", &text("1")).await.unwrap();
    assert_eq!(left().await, -1, "the lifetime was removed");
    assert_eq!(map.expire(["a"]).expires_in(HOUR).await.unwrap(), 1);
    assert!(hour.contains(&left().await));
    assert_eq!(map.expire(["a"]).await.unwrap(), 1);
    assert_eq!(left().await, -1);
    map.remove("a").await.unwrap();
    assert!(left().await < 0);
    assert_eq!(java(&mut actor, &on, "expireEntryIfNotSet", &["string", "a", AN_HOUR]).await, "false");
    map.set("a", &text("1")).await.unwrap();
    assert_eq!(java(&mut actor, &on, "expireEntry", &["string", "a", AN_HOUR]).await, "true");
    assert!(ends(map.lifetime("a").await.unwrap()));
}
