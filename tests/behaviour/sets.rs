//! Unordered sets.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_core::{Code, Failure, ServerError};
use redgrid_set::codecs::Long;
use redgrid_set::{Lifetime, ObjectError, ScoredSortedSet, Set, SortedSet};
use redgrid_testkit::{Action, Proxy, ServerBinary};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, client_with, server};

fn sorted<T: Ord>(values: Vec<T>) -> Vec<T> {
    let mut values = values;
    values.sort();
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_inserted_looked_for_and_removed() {
    let server = server().await;
    let client = client(&server).await;
    let set: Set<String> = Set::new(&client, "set");
    assert!(set.is_empty().await.unwrap() && !set.clear().await.unwrap());
    assert!(set.insert("a").await.unwrap() && !set.insert("a").await.unwrap());
    assert_eq!(set.insert_many(["a", "b", "c", "b"]).await.unwrap(), 2);
    assert!(set.contains("b").await.unwrap() && !set.contains("d").await.unwrap());
    assert_eq!(set.contains_each(["c", "d", "a"]).await.unwrap(), [true, false, true]);
    assert!(set.contains_all(["a", "b"]).await.unwrap() && !set.contains_all(["a", "d"]).await.unwrap());
    assert!(set.contains_all::<str>([]).await.unwrap());
    assert_eq!(
        (set.len().await.unwrap(), sorted(set.read_all().await.unwrap())),
        (3, ["a", "b", "c"].map(String::from).into())
    );
    assert!(["a", "b", "c"].contains(&&*set.random().await.unwrap().unwrap()));
    assert_eq!((set.random_many(2).await.unwrap().len(), set.random_many(9).await.unwrap().len()), (2, 3));
    assert!(set.remove("a").await.unwrap() && !set.remove("a").await.unwrap());
    assert_eq!(set.remove_many(["a", "b"]).await.unwrap(), 1);
    assert_eq!((set.pop().await.unwrap().as_deref(), set.pop().await.unwrap()), (Some("c"), None));
    assert_eq!((set.random().await.unwrap(), set.pop_many(3).await.unwrap()), (None, Vec::new()));
    set.insert_many(["a", "b", "c"]).await.unwrap();
    assert_eq!((set.pop_many(2).await.unwrap().len(), set.len().await.unwrap()), (2, 1));
    assert!(set.clear().await.unwrap() && !set.object().exists().await.unwrap(), "without values there is no set");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_or_nothing_is_one_step() {
    let server = server().await;
    let client = client(&server).await;
    let (set, other): (Set<i64, Long>, Set<i64, Long>) = (Set::new(&client, "set"), Set::new(&client, "other"));
    let many: Vec<i64> = (0..12_000).collect();
    assert!(set.try_insert_all(&many).await.unwrap());
    assert!(!set.try_insert_all(&[-1, 11_999]).await.unwrap() && !set.contains(&-1).await.unwrap());
    assert!(set.try_insert_all::<i64>([]).await.unwrap());
    assert!(set.object().expire_in(Duration::from_secs(3600)).await.unwrap());
    let stay: Vec<i64> = (5_000..20_000).collect();
    assert_eq!(set.retain_many(&stay).await.unwrap(), 5_000);
    assert!(matches!(set.object().lifetime().await.unwrap(), Lifetime::Ends(_)), "its lifetime stays");
    assert_eq!(sorted(set.read_all().await.unwrap()), (5_000..12_000).collect::<Vec<_>>());
    assert_eq!(set.retain_many(&stay).await.unwrap(), 0);
    assert!(set.move_to("other", &5_000).await.unwrap() && !set.move_to("other", &5_000).await.unwrap());
    assert!(other.contains(&5_000).await.unwrap() && !set.contains(&5_000).await.unwrap());
    assert_eq!(set.retain_many(&[]).await.unwrap(), 6_999);
    assert!(!set.object().exists().await.unwrap());
    let beyond: Vec<i64> = (0..100_001).collect();
    for told in [set.try_insert_all(&beyond).await.map(u64::from), set.retain_many(&beyond).await] {
        assert!(told.unwrap_err().to_string().contains("up to 100000 at once, got 100001"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_are_combined() {
    let server = server().await;
    let client = client(&server).await;
    let set = |name: &str| -> Set<i64> { Set::new(&client, name) };
    set("a").insert_many(&[1, 2, 3, 4]).await.unwrap();
    set("b").insert_many(&[3, 4, 5]).await.unwrap();
    set("c").insert_many(&[4]).await.unwrap();
    let a = set("a");
    assert_eq!(sorted(a.union(["b", "c"]).values().await.unwrap()), [1, 2, 3, 4, 5]);
    assert_eq!(sorted(a.intersection(["b"]).values().await.unwrap()), [3, 4]);
    assert_eq!(sorted(a.difference(["b", "c"]).values().await.unwrap()), [1, 2]);
    // Redis 6.2 has no such command, and reports that.
    let common = async |limit| match a.intersection_len(["b"], limit).await {
        Err(ObjectError::Failed(Failure::Refused { .. })) if ServerBinary::find().unwrap().version().major < 7 => None,
        found => Some(found.unwrap()),
    };
    assert!(common(None).await.is_none_or(|n| n == 2) && common(Some(1)).await.is_none_or(|n| n == 1));
    assert_eq!(common(Some(0)).await, Some(0));
    assert_eq!(a.union(["b"]).store("d").await.unwrap(), 5);
    assert_eq!(a.intersection(["b", "c"]).store("d").await.unwrap(), 1);
    assert_eq!(set("d").read_all().await.unwrap(), [4]);
    assert_eq!(a.difference(["none"]).store("a").await.unwrap(), 4);
    assert_eq!(a.difference(["a"]).store("d").await.unwrap(), 0);
    assert!(!set("d").object().exists().await.unwrap());
    assert!(matches!(a.union(["{}"]).values().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_set_is_streamed_and_undecodable_values_affect_no_others() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let set: Set<u32> = Set::new(&client, "large");
    let all: BTreeSet<u32> = (0..5000).collect();
    assert_eq!(set.insert_many(&all).await.unwrap(), 5000);
    assert_eq!(set.stream().page(50).try_collect::<BTreeSet<u32>>().await.unwrap(), all);
    let nines: BTreeSet<u32> = set.stream().matching("99*").try_collect().await.unwrap();
    assert_eq!(nines, (0..5000).filter(|n: &u32| n.to_string().starts_with("99")).collect());
    assert_eq!(tokio::spawn(set.stream().page(10).take(3).count()).await.unwrap(), 3);
    assert_eq!(set.remove_many(&all).await.unwrap(), 5000);
    observer.cmd(&["SADD", "s", "1", "{\"x\":1}", "3"]).await.unwrap();
    let some: Vec<_> = Set::<u32>::new(&client, "s").stream().collect().await;
    assert_eq!((some.len(), some.iter().filter(|value| value.is_ok()).count()), (3, 2));
    let told = Set::<u32>::new(&client, "s").read_all().await.unwrap_err();
    let words = told.to_string();
    assert!(["`s`", "a value", "Json"].iter().all(|part| words.contains(part)), "{words}");
    observer.cmd(&["SET", "text", "x"]).await.unwrap();
    let text = Set::<u32>::new(&client, "text");
    for told in [text.len().await, text.retain_many(&[1]).await, text.union(["s"]).store("s").await] {
        let wrong = |told: &ObjectError| {
            matches!(
                told,
                ObjectError::Failed(Failure::Refused {
                    source: ServerError::Refused { code: Code::WrongType, .. },
                    ..
                })
            )
        };
        assert!(wrong(told.as_ref().unwrap_err()), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_reported_and_no_value_is_popped_twice() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let url = server.url_via(proxy.addr());
    // Only requests with lost replies use this client, because its timeout is short.
    let hasty = client_with(&url, |config| config.response_timeout(Duration::from_millis(500))).await;
    let (client, hasty) = (client(&server).await, Set::<u32>::new(&hasty, "set"));
    let set: Set<u32> = Set::new(&client, "set");
    set.insert_many(&[1, 2, 3]).await.unwrap();
    proxy.next(1, "SPOP", Action::SwallowReply);
    assert!(matches!(hasty.pop().await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert_eq!(set.len().await.unwrap(), 2, "one value was popped");
    proxy.next(1, "SADD", Action::SwallowReply);
    assert!(matches!(hasty.insert(&4).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
    assert!(set.contains(&4).await.unwrap());
    proxy.next(1, "SCARD", Action::SwallowReply);
    assert_eq!(hasty.len().await.unwrap(), 3, "a read is retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combination_of_too_many_sets_is_rejected() {
    let server = server().await;
    let client = client(&server).await;
    let (set, due) = (Set::<u32>::new(&client, "s"), SortedSet::<u32>::new(&client, "due"));
    let scores = ScoredSortedSet::<u32>::new(&client, "scores");
    set.insert(&1).await.unwrap();
    scores.insert(&1, 1.0).await.unwrap();
    let many = |count: usize| (0..count).map(|n| format!("other:{n}"));
    assert_eq!(set.union(many(1000)).values().await.unwrap(), [1]);
    assert_eq!(scores.union(many(1000)).weights(vec![2.0; 1001]).entries().await.unwrap(), [(1, 2.0)]);
    for told in [
        set.union(many(1001)).store("x").await,
        set.intersection_len(many(1001), None).await,
        due.difference(many(1001)).store("x").await,
        scores.union(many(1001)).store("x").await,
    ] {
        let told = told.unwrap_err();
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { .. })), "{told:?}");
        assert!(told.to_string().contains("up to 1000"), "{told:?}");
    }
}

/// A set is compared with a model through random operations.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_matches_its_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(10) {
        let mut random = fastrand::Rng::with_seed(seed);
        let set: Set<u8> = Set::new(&client, format!("model:{seed}"));
        let mut model: BTreeSet<u8> = BTreeSet::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let (step, one, other) = (random.u8(..11), random.u8(..8), random.u8(..8));
            story.push((step, one, other));
            let fits = match step {
                0 | 1 => set.insert(&one).await.unwrap() == model.insert(one),
                2 => {
                    let new = u64::from(model.insert(one)) + u64::from(model.insert(other));
                    set.insert_many(&[one, other]).await.unwrap() == new
                }
                3 => set.remove(&one).await.unwrap() == model.remove(&one),
                4 => set.contains(&one).await.unwrap() == model.contains(&one),
                5 => {
                    let can = !model.contains(&one) && !model.contains(&other);
                    if can {
                        model.extend([one, other]);
                    }
                    set.try_insert_all(&[one, other]).await.unwrap() == can
                }
                6 => {
                    let before = model.len();
                    model.retain(|value| [one, other, 1, 2].contains(value));
                    set.retain_many(&[one, other, 1, 2]).await.unwrap() == (before - model.len()) as u64
                }
                7 => match set.pop().await.unwrap() {
                    Some(value) => model.remove(&value),
                    None => model.is_empty(),
                },
                8 => set.stream().try_collect::<BTreeSet<u8>>().await.unwrap() == model,
                9 => {
                    let had = u64::from(model.remove(&one)) + u64::from(model.remove(&other));
                    set.remove_many(&[one, other]).await.unwrap() == had
                }
                _ => set.random().await.unwrap().map_or(model.is_empty(), |value| model.contains(&value)),
            };
            let same = set.read_all().await.unwrap().into_iter().collect::<BTreeSet<_>>() == model;
            assert!(fits && same, "seed {seed}: {model:?} after {story:?}");
        }
    }
}
