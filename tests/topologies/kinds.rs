//! The other kinds of locks on every topology.

use std::time::Duration;

use redgrid_locks::{AcquireError, FencedLock, Holder, Lock, MultiLock, SpinLock};
use redgrid_testkit::wait_until;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{NOTHING, SOON};

use crate::fixture::{Clause, Fixture};

macro_rules! clauses {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<Clause> {
            vec![$(Clause { name: concat!("kinds::", stringify!($name)), run: |fixture| Box::pin($name(fixture)) }),*]
        }
    };
}

clauses![
    fenced_tokens_are_counted_and_rise,
    a_fenced_waiter_is_woken_by_the_release,
    a_fenced_lock_is_stolen_with_a_higher_token,
    a_spinning_waiter_enters_without_a_message,
    spinning_tasks_of_two_processes_exclude_each_other,
    reentry_can_be_disabled,
    many_names_in_many_slots_are_taken_or_none,
    a_waiter_for_one_of_several_locks_is_woken,
    opposite_orders_over_slots_neither_stall_nor_leave_a_part,
    many_names_are_released_when_dropped_or_shut_down,
    a_thousand_names_are_taken_within_a_second,
];

async fn fenced_tokens_are_counted_and_rise(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let mut last = None;
    for turn in 0..10 {
        let lock = FencedLock::new(&clients[turn % 2], &on.name);
        let guard = lock.acquire().timeout(SOON).await.unwrap();
        assert!(last < Some(guard.token()), "{last:?} {:?}", guard.token());
        assert_eq!(lock.token().await.unwrap(), Some(guard.token()));
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

async fn a_fenced_waiter_is_woken_by_the_release(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let guard = FencedLock::new(&one, &on.name).acquire().await.unwrap();
    let token = guard.token();
    let waiter = tokio::spawn(FencedLock::new(&two, &on.name).acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

async fn a_fenced_lock_is_stolen_with_a_higher_token(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = FencedLock::new(&one, &on.name).acquire().await.unwrap();
    let thief = FencedLock::new(&two, &on.name).steal().await.unwrap();
    assert!(thief.token() > guard.token());
    tokio::time::timeout(SOON, guard.watch().lost()).await.unwrap();
    thief.release().await.unwrap();
}

async fn a_spinning_waiter_enters_without_a_message(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let guard = SpinLock::new(&one, &on.name).acquire().await.unwrap();
    let lock = SpinLock::new(&two, &on.name);
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting == 1).await;
    assert_eq!(two.stats().channels, 0);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
}

async fn spinning_tasks_of_two_processes_exclude_each_other(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (lock, inside) = (SpinLock::new(&clients[task % 2], &on.name), inside.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn reentry_can_be_disabled(on: Fixture) {
    let client = on.client().await;
    let (lock, me) = (Lock::new(&client, &on.name).non_reentrant(), Holder::new());
    let guard = lock.acquire().holder(&me).await.unwrap();
    assert!(matches!(lock.acquire().holder(&me).await, Err(AcquireError::AlreadyHeld { .. })));
    guard.release().await.unwrap();
}

/// Returns that many names, each in another slot of a cluster.
fn names(on: &Fixture, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{}:{n}", on.name)).collect()
}

async fn none_is_held(on: &Fixture, names: &[String]) {
    // A client checks the locks, because the observer is connected to only one node.
    let client = on.client().await;
    for name in names {
        let lock = Lock::new(&client, name);
        wait_until(SOON, async || !lock.is_locked().await.unwrap()).await;
    }
}

async fn many_names_in_many_slots_are_taken_or_none(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let names = names(&on, 40);
    let in_the_way = Lock::new(&two, &names[33]).acquire().await.unwrap();
    let all = MultiLock::new(&one, &names);
    assert!(all.try_acquire().await.unwrap().is_none());
    in_the_way.release().await.unwrap();
    none_is_held(&on, &names).await;
    let guard = all.try_acquire().await.unwrap().expect("all are free");
    assert!(guard.is_held());
    for name in &names {
        assert!(Lock::new(&two, name).try_acquire().await.unwrap().is_none(), "{name}");
    }
    guard.release().await.unwrap();
    none_is_held(&on, &names).await;
    assert_eq!((one.stats(), two.stats()), (NOTHING, NOTHING));
}

async fn a_waiter_for_one_of_several_locks_is_woken(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let names = names(&on, 5);
    let in_the_way = Lock::new(&one, &names[4]).acquire().await.unwrap();
    let waiter = tokio::spawn(MultiLock::new(&two, &names).acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    none_is_held(&on, &names[..4]).await;
    in_the_way.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn opposite_orders_over_slots_neither_stall_nor_leave_a_part(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let names = names(&on, 3);
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let mut mine = names.clone();
            if task % 2 == 1 {
                mine.reverse();
            }
            let lock = MultiLock::new(&clients[task / 2], mine.split_at(task % 3).1);
            tokio::spawn(async move {
                for _ in 0..15 {
                    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    none_is_held(&on, &names).await;
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
}

async fn many_names_are_released_when_dropped_or_shut_down(on: Fixture) {
    let client = on.client().await;
    let (names, others) =
        (names(&on, 20), names(&on, 8).iter().map(|name| format!("{name}:other")).collect::<Vec<_>>());
    let lock = MultiLock::new(&client, &names);
    for polls in 1..12 {
        redgrid_tests::cancel::at_most(polls, lock.acquire().timeout(Duration::from_millis(200)).into_future()).await;
    }
    drop(lock.acquire().timeout(SOON).await.unwrap());
    wait_until(SOON, async || client.stats() == NOTHING).await;
    none_is_held(&on, &names).await;
    let guard = MultiLock::new(&client, &others).acquire().await.unwrap();
    client.shutdown(SOON).await.unwrap();
    assert!(!guard.is_held());
    none_is_held(&on, &others).await;
}

/// In a cluster, the names are in a thousand slots, which are locked one after the other. A build
/// without optimization may take ten times as long.
async fn a_thousand_names_are_taken_within_a_second(on: Fixture) {
    let client = on.client().await;
    let lock = MultiLock::new(&client, names(&on, 1000));
    let acquired = Stopwatch::start();
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    println!("a thousand names on {} in {:?}", on.topology(), acquired.elapsed());
    acquired.assert_within(Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 }));
    guard.release().await.unwrap();
}
