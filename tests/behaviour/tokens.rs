//! Fencing tokens always rise.

use std::time::{Duration, Instant};

use redgrid_locks::{Holder, Lock};
use redgrid_testkit::{RedisServer, ServerBinary};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, listening, server};

/// Checks the tokens of one server over grants to several processes, re-entries, forced takeovers
/// and releases, and empty restarts.
async fn tokens_rise_on(server: RedisServer) {
    let mut last = 0;
    for round in 0..3 {
        let observer = server.observer().await.unwrap();
        let clients = [client(&server).await, client(&server).await];
        for n in 0..200 {
            let lock = Lock::new(&clients[n % 2], "a");
            let me = Holder::new();
            let guard = lock.acquire().holder(&me).timeout(SOON).await.unwrap();
            let token = guard.token().get();
            assert!(token > last, "round {round}, {n}: {token} after {last}");
            let now = observer.server_time_micros().await.unwrap();
            assert!(token <= now, "a token ahead of the server's clock: {token} > {now}");
            last = token;
            let again = lock.acquire().holder(&me).await.unwrap();
            assert_eq!(again.token().get(), token, "re-entry keeps the token");
            drop(again);
            if n % 20 == 7 {
                let thief = Lock::new(&clients[(n + 1) % 2], "a").steal().await.unwrap();
                assert!(thief.token().get() > token);
                last = thief.token().get();
                assert!(guard.release().await.is_err());
                thief.release().await.unwrap();
            } else if n % 20 == 13 {
                assert!(Lock::new(&clients[(n + 1) % 2], "a").force_release().await.unwrap());
                drop(guard);
            } else {
                guard.release().await.unwrap();
            }
        }
        drop(clients);
        server.restart_empty().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_processes_thefts_and_empty_restarts() {
    tokens_rise_on(server().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_on_the_newest_server_too() {
    let Some(newest) = ServerBinary::newest_or_skip("tokens_rise_on_the_newest_server_too") else { return };
    tokens_rise_on(RedisServer::builder().binary(newest).start().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_notifies_the_holder_at_once_and_frees_the_lock() {
    let server = server().await;
    let (holder, admin) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    listening(&server, &holder).await;
    let mut told = Vec::new();
    for _ in 0..20 {
        let guard = Lock::new(&holder, "a").acquire().timeout(SOON).await.unwrap();
        let watch = guard.watch();
        let (asked, stopwatch) = (Instant::now(), Stopwatch::start());
        let lock = Lock::new(&admin, "a");
        let (forced, ()) = tokio::join!(lock.force_release(), async {
            watch.lost().await;
            told.push(stopwatch.elapsed());
        });
        assert!(forced.unwrap());
        assert!(!guard.is_held());
        // The lock is free only when the process of the former holder can no longer issue a token
        // above the next one.
        assert!(asked.elapsed() >= Duration::from_millis(500));
    }
    // The median of twenty notifications takes less than a round trip and 50 ms.
    let began = Instant::now();
    observer.ping().await.unwrap();
    let round_trip = began.elapsed();
    told.sort();
    let middle = told[told.len() / 2];
    assert!(middle < round_trip + Duration::from_millis(50), "{middle:?} with a round trip of {round_trip:?}");
    // A renewal interval is 10 s, so no loss waited for a renewal.
    assert!(told[told.len() - 1] < Duration::from_secs(3), "{told:?}");
    assert!(!Lock::new(&admin, "a").force_release().await.unwrap(), "the lock was free");
}
