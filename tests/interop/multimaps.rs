//! Multimaps shared by both sides.

use std::time::Duration;

use redgrid_multimap::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_multimap::{
    Expiring, Lifetime, Lifetimes, ListMultimap, ListMultimapCache, Lists, Multimap, Native, SetMultimap,
    SetMultimapCache, Sets,
};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    multimaps_of_text_are_read_on_both_sides,
    multimaps_of_kryo_are_read_on_both_sides,
    lists_of_a_key_are_in_one_order_on_both_sides,
    lifetimes_that_java_gives_keys_of_sets_are_kept_here,
    lifetimes_that_java_gives_keys_of_lists_are_kept_here,
    lifetimes_that_keys_of_sets_get_here_are_kept_by_java,
    lifetimes_that_keys_of_lists_get_here_are_kept_by_java,
    keys_of_kryo_have_lifetimes_on_both_sides,
    a_map_that_java_has_end_ends_here,
    a_map_that_ends_here_ends_for_java,
    a_map_that_one_side_renames_the_other_finds,
    a_map_with_lifetimes_that_one_side_deletes_is_gone,
    native_lifetimes_are_kept_on_both_sides,
];

const HOUR: Duration = Duration::from_secs(3600);

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(verb, &on.name, words).await
}

async fn multimaps_of_text_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "string", Text).await;
}

async fn multimaps_of_kryo_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let map = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(with.clone(), with);
    let text = |word: &str| word.to_owned();
    assert_eq!(java(&mut actor, on, "sets.put", &[codec, "ä", "1"]).await, "true");
    assert!(!map.insert("ä", &text("1")).await.unwrap() && map.insert("ä", &text("2")).await.unwrap());
    assert!(map.insert("b", &text("1")).await.unwrap());
    assert_eq!(java(&mut actor, on, "sets.put", &[codec, "b", "1"]).await, "false");
    assert_eq!(java(&mut actor, on, "sets.getAll", &[codec, "ä"]).await, "[1, 2]");
    assert_eq!(java(&mut actor, on, "sets.size", &[codec]).await, "3");
    assert_eq!((map.len().await.unwrap(), map.key_len().await.unwrap()), (3, 2));
    assert_eq!(java(&mut actor, on, "sets.keySize", &[codec]).await, "2");
    assert_eq!(java(&mut actor, on, "sets.containsEntry", &[codec, "ä", "2"]).await, "true");
    assert!(map.contains_entry("b", &text("1")).await.unwrap() && map.contains_key("ä").await.unwrap());
    assert_eq!(java(&mut actor, on, "sets.containsValue", &[codec, "2"]).await, "true");
    assert!(map.contains_value(&text("2")).await.unwrap());
    assert_eq!(map.replace_all("b", &[text("8"), text("9")]).await.unwrap(), ["1"]);
    assert_eq!(java(&mut actor, on, "sets.replaceValues", &[codec, "b", "7"]).await, "[8, 9]");
    assert_eq!(map.get_all("b").await.unwrap(), ["7"]);
    assert_eq!(java(&mut actor, on, "sets.remove", &[codec, "b", "7"]).await, "true");
    assert!(!map.contains_key("b").await.unwrap() && map.key_len().await.unwrap() == 1);
    assert!(map.remove("ä", &text("1")).await.unwrap() && map.remove("ä", &text("2")).await.unwrap());
    assert_eq!(java(&mut actor, on, "sets.containsKey", &[codec, "ä"]).await, "false");
    assert_eq!(java(&mut actor, on, "sets.keySize", &[codec]).await, "0");
    map.insert("c", &text("1")).await.unwrap();
    map.insert("d", &text("1")).await.unwrap();
    assert_eq!(java(&mut actor, on, "sets.fastRemove", &[codec, "c"]).await, "1");
    assert_eq!(map.remove_keys(["c", "d"]).await.unwrap(), 1);
    java(&mut actor, on, "sets.put", &[codec, "e", "1"]).await;
    assert_eq!((map.clear().await.unwrap(), java(&mut actor, on, "sets.size", &[codec]).await), (1, "0".into()));
}

