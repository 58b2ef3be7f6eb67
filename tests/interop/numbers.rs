//! One integer, changed by both sides.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicError, AtomicLong, Comparison, Lifetime};
use redgrid_core::Failure;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    each_side_reads_the_others_numbers,
    both_add_in_both_orders,
    both_swap_and_delete_the_others_numbers,
    a_comparison_sees_the_others_number,
    an_absent_number_is_0_to_both,
    all_numbers_pass_both_ways,
    beyond_2_53_ours_is_exact_where_javas_is_not,
    both_agree_on_comparisons_up_to_2_53,
    a_sum_beyond_all_numbers_changes_nothing_on_either_side,
    both_delete_by_comparison,
    javas_lifetime_outlasts_our_additions_and_ends_with_our_set,
    our_lifetime_is_javas,
    concurrent_additions_of_both_count_once,
    our_updates_and_javas_additions_lose_nothing,
    exactly_once_changes_are_plain_numbers_to_java,
    ours_rejects_numbers_that_java_cannot_read,
    a_name_with_a_hash_tag_is_the_same_number,
];

/// The least number that a double cannot represent: it is rounded to its neighbour.
const FINE: i64 = (1 << 53) + 1;

/// The scenario's number, as a Java thread uses it.
struct Java {
    actor: Actor,
    name: String,
}

impl Java {
    fn of(on: &Fixture) -> Java {
        Java { actor: on.java(), name: on.name.clone() }
    }

    async fn does<const N: usize>(&mut self, verb: &str, numbers: [i64; N]) -> String {
        let numbers = numbers.map(|number| number.to_string());
        let words: Vec<&str> = numbers.iter().map(String::as_str).collect();
        self.actor.number(&format!("long.{verb}"), &self.name, &words).await.unwrap()
    }

    async fn number<const N: usize>(&mut self, verb: &str, numbers: [i64; N]) -> i64 {
        self.does(verb, numbers).await.parse().unwrap()
    }

    async fn truth<const N: usize>(&mut self, verb: &str, numbers: [i64; N]) -> bool {
        self.does(verb, numbers).await == "true"
    }
}

async fn ours(on: &Fixture) -> AtomicLong {
    AtomicLong::new(&on.client().await, &on.name)
}

async fn each_side_reads_the_others_numbers(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    java.does("set", [41]).await;
    assert_eq!(ours.get().await.unwrap(), 41);
    ours.set(-7).await.unwrap();
    assert_eq!(java.number("get", []).await, -7);
    assert_eq!(on.observer.get::<String>(&on.name).await.unwrap().as_deref(), Some("-7"));
}

async fn both_add_in_both_orders(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!((java.number("addAndGet", [5]).await, ours.add(5).await.unwrap()), (5, 10));
    assert_eq!((java.number("getAndAdd", [5]).await, ours.get_and_add(5).await.unwrap()), (10, 15));
    assert_eq!((java.number("incrementAndGet", []).await, ours.increment().await.unwrap()), (21, 22));
    assert_eq!((java.number("decrementAndGet", []).await, ours.decrement().await.unwrap()), (21, 20));
    assert_eq!((java.number("getAndIncrement", []).await, ours.get_and_increment().await.unwrap()), (20, 21));
    assert_eq!((java.number("getAndDecrement", []).await, ours.get_and_decrement().await.unwrap()), (22, 21));
    assert_eq!((java.number("addAndGet", [-30]).await, ours.add(-30).await.unwrap()), (-10, -40));
}

async fn both_swap_and_delete_the_others_numbers(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    ours.set(1).await.unwrap();
    assert_eq!(java.number("getAndSet", [2]).await, 1);
    assert_eq!(ours.get_and_set(3).await.unwrap(), 2);
    assert_eq!(java.number("getAndDelete", []).await, 3);
    java.does("set", [4]).await;
    assert_eq!(ours.get_and_delete().await.unwrap(), 4);
    assert!(!java.truth("delete", []).await);
    ours.set(5).await.unwrap();
    assert!(java.truth("delete", []).await && !ours.delete().await.unwrap());
    java.does("set", [6]).await;
    assert!(ours.delete().await.unwrap() && !java.truth("isExists", []).await);
}

