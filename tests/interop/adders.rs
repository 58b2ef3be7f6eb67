//! One adder, used by both sides.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AdderError, Amount, DoubleAdder, LongAdder};
use redgrid_core::Client;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::process::{Other, Signal};

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    either_side_sums_the_counts_of_both,
    rusts_reset_resets_java,
    javas_reset_resets_rust,
    two_objects_of_a_java_client_answer_together,
    doubles_are_summed_and_reset_by_either,
    a_destroyed_adder_is_not_in_the_sum,
    a_stopped_java_process_is_reported_and_leaves_no_key,
    a_java_process_that_was_killed_is_not_in_the_sum,
    saved_counts_of_rust_are_in_javas_sum,
    javas_reset_also_resets_rusts_saved_counts,
    three_processes_count_and_nothing_is_lost,
    sums_of_both_sides_at_the_same_time_are_exact,
    a_name_with_a_hash_tag_is_the_same_adder,
    a_round_of_either_side_leaves_no_permanent_key,
    a_sum_beyond_numbers_is_no_number_in_java_either,
    java_continues_when_rust_leaves_during_a_sum,
];

async fn adder(client: &Client, name: &str) -> LongAdder {
    let adder = LongAdder::new(client, name);
    adder.ready().await.unwrap();
    adder
}

async fn add(java: &mut Actor, name: &str, by: i64) {
    java.adder("adder.add", name, &[&by.to_string()]).await.unwrap();
}

async fn sum(java: &mut Actor, name: &str) -> i64 {
    java.adder("adder.sum", name, &[]).await.unwrap().parse().unwrap()
}

async fn listeners(on: &Fixture, name: &str) -> u64 {
    on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &format!("{{{name}}}:adder-topic")]).await.unwrap().1
}

async fn either_side_sums_the_counts_of_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(-5);
    add(&mut java, &on.name, 47).await;
    assert_eq!((here.sum().await.unwrap(), sum(&mut java, &on.name).await), (42, 42));
    here.increment();
    add(&mut java, &on.name, i64::MAX - 100).await;
    assert_eq!((sum(&mut java, &on.name).await, here.sum().await.unwrap()), (i64::MAX - 57, i64::MAX - 57));
}

async fn rusts_reset_resets_java(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(1);
    add(&mut java, &on.name, 20).await;
    here.reset().await.unwrap();
    assert_eq!((sum(&mut java, &on.name).await, here.sum().await.unwrap()), (0, 0));
    add(&mut java, &on.name, 3).await;
    assert_eq!(here.sum().await.unwrap(), 3);
}

async fn javas_reset_resets_rust(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(1);
    add(&mut java, &on.name, 20).await;
    java.adder("adder.reset", &on.name, &[]).await.unwrap();
    assert_eq!((sum(&mut java, &on.name).await, here.sum().await.unwrap()), (0, 0));
    here.add(3);
    assert_eq!(sum(&mut java, &on.name).await, 3);
}

async fn two_objects_of_a_java_client_answer_together(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    let again = LongAdder::new(&client, &on.name);
    here.add(1);
    again.add(20);
    for (object, by) in [("#a", 300), ("#b", 4_000)] {
        add(&mut java, &format!("{}{object}", on.name), by).await;
    }
    assert_eq!(listeners(&on, &on.name).await, 2);
    assert_eq!((again.sum().await.unwrap(), sum(&mut java, &format!("{}#b", on.name)).await), (4_321, 4_321));
}

async fn doubles_are_summed_and_reset_by_either(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = DoubleAdder::new(&client, &on.name);
    here.ready().await.unwrap();
    here.add(0.5).unwrap();
    let javas = async |java: &mut Actor| -> f64 {
        java.adder("doubleAdder.sum", &on.name, &[]).await.unwrap().parse().unwrap()
    };
    java.adder("doubleAdder.add", &on.name, &["-2.25"]).await.unwrap();
    assert_eq!((here.sum().await.unwrap(), javas(&mut java).await), (-1.75, -1.75));
    java.adder("doubleAdder.reset", &on.name, &[]).await.unwrap();
    assert_eq!((here.sum().await.unwrap(), javas(&mut java).await), (0.0, 0.0));
    here.increment().unwrap();
    java.adder("doubleAdder.add", &on.name, &["1e15"]).await.unwrap();
    assert_eq!((here.sum().await.unwrap(), javas(&mut java).await), (1e15 + 1.0, 1e15 + 1.0));
    here.reset().await.unwrap();
    assert_eq!(javas(&mut java).await, 0.0);
}

