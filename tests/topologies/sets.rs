//! Sets on every topology.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::Failure;
use redgrid_core::object::Lifetime;
use redgrid_set::{Aggregate, LexSortedSet, ObjectError, Only, ScoredSortedSet, Set, SortedSet};

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "sets";
    each_value_is_in_the_set_once,
    sets_of_one_slot_are_combined,
    scores_ranks_and_ranges_cover_all_clients,
    values_are_in_their_own_order,
    a_set_gets_a_name_in_another_slot_and_keeps_its_lifetime,
];

async fn each_value_is_in_the_set_once(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (Set<u32>, Set<u32>) = (Set::new(&one, &on.name), Set::new(&two, &on.name));
    assert!(here.insert(&1).await.unwrap() && !there.insert(&1).await.unwrap());
    let all: BTreeSet<u32> = (0..1500).collect();
    assert_eq!(there.insert_many(&all).await.unwrap(), 1499);
    assert_eq!(here.contains_each(&[7, 2000]).await.unwrap(), [true, false]);
    assert!(here.contains(&1499).await.unwrap());
    assert_eq!(here.stream().try_collect::<BTreeSet<u32>>().await.unwrap(), all);
    assert!(!here.try_insert_all(&[2000, 7]).await.unwrap() && there.try_insert_all(&[2000, 2001]).await.unwrap());
    assert_eq!((here.remove_many(&[2000, 5000]).await.unwrap(), here.remove(&2001).await.unwrap()), (1, true));
    assert!(here.object().expire_in(HOUR).await.unwrap());
    assert_eq!(there.retain_many(&[1, 2, 3, 4]).await.unwrap(), 1496);
    assert!(matches!(here.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert_eq!((here.random_many(2).await.unwrap().len(), here.read_all().await.unwrap().len()), (2, 4));
    assert!(here.random().await.unwrap().is_some() && here.pop().await.unwrap().is_some());
    assert_eq!(
        (here.pop_many(9).await.unwrap().len(), there.len().await.unwrap(), there.clear().await.unwrap()),
        (3, 0, false)
    );
}

async fn sets_of_one_slot_are_combined(on: Fixture) {
    let client = on.client().await;
    let names = ["a", "b", "c"].map(|part| format!("{{{}}}:{part}", on.name));
    let [a, b, c] = names.clone().map(|name| Set::<u32>::new(&client, name));
    a.insert_many(&[1, 2, 3]).await.unwrap();
    b.insert_many(&[2, 3, 4]).await.unwrap();
    assert_eq!(a.union([&names[1]]).values().await.unwrap().len(), 4);
    assert_eq!(a.intersection([&names[1]]).store(&names[2]).await.unwrap(), 2);
    assert_eq!((a.difference([&names[1]]).values().await.unwrap(), c.len().await.unwrap()), (vec![1], 2));
    assert_eq!(
        (
            a.difference([&names[1]]).store(&names[2]).await.unwrap(),
            a.union([&names[1]]).store(&names[2]).await.unwrap()
        ),
        (1, 4)
    );
    assert!(a.move_to(&names[1], &1).await.unwrap() && b.contains(&1).await.unwrap());
    // The names have no common hash tag. In a cluster the client refuses such a call before any
    // request; elsewhere one server has all keys.
    let far: Vec<String> = (0..8).map(|n| format!("{}:far:{n}", on.name)).collect();
    let union = a.union(&far).values().await;
    match on.topology() {
        Topology::Cluster => {
            assert!(matches!(union, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))), "{union:?}")
        }
        _ => assert_eq!(union.unwrap().len(), 2),
    }
    for set in [a, b, c] {
        set.clear().await.unwrap();
    }
}