async fn a_comparison_sees_the_others_number(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    java.does("set", [10]).await;
    assert!(!ours.compare_and_set(11, 12).await.unwrap() && ours.compare_and_set(10, 12).await.unwrap());
    assert!(!java.truth("compareAndSet", [10, 13]).await && java.truth("compareAndSet", [12, 13]).await);
    assert!(ours.compare_and_set(13, i64::MIN).await.unwrap());
    assert!(java.truth("compareAndSet", [i64::MIN, FINE]).await);
    assert!(!ours.compare_and_set(FINE - 1, 0).await.unwrap() && ours.compare_and_set(FINE, 0).await.unwrap());
}

async fn an_absent_number_is_0_to_both(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!((java.number("get", []).await, ours.get().await.unwrap()), (0, 0));
    assert_eq!((java.number("getAndDelete", []).await, ours.get_and_delete().await.unwrap()), (0, 0));
    assert!(java.truth("compareAndSet", [0, 1]).await && ours.delete().await.unwrap());
    assert!(ours.compare_and_set(0, 1).await.unwrap() && java.truth("delete", []).await);
    assert!(java.truth("setIfLess", [1, 7]).await && ours.delete().await.unwrap());
    assert!(ours.set_if(Comparison::Less, 1, 7).await.unwrap() && java.truth("delete", []).await);
    assert!(!java.truth("setIfGreater", [0, 7]).await && !ours.set_if(Comparison::Greater, 0, 7).await.unwrap());
    assert_eq!((java.number("getAndSet", [3]).await, ours.get_and_delete().await.unwrap()), (0, 3));
    assert_eq!((ours.get_and_set(3).await.unwrap(), java.number("getAndDelete", []).await), (0, 3));
    assert_eq!(java.number("getAndAdd", [2]).await, 0);
    assert_eq!(ours.get_and_delete().await.unwrap(), 2);
}

async fn all_numbers_pass_both_ways(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    for value in [i64::MAX, i64::MIN, FINE, -FINE, 0, -1] {
        java.does("set", [value]).await;
        assert_eq!(ours.get_and_set(value).await.unwrap(), value);
        assert_eq!((java.number("get", []).await, java.number("getAndSet", [0]).await), (value, value));
        assert_eq!((ours.add(value).await.unwrap(), java.number("getAndDelete", []).await), (value, value));
    }
}

async fn beyond_2_53_ours_is_exact_where_javas_is_not(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    ours.set(FINE - 1).await.unwrap();
    assert!(!java.truth("setIfLess", [FINE, 5]).await, "as doubles they are equal");
    assert!(ours.set_if(Comparison::Less, FINE, 5).await.unwrap());
    ours.set(FINE).await.unwrap();
    assert!(!java.truth("setIfGreater", [FINE - 1, 5]).await, "as doubles they are equal");
    assert!(ours.set_if(Comparison::Greater, FINE - 1, 5).await.unwrap());
    ours.set(i64::MAX).await.unwrap();
    assert!(!ours.delete_if(Comparison::Equal, i64::MAX - 1).await.unwrap());
    if on.version().starts_with('4') {
        let deleted =
            java.actor.number("long.compareAndDelete", &on.name, &["equal", &(i64::MAX - 1).to_string()]).await;
        assert_eq!(deleted.unwrap(), "true", "as doubles they are equal");
    }
}

async fn both_agree_on_comparisons_up_to_2_53(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    let values = [-(FINE - 1), -10, -9, -1, 0, 1, 9, 10, 100, FINE - 1];
    for was in values {
        for to in values {
            ours.set(was).await.unwrap();
            let less = java.truth("setIfLess", [to, was]).await;
            assert_eq!(ours.set_if(Comparison::Less, to, was).await.unwrap(), less, "{was} < {to}");
            let greater = java.truth("setIfGreater", [to, was]).await;
            assert_eq!(ours.set_if(Comparison::Greater, to, was).await.unwrap(), greater, "{was} > {to}");
        }
    }
}

