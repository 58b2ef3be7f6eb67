//! Readers and writers of both sides: Redisson's `RReadWriteLock` and our `RwLock`.

use std::time::Duration;

use redgrid_locks::{LostReason, RwLock, UpgradeError};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, at_once, scenarios};

scenarios![
    java_reads_concurrently_and_its_last_reader_wakes_our_writer,
    we_read_concurrently_with_java_and_our_last_reader_wakes_its_writer,
    javas_writer_keeps_our_readers_out_and_wakes_them,
    our_writer_keeps_javas_readers_out_and_wakes_them_all,
    writers_of_both_wake_each_other,
    our_downgrade_wakes_javas_readers,
    a_downgraded_java_admits_our_readers_and_no_writer,
    we_upgrade_only_when_javas_reader_has_left,
    an_upgradable_reader_waits_for_javas_reader,
    javas_reader_reenters_while_ours_reads,
    our_guards_are_lost_when_java_forces_them_open,
    java_learns_that_we_forced_it_open,
    both_sides_see_all_holders,
    counts_of_both_sides_writers_are_complete,
];

pub(super) const LEASE: Duration = Duration::from_millis(1500);

/// Returns the name of the read lock, as Java's verbs take it.
pub(super) fn read(on: &Fixture) -> String {
    format!("read|{}", on.name)
}

pub(super) fn write(on: &Fixture) -> String {
    format!("write|{}", on.name)
}

pub(super) async fn until_listening(on: &Fixture, clients: u64) {
    let channel = format!("redisson_rwlock:{{{}}}", on.name);
    let listening = async || {
        on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.is_ok_and(|(_, now)| now == clients)
    };
    wait_until(SOON, listening).await;
}

async fn java_reads_concurrently_and_its_last_reader_wakes_our_writer(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&read(&on)).await;
    let ours = lock.try_read().await.unwrap().expect("readers share");
    assert!(lock.try_write().await.unwrap().is_none());
    ours.release().await.unwrap();
    assert!(java.is_held(&read(&on)).await);
    let waiter = tokio::spawn(lock.write().timeout(SOON).into_future());
    until_listening(&on, 1).await;
    assert!(!waiter.is_finished());
    let guard = at_once(async {
        assert!(java.unlock(&read(&on)).await);
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&read(&on), Duration::ZERO).await);
    guard.release().await.unwrap();
}

async fn we_read_concurrently_with_java_and_our_last_reader_wakes_its_writer(on: Fixture) {
    let (mut java, mut writer) = (on.java(), on.java());
    let lock = RwLock::new(&on.client().await, &on.name);
    let ours = lock.read().await.unwrap();
    assert!(java.try_lock(&read(&on), Duration::ZERO).await);
    assert!(!writer.try_lock(&write(&on), Duration::ZERO).await);
    assert!(java.unlock(&read(&on)).await);
    writer.begin_lock(&write(&on)).await;
    writer.until_asleep().await;
    at_once(async {
        ours.release().await.unwrap();
        writer.entered().await;
    })
    .await;
    assert!(lock.try_read().await.unwrap().is_none() && lock.try_write().await.unwrap().is_none());
    assert!(writer.unlock(&write(&on)).await);
    lock.try_write().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn javas_writer_keeps_our_readers_out_and_wakes_them(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&write(&on)).await;
    assert!(lock.try_read().await.unwrap().is_none());
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(lock.read().timeout(SOON).into_future())).collect();
    until_listening(&on, 1).await;
    assert!(java.unlock(&write(&on)).await);
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(at_once(waiter).await.unwrap().unwrap());
    }
    assert!(java.try_lock(&read(&on), Duration::ZERO).await && java.unlock(&read(&on)).await);
    assert!(guards.iter().all(|guard| guard.is_held()));
}

