//! Batched requests for locks: hanging servers, lost connections, and cancelled callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join;
use redgrid_core::{Client, Failure, ServerError};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{Action, Direction, Fault, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, on_each_runtime, server, sha};

use super::together::{BATCH, LEASE, Outcome, all, ask, held, names};

/// All requests to a hanging server fail in time. When it continues, nothing is left behind.
#[test]
fn requests_to_a_hanging_server_fail_in_time() {
    on_each_runtime(async || {
        let server = server().await;
        let (client, observer) = (
            client_with(&server.url(), |config| config.response_timeout(Duration::from_millis(600))).await,
            server.observer().await.unwrap(),
        );
        server.pause().await.unwrap();
        let began = tokio::time::Instant::now();
        let ask = |name: &String| {
            let asking = Lock::new(&client, &**name).acquire().lease(LEASE).timeout(Duration::from_secs(2));
            tokio::spawn(asking.into_future())
        };
        let asking: Vec<_> = names(400).iter().map(ask).collect();
        for outcome in all(asking).await {
            let Err(AcquireError::Failed(Failure::Unavailable { source, .. } | Failure::OutcomeUnknown { source, .. })) =
                outcome
            else {
                panic!("{outcome:?}");
            };
            assert!(matches!(source, ServerError::NotSent { .. } | ServerError::Unknown { .. }), "{source:?}");
        }
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        server.resume().await.unwrap();
        wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
        for guard in ask_again(&client, 400).await {
            drop(guard.unwrap());
        }
    });
}

async fn ask_again(client: &Client, count: usize) -> Vec<Outcome> {
    let ask =
        |name: &String| tokio::spawn(Lock::new(client, &**name).acquire().lease(LEASE).timeout(SOON).into_future());
    all(names(count).iter().map(ask).collect()).await
}

/// A request cancelled before it is sent is not sent. A lock that is granted to a cancelled request
/// is released.
#[test]
fn a_request_cancelled_in_the_queue_leaves_nothing() {
    on_each_runtime(async || {
        let server = server().await;
        let (client, observer) = (client(&server).await, server.observer().await.unwrap());
        server.pause().await.unwrap();
        let ask = |name: &String| tokio::spawn(Lock::new(&client, &**name).acquire().lease(LEASE).into_future());
        let asking: Vec<_> = names(400).iter().map(ask).collect();
        wait_until(SOON, async || client.stats().names == 400).await;
        for asking in &asking {
            asking.abort();
        }
        server.resume().await.unwrap();
        for asking in asking {
            // The request was aborted, or granted just before.
            drop(asking.await);
        }
        wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
        for guard in ask_again(&client, 400).await {
            drop(guard.unwrap());
        }
    });
}

/// Counts the requests that pass the proxy in batches.
fn left_together(proxy: &Proxy) -> Arc<AtomicUsize> {
    let names = Arc::new(AtomicUsize::new(0));
    proxy.on_request({
        let (names, batch) = (Arc::clone(&names), sha(BATCH));
        move |words| {
            if words[0] == *"EVALSHA" && words[1] == *batch {
                names.fetch_add(std::str::from_utf8(&words[2]).unwrap().parse().unwrap(), Ordering::Relaxed);
            }
            Action::Forward
        }
    });
    names
}

/// A batched call that reaches its timeout on a cut connection has an unknown outcome. The server
/// may have executed it, and each of its requests gets that error. Grants without a caller are
/// released as soon as the server is reachable.
#[test]
fn a_batched_request_on_a_cut_connection_is_unknown() {
    on_each_runtime(async || {
        let cut_off = async |direction| {
            let server = server().await;
            let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
            let url = server.url_via(proxy.addr());
            let client = client_with(&url, |config| config.response_timeout(Duration::from_secs(2)).retries(0)).await;
            // These requests load the script, so each later request is sent once.
            ask(&server, &client, &names(80)).await;
            wait_until(SOON, async || client.stats().names == 0 && held(&observer).await.is_empty()).await;
            let together = left_together(&proxy);
            proxy.set(direction, Fault::BlackHole);
            let began = tokio::time::Instant::now();
            let ask = |name: &String| tokio::spawn(Lock::new(&client, &**name).acquire().lease(LEASE).into_future());
            let asking: Vec<_> = names(100).iter().map(ask).collect();
            if direction == Direction::ToClient {
                wait_until(SOON, async || held(&observer).await.len() == 100).await;
                assert!(together.load(Ordering::Relaxed) > 50, "{together:?} were batched");
            }
            for outcome in all(asking).await {
                let Err(AcquireError::Failed(Failure::OutcomeUnknown { source: ServerError::Unknown { .. }, .. })) =
                    outcome
                else {
                    panic!("{direction:?}: {outcome:?}");
                };
            }
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
            // A black hole stays until it is healed.
            proxy.heal();
            proxy.cut_all();
            wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
            for guard in ask_again(&client, 100).await {
                guard.unwrap().release().await.unwrap();
            }
        };
        join(cut_off(Direction::ToClient), cut_off(Direction::ToServer)).await;
    });
}

/// The connection is lost while many requests are in flight in batches. Each lock is granted once,
/// on the next connection.
#[test]
fn a_connection_lost_under_a_batch_costs_no_lock() {
    on_each_runtime(async || {
        let server = server().await;
        let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
        let url = server.url_via(proxy.addr());
        let client = client_with(&url, |config| config.response_timeout(Duration::from_secs(5))).await;
        ask(&server, &client, &names(80)).await;
        wait_until(SOON, async || client.stats().names == 0 && held(&observer).await.is_empty()).await;
        let together = left_together(&proxy);
        for fault in [Direction::ToClient, Direction::ToServer] {
            let before = together.load(Ordering::Relaxed);
            proxy.set(fault, Fault::Stall);
            let ask = |name: &String| {
                tokio::spawn(Lock::new(&client, &**name).acquire().lease(LEASE).timeout(SOON).into_future())
            };
            let asking: Vec<_> = names(400).iter().map(ask).collect();
            match fault {
                Direction::ToClient => {
                    wait_until(SOON, async || together.load(Ordering::Relaxed) - before > 200).await;
                }
                Direction::ToServer => wait_until(SOON, async || client.stats().names == 400).await,
            }
            proxy.cut_all();
            proxy.heal();
            let guards: Vec<_> = all(asking).await.into_iter().map(Result::unwrap).collect();
            assert_eq!((guards.len(), held(&observer).await.len()), (400, 400));
            let releasing: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
            all(releasing).await.into_iter().for_each(|released| released.unwrap());
            wait_until(SOON, async || held(&observer).await.is_empty() && client.stats().names == 0).await;
        }
    });
}
