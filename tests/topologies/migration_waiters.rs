//! Waiters of a slot that moves: they are woken, and their subscriptions move with the slot.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_countdown_latch::{CountDownLatch, WaitError};
use redgrid_locks::{Lock, LockGuard};
use redgrid_testkit::{Cluster, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::latch::waiter;
use tokio::task::JoinHandle;

use crate::fixture::{by_seeds, connected, patient, scenarios};
use crate::migration::moving;

scenarios![
    a_waiter_is_woken_whichever_side_its_name_is_on,
    channels_of_one_slot_are_all_subscribed_again_after_a_gap,
    a_slot_that_moves_ends_no_subscription_of_the_others,
    a_latch_waiter_completes_while_its_keys_are_on_both_sides,
];

async fn a_waiter_is_woken_whichever_side_its_name_is_on() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let (one, two) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await);
    let (slot, to) = moving(&cluster, "a").await;
    let wait = |client: &Client| tokio::spawn(Lock::new(client, "a").acquire().timeout(SOON).into_future());
    let step = async |what: &str| {
        // One client holds the lock, and the other client waits for it.
        let held = Lock::new(&one, "a").acquire().timeout(SOON).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let waiter = wait(&two);
        wait_until(SOON, async || two.stats().waiting == 1).await;
        held.release().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        waiter.await.unwrap().unwrap_or_else(|error| panic!("{what}: {error}")).release().await.unwrap();
    };
    step("before").await;
    cluster.begin_migration(slot, to).await.unwrap();
    step("begun").await;
    let held = Lock::new(&one, "a").acquire().timeout(SOON).await.unwrap();
    let waiter = wait(&two);
    cluster.move_keys(slot).await.unwrap();
    cluster.finish_migration(slot).await.unwrap();
    wait_until(SOON, async || two.stats().waiting == 1).await;
    assert!(held.is_held());
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    step("after").await;
}

/// Makes one client wait for each of these names, which another client holds, until all channels
/// are subscribed.
async fn awaited(holder: &Client, waiter: &Client, names: &[String]) -> Vec<(LockGuard, JoinHandle<()>)> {
    let mut pairs = Vec::new();
    for name in names {
        let held = Lock::new(holder, name).acquire().lease(10 * SOON).timeout(SOON).await.unwrap();
        let lock = Lock::new(waiter, name);
        pairs.push((held, tokio::spawn(async move { drop(lock.acquire().timeout(10 * SOON).await.unwrap()) })));
    }
    until_subscribed(waiter, names.len()).await;
    pairs
}

/// Waits until a client needs at least this many channels, and all of its channels are subscribed.
async fn until_subscribed(waiter: &Client, names: usize) {
    wait_until(SOON, async || {
        let nodes = waiter.health().await.nodes;
        let wanted: usize = nodes.iter().map(|node| node.channels).sum();
        wanted >= names && nodes.iter().all(|node| node.channels == node.subscribed)
    })
    .await;
}

async fn channels_of_one_slot_are_all_subscribed_again_after_a_gap() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let (holder, waiter) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await);
    let names: Vec<String> = (0..60).map(|n| format!("{{tag}}:{n}")).collect();
    let waits = awaited(&holder, &waiter, &names).await;
    let before = subscribers(&cluster).await;
    for node in cluster.nodes() {
        node.kill_connections_where(|client| client.name.ends_with(":subscriber")).await.unwrap();
    }
    // A client with new connections has noticed the gap. Until then, its channels count as
    // confirmed.
    wait_until(SOON, async || {
        let now = subscribers(&cluster).await;
        now.len() == before.len() && now != before
    })
    .await;
    until_subscribed(&waiter, names.len()).await;
    for (held, waits) in waits {
        held.release().await.unwrap();
        waits.await.unwrap();
    }
}

/// Returns the connections that carry subscriptions, on all nodes.
async fn subscribers(cluster: &Cluster) -> Vec<String> {
    let mut ids = Vec::new();
    for node in cluster.nodes() {
        let clients = node.clients().await.unwrap();
        ids.extend(clients.into_iter().filter(|client| client.name.ends_with(":subscriber")).map(|client| client.id));
    }
    ids.sort_unstable();
    ids
}

async fn a_slot_that_moves_ends_no_subscription_of_the_others() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let (holder, waiter) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await);
    let names: Vec<String> =
        (0..200).map(|n| format!("name:{n}")).chain((0..9).map(|n| format!("{{tag}}:{n}"))).collect();
    let mut waits = awaited(&holder, &waiter, &names).await;
    let before = subscribers(&cluster).await;
    let (slot, to) = moving(&cluster, "{tag}").await;
    cluster.migrate_slot(slot, to).await.unwrap();
    // This waiter gives up a channel that its node does not serve any more, which the client may
    // not know yet.
    let (first, left) = waits.pop().unwrap();
    left.abort();
    let (_, name) = (left.await, names.last().unwrap());
    first.release().await.unwrap();
    for (held, waits) in waits.drain(200..) {
        held.release().await.unwrap();
        waits.await.unwrap();
    }
    Lock::new(&waiter, name).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    until_subscribed(&waiter, 200).await;
    assert_eq!(subscribers(&cluster).await, before);
    for (held, waits) in waits {
        held.release().await.unwrap();
        waits.await.unwrap();
    }
}

/// A latch waiter completes while its keys are on both sides of a migration. Waiters of Redisson do
/// so, too, because each of their requests has one key.
async fn a_latch_waiter_completes_while_its_keys_are_on_both_sides() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    // A client that repeats its request until all keys are on one side is too late.
    let config = || patient(&cluster).poll_interval(Duration::from_secs(1));
    let (here, there) = (connected(config()).await, connected(config()).await);
    let (slot, to) = moving(&cluster, "a").await;
    CountDownLatch::new(&here, "a").try_set_count(2).await.unwrap();
    let (latch, early) = (CountDownLatch::new(&there, "a"), CountDownLatch::new(&here, "a"));
    let early = waiter(&here, &early).await;
    cluster.begin_migration(slot, to).await.unwrap();
    // Neither key of this latch exists.
    let open = CountDownLatch::new(&here, "{a}:open");
    tokio::time::timeout(SOON, open.wait().into_future()).await.expect("it was never set").unwrap();
    // The count is on one side, and the number of the generation is on the other.
    assert!(cluster.move_key("a").await.unwrap());
    let closed = tokio::time::timeout(SOON, latch.wait().timeout(Duration::ZERO).into_future()).await;
    assert!(matches!(closed, Ok(Err(WaitError::TimedOut { .. }))), "{closed:?}");
    let late = waiter(&there, &latch).await;
    let observer = to.observer().await.unwrap();
    observer.cmd(&["ASKING"]).await.unwrap();
    assert_eq!(observer.query::<u64>(&["DECR", "a"]).await.unwrap(), 1);
    latch.count().await.unwrap();
    assert!(!early.is_finished() && !late.is_finished());
    // Deletes the count as Redisson's last count-down does, but without its message.
    observer.cmd(&["ASKING"]).await.unwrap();
    assert_eq!(observer.query::<u64>(&["DEL", "a"]).await.unwrap(), 1);
    for task in [early, late] {
        tokio::time::timeout(SOON, task).await.expect("the waiter is woken").unwrap().unwrap();
    }
    cluster.finish_migration(slot).await.unwrap();
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
    latch.wait().await.unwrap();
}
