//! Barriers, phasers and events on every topology.

use std::time::Duration;

use redgrid_barrier::{Barrier, BarrierError, Condition, DoubleBarrier, Event, Notify, Party, Phaser, WaitError};
use redgrid_core::Client;
use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::{NOTHING, SOON};

use crate::contract::{AT_ONCE, clauses};
use crate::fixture::Fixture;

clauses![
    "barriers";
    a_barrier_opens_for_all_round_after_round,
    a_barrier_waiter_is_woken_by_the_message,
    barrier_state_does_not_keep_the_client_alive,
    a_double_barrier_is_entered_and_left_together,
    a_phaser_advances_with_the_last_arrival,
    a_notification_wakes_one_and_all,
    an_event_wakes_all_waiters,
    a_condition_waits_without_the_lock,
];

const SHORT: Duration = Duration::from_millis(200);

/// Returns a client that only messages wake in time, because its polls and renewals are too rare.
async fn without_polls(on: &Fixture) -> Client {
    on.client_with(|config| config.poll_interval(2 * SOON).watchdog_lease(10 * SOON)).await
}

async fn until(on: &Fixture, set: &str, many: u64) {
    let key = format!("redgrid_{set}:{{{}}}", on.name);
    wait_until(SOON, async || on.observer.query::<u64>(&["ZCARD", &key]).await.unwrap() == many).await;
}

async fn until_listening(on: &Fixture, object: &str) {
    let channel = format!("redgrid_{object}__channel:{{{}}}", on.name);
    let listening = async || {
        let plain = on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1;
        let sharded = on.observer.query::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
        plain + sharded.map_or(0, |(_, sharded)| sharded) > 0
    };
    wait_until(SOON, listening).await;
}

