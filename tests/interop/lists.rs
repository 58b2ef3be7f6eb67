//! Lists shared by both sides, by index, by value and by iteration.

use redgrid_core::Client;
use redgrid_list::codecs::{Codec, Decode, Encode, Kryo, Long, Text};
use redgrid_list::{List, Occurrences};

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    lists_of_text_are_read_on_both_sides,
    lists_of_numbers_are_read_on_both_sides,
    lists_of_kryo_are_read_on_both_sides,
    both_insert_and_remove_by_index,
    both_insert_and_remove_by_value,
    the_middle_is_removed_while_java_iterates,
    java_removes_while_it_iterates_and_rust_streams,
    a_value_equal_to_javas_delete_mark_stays,
    both_sort_one_list,
    both_take_pages_of_one_shared_iterator,
    both_take_pages_of_a_list_with_a_hash_tag,
];

fn list<T, C: Codec>(client: &Client, on: &Fixture, codec: C) -> List<T, C> {
    List::<T>::new(client, &on.name).with_codec(codec)
}

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, codec: &str, more: &[&str]) -> String {
    actor.value_of(&format!("list.{verb}"), &on.name, &[&[codec], more].concat()).await
}

async fn lists_of_text_are_read_on_both_sides(on: Fixture) {
    let values = ["a", "héllo", "with space", "wörld"].map(String::from);
    both_sides(&on, "string", Text, &values, &["a", "héllo", "with space", "wörld"]).await;
}

async fn lists_of_numbers_are_read_on_both_sides(on: Fixture) {
    let words = ["long:0", "long:-1", "long:9223372036854775807", "long:-9223372036854775808"];
    both_sides(&on, "long", Long, &[0_i64, -1, i64::MAX, i64::MIN], &words).await;
}

async fn lists_of_kryo_are_read_on_both_sides(on: Fixture) {
    let long = "x".repeat(70);
    let values = ["a".to_owned(), long.clone(), String::new(), "ü".to_owned()];
    both_sides(&on, "kryo", Kryo, &values, &["a", &long, "", "ü"]).await;
}

/// Takes four values, also as words for Java.
async fn both_sides<T, C>(on: &Fixture, codec: &str, with: C, values: &[T; 4], words: &[&str; 4])
where
    T: Clone + std::fmt::Debug + std::fmt::Display + PartialEq + 'static,
    C: Encode<T> + Decode<T>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<T, C> = list(&client, on, with);
    let shown = |values: &[T]| format!("[{}]", values.iter().map(T::to_string).collect::<Vec<_>>().join(", "));
    assert_eq!(java(&mut actor, on, "addAll", codec, words).await, "true");
    assert_eq!(list.read_all().await.unwrap(), values);
    assert_eq!(
        (list.index_of(&values[2]).await.unwrap(), list.last().await.unwrap()),
        (Some(2), Some(values[3].clone()))
    );
    assert_eq!(list.push_many(values).await.unwrap(), 8);
    assert_eq!(java(&mut actor, on, "readAll", codec, &[]).await, shown(&[values.clone(), values.clone()].concat()));
    assert_eq!(java(&mut actor, on, "lastIndexOf", codec, &words[1..2]).await, "5");
    assert_eq!(java(&mut actor, on, "containsAll", codec, words).await, "true");
    assert_eq!(java(&mut actor, on, "set", codec, &["1", words[3]]).await, values[1].to_string());
    assert_eq!(list.replace(1, &values[1]).await.unwrap(), values[3]);
    assert_eq!(java(&mut actor, on, "range", codec, &["1", "2"]).await, shown(&values[1..3]));
    java(&mut actor, on, "trim", codec, &["4", "7"]).await;
    assert_eq!(list.stream().try_collect::<Vec<T>>().await.unwrap(), values);
    list.trim(1..).await.unwrap();
    assert_eq!(java(&mut actor, on, "readAll", codec, &[]).await, shown(&values[1..]));
    assert!(list.clear().await.unwrap());
    assert_eq!(java(&mut actor, on, "size", codec, &[]).await, "0");
}

