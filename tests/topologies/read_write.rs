//! Read-write locks on every topology.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redgrid_core::name::companion;
use redgrid_locks::{Holder, LostReason, RwLock, UpgradeError};
use redgrid_testkit::wait_until;
use redgrid_tests::{NOTHING, SOON};

use crate::contract::{AT_ONCE, LEASE, clauses};
use crate::fixture::Fixture;

const MS: Duration = Duration::from_millis(1);

clauses![
    "read_write";
    many_read_and_one_writes,
    a_reader_elsewhere_is_woken_by_the_writer,
    a_writer_elsewhere_is_woken_by_the_last_reader,
    a_waiting_writer_has_readers_step_back,
    reads_and_writes_are_renewed,
    a_write_becomes_a_read_and_a_read_a_write,
    an_upgradable_reader_waits_for_the_other_readers,
    leases_of_readers_end_one_by_one,
    dropped_guards_are_released_also_at_shutdown,
    force_notifies_all_holders,
    a_read_that_must_last_outlives_its_guard,
    tasks_of_two_processes_lose_no_update,
    a_fair_lock_is_entered_in_order,
];

/// Requests enter a fair lock in order. While a writer holds it, a reader, a writer and another
/// reader, of two clients, request it one after the other.
async fn a_fair_lock_is_entered_in_order(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let locks = clients.each_ref().map(|client| RwLock::new(client, &on.name).fair());
    let (front, queue) = (companion("redgrid_rw_line", on.name.as_bytes()), "redisson_lock_queue");
    let (front, queue) = (text(&front), text(&companion(queue, &front)));
    let in_line = async || {
        let front = u64::from(on.observer.exists(&front).await.unwrap());
        front + on.observer.query::<u64>(&["LLEN", &queue]).await.unwrap()
    };
    let gate = locks[0].write().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..3_usize {
        let (lock, order) = (locks[(number + 1) % 2].clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            if number == 1 {
                let guard = lock.write().timeout(SOON).await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            } else {
                let guard = lock.read().timeout(SOON).await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            }
        }));
        wait_until(SOON, async || in_line().await == number as u64 + 1).await;
    }
    assert!(locks[1].try_read().await.unwrap().is_none());
    gate.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
    assert_eq!(in_line().await, 0);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn many_read_and_one_writes(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RwLock::new(&one, &on.name), RwLock::new(&two, &on.name));
    let (first, second) = (here.read().await.unwrap(), there.read().await.unwrap());
    assert!(here.try_write().await.unwrap().is_none());
    first.release().await.unwrap();
    second.release().await.unwrap();
    let me = Holder::new();
    let write = here.write().holder(&me).await.unwrap();
    assert!(there.try_read().await.unwrap().is_none());
    let read = here.read().holder(&me).await.unwrap();
    write.release().await.unwrap();
    there.try_read().await.unwrap().expect("readers share").release().await.unwrap();
    assert!(there.try_write().await.unwrap().is_none());
    read.release().await.unwrap();
    assert!(!on.observer.exists(&on.name).await.unwrap());
    assert_eq!((one.stats(), two.stats()), (NOTHING, NOTHING));
}

async fn until_listening(on: &Fixture, clients: u64) {
    let channel = format!("redisson_rwlock:{{{}}}", on.name);
    let listening = async || {
        let plain = on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1;
        let sharded = on.observer.query::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
        plain + sharded.map_or(0, |(_, sharded)| sharded) == clients
    };
    wait_until(SOON, listening).await;
}

/// A writer's release and downgrade wake a reader of another process by the message alone: the next
/// poll comes too late.
async fn a_reader_elsewhere_is_woken_by_the_writer(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    for downgrades in [false, true] {
        let write = RwLock::new(&one, &on.name).write().await.unwrap();
        let waiter = tokio::spawn(RwLock::new(&two, &on.name).read().timeout(SOON).into_future());
        until_listening(&on, 1).await;
        let released = Instant::now();
        let read = match downgrades {
            true => Some(write.downgrade().await.unwrap()),
            false => {
                write.release().await.unwrap();
                None
            }
        };
        let entered = waiter.await.unwrap().unwrap();
        assert!(released.elapsed() < AT_ONCE, "{:?}", released.elapsed());
        drop((read, entered));
        until_listening(&on, 0).await;
    }
}

async fn a_writer_elsewhere_is_woken_by_the_last_reader(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let lock = RwLock::new(&one, &on.name);
    let (first, last) = (lock.read().await.unwrap(), lock.read().lease(SOON).await.unwrap());
    let waiter = tokio::spawn(RwLock::new(&two, &on.name).write().timeout(SOON).into_future());
    until_listening(&on, 1).await;
    first.release().await.unwrap();
    assert!(!waiter.is_finished());
    let released = Instant::now();
    last.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < AT_ONCE, "{:?}", released.elapsed());
}

async fn a_waiting_writer_has_readers_step_back(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RwLock::new(&one, &on.name), RwLock::new(&two, &on.name));
    let read = here.read().await.unwrap();
    let writer = tokio::spawn(there.write().timeout(SOON).into_future());
    let mark = format!("redgrid_rw_wait:{{{}}}", on.name);
    wait_until(SOON, async || on.observer.exists(&mark).await.unwrap()).await;
    assert!(there.try_read().await.unwrap().is_none());
    let next = tokio::spawn(there.read().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting == 2).await;
    read.release().await.unwrap();
    let write = writer.await.unwrap().unwrap();
    assert!(!next.is_finished());
    write.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || !on.observer.exists(&mark).await.unwrap()).await;
}

