//! Cyclic barriers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_barrier::{Barrier, BarrierError, BarrierWaitResult, Failure};
use redgrid_core::Client;
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::process::Other;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{NOTHING, SOON, client, client_with, server};
use tokio::task::JoinHandle;

pub(crate) const MS: Duration = Duration::from_millis(1);
/// Short enough for a test that waits until it ends, and long enough for a busy machine.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

pub(crate) async fn leased(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.watchdog_lease(LEASE)).await
}

pub(crate) async fn count(observer: &Observer, key: &str) -> u64 {
    observer.query(&["ZCARD", key]).await.unwrap()
}

/// Waits until a sorted set has this many members.
pub(crate) async fn until(observer: &Observer, key: &str, many: u64) {
    wait_until(SOON, async || count(observer, key).await == many).await;
}

/// Checks that all keys have lifetimes.
pub(crate) async fn all_end(observer: &Observer) {
    for key in observer.keys("redgrid*").await.unwrap() {
        let left: i64 = observer.query(&["PTTL", &key]).await.unwrap();
        assert!(left == -2 || (1..=700_000).contains(&left), "{key}: {left}");
    }
}

/// Drops a future after this number of polls. If it is polled less often, it is dropped a moment
/// later.
pub(crate) async fn dropped<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    tokio::time::timeout(30 * MS, at_most(polls, future)).await.ok().flatten()
}

fn wait(client: &Client, parties: u32) -> JoinHandle<Result<BarrierWaitResult, BarrierError>> {
    tokio::spawn(Barrier::new(client, "a", parties).wait().timeout(SOON).into_future())
}

const WAITING: &str = "redgrid_barrier_waiting:{a}";