async fn lists_of_a_key_are_in_one_order_on_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = ListMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    let text = |word: &str| word.to_owned();
    assert_eq!(java(&mut actor, &on, "lists.put", &["string", "k", "b"]).await, "true");
    assert_eq!(map.insert_many("k", &[text("a"), text("b")]).await.unwrap(), 2);
    assert_eq!(java(&mut actor, &on, "lists.getAll", &["string", "k"]).await, "[b, a, b]");
    assert_eq!(java(&mut actor, &on, "lists.containsEntry", &["string", "k", "a"]).await, "true");
    assert!(map.remove("k", &text("b")).await.unwrap());
    assert_eq!(java(&mut actor, &on, "lists.getAll", &["string", "k"]).await, "[a, b]");
    assert_eq!(java(&mut actor, &on, "lists.remove", &["string", "k", "a"]).await, "true");
    assert_eq!(map.replace_all("k", &[text("y"), text("x")]).await.unwrap(), ["b"]);
    assert_eq!(java(&mut actor, &on, "lists.size", &["string"]).await, "2");
    assert_eq!(java(&mut actor, &on, "lists.replaceValues", &["string", "k", "z"]).await, "[y, x]");
    assert_eq!(map.remove_all("k").await.unwrap(), ["z"]);
    assert_eq!(java(&mut actor, &on, "lists.keySize", &["string"]).await, "0");
}

fn text(word: &str) -> String {
    word.to_owned()
}

/// Whether the lifetime ends within the hour, and not soon.
fn within_the_hour(left: Lifetime) -> bool {
    matches!(left, Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2)
}

async fn java_gives<Y: Lifetimes>(
    on: &Fixture,
    kind: &str,
    codec: &str,
    map: Multimap<String, String, impl Both, impl Both, Y>,
) {
    let mut actor = on.java();
    let verb = |verb: &str| format!("{kind}.{verb}");
    assert_eq!(java(&mut actor, on, &verb("put"), &[codec, "k", "1"]).await, "true");
    assert_eq!(java(&mut actor, on, &verb("put"), &[codec, "on", "1"]).await, "true");
    assert_eq!(java(&mut actor, on, &verb("expireKey"), &[codec, "x", "1000"]).await, "false");
    assert_eq!(map.key_lifetime("k").await.unwrap(), Lifetime::Endless);
    assert_eq!(java(&mut actor, on, &verb("expireKey"), &[codec, "k", "3600000"]).await, "true");
    assert!(within_the_hour(map.key_lifetime("k").await.unwrap()));
    assert!(map.insert("k", &text("2")).await.unwrap() && within_the_hour(map.key_lifetime("k").await.unwrap()));
    assert_eq!(java(&mut actor, on, &verb("getAll"), &[codec, "k"]).await, "[1, 2]");
    assert_eq!(java(&mut actor, on, &verb("expireKey"), &[codec, "k", "20"]).await, "true");
    wait_until(SOON, async || !map.contains_key("k").await.unwrap()).await;
    assert!(map.get_all("k").await.unwrap().is_empty());
    wait_until(SOON, async || map.key_len().await.unwrap() == 1).await;
    // A key that is written again has no lifetime, for both sides.
    assert!(map.insert("k", &text("3")).await.unwrap());
    assert_eq!(java(&mut actor, on, &verb("getAll"), &[codec, "k"]).await, "[3]");
    assert_eq!(map.key_lifetime("k").await.unwrap(), Lifetime::Endless);
}

async fn given_here<Y: Lifetimes>(
    on: &Fixture,
    kind: &str,
    codec: &str,
    map: Multimap<String, String, impl Both, impl Both, Y>,
) {
    let mut actor = on.java();
    let verb = |verb: &str| format!("{kind}.{verb}");
    map.insert_many("k", &[text("1"), text("2")]).await.unwrap();
    assert!(map.expire_key("k", HOUR).await.unwrap());
    assert_eq!(java(&mut actor, on, &verb("getAll"), &[codec, "k"]).await, "[1, 2]");
    assert_eq!(java(&mut actor, on, &verb("put"), &[codec, "k", "3"]).await, "true");
    assert!(within_the_hour(map.key_lifetime("k").await.unwrap()));
    assert_eq!(java(&mut actor, on, &verb("containsEntry"), &[codec, "k", "3"]).await, "true");
    assert!(map.expire_key("k", Duration::from_millis(20)).await.unwrap());
    wait_until(SOON, async || java(&mut on.java(), on, &verb("containsKey"), &[codec, "k"]).await == "false").await;
    assert_eq!(java(&mut actor, on, &verb("getAll"), &[codec, "k"]).await, "[]");
    assert_eq!(java(&mut actor, on, &verb("containsEntry"), &[codec, "k", "1"]).await, "false");
    // Rust removes the lifetime that Java gave to a key.
    map.insert("p", &text("1")).await.unwrap();
    assert_eq!(java(&mut actor, on, &verb("expireKey"), &[codec, "p", "3600000"]).await, "true");
    assert!(map.persist_key("p").await.unwrap() && map.key_lifetime("p").await.unwrap() == Lifetime::Endless);
    assert_eq!(java(&mut actor, on, &verb("getAll"), &[codec, "p"]).await, "[1]");
}

