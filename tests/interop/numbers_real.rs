//! One floating point number, changed by both sides.

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, Comparison};
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    every_double_passes_both_ways,
    both_add_in_both_orders,
    a_removal_in_java_is_reported_by_the_server,
    both_swap_compare_and_delete_the_others_numbers,
    both_agree_on_comparisons,
    an_absent_number_is_0_to_both,
    both_delete_by_comparison,
    lifetimes_are_shared_by_both_sides,
    concurrent_additions_of_both_count_once,
    a_sum_beyond_all_doubles_is_refused_by_ours_and_readable_to_java,
];

/// The scenario's number, as a Java thread uses it.
struct Java {
    actor: Actor,
    name: String,
}

impl Java {
    fn of(on: &Fixture) -> Java {
        Java { actor: on.java(), name: on.name.clone() }
    }

    async fn does<const N: usize>(&mut self, verb: &str, numbers: [f64; N]) -> String {
        let numbers = numbers.map(|number| format!("{number:e}"));
        let words: Vec<&str> = numbers.iter().map(String::as_str).collect();
        self.actor.number(&format!("double.{verb}"), &self.name, &words).await.unwrap()
    }

    async fn number<const N: usize>(&mut self, verb: &str, numbers: [f64; N]) -> f64 {
        self.does(verb, numbers).await.parse().unwrap()
    }

    async fn truth<const N: usize>(&mut self, verb: &str, numbers: [f64; N]) -> bool {
        self.does(verb, numbers).await == "true"
    }

    /// Runs a verb with a time in milliseconds.
    async fn times(&mut self, verb: &str, millis: &str) -> String {
        self.actor.number(&format!("double.{verb}"), &self.name, &[millis]).await.unwrap()
    }
}

async fn ours(on: &Fixture) -> AtomicDouble {
    AtomicDouble::new(&on.client().await, &on.name)
}

async fn every_double_passes_both_ways(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    let extremes = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 1e300, -1e-300, 1e16 + 2.0];
    let values = [0.0, 0.1, 5.0, -0.3, 1e10, 1.0 / 3.0, std::f64::consts::PI, 1e-20, 123_456_789.123_456_79];
    for value in values.into_iter().chain(extremes) {
        java.does("set", [value]).await;
        assert_eq!(ours.get().await.unwrap(), value, "set by Java");
        assert!(ours.compare_and_set(value, 1.5).await.unwrap(), "{value}, set by Java");
        for once in [false, true] {
            let ours = if once { ours.clone().exactly_once() } else { ours.clone() };
            ours.set(value).await.unwrap();
            assert_eq!(java.number("get", []).await, value, "set by us");
            assert!(java.truth("compareAndSet", [value, 1.5]).await, "{value}, set by us");
            assert_eq!(ours.get_and_set(value).await.unwrap(), 1.5);
            assert_eq!(java.number("getAndSet", [value]).await, value);
        }
    }
}

async fn both_add_in_both_orders(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!((java.number("addAndGet", [0.1]).await, ours.add(0.2).await.unwrap()), (0.1, 0.3));
    assert_eq!((java.number("incrementAndGet", []).await, ours.increment().await.unwrap()), (1.3, 2.3));
    assert_eq!((java.number("decrementAndGet", []).await, ours.decrement().await.unwrap()), (1.3, 0.3));
    ours.set(0.5).await.unwrap();
    assert_eq!((java.number("getAndAdd", [0.25]).await, ours.get_and_add(0.25).await.unwrap()), (0.5, 0.75));
    assert_eq!((java.number("getAndIncrement", []).await, ours.get_and_increment().await.unwrap()), (1.0, 2.0));
    assert_eq!((java.number("getAndDecrement", []).await, ours.get_and_decrement().await.unwrap()), (3.0, 2.0));
    assert_eq!((java.number("addAndGet", [0.0]).await, ours.add(0.0).await.unwrap()), (1.0, 1.0));
}

async fn a_removal_in_java_is_reported_by_the_server(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    ours.set(0.3).await.unwrap();
    assert_eq!(java.number("getAndAdd", [0.4]).await, 0.7 - 0.4, "which is not 0.3");
    ours.set(0.3).await.unwrap();
    assert_eq!(ours.get_and_add(0.4).await.unwrap(), 0.3);
}

