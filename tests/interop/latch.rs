//! One latch, used by both sides.

use redgrid_core::Client;
use redgrid_core::author::ClientExt;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::latch::{crowd, waiter};

use crate::actor::Actor;
use crate::fixture::{Fixture, at_once, scenarios};

scenarios![
    java_counts_down_and_rust_continues,
    rust_counts_down_and_java_continues,
    both_count_down_a_latch_of_either,
    each_finds_a_count_that_the_other_has_set,
    both_read_the_same_count,
    counting_down_an_open_latch_does_nothing_on_either_side,
    a_hundred_tasks_and_eight_threads_go_on_together,
    rust_sets_a_latch_again_that_java_has_counted_down,
    java_sets_a_latch_again_that_rust_has_counted_down,
    alternating_rounds_strand_no_waiter,
    rust_counts_down_by_many_and_java_continues,
    a_name_with_a_hash_tag_is_the_same_latch,
    keys_and_messages_are_redissons,
];

pub(super) fn latch(client: &Client, on: &Fixture) -> CountDownLatch {
    CountDownLatch::new(client, &on.name)
}

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

pub(super) async fn set(java: &mut Actor, name: &str, n: u64) -> bool {
    java.latch("trySetCount", name, &[n]).await == "true"
}

pub(super) async fn count_down(java: &mut Actor, name: &str) {
    java.verb("latch.countDown", name).await.unwrap();
}

pub(super) async fn count(java: &mut Actor, name: &str) -> u64 {
    java.verb("latch.getCount", name).await.unwrap().parse().unwrap()
}

/// Waits until this many clients are subscribed to a channel.
async fn until_subscribed_to(observer: &Observer, channel: &str, clients: u64) {
    let numsub = ["PUBSUB", "NUMSUB", channel];
    wait_until(SOON, async || observer.query::<(String, u64)>(&numsub).await.unwrap().1 == clients).await;
}

pub(super) async fn until_subscribed(on: &Fixture, clients: u64) {
    until_subscribed_to(&on.observer, &channel(&on.name), clients).await;
}

async fn java_counts_down_and_rust_continues(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 2).await);
    let task = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    count_down(&mut java, &on.name).await;
    assert!(!task.is_finished());
    at_once(async {
        count_down(&mut java, &on.name).await;
        task.await.unwrap().unwrap();
    })
    .await;
    until_subscribed(&on, 0).await;
}

async fn rust_counts_down_and_java_continues(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(2).await.unwrap());
    java.begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 1).await;
    assert_eq!(latch.count_down().await.unwrap(), 1);
    assert!(java.is_waiting());
    at_once(async {
        assert_eq!(latch.count_down().await.unwrap(), 0);
        java.done().await.unwrap();
    })
    .await;
}

async fn both_count_down_a_latch_of_either(on: Fixture) {
    let (mut java, mut waiting, client) = (on.java(), on.java(), on.client().await);
    let latch = latch(&client, &on);
    for round in 0..4 {
        if round % 2 == 0 {
            assert!(set(&mut java, &on.name, 4).await);
        } else {
            assert!(latch.try_set_count(4).await.unwrap());
        }
        let task = waiter(&client, &latch).await;
        waiting.begin_verb("latch.await", &on.name).await;
        until_subscribed(&on, 2).await;
        for turn in 0..3 {
            if (round / 2 + turn) % 2 == 0 {
                count_down(&mut java, &on.name).await;
            } else {
                latch.count_down().await.unwrap();
            }
        }
        assert_eq!((count(&mut java, &on.name).await, latch.count().await.unwrap()), (1, 1));
        assert!(!task.is_finished() && waiting.is_waiting());
        at_once(async {
            if round < 2 {
                count_down(&mut java, &on.name).await;
            } else {
                assert_eq!(latch.count_down().await.unwrap(), 0);
            }
            task.await.unwrap().unwrap();
            waiting.done().await.unwrap();
        })
        .await;
        until_subscribed(&on, 0).await;
        wait_until(SOON, async || client.stats().channels == 0).await;
    }
}

async fn each_finds_a_count_that_the_other_has_set(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 3).await);
    assert!(!latch.try_set_count(9).await.unwrap());
    assert_eq!(latch.count_down_by(3).await.unwrap(), 0);
    assert!(latch.try_set_count(5).await.unwrap());
    assert!(!set(&mut java, &on.name, 9).await);
    assert_eq!(count(&mut java, &on.name).await, 5);
}

async fn both_read_the_same_count(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert_eq!((count(&mut java, &on.name).await, latch.count().await.unwrap()), (0, 0));
    // This is the largest count that Redisson allows.
    assert!(set(&mut java, &on.name, i64::MAX as u64).await);
    count_down(&mut java, &on.name).await;
    assert_eq!(latch.count().await.unwrap(), i64::MAX as u64 - 1);
    assert_eq!(latch.count_down().await.unwrap(), i64::MAX as u64 - 2);
    assert_eq!(count(&mut java, &on.name).await, i64::MAX as u64 - 2);
}

async fn counting_down_an_open_latch_does_nothing_on_either_side(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    count_down(&mut java, &on.name).await;
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(!on.observer.exists(&on.name).await.unwrap());
    java.verb("latch.await", &on.name).await.unwrap();
    latch.wait().await.unwrap();
    assert!(set(&mut java, &on.name, 1).await, "no count-down was saved up");
    assert_eq!(latch.count().await.unwrap(), 1);
}

