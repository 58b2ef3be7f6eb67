//! Sets shared by both sides, plain and sorted.

use redgrid_core::Client;
use redgrid_set::codecs::{Codec, Decode, Encode, Kryo, Long, Text};
use redgrid_set::{LexSortedSet, Only, ScoredSortedSet, Set};

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    sets_of_text_are_read_on_both_sides,
    sets_of_kryo_are_read_on_both_sides,
    sets_of_both_are_combined,
    scores_of_text_are_read_on_both_sides,
    scores_of_kryo_are_read_on_both_sides,
    both_give_scores_under_the_same_conditions,
    text_is_in_one_order_on_both_sides,
];

async fn java(actor: &mut Actor, name: &str, verb: &str, words: &[&str]) -> String {
    actor.value_of(verb, name, words).await
}

fn set<T, C: Codec>(client: &Client, name: &str, codec: C) -> Set<T, C> {
    Set::<T>::new(client, name).with_codec(codec)
}

async fn sets_of_text_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "string", Text).await;
}

async fn sets_of_kryo_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let (set, name): (Set<String, C>, _) = (set(&client, &on.name, with), &*on.name);
    assert_eq!(java(&mut actor, name, "set.add", &[codec, "a"]).await, "true");
    assert!(!set.insert("a").await.unwrap() && set.insert("ü").await.unwrap());
    assert_eq!(java(&mut actor, name, "set.add", &[codec, "ü"]).await, "false");
    assert_eq!(java(&mut actor, name, "set.addAll", &[codec, "b", "c", "a"]).await, "true");
    assert_eq!(set.contains_each(["a", "b", "x", "ü"]).await.unwrap(), [true, true, false, true]);
    assert_eq!(java(&mut actor, name, "set.readAll", &[codec]).await, "[a, b, c, ü]");
    assert!(!set.try_insert_all(["y", "a"]).await.unwrap());
    assert_eq!(java(&mut actor, name, "set.tryAdd", &[codec, "y", "ü"]).await, "false");
    assert_eq!(java(&mut actor, name, "set.tryAdd", &[codec, "x", "y"]).await, "true");
    assert_eq!(set.retain_many(["a", "ü", "x", "z"]).await.unwrap(), 3);
    assert_eq!(java(&mut actor, name, "set.retainAll", &[codec, "a", "ü"]).await, "true");
    let mut all: Vec<String> = set.stream().try_collect().await.unwrap();
    all.sort();
    assert_eq!(all, ["a", "ü"]);
    assert_eq!(java(&mut actor, name, "set.contains", &[codec, "ü"]).await, "true");
    assert!(set.remove("ü").await.unwrap());
    assert_eq!(java(&mut actor, name, "set.removeRandom", &[codec]).await, "a");
    assert_eq!((set.pop().await.unwrap(), java(&mut actor, name, "set.size", &[codec]).await), (None, "0".into()));
}

async fn sets_of_both_are_combined(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let names = ["a", "b", "c"].map(|part| format!("{{{}}}:{part}", on.name));
    let [a, b, c] = [0, 1, 2].map(|n| set::<i64, Long>(&client, &names[n], Long));
    java(&mut actor, &names[0], "set.addAll", &["long", "long:1", "long:2", "long:3"]).await;
    b.insert_many(&[2, 3, 4]).await.unwrap();
    assert_eq!(java(&mut actor, &names[0], "set.readUnion", &["long", &names[1]]).await, "[1, 2, 3, 4]");
    assert_eq!(java(&mut actor, &names[0], "set.readDiff", &["long", &names[1]]).await, "[1]");
    assert_eq!(a.difference([&names[1]]).values().await.unwrap(), [1]);
    assert_eq!(java(&mut actor, &names[2], "set.intersection", &["long", &names[0], &names[1]]).await, "2");
    assert!(c.contains_all(&[2, 3]).await.unwrap());
    assert_eq!(a.union([&names[1]]).store(&names[2]).await.unwrap(), 4);
    assert_eq!(java(&mut actor, &names[2], "set.readAll", &["long"]).await, "[1, 2, 3, 4]");
    assert_eq!(java(&mut actor, &names[0], "set.move", &["long", &names[2], "long:1"]).await, "true");
    assert!(c.move_to(&names[0], &4).await.unwrap());
    assert_eq!(java(&mut actor, &names[0], "set.readAll", &["long"]).await, "[2, 3, 4]");
}

async fn scores_of_text_are_read_on_both_sides(on: Fixture) {
    scores(&on, "string", Text).await;
}

async fn scores_of_kryo_are_read_on_both_sides(on: Fixture) {
    scores(&on, "kryo", Kryo).await;
}