async fn both_insert_and_remove_by_index(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<String, Kryo> = list(&client, &on, Kryo);
    let text = |word: &str| word.to_owned();
    list.push_many(&["a", "b", "c", "d"].map(text)).await.unwrap();
    java(&mut actor, &on, "addAt", "kryo", &["2", "x"]).await;
    assert_eq!(list.insert(3, &text("y")).await.unwrap(), 6);
    assert_eq!(java(&mut actor, &on, "addAllAt", "kryo", &["1", "1", "2"]).await, "true");
    assert_eq!(list.insert_many(2, &["3", "4"].map(text)).await.unwrap(), 10);
    let all = "[a, 1, 3, 4, 2, b, x, y, c, d]";
    assert_eq!(java(&mut actor, &on, "readAll", "kryo", &[]).await, all);
    assert_eq!(list.remove_at(4).await.unwrap(), "2");
    assert_eq!(java(&mut actor, &on, "removeAt", "kryo", &["4"]).await, "b");
    list.delete_at(4).await.unwrap();
    java(&mut actor, &on, "fastRemove", "kryo", &["1"]).await;
    java(&mut actor, &on, "fastSet", "kryo", &["0", "z"]).await;
    list.set(5, &text("e")).await.unwrap();
    assert_eq!(list.read_all().await.unwrap(), ["z", "3", "4", "y", "c", "e"]);
    assert_eq!(java(&mut actor, &on, "get", "kryo", &["5"]).await, "e");
}

async fn both_insert_and_remove_by_value(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<i64, Long> = list(&client, &on, Long);
    list.push_many(&[1, 2, 3, 1, 2, 3]).await.unwrap();
    assert_eq!(java(&mut actor, &on, "addBefore", "long", &["long:3", "long:7"]).await, "7");
    assert_eq!(list.insert_after(&3, &8).await.unwrap(), Some(8));
    assert_eq!(java(&mut actor, &on, "addAfter", "long", &["long:9", "long:7"]).await, "-1");
    assert_eq!(list.read_all().await.unwrap(), [1, 2, 7, 3, 8, 1, 2, 3]);
    assert_eq!(list.remove_some(&1, Occurrences::Last(1)).await.unwrap(), 1);
    assert_eq!(java(&mut actor, &on, "remove", "long", &["long:2", "1"]).await, "true");
    assert_eq!(java(&mut actor, &on, "readAll", "long", &[]).await, "[1, 7, 3, 8, 2, 3]");
    assert_eq!(list.remove_all(&[3, 9]).await.unwrap(), 2);
    assert_eq!(java(&mut actor, &on, "retainAll", "long", &["long:7", "long:8", "long:1"]).await, "true");
    assert_eq!(list.retain_all(&[8, 1]).await.unwrap(), 1);
    assert_eq!(java(&mut actor, &on, "removeAll", "long", &["long:8"]).await, "true");
    assert_eq!(list.read_all().await.unwrap(), [1]);
}

/// Elements in the middle are removed while Java iterates. Java's iterator goes by index, too, one
/// element at a time.
async fn the_middle_is_removed_while_java_iterates(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<i64, Long> = list(&client, &on, Long);
    list.push_many(&(0..8).collect::<Vec<_>>()).await.unwrap();
    java(&mut actor, &on, "iterate", "long", &[]).await;
    let mut seen = Vec::new();
    for step in 0.. {
        match java(&mut actor, &on, "next", "long", &[]).await.parse::<i64>() {
            Ok(n) => seen.push(n),
            Err(_) => break,
        }
        if step == 2 {
            // Removes one element after the iterator's position, and one before it.
            assert_eq!((list.remove_at(5).await.unwrap(), list.remove_at(1).await.unwrap()), (5, 1));
        }
    }
    assert_eq!(seen, [0, 1, 2, 4, 6, 7], "3 moved up and is skipped; 5 is gone");
}