async fn a_hundred_tasks_and_eight_threads_go_on_together(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    for by_java in [true, false] {
        assert!(set(&mut java, &on.name, 1).await);
        let mut threads: Vec<_> = (0..8).map(|_| on.java()).collect();
        for thread in &mut threads {
            thread.begin_verb("latch.await", &on.name).await;
        }
        let tasks = crowd(&latch, 100).await;
        until_subscribed(&on, 2).await;
        for thread in &threads {
            thread.until_waiting_for_a_latch().await;
        }
        at_once(async {
            if by_java {
                count_down(&mut java, &on.name).await;
            } else {
                latch.count_down().await.unwrap();
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            for thread in &mut threads {
                thread.done().await.unwrap();
            }
        })
        .await;
        until_subscribed(&on, 0).await;
    }
}

async fn rust_sets_a_latch_again_that_java_has_counted_down(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(1).await.unwrap());
    let first = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    count_down(&mut java, &on.name).await;
    // The key with the generation number still exists, because Redisson does not delete this key.
    assert!(latch.try_set_count(1).await.unwrap());
    let second = tokio::spawn(latch.wait().into_future());
    at_once(first).await.unwrap().unwrap();
    java.begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 2).await;
    assert!(!second.is_finished());
    at_once(async {
        count_down(&mut java_of(&on), &on.name).await;
        second.await.unwrap().unwrap();
        java.done().await.unwrap();
    })
    .await;
}

fn java_of(on: &Fixture) -> Actor {
    on.java()
}

async fn java_sets_a_latch_again_that_rust_has_counted_down(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(1).await.unwrap());
    let first = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    latch.count_down().await.unwrap();
    assert!(set(&mut java, &on.name, 2).await);
    at_once(first).await.unwrap().unwrap();
    wait_until(SOON, async || client.stats().channels == 0).await;
    let second = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    count_down(&mut java, &on.name).await;
    assert!(!second.is_finished());
    at_once(async {
        count_down(&mut java, &on.name).await;
        second.await.unwrap().unwrap();
    })
    .await;
}

async fn alternating_rounds_strand_no_waiter(on: Fixture) {
    let (mut java, mut waiting, client) = (on.java(), on.java(), on.client().await);
    let latch = latch(&client, &on);
    for round in 0..12 {
        let task = match round % 2 {
            0 => set(&mut java, &on.name, 1).await,
            _ => latch.try_set_count(1).await.unwrap(),
        };
        assert!(task, "round {round}");
        let task = tokio::spawn(latch.wait().into_future());
        waiting.begin_verb("latch.await", &on.name).await;
        until_subscribed(&on, 2).await;
        if round % 3 == 0 {
            count_down(&mut java, &on.name).await;
        } else {
            latch.count_down().await.unwrap();
        }
        at_once(task).await.unwrap().unwrap();
        at_once(waiting.done()).await.unwrap();
    }
}

async fn rust_counts_down_by_many_and_java_continues(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    for by in [7, 100] {
        assert!(set(&mut java, &on.name, 7).await);
        java.begin_verb("latch.await", &on.name).await;
        until_subscribed(&on, 1).await;
        java.until_waiting_for_a_latch().await;
        at_once(async {
            assert_eq!(latch.count_down_by(by).await.unwrap(), 0);
            java.done().await.unwrap();
        })
        .await;
        until_subscribed(&on, 0).await;
    }
}

async fn a_name_with_a_hash_tag_is_the_same_latch(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let name = format!("{}:x{{y}}z", on.name);
    let latch = CountDownLatch::new(&client, &name);
    assert!(set(&mut java, &name, 1).await);
    let task = waiter(&client, &latch).await;
    until_subscribed_to(&on.observer, &channel(&name), 1).await;
    at_once(async {
        count_down(&mut java, &name).await;
        task.await.unwrap().unwrap();
    })
    .await;
    assert!(latch.try_set_count(1).await.unwrap());
    java.begin_verb("latch.await", &name).await;
    until_subscribed_to(&on.observer, &channel(&name), 1).await;
    java.until_waiting_for_a_latch().await;
    at_once(async {
        latch.count_down().await.unwrap();
        java.done().await.unwrap();
    })
    .await;
}

/// Keys, and messages on Redisson's channel, are the same for both sides at each step.
async fn keys_and_messages_are_redissons(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    let listening = on.client().await;
    let mut channel_events = listening.subscribe_ordered([channel(&on.name).into()], &on.name.clone().into());
    until_subscribed(&on, 1).await;
    let value = async || on.observer.get::<String>(&on.name).await.unwrap();
    let mut sides = Vec::new();
    for ours in [false, true] {
        let mut seen = Vec::new();
        for step in ["set 3", "set 9", "down", "down", "down", "down", "set 1", "down"] {
            match (ours, step.split_once(' ')) {
                (true, Some((_, n))) => drop(latch.try_set_count(n.parse().unwrap()).await.unwrap()),
                (true, None) => drop(latch.count_down().await.unwrap()),
                (false, Some((_, n))) => drop(set(&mut java, &on.name, n.parse().unwrap()).await),
                (false, None) => count_down(&mut java, &on.name).await,
            }
            seen.push(format!(
                "{step}: {:?} for ever {}",
                value().await,
                on.observer.time_to_live(&on.name).await.unwrap().is_none()
            ));
        }
        // This message comes after all earlier messages.
        on.observer.cmd(&["PUBLISH", &channel(&on.name), "end"]).await.unwrap();
        loop {
            match tokio::time::timeout(SOON, channel_events.next()).await.unwrap() {
                redgrid_core::ChannelEvent::Message { payload, .. } if &payload[..] == b"end" => break,
                redgrid_core::ChannelEvent::Message { payload, .. } => seen.push(format!("{payload:?}")),
                redgrid_core::ChannelEvent::Resync => {}
            }
        }
        sides.push(seen);
    }
    assert_eq!(sides[0], sides[1]);
    assert_eq!(sides[0][8..], ["b\"1\"", "b\"0\"", "b\"1\"", "b\"0\""]);
}
