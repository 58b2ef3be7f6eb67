//! Faults of permits: rejections, lost contact, and wrong leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use redgrid_core::Failure;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::{AcquireError, LostReason, ReleaseError, Semaphore};
use redgrid_testkit::{Action, Fault, Observer, Proxy, wait_until};
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, client, client_with, is_script, server};

const MS: Duration = Duration::from_millis(1);

async fn left(observer: &Observer) -> i64 {
    observer.query(&["GET", "mail"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_the_server_refuses_to_take_back_are_offered_again() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    for leases in [false, true] {
        observer.cmd(&["DEL", "mail"]).await.unwrap();
        let semaphore = EitherSemaphore::new(&client, "mail", 3, leases).await;
        let (told, dropped) = (semaphore.acquire_many(2).await.unwrap(), semaphore.acquire().await.unwrap());
        assert_eq!(left(&observer).await, 0);
        observer.cmd(&["ACL", "SETUSER", "default", "-incrby"]).await.unwrap();
        let refused = told.release().await;
        assert!(matches!(refused, Err(ReleaseError::Refused { .. })), "{refused:?}");
        drop(dropped);
        observer.cmd(&["ACL", "SETUSER", "default", "+incrby"]).await.unwrap();
        wait_until(SOON, async || left(&observer).await == 3 && client.stats().names == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_memory_takes_permits_back_and_grants_none() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    for leases in [false, true] {
        observer.cmd(&["DEL", "mail"]).await.unwrap();
        let semaphore = EitherSemaphore::new(&client, "mail", 3, leases).await;
        let permits = semaphore.acquire_many(2).await.unwrap();
        server.set_config("maxmemory", "1").await.unwrap();
        let asked = semaphore.try_acquire().await;
        assert!(matches!(asked, Err(AcquireError::Failed(Failure::Refused { .. }))), "{asked:?}");
        permits.release().await.unwrap();
        assert_eq!(left(&observer).await, 3);
        server.set_config("maxmemory", "0").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_too_few_permits_is_never_reported_and_a_release_ends() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(100 * MS)).await;
    let semaphore = Semaphore::new(&client, "mail", 3);
    let held = semaphore.acquire().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let told = [
        semaphore.acquire().timeout(300 * MS).await.map(drop),
        semaphore.acquire().await.map(drop),
        semaphore.try_acquire().await.map(drop),
        semaphore.try_acquire().timeout(300 * MS).await.map(drop),
        Semaphore::new(&client, "other", 1).try_acquire().timeout(300 * MS).await.map(drop),
    ];
    for told in told {
        let honest =
            matches!(told, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. })));
        assert!(honest, "{told:?}");
    }
    let began = Instant::now();
    let released = held.release().await;
    assert!(matches!(released, Err(ReleaseError::OutcomeUnknown { .. })), "{released:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    proxy.heal();
    let observer = server.observer().await.unwrap();
    wait_until(2 * SOON, async || left(&observer).await == 3 && client.stats().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_extensions_the_later_one_counts() {
    let server = server().await;
    let client = client(&server).await;
    let seats = PermitExpirableSemaphore::new(&client, "mail");
    seats.set_permits(1).await.unwrap();
    for _ in 0..20 {
        let permit = seats.acquire().lease(30_000 * MS).await.unwrap();
        let (longer, shorter) = join(permit.extend(60_000 * MS), permit.extend(10_000 * MS)).await;
        longer.unwrap();
        shorter.unwrap();
        assert!(permit.remaining().unwrap() <= 10_000 * MS, "{:?}", permit.remaining());
        permit.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_fixed_lease_is_reported_after_a_reconnect() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let semaphore = Semaphore::new(&client, "mail", 2);
    let permits =
        [semaphore.acquire().lease(60 * SOON).await.unwrap(), semaphore.acquire().auto_renew(60 * SOON).await.unwrap()];
    server.observer().await.unwrap().cmd(&["DEL", "{mail}:timeout"]).await.unwrap();
    proxy.cut_all();
    for permit in permits {
        assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.expect("the loss is reported"), LostReason::Gone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_get_the_available_permits() {
    let server = server().await;
    // No poll occurs during the test.
    let client = client_with(&server.url(), |config| config.poll_interval(20 * SOON)).await;
    for fair in [false, true] {
        let semaphore = Semaphore::new(&client, format!("mail{fair}"), 300);
        let semaphore = if fair { semaphore.fair() } else { semaphore };
        let looks = join_all((0..150).map(|_| semaphore.try_acquire().into_future())).await;
        assert!(looks.iter().all(|look| matches!(look, Ok(Some(_)))), "fair: {fair}");
        let asked = join_all((0..150).map(|_| semaphore.acquire().timeout(SOON).into_future())).await;
        assert!(asked.iter().all(Result::is_ok), "fair: {fair}");
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        // A request that waits behind a too large one is granted when that one leaves.
        drop(asked);
        wait_until(SOON, async || semaphore.available_permits().await.unwrap() == 150).await;
        let large = tokio::spawn(semaphore.acquire_many(200).into_future());
        wait_until(SOON, async || client.stats().waiting == 1).await;
        let small = join_all((0..150).map(|_| tokio::spawn(semaphore.acquire().timeout(SOON).into_future())));
        let small = tokio::spawn(small);
        wait_until(SOON, async || client.stats().waiting == 151).await;
        large.abort();
        let small = small.await.unwrap();
        assert!(small.iter().all(|permit| matches!(permit, Ok(Ok(_)))), "fair: {fair}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_leaves_the_fair_queue() {
    let server = server().await;
    let (one, two, observer) = (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let semaphores = [&one, &two].map(|client| Semaphore::new(client, "mail", 1).fair());
    let line = async || observer.query::<u64>(&["ZCARD", "redgrid_semaphore_line:{mail}"]).await.unwrap();
    let held = semaphores[0].acquire().await.unwrap();
    let first = tokio::spawn(semaphores[1].acquire().into_future());
    wait_until(SOON, async || line().await == 1).await;
    observer.cmd(&["SET", "mail", "nonsense"]).await.unwrap();
    let refused = semaphores[1].acquire().await;
    assert!(matches!(refused, Err(AcquireError::Failed(Failure::Refused { .. }))), "{refused:?}");
    let first = first.await.unwrap();
    assert!(matches!(first, Err(AcquireError::Failed(Failure::Refused { .. }))), "{first:?}");
    observer.cmd(&["SET", "mail", "0"]).await.unwrap();
    held.release().await.unwrap();
    wait_until(SOON, async || line().await == 0).await;
    semaphores[0].acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_are_not_delayed_by_refused_requests_and_leases_are_renewed_without_memory() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(1500 * MS)).await;
    for leases in [false, true] {
        observer.cmd(&["DEL", "mail"]).await.unwrap();
        let semaphore = EitherSemaphore::new(&client, "mail", 3, leases).await;
        let (released, kept) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
        server.set_config("maxmemory", "1").await.unwrap();
        let began = Instant::now();
        wait_until(SOON, async || {
            let asked = semaphore.try_acquire().await;
            assert!(matches!(asked, Err(AcquireError::Failed(Failure::Refused { .. }))), "{asked:?}");
            began.elapsed() > 3000 * MS
        })
        .await;
        tokio::time::timeout(SOON, released.release()).await.expect("a return in time").unwrap();
        assert!(kept.is_held());
        server.set_config("maxmemory", "0").await.unwrap();
        kept.release().await.unwrap();
        assert_eq!(left(&observer).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unbatched_requests_do_not_poll_endlessly() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let semaphore = Semaphore::new(&client, "mail", 300).fair();
    let held = semaphore.acquire_many(300).await.unwrap();
    let waiters = [(); 2].map(|()| tokio::spawn(semaphore.acquire_many(300).timeout(2 * SOON).into_future()));
    wait_until(SOON, async || client.stats().waiting == 2).await;
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&asked);
    proxy.on_request(move |request| {
        seen.fetch_add(u64::from(is_script(&request[0])), Ordering::Relaxed);
        Action::Forward
    });
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > 1000 * MS).await;
    assert!(asked.load(Ordering::Relaxed) < 20, "{asked:?}");
    held.release().await.unwrap();
    // The two waiters may be queued in either order. The second one waits for the release of the
    // first.
    let ends = waiters.map(async |waiter| waiter.await.unwrap().unwrap().release().await.unwrap());
    join_all(ends).await;
}
