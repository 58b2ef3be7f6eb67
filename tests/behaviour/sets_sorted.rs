//! Sets sorted by values: text as in Redisson, and other types.

use std::collections::BTreeSet;
use std::ops::Bound;

use futures_util::{StreamExt, TryStreamExt};
use redgrid_core::Failure;
use redgrid_set::{LexSortedSet, Natural, ObjectError, ScoredSortedSet, Set, SortedSet};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

#[tokio::test(flavor = "multi_thread")]
async fn text_is_in_the_order_of_its_bytes() {
    let server = server().await;
    let client = client(&server).await;
    let set = LexSortedSet::new(&client, "words");
    assert!(set.insert("m").await.unwrap() && !set.insert("m").await.unwrap());
    assert_eq!(set.insert_many(["z", "a", "mm", "ü", "", "m"]).await.unwrap(), 5);
    assert_eq!(set.read_all().await.unwrap(), ["", "a", "m", "mm", "z", "ü"]);
    assert_eq!((set.first().await.unwrap().as_deref(), set.last().await.unwrap().as_deref()), (Some(""), Some("ü")));
    assert_eq!(
        (set.rank("m").await.unwrap(), set.rev_rank("m").await.unwrap(), set.rank("q").await.unwrap()),
        (Some(2), Some(3), None)
    );
    assert!(set.contains("z").await.unwrap() && !set.contains("y").await.unwrap());
    use Bound::{Excluded, Included, Unbounded};
    let by = |from: Bound<&'static str>, to: Bound<&'static str>| set.by_value::<str>((from, to));
    assert_eq!(by(Excluded("a"), Included("mm")).values().await.unwrap(), ["m", "mm"]);
    assert_eq!(by(Included("a"), Excluded("mm")).rev().values().await.unwrap(), ["m", "a"]);
    assert_eq!(by(Unbounded, Excluded("m")).count().await.unwrap(), 2);
    assert_eq!(by(Included("b"), Unbounded).limit(1, 2).values().await.unwrap(), ["mm", "z"]);
    assert_eq!(by(Included(""), Included("")).values().await.unwrap(), [""]);
    assert_eq!(set.by_value("b".to_owned().."n".to_owned()).values().await.unwrap(), ["m", "mm"]);
    assert_eq!(set.by_rank(1..3).rev().values().await.unwrap(), ["z", "mm"]);
    assert_eq!(by(Included("m"), Unbounded).store("some").await.unwrap(), 4);
    assert_eq!(LexSortedSet::new(&client, "some").read_all().await.unwrap(), ["m", "mm", "z", "ü"]);
    assert_eq!((by(Included("m"), Included("z")).remove().await.unwrap(), set.len().await.unwrap()), (3, 3));
    let told = by(Included("b"), Included("a")).values().await.unwrap_err();
    assert!(told.to_string().contains("does not end before it begins"), "{told:?}");
    let some = LexSortedSet::new(&client, "some");
    assert_eq!(set.union(["some"]).values().await.unwrap(), ["", "a", "m", "mm", "z", "ü"]);
    assert_eq!(set.intersection(["some"]).values().await.unwrap(), ["ü"]);
    assert_eq!(
        (set.difference(["some"]).store("rest").await.unwrap(), some.retain_many(["m", "z", "y"]).await.unwrap()),
        (2, 2)
    );
    assert_eq!(
        (some.pop_first().await.unwrap().as_deref(), some.pop_last().await.unwrap().as_deref()),
        (Some("m"), Some("z"))
    );
    assert_eq!(
        (some.pop_first().await.unwrap(), set.pop_last_many(2).await.unwrap()),
        (None, vec!["ü".to_owned(), "a".to_owned()])
    );
    assert_eq!((set.pop_first_many(9).await.unwrap(), set.random().await.unwrap()), (vec![String::new()], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_tuples_are_in_their_order() {
    let server = server().await;
    let client = client(&server).await;
    let numbers: SortedSet<i64> = SortedSet::new(&client, "numbers");
    let all = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
    numbers.insert_many(all.iter().rev()).await.unwrap();
    assert_eq!(numbers.read_all().await.unwrap(), all);
    assert_eq!(numbers.by_value(-1..256).values().await.unwrap(), [-1, 0, 1, 255]);
    assert_eq!(numbers.by_value(..=-1).remove().await.unwrap(), 3);
    assert_eq!((numbers.first().await.unwrap(), numbers.last().await.unwrap()), (Some(0), Some(i64::MAX)));
    let due: SortedSet<(u64, String)> = SortedSet::new(&client, "due");
    for (at, what) in [(30, "c"), (5, "z"), (5, "a"), (300, "b")] {
        due.insert(&(at, what.to_owned())).await.unwrap();
    }
    let until = (31, String::new());
    let so_far: Vec<String> = due.by_value(..until).values().await.unwrap().into_iter().map(|(_, what)| what).collect();
    assert_eq!(so_far, ["a", "z", "c"]);
    assert_eq!(due.pop_first().await.unwrap(), Some((5, "a".to_owned())));
    let x: SortedSet<f64> = SortedSet::new(&client, "x");
    x.insert_many(&[1.5, -2.5, f64::NEG_INFINITY, 0.0]).await.unwrap();
    assert_eq!(x.read_all().await.unwrap(), [f64::NEG_INFINITY, -2.5, 0.0, 1.5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_in_order_whatever_comes_and_goes() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let set: SortedSet<u32> = SortedSet::new(&client, "large");
    let all: Vec<u32> = (0..1000).collect();
    set.insert_many(&all).await.unwrap();
    assert_eq!(set.stream().try_collect::<Vec<_>>().await.unwrap(), all);
    assert_eq!(set.stream_of(100..300).try_collect::<Vec<_>>().await.unwrap(), all[100..300]);
    let mut stream = set.stream();
    assert_eq!(stream.next().await.unwrap().unwrap(), 0);
    // Removals before and after the position of the stream, and an insertion at the end.
    set.remove_many(&(0..50).chain(500..600).collect::<Vec<_>>()).await.unwrap();
    set.insert(&5000).await.unwrap();
    let rest: Vec<u32> = stream.try_collect().await.unwrap();
    let expected = (1..1000).filter(|n| !(500..600).contains(n)).chain([5000]);
    assert_eq!(rest, expected.collect::<Vec<_>>(), "each value once, in order");
    observer.cmd(&["ZADD", "odd", "0", "abcd", "0", "x", "0", "zzzz"]).await.unwrap();
    let odd: Vec<_> = SortedSet::<u32>::new(&client, "odd").stream().collect().await;
    assert_eq!(odd.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let told: Vec<_> = set.stream_of((Bound::Included(3), Bound::Included(1))).collect().await;
    assert!(matches!(told[..], [Err(ObjectError::Failed(Failure::InvalidArgument { .. }))]), "{told:?}");
}

/// A sorted set is compared with a model through random operations.
#[tokio::test(flavor = "multi_thread")]
async fn a_sorted_set_matches_its_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(10) {
        let mut random = fastrand::Rng::with_seed(seed);
        let set: SortedSet<i16> = SortedSet::new(&client, format!("model:{seed}"));
        let mut model: BTreeSet<i16> = BTreeSet::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let (step, one, other) = (random.u8(..9), random.i16(-400..400), random.i16(-400..400));
            story.push((step, one, other));
            let (low, high) = (one.min(other), one.max(other));
            let fits = match step {
                0..=2 => {
                    let new = u64::from(model.insert(one)) + u64::from(model.insert(other));
                    set.insert_many(&[one, other]).await.unwrap() == new
                }
                3 => set.pop_last().await.unwrap() == model.pop_last(),
                4 => {
                    set.by_value(low..high).values().await.unwrap()
                        == model.range(low..high).copied().collect::<Vec<_>>()
                }
                5 => {
                    set.by_value(low..=high).rev().values().await.unwrap()
                        == model.range(low..=high).rev().copied().collect::<Vec<_>>()
                }
                6 if high - low < 50 => {
                    let before = model.len();
                    model.retain(|value| !(low..high).contains(value));
                    set.by_value(low..high).remove().await.unwrap() == (before - model.len()) as u64
                }
                7 => set.by_value(..one).count().await.unwrap() == model.range(..one).count() as u64,
                _ => set.first().await.unwrap() == model.first().copied(),
            };
            let same = set.stream().try_collect::<Vec<_>>().await.unwrap() == model.iter().copied().collect::<Vec<_>>();
            assert!(fits && same, "seed {seed}: {model:?} after {story:?}");
        }
    }
}

/// Combinations are sorted by value. The other sets have scores, by which the server would sort in
/// another order.
#[tokio::test(flavor = "multi_thread")]
async fn set_combinations_are_sorted_by_value() {
    let server = server().await;
    let client = client(&server).await;
    let due: SortedSet<u32> = SortedSet::new(&client, "due");
    due.insert_many(&[20, 40]).await.unwrap();
    let plain: Set<u32, Natural> = Set::<u32>::new(&client, "plain").with_codec(Natural);
    plain.insert_many(&[10, 40]).await.unwrap();
    let scored = ScoredSortedSet::<u32>::new(&client, "scored").with_codec(Natural);
    for (value, score) in [(30, -1.0), (5, f64::INFINITY), (20, 7.0)] {
        scored.insert(&value, score).await.unwrap();
    }
    assert_eq!(due.union(["plain", "scored"]).values().await.unwrap(), [5, 10, 20, 30, 40]);
    assert_eq!(due.union(["plain", "scored"]).store("all").await.unwrap(), 5);
    let all: SortedSet<u32> = SortedSet::new(&client, "all");
    assert_eq!(all.by_value(..25).values().await.unwrap(), [5, 10, 20]);
    assert_eq!(all.stream().try_collect::<Vec<_>>().await.unwrap(), [5, 10, 20, 30, 40]);
    assert_eq!(due.intersection(["all"]).store("both").await.unwrap(), 2);
    assert_eq!(due.intersection(["plain"]).values().await.unwrap(), [40]);
    assert_eq!(due.difference(["plain"]).values().await.unwrap(), [20]);
    due.insert(&1).await.unwrap();
    assert_eq!(due.intersection(["scored"]).store("all").await.unwrap(), 1);
    all.insert(&30).await.unwrap();
    assert_eq!(all.by_value(..=30).values().await.unwrap(), [20, 30]);
}
