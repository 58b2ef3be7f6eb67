//! Caches shared by both sides.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_cache::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_cache::{EntryEvent, Lifetime, Limit, MapCache, Notice, SetCache};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    maps_of_text_are_read_on_both_sides,
    maps_of_kryo_are_read_on_both_sides,
    a_limit_is_kept_by_both_sides,
    changes_of_either_side_are_reported_on_the_other,
    sets_are_read_on_both_sides,
];

const HOUR: Duration = Duration::from_secs(3600);

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(verb, &on.name, words).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

async fn maps_of_text_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "string", Text).await;
}

async fn maps_of_kryo_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let map = MapCache::<String, String, Text>::new(&client, &on.name).with_codecs(with.clone(), with);
    // Java writes entries with a lifetime and an idle time, and Rust sees both times.
    assert_eq!(java(&mut actor, on, "mapCache.put", &[codec, "ä", "1", "3600000", "0"]).await, "null");
    assert_eq!(map.get("ä").await.unwrap().as_deref(), Some("1"));
    assert!(matches!(map.lifetime("ä").await.unwrap(), Lifetime::Ends(left) if left <= HOUR + SOON && left > HOUR / 2));
    java(&mut actor, on, "mapCache.put", &[codec, "b", "2", "0", "3600000"]).await;
    assert_eq!(map.insert_if_absent("b", &text("9")).await.unwrap().as_deref(), Some("2"));
    assert!(matches!(map.lifetime("b").await.unwrap(), Lifetime::Ends(left) if left <= HOUR + SOON));
    java(&mut actor, on, "mapCache.fastPut", &[codec, "c", "3"]).await;
    assert_eq!(map.lifetime("c").await.unwrap(), Lifetime::Endless);
    let all = map.entries().try_collect::<BTreeMap<_, _>>().await.unwrap();
    assert_eq!(all, [("ä", "1"), ("b", "2"), ("c", "3")].map(|(key, value)| (text(key), text(value))).into());
    assert_eq!((map.len().await.unwrap(), java(&mut actor, on, "mapCache.size", &[codec]).await), (3, text("3")));
    // Rust writes, and Java sees the same.
    map.set("d", &text("4")).expires_in(HOUR).idle_for(2 * HOUR).await.unwrap();
    assert_eq!(java(&mut actor, on, "mapCache.get", &[codec, "d"]).await, "4");
    let left: u64 = java(&mut actor, on, "mapCache.remainTimeToLive", &[codec, "d"]).await.parse().unwrap();
    assert!((1_800_000..=3_660_000).contains(&left), "{left}");
    assert!(map.replace("d", &text("5")).await.unwrap().is_some(), "the lifetime stays");
    let left: u64 = java(&mut actor, on, "mapCache.remainTimeToLive", &[codec, "d"]).await.parse().unwrap();
    assert!((1_800_000..=3_660_000).contains(&left), "{left}");
    assert_eq!(java(&mut actor, on, "mapCache.putIfAbsent", &[codec, "d", "9", "1000"]).await, "5");
    map.set("c", &text("6")).await.unwrap();
    assert_eq!(java(&mut actor, on, "mapCache.readAllMap", &[codec]).await, "{b=2, c=6, d=5, ä=1}");
    // An entry that expired is gone on both sides.
    java(&mut actor, on, "mapCache.put", &[codec, "e", "7", "50", "0"]).await;
    wait_until(SOON, async || map.get("e").await.unwrap().is_none()).await;
    map.set("e", &text("8")).expires_in(Duration::from_millis(50)).await.unwrap();
    map.set("f", &text("8")).idle_for(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || map.peek("e").await.unwrap().is_none() && map.peek("f").await.unwrap().is_none()).await;
    for key in ["e", "f"] {
        assert_eq!(java(&mut actor, on, "mapCache.containsKey", &[codec, key]).await, "false");
    }
    assert_eq!(map.remove("b").await.unwrap().as_deref(), Some("2"));
    assert_eq!(java(&mut actor, on, "mapCache.get", &[codec, "b"]).await, "null");
    assert_eq!(java(&mut actor, on, "mapCache.remove", &[codec, "d"]).await, "5");
    assert!(!map.contains_key("d").await.unwrap());
}