async fn our_writer_keeps_javas_readers_out_and_wakes_them_all(on: Fixture) {
    let (mut one, mut two) = (on.java(), on.java());
    let lock = RwLock::new(&on.client().await, &on.name);
    let guard = lock.write().await.unwrap();
    assert!(!one.try_lock(&read(&on), Duration::ZERO).await);
    for java in [&mut one, &mut two] {
        java.begin_lock(&read(&on)).await;
        java.until_asleep().await;
    }
    at_once(async {
        guard.release().await.unwrap();
        one.entered().await;
        two.entered().await;
    })
    .await;
    assert!(one.unlock(&read(&on)).await && two.unlock(&read(&on)).await);
}

async fn writers_of_both_wake_each_other(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    for _ in 0..3 {
        let guard = lock.write().timeout(SOON).await.unwrap();
        java.begin_lock(&write(&on)).await;
        java.until_asleep().await;
        at_once(async {
            guard.release().await.unwrap();
            java.entered().await;
        })
        .await;
        // Java has left its channel: later subscribers are clients of Rust.
        until_listening(&on, 0).await;
        let waiter = tokio::spawn(lock.write().timeout(SOON).into_future());
        until_listening(&on, 1).await;
        at_once(async {
            assert!(java.unlock(&write(&on)).await);
            waiter.await.unwrap().unwrap().release().await.unwrap();
        })
        .await;
    }
}

async fn our_downgrade_wakes_javas_readers(on: Fixture) {
    let (mut java, mut writer) = (on.java(), on.java());
    let lock = RwLock::new(&on.client().await, &on.name);
    let guard = lock.write().await.unwrap();
    java.begin_lock(&read(&on)).await;
    java.until_asleep().await;
    let ours = at_once(async {
        let ours = guard.downgrade().await.unwrap();
        java.entered().await;
        ours
    })
    .await;
    assert!(!writer.try_lock(&write(&on), Duration::ZERO).await);
    ours.release().await.unwrap();
    assert!(!writer.try_lock(&write(&on), Duration::ZERO).await);
    assert!(java.unlock(&read(&on)).await);
    assert!(writer.try_lock(&write(&on), Duration::ZERO).await);
    assert!(writer.unlock(&write(&on)).await);
}

async fn a_downgraded_java_admits_our_readers_and_no_writer(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&write(&on)).await;
    java.lock(&read(&on)).await;
    assert!(lock.try_read().await.unwrap().is_none());
    assert!(java.unlock(&write(&on)).await);
    let ours = lock.try_read().await.unwrap().expect("Java only reads now");
    assert!(lock.try_write().await.unwrap().is_none());
    ours.release().await.unwrap();
    assert!(java.unlock(&read(&on)).await);
    lock.try_write().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn we_upgrade_only_when_javas_reader_has_left(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&read(&on)).await;
    let ours = lock.read().await.unwrap();
    let Err(UpgradeError::Busy(ours)) = ours.try_upgrade().await else { panic!("Java reads") };
    assert!(java.unlock(&read(&on)).await);
    let ours = ours.try_upgrade().await.unwrap();
    assert!(!java.try_lock(&read(&on), Duration::ZERO).await);
    let ours = ours.downgrade().await.unwrap();
    assert!(java.try_lock(&read(&on), Duration::ZERO).await && java.unlock(&read(&on)).await);
    ours.release().await.unwrap();
    assert!(java.try_lock(&write(&on), Duration::ZERO).await && java.unlock(&write(&on)).await);
}

async fn an_upgradable_reader_waits_for_javas_reader(on: Fixture) {
    let mut java = on.java();
    let client = on.client_with(|config| config.poll_interval(Duration::from_secs(1))).await;
    let lock = RwLock::new(&client, &on.name);
    java.lock(&read(&on)).await;
    let upgrade = tokio::spawn(lock.upgradable_read().await.unwrap().upgrade());
    until_listening(&on, 1).await;
    assert!(!upgrade.is_finished());
    // Redisson publishes nothing while another reader is left, so the Rust client polls.
    let guard = at_once(async {
        assert!(java.unlock(&read(&on)).await);
        upgrade.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&read(&on), Duration::ZERO).await);
    guard.release().await.unwrap();
}