async fn a_sum_beyond_all_numbers_changes_nothing_on_either_side(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    java.does("set", [i64::MAX]).await;
    assert!(matches!(ours.increment().await, Err(AtomicError::Overflow { .. })));
    let thrown = java.actor.number("long.incrementAndGet", &on.name, &[]).await.unwrap_err();
    assert!(thrown.message.contains("overflow"), "{thrown:?}");
    assert_eq!((ours.get().await.unwrap(), java.number("get", []).await), (i64::MAX, i64::MAX));
    // Only servers from 8.8 on have bounded additions of their own. Older servers use redgrid's
    // script.
    assert_eq!(ours.add(5).at_most(i64::MAX).saturating().await.unwrap(), i64::MAX);
    assert_eq!(ours.add(-5).at_most(3).saturating().await.unwrap(), 3);
    assert_eq!(java.number("get", []).await, 3);
}

async fn both_delete_by_comparison(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    let all = [
        ("less", Comparison::Less),
        ("lessOrEqual", Comparison::LessOrEqual),
        ("greater", Comparison::Greater),
        ("greaterOrEqual", Comparison::GreaterOrEqual),
        ("equal", Comparison::Equal),
        ("notEqual", Comparison::NotEqual),
    ];
    for (javas, how) in all {
        for to in [4, 5, 6] {
            java.does("set", [5]).await;
            let deleted = ours.delete_if(how, to).await.unwrap();
            assert_eq!(java.truth("isExists", []).await, !deleted);
            if on.version().starts_with('4') {
                ours.set(5).await.unwrap();
                let done = java.actor.number("long.compareAndDelete", &on.name, &[javas, &to.to_string()]).await;
                assert_eq!(done.unwrap() == "true", deleted, "5 {javas} {to}");
            }
        }
    }
    assert!(!ours.delete_if(Comparison::Equal, 0).await.unwrap());
}

async fn javas_lifetime_outlasts_our_additions_and_ends_with_our_set(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    java.does("set", [1]).await;
    assert!(java.truth("expire", [60_000]).await);
    ours.add(5).await.unwrap();
    ours.update(|n| n + 1).await.unwrap();
    ours.clone().exactly_once().increment().await.unwrap();
    let left = java.number("remainTimeToLive", []).await;
    assert!((1..=60_000).contains(&left), "{left}");
    // A comparison that sets a value ends the lifetime, as in Redisson.
    ours.compare_and_set(8, 9).await.unwrap();
    assert_eq!(java.number("remainTimeToLive", []).await, -1);
    assert!(java.truth("expire", [60_000]).await);
    assert!(matches!(ours.lifetime().await.unwrap(), Lifetime::Ends(left) if left.as_millis() <= 60_000));
    ours.set(3).await.unwrap();
    assert_eq!(java.number("remainTimeToLive", []).await, -1);
    assert_eq!(ours.lifetime().await.unwrap(), Lifetime::Endless);
    java.does("delete", []).await;
    assert_eq!((ours.exists().await.unwrap(), ours.lifetime().await.unwrap()), (false, Lifetime::Absent));
}

async fn our_lifetime_is_javas(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!(ours.add(2).expires_in(SOON).await.unwrap(), 2);
    assert!(matches!(ours.lifetime().await.unwrap(), Lifetime::Ends(left) if left <= SOON));
    let left = java.number("remainTimeToLive", []).await;
    assert!(left > 0 && u128::try_from(left).unwrap() <= SOON.as_millis(), "{left}");
    java.number("incrementAndGet", []).await;
    assert!(java.number("remainTimeToLive", []).await > 0);
    ours.add(0).persist().await.unwrap();
    assert_eq!(java.number("remainTimeToLive", []).await, -1);
    ours.add(1).expires_in(Duration::from_millis(1)).await.unwrap();
    redgrid_testkit::wait_until(SOON, async || on.observer.exists(&on.name).await.is_ok_and(|there| !there)).await;
    assert_eq!(java.number("get", []).await, 0);
}

