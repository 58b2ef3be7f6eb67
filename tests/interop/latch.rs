//! One latch, used by both sides.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::author::ClientExt;
use redgrid_countdown_latch::{CountDownLatch, WaitError};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::latch::{crowd, waiter};

use crate::actor::Actor;
use crate::fixture::{AT_ONCE, Fixture, at_once, scenarios};

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
    javas_delete_completes_rusts_waits,
    rusts_delete_completes_javas_waits,
    a_lifetime_of_ours_is_kept_by_javas_count_down_and_ends_for_java_too,
    waits_of_both_sides_end_at_their_timeout,
    rust_counts_down_by_many_and_java_continues,
    count_downs_of_a_killed_java_still_count,
    rust_continues_although_it_missed_javas_message,
    a_name_with_a_hash_tag_is_the_same_latch,
    keys_and_messages_are_redissons,
];

fn latch(client: &Client, on: &Fixture) -> CountDownLatch {
    CountDownLatch::new(client, &on.name)
}

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

async fn set(java: &mut Actor, name: &str, n: u64) -> bool {
    java.latch("trySetCount", name, &[n]).await == "true"
}

async fn count_down(java: &mut Actor, name: &str) {
    java.verb("latch.countDown", name).await.unwrap();
}

async fn count(java: &mut Actor, name: &str) -> u64 {
    java.verb("latch.getCount", name).await.unwrap().parse().unwrap()
}

/// Waits until so many clients are subscribed to a channel.
async fn until_subscribed_to(observer: &Observer, channel: &str, clients: u64) {
    let numsub = ["PUBSUB", "NUMSUB", channel];
    wait_until(SOON, async || observer.query::<(String, u64)>(&numsub).await.unwrap().1 == clients).await;
}

async fn until_subscribed(on: &Fixture, clients: u64) {
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
    // Redisson's own numbers reach this far.
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
    // The number of the generation still exists, because Redisson does not know it.
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

async fn javas_delete_completes_rusts_waits(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(5).await.unwrap());
    let task = waiter(&client, &latch).await;
    until_subscribed(&on, 1).await;
    at_once(async {
        assert_eq!(java.verb("latch.delete", &on.name).await.unwrap(), "true");
        task.await.unwrap().unwrap();
    })
    .await;
    assert!(!latch.delete().await.unwrap());
}

/// Rust's delete completes Java's waits. Redisson's own delete publishes `1`, and leaves its waiters
/// asleep.
async fn rusts_delete_completes_javas_waits(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 5).await);
    java.begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 1).await;
    java.until_waiting_for_a_latch().await;
    at_once(async {
        assert!(latch.delete().await.unwrap());
        java.done().await.unwrap();
    })
    .await;
    assert_eq!(java.verb("latch.delete", &on.name).await.unwrap(), "false");
}

async fn a_lifetime_of_ours_is_kept_by_javas_count_down_and_ends_for_java_too(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(latch.try_set_count(3).expires_in(Duration::from_millis(1500)).await.unwrap());
    count_down(&mut java, &on.name).await;
    assert!(on.observer.time_to_live(&on.name).await.unwrap().is_some());
    at_once(waiter(&client, &latch).await).await.unwrap().unwrap();
    assert_eq!(count(&mut java, &on.name).await, 0);
    java.verb("latch.await", &on.name).await.unwrap();
    assert!(set(&mut java, &on.name, 1).await);
}

async fn waits_of_both_sides_end_at_their_timeout(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 1).await);
    assert_eq!(java.latch("await", &on.name, &[200]).await, "false");
    let waited = latch.wait().timeout(Duration::from_secs(2)).await;
    assert!(matches!(waited, Err(WaitError::TimedOut { .. })), "{waited:?}");
    latch.count_down().await.unwrap();
    assert_eq!(java.latch("await", &on.name, &[2000]).await, "true");
    latch.wait().timeout(Duration::from_secs(2)).await.unwrap();
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

async fn count_downs_of_a_killed_java_still_count(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(30)).await;
    let client = on.client().await;
    let latch = latch(&client, &on);
    let mut java = redisson.actor();
    assert!(set(&mut java, &on.name, 2).await);
    count_down(&mut java, &on.name).await;
    redisson.actor().begin_verb("latch.await", &on.name).await;
    until_subscribed(&on, 1).await;
    redisson.kill().await;
    until_subscribed(&on, 0).await;
    let task = waiter(&client, &latch).await;
    assert_eq!(latch.count_down().await.unwrap(), 0);
    at_once(task).await.unwrap().unwrap();
}

/// Rust continues although it missed Java's message. Redisson's own waiters would wait for ever.
async fn rust_continues_although_it_missed_javas_message(on: Fixture) {
    let mut java = on.java();
    let client = on.client_with(|config| config.poll_interval(Duration::from_secs(1))).await;
    let latch = latch(&client, &on);
    assert!(set(&mut java, &on.name, 1).await);
    let task = waiter(&client, &latch).await;
    // Redisson does this, and publishes a message, which is left out here.
    on.observer.cmd(&["DEL", &on.name]).await.unwrap();
    tokio::time::timeout(AT_ONCE, task).await.unwrap().unwrap().unwrap();
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
