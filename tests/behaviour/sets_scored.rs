//! Sets sorted by scores.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_set::codecs::Text;
use redgrid_set::{Aggregate, Lifetime, ObjectError, Only, ScoredSortedSet, Set};
use redgrid_testkit::{Action, Proxy, ServerBinary};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, client_with, server};

fn text(entries: Vec<(String, f64)>) -> String {
    entries.into_iter().map(|(value, score)| format!("{value}={score}")).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn values_have_scores_and_ranks() {
    let server = server().await;
    let client = client(&server).await;
    let set: ScoredSortedSet<String> = ScoredSortedSet::new(&client, "board");
    assert!(set.insert("b", 2.0).await.unwrap() && !set.insert("b", 2.5).await.unwrap());
    assert_eq!(set.insert_many([("a", 1.0), ("c", 3.0), ("b", 2.0)]).await.unwrap(), 2);
    assert!(
        !set.insert_if(Only::Absent, "a", 9.0).await.unwrap() && set.insert_if(Only::Absent, "d", 4.0).await.unwrap()
    );
    assert!(
        !set.insert_if(Only::Present, "e", 9.0).await.unwrap() && set.insert_if(Only::Present, "d", 5.0).await.unwrap()
    );
    assert!(
        !set.insert_if(Only::Higher, "d", 4.0).await.unwrap() && set.insert_if(Only::Higher, "d", 6.0).await.unwrap()
    );
    assert!(
        !set.insert_if(Only::Lower, "d", 7.0).await.unwrap() && set.insert_if(Only::Lower, "d", 4.0).await.unwrap()
    );
    assert_eq!(set.insert_many_if(Only::Lower, [("a", 5.0), ("d", 3.5), ("e", 5.0)]).await.unwrap(), 2);
    assert_eq!(text(set.by_rank(..).entries().await.unwrap()), "a=1 b=2 c=3 d=3.5 e=5");
    assert_eq!((set.score("c").await.unwrap(), set.score("z").await.unwrap()), (Some(3.0), None));
    assert_eq!(set.scores(["z", "a", "b"]).await.unwrap(), [None, Some(1.0), Some(2.0)]);
    assert_eq!(set.add_score("a", 0.25).await.unwrap(), 1.25);
    assert_eq!((set.rank("a").await.unwrap(), set.rev_rank("a").await.unwrap()), (Some(0), Some(4)));
    assert_eq!((set.rank("z").await.unwrap(), set.rev_rank("z").await.unwrap()), (None, None));
    assert_eq!(set.rank_and_score("b").await.unwrap(), Some((1, 2.0)));
    assert_eq!(set.rev_rank_and_score("b").await.unwrap(), Some((3, 2.0)));
    assert_eq!(set.rank_and_score("z").await.unwrap(), None);
    assert_eq!(set.rev_ranks(["e", "z", "a"]).await.unwrap(), [Some(0), None, Some(4)]);
    assert_eq!(
        (set.insert_and_rank("f", 0.0).await.unwrap(), set.insert_and_rev_rank("g", 0.5).await.unwrap()),
        (0, 5)
    );
    assert_eq!(set.insert_many_and_rev_rank([("f", 8.0), ("g", 9.0)]).await.unwrap(), [1, 0]);
    assert_eq!(
        (set.add_score_and_rank("f", 2.0).await.unwrap(), set.add_score_and_rev_rank("g", 0.5).await.unwrap()),
        (6, 1)
    );
    assert!(set.replace("f", "h").await.unwrap() && !set.replace("f", "h").await.unwrap());
    assert!(set.replace("h", "h").await.unwrap() && set.replace("g", "h").await.unwrap());
    assert_eq!((set.score("h").await.unwrap(), set.len().await.unwrap()), (Some(9.5), 6));
    assert!(set.contains("h").await.unwrap() && !set.contains("g").await.unwrap());
    assert_eq!(set.contains_each(["g", "a"]).await.unwrap(), [false, true]);
    assert_eq!(
        (set.first().await.unwrap(), set.last().await.unwrap()),
        (Some(("a".into(), 1.25)), Some(("h".into(), 9.5)))
    );
    assert_eq!(set.pop_first().await.unwrap(), Some(("a".into(), 1.25)));
    assert_eq!(set.pop_last().await.unwrap(), Some(("h".into(), 9.5)));
    assert_eq!(text(set.pop_first_many(2).await.unwrap()), "b=2 c=3");
    assert_eq!(text(set.pop_last_many(9).await.unwrap()), "e=5 d=3.5");
    assert_eq!(
        (set.pop_first().await.unwrap(), set.last().await.unwrap(), set.random().await.unwrap()),
        (None, None, None)
    );
    assert!(!set.object().exists().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_read_counted_stored_and_removed() {
    let server = server().await;
    let client = client(&server).await;
    let set = |name: &str| -> ScoredSortedSet<u32> { ScoredSortedSet::new(&client, name) };
    let all = set("all");
    all.insert_many((0..10).collect::<Vec<u32>>().iter().map(|n| (n, f64::from(*n)))).await.unwrap();
    assert_eq!(all.by_rank(2..4).values().await.unwrap(), [2, 3]);
    assert_eq!(all.by_rank(2..4).rev().values().await.unwrap(), [7, 6]);
    assert_eq!(
        (all.by_rank(..0).values().await.unwrap(), all.by_rank(3..3).rev().values().await.unwrap()),
        (vec![], vec![])
    );
    assert_eq!(all.by_rank(8..).values().await.unwrap(), [8, 9]);
    assert_eq!((all.by_rank(8..99).count().await.unwrap(), all.by_rank(20..).count().await.unwrap()), (2, 0));
    assert_eq!(all.by_score(2.0..4.0).values().await.unwrap(), [2, 3]);
    assert_eq!(all.by_score(2.0..=4.0).rev().entries().await.unwrap(), [(4, 4.0), (3, 3.0), (2, 2.0)]);
    let open = (Bound::Excluded(2.0), Bound::Excluded(4.0));
    assert_eq!(all.by_score(open).values().await.unwrap(), [3]);
    assert_eq!(all.by_score(5.0..).limit(1, 2).values().await.unwrap(), [6, 7]);
    assert_eq!(all.by_score(5.0..).rev().limit(1, 2).values().await.unwrap(), [8, 7]);
    assert_eq!((all.by_score(..=3.5).count().await.unwrap(), all.by_score(3.0..3.0).count().await.unwrap()), (4, 0));
    assert_eq!(all.by_rank(1..3).store("other").await.unwrap(), 2);
    assert_eq!(set("other").by_rank(..).entries().await.unwrap(), [(1, 1.0), (2, 2.0)]);
    assert_eq!(all.by_score(..8.0).rev().limit(0, 3).store("other").await.unwrap(), 3);
    assert_eq!(set("other").read_all().await.unwrap(), [5, 6, 7]);
    assert_eq!(all.by_score(3.0..5.0).remove().await.unwrap(), 2);
    assert_eq!(all.by_rank(..2).remove().await.unwrap(), 2);
    assert_eq!(all.read_all().await.unwrap(), [2, 5, 6, 7, 8, 9]);
    assert_eq!(all.by_rank(1..3).rev().remove().await.unwrap(), 2);
    assert_eq!(all.read_all().await.unwrap(), [2, 5, 6, 9]);
    assert_eq!((all.by_rank(3..3).remove().await.unwrap(), all.by_rank(9..).rev().remove().await.unwrap()), (0, 0));
    assert_eq!(all.by_rank(2..).rev().remove().await.unwrap(), 2);
    assert_eq!(all.by_rank(..=0).rev().remove().await.unwrap(), 1);
    assert_eq!(all.read_all().await.unwrap(), [6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_score_is_nan_and_ranges_go_forwards() {
    let server = server().await;
    let client = client(&server).await;
    let set: ScoredSortedSet<String, Text> = ScoredSortedSet::new(&client, "set");
    set.insert_many([("low", f64::NEG_INFINITY), ("high", f64::INFINITY), ("max", f64::MAX), ("min", -1e-300)])
        .await
        .unwrap();
    assert_eq!(
        set.scores(["low", "high", "max", "min"]).await.unwrap(),
        [Some(f64::NEG_INFINITY), Some(f64::INFINITY), Some(f64::MAX), Some(-1e-300)]
    );
    assert_eq!(set.by_score(f64::NEG_INFINITY..0.0).values().await.unwrap(), ["low", "min"]);
    let nan = f64::NAN;
    let told = [
        set.insert("a", nan).await.map(drop),
        set.insert_many([("b", 1.0), ("c", nan)]).await.map(drop),
        set.add_score("a", nan).await.map(drop),
        set.insert_and_rank("a", nan).await.map(drop),
        set.by_score(nan..).count().await.map(drop),
        set.by_score((Bound::Unbounded, Bound::Excluded(nan))).remove().await.map(drop),
        set.union(["x"]).weights([1.0, nan]).store("x").await.map(drop),
    ];
    for told in told {
        assert!(told.as_ref().unwrap_err().to_string().contains("expected a number, got NaN"), "{told:?}");
    }
    assert_eq!(set.len().await.unwrap(), 4, "no request was sent");
    assert!(matches!(
        set.add_score("high", f64::NEG_INFINITY).await,
        Err(ObjectError::Failed(Failure::Refused { .. }))
    ));
    #[expect(clippy::reversed_empty_ranges, reason = "the set rejects such ranges")]
    let told = [
        set.by_rank(3..2).values().await.map(drop),
        set.by_score(3.0..2.0).values().await.map(drop),
        set.by_rank(..).limit(0, 1).values().await.map(drop),
        set.by_score(..).limit(0, 1).remove().await.map(drop),
        set.union(["x"]).weights([1.0]).values().await.map(drop),
        set.difference(["x"]).weights([1.0, 1.0]).values().await.map(drop),
        set.difference(["x"]).aggregate(Aggregate::Sum).values().await.map(drop),
    ];
    for told in told {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_sets_are_combined() {
    let server = server().await;
    let client = client(&server).await;
    let set = |name: &str| -> ScoredSortedSet<String> { ScoredSortedSet::new(&client, name) };
    let (a, b) = (set("a"), set("b"));
    a.insert_many([("x", 1.0), ("y", 2.0), ("z", 3.0)]).await.unwrap();
    b.insert_many([("y", 10.0), ("z", 20.0), ("w", 30.0)]).await.unwrap();
    assert_eq!(text(a.union(["b"]).entries().await.unwrap()), "x=1 y=12 z=23 w=30");
    assert_eq!(text(a.intersection(["b"]).weights([10.0, -1.0]).entries().await.unwrap()), "y=10 z=10");
    assert_eq!(text(a.union(["b"]).aggregate(Aggregate::Min).entries().await.unwrap()), "x=1 y=2 z=3 w=30");
    assert_eq!(a.union(["b"]).aggregate(Aggregate::Max).values().await.unwrap(), ["x", "y", "z", "w"]);
    assert_eq!(text(a.difference(["b"]).entries().await.unwrap()), "x=1");
    if ServerBinary::find().unwrap().version().major >= 7 {
        assert_eq!(a.intersection_len(["b"], None).await.unwrap(), 2);
        assert_eq!(a.intersection_len(["b"], Some(1)).await.unwrap(), 1);
    }
    Set::<String>::new(&client, "plain").insert("z").await.unwrap();
    assert_eq!(text(a.intersection(["plain"]).entries().await.unwrap()), "z=4");
    assert_eq!(a.union(["b"]).weights([1.0, 0.5]).store("c").await.unwrap(), 4);
    assert_eq!(text(set("c").by_rank(..).entries().await.unwrap()), "x=1 y=7 z=13 w=15");
    assert_eq!(a.difference(["a"]).store("c").await.unwrap(), 0);
    let found = set("none").pop_first_of_any(["b", "a"], 2).await.unwrap().unwrap();
    assert_eq!((found.0.as_str(), text(found.1)), ("b", "y=10 z=20".into()));
    let found = a.pop_last_of_any(["b"], 1).await.unwrap().unwrap();
    assert_eq!((found.0.as_str(), text(found.1)), ("a", "z=3".into()));
    assert_eq!(set("none").pop_first_of_any(["neither"], 2).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_set_is_streamed_and_reduced() {
    let server = server().await;
    let client = client(&server).await;
    let set: ScoredSortedSet<u32> = ScoredSortedSet::new(&client, "large");
    let all: BTreeMap<u32, f64> = (0..3000).map(|n| (n, f64::from(n) / 8.0)).collect();
    assert_eq!(set.insert_many(all.iter().map(|(n, score)| (n, *score))).await.unwrap(), 3000);
    assert_eq!(
        set.entries().page(50).try_collect::<Vec<_>>().await.unwrap().into_iter().collect::<BTreeMap<_, _>>(),
        all
    );
    assert_eq!(set.stream().try_collect::<Vec<_>>().await.unwrap().len(), 3000);
    assert_eq!((set.random_many(5).await.unwrap().len(), set.random_entries(7).await.unwrap().len()), (5, 7));
    assert!(set.object().expire_in(Duration::from_secs(3600)).await.unwrap());
    let stay: Vec<u32> = (100..50_000).collect();
    assert_eq!(set.retain_many(&stay).await.unwrap(), 100);
    assert!(matches!(set.object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert_eq!(set.first().await.unwrap(), Some((100, 12.5)));
    assert_eq!((set.remove_many(&stay).await.unwrap(), set.remove(&1).await.unwrap()), (2900, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_score_is_not_added_twice_when_an_answer_is_lost() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let hasty =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    // Only requests with lost replies use this client, because its timeout is short.
    let (client, hasty) = (client(&server).await, ScoredSortedSet::<String>::new(&hasty, "set"));
    let set: ScoredSortedSet<String> = ScoredSortedSet::new(&client, "set");
    set.insert("a", 1.0).await.unwrap();
    proxy.next(1, "ZINCRBY", Action::SwallowReply);
    assert!(matches!(hasty.add_score("a", 1.0).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(set.score("a").await.unwrap(), Some(2.0));
    proxy.next(1, "ZPOPMIN", Action::SwallowReply);
    assert!(matches!(hasty.pop_first().await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert!(set.is_empty().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_ranks_nothing_is_added() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let set: ScoredSortedSet<String> = ScoredSortedSet::new(&client, "set");
    set.insert("a", 1.0).await.unwrap();
    let half = ["ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", "-zrank", "-zrevrank"];
    observer.cmd(&half).await.unwrap();
    let half = client_with(&server.url(), |config| config.credentials(Some("half"), "secret")).await;
    let theirs: ScoredSortedSet<String> = ScoredSortedSet::new(&half, "set");
    for told in [
        theirs.add_score_and_rank("a", 5.0).await,
        theirs.add_score_and_rev_rank("a", 5.0).await,
        theirs.insert_and_rank("b", 5.0).await,
    ] {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{told:?}");
    }
    assert_eq!(set.entries().try_collect::<Vec<_>>().await.unwrap(), [("a".to_owned(), 1.0)]);
}

/// A scored set is compared with a model through random operations.
#[tokio::test(flavor = "multi_thread")]
async fn a_scored_set_matches_its_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(10) {
        let mut random = fastrand::Rng::with_seed(seed);
        let set: ScoredSortedSet<u8> = ScoredSortedSet::new(&client, format!("model:{seed}"));
        let mut model: BTreeMap<u8, i32> = BTreeMap::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let (step, one, n, m) = (random.u8(..13), random.u8(..6), random.i32(-3..4), random.i32(-3..4));
            story.push((step, one, n, m));
            let mut order: Vec<(i32, u8)> = model.iter().map(|(value, score)| (*score, *value)).collect();
            order.sort_unstable();
            let has = model.get(&one).copied();
            let (low, high) = (n.min(m), n.max(m));
            let at = |value: u8| order.iter().position(|(_, other)| *other == value).map(|at| at as u64);
            let score = f64::from(n);
            let fits = match step {
                0 | 1 => set.insert(&one, score).await.unwrap() == model.insert(one, n).is_none(),
                2 => {
                    model.entry(one).or_insert(n);
                    set.insert_if(Only::Absent, &one, score).await.unwrap() == has.is_none()
                }
                3 => {
                    let higher = has.is_none_or(|has| n > has);
                    if higher {
                        model.insert(one, n);
                    }
                    set.insert_if(Only::Higher, &one, score).await.unwrap() == higher
                }
                4 => {
                    *model.entry(one).or_insert(0) += n;
                    set.add_score(&one, score).await.unwrap() == f64::from(model[&one])
                }
                5 => set.remove(&one).await.unwrap() == model.remove(&one).is_some(),
                6 => set.rank(&one).await.unwrap() == at(one),
                7 => {
                    let first = order.first().copied();
                    if let Some((_, value)) = first {
                        model.remove(&value);
                    }
                    set.pop_first().await.unwrap() == first.map(|(score, value)| (value, f64::from(score)))
                }
                8 => {
                    let some = order.iter().filter(|(score, _)| (low..high).contains(score)).map(|(_, value)| *value);
                    set.by_score(f64::from(low)..f64::from(high)).values().await.unwrap() == some.collect::<Vec<_>>()
                }
                9 => {
                    let before = model.len();
                    model.retain(|_, score| !(low..=high).contains(score));
                    let gone = set.by_score(f64::from(low)..=f64::from(high)).remove().await.unwrap();
                    gone == (before - model.len()) as u64
                }
                10 => {
                    let ranks = low.unsigned_abs().min(high.unsigned_abs()).into()..5_u64;
                    let some: Vec<u8> = order.iter().rev().map(|(_, value)| *value).collect();
                    let (from, to) = (some.len().min(ranks.start as usize), some.len().min(5));
                    set.by_rank(ranks).rev().values().await.unwrap() == some[from..to]
                }
                11 => {
                    let other = one.wrapping_add(1);
                    if let Some(has) = has {
                        model.remove(&one);
                        model.insert(other, has);
                    }
                    set.replace(&one, &other).await.unwrap() == has.is_some()
                }
                _ => {
                    let before = model.len();
                    model.retain(|value, _| [one, 1, 2].contains(value));
                    set.retain_many(&[one, 1, 2]).await.unwrap() == (before - model.len()) as u64
                }
            };
            let now = set.by_rank(..).entries().await.unwrap();
            let same = now == {
                let mut order: Vec<(i32, u8)> = model.iter().map(|(value, score)| (*score, *value)).collect();
                order.sort_unstable();
                order.into_iter().map(|(score, value)| (value, f64::from(score))).collect::<Vec<_>>()
            };
            assert!(fits && same, "seed {seed}: {model:?}, {now:?} after {story:?}");
        }
    }
}
