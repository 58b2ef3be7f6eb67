//! Sets of both sides: bulk changes, ranges of every kind, and waiters.

use redgrid_set::codecs::{Kryo, Text};
use redgrid_set::{Aggregate, LexSortedSet, ScoredSortedSet, Set};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    bulk_changes_have_the_same_results,
    sets_of_both_are_stored_and_counted_by_both,
    ranks_are_the_same_on_both_sides,
    ranges_of_ranks_and_scores_are_the_same_on_both_sides,
    scores_are_combined_by_weights_on_both_sides,
    java_waits_for_the_lowest_and_the_highest_of_ours,
    ranges_of_text_are_the_same_on_both_sides,
    text_is_removed_by_ranges_of_both_sides,
];

async fn ask(java: &mut Actor, name: &str, verb: &str, words: &[&str]) -> String {
    java.value_of(verb, name, words).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

/// Returns a list as Java shows it.
fn shown<T: std::fmt::Display>(all: &[T]) -> String {
    format!("[{}]", all.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

/// Returns values with their scores, as Java shows them.
fn with_scores(entries: &[(String, f64)]) -> String {
    shown(&entries.iter().map(|(value, score)| format!("{value}={score:?}")).collect::<Vec<_>>())
}

async fn bulk_changes_have_the_same_results(on: Fixture) {
    let (mut java, client, name) = (on.java(), on.client().await, &*on.name);
    let set = Set::<i64>::new(&client, name).with_codec(Kryo);
    assert_eq!(ask(&mut java, name, "set.addAllCounted", &["kryo", "long:1", "long:2", "long:3"]).await, "3");
    assert_eq!(set.insert_many(&[3, 4, 5]).await.unwrap(), 2);
    assert_eq!(ask(&mut java, name, "set.containsAll", &["kryo", "long:1", "long:5"]).await, "true");
    assert!(!set.contains_all(&[1, 6]).await.unwrap());
    assert_eq!(ask(&mut java, name, "set.removeAllCounted", &["kryo", "long:1", "long:6"]).await, "1");
    assert_eq!(set.remove_many(&[2, 6]).await.unwrap(), 1);
    assert_eq!(ask(&mut java, name, "set.removeAll", &["kryo", "long:6"]).await, "false");
    let drawn = ask(&mut java, name, "set.random", &["kryo", "2"]).await;
    assert!(["[3, 4]", "[3, 5]", "[4, 5]"].contains(&drawn.as_str()), "{drawn}");
    assert!(set.random_many(9).await.unwrap().iter().all(|value| (3..=5).contains(value)));
    // These are many more values than one page of either side.
    set.insert_many(&(100..400).collect::<Vec<_>>()).await.unwrap();
    let seen = ask(&mut java, name, "set.iterate", &["kryo"]).await;
    assert_eq!((seen.split(", ").count(), set.len().await.unwrap()), (303, 303));
    let popped = ask(&mut java, name, "set.removeRandomMany", &["kryo", "300"]).await;
    assert_eq!((popped.split(", ").count(), set.pop_many(9).await.unwrap().len()), (300, 3));
    assert_eq!(ask(&mut java, name, "set.readAll", &["kryo"]).await, "[]");
}

async fn sets_of_both_are_stored_and_counted_by_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let names = ["a", "b", "c", "d"].map(|part| format!("{{{}}}:{part}", on.name));
    let [a, b, _, d] = names.each_ref().map(|name| Set::<String>::new(&client, name).with_codec(Text));
    a.insert_many(["1", "2", "3", "4"]).await.unwrap();
    ask(&mut java, &names[1], "set.addAll", &["string", "3", "4", "5"]).await;
    ask(&mut java, &names[2], "set.addAll", &["string", "4", "9"]).await;
    assert_eq!(ask(&mut java, &names[3], "set.diff", &["string", &names[0], &names[1]]).await, "2");
    assert_eq!(a.difference([&names[1]]).store(&names[3]).await.unwrap(), 2);
    assert_eq!(ask(&mut java, &names[3], "set.readAll", &["string"]).await, "[1, 2]");
    assert_eq!(ask(&mut java, &names[3], "set.union", &["string", &names[1], &names[2]]).await, "4");
    let mut all = d.read_all().await.unwrap();
    all.sort();
    assert_eq!(all, ["3", "4", "5", "9"]);
    assert_eq!(ask(&mut java, &names[0], "set.readIntersection", &["string", &names[1]]).await, "[3, 4]");
    assert_eq!(a.intersection([&names[1], &names[2]]).store(&names[3]).await.unwrap(), 1);
    assert_eq!(ask(&mut java, &names[3], "set.readAll", &["string"]).await, "[4]");
    assert_eq!(ask(&mut java, &names[0], "set.countIntersection", &["string", &names[1]]).await, "2");
    assert_eq!(ask(&mut java, &names[0], "set.countIntersection", &["string", &names[1], "1"]).await, "1");
    assert_eq!(
        (a.intersection_len([&names[1]], None).await.unwrap(), b.intersection_len([&names[0]], Some(1)).await.unwrap()),
        (2, 1)
    );
}

async fn ranks_are_the_same_on_both_sides(on: Fixture) {
    let (mut java, client, name) = (on.java(), on.client().await, &*on.name);
    let set = ScoredSortedSet::<String>::new(&client, name).with_codec(Text);
    assert_eq!(ask(&mut java, name, "scored.addAll", &["string", "a", "1", "b", "2", "c", "3"]).await, "3");
    assert_eq!(set.insert_many([("c", 3.0), ("d", 4.0), ("e", 5.0)]).await.unwrap(), 2);
    assert_eq!(set.add_score_and_rank("a", 3.5).await.unwrap(), 3);
    assert_eq!(ask(&mut java, name, "scored.addScoreAndGetRank", &["string", "a", "1"]).await, "4");
    assert_eq!(ask(&mut java, name, "scored.addScoreAndGetRevRank", &["string", "b", "9"]).await, "0");
    assert_eq!(set.add_score_and_rev_rank("e", 0.75).await.unwrap(), 1);
    assert_eq!(ask(&mut java, name, "scored.addAndGetRevRank", &["string", "f", "0"]).await, "5");
    assert_eq!(set.insert_and_rev_rank("g", 0.5).await.unwrap(), 5);
    for (at, value) in ["f", "g", "c", "d", "a", "e", "b"].into_iter().enumerate() {
        let (rank, rev) = (at.to_string(), (6 - at).to_string());
        assert_eq!(ask(&mut java, name, "scored.rank", &["string", value]).await, rank);
        assert_eq!(ask(&mut java, name, "scored.revRank", &["string", value]).await, rev);
        assert_eq!(set.rank(value).await.unwrap(), Some(at as u64));
        assert_eq!(set.rev_rank_and_score(value).await.unwrap().map(|(rank, _)| rank), Some(6 - at as u64));
    }
    let (first, last) = (set.first().await.unwrap().unwrap(), set.last().await.unwrap().unwrap());
    let ends = format!("{}={:?} {}={:?}", first.0, first.1, last.0, last.1);
    assert_eq!(ask(&mut java, name, "scored.firstAndLast", &["string"]).await, ends);
    assert_eq!(ask(&mut java, name, "scored.pollFirstMany", &["string", "2"]).await, "[f, g]");
    assert_eq!(set.pop_last_many(2).await.unwrap(), [(text("b"), 11.0), (text("e"), 5.75)]);
    assert_eq!(ask(&mut java, name, "scored.retainAll", &["string", "c", "d", "x"]).await, "true");
    assert_eq!((set.retain_many(["d"]).await.unwrap(), set.read_all().await.unwrap()), (1, vec![text("d")]));
    assert_eq!(ask(&mut java, name, "scored.containsAll", &["string", "d"]).await, "true");
    assert_eq!(ask(&mut java, name, "scored.removeAll", &["string", "d", "x"]).await, "true");
    assert!(set.is_empty().await.unwrap());
}

async fn ranges_of_ranks_and_scores_are_the_same_on_both_sides(on: Fixture) {
    let (mut java, client, name) = (on.java(), on.client().await, &*on.name);
    let set = ScoredSortedSet::<String>::new(&client, name).with_codec(Kryo);
    let scores = [-1.5, 0.0, 1.0, 1.0, 2.25, 123_456.5];
    let values = ["m", "z", "b", "a", "ü", "q"];
    set.insert_many(values.into_iter().zip(scores)).await.unwrap();
    for (from, to) in [(0, 2), (1, 1), (3, 9), (7, 9)] {
        let (first, last) = (from.to_string(), to.to_string());
        let ours = with_scores(&set.by_rank(from..=to).entries().await.unwrap());
        assert_eq!(ask(&mut java, name, "scored.ranks", &["kryo", &first, &last]).await, ours);
        let ours = with_scores(&set.by_rank(from..=to).rev().entries().await.unwrap());
        assert_eq!(ask(&mut java, name, "scored.ranksReversed", &["kryo", &first, &last]).await, ours);
    }
    use std::ops::Bound::{Excluded, Included};
    let ranges = [
        (Included(-1.5), Included(1.0)),
        (Excluded(-1.5), Excluded(2.25)),
        (Included(1.0), Excluded(123_456.5)),
        (Excluded(2.25), Included(f64::INFINITY)),
        (Included(f64::NEG_INFINITY), Excluded(0.0)),
    ];
    for (from, to) in ranges {
        let word = |bound| match bound {
            Included(score) => (format!("{score}"), "in"),
            Excluded(score) => (format!("{score}"), "out"),
            std::ops::Bound::Unbounded => (String::new(), ""),
        };
        let ((first, open), (last, close)) = (word(from), word(to));
        for (offset, count) in [(0, 10), (1, 2)] {
            let (skip, most) = (offset.to_string(), count.to_string());
            let words: [&str; 7] = ["kryo", &first, open, &last, close, &skip, &most];
            let ours = set.by_score((from, to)).limit(offset, count).entries().await.unwrap();
            assert_eq!(ask(&mut java, name, "scored.scores", &words).await, with_scores(&ours), "{from:?} {to:?}");
            let ours = set.by_score((from, to)).rev().limit(offset, count).entries().await.unwrap();
            assert_eq!(
                ask(&mut java, name, "scored.scoresReversed", &words).await,
                with_scores(&ours),
                "{from:?} {to:?}"
            );
        }
    }
    let other = format!("{{{name}}}:other");
    assert_eq!(ask(&mut java, &other, "scored.rangeTo", &["kryo", &other, "0", "-1"]).await, "0");
    assert_eq!(set.by_rank(1..3).store(&other).await.unwrap(), 2);
    assert_eq!(ask(&mut java, &other, "scored.entries", &["kryo"]).await, "[z=0.0, a=1.0]");
    assert_eq!(ask(&mut java, name, "scored.removeRangeByScore", &["kryo", "0", "1"]).await, "3");
    assert_eq!(set.by_score(..2.0).remove().await.unwrap(), 1);
    assert_eq!(ask(&mut java, name, "scored.entries", &["kryo"]).await, "[ü=2.25, q=123456.5]");
}

async fn scores_are_combined_by_weights_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let names = ["a", "b", "theirs", "ours"].map(|part| format!("{{{}}}:{part}", on.name));
    let [a, b, theirs, ours] =
        names.each_ref().map(|name| ScoredSortedSet::<String>::new(&client, name).with_codec(Text));
    a.insert_many([("x", 1.0), ("y", 2.0)]).await.unwrap();
    ask(&mut java, &names[1], "scored.addAll", &["string", "y", "10", "z", "-4"]).await;
    assert_eq!(b.len().await.unwrap(), 2);
    for (by, aggregate) in [("SUM", Aggregate::Sum), ("MIN", Aggregate::Min), ("MAX", Aggregate::Max)] {
        for what in ["union", "intersection"] {
            let words = ["string", what, by, &names[0], "2", &names[1], "0.5"];
            let combined = ask(&mut java, &names[2], "scored.combine", &words).await;
            let both = if what == "union" { a.union([&names[1]]) } else { a.intersection([&names[1]]) };
            let stored = both.weights([2.0, 0.5]).aggregate(aggregate).store(&names[3]).await.unwrap();
            assert_eq!(combined, stored.to_string());
            let (theirs, ours) =
                (theirs.by_rank(..).entries().await.unwrap(), ours.by_rank(..).entries().await.unwrap());
            assert!(!ours.is_empty() && theirs == ours, "{what} {by}: {theirs:?} {ours:?}");
        }
    }
    assert_eq!(ask(&mut java, &names[2], "scored.diff", &["string", &names[0], &names[1]]).await, "1");
    assert_eq!(theirs.by_rank(..).entries().await.unwrap(), a.difference([&names[1]]).entries().await.unwrap());
}

async fn java_waits_for_the_lowest_and_the_highest_of_ours(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let other = format!("{{{}}}:other", on.name);
    let (set, beside) =
        (ScoredSortedSet::<String>::new(&client, &on.name), ScoredSortedSet::<String>::new(&client, &other));
    let (set, beside) = (set.with_codec(Text), beside.with_codec(Text));
    let blocked = async |command: &str| {
        let clients: String = on.observer.query(&["CLIENT", "LIST"]).await.unwrap();
        clients.lines().any(|client| client.contains(command) && client.contains("flags=b"))
    };
    java.begin_value("scored.takeFirst", &on.name, &["string"]).await;
    wait_until(SOON, async || blocked("cmd=bzpopmin ").await).await;
    set.insert_many([("high", 2.0), ("low", 1.0)]).await.unwrap();
    assert_eq!(java.done().await.unwrap(), "low");
    assert_eq!(set.pop_first().await.unwrap(), Some((text("high"), 2.0)));
    java.begin_value("scored.pollLastWithin", &on.name, &["string", "60000"]).await;
    wait_until(SOON, async || blocked("cmd=bzpopmax ").await).await;
    set.insert_many([("high", 2.0), ("low", 1.0)]).await.unwrap();
    assert_eq!(java.done().await.unwrap(), "high");
    set.clear().await.unwrap();
    java.begin_value("scored.pollFirstFromAny", &on.name, &["string", "60000", &other]).await;
    wait_until(SOON, async || blocked("cmd=bzpopmin ").await || blocked("cmd=bzmpop ").await).await;
    beside.insert("beside", 1.0).await.unwrap();
    assert_eq!(java.done().await.unwrap(), "beside");
    ask(&mut java, &other, "scored.add", &["string", "there", "3"]).await;
    assert_eq!(set.pop_first_of_any([&other], 1).await.unwrap(), Some((other.clone(), vec![(text("there"), 3.0)])));
}

/// Compares ranges of text of both sides, by the same words.
async fn lex_ranges(java: &mut Actor, name: &str, words: &LexSortedSet, from: &str, to: &str) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let (first, last) = (from.to_owned(), to.to_owned());
    let bound = |word: &String, kind: &str| if kind == "in" { Included(word.clone()) } else { Excluded(word.clone()) };
    for open in ["in", "out"] {
        let (low, high) = (bound(&first, open), bound(&last, open));
        for close in ["in", "out"] {
            let range = || words.by_value((low.clone(), bound(&last, close)));
            let between = [from, open, to, close];
            assert_eq!(ask(java, name, "lex.between", &between).await, shown(&range().values().await.unwrap()));
            let reversed = shown(&range().rev().values().await.unwrap());
            assert_eq!(ask(java, name, "lex.between.reversed", &between).await, reversed);
            assert_eq!(
                ask(java, name, "lex.between.count", &between).await,
                range().count().await.unwrap().to_string()
            );
            let some = [&between[..], &["1", "2"]].concat();
            assert_eq!(
                ask(java, name, "lex.between.some", &some).await,
                shown(&range().limit(1, 2).values().await.unwrap())
            );
        }
        let head = || words.by_value((Unbounded, high.clone()));
        assert_eq!(ask(java, name, "lex.head", &[to, open]).await, shown(&head().values().await.unwrap()));
        assert_eq!(
            ask(java, name, "lex.head.reversed", &[to, open]).await,
            shown(&head().rev().values().await.unwrap())
        );
        assert_eq!(ask(java, name, "lex.head.count", &[to, open]).await, head().count().await.unwrap().to_string());
        let some = head().limit(1, 1).values().await.unwrap();
        assert_eq!(ask(java, name, "lex.head.some", &[to, open, "1", "1"]).await, shown(&some));
        let tail = || words.by_value((low.clone(), Unbounded));
        assert_eq!(ask(java, name, "lex.tail", &[from, open]).await, shown(&tail().values().await.unwrap()));
        assert_eq!(
            ask(java, name, "lex.tail.reversed", &[from, open]).await,
            shown(&tail().rev().values().await.unwrap())
        );
        assert_eq!(ask(java, name, "lex.tail.count", &[from, open]).await, tail().count().await.unwrap().to_string());
        let some = tail().rev().limit(0, 2).values().await.unwrap();
        assert_eq!(ask(java, name, "lex.tail.some", &[from, open, "0", "2"]).await, shown(&some));
    }
}