#[tokio::test(flavor = "multi_thread")]
async fn no_party_passes_before_all_arrived_and_one_leads() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let clients = [client(&server).await, client(&server).await];
    for round in 1..=3 {
        let early = [wait(&clients[0], 3), wait(&clients[1], 3)];
        until(&observer, WAITING, 2).await;
        assert!(early.iter().all(|task| !task.is_finished()));
        let mut results = vec![wait(&clients[0], 3).await.unwrap().unwrap()];
        assert!(results[0].is_leader());
        for task in early {
            results.push(task.await.unwrap().unwrap());
        }
        assert!(results.iter().all(|result| result.generation() == round), "{results:?}");
        assert_eq!(results.iter().filter(|result| result.is_leader()).count(), 1);
    }
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
    assert_eq!(count(&observer, WAITING).await, 0);
    all_end(&observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_many_do_not_mix() {
    const PARTIES: u32 = 6;
    const ROUNDS: u64 = 50;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let arrived = Arc::new(AtomicU64::new(0));
    let leaders = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..PARTIES)
        .map(|task| {
            let barrier = Barrier::new(&clients[task as usize % 3], "a", PARTIES);
            let (arrived, leaders) = (arrived.clone(), leaders.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(task.into());
                for round in 1..=ROUNDS {
                    // Random delays, so that rounds overlap in as many ways as possible.
                    if random.u8(..3) == 0 {
                        tokio::time::sleep(MS * random.u32(..20)).await;
                    }
                    arrived.fetch_add(1, Ordering::SeqCst);
                    let result = barrier.wait().timeout(SOON).await.unwrap();
                    assert_eq!(result.generation(), round);
                    let so_far = arrived.load(Ordering::SeqCst);
                    assert!(so_far >= round * u64::from(PARTIES), "{so_far} had arrived when round {round} opened");
                    leaders.fetch_add(result.is_leader().into(), Ordering::SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(leaders.load(Ordering::SeqCst), ROUNDS);
    // The stored state is proportional to the number of parties, not to that of rounds.
    let observer = server.observer().await.unwrap();
    let fields: u64 = observer.query(&["HLEN", "redgrid_barrier:{a}"]).await.unwrap();
    assert!(fields <= u64::from(PARTIES) + 2, "{fields}");
    all_end(&observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_party_is_not_counted() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let first = wait(&one, 3);
    until(&observer, WAITING, 1).await;
    let late = Barrier::new(&two, "a", 3).wait().timeout(1000 * MS).await;
    assert!(matches!(late, Err(BarrierError::TimedOut { .. })), "{late:?}");
    until(&observer, WAITING, 1).await;
    // Wherever a dropped party waits, it leaves a moment later. Until then, two parties could open
    // the barrier.
    for polls in 1..40 {
        drop(dropped(polls, Barrier::new(&two, "a", 3).wait().into_future()).await);
        until(&observer, WAITING, 1).await;
    }
    wait_until(SOON, async || two.stats() == NOTHING).await;
    let second = wait(&two, 3);
    until(&observer, WAITING, 2).await;
    assert!(!first.is_finished() && !second.is_finished());
    wait(&two, 3).await.unwrap().unwrap();
    assert_eq!((first.await.unwrap().unwrap().generation(), second.await.unwrap().unwrap().generation()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_party_is_not_counted_after_its_lease() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = leased(&server).await;
    let lease = LEASE.as_millis().to_string();
    let other = Other::start(env!("CARGO_BIN_EXE_role"), &["party", &server.url(), &lease, "barrier", "a", "3"]).await;
    until(&observer, WAITING, 1).await;
    other.kill().await;
    let killed = tokio::time::Instant::now();
    tokio::time::sleep_until(killed + LEASE + LEASE / 10).await;
    let (first, second) = (wait(&one, 3), wait(&one, 3));
    until(&observer, WAITING, 2).await;
    // Polls have occurred. If the dead party counted, the waiters would have passed.
    let looked = tokio::time::Instant::now();
    tokio::time::sleep_until(looked + LEASE).await;
    assert!(!first.is_finished() && !second.is_finished(), "the dead party does not count");
    wait(&one, 3).await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_counts_for_many_leases_and_without_messages_passes_by_its_poll() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.watchdog_lease(LEASE)).await;
    proxy.drop_publishes(true);
    let first = wait(&deaf, 2);
    until(&observer, WAITING, 1).await;
    let began = tokio::time::Instant::now();
    tokio::time::sleep_until(began + 2 * LEASE + LEASE / 2).await;
    // The waiter has renewed its entry all the time, so it counts with the second party.
    let opened = wait(&client(&server).await, 2).await.unwrap().unwrap();
    assert!(opened.is_leader());
    let looked = tokio::time::timeout(LEASE, first).await.expect("within its next poll");
    assert_eq!(looked.unwrap().unwrap().generation(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_count_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let lossy = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(300 * MS)).await;
    let one = client(&server).await;
    let swallow = |count| proxy.next(count, "barrier_arrive.lua: wait", Action::SwallowReply);
    // A waiter is counted once, whether the script is sent by hash or by text.
    swallow(1);
    let first = wait(&lossy, 3);
    until(&observer, WAITING, 1).await;
    wait_until(SOON, async || proxy.counts().swallowed == 1).await;
    let second = wait(&one, 3);
    until(&observer, WAITING, 2).await;
    assert!(!first.is_finished() && !second.is_finished());
    let third = wait(&one, 3).await.unwrap().unwrap();
    assert_eq!((third.generation(), first.await.unwrap().unwrap().generation()), (1, 1));
    second.await.unwrap().unwrap();
    // The last party is the leader. It does not wait for the next round.
    let (first, second) = (wait(&one, 3), wait(&one, 3));
    until(&observer, WAITING, 2).await;
    let sha = sha_of("barrier_arrive.lua");
    proxy.next(1, sha, Action::SwallowReply);
    let third = wait(&lossy, 3).await.unwrap().unwrap();
    assert_eq!(proxy.counts().swallowed, 2);
    assert!(third.is_leader());
    assert_eq!(third.generation(), 2);
    assert!(!first.await.unwrap().unwrap().is_leader() && !second.await.unwrap().unwrap().is_leader());
    assert_eq!(count(&observer, WAITING).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_a_party_that_left_does_not_count() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let slow = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(SOON)).await;
    // The server then has the script, which is sent by its hash.
    drop(Barrier::new(&slow, "b", 2).wait().timeout(300 * MS).await);
    let sha = sha_of("barrier_arrive.lua");
    proxy.next(1, sha, Action::Hold);
    let waiting = wait(&slow, 2);
    wait_until(SOON, async || proxy.counts().held == 1).await;
    // A second copy is executed, on another connection. Then the waiter leaves.
    proxy.cut_all();
    until(&observer, WAITING, 1).await;
    waiting.abort();
    until(&observer, WAITING, 0).await;
    assert_eq!(proxy.release_held().await, 1);
    // These requests follow the copy: when they are complete, the copy was executed.
    for _ in 0..20 {
        drop(Barrier::new(&slow, "b", 2).wait().timeout(20 * MS).await);
    }
    assert_eq!(count(&observer, WAITING).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_different_party_count_is_reported() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let first = wait(&client, 2);
    until(&observer, WAITING, 1).await;
    let told = wait(&client, 3).await.unwrap();
    assert!(matches!(told, Err(BarrierError::PartiesDiffer { ours: 3, theirs: 2, .. })), "{told:?}");
    wait(&client, 2).await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    // Its former parties have left, so this is a new barrier.
    assert!(wait(&client, 1).await.unwrap().unwrap().is_leader());
    let none = wait(&client, 0).await.unwrap();
    assert!(matches!(none, Err(BarrierError::Failed(Failure::InvalidArgument { .. }))), "{none:?}");
    let unnamed = Barrier::new(&client, "", 2).wait().await;
    assert!(matches!(unnamed, Err(BarrierError::Failed(Failure::InvalidName(_)))), "{unnamed:?}");
    observer.cmd(&["SET", "redgrid_barrier:{c}", "no hash"]).await.unwrap();
    let refused = Barrier::new(&client, "c", 2).wait().await;
    assert!(matches!(refused, Err(BarrierError::Failed(Failure::Refused { .. }))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_removes_and_notifies_waiters() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let leaving = client(&server).await;
    let first = wait(&leaving, 2);
    until(&observer, WAITING, 1).await;
    leaving.shutdown(SOON).await.unwrap();
    let told = first.await.unwrap();
    assert!(matches!(told, Err(BarrierError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
    assert_eq!(count(&observer, WAITING).await, 0);
    let refused = wait(&leaving, 2).await.unwrap();
    assert!(matches!(refused, Err(BarrierError::Failed(Failure::ShuttingDown { .. }))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_registers_again_at_an_emptied_server() {
    let server = server().await;
    let (one, two) = (leased(&server).await, leased(&server).await);
    let first = wait(&one, 2);
    until(&server.observer().await.unwrap(), WAITING, 1).await;
    server.restart_empty().await.unwrap();
    until(&server.observer().await.unwrap(), WAITING, 1).await;
    let second = wait(&two, 2).await.unwrap().unwrap();
    assert_eq!(first.await.unwrap().unwrap().generation(), second.generation());
}

/// Without replies, a wait ends at its timeout, or with `Unavailable` if there is no contact.
#[tokio::test(flavor = "multi_thread")]
async fn without_contact_a_wait_ends_by_its_bound_or_unavailable() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: redgrid_core::Config| config.response_timeout(200 * MS).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    proxy.set_both(redgrid_testkit::Fault::BlackHole);
    let (began, watch) = (tokio::time::Instant::now(), Stopwatch::start());
    let bounded = Barrier::new(&client, "a", 2).wait().timeout(700 * MS).await;
    assert!(matches!(&bounded, Err(BarrierError::Failed(error)) if no_contact(error)), "{bounded:?}");
    assert!(began.elapsed() >= 700 * MS, "{:?}", began.elapsed());
    watch.assert_within(5000 * MS);
    let patient = tokio::time::timeout(SOON, Barrier::new(&client, "a", 2).wait()).await.expect("an end in time");
    assert!(matches!(&patient, Err(BarrierError::Failed(error)) if no_contact(error)), "{patient:?}");
}

fn no_contact(error: &Failure) -> bool {
    matches!(error, Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })
}

/// Returns the hash of a script of the barrier crate, with the scripts that are sent before it.
pub(crate) fn sha_of(file: &str) -> String {
    let read = |file: &str| match file {
        "participants.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/participants.lua"),
        "notify_queue.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/notify_queue.lua"),
        "phaser.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/phaser.lua"),
        "barrier_arrive.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/barrier_arrive.lua"),
        "notify_wait.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/notify_wait.lua"),
        "dedup.lua" => include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua"),
        "phaser_end.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/phaser_end.lua"),
        "phaser_register.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/phaser_register.lua"),
        "phaser_arrive.lua" => include_str!("../../crates/redgrid-barrier/src/scripts/phaser_arrive.lua"),
        other => panic!("{other} is not read here"),
    };
    let between = match file.split_once('_') {
        Some(("notify", _)) => read("notify_queue.lua"),
        Some(("phaser", _)) => read("phaser.lua"),
        _ => "",
    };
    let front: &[&str] = match file {
        "phaser_end.lua" => &[read("dedup.lua"), "local k = {unpack(KEYS, 2)}\n"],
        _ => &["local k = KEYS\n"],
    };
    redgrid_tests::sha(&[front, &[read("participants.lua"), between, read(file)]].concat().concat())
}
