//! Grants that count only once replicas have received them.

use std::time::{Duration, Instant};

use redgrid_core::config::Durability;
use redgrid_locks::{AcquireError, CommitError, ExtendError, Lock, LostReason};
use redgrid_script::{Batch, Call, CallError};
use redgrid_testkit::{Replicated, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{NOTHING, SOON};

use crate::fixture::{by_list, connected, scenarios};

scenarios![
    a_grant_that_no_replica_has_is_given_back,
    a_renewal_that_no_replica_has_moves_no_deadline,
    a_weaker_request_does_not_wait_for_replicas,
    a_weaker_hold_is_not_handed_over_to_a_stronger_request,
    a_shortened_weaker_hold_is_not_handed_over_to_a_stronger_request,
    an_undurable_takeover_and_extension_are_reported,
    waiters_for_the_same_durability_are_answered_together,
    an_undurable_batch_is_reported_for_each_call,
];

const MS: Duration = Duration::from_millis(1);
const BY_ONE: Durability = Durability::Replicas { at_least: 1, timeout: Duration::from_secs(1) };

#[track_caller]
fn is_short<T>(outcome: Result<T, AcquireError>) {
    match outcome.map(drop) {
        Err(AcquireError::NotDurable { source: CommitError::Shortfall { asked, acknowledged }, .. }) => {
            assert_eq!((asked, acknowledged), (BY_ONE, 0));
        }
        other => panic!("{other:?}"),
    }
}

async fn a_grant_that_no_replica_has_is_given_back() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated).durability(BY_ONE)).await;
    let lock = Lock::new(&client, "a");
    lock.acquire().await.unwrap().release().await.unwrap();
    replicated.replicas()[0].pause().await.unwrap();
    is_short(lock.acquire().timeout(SOON).await);
    is_short(lock.try_acquire().await);
    wait_until(SOON, async || client.stats() == NOTHING).await;
    assert!(!replicated.primary().observer().await.unwrap().exists("a").await.unwrap());
    replicated.replicas()[0].resume().await.unwrap();
    let enters = async || lock.try_acquire().await.is_ok_and(|guard| guard.is_some());
    wait_until(SOON, enters).await;
}

async fn a_renewal_that_no_replica_has_moves_no_deadline() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated).watchdog_lease(3000 * MS)).await;
    let (durable, plain) = (Lock::new(&client, "durable"), Lock::new(&client, "plain"));
    let durable = durable.acquire().durability(BY_ONE).await.unwrap();
    let plain = plain.acquire().await.unwrap();
    let granted = Instant::now();
    wait_until(SOON, async || granted.elapsed() > 4000 * MS).await;
    assert!(durable.is_held());
    replicated.replicas()[0].pause().await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, durable.watch().lost()).await.unwrap(), LostReason::Expired);
    assert!(plain.is_held());
}

async fn a_weaker_request_does_not_wait_for_replicas() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated)).await;
    let patient = Durability::Replicas { at_least: 1, timeout: 10 * SOON };
    let held = Lock::new(&client, "held").acquire().durability(patient).await.unwrap();
    replicated.replicas()[0].pause().await.unwrap();
    let waiting = tokio::spawn(Lock::new(&client, "waiting").acquire().durability(patient).into_future());
    for _ in 0..200 {
        let other = Lock::new(&client, "other").acquire().timeout(SOON).await.unwrap();
        tokio::time::timeout(SOON, other.release()).await.expect("it does not wait").unwrap();
    }
    held.release().await.unwrap();
    assert!(!waiting.is_finished());
    replicated.replicas()[0].resume().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_weaker_hold_is_not_handed_over_to_a_stronger_request() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated).local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    for reachable in [true, false] {
        let weak = lock.acquire().await.unwrap();
        let strong = tokio::spawn(lock.acquire().durability(BY_ONE).timeout(SOON).into_future());
        wait_until(SOON, async || client.stats().waiting == 1).await;
        if !reachable {
            replicated.replicas()[0].pause().await.unwrap();
        }
        weak.release().await.unwrap();
        let strong = strong.await.unwrap();
        match reachable {
            true => strong.unwrap().release().await.unwrap(),
            false => is_short(strong),
        }
    }
}

