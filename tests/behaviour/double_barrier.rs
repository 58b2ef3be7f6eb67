//! Double barriers: all parties begin together, and all end together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redgrid_barrier::{BarrierError, DoubleBarrier, DoubleBarrierGuard};
use redgrid_core::Client;
use redgrid_testkit::{Proxy, wait_until};
use redgrid_tests::process::Other;
use redgrid_tests::{NOTHING, SOON, client, client_with, server};
use tokio::task::JoinHandle;

use crate::barrier::{LEASE, MS, all_end, count, dropped, leased, until};

const WAITING: &str = "redgrid_double_barrier_waiting:{a}";
const INSIDE: &str = "redgrid_double_barrier_inside:{a}";

fn enter(client: &Client, parties: u32) -> JoinHandle<Result<DoubleBarrierGuard, BarrierError>> {
    tokio::spawn(DoubleBarrier::new(client, "a", parties).enter().timeout(SOON).into_future())
}

fn leave(guard: DoubleBarrierGuard) -> JoinHandle<Result<(), BarrierError>> {
    tokio::spawn(guard.leave().timeout(SOON).into_future())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_begin_together_and_all_end_together() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    for session in 1..=3 {
        let first = enter(&one, 2);
        until(&observer, WAITING, 1).await;
        assert!(!first.is_finished());
        let second = enter(&two, 2).await.unwrap().unwrap();
        let first = first.await.unwrap().unwrap();
        assert_eq!((first.session(), second.session()), (session, session));
        let left = leave(first);
        until(&observer, INSIDE, 1).await;
        // Parties that arrive during a session wait for the next one, whatever their number.
        let early = [enter(&one, 2), enter(&two, 2)];
        until(&observer, WAITING, 2).await;
        assert!(!left.is_finished() && early.iter().all(|early| !early.is_finished()));
        early.iter().for_each(JoinHandle::abort);
        until(&observer, WAITING, 0).await;
        leave(second).await.unwrap().unwrap();
        left.await.unwrap().unwrap();
    }
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    all_end(&observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_many_do_not_mix() {
    const PARTIES: u32 = 4;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    // Eight parties contend for sessions of four, until there have been forty sessions.
    let inside = Arc::new([const { AtomicU64::new(0) }; 42]);
    let (over, end) = tokio::sync::watch::channel(false);
    let tasks: Vec<_> = (0..2 * PARTIES)
        .map(|task| {
            let barrier = DoubleBarrier::new(&clients[task as usize % 2], "a", PARTIES);
            let (inside, over, mut end) = (inside.clone(), over.clone(), end.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(task.into());
                loop {
                    let guard = tokio::select! {
                        guard = barrier.enter().timeout(SOON).into_future() => guard.unwrap(),
                        _ = end.wait_for(|end| *end) => return,
                    };
                    let session = guard.session();
                    if session > 40 {
                        over.send_replace(true);
                        return;
                    }
                    inside[session as usize].fetch_add(1, Ordering::SeqCst);
                    if random.bool() {
                        tokio::time::sleep(MS * random.u32(..10)).await;
                    }
                    guard.leave().timeout(SOON).await.unwrap();
                    assert_eq!(inside[session as usize].load(Ordering::SeqCst), u64::from(PARTIES), "{session}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(inside[1..41].iter().all(|inside| inside.load(Ordering::SeqCst) == u64::from(PARTIES)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_dies_does_not_hang_the_others() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = leased(&server).await;
    let lease = LEASE.as_millis().to_string();
    let role = env!("CARGO_BIN_EXE_role");
    // A party that died before it was admitted is not counted.
    let other = Other::start(role, &["party", &server.url(), &lease, "enter", "a", "2"]).await;
    until(&observer, WAITING, 1).await;
    other.kill().await;
    let killed = tokio::time::Instant::now();
    tokio::time::sleep_until(killed + LEASE + LEASE / 10).await;
    let first = enter(&one, 2);
    until(&observer, WAITING, 1).await;
    // If the dead party was admitted, leaving parties wait until its lease ends, and later parties
    // can then enter.
    let url = server.url();
    let other = Other::start(role, &["party", &url, &lease, "inside", "a", "2"]).await;
    let first = first.await.unwrap().unwrap();
    other.kill().await;
    let next = [enter(&one, 2), enter(&one, 2)];
    let left = tokio::time::timeout(4 * LEASE, first.leave()).await.expect("the lease ends");
    left.unwrap();
    for next in next {
        assert_eq!(next.await.unwrap().unwrap().session(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_party_leaves_and_one_inside_counts_for_many_leases() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = leased(&server).await;
    for polls in 1..30 {
        drop(dropped(polls, DoubleBarrier::new(&client, "a", 2).enter().into_future()).await);
    }
    until(&observer, WAITING, 0).await;
    wait_until(SOON, async || client.stats() == NOTHING).await;
    let (first, second) = (enter(&client, 2), enter(&client, 2));
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    let began = tokio::time::Instant::now();
    tokio::time::sleep_until(began + 2 * LEASE + LEASE / 2).await;
    assert_eq!(count(&observer, INSIDE).await, 2);
    assert!(!first.is_lost());
    let impatient = first.leave().timeout(1000 * MS).await;
    assert!(matches!(impatient, Err(BarrierError::TimedOut { .. })), "{impatient:?}");
    until(&observer, INSIDE, 1).await;
    drop(second);
    until(&observer, INSIDE, 0).await;
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_messages_cause_delays_and_a_shutdown_leaves() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let deaf = client_with(&server.url_via(proxy.addr()), |config| config.watchdog_lease(LEASE)).await;
    let other = leased(&server).await;
    proxy.drop_publishes(true);
    let first = enter(&deaf, 2);
    until(&observer, WAITING, 1).await;
    let second = enter(&other, 2).await.unwrap().unwrap();
    let first = tokio::time::timeout(LEASE, first).await.expect("within its next poll").unwrap().unwrap();
    let left = leave(first);
    until(&observer, INSIDE, 1).await;
    other.shutdown(SOON).await.unwrap();
    assert_eq!(count(&observer, INSIDE).await, 0, "a shutdown leaves");
    tokio::time::timeout(LEASE, left).await.expect("within its next poll").unwrap().unwrap();
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_inside_is_inside_again_after_the_server_lost_all() {
    let server = server().await;
    let (one, two) = (leased(&server).await, leased(&server).await);
    let (first, second) = (enter(&one, 2), enter(&two, 2));
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    server.restart_empty().await.unwrap();
    let observer = server.observer().await.unwrap();
    until(&observer, INSIDE, 2).await;
    let left = leave(first);
    until(&observer, INSIDE, 1).await;
    assert!(!left.is_finished());
    leave(second).await.unwrap().unwrap();
    left.await.unwrap().unwrap();
}

/// A failover has lost the entry of one party. Another party inside restores the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_opening_is_announced_by_parties_inside() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (leased(&server).await, leased(&server).await);
    let waiting = enter(&one, 2);
    until(&observer, WAITING, 1).await;
    let before: Vec<u8> = observer.query(&["DUMP", "redgrid_double_barrier:{a}"]).await.unwrap();
    let inside = enter(&two, 2).await.unwrap().unwrap();
    waiting.await.unwrap().unwrap().leave().timeout(500 * MS).await.unwrap_err();
    // The former state, in which another party waits, from before the keep-alive of the party
    // inside.
    let third = loop {
        let restore: [&[u8]; 5] = [b"RESTORE", b"redgrid_double_barrier:{a}", b"600000", &before, b"REPLACE"];
        observer.cmd(&restore).await.unwrap();
        // These keys are deleted last. If a keep-alive runs in between, it sets the session, which
        // is checked below.
        observer.cmd(&["DEL", WAITING, INSIDE]).await.unwrap();
        let third = enter(&one, 2);
        wait_until(SOON, async || third.is_finished() || count(&observer, WAITING).await == 1).await;
        let session: Option<u64> = observer.query(&["HGET", "redgrid_double_barrier:{a}", "session"]).await.unwrap();
        if third.is_finished() || session.unwrap_or(0) == 0 {
            break third;
        }
        third.abort();
        wait_until(SOON, async || count(&observer, WAITING).await == 0).await;
    };
    // The keep-alive of the party inside restores session 1, and the waiting parties are admitted.
    let third = tokio::time::timeout(SOON, third).await.expect("the party is admitted").unwrap().unwrap();
    assert_eq!((third.session(), inside.session()), (1, 1));
}