async fn scores<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let set: ScoredSortedSet<String, C> = ScoredSortedSet::<String>::new(&client, name).with_codec(with.clone());
    assert_eq!(java(&mut actor, name, "scored.add", &[codec, "a", "1.5"]).await, "true");
    assert!(!set.insert("a", 1.25).await.unwrap() && set.insert("ü", -3.0).await.unwrap());
    // Redisson neither writes nor reads infinite scores.
    assert!(set.insert("high", 1e300).await.unwrap());
    assert_eq!(java(&mut actor, name, "scored.addScore", &[codec, "a", "0.5"]).await, "1.75");
    assert_eq!(set.add_score("a", 0.1).await.unwrap(), 1.85);
    assert_eq!(java(&mut actor, name, "scored.getScore", &[codec, "a"]).await, "1.85");
    assert_eq!(java(&mut actor, name, "scored.rank", &[codec, "a"]).await, "1");
    assert_eq!((set.rank("ü").await.unwrap(), set.rev_rank("ü").await.unwrap()), (Some(0), Some(2)));
    assert_eq!(java(&mut actor, name, "scored.revRank", &[codec, "ü"]).await, "2");
    assert_eq!(java(&mut actor, name, "scored.addAndGetRank", &[codec, "b", "7"]).await, "2");
    assert_eq!(set.insert_and_rank("c", 8.0).await.unwrap(), 3);
    assert_eq!(java(&mut actor, name, "scored.valueRange", &[codec, "-3", "8"]).await, "[ü, a, b]");
    assert_eq!(set.by_score(-3.0..8.0).values().await.unwrap(), ["ü", "a", "b"]);
    assert_eq!(java(&mut actor, name, "scored.count", &[codec, "1", "inf"]).await, "4");
    assert!(set.replace("b", "d").await.unwrap());
    assert_eq!(java(&mut actor, name, "scored.replace", &[codec, "c", "e"]).await, "true");
    assert_eq!(
        java(&mut actor, name, "scored.entries", &[codec]).await,
        "[ü=-3.0, a=1.85, d=7.0, e=8.0, high=1.0E300]"
    );
    let (other, both) = (format!("{{{name}}}:other"), format!("{{{name}}}:both"));
    let beside: ScoredSortedSet<String, C> = ScoredSortedSet::<String>::new(&client, &other).with_codec(with);
    beside.insert("d", 3.0).await.unwrap();
    assert_eq!(java(&mut actor, &both, "scored.union", &[codec, name, &other]).await, "5");
    assert_eq!(java(&mut actor, &both, "scored.pollLast", &[codec]).await, "high");
    assert_eq!(set.union([&other]).store(&both).await.unwrap(), 5);
    assert_eq!(java(&mut actor, &both, "scored.getScore", &[codec, "d"]).await, "10.0");
    assert_eq!(java(&mut actor, name, "scored.removeRangeByRank", &[codec, "0", "1"]).await, "2");
    assert_eq!(set.by_rank(..1).rev().remove().await.unwrap(), 1);
    assert_eq!(java(&mut actor, name, "scored.pollFirst", &[codec]).await, "d");
    assert_eq!(set.pop_last().await.unwrap(), Some(("e".to_owned(), 8.0)));
    assert_eq!(java(&mut actor, name, "scored.entries", &[codec]).await, "[]");
}

/// Each condition has the same result on both sides, for a value in the set and for another value.
async fn both_give_scores_under_the_same_conditions(on: Fixture) {
    let (mut actor, client) = (on.java(), on.client().await);
    let there = format!("{}:there", on.name);
    let here: ScoredSortedSet<String, Text> = ScoredSortedSet::<String>::new(&client, &on.name).with_codec(Text);
    let verbs = [
        (Only::Absent, "scored.addIfAbsent"),
        (Only::Present, "scored.addIfExists"),
        (Only::Higher, "scored.addIfGreater"),
        (Only::Lower, "scored.addIfLess"),
    ];
    for (only, verb) in verbs {
        here.insert("in", 5.0).await.unwrap();
        java(&mut actor, &there, "scored.add", &["string", "in", "5"]).await;
        for (value, score) in [("in", 5.0), ("in", 6.0), ("in", 4.0), ("new", 1.0)] {
            let ours = here.insert_if(only, value, score).await.unwrap();
            let theirs = java(&mut actor, &there, verb, &["string", value, &score.to_string()]).await;
            assert_eq!(ours.to_string(), theirs, "{only:?} {value} {score}");
        }
        let theirs = ScoredSortedSet::<String, Text>::new(&client, &there).by_rank(..).entries().await.unwrap();
        assert_eq!(here.by_rank(..).entries().await.unwrap(), theirs, "{only:?}");
        here.clear().await.unwrap();
        ScoredSortedSet::<String, Text>::new(&client, &there).clear().await.unwrap();
    }
}

async fn text_is_in_one_order_on_both_sides(on: Fixture) {
    let (mut actor, client, name) = (on.java(), on.client().await, &*on.name);
    let words = LexSortedSet::new(&client, name);
    assert_eq!(words.insert_many(["b", "ü", "aa", "z"]).await.unwrap(), 4);
    assert_eq!(java(&mut actor, name, "lex.add", &["a"]).await, "true");
    assert_eq!(java(&mut actor, name, "lex.add", &["b"]).await, "false");
    assert_eq!(java(&mut actor, name, "lex.readAll", &[]).await, "[a, aa, b, z, ü]");
    assert_eq!(java(&mut actor, name, "lex.range", &["aa", "z"]).await, "[aa, b]");
    assert_eq!(words.by_value("aa".to_owned().."z".to_owned()).values().await.unwrap(), ["aa", "b"]);
    assert_eq!(java(&mut actor, name, "lex.rangeTail", &["b"]).await, "[z, ü]");
    assert_eq!(java(&mut actor, name, "lex.rangeReversed", &["aa", "b"]).await, "[b, aa]");
    assert_eq!(java(&mut actor, name, "lex.count", &["a", "z"]).await, "3");
    assert_eq!(java(&mut actor, name, "lex.rank", &["z"]).await, "3");
    assert_eq!(words.rank("z").await.unwrap(), Some(3));
    assert_eq!(java(&mut actor, name, "lex.removeRangeHead", &["aa"]).await, "2");
    assert_eq!(words.by_value("z".to_owned()..).remove().await.unwrap(), 2);
    assert!(words.insert("y").await.unwrap());
    assert_eq!(java(&mut actor, name, "lex.pollLast", &[]).await, "y");
    assert_eq!((words.pop_first().await.unwrap().as_deref(), words.is_empty().await.unwrap()), (Some("b"), true));
}
