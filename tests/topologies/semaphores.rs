//! Semaphores on every topology.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redgrid_permit_expirable_semaphore::{LostReason, PermitExpirableSemaphore, Returned};
use redgrid_semaphore::{AcquireError, Semaphore};
use redgrid_testkit::wait_until;
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{NOTHING, SOON};

use crate::fixture::{Clause, Fixture};

macro_rules! clauses {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<Clause> {
            vec![$(Clause { name: concat!("semaphores::", stringify!($name)), run: |fixture| Box::pin($name(fixture)) }),*]
        }
    };
}

clauses![
    tasks_of_two_processes_never_exceed_the_permits,
    a_waiter_for_permits_is_woken_by_the_message,
    the_queue_of_a_fair_semaphore_spans_processes,
    permits_are_known_by_their_ids,
    permits_are_returned_when_dropped_or_shut_down,
];

async fn tasks_of_two_processes_never_exceed_the_permits(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    for leases in [true, false] {
        let inside = Arc::new(AtomicI64::new(0));
        let semaphores = [
            EitherSemaphore::new(&clients[0], &on.name, 3, leases).await,
            EitherSemaphore::new(&clients[1], &on.name, 3, leases).await,
        ];
        let tasks: Vec<_> = (0..12)
            .map(|task| {
                let (semaphore, inside) = (semaphores[task % 2].clone(), inside.clone());
                tokio::spawn(async move {
                    for round in 0..10 {
                        let permits = 1 + (task + round) as i64 % 2;
                        let permit = semaphore.acquire_many(permits as u64).timeout(SOON).await.unwrap();
                        let now = inside.fetch_add(permits, Ordering::SeqCst) + permits;
                        assert!(now <= 3, "{now}");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(permits, Ordering::SeqCst);
                        permit.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(semaphores[0].available_permits().await.unwrap(), 3);
    }
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
}

async fn a_waiter_for_permits_is_woken_by_the_message(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let held = Semaphore::new(&one, &on.name, 2).acquire_many(2).await.unwrap();
    let waiter = Semaphore::new(&two, &on.name, 2).acquire_many(2).timeout(SOON / 2);
    let waiter = tokio::spawn(waiter.into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn the_queue_of_a_fair_semaphore_spans_processes(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let semaphores = clients.each_ref().map(|client| Semaphore::new(client, &on.name, 2).fair());
    let held = semaphores[0].acquire().await.unwrap();
    let large = tokio::spawn(semaphores[1].acquire_many(2).timeout(SOON).into_future());
    // Once it is in the queue, no other caller overtakes it.
    wait_until(SOON, async || match semaphores[0].try_acquire().await.unwrap() {
        Some(permit) => {
            permit.release().await.unwrap();
            false
        }
        None => true,
    })
    .await;
    held.release().await.unwrap();
    large.await.unwrap().unwrap().release().await.unwrap();
    semaphores[0].acquire_many(2).timeout(SOON).await.unwrap().release().await.unwrap();
}

async fn permits_are_known_by_their_ids(on: Fixture) {
    let (one, two) = (on.client_with(|config| config.watchdog_lease(SOON / 20)).await, on.client().await);
    let (mine, theirs) = (PermitExpirableSemaphore::new(&one, &on.name), PermitExpirableSemaphore::new(&two, &on.name));
    assert!(matches!(mine.acquire().await, Err(AcquireError::NotInitialised { .. })));
    assert!(mine.try_set_permits(2).await.unwrap());
    let permit = mine.acquire_many(2).await.unwrap();
    let ids: Vec<_> = permit.ids().collect();
    assert!(theirs.update_lease(ids[0], SOON).await.unwrap());
    assert_eq!(theirs.try_release(ids[0]).await.unwrap(), Returned::Released);
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Gone);
    assert_eq!((theirs.available_permits().await.unwrap(), theirs.acquired_permits().await.unwrap()), (1, 1));
    drop(permit);
    wait_until(SOON, async || theirs.available_permits().await.unwrap() == 2).await;
}

async fn permits_are_returned_when_dropped_or_shut_down(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let theirs = Semaphore::plain(&two, &on.name);
    for leases in [true, false] {
        let mine = EitherSemaphore::new(&one, &on.name, 3, leases).await;
        drop((mine.acquire().await.unwrap(), mine.acquire().await.unwrap()));
        wait_until(SOON, async || theirs.available_permits().await.unwrap() == 3).await;
    }
    let _held = (
        Semaphore::new(&one, &on.name, 3).acquire().await.unwrap(),
        Semaphore::plain(&one, &on.name).acquire().await.unwrap(),
    );
    one.shutdown(SOON).await.unwrap();
    assert_eq!(theirs.available_permits().await.unwrap(), 3);
}
