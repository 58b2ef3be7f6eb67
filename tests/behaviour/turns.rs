//! The turns of processes that contend for a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_locks::{Config, Lock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::contest::{Turns, work};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server};

/// The maximum of requests for an acquire: ten polls, which take a second, each with a check and an
/// attempt.
const REQUESTS: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_may_only_poll_enters_within_a_few_polls() {
    let server = server().await;
    server.set_user("half", &["on", ">secret", "~*", "resetchannels", "&redgrid_client:*", "+@all"]).await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    proxy.on_request({
        let asked = Arc::clone(&asked);
        move |request| {
            asked.fetch_add(u64::from(request.first().is_some_and(|name| name != "PING")), Ordering::Relaxed);
            Action::Forward
        }
    });
    let half = |config: Config| config.credentials(Some("half"), "secret");
    let poller = client_with(&server.url_via(proxy.addr()), half).await;
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(Turns::default()));
    let mut workers = Vec::new();
    for process in 1..=2 {
        let client = client(&server).await;
        for _ in 0..8 {
            let (stop, turns, count) = (stop.clone(), turns.clone(), Arc::default());
            workers.push(tokio::spawn(work(client.clone(), process, Duration::ZERO, stop, turns, count)));
        }
    }
    wait_until(SOON, async || turns.passed() > 4).await;
    let (mut requests, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (before, waited) = (asked.load(Ordering::Relaxed), Stopwatch::start());
        let guard = Lock::new(&poller, "contested").acquire().timeout(SOON).await.unwrap();
        waits.push(waited.elapsed());
        requests.push(asked.load(Ordering::Relaxed) - before);
        guard.release().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    requests.sort();
    waits.sort();
    assert!(requests[2] <= REQUESTS, "{requests:?}");
    assert!(waits[2] < Duration::from_secs(1), "{waits:?}");
}

/// Waiters of four processes enter in the order of their queue positions, by the server's own
/// record. `cargo xtask fairness` does the same 100,000 times.
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_is_granted_in_order_of_arrival_to_four_processes() {
    let server = server().await;
    let role = std::path::Path::new(env!("CARGO_BIN_EXE_role"));
    let contest = redgrid_tests::fair::contest(&server, role, (4, 4, 50), SOON * 3).await.unwrap();
    let record = contest.record;
    assert_eq!((record.grants, record.overtaken.len()), (800, 0), "{record:?}");
    assert!(record.by_place > 400, "most of them waited: {record:?}");
}