async fn a_shortened_weaker_hold_is_not_handed_over_to_a_stronger_request() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated).local_handover_window(500 * MS)).await;
    let lock = Lock::new(&client, "a");
    let weak = lock.acquire().await.unwrap();
    let strong = lock.acquire().lease(Duration::from_secs(5)).durability(BY_ONE).timeout(SOON);
    let strong = tokio::spawn(strong.into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    replicated.replicas()[0].pause().await.unwrap();
    weak.release().await.unwrap();
    is_short(strong.await.unwrap());
}

async fn an_undurable_takeover_and_extension_are_reported() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated).durability(BY_ONE)).await;
    let lock = Lock::new(&client, "a");
    let guard = lock.acquire().lease(Duration::from_secs(20)).await.unwrap();
    let until = guard.remaining();
    replicated.replicas()[0].pause().await.unwrap();
    let result = guard.extend(Duration::from_secs(60)).await;
    assert!(matches!(result, Err(ExtendError::NotDurable { .. })), "{result:?}");
    assert!(guard.is_held() && guard.remaining() <= until);
    guard.release().await.unwrap();
    is_short(lock.steal().await);
    wait_until(SOON, async || client.stats() == NOTHING).await;
    assert!(!replicated.primary().observer().await.unwrap().exists("a").await.unwrap());
}

/// Twenty waiters for the same durability are answered together. One after the other, they would
/// wait twenty times as long.
async fn waiters_for_the_same_durability_are_answered_together() {
    let replicated = Replicated::start(1).await.unwrap();
    // Without a hand-over window, no grant that the replica has acknowledged is handed over within
    // the process.
    let client = connected(by_list(&replicated).durability(BY_ONE).local_handover_window(Duration::ZERO)).await;
    let lock = Lock::new(&client, "a");
    let held = lock.acquire().await.unwrap();
    replicated.replicas()[0].pause().await.unwrap();
    let waiters: Vec<_> = (0..20).map(|_| tokio::spawn(lock.acquire().timeout(2 * SOON).into_future())).collect();
    let weak = tokio::spawn(lock.acquire().durability(Durability::Primary).timeout(2 * SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 21).await;
    held.release().await.unwrap();
    let began = Stopwatch::start();
    for waiter in waiters {
        is_short(waiter.await.unwrap());
    }
    began.assert_within(Duration::from_secs(8));
    weak.await.unwrap().unwrap().release().await.unwrap();
}

async fn an_undurable_batch_is_reported_for_each_call() {
    let replicated = Replicated::start(1).await.unwrap();
    let client = connected(by_list(&replicated)).await;
    let send = async |atomic: bool, durability| {
        let batch = Batch::new(&client).durable(durability);
        let mut batch = if atomic { batch.atomic() } else { batch };
        let handles = ["{tag}:a", "{tag}:b"].map(|name| batch.push::<i64>(Call::command("INCRBY").key(name).int(1)));
        let results = batch.send().await.unwrap();
        handles.map(|handle| results.get(&handle))
    };
    for atomic in [false, true] {
        let results = send(atomic, Durability::Replicas { at_least: 1, timeout: SOON }).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
    replicated.replicas()[0].pause().await.unwrap();
    for atomic in [false, true] {
        for result in send(atomic, BY_ONE).await {
            let short = matches!(&result, Err(CallError::NotDurable { source: CommitError::Shortfall { .. }, .. }));
            assert!(short, "{result:?}");
        }
    }
    let n: i64 = Call::command("GET").key("{tag}:a").query(&client).await.unwrap();
    assert_eq!(n, 4);
}