/// A codec that reads and writes text on both sides.
trait Both: Codec + Encode<String> + Decode<String> + Encode<str> {}

impl<C: Codec + Encode<String> + Decode<String> + Encode<str>> Both for C {}

/// Returns the map of a scenario, by its codec and its kind.
async fn map<C: Both + Default, Y: Lifetimes>(on: &Fixture) -> Multimap<String, String, C, C, Y> {
    Multimap::new(&on.client().await, &on.name)
}

async fn lifetimes_that_java_gives_keys_of_sets_are_kept_here(on: Fixture) {
    java_gives(&on, "expiringSets", "string", map::<Text, Expiring<Sets>>(&on).await).await;
}

async fn lifetimes_that_java_gives_keys_of_lists_are_kept_here(on: Fixture) {
    java_gives(&on, "expiringLists", "string", map::<Text, Expiring<Lists>>(&on).await).await;
}

async fn lifetimes_that_keys_of_sets_get_here_are_kept_by_java(on: Fixture) {
    given_here(&on, "expiringSets", "string", map::<Text, Expiring<Sets>>(&on).await).await;
}

async fn lifetimes_that_keys_of_lists_get_here_are_kept_by_java(on: Fixture) {
    given_here(&on, "expiringLists", "string", map::<Text, Expiring<Lists>>(&on).await).await;
}

async fn keys_of_kryo_have_lifetimes_on_both_sides(on: Fixture) {
    on_both_sides::<Kryo, Expiring<Sets>>(&on, "expiringSets", "kryo").await;
}

async fn on_both_sides<C: Both + Default, Y: Lifetimes>(on: &Fixture, kind: &str, codec: &str) {
    java_gives(on, kind, codec, map::<C, Y>(on).await).await;
    map::<C, Y>(on).await.clear().await.unwrap();
    given_here(on, kind, codec, map::<C, Y>(on).await).await;
}

async fn a_map_that_java_has_end_ends_here(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = ListMultimapCache::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    for key in ["a", "b"] {
        assert_eq!(java(&mut actor, &on, "expiringLists.put", &["string", key, "1"]).await, "true");
    }
    assert_eq!(java(&mut actor, &on, "expiringLists.expire", &["string", "3600000"]).await, "true");
    assert!(within_the_hour(map.object().lifetime().await.unwrap()));
    assert!(within_the_hour(map.key_lifetime("a").await.unwrap()));
    // A new key has the lifetime of the map.
    map.insert("c", &text("1")).await.unwrap();
    assert!(within_the_hour(map.key_lifetime("c").await.unwrap()));
    assert_eq!((map.key_len().await.unwrap(), map.len().await.unwrap()), (3, 3));
    assert_eq!(java(&mut actor, &on, "expiringLists.clearExpire", &["string"]).await, "true");
    assert_eq!(map.object().lifetime().await.unwrap(), Lifetime::Endless);
    assert_eq!(map.key_lifetime("c").await.unwrap(), Lifetime::Endless);
    assert_eq!(java(&mut actor, &on, "expiringLists.expire", &["string", "20"]).await, "true");
    wait_until(SOON, async || !map.object().exists().await.unwrap()).await;
    assert!(map.get_all("a").await.unwrap().is_empty() && map.get_all("c").await.unwrap().is_empty());
}

