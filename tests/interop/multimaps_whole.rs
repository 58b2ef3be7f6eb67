//! Multimaps of both sides as a whole: their keys and entries, the collections of their keys, and
//! leftovers.

use futures_util::TryStreamExt;
use redgrid_multimap::codecs::{Kryo, Text};
use redgrid_multimap::{ListMultimap, SetMultimap};

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    all_entries_of_both_are_read_on_both_sides,
    kryo_lists_have_the_same_order_on_both_sides,
    a_collection_that_java_changes_is_read_here,
    clearing_by_either_side_leaves_no_key,
];

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(verb, &on.name, words).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

/// Returns the entries as Java shows them, in the order of their text.
async fn entries_of(
    entries: impl TryStreamExt<Ok = (String, String), Error = redgrid_multimap::ObjectError>,
) -> String {
    let mut all: Vec<_> = entries.map_ok(|(key, value)| format!("{key}={value}")).try_collect().await.unwrap();
    all.sort();
    format!("[{}]", all.join(", "))
}

async fn all_entries_of_both_are_read_on_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    assert_eq!(java(&mut actor, &on, "sets.putAll", &["string", "a", "1", "2", "3"]).await, "true");
    assert_eq!(map.insert_many("b", &[text("1"), text("4")]).await.unwrap(), 2);
    assert_eq!(java(&mut actor, &on, "sets.keySet", &["string"]).await, "[a, b]");
    let mut keys = map.read_all_keys().await.unwrap();
    keys.sort();
    assert_eq!(keys, ["a", "b"]);
    let ours = entries_of(map.entries()).await;
    assert_eq!(
        (java(&mut actor, &on, "sets.entries", &["string"]).await, &*ours),
        (ours.clone(), "[a=1, a=2, a=3, b=1, b=4]")
    );
    let mut values: Vec<_> = map.values().try_collect().await.unwrap();
    values.sort();
    assert_eq!(
        (java(&mut actor, &on, "sets.values", &["string"]).await, values.join(", ")),
        ("[1, 1, 2, 3, 4]".into(), "1, 1, 2, 3, 4".into())
    );
    assert_eq!(java(&mut actor, &on, "sets.remove", &["string", "a", "1"]).await, "true");
    assert!(map.remove("b", &text("1")).await.unwrap());
    assert_eq!((map.len().await.unwrap(), map.contains_value(&text("1")).await.unwrap()), (3, false));
    assert_eq!(java(&mut actor, &on, "sets.removeAll", &["string", "a"]).await, "[2, 3]");
    map.set_all("b", &[text("x"), text("y")]).await.unwrap();
    assert_eq!(java(&mut actor, &on, "sets.getAll", &["string", "b"]).await, "[x, y]");
    java(&mut actor, &on, "sets.fastReplaceValues", &["string", "b", "z"]).await;
    assert_eq!(map.remove_all("b").await.unwrap(), ["z"]);
    assert_eq!(java(&mut actor, &on, "sets.entries", &["string"]).await, "[]");
    // These are many more entries than one page of either side.
    for n in 0..150 {
        map.insert(&format!("k{n}"), &n.to_string()).await.unwrap();
    }
    assert_eq!(java(&mut actor, &on, "sets.entries", &["string"]).await, entries_of(map.entries()).await);
    assert_eq!((java(&mut actor, &on, "sets.size", &["string"]).await, map.len().await.unwrap()), (text("150"), 150));
}