async fn a_barrier_opens_for_all_round_after_round(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let barrier = Barrier::new(&clients[task % 2], &on.name, 4);
            tokio::spawn(async move {
                for round in 1..=15 {
                    assert_eq!(barrier.wait().timeout(SOON).await.unwrap().generation(), round);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let alone = Barrier::new(&clients[0], &on.name, 4).wait().timeout(SHORT).await;
    assert!(matches!(alone, Err(BarrierError::TimedOut { .. })), "{alone:?}");
    until(&on, "barrier_waiting", 0).await;
}

async fn a_barrier_waiter_is_woken_by_the_message(on: Fixture) {
    let (one, two) = (without_polls(&on).await, on.client().await);
    let first = tokio::spawn(Barrier::new(&one, &on.name, 2).wait().timeout(SOON).into_future());
    until_listening(&on, "barrier").await;
    until(&on, "barrier_waiting", 1).await;
    Barrier::new(&two, &on.name, 2).wait().timeout(SOON).await.unwrap();
    tokio::time::timeout(AT_ONCE, first).await.expect("it is woken").unwrap().unwrap();
}

/// A client announces the barriers that it has passed for the time of a lease, but only while the
/// client lives.
async fn barrier_state_does_not_keep_the_client_alive(on: Fixture) {
    let client = without_polls(&on).await;
    for round in 1..=5 {
        assert_eq!(Barrier::new(&client, &on.name, 1).wait().timeout(SOON).await.unwrap().generation(), round);
    }
    let gone = client.downgrade();
    drop(client);
    wait_until(SOON, async || gone.upgrade().is_none()).await;
}

async fn a_double_barrier_is_entered_and_left_together(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    for session in 1..=2 {
        let first = tokio::spawn(DoubleBarrier::new(&one, &on.name, 2).enter().timeout(SOON).into_future());
        let second = DoubleBarrier::new(&two, &on.name, 2).enter().timeout(SOON).await.unwrap();
        let first = first.await.unwrap().unwrap();
        assert_eq!((first.session(), second.session()), (session, session));
        let left = tokio::spawn(first.leave().timeout(SOON).into_future());
        until(&on, "double_barrier_inside", 1).await;
        assert!(!left.is_finished());
        second.leave().timeout(SOON).await.unwrap();
        left.await.unwrap().unwrap();
    }
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
}

async fn a_phaser_advances_with_the_last_arrival(on: Fixture) {
    let (one, two) = (without_polls(&on).await, on.client().await);
    let phaser = Phaser::new(&one, &on.name);
    let [first, second]: [Party; 2] = phaser.bulk_register(2).await.unwrap().try_into().unwrap();
    let third = Phaser::new(&two, &on.name).register().await.unwrap();
    for phase in 0..3 {
        assert_eq!((first.arrive().await.unwrap(), second.arrive().await.unwrap()), (phase, phase));
        let watching = tokio::spawn(phaser.wait_advance(phase).timeout(SOON).into_future());
        until_listening(&on, "phaser").await;
        assert_eq!(third.arrive_and_wait().timeout(SOON).await.unwrap(), phase + 1);
        let woken = tokio::time::timeout(AT_ONCE, watching).await.expect("it is woken");
        assert_eq!(woken.unwrap().unwrap(), phase + 1);
    }
    for party in [first, second, third] {
        party.arrive_and_deregister().await.unwrap();
    }
    assert!(phaser.state().await.unwrap().is_terminated);
    assert!(phaser.reset().await.unwrap());
    let _party = phaser.register().await.unwrap();
    assert!(Phaser::new(&two, &on.name).terminate().await.unwrap());
}

async fn a_notification_wakes_one_and_all(on: Fixture) {
    let (one, two) = (on.client().await, without_polls(&on).await);
    let notify = Notify::new(&one, &on.name);
    let waits = || tokio::spawn(Notify::new(&two, &on.name).notified().timeout(SOON).into_future());
    let first = waits();
    until(&on, "notify_line", 1).await;
    let others = [waits(), waits()];
    until(&on, "notify_line", 3).await;
    until_listening(&on, "notify").await;
    assert!(notify.notify_one().await.unwrap());
    tokio::time::timeout(AT_ONCE, first).await.expect("it is woken").unwrap().unwrap();
    assert!(others.iter().all(|other| !other.is_finished()));
    assert_eq!(notify.notify_waiters().await.unwrap(), 2);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert!(!notify.notify_one().await.unwrap());
    notify.notified().timeout(SOON).await.unwrap();
    let none = notify.notified().timeout(SHORT).await;
    assert!(matches!(none, Err(WaitError::TimedOut { .. })), "{none:?}");
}

async fn an_event_wakes_all_waiters(on: Fixture) {
    let (one, two) = (on.client().await, without_polls(&on).await);
    let event = Event::new(&one, &on.name);
    let waiting = tokio::spawn(Event::new(&two, &on.name).wait().timeout(SOON).into_future());
    until_listening(&on, "event").await;
    assert!(event.set().await.unwrap());
    tokio::time::timeout(AT_ONCE, waiting).await.expect("it is woken").unwrap().unwrap();
    assert!(event.reset().await.unwrap() && !event.is_set().await.unwrap());
    event.without_lifetime().set().await.unwrap();
    assert!(Event::new(&two, &on.name).reset().await.unwrap());
}

async fn a_condition_waits_without_the_lock(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let lock = format!("{{{}}}:lock", on.name);
    let waiting = tokio::spawn({
        let (guard, condition) = (Lock::new(&one, &lock).acquire().await.unwrap(), Condition::new(&one, &on.name));
        async move { condition.wait_within(guard, SOON).await }
    });
    until(&on, "condition_line", 1).await;
    let guard = Lock::new(&two, &lock).acquire().timeout(SOON).await.unwrap();
    assert!(Condition::new(&two, &on.name).notify_one().await.unwrap());
    guard.release().await.unwrap();
    let (guard, was_notified) = waiting.await.unwrap().unwrap();
    assert!(was_notified && guard.is_held());
    guard.release().await.unwrap();
}