async fn concurrent_additions_of_both_count_once(on: Fixture) {
    let (mut java, mut other, ours) = (on.java(), on.java(), ours(&on).await);
    java.begin_number("long.crowd", &on.name, &["200"]).await;
    other.begin_number("long.crowd", &on.name, &["200"]).await;
    let tasks = (0..8).map(|task| {
        let ours = if task % 2 == 0 { ours.clone() } else { ours.clone().exactly_once() };
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..50 {
                had.push(ours.increment().await.unwrap());
            }
            had
        })
    });
    let mut had: BTreeSet<i64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    for answer in [java.done().await.unwrap(), other.done().await.unwrap()] {
        had.extend(answer.split(',').map(|number| number.parse::<i64>().unwrap()));
    }
    assert!(had.into_iter().eq(1..=800));
}

async fn our_updates_and_javas_additions_lose_nothing(on: Fixture) {
    let (mut java, ours) = (on.java(), ours(&on).await);
    java.begin_number("long.crowd", &on.name, &["99"]).await;
    let tasks = (0..100).map(|_| {
        let ours = ours.clone();
        tokio::spawn(async move { ours.update(|n| n + 1_000).await })
    });
    let results = join_all(tasks).await;
    java.done().await.unwrap();
    let updated = results.into_iter().filter(|result| result.as_ref().unwrap().is_ok()).count();
    assert_eq!(ours.get().await.unwrap(), 99 + 1_000 * i64::try_from(updated).unwrap());
    assert_eq!(updated, 100, "99 additions can not overtake an update a hundred times");
}

async fn exactly_once_changes_are_plain_numbers_to_java(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await.exactly_once());
    ours.set(1).await.unwrap();
    assert_eq!((java.number("incrementAndGet", []).await, ours.add(3).await.unwrap()), (2, 5));
    assert_eq!((java.number("getAndSet", [7]).await, ours.get_and_add(1).await.unwrap()), (5, 7));
    assert!(ours.compare_and_set(8, 9).await.unwrap() && java.truth("compareAndSet", [9, 10]).await);
    assert!(ours.set_if(Comparison::Equal, 10, 11).await.unwrap());
    assert_eq!((java.number("getAndAdd", [1]).await, ours.get_and_delete().await.unwrap()), (11, 12));
    java.does("set", [1]).await;
    assert!(ours.delete().await.unwrap() && !java.truth("isExists", []).await);
}

async fn ours_rejects_numbers_that_java_cannot_read(on: Fixture) {
    let (mut java, ours) = (on.java(), ours(&on).await);
    on.observer.cmd(&["SET", &on.name, "many"]).await.unwrap();
    assert!(matches!(ours.get().await, Err(AtomicError::NotANumber { .. })));
    assert!(java.number("long.incrementAndGet", &on.name, &[]).await.is_err());
    assert!(matches!(ours.increment().await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    assert!(matches!(ours.get_and_set(1).await, Err(AtomicError::Failed(Failure::Refused { .. }))));
    assert_eq!(on.observer.get::<String>(&on.name).await.unwrap().as_deref(), Some("many"));
}

async fn a_name_with_a_hash_tag_is_the_same_number(on: Fixture) {
    let name = format!("{{{}}}:n", on.name);
    let (mut java, ours) = (on.java(), AtomicLong::new(&on.client().await, &name).exactly_once());
    assert_eq!(java.number("long.addAndGet", &name, &["4"]).await.unwrap(), "4");
    assert_eq!(ours.add(4).await.unwrap(), 8);
    assert_eq!(java.number("long.get", &name, &[]).await.unwrap(), "8");
}
