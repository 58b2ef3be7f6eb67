//! Multimaps that the one side fills and the other reads.

use redgrid_multimap::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_multimap::{ListMultimap, SetMultimap};

use crate::actor::Actor;
use crate::ground::{Ground, scenarios};

scenarios![
    multimaps_of_text_are_read_on_both_sides,
    multimaps_of_kryo_are_read_on_both_sides,
    lists_of_a_key_are_in_one_order_on_both_sides,
];

async fn java(actor: &mut Actor, on: &Ground, verb: &str, words: &[&str]) -> String {
    actor.value_of(verb, &on.name, words).await
}

async fn multimaps_of_text_are_read_on_both_sides(on: Ground) {
    both_sides(&on, "string", Text).await;
}

async fn multimaps_of_kryo_are_read_on_both_sides(on: Ground) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Ground, codec: &str, with: C)
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

async fn lists_of_a_key_are_in_one_order_on_both_sides(on: Ground) {
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
