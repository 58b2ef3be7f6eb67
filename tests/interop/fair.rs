//! The fair lock of either side in one queue.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{AcquireError, FairLock, LostReason};
use redgrid_testkit::{Monitor, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::fair::{Record, contending, queue};
use redgrid_tests::stopwatch::Stopwatch;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::fixture::{Fixture, assert_entered_at, at_once, scenarios};

scenarios![
    fair_rust_waits_for_java_and_enters_by_its_message,
    fair_java_waits_for_us_and_enters_by_our_message,
    the_order_is_that_of_asking_across_both,
    a_waiter_of_ours_that_gives_up_is_passed_by_java,
    a_waiter_of_java_that_gives_up_is_passed_by_ours,
    a_try_of_either_side_never_queues_or_overtakes,
    fair_leases_end_for_the_other_side,
    fair_watchdogs_keep_the_lock_while_the_other_side_waits,
    a_killed_holder_of_java_is_followed_by_ours,
    a_killed_waiter_of_java_is_passed_when_its_time_is_over,
    killed_waiters_of_ours_are_passed_by_java,
    a_forced_release_by_either_side_admits_the_next,
    a_holder_of_java_that_enters_again_keeps_ours_waiting,
    both_take_turns_in_order_by_the_servers_record,
];

const LEASE: Duration = Duration::from_millis(1500);

impl Fixture {
    fn fair_java(&self) -> Actor {
        self.java().fair()
    }

    async fn until_places(&self, places: usize) {
        wait_until(SOON, async || queue(&self.observer, &self.name).await.len() == places).await;
    }

    async fn nothing_is_left(&self) {
        let left = async || {
            let of = |prefix: &str| format!("{prefix}:{{{}}}", self.name);
            let keys = [self.name.clone(), of("redisson_lock_queue"), of("redisson_lock_timeout"), of("redgrid_fair")];
            let mut left = 0;
            for key in keys {
                left += u8::from(self.observer.exists(&key).await.unwrap());
            }
            left == 0
        };
        wait_until(SOON, left).await;
    }
}

fn wait_here(client: &Client, name: &str) -> tokio::task::JoinHandle<redgrid_locks::LockGuard> {
    let lock = FairLock::new(client, name);
    tokio::spawn(async move { lock.acquire().timeout(SOON * 2).await.unwrap() })
}

async fn fair_rust_waits_for_java_and_enters_by_its_message(on: Fixture) {
    let mut java = on.fair_java();
    let client = on.client().await;
    java.lock(&on.name).await;
    let waiter = wait_here(&client, &on.name);
    on.until_places(1).await;
    assert!(!waiter.is_finished());
    let guard = at_once(async {
        assert!(java.unlock(&on.name).await);
        waiter.await.unwrap()
    })
    .await;
    assert!(!java.try_lock(&on.name, Duration::ZERO).await);
    guard.release().await.unwrap();
    on.nothing_is_left().await;
}

async fn fair_java_waits_for_us_and_enters_by_our_message(on: Fixture) {
    let mut java = on.fair_java();
    let lock = FairLock::new(&on.client().await, &on.name);
    for _ in 0..5 {
        let guard = lock.acquire().await.unwrap();
        java.begin_lock(&on.name).await;
        java.until_asleep().await;
        let waiting = lock.waiting().await.unwrap();
        assert_eq!((waiting.len(), waiting[0].ours, waiting[0].client.as_str()), (1, false, on.java_id()));
        at_once(async {
            guard.release().await.unwrap();
            java.entered().await;
        })
        .await;
        assert!(java.unlock(&on.name).await);
    }
    on.nothing_is_left().await;
}

async fn the_order_is_that_of_asking_across_both(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let (mut gate, mut one, mut two, mut three) = (on.fair_java(), on.fair_java(), on.fair_java(), on.fair_java());
    gate.lock(&on.name).await;
    one.begin_lock(&on.name).await;
    on.until_places(1).await;
    let a = wait_here(&clients[0], &on.name);
    on.until_places(2).await;
    let b = wait_here(&clients[1], &on.name);
    on.until_places(3).await;
    two.begin_lock(&on.name).await;
    on.until_places(4).await;
    let c = wait_here(&clients[0], &on.name);
    on.until_places(5).await;
    three.begin_lock(&on.name).await;
    on.until_places(6).await;
    assert!(gate.unlock(&on.name).await);
    one.entered().await;
    assert!(!a.is_finished() && two.is_waiting());
    assert!(one.unlock(&on.name).await);
    let guard = a.await.unwrap();
    assert!(!b.is_finished() && !c.is_finished());
    guard.release().await.unwrap();
    let guard = b.await.unwrap();
    assert!(two.is_waiting() && !c.is_finished());
    guard.release().await.unwrap();
    two.entered().await;
    assert!(!c.is_finished() && three.is_waiting());
    assert!(two.unlock(&on.name).await);
    let guard = c.await.unwrap();
    assert!(three.is_waiting());
    guard.release().await.unwrap();
    three.entered().await;
    assert!(three.unlock(&on.name).await);
    on.nothing_is_left().await;
}

async fn a_waiter_of_ours_that_gives_up_is_passed_by_java(on: Fixture) {
    let (mut gate, mut java) = (on.fair_java(), on.fair_java());
    let lock = FairLock::new(&on.client().await, &on.name);
    gate.lock(&on.name).await;
    let dropped = tokio::spawn(lock.acquire().into_future());
    on.until_places(1).await;
    let timed_out = tokio::spawn(lock.acquire().timeout(Duration::from_secs(4)).into_future());
    on.until_places(2).await;
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    on.until_places(3).await;
    dropped.abort();
    assert!(matches!(timed_out.await.unwrap(), Err(AcquireError::TimedOut { .. })));
    on.until_places(1).await;
    at_once(async {
        assert!(gate.unlock(&on.name).await);
        java.entered().await;
    })
    .await;
    assert!(java.unlock(&on.name).await);
    on.nothing_is_left().await;
}

async fn a_waiter_of_java_that_gives_up_is_passed_by_ours(on: Fixture) {
    let (mut gate, mut java) = (on.fair_java(), on.fair_java());
    let client = on.client().await;
    gate.lock(&on.name).await;
    let begun = Instant::now();
    assert!(!java.try_lock(&on.name, Duration::from_millis(500)).await);
    assert!(begun.elapsed() >= Duration::from_millis(500));
    let waiter = wait_here(&client, &on.name);
    on.until_places(1).await;
    let guard = at_once(async {
        assert!(gate.unlock(&on.name).await);
        waiter.await.unwrap()
    })
    .await;
    guard.release().await.unwrap();
    on.nothing_is_left().await;
}

async fn a_try_of_either_side_never_queues_or_overtakes(on: Fixture) {
    let (mut java, mut other) = (on.fair_java(), on.fair_java());
    let (one, two) = (on.client().await, on.client().await);
    let gate = FairLock::new(&one, &on.name).acquire().await.unwrap();
    assert!(FairLock::new(&two, &on.name).try_acquire().await.unwrap().is_none());
    on.until_places(0).await;
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    on.until_places(1).await;
    assert!(FairLock::new(&two, &on.name).try_acquire().await.unwrap().is_none());
    on.until_places(1).await;
    gate.release().await.unwrap();
    java.entered().await;
    let waiter = wait_here(&two, &on.name);
    on.until_places(1).await;
    assert!(!other.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
    waiter.await.unwrap().release().await.unwrap();
    on.nothing_is_left().await;
}

async fn fair_leases_end_for_the_other_side(on: Fixture) {
    let mut java = on.fair_java();
    let lock = FairLock::new(&on.client().await, &on.name);
    java.lock_for(&on.name, LEASE).await;
    let end = on.lease_end().await;
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert_entered_at(end, guard.token().get());
    assert!(!java.is_held(&on.name).await);
    guard.release().await.unwrap();
    let before = on.server_time().await;
    lock.acquire().lease(LEASE).await.unwrap().forget();
    java.begin_lock(&on.name).await;
    java.entered().await;
    assert_entered_at(before + LEASE.as_micros() as u64, on.server_time().await);
    assert!(java.unlock(&on.name).await);
    on.nothing_is_left().await;
}

async fn fair_watchdogs_keep_the_lock_while_the_other_side_waits(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let (mut java, mut other) = (redisson.actor().fair(), on.fair_java());
    let lock = FairLock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    java.lock(&on.name).await;
    let first = on.lease_end().await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_places(1).await;
    on.until_renewed_past(first).await;
    assert!(!waiter.is_finished());
    assert!(java.unlock(&on.name).await);
    let guard = at_once(waiter).await.unwrap().unwrap();
    let first = on.lease_end().await;
    other.begin_lock(&on.name).await;
    other.until_asleep().await;
    on.until_renewed_past(first).await;
    assert!(other.is_waiting() && guard.is_held());
    guard.release().await.unwrap();
    other.entered().await;
    assert!(other.unlock(&on.name).await);
    on.nothing_is_left().await;
}

async fn a_killed_holder_of_java_is_followed_by_ours(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let client = on.client().await;
    redisson.actor().fair().lock(&on.name).await;
    let waiter = wait_here(&client, &on.name);
    on.until_places(1).await;
    redisson.kill().await;
    let end = on.lease_end().await;
    let guard = waiter.await.unwrap();
    assert_entered_at(end, guard.token().get());
    guard.release().await.unwrap();
    on.nothing_is_left().await;
}

async fn a_killed_waiter_of_java_is_passed_when_its_time_is_over(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let client = on.client().await;
    let lock = FairLock::new(&client, &on.name);
    lock.acquire().lease(Duration::from_secs(1)).await.unwrap().forget();
    let mut dead = redisson.actor().fair();
    // The queue position of the waiter lasts for its wait time.
    dead.begin_try_lock(&on.name, Duration::from_secs(3)).await;
    on.until_places(1).await;
    let scores = format!("redisson_lock_timeout:{{{}}}", on.name);
    let place = queue(&on.observer, &on.name).await.remove(0);
    let score: f64 = on.observer.query(&["ZSCORE", &scores, &place]).await.unwrap();
    redisson.kill().await;
    let waiter = wait_here(&client, &on.name);
    on.until_places(2).await;
    let guard = waiter.await.unwrap();
    assert_entered_at(score as u64 * 1000, guard.token().get());
    guard.release().await.unwrap();
    on.nothing_is_left().await;
}

async fn killed_waiters_of_ours_are_passed_by_java(on: Fixture) {
    let (mut gate, mut java) = (on.fair_java(), on.fair_java());
    gate.lock_for(&on.name, LEASE).await;
    let mut ours =
        contending(env!("CARGO_BIN_EXE_role"), &format!("{}?fair_wait=1s", on.url()), &on.name, (3, 1)).await;
    on.until_places(3).await;
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    on.until_places(4).await;
    ours.kill().await.unwrap();
    let killed = Stopwatch::start();
    java.entered().await;
    let bound = LEASE + 3 * Duration::from_secs(1) + Duration::from_secs(3);
    killed.assert_within(bound);
    assert!(java.unlock(&on.name).await);
}

async fn a_forced_release_by_either_side_admits_the_next(on: Fixture) {
    let (mut java, mut next) = (on.fair_java(), on.fair_java());
    let client = on.client_with(|config| config.watchdog_lease(Duration::from_secs(3))).await;
    let lock = FairLock::new(&client, &on.name);
    let guard = lock.acquire().await.unwrap();
    next.begin_lock(&on.name).await;
    next.until_asleep().await;
    on.until_places(1).await;
    assert!(java.force_unlock(&on.name).await);
    at_once(next.entered()).await;
    assert_eq!(tokio::time::timeout(SOON, guard.lost()).await.unwrap(), LostReason::Gone);
    let waiter = wait_here(&client, &on.name);
    on.until_places(1).await;
    assert!(lock.force_release().await.unwrap());
    let guard = at_once(waiter).await.unwrap();
    assert!(!next.is_held(&on.name).await);
    guard.release().await.unwrap();
    on.nothing_is_left().await;
}

async fn a_holder_of_java_that_enters_again_keeps_ours_waiting(on: Fixture) {
    let mut java = on.fair_java();
    let client = on.client().await;
    java.lock(&on.name).await;
    let waiter = wait_here(&client, &on.name);
    on.until_places(1).await;
    java.lock(&on.name).await;
    assert_eq!(java.hold_count(&on.name).await, 2);
    assert!(java.unlock(&on.name).await);
    assert!(!waiter.is_finished() && java.is_held(&on.name).await);
    assert!(java.unlock(&on.name).await);
    at_once(waiter).await.unwrap().release().await.unwrap();
    on.nothing_is_left().await;
}

/// How often each of eight callers acquires the lock: two threads in each of two Java processes,
/// and four tasks. `REDGRID_FAIRNESS` sets another number.
fn times() -> u64 {
    std::env::var("REDGRID_FAIRNESS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

/// Both sides take turns in order. This scenario has its own server, whose record has all commands.
async fn both_take_turns_in_order_by_the_servers_record(on: Fixture) {
    let server = redgrid_tests::server().await;
    let javas = [on.own_redisson_at(&server.url()).await, on.own_redisson_at(&server.url()).await];
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let mut record = Record::of("a");
    let counter = "counter";
    let mut threads: Vec<_> = (0..4).map(|n| javas[n % 2].actor().fair()).collect();
    let ours = [redgrid_tests::client(&server).await, redgrid_tests::client(&server).await];
    for java in &mut threads {
        java.begin_count("a", counter, times()).await;
    }
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let client = ours[n % 2].clone();
            tokio::spawn(async move {
                let lock = FairLock::new(&client, "a");
                for _ in 0..times() {
                    let guard = lock.acquire().await.unwrap();
                    let value = client.command("GET").key(counter).unwrap().query::<Option<u64>>().await.unwrap();
                    let set = client.command("SET").key(counter).unwrap().arg((value.unwrap_or(0) + 1).to_string());
                    set.query::<()>().await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        record.see(&monitor.take().await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    for java in &mut threads {
        assert_eq!(java.done_within(SOON * 5).await.unwrap(), times().to_string());
    }
    record.see(&monitor.take().await.unwrap());
    assert_eq!(server.observer().await.unwrap().get::<u64>(counter).await.unwrap(), Some(8 * times()));
    println!("{} grants, {} by a place, {} places gone", record.grants, record.by_place, record.gone());
    assert_eq!((record.grants, record.overtaken.len()), (8 * times(), 0), "{record:?}");
    assert_eq!(record.gone(), 0, "no waiter lost its place: {record:?}");
}
