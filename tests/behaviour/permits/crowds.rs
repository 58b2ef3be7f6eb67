//! Many callers of permits: with lost replies, killed processes, and turns between processes.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_locks::Client;
use redgrid_semaphore::{AcquireError, Semaphore};
use redgrid_testkit::{Action, Fault, Proxy, wait_until};
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::{MS, is_idle, number, times};

/// A semaphore of either kind, behind a proxy that loses one of `every` replies to its requests.
async fn lossy(url: &str, proxy: &Proxy, leases: bool, every: u64) -> (Client, EitherSemaphore) {
    let client = client_with(url, |config| config.response_timeout(150 * MS)).await;
    let semaphore = EitherSemaphore::new(&client, "mail", 4, leases).await;
    // These calls load the script into the server.
    semaphore.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    let seen = AtomicU64::new(0);
    proxy.on_request(move |request| {
        let ours = request.iter().any(|part| part.starts_with(b"redgrid_once:{mail}"));
        match ours && seen.fetch_add(1, Ordering::Relaxed) % every == every - 1 {
            true if fastrand::bool() => Action::SwallowReply,
            true => Action::Hold,
            false => Action::Forward,
        }
    });
    (client, semaphore)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_or_late_cost_no_permit() {
    let wanted = times("REDGRID_LOST_ANSWERS", 40);
    for leases in [false, true] {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let mut rigs = Vec::new();
        for _ in 0..(wanted / 100).clamp(8, 32) {
            let proxy = Proxy::to(&server).await.unwrap();
            let (client, semaphore) = lossy(&server.url_via(proxy.addr()), &proxy, leases, 3).await;
            rigs.push((proxy, client, semaphore));
        }
        let runs = rigs.iter().map(|(proxy, client, semaphore)| {
            let lost = Arc::clone(&lost);
            async move {
                let mut before = 0;
                while lost.load(Ordering::Relaxed) < wanted as u64 {
                    // If a request is cancelled in flight, the client itself returns the permits
                    // that it acquires.
                    let permits = fastrand::u64(1..=3);
                    match semaphore.acquire_many(permits).timeout(fastrand::u32(1..400) * MS).await {
                        Ok(permit) if fastrand::bool() => drop(permit),
                        Ok(permit) => drop(permit.release().await),
                        Err(AcquireError::TimedOut { .. } | AcquireError::Failed(Failure::OutcomeUnknown { .. })) => {}
                        Err(other) => {
                            assert!(matches!(other, AcquireError::Failed(Failure::Unavailable { .. })), "{other:?}")
                        }
                    }
                    proxy.release_held().await;
                    let counts = proxy.counts().swallowed;
                    lost.fetch_add(counts - before, Ordering::Relaxed);
                    before = counts;
                }
                proxy.heal();
                proxy.release_held().await;
                wait_until(SOON * 2, async || is_idle(client)).await;
            }
        });
        join_all(runs).await;
        let leased = number(&observer, &["ZCARD", "{mail}:timeout"]).await;
        assert_eq!((number(&observer, &["GET", "mail"]).await, leased), (4, 0), "leases: {leases}");
        println!("{} answers lost", lost.load(Ordering::Relaxed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permits_of_killed_processes_come_back_within_one_lease() {
    const CAPACITY: u64 = 6;
    const LEASE: i64 = 500;
    let (server, trials) = (server().await, times("REDGRID_KILLED_TRIALS", 24));
    let (observer, client, url) = (server.observer().await.unwrap(), client(&server).await, server.url());
    let lanes = (0..6).map(|lane| {
        let (observer, client, url) = (&observer, &client, &url);
        async move {
            let name = format!("seats{lane}");
            let (leases, semaphore) = (format!("{{{name}}}:timeout"), Semaphore::new(client, &name, CAPACITY));
            let mut had = 0;
            for _ in 0..trials.div_ceil(6) {
                let mut takers = Vec::new();
                for _ in 0..2 {
                    let mut child = Command::new(env!("CARGO_BIN_EXE_role"))
                        .arg("taker")
                        .args([url, &name, &CAPACITY.to_string(), &LEASE.to_string()])
                        .stdout(Stdio::piped())
                        .kill_on_drop(true)
                        .spawn()
                        .unwrap();
                    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
                    for _ in 0..fastrand::usize(1..30) {
                        tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
                    }
                    takers.push((child, lines));
                }
                for (child, _) in &mut takers {
                    child.start_kill().unwrap();
                }
                for (child, _) in &mut takers {
                    child.wait().await.unwrap();
                }
                // All leases end within one lease from here, by the server's clock.
                let (seconds, micros): (i64, i64) = observer.query(&["TIME"]).await.unwrap();
                let ends: Vec<(Vec<u8>, i64)> =
                    observer.query(&["ZRANGE", &leases, "0", "-1", "WITHSCORES"]).await.unwrap();
                had += usize::from(!ends.is_empty());
                let by = seconds * 1000 + micros / 1000 + LEASE;
                assert!(ends.iter().all(|(_, end)| *end <= by), "{ends:?} {by}");
                wait_until(SOON, async || {
                    let left = semaphore.available_permits().await.unwrap();
                    assert!(left <= CAPACITY, "{left}");
                    left == CAPACITY
                })
                .await;
            }
            semaphore.acquire_many(CAPACITY).timeout(SOON).await.unwrap().release().await.unwrap();
            assert_eq!(number(observer, &["GET", &name]).await, CAPACITY as i64);
            had
        }
    });
    let had: usize = join_all(lanes).await.into_iter().sum();
    println!("{trials} trials; in {had} permits were held by the dead");
    assert!(had > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_take_turns() {
    let server = server().await;
    for leases in [true, false] {
        let over = Arc::new(AtomicBool::new(false));
        let mut shares = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let client = client(&server).await;
            let mail = EitherSemaphore::new(&client, "mail", 8, leases).await;
            let share = Arc::new(AtomicU64::new(0));
            for _ in 0..32 {
                let (mail, share, over) = (mail.clone(), Arc::clone(&share), Arc::clone(&over));
                tasks.push(tokio::spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        let permit = mail.acquire().timeout(SOON).await.unwrap();
                        // The work takes the same time in each process.
                        tokio::time::sleep(MS).await;
                        permit.release().await.unwrap();
                        share.fetch_add(1, Ordering::Relaxed);
                    }
                }));
            }
            shares.push(share);
        }
        let both = async || shares.iter().map(|share| share.load(Ordering::Relaxed)).collect::<Vec<_>>();
        wait_until(SOON, async || both().await.iter().all(|share| *share > 0)).await;
        let from = both().await;
        // Each window takes some 10 ms.
        let windows = u32::try_from(times("REDGRID_HANDOVER_WINDOWS", 150)).unwrap();
        tokio::time::sleep(windows * 10 * MS).await;
        let to = both().await;
        over.store(true, Ordering::Relaxed);
        for done in join_all(tasks).await {
            done.unwrap();
        }
        let had: Vec<f64> = to.iter().zip(from).map(|(to, from)| (to - from) as f64).collect();
        let share = had[0] / (had[0] + had[1]);
        println!("shares {had:?}: {share:.2}");
        assert!((0.35..=0.65).contains(&share), "{had:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_semaphore_serves_processes_in_request_order() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let semaphores = [&one, &two].map(|client| Semaphore::new(client, "mail", 3).fair());
    let held = semaphores[0].acquire().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for nth in 0..8_usize {
        let (semaphore, order) = (semaphores[nth % 2].clone(), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            // The first waiter wants all permits: no other request overtakes it, although two are
            // free.
            let permit = semaphore.acquire_many(if nth == 0 { 3 } else { 2 }).timeout(SOON).await.unwrap();
            order.lock().unwrap().push(nth);
            permit.release().await.unwrap();
        }));
        let observer = server.observer().await.unwrap();
        wait_until(SOON, async || {
            number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == nth as i64 + 1
        })
        .await;
    }
    assert!(semaphores[1].try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    wait_until(SOON, async || is_idle(&one) && is_idle(&two)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_waiters_do_not_block_a_fair_semaphore() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let (one, dead) = (client(&server).await, client(&server).await);
    let cut = client_with(&server.url_via(proxy.addr()), |config| config).await;
    drop(dead);
    let semaphore = Semaphore::new(&one, "mail", 2).fair();
    let held = semaphore.acquire_many(2).await.unwrap();
    let gone = tokio::spawn({
        let theirs = Semaphore::new(&cut, "mail", 2).fair();
        async move { theirs.acquire_many(2).await.map(drop) }
    });
    wait_until(SOON, async || number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == 1).await;
    proxy.set_both(Fault::BlackHole);
    let next = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().timeout(SOON).await.map(drop) }
    });
    wait_until(SOON, async || number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await == 2).await;
    held.release().await.unwrap();
    next.await.unwrap().unwrap();
    gone.abort();
}