async fn both_swap_compare_and_delete_the_others_numbers(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    ours.set(1.5).await.unwrap();
    assert_eq!(java.number("getAndSet", [2.5]).await, 1.5);
    assert_eq!(ours.get_and_set(3.5).await.unwrap(), 2.5);
    assert_eq!(java.number("getAndDelete", []).await, 3.5);
    java.does("set", [4.5]).await;
    assert!(!ours.compare_and_set(4.0, 5.5).await.unwrap() && ours.compare_and_set(4.5, 5.5).await.unwrap());
    assert!(!java.truth("compareAndSet", [4.5, 6.5]).await && java.truth("compareAndSet", [5.5, 6.5]).await);
    assert_eq!(ours.get_and_delete().await.unwrap(), 6.5);
    java.does("set", [1.0]).await;
    assert!(ours.delete().await.unwrap() && !java.truth("delete", []).await);
    // An update by Rust writes the server's own digits.
    java.does("addAndGet", [0.1]).await;
    assert_eq!(ours.update(|n| n * 3.0).await.unwrap(), 0.1 * 3.0);
    assert_eq!(java.number("get", []).await, 0.1 * 3.0);
}

async fn both_agree_on_comparisons(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    let values = [-1e300, -1.5, -0.1, 0.0, 0.1, 0.2, 10.0, 9.5, 1e300];
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

async fn an_absent_number_is_0_to_both(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!((java.number("get", []).await, ours.get().await.unwrap()), (0.0, 0.0));
    assert_eq!((java.number("getAndDelete", []).await, ours.get_and_delete().await.unwrap()), (0.0, 0.0));
    assert!(java.truth("compareAndSet", [0.0, 1.5]).await && ours.delete().await.unwrap());
    assert!(ours.compare_and_set(0.0, 1.5).await.unwrap() && java.truth("delete", []).await);
    assert!(java.truth("setIfLess", [0.5, 1.5]).await && ours.delete().await.unwrap());
    assert!(ours.set_if(Comparison::Less, 0.5, 1.5).await.unwrap() && java.truth("delete", []).await);
    assert_eq!((ours.get_and_set(1.5).await.unwrap(), java.number("getAndDelete", []).await), (0.0, 1.5));
}

async fn both_delete_by_comparison(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    for (javas, how) in
        [("less", Comparison::Less), ("greaterOrEqual", Comparison::GreaterOrEqual), ("equal", Comparison::Equal)]
    {
        for to in [0.25, 0.5, 0.75] {
            java.does("set", [0.5]).await;
            let deleted = ours.delete_if(how, to).await.unwrap();
            assert_eq!(java.truth("isExists", []).await, !deleted);
            if on.version().starts_with('4') {
                ours.set(0.5).await.unwrap();
                let done = java.actor.number("double.compareAndDelete", &on.name, &[javas, &to.to_string()]).await;
                assert_eq!(done.unwrap() == "true", deleted, "0.5 {javas} {to}");
            }
        }
    }
}

async fn lifetimes_are_shared_by_both_sides(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    assert_eq!(ours.add(0.5).at_most(1.0).expires_in(SOON).await.unwrap(), 0.5);
    java.number("addAndGet", [0.25]).await;
    let left: i64 = java.does("remainTimeToLive", []).await.parse().unwrap();
    assert!(left > 0 && u128::try_from(left).unwrap() <= SOON.as_millis(), "{left}");
    assert_eq!(java.times("expire", "60000").await, "true");
    ours.add(0.25).await.unwrap();
    assert!(java.does("remainTimeToLive", []).await.parse::<i64>().unwrap() > 0);
    ours.set(1.0).await.unwrap();
    assert_eq!(java.does("remainTimeToLive", []).await, "-1");
}

async fn concurrent_additions_of_both_count_once(on: Fixture) {
    let (mut java, ours) = (on.java(), ours(&on).await);
    java.begin_number("double.crowd", &on.name, &["200"]).await;
    let tasks = (0..8).map(|task| {
        let ours = if task % 2 == 0 { ours.clone() } else { ours.clone().exactly_once() };
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..50 {
                had.push(ours.add(0.5).await.unwrap());
            }
            had
        })
    });
    let mut had: Vec<f64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    had.extend(java.done().await.unwrap().split(',').map(|number| number.parse::<f64>().unwrap()));
    had.sort_unstable_by(f64::total_cmp);
    assert!(had.into_iter().eq((1..=600).map(|n| f64::from(n) / 2.0)));
}

async fn a_sum_beyond_all_doubles_is_refused_by_ours_and_readable_to_java(on: Fixture) {
    let (mut java, ours) = (Java::of(&on), ours(&on).await);
    java.does("set", [f64::MAX]).await;
    assert!(matches!(ours.add(f64::MAX).await, Err(AtomicError::Overflow { .. })));
    assert_eq!((java.number("get", []).await, ours.get().await.unwrap()), (f64::MAX, f64::MAX));
    // Redisson's own addition overflows, and the result is no double for Rust.
    assert_eq!(java.does("addAndGet", [f64::MAX]).await, "Infinity");
    assert!(matches!(ours.get().await, Err(AtomicError::NotANumber { .. })));
    assert!(ours.delete().await.unwrap());
}