async fn reads_and_writes_are_renewed(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for n in 0..30 {
        reads.push(RwLock::new(&client, format!("{}:read:{n}", on.name)).read().await.unwrap());
        writes.push(RwLock::new(&client, format!("{}:write:{n}", on.name)).write().await.unwrap());
    }
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > 2 * LEASE).await;
    assert!(reads.iter().all(|read| read.is_held()) && writes.iter().all(|write| write.is_held()));
    client.shutdown(SOON).await.unwrap();
    let two = on.client().await;
    for n in 0..30 {
        let free = RwLock::new(&two, format!("{}:read:{n}", on.name)).try_write().await.unwrap();
        free.expect("a shutdown releases all").release().await.unwrap();
    }
}

async fn a_write_becomes_a_read_and_a_read_a_write(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RwLock::new(&one, &on.name), RwLock::new(&two, &on.name));
    let read = here.write().await.unwrap().downgrade().await.unwrap();
    let other = there.read().await.unwrap();
    let Err(UpgradeError::Busy(read)) = read.try_upgrade().await else { panic!("another reads") };
    other.release().await.unwrap();
    let write = read.try_upgrade().await.unwrap();
    assert!(there.try_read().await.unwrap().is_none());
    write.release().await.unwrap();
    assert!(!on.observer.exists(&on.name).await.unwrap());
}

async fn an_upgradable_reader_waits_for_the_other_readers(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RwLock::new(&one, &on.name), RwLock::new(&two, &on.name));
    let seen = here.upgradable_read().await.unwrap();
    let reader = there.read().await.unwrap();
    let upgrade = tokio::spawn(seen.upgrade());
    until_listening(&on, 1).await;
    assert!(!upgrade.is_finished());
    reader.release().await.unwrap();
    upgrade.await.unwrap().unwrap().release().await.unwrap();
}

async fn leases_of_readers_end_one_by_one(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let short = RwLock::new(&one, &on.name).read().lease(1000 * MS).await.unwrap();
    let long = RwLock::new(&two, &on.name).read().lease(SOON).await.unwrap();
    assert_eq!(short.watch().lost().await, LostReason::Expired);
    assert!(long.is_held());
    // The lock's key lasts as long as the longest lease.
    assert!(on.observer.time_to_live(&on.name).await.unwrap().is_some_and(|left| left > SOON / 2));
    drop(short);
    long.release().await.unwrap();
    wait_until(SOON, async || !on.observer.exists(&on.name).await.unwrap()).await;
}

async fn dropped_guards_are_released_also_at_shutdown(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let lock = RwLock::new(&one, &on.name);
    for _ in 0..10 {
        drop(lock.read().await.unwrap());
        drop(futures_util::poll!(std::pin::pin!(lock.write().into_future())));
        drop(futures_util::poll!(std::pin::pin!(lock.read().into_future())));
    }
    RwLock::new(&two, &on.name).write().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    let (first, second) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    one.shutdown(SOON).await.unwrap();
    assert!(!first.is_held() && !second.is_held());
    RwLock::new(&two, &on.name).try_write().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn force_notifies_all_holders(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RwLock::new(&one, &on.name), RwLock::new(&two, &on.name));
    let (mine, theirs) = (here.read().await.unwrap(), there.read().await.unwrap());
    assert_eq!(here.inspect().await.unwrap().unwrap().readers.len(), 2);
    assert!(here.force_release().await.unwrap());
    for guard in [mine, theirs] {
        let lost = tokio::time::timeout(SOON, guard.watch().lost()).await.unwrap();
        assert!(matches!(lost, LostReason::Forced | LostReason::Gone), "{lost:?}");
    }
    assert!(!on.observer.exists(&on.name).await.unwrap());
}

async fn a_read_that_must_last_outlives_its_guard(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let began = Instant::now();
    RwLock::new(&one, &on.name).read().hold_at_least(3000 * MS).await.unwrap().release().await.unwrap();
    let there = RwLock::new(&two, &on.name);
    // The key keeps the longest lease that was given: the name stays taken until then.
    let short = there.try_read().lease(1000 * MS).await.unwrap();
    short.expect("readers share").release().await.unwrap();
    assert!(there.try_write().await.unwrap().is_none());
    there.write().timeout(SOON).await.unwrap().release().await.unwrap();
    assert!(began.elapsed() >= 3000 * MS, "{:?}", began.elapsed());
}

async fn tasks_of_two_processes_lose_no_update(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let value = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let (lock, value) = (RwLock::new(&clients[task % 2], &on.name), value.clone());
            tokio::spawn(async move {
                use std::sync::atomic::Ordering::SeqCst;
                for _ in 0..10 {
                    let write = lock.write().timeout(SOON).await.unwrap();
                    let before = value.load(SeqCst);
                    tokio::task::yield_now().await;
                    value.store(before + 1, SeqCst);
                    let read = write.downgrade().await.unwrap();
                    assert_eq!(value.load(SeqCst), before + 1);
                    read.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value.load(std::sync::atomic::Ordering::SeqCst), 120);
}
