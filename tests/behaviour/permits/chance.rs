//! Random requests compared with a model, and requests dropped at any point.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use redgrid_semaphore::Permit;
use redgrid_testkit::{Fault, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, client, client_with, server};

use super::{MS, is_idle, number, times};

/// A model explains each result of random requests. Several clients send them over slow and
/// breaking connections.
#[tokio::test(flavor = "multi_thread")]
async fn random_requests_agree_with_a_model() {
    for seed in 0..times("REDGRID_PERMIT_SEEDS", 8) as u64 {
        let server = server().await;
        let observer = server.observer().await.unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let (leases, fair) = (random.bool(), random.bool());
        let capacity = random.u64(1..8);
        let (mut clients, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            // Each client has its own connection to the server, which is fast at first.
            let proxy = Proxy::to(&server).await.unwrap();
            clients.push(client_with(&server.url_via(proxy.addr()), |config| config).await);
            proxies.push(proxy);
        }
        let mut semaphores = Vec::new();
        for client in &clients {
            let semaphore = EitherSemaphore::new(client, "mail", capacity, leases).await;
            semaphores.push(if fair { semaphore.fair() } else { semaphore });
        }
        let mut held: BTreeMap<u64, Permit> = BTreeMap::new();
        let (mut next, mut out) = (0, 0);
        for _ in 0..120 {
            let who = random.usize(..3);
            let semaphore = &semaphores[who];
            match random.u8(..12) {
                10 => proxies[who].set_both(Fault::Delay(random.u32(..3) * MS)),
                // Requests in flight are repeated on another connection.
                11 => proxies[who].cut_all(),
                0..5 => {
                    let permits = random.u64(1..=capacity);
                    if permits > capacity - out {
                        // Without contact, the result is unknown.
                        let granted = semaphore.try_acquire_many(permits).await;
                        assert!(!matches!(granted, Ok(Some(_))), "seed {seed}: {permits} with {out} of {capacity} out");
                    } else {
                        // Waiters that were just notified go first, so the grant may take a moment.
                        let granted = semaphore.acquire_many(permits).timeout(SOON).await;
                        (out, next) = (out + permits, next + 1);
                        held.insert(next, granted.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
                    }
                }
                5..8 => {
                    let Some(&key) = held.keys().min_by_key(|key| (*key * 7919) % 13) else { continue };
                    let Some(mut permit) = held.remove(&key) else { continue };
                    if permit.num_permits() > 1 && random.bool() {
                        let part = permit.split(1).unwrap();
                        next += 1;
                        held.insert(next, permit);
                        permit = part;
                    }
                    out -= permit.num_permits();
                    permit.release().await.unwrap();
                }
                8 => {
                    // Requests permits, and cancels the request at some point.
                    let asked =
                        at_most(random.usize(..4), semaphore.acquire_many(random.u64(1..=capacity)).into_future());
                    drop(tokio::time::timeout(random.u32(1..20) * MS, asked).await);
                }
                // Permits of cancelled requests may still be on their way back.
                _ => {
                    let left = async || semaphore.available_permits().await.ok();
                    wait_until(SOON, async || left().await == Some(capacity - out)).await;
                }
            }
        }
        drop(held);
        proxies.iter().for_each(Proxy::heal);
        wait_until(SOON, async || clients.iter().all(is_idle)).await;
        assert_eq!(number(&observer, &["GET", "mail"]).await, capacity as i64, "seed {seed}");
        assert_eq!(number(&observer, &["ZCARD", "{mail}:timeout"]).await, 0, "seed {seed}");
        let line = number(&observer, &["ZCARD", "redgrid_semaphore_line:{mail}"]).await;
        assert_eq!(line, 0, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_dropped_at_any_point_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for leases in [true, false] {
        for fair in [true, false] {
            let clients = [client(&server).await, client(&server).await];
            let mut semaphores = Vec::new();
            for client in &clients {
                let semaphore = EitherSemaphore::new(client, "mail", 7, leases).await;
                semaphores.push(if fair { semaphore.fair() } else { semaphore });
            }
            // Two tasks of each process, which mostly find too few permits.
            let tasks = (0..4_usize).map(|task| {
                let semaphore = semaphores[task % 2].clone();
                tokio::spawn(async move {
                    for _ in 0..150 {
                        let asked = semaphore.acquire_many(fastrand::u64(1..=7)).into_future();
                        let asked = at_most(fastrand::usize(..4), asked);
                        let held = tokio::time::timeout(fastrand::u32(1..30) * MS, asked).await;
                        tokio::time::sleep(fastrand::u32(0..3) * MS).await;
                        drop(held);
                    }
                })
            });
            for done in join_all(tasks).await {
                done.unwrap();
            }
            wait_until(SOON, async || clients.iter().all(is_idle)).await;
            let left = number(&observer, &["GET", "mail"]).await;
            assert_eq!((left, number(&observer, &["ZCARD", "{mail}:timeout"]).await), (7, 0), "{leases} {fair}");
        }
    }
}