async fn a_limit_is_kept_by_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = MapCache::<String, String, Text>::new(&client, &on.name);
    java(&mut actor, &on, "mapCache.setMaxSize", &["string", "2", "LFU"]).await;
    assert_eq!(map.limit().await.unwrap(), Some(Limit::least_frequently_used(2)));
    for key in ["a", "b"] {
        map.set(key, &text("1")).await.unwrap();
    }
    java(&mut actor, &on, "mapCache.get", &["string", "b"]).await;
    map.set("c", &text("1")).await.unwrap();
    assert_eq!(java(&mut actor, &on, "mapCache.readAllMap", &["string"]).await, "{b=1, c=1}");
    for _ in 0..4 {
        map.get("c").await.unwrap();
    }
    java(&mut actor, &on, "mapCache.fastPut", &["string", "d", "1"]).await;
    assert_eq!(map.len().await.unwrap(), 2);
    assert!(map.peek("c").await.unwrap().is_some() && map.peek("d").await.unwrap().is_some());
    // An entry that Redisson has never read counts as unused, and is evicted, too.
    map.set_limit(Limit::least_recently_used(1)).await.unwrap();
    assert_eq!(java(&mut actor, &on, "mapCache.size", &["string"]).await, "1");
    java(&mut actor, &on, "mapCache.fastPut", &["string", "e", "1"]).await;
    map.set("f", &text("1")).await.unwrap();
    assert_eq!(java(&mut actor, &on, "mapCache.readAllMap", &["string"]).await, "{f=1}");
}

async fn changes_of_either_side_are_reported_on_the_other(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = MapCache::<String, String, Text>::new(&client, &on.name);
    assert_eq!(java(&mut actor, &on, "mapCache.listen", &["string"]).await, "listening");
    map.set("a", &text("1")).await.unwrap();
    map.set("a", &text("2")).await.unwrap();
    map.remove("a").await.unwrap();
    map.set("b", &text("3")).expires_in(Duration::from_millis(20)).await.unwrap();
    wait_until(SOON, async || map.get("b").await.unwrap().is_none()).await;
    let expected = ["created a 1;", "updated a 1>2;", "removed a 2;", "created b 3;", "expired b 3;"];
    let mut heard = String::new();
    let began = tokio::time::Instant::now();
    while !expected.iter().all(|event| heard.contains(event)) {
        assert!(began.elapsed() < SOON, "{heard}");
        heard = java(&mut actor, &on, "mapCache.heard", &["string"]).await;
    }
    let mut events = map.events().begin().await.unwrap();
    java(&mut actor, &on, "mapCache.fastPut", &["string", "c", "4"]).await;
    java(&mut actor, &on, "mapCache.fastPut", &["string", "c", "5"]).await;
    java(&mut actor, &on, "mapCache.remove", &["string", "c"]).await;
    let mut next = async || match tokio::time::timeout(SOON, events.next()).await {
        Ok(Some(Notice::Event(event))) => event,
        other => panic!("{other:?}"),
    };
    assert_eq!(next().await, EntryEvent::Created { key: text("c"), value: text("4") });
    assert_eq!(next().await, EntryEvent::Updated { key: text("c"), value: text("5"), was: text("4") });
    assert_eq!(next().await, EntryEvent::Removed { key: text("c"), value: text("5") });
}

async fn sets_are_read_on_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let set = SetCache::<String, Text>::new(&client, &on.name);
    assert_eq!(java(&mut actor, &on, "setCache.add", &["string", "a", "3600000"]).await, "true");
    assert_eq!(java(&mut actor, &on, "setCache.add", &["string", "b"]).await, "true");
    assert!(!set.insert_if_absent("a").await.unwrap() && set.contains("b").await.unwrap());
    assert!(matches!(set.lifetime("a").await.unwrap(), Lifetime::Ends(left) if left <= HOUR + SOON));
    assert_eq!(set.lifetime("b").await.unwrap(), Lifetime::Endless);
    assert!(set.insert("c").expires_in(HOUR).await.unwrap() && set.insert("d").await.unwrap());
    assert_eq!(java(&mut actor, &on, "setCache.readAll", &["string"]).await, "[a, b, c, d]");
    assert_eq!(java(&mut actor, &on, "setCache.add", &["string", "e", "50"]).await, "true");
    wait_until(SOON, async || !set.contains("e").await.unwrap()).await;
    set.insert("f").expires_in(Duration::from_millis(50)).await.unwrap();
    wait_until(SOON, async || !set.contains("f").await.unwrap()).await;
    assert_eq!(java(&mut actor, &on, "setCache.contains", &["string", "f"]).await, "false");
    assert_eq!((set.len().await.unwrap(), java(&mut actor, &on, "setCache.size", &["string"]).await), (4, text("4")));
    assert_eq!(java(&mut actor, &on, "setCache.remove", &["string", "c"]).await, "true");
    assert!(!set.contains("c").await.unwrap() && set.remove("d").await.unwrap());
    assert_eq!(java(&mut actor, &on, "setCache.contains", &["string", "d"]).await, "false");
}