async fn ranges_of_text_are_the_same_on_both_sides(on: Fixture) {
    let (mut java, client, name) = (on.java(), on.client().await, &*on.name);
    let words = LexSortedSet::new(&client, name);
    assert_eq!(ask(&mut java, name, "lex.addAll", &["b", "aa", "ü", "日本"]).await, "true");
    assert_eq!(words.insert_many(["a", "B", "z", "(x", "[x", "+", "-"]).await.unwrap(), 7);
    // Characters that have a meaning in the server's range syntax are ordinary text here.
    for (from, to) in [("a", "z"), ("aa", "b"), ("(x", "[x"), ("+", "-"), ("-", "b"), ("b", "ü")] {
        lex_ranges(&mut java, name, &words, from, to).await;
    }
    let all = words.read_all().await.unwrap();
    assert_eq!(ask(&mut java, name, "lex.readAll", &[]).await, shown(&all));
    assert_eq!(
        ask(&mut java, name, "lex.ranks", &["2", "5"]).await,
        shown(&words.by_rank(2..=5).values().await.unwrap())
    );
    for (at, word) in all.iter().enumerate() {
        assert_eq!(ask(&mut java, name, "lex.rank", &[word]).await, at.to_string());
        assert_eq!(ask(&mut java, name, "lex.revRank", &[word]).await, (all.len() - 1 - at).to_string());
        assert_eq!(words.rev_rank(word).await.unwrap(), Some((all.len() - 1 - at) as u64));
    }
}

