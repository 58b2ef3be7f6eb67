//! Ids that both sides take from one counter.

use std::collections::BTreeSet;

use redgrid_core::Client;
use redgrid_id_generator::IdGenerator;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    java_sets_up_and_both_take_blocks,
    rust_sets_up_and_both_take_blocks,
    only_the_first_of_either_side_sets_up,
    without_being_set_up_both_have_blocks_of_five_thousand,
    keys_and_values_are_redissons,
    blocks_of_any_size_are_shared_by_both,
    crowds_of_both_sides_have_no_id_in_common,
    numbers_below_zero_are_ids_on_both_sides,
    javas_delete_begins_anew_for_rust_when_its_block_is_used,
    rusts_delete_begins_anew_for_java_when_its_block_is_used,
    unused_ids_of_an_ended_java_are_skipped,
    a_name_with_a_hash_tag_is_the_same_generator,
];

fn ids(client: &Client, on: &Fixture) -> IdGenerator {
    IdGenerator::new(client, &on.name)
}

async fn try_init(java: &mut Actor, name: &str, start: i64, size: i64) -> bool {
    java.ids("tryInit", name, &[start, size]).await == "true"
}

async fn next(java: &mut Actor, name: &str, count: i64) -> Vec<i64> {
    java.ids("nextIds", name, &[count]).await.split(',').map(|id| id.parse().unwrap()).collect()
}

async fn some(ids: &IdGenerator, count: usize) -> Vec<i64> {
    let mut had = Vec::new();
    for _ in 0..count {
        had.push(ids.next().await.unwrap());
    }
    had
}

async fn java_sets_up_and_both_take_blocks(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(try_init(&mut java, &on.name, 10, 4).await);
    assert_eq!(next(&mut java, &on.name, 1).await, [10]);
    assert_eq!(some(&ids, 1).await, [14]);
    assert_eq!(next(&mut java, &on.name, 4).await, [11, 12, 13, 18]);
    assert_eq!(some(&ids, 1).await, [15]);
}

async fn rust_sets_up_and_both_take_blocks(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(ids.try_init(100, 3).await.unwrap());
    assert_eq!(some(&ids, 1).await, [100]);
    assert_eq!(next(&mut java, &on.name, 4).await, [103, 104, 105, 106]);
    // Half of Rust's block is used, so Rust reserves the next block before Java does.
    assert_eq!(some(&ids, 1).await, [101]);
    wait_until(SOON, async || on.observer.get::<i64>(&on.name).await.unwrap() == Some(112)).await;
    assert_eq!(next(&mut java, &on.name, 3).await, [107, 108, 112]);
    assert_eq!(some(&ids, 2).await, [102, 109]);
}

async fn only_the_first_of_either_side_sets_up(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(ids.try_init(7, 2).await.unwrap());
    assert!(!try_init(&mut java, &on.name, 50, 9).await);
    assert_eq!(next(&mut java, &on.name, 1).await, [7]);
    let other = format!("{}:other", on.name);
    assert!(try_init(&mut java, &other, 50, 9).await);
    assert!(!IdGenerator::new(&client, &other).try_init(7, 2).await.unwrap());
    assert_eq!(some(&IdGenerator::new(&client, &other), 1).await, [50]);
}

async fn without_being_set_up_both_have_blocks_of_five_thousand(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    assert_eq!(next(&mut java, &on.name, 2).await, [1, 2]);
    assert_eq!(some(&ids(&client, &on), 2).await, [5001, 5002]);
    let other = format!("{}:other", on.name);
    assert_eq!(some(&IdGenerator::new(&client, &other), 2).await, [1, 2]);
    assert_eq!(next(&mut java, &other, 2).await, [5001, 5002]);
}

async fn keys_and_values_are_redissons(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let other = format!("{}:other", on.name);
    assert!(try_init(&mut java, &on.name, 11, 6).await);
    assert!(IdGenerator::new(&client, &other).try_init(11, 6).await.unwrap());
    next(&mut java, &on.name, 1).await;
    some(&IdGenerator::new(&client, &other), 1).await;
    for name in [&on.name, &other] {
        let values = [name.clone(), format!("{{{name}}}:allocation")];
        for (key, expected) in values.iter().zip(["17", "6"]) {
            assert_eq!(on.observer.get::<String>(key).await.unwrap().as_deref(), Some(expected), "{key}");
            assert_eq!(on.observer.time_to_live(key).await.unwrap(), None, "{key}");
        }
    }
}