async fn a_destroyed_adder_is_not_in_the_sum(on: Fixture) {
    let (mut java, one, two) = (on.java(), on.client().await, on.client().await);
    let (here, there) = (adder(&one, &on.name).await, adder(&two, &on.name).await);
    here.add(1);
    there.add(20);
    add(&mut java, &on.name, 300).await;
    assert_eq!(here.sum().await.unwrap(), 321);
    there.destroy().await.unwrap();
    wait_until(SOON, async || listeners(&on, &on.name).await == 2).await;
    assert_eq!((here.sum().await.unwrap(), sum(&mut java, &on.name).await), (301, 301));
    java.adder("adder.destroy", &on.name, &[]).await.unwrap();
    wait_until(SOON, async || listeners(&on, &on.name).await == 1).await;
    assert_eq!(here.sum().await.unwrap(), 1);
    here.destroy().await.unwrap();
    wait_until(SOON, async || listeners(&on, &on.name).await == 0).await;
}

/// Returns the keys of the adder that have no lifetime.
async fn for_ever(on: &Fixture, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in on.observer.query::<Vec<String>>(&["KEYS", &format!("*{name}*")]).await.unwrap() {
        if on.observer.query::<i64>(&["PTTL", &key]).await.unwrap() == -1 {
            found.push(key);
        }
    }
    found
}