async fn scores_ranks_and_ranges_cover_all_clients(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let names = ["a", "b", "c"].map(|part| format!("{{{}}}:{part}", on.name));
    let here: ScoredSortedSet<String> = ScoredSortedSet::new(&one, &names[0]);
    let there: ScoredSortedSet<String> = ScoredSortedSet::new(&two, &names[0]);
    assert!(here.insert("a", 1.0).await.unwrap() && !there.insert_if(Only::Absent, "a", 2.0).await.unwrap());
    assert_eq!(there.insert_many([("b", 2.0), ("c", 3.0), ("d", 4.0)]).await.unwrap(), 3);
    assert_eq!((here.add_score("a", 4.5).await.unwrap(), there.rank("a").await.unwrap()), (5.5, Some(3)));
    assert_eq!((here.rev_rank("a").await.unwrap(), here.rank_and_score("b").await.unwrap()), (Some(0), Some((0, 2.0))));
    assert_eq!(here.rev_ranks(["b", "x"]).await.unwrap(), [Some(3), None]);
    assert_eq!(here.scores(["a", "x"]).await.unwrap(), [Some(5.5), None]);
    assert_eq!(
        (here.insert_and_rank("e", 0.5).await.unwrap(), there.add_score_and_rev_rank("e", 9.0).await.unwrap()),
        (0, 0)
    );
    assert_eq!(here.by_rank(1..3).values().await.unwrap(), ["c", "d"]);
    assert_eq!(here.by_score(2.0..4.0).rev().values().await.unwrap(), ["c", "b"]);
    assert_eq!((here.by_score(..4.0).count().await.unwrap(), here.by_rank(..).store(&names[1]).await.unwrap()), (2, 5));
    assert_eq!(here.entries().try_collect::<Vec<_>>().await.unwrap().len(), 5);
    assert!(here.replace("e", "f").await.unwrap());
    assert_eq!(here.intersection([&names[1]]).aggregate(Aggregate::Max).values().await.unwrap(), ["b", "c", "d", "a"]);
    assert_eq!(here.union([&names[1]]).weights([1.0, 2.0]).store(&names[2]).await.unwrap(), 6);
    assert_eq!(here.difference([&names[1]]).entries().await.unwrap(), [("f".to_owned(), 9.5)]);
    assert_eq!(
        (
            here.intersection([&names[1]]).store(&names[2]).await.unwrap(),
            here.difference([&names[1]]).store(&names[2]).await.unwrap()
        ),
        (4, 1)
    );
    assert_eq!((here.by_score(2.0..=3.0).remove().await.unwrap(), here.by_rank(..1).remove().await.unwrap()), (2, 1));
    assert_eq!(
        (here.pop_first().await.unwrap(), here.pop_last().await.unwrap()),
        (Some(("a".into(), 5.5)), Some(("f".into(), 9.5)))
    );
    assert_eq!(here.pop_first_of_any([&names[2]], 3).await.unwrap(), Some((names[2].clone(), vec![("f".into(), 9.5)])));
    assert_eq!(here.union([&names[1]]).values().await.unwrap().len(), 5);
    let other: ScoredSortedSet<String> = ScoredSortedSet::new(&one, &names[1]);
    assert_eq!((other.random_entries(2).await.unwrap().len(), other.retain_many(["b"]).await.unwrap()), (2, 4));
    assert!(other.clear().await.unwrap());
}

async fn values_are_in_their_own_order(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (SortedSet<i64>, SortedSet<i64>) =
        (SortedSet::new(&one, &on.name), SortedSet::new(&two, &on.name));
    let all: Vec<i64> = (-300..300).collect();
    assert_eq!(here.insert_many(all.iter().rev()).await.unwrap(), 600);
    assert_eq!(there.stream().try_collect::<Vec<_>>().await.unwrap(), all);
    assert_eq!(there.by_value(-2..2).values().await.unwrap(), [-2, -1, 0, 1]);
    assert_eq!((there.by_value(..0).count().await.unwrap(), there.by_value(..0).remove().await.unwrap()), (300, 300));
    assert_eq!((here.first().await.unwrap(), here.pop_last().await.unwrap()), (Some(0), Some(299)));
    assert!(here.clear().await.unwrap());
    let (words, others) = (LexSortedSet::new(&one, &on.name), LexSortedSet::new(&two, &on.name));
    assert!(words.insert("b").await.unwrap() && others.insert("a").await.unwrap() && !words.insert("a").await.unwrap());
    assert_eq!(words.by_value("a".to_owned()..).values().await.unwrap(), ["a", "b"]);
    assert!(words.clear().await.unwrap());
}

async fn a_set_gets_a_name_in_another_slot_and_keeps_its_lifetime(on: Fixture) {
    let client = on.client().await;
    let names: Vec<String> = (0..4).map(|n| format!("{}:{n}", on.name)).collect();
    let set = |name: &str| -> ScoredSortedSet<u32> { ScoredSortedSet::new(&client, name) };
    let all: Vec<u32> = (0..700).collect();
    set(&names[0]).insert_many(all.iter().map(|n| (n, f64::from(*n)))).await.unwrap();
    assert!(set(&names[0]).object().expire_in(HOUR).await.unwrap());
    for pair in names.windows(2) {
        assert!(set(&pair[0]).object().rename(&pair[1]).await.unwrap());
        assert!(set(&pair[0]).is_empty().await.unwrap());
    }
    let last = set(&names[3]);
    assert_eq!(last.read_all().await.unwrap(), all);
    assert!(matches!(last.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(last.clear().await.unwrap());
}