async fn kryo_lists_have_the_same_order_on_both_sides(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let map = ListMultimap::<String, i64>::new(&client, &on.name).with_codecs(Kryo, Kryo);
    assert_eq!(java(&mut actor, &on, "lists.putAll", &["kryo", "ä", "long:3", "long:1"]).await, "true");
    map.insert_many("ä", &[3, 2]).await.unwrap();
    assert_eq!(map.get_all("ä").await.unwrap(), [3, 1, 3, 2]);
    assert_eq!(java(&mut actor, &on, "lists.getAll", &["kryo", "ä"]).await, "[3, 1, 3, 2]");
    assert!(map.contains_entry("ä", &2).await.unwrap() && map.remove("ä", &3).await.unwrap());
    assert_eq!(java(&mut actor, &on, "lists.remove", &["kryo", "ä", "long:2"]).await, "true");
    assert_eq!(java(&mut actor, &on, "lists.removeAll", &["kryo", "ä"]).await, "[1, 3]");
    assert!(!map.contains_key("ä").await.unwrap() && map.is_empty().await.unwrap());
    java(&mut actor, &on, "lists.fastReplaceValues", &["kryo", "b", "long:5", "long:5"]).await;
    assert_eq!((map.values_len("b").await.unwrap(), map.len().await.unwrap()), (2, 2));
    assert_eq!(java(&mut actor, &on, "lists.containsValue", &["kryo", "long:5"]).await, "true");
    assert_eq!(map.remove_keys(["b"]).await.unwrap(), 1);
    assert_eq!(java(&mut actor, &on, "lists.containsKey", &["kryo", "b"]).await, "false");
}

async fn a_collection_that_java_changes_is_read_here(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let sets = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    assert_eq!(java(&mut actor, &on, "sets.get.add", &["string", "k", "1"]).await, "true");
    assert_eq!(sets.get_all("k").await.unwrap(), ["1"]);
    assert!(sets.contains_key("k").await.unwrap() && sets.insert("k", &text("2")).await.unwrap());
    assert_eq!(java(&mut actor, &on, "sets.get.size", &["string", "k"]).await, "2");
    assert_eq!(java(&mut actor, &on, "sets.get.remove", &["string", "k", "1"]).await, "true");
    assert_eq!(java(&mut actor, &on, "sets.get.remove", &["string", "k", "2"]).await, "true");
    // The removal of the last value also removes the key, whichever side removes it.
    assert_eq!((sets.key_len().await.unwrap(), sets.contains_key("k").await.unwrap()), (0, false));
    let name = format!("{}:lists", on.name);
    let lists = ListMultimap::<String, String>::new(&client, &name).with_codecs(Text, Text);
    let mut ask = async |verb: &str, words: &[&str]| {
        actor.value_of(&format!("lists.{verb}"), &name, &[&["string"], words].concat()).await
    };
    assert_eq!(ask("get.add", &["k", "b"]).await, "true");
    lists.insert_many("k", &[text("d")]).await.unwrap();
    ask("get.addAt", &["k", "c", "1"]).await;
    assert_eq!(ask("get.set", &["k", "a", "0"]).await, "b");
    assert_eq!(lists.get_all("k").await.unwrap(), ["a", "c", "d"]);
    assert!(lists.remove("k", &text("c")).await.unwrap());
    assert_eq!(ask("get.size", &["k"]).await, "2");
}

async fn clearing_by_either_side_leaves_no_key(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let sets = SetMultimap::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    let keys = async || on.observer.keys(&format!("*{}*", on.name)).await.unwrap();
    for (round, by) in ["clear", "delete", "ours"].into_iter().enumerate() {
        for n in 0..5 {
            java(&mut actor, &on, "sets.put", &["string", &format!("j{n}"), "1"]).await;
            sets.insert(&format!("r{n}"), &round.to_string()).await.unwrap();
        }
        assert_eq!(keys().await.len(), 11, "one key for each entry, and the hash");
        match by {
            "ours" => assert_eq!(sets.clear().await.unwrap(), 10),
            verb => drop(java(&mut actor, &on, &format!("sets.{verb}"), &["string"]).await),
        }
        assert!(keys().await.is_empty(), "{by}: {:?}", keys().await);
        assert_eq!((sets.len().await.unwrap(), java(&mut actor, &on, "sets.size", &["string"]).await), (0, text("0")));
    }
}