async fn blocks_of_any_size_are_shared_by_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(try_init(&mut java, &on.name, 1, 1).await);
    let mut all = BTreeSet::new();
    for round in 0..20 {
        for id in [next(&mut java, &on.name, 1).await, some(&ids, 1).await].concat() {
            assert!(all.insert(id), "round {round}: {id}");
        }
    }
    // The size is changed by hand: both sides take blocks of that size from now on.
    on.observer.cmd(&["SET", &format!("{{{}}}:allocation", on.name), "10"]).await.unwrap();
    for id in [next(&mut java, &on.name, 25).await, some(&ids, 25).await].concat() {
        assert!(all.insert(id), "{id}");
    }
}

async fn crowds_of_both_sides_have_no_id_in_common(on: Fixture) {
    let client = on.client().await;
    assert!(ids(&client, &on).try_init(1, 20).await.unwrap());
    let mut threads: Vec<_> = (0..4).map(|_| on.java()).collect();
    for thread in &mut threads {
        thread.begin_ids("nextIds", &on.name, &[500]).await;
    }
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let ids = ids(&client, &on);
            tokio::spawn(async move { some(&ids, 500).await })
        })
        .collect();
    let mut had = Vec::new();
    for thread in &mut threads {
        had.extend(thread.done().await.unwrap().split(',').map(|id| id.parse::<i64>().unwrap()));
    }
    for task in tasks {
        had.extend(task.await.unwrap());
    }
    assert_eq!((had.iter().collect::<BTreeSet<_>>().len(), had.len()), (4000, 4000));
}

async fn numbers_below_zero_are_ids_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    assert!(try_init(&mut java, &on.name, -6, 4).await);
    assert_eq!(some(&ids(&client, &on), 1).await, [-6]);
    assert_eq!(next(&mut java, &on.name, 4).await, [-2, -1, 0, 1]);
}

async fn javas_delete_begins_anew_for_rust_when_its_block_is_used(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(ids.try_init(50, 4).await.unwrap());
    assert_eq!(some(&ids, 1).await, [50]);
    assert_eq!(java.ids("delete", &on.name, &[]).await, "true");
    assert!(!on.observer.exists(&format!("{{{}}}:allocation", on.name)).await.unwrap());
    assert_eq!(some(&ids, 4).await, [51, 52, 53, 1]);
}

async fn rusts_delete_begins_anew_for_java_when_its_block_is_used(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ids = ids(&client, &on);
    assert!(try_init(&mut java, &on.name, 50, 2).await);
    assert_eq!(next(&mut java, &on.name, 1).await, [50]);
    assert!(ids.delete().await.unwrap());
    assert!(ids.try_init(7, 2).await.unwrap());
    assert_eq!(next(&mut java, &on.name, 2).await, [51, 7]);
    assert_eq!(some(&ids, 1).await, [9]);
}

async fn unused_ids_of_an_ended_java_are_skipped(on: Fixture) {
    let client = on.client().await;
    let own = on.own_redisson(SOON).await;
    let mut java = own.actor();
    assert!(try_init(&mut java, &on.name, 1, 10).await);
    assert_eq!(next(&mut java, &on.name, 3).await, [1, 2, 3]);
    own.kill().await;
    assert_eq!(some(&ids(&client, &on), 2).await, [11, 12]);
}

async fn a_name_with_a_hash_tag_is_the_same_generator(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let name = format!("{{{}}}:x", on.name);
    assert!(try_init(&mut java, &name, 5, 3).await);
    assert_eq!(some(&IdGenerator::new(&client, &name), 1).await, [5]);
    assert_eq!(next(&mut java, &name, 1).await, [8]);
    assert_eq!(on.observer.get::<String>(&format!("{name}:allocation")).await.unwrap().as_deref(), Some("3"));
}
