//! Updates of a number are serialized in each process. An update that is not polled does not block
//! others.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, is_script, server};

use crate::atomic_crowds::count;

/// Makes the server cache the update script, so that its text is not sent.
async fn load_script(server: &RedisServer) {
    AtomicLong::new(&client(server).await, "another").update(|n| n).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_many_tasks_all_succeed_and_cost_little_more_than_one_command_each() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    for once in [false, true] {
        let name = format!("n:{once}");
        let sent = count(&proxy);
        let tasks = (0..300).map(|task| {
            let n = AtomicLong::new(&client, &name);
            let n = if once && task % 2 == 0 { n.exactly_once() } else { n };
            tokio::spawn(async move { n.update(|n| n + 1).await.unwrap() })
        });
        let mut had: Vec<i64> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        had.sort_unstable();
        assert!(had.into_iter().eq(1..=300));
        let sent = sent.load(Ordering::Relaxed);
        // If updates were not serialized, there would be thousands of commands.
        assert!(sent < 450, "{sent} commands");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_lose_nothing_and_see_other_changes() {
    let server = server().await;
    let clients = join_all((0..3).map(|_| client(&server))).await;
    let n = AtomicLong::new(&clients[0], "n");
    assert_eq!(n.update(|n| n + 1).await.unwrap(), 1);
    // The value cached by the first client is outdated.
    AtomicLong::new(&clients[1], "n").set(10).await.unwrap();
    assert_eq!(n.update(|n| n + 1).await.unwrap(), 11);
    let tasks = (0..90).map(|task| {
        let n = AtomicLong::new(&clients[task % 3], "n");
        tokio::spawn(async move { n.update(|n| n + 1).await })
    });
    let told = join_all(tasks).await;
    let done = told.into_iter().filter(|told| told.as_ref().unwrap().is_ok()).count();
    assert_eq!(done, 90);
    assert_eq!(n.get().await.unwrap(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_update_lets_the_next_one_continue() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    observer.cmd(&["SET", "n", "1"]).await.unwrap();
    let quick = |config: redgrid_atomic_long::Config| config.response_timeout(Duration::from_millis(150)).retries(99);
    let n = AtomicLong::new(&client_with(&server.url_via(proxy.addr()), quick).await, "n");
    load_script(&server).await;
    proxy.on_request(|request| match is_script(&request[0]) {
        true => Action::SwallowReply,
        false => Action::Forward,
    });
    let told = n.update(|n| n + 1).await;
    assert!(matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    wait_until(SOON, async || observer.get("n").await.is_ok_and(|n| n == Some(2))).await;
    proxy.on_request(|_| Action::Forward);
    // The connection that loses replies may be closed only now.
    wait_until(SOON, async || n.update(|n| n).await.is_ok_and(|n| n == 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_update_lets_the_next_one_continue() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    observer.cmd(&["SET", "n", "3"]).await.unwrap();
    let n = AtomicLong::new(&client_with(&server.url_via(proxy.addr()), |config| config).await, "n");
    load_script(&server).await;
    proxy.on_request(|request| match is_script(&request[0]) {
        true => Action::Hold,
        false => Action::Forward,
    });
    // One update is in flight, and two wait for it.
    let update = |n: AtomicLong| tokio::spawn(async move { n.update(|n| n + 10).await });
    let all: Vec<_> = (0..3).map(|_| update(n.clone())).collect();
    wait_until(SOON, async || proxy.counts().held >= 1).await;
    all.iter().for_each(tokio::task::JoinHandle::abort);
    join_all(all).await;
    proxy.on_request(|_| Action::Forward);
    proxy.release_held().await;
    wait_until(SOON, async || observer.get("n").await.is_ok_and(|n| n == Some(13))).await;
    assert_eq!(n.update(|n| n + 1).await.unwrap(), 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_updates_that_wait_for_each_other_end() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    observer.cmd(&["SET", "n", "1"]).await.unwrap();
    let quick = |config: redgrid_atomic_long::Config| config.response_timeout(Duration::from_millis(200)).retries(4);
    let n = AtomicLong::new(&client_with(&server.url_via(proxy.addr()), quick).await, "n");
    proxy.set_both(Fault::BlackHole);
    let all = join_all((0..40).map(|_| n.update(|n| n + 1)));
    let told = tokio::time::timeout(SOON, all).await.expect("an end in time");
    let honest = |told: &Result<i64, AtomicError>| {
        matches!(told, Err(AtomicError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. })))
    };
    assert!(told.iter().all(honest), "{told:?}");
    let without_contact =
        told.iter().filter(|told| matches!(told, Err(AtomicError::Failed(Failure::Unavailable { .. })))).count();
    assert!(without_contact >= 20, "most queued updates were not sent: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_update_blocks_no_other_client() {
    let server = server().await;
    let client = client(&server).await;
    for once in [false, true] {
        let n = AtomicLong::new(&client, format!("n:{once}"));
        let n = if once { n.exactly_once() } else { n };
        // One update runs, and two wait for it. The server is stopped, so no reply arrives before
        // their futures are abandoned.
        server.pause().await.unwrap();
        let mut held: Vec<_> = (0..3).map(|_| Box::pin(n.update(|n| n + 1))).collect();
        for update in &mut held {
            assert!(futures_util::poll!(update).is_pending());
        }
        server.resume().await.unwrap();
        let others = async {
            for _ in 0..20 {
                n.update(|n| n + 100).await.unwrap();
            }
        };
        tokio::time::timeout(SOON / 2, others).await.expect("no update waits for an unpolled one");
        for told in join_all(held).await {
            told.unwrap();
        }
        assert_eq!(n.get().await.unwrap(), 2_003);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_inside_a_loop_over_updates_go_on() {
    let server = server().await;
    let n = AtomicLong::new(&client(&server).await, "n");
    let all = async {
        let mut updates = stream::iter((0..40).map(|_| n.update(|n| n + 1))).buffer_unordered(8);
        while let Some(told) = updates.next().await {
            told.unwrap();
            n.update(|n| n + 1).await.unwrap();
        }
    };
    tokio::time::timeout(SOON, all).await.expect("the loop ends");
    assert_eq!(n.get().await.unwrap(), 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_with_constant_conflicts_ends_at_its_timeout() {
    let server = server().await;
    let quick = |config: redgrid_atomic_long::Config| config.response_timeout(Duration::from_millis(500)).retries(1);
    let n = AtomicLong::new(&client_with(&server.url(), quick).await, "n");
    let mut other = std::net::TcpStream::connect(server.addr()).unwrap();
    let mut rounds = 0;
    let told = n
        .update(|n| {
            rounds += 1;
            // Another client changes the number before each attempt.
            other.write_all(b"INCR n\r\n").unwrap();
            other.read_exact(&mut [0]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            n + 1_000
        })
        .await;
    let Err(AtomicError::Contended { times, .. }) = told else { panic!("{told:?}") };
    assert_eq!(times, rounds);
    // The update has a second, and each attempt takes 50 ms.
    assert!(rounds < 50, "{rounds} attempts");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_ignores_changes_from_before_its_start() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (whole, real) = (AtomicLong::new(&client, "whole"), AtomicDouble::new(&client, "real"));
    assert_eq!(whole.update(|_| i64::MAX).await.unwrap(), i64::MAX);
    assert_eq!(real.update(|_| f64::MAX).await.unwrap(), f64::MAX);
    observer.cmd(&["MSET", "whole", "1", "real", "1"]).await.unwrap();
    assert_eq!(whole.update(|n| n.checked_add(1).expect("there is room")).await.unwrap(), 2);
    assert_eq!(real.update(|n| n * 2.0).await.unwrap(), 2.0);
}