async fn a_stopped_java_process_is_reported_and_leaves_no_key(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(30)).await;
    let (mut java, client) = (redisson.actor(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(1);
    add(&mut java, &on.name, 20).await;
    assert_eq!(here.sum().await.unwrap(), 21);
    redisson.signal(Signal::SIGSTOP).await;
    // Long enough for Rust's own answer, however busy the machine is.
    let partial = here.sum().timeout(Duration::from_secs(5));
    let partial = tokio::time::timeout(SOON, partial.into_future()).await.expect("it ends at its timeout").unwrap_err();
    match partial {
        AdderError::Partial { answered: 1, expected: 2, so_far, .. } => assert_eq!(so_far, Amount::Long(1)),
        other => panic!("{other:?}"),
    }
    redisson.signal(Signal::SIGCONT).await;
    // Java answers the former request, and then this one.
    assert_eq!(here.sum().timeout(SOON).await.unwrap(), 21);
    assert_eq!(for_ever(&on, &on.name).await, Vec::<String>::new());
}

async fn a_java_process_that_was_killed_is_not_in_the_sum(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(30)).await;
    let (mut java, client) = (redisson.actor(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(1);
    add(&mut java, &on.name, 20).await;
    assert_eq!(here.sum().await.unwrap(), 21);
    redisson.kill().await;
    wait_until(SOON, async || listeners(&on, &on.name).await == 1).await;
    assert_eq!(here.sum().await.unwrap(), 1);
}

async fn saved_counts_of_rust_are_in_javas_sum(on: Fixture) {
    let (mut java, one, two) = (on.java(), on.client().await, on.client().await);
    let here = adder(&one, &on.name).await.saving(Duration::from_millis(10)).unwrap();
    let there = adder(&two, &on.name).await.saving(Duration::from_secs(3600)).unwrap();
    here.add(1);
    there.add(20);
    add(&mut java, &on.name, 300).await;
    for _ in 0..20 {
        here.increment();
        here.decrement();
        assert_eq!(sum(&mut java, &on.name).await, 321);
    }
    one.shutdown(SOON).await.unwrap();
    assert_eq!(sum(&mut java, &on.name).await, 321);
    // A client of Rust has to be there to report the saved counts.
    two.shutdown(SOON).await.unwrap();
    assert_eq!(sum(&mut java, &on.name).await, 300);
    let again = adder(&on.client().await, &on.name).await;
    assert_eq!((sum(&mut java, &on.name).await, again.sum().await.unwrap()), (321, 321));
}

async fn javas_reset_also_resets_rusts_saved_counts(on: Fixture) {
    let (mut java, one, two) = (on.java(), on.client().await, on.client().await);
    let here = adder(&one, &on.name).await.saving(Duration::from_millis(10)).unwrap();
    let there = adder(&two, &on.name).await;
    for turn in 1..=5 {
        here.add(turn);
        there.add(20 * turn);
        add(&mut java, &on.name, 300).await;
        java.adder("adder.reset", &on.name, &[]).await.unwrap();
        here.add(1);
        assert_eq!((sum(&mut java, &on.name).await, there.sum().await.unwrap()), (1, 1));
        java.adder("adder.reset", &on.name, &[]).await.unwrap();
        assert_eq!(here.sum().await.unwrap(), 0);
    }
}

async fn three_processes_count_and_nothing_is_lost(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    let _there = Other::start(env!("CARGO_BIN_EXE_role"), &["adder", on.url(), &on.name, "100000", "0"]).await;
    java.begin_verb_with("adder.count", &on.name, "100000").await;
    let counting = (0..10).map(|_| {
        let here = here.clone();
        tokio::task::spawn_blocking(move || (0..10_000).for_each(|_| here.increment()))
    });
    join_all(counting).await.into_iter().for_each(Result::unwrap);
    java.done().await.unwrap();
    assert_eq!((here.sum().await.unwrap(), sum(&mut java, &on.name).await), (300_000, 300_000));
}

async fn sums_of_both_sides_at_the_same_time_are_exact(on: Fixture) {
    let (mut java, mut other, client) = (on.java(), on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(1);
    add(&mut java, &on.name, 20).await;
    for _ in 0..20 {
        let ours = join_all((0..5).map(|_| here.sum().into_future()));
        let (ours, first, second) = tokio::join!(ours, sum(&mut java, &on.name), sum(&mut other, &on.name));
        assert!(ours.iter().all(|sum| *sum.as_ref().unwrap() == 21), "{ours:?}");
        assert_eq!((first, second), (21, 21));
    }
}

async fn a_name_with_a_hash_tag_is_the_same_adder(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let name = format!("{}:x{{y}}z", on.name);
    let here = adder(&client, &name).await;
    here.add(1);
    add(&mut java, &name, 20).await;
    assert_eq!((here.sum().await.unwrap(), sum(&mut java, &name).await), (21, 21));
    here.reset().await.unwrap();
    assert_eq!(sum(&mut java, &name).await, 0);
}

async fn a_round_of_either_side_leaves_no_permanent_key(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    add(&mut java, &on.name, 20).await;
    for _ in 0..3 {
        assert_eq!(here.sum().await.unwrap(), 20);
        assert_eq!(sum(&mut java, &on.name).await, 20);
    }
    here.reset().await.unwrap();
    java.adder("adder.reset", &on.name, &[]).await.unwrap();
    let clean = async || {
        let keys: Vec<String> = on.observer.query(&["KEYS", &format!("{{{}}}*", on.name)]).await.unwrap();
        keys.is_empty()
    };
    wait_until(SOON, clean).await;
    assert_eq!(for_ever(&on, &on.name).await, Vec::<String>::new());
}

/// An overflow is an error on both sides. Redisson's members send no answer for it, so Java's sum
/// waits until its timeout. Rust's sum reports how many members answered.
async fn a_sum_beyond_numbers_is_no_number_in_java_either(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let here = adder(&client, &on.name).await;
    here.add(i64::MAX);
    add(&mut java, &on.name, 1).await;
    let error = here.sum().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, AdderError::Overflow { .. } | AdderError::Partial { answered: 1, .. }), "{error:?}");
    java.adder("adder.sumWithin", &on.name, &["1000"]).await.unwrap_err();
    here.decrement();
    assert_eq!((here.sum().await.unwrap(), sum(&mut java, &on.name).await), (i64::MAX, i64::MAX));
}

async fn java_continues_when_rust_leaves_during_a_sum(on: Fixture) {
    let mut java = on.java();
    add(&mut java, &on.name, 20).await;
    for _ in 0..5 {
        let client = on.client().await;
        let here = adder(&client, &on.name).await;
        here.add(1);
        java.begin_verb_with("adder.sumWithin", &on.name, "5000").await;
        client.shutdown(SOON).await.unwrap();
        // The client that leaves was counted and has answered, or it had left before.
        let sum = java.done().await.unwrap();
        assert!(sum == "20" || sum == "21", "{sum}");
    }
    assert_eq!(sum(&mut java, &on.name).await, 20);
}