async fn java_removes_while_it_iterates_and_rust_streams(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<i64, Long> = list(&client, &on, Long);
    list.push_many(&[1, 1, 2, 1, 3]).await.unwrap();
    let mut stream = list.stream().page(2);
    assert_eq!(stream.try_next().await.unwrap(), Some(1));
    java(&mut actor, &on, "iterate", "long", &[]).await;
    for expected in ["1", "1", "2"] {
        assert_eq!(java(&mut actor, &on, "next", "long", &[]).await, expected);
    }
    java(&mut actor, &on, "removeNext", "long", &[]).await;
    assert_eq!(java(&mut actor, &on, "next", "long", &[]).await, "1");
    assert_eq!(stream.try_collect::<Vec<i64>>().await.unwrap(), [1, 1, 3]);
    assert_eq!(list.read_all().await.unwrap(), [1, 1, 1, 3]);
}

/// A value that is equal to Redisson's delete mark stays when Rust removes by index. Redisson
/// removes by this mark, and with it any equal value.
async fn a_value_equal_to_javas_delete_mark_stays(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<String, Text> = list(&client, &on, Text);
    let mark = "DELETED_BY_REDISSON".to_owned();
    list.push_many(&[mark.clone(), "a".to_owned(), "b".to_owned(), mark.clone()]).await.unwrap();
    assert_eq!((list.remove_at(1).await.unwrap(), list.len().await.unwrap()), ("a".to_owned(), 3));
    assert_eq!(list.read_all().await.unwrap(), [&*mark, "b", &mark]);
    assert_eq!(java(&mut actor, &on, "removeAt", "string", &["1"]).await, "b");
    // Java removed the first value that is equal to the mark, instead of the marked element.
    assert_eq!(list.read_all().await.unwrap(), [&*mark, &mark]);
    assert_eq!(list.remove_at(0).await.unwrap(), mark);
    assert_eq!(java(&mut actor, &on, "readAll", "string", &[]).await, format!("[{mark}]"));
}

async fn both_sort_one_list(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let numbers: List<i64, Long> = list(&client, &on, Long);
    java(&mut actor, &on, "addAll", "long", &["long:3", "long:-1", "long:20"]).await;
    assert_eq!(numbers.sort().descending().await.unwrap(), [20, 3, -1]);
    assert_eq!(java(&mut actor, &on, "readSort", "long", &[]).await, "[20, 3, -1]");
    assert_eq!(java(&mut actor, &on, "readSortAlpha", "long", &[]).await, "[-1, 20]");
    let sorted = format!("{}:sorted", on.name);
    assert_eq!(java(&mut actor, &on, "sortTo", "long", &[&sorted]).await, "3");
    assert_eq!(List::<i64, Long>::new(&client, &sorted).read_all().await.unwrap(), [-1, 3, 20]);
    assert_eq!(numbers.sort().limit(0, 2).store(&sorted).await.unwrap(), 2);
    assert_eq!(actor.value_of("list.readAll", &sorted, &["long"]).await, "[-1, 3]");
}

async fn both_take_pages_of_one_shared_iterator(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let list: List<i64, Long> = list(&client, &on, Long);
    list.push_many(&(0..7).collect::<Vec<_>>()).await.unwrap();
    java(&mut actor, &on, "iterateShared", "long", &["2"]).await;
    assert_eq!(java(&mut actor, &on, "next", "long", &[]).await, "0");
    let mut stream = list.shared_stream().page(3);
    assert_eq!(stream.try_next().await.unwrap(), Some(2));
    let mut java_had = Vec::new();
    while let Ok(n) = java(&mut actor, &on, "next", "long", &[]).await.parse::<i64>() {
        java_had.push(n);
    }
    assert_eq!(java_had, [1, 5, 6]);
    assert_eq!(stream.try_collect::<Vec<i64>>().await.unwrap(), [3, 4], "the iterator has ended on both sides");
}

async fn both_take_pages_of_a_list_with_a_hash_tag(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let name = format!("{{{}}}:tagged", on.name);
    let list: List<i64, Long> = List::<i64>::new(&client, &name).with_codec(Long);
    list.push_many(&[0, 1, 2]).await.unwrap();
    actor.value_of("list.iterateShared", &name, &["long", "1"]).await;
    assert_eq!(actor.value_of("list.next", &name, &["long"]).await, "0");
    let mut stream = list.shared_stream().page(1);
    assert_eq!(stream.try_next().await.unwrap(), Some(1), "it continues at Java's position");
    assert_eq!(actor.value_of("list.next", &name, &["long"]).await, "2");
}