async fn javas_reader_reenters_while_ours_reads(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    let ours = lock.read().await.unwrap();
    java.lock(&read(&on)).await;
    java.lock(&read(&on)).await;
    assert_eq!(java.hold_count(&read(&on)).await, 2);
    assert!(java.unlock(&read(&on)).await);
    ours.release().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(java.unlock(&read(&on)).await);
    lock.try_write().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn our_guards_are_lost_when_java_forces_them_open(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    let ours = lock.read().await.unwrap();
    assert!(!java.force_unlock(&write(&on)).await, "there is no writer");
    assert!(java.force_unlock(&read(&on)).await);
    assert_eq!(tokio::time::timeout(SOON, ours.lost()).await.unwrap(), LostReason::Gone);
    let ours = lock.write().await.unwrap();
    assert!(java.force_unlock(&write(&on)).await);
    assert_eq!(tokio::time::timeout(SOON, ours.lost()).await.unwrap(), LostReason::Gone);
    assert!(java.try_lock(&write(&on), Duration::ZERO).await);
    assert!(ours.release().await.is_err() && java.is_held(&write(&on)).await);
    assert!(java.unlock(&write(&on)).await);
}

async fn java_learns_that_we_forced_it_open(on: Fixture) {
    let (mut one, mut two, mut next) = (on.java(), on.java(), on.java());
    let lock = RwLock::new(&on.client().await, &on.name);
    assert!(!lock.force_release().await.unwrap());
    one.lock(&read(&on)).await;
    two.lock(&read(&on)).await;
    next.begin_lock(&write(&on)).await;
    next.until_asleep().await;
    assert!(lock.force_release().await.unwrap());
    at_once(next.entered()).await;
    assert!(!one.unlock(&read(&on)).await && !two.is_held(&read(&on)).await);
    assert!(next.is_held(&write(&on)).await);
    assert!(lock.force_release().await.unwrap());
    assert!(!next.unlock(&write(&on)).await);
}

async fn both_sides_see_all_holders(on: Fixture) {
    let (mut java, mut other) = (on.java(), on.java());
    let client = on.client().await;
    let lock = RwLock::new(&client, &on.name);
    assert!(lock.inspect().await.unwrap().is_none());
    java.lock(&write(&on)).await;
    java.lock(&read(&on)).await;
    let state = lock.inspect().await.unwrap().expect("it is held");
    let thread = java.thread().await;
    assert!(state.writer.is_some_and(|writer| writer.client == on.java_id() && writer.number == Some(thread)));
    assert_eq!(state.readers.len(), 1);
    assert!(java.unlock(&read(&on)).await && java.unlock(&write(&on)).await);
    let ours = lock.write().await.unwrap();
    assert!(other.is_locked(&write(&on)).await && !other.is_locked(&read(&on)).await);
    let ours = ours.downgrade().await.unwrap();
    assert!(!other.is_locked(&write(&on)).await && other.is_locked(&read(&on)).await);
    assert!(other.time_to_live(&read(&on)).await > 20_000);
    ours.release().await.unwrap();
    assert!(!other.is_locked(&read(&on)).await);
}

async fn counts_of_both_sides_writers_are_complete(on: Fixture) {
    let counter = format!("counter:{}", on.name);
    let mut actors = [on.java(), on.java()];
    for java in &mut actors {
        java.begin_count(&write(&on), &counter, 40).await;
    }
    let clients = [on.client().await, on.client().await];
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let (lock, observer, counter) =
                (RwLock::new(&clients[n % 2], &on.name), on.observer.clone(), counter.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    let guard = lock.write().timeout(SOON).await.unwrap();
                    let value: u64 = observer.get(&counter).await.unwrap().unwrap_or(0);
                    observer.cmd(&["SET", &counter, &(value + 1).to_string()]).await.unwrap();
                    guard.release().await.unwrap();
                    let guard = lock.read().timeout(SOON).await.unwrap();
                    let first: Option<u64> = observer.get(&counter).await.unwrap();
                    assert_eq!(observer.get::<u64>(&counter).await.unwrap(), first, "no write during the read");
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for java in &mut actors {
        java.done().await.unwrap();
    }
    assert_eq!(on.observer.get::<u64>(&counter).await.unwrap(), Some(200));
}