async fn a_map_that_ends_here_ends_for_java(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    map.insert("a", &text("1")).await.unwrap();
    assert!(map.object().expire_in(HOUR).await.unwrap());
    let left: u64 = java(&mut actor, &on, "sets.remainTimeToLive", &["string"]).await.parse().unwrap();
    assert!(left > 1_800_000 && left <= 3_600_000, "{left}");
    assert!(map.object().persist().await.unwrap());
    assert_eq!(java(&mut actor, &on, "sets.remainTimeToLive", &["string"]).await, "-1");
    // A key's lifetime and the map's lifetime exist side by side.
    let cache = SetMultimapCache::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    assert!(cache.object().expire_in(HOUR).await.unwrap());
    assert_eq!(java(&mut actor, &on, "expiringSets.expireKey", &["string", "a", "1800000"]).await, "true");
    assert!(matches!(cache.key_lifetime("a").await.unwrap(), Lifetime::Ends(left) if left <= HOUR / 2));
    assert!(map.object().expire_in(Duration::from_millis(20)).await.unwrap());
    wait_until(SOON, async || java(&mut on.java(), &on, "sets.size", &["string"]).await == "0").await;
}

async fn a_map_that_one_side_renames_the_other_finds(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    map.insert_many("a", &[text("1"), text("2")]).await.unwrap();
    let (there, back) = (format!("{}:there", on.name), format!("{}:back", on.name));
    assert_eq!(java(&mut actor, &on, "sets.rename", &["string", &there]).await, "done");
    assert!(!map.object().exists().await.unwrap());
    let moved = SetMultimap::<String, String>::new(&client, &there).with_codecs(Text, Text);
    assert_eq!(moved.values_len("a").await.unwrap(), 2);
    assert!(moved.object().rename(&back).await.unwrap());
    assert_eq!(actor.value_of("sets.getAll", &back, &["string", "a"]).await, "[1, 2]");
    let moved = SetMultimap::<String, String>::new(&client, &back);
    assert!(moved.object().copy_to(&on.name).await.unwrap());
    assert_eq!(java(&mut actor, &on, "sets.size", &["string"]).await, "2");
    assert!(moved.object().delete().await.unwrap());
    assert_eq!(actor.value_of("sets.size", &back, &["string"]).await, "0");
}

async fn a_map_with_lifetimes_that_one_side_deletes_is_gone(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = ListMultimapCache::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    map.insert("a", &text("1")).await.unwrap();
    map.expire_key("a", HOUR).await.unwrap();
    assert_eq!(java(&mut actor, &on, "expiringLists.delete", &["string"]).await, "true");
    assert!(!map.object().exists().await.unwrap() && map.get_all("a").await.unwrap().is_empty());
    // Redisson leaves behind the lifetime of a key that it removes. A value that Rust inserts later
    // does not get that lifetime.
    assert_eq!(java(&mut actor, &on, "expiringLists.put", &["string", "b", "1"]).await, "true");
    assert_eq!(java(&mut actor, &on, "expiringLists.expireKey", &["string", "b", "3600000"]).await, "true");
    assert_eq!(java(&mut actor, &on, "expiringLists.fastRemove", &["string", "b"]).await, "1");
    map.insert("b", &text("2")).await.unwrap();
    assert_eq!(map.key_lifetime("b").await.unwrap(), Lifetime::Endless);
    assert!(map.expire_key("b", HOUR).await.unwrap() && map.object().delete().await.unwrap());
    assert_eq!(java(&mut actor, &on, "expiringLists.keySize", &["string"]).await, "0");
    assert_eq!(java(&mut actor, &on, "expiringLists.put", &["string", "b", "3"]).await, "true");
    assert_eq!(
        (map.get_all("b").await.unwrap(), map.key_lifetime("b").await.unwrap()),
        (vec![text("3")], Lifetime::Endless)
    );
}

async fn native_lifetimes_are_kept_on_both_sides(on: Fixture) {
    let Some((_server, on)) = on.on_newest().await else { return };
    on_both_sides::<Text, Native<Sets>>(&on, "nativeSets", "string").await;
    map::<Text, Native<Sets>>(&on).await.clear().await.unwrap();
    on_both_sides::<Text, Native<Lists>>(&on, "nativeLists", "string").await;
}