async fn text_is_removed_by_ranges_of_both_sides(on: Fixture) {
    let (mut java, client, name) = (on.java(), on.client().await, &*on.name);
    let words = LexSortedSet::new(&client, name);
    words.insert_many(["a", "b", "c", "d", "e", "f", "g", "h"]).await.unwrap();
    let range = |from: &str, to: &str| words.by_value(from.to_owned()..=to.to_owned());
    assert_eq!(ask(&mut java, name, "lex.between.remove", &["b", "in", "d", "out"]).await, "2");
    assert_eq!(range("a", "b").remove().await.unwrap(), 1);
    assert_eq!(ask(&mut java, name, "lex.tail.remove", &["g", "out"]).await, "1");
    assert_eq!(ask(&mut java, name, "lex.readAll", &[]).await, "[d, e, f, g]");
    assert_eq!(ask(&mut java, name, "lex.remove", &["e"]).await, "true");
    assert!(words.remove("f").await.unwrap() && !words.contains("e").await.unwrap());
    assert_eq!(ask(&mut java, name, "lex.contains", &["f"]).await, "false");
    assert_eq!(
        (ask(&mut java, name, "lex.pollFirst", &[]).await, words.pop_last().await.unwrap()),
        (text("d"), Some(text("g")))
    );
}
