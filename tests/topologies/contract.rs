//! The contract of a lock on every topology.

use std::time::{Duration, Instant};

use redgrid_core::config::ReadMode;
use redgrid_core::{Client, Failure, Script};
use redgrid_locks::{AcquireError, FairLock, Holder, Lock, LostReason};
use redgrid_testkit::wait_until;
use redgrid_tests::{NOTHING, SOON};

use crate::fixture::{Fixture, Topology};

const MS: Duration = Duration::from_millis(1);

/// Half of `SOON`: longer than any message takes on a busy machine, and shorter than a poll
/// interval of `SOON`.
pub(crate) const AT_ONCE: Duration = SOON.checked_div(2).unwrap();

/// This lease is renewed every second, and is long enough for a machine on which an answer takes a
/// second.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// Lists functions of a file as clauses. The name of each clause begins with `$about`.
macro_rules! clauses {
    ($about:literal; $($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<$crate::fixture::Clause> {
            vec![$($crate::fixture::Clause {
                name: concat!($about, "::", stringify!($name)),
                run: |fixture| Box::pin($name(fixture)),
            }),*]
        }
    };
}
pub(crate) use clauses;

clauses![
    "contract";
    one_at_a_time_and_free_again,
    a_waiter_elsewhere_is_woken_by_the_release,
    tasks_of_two_processes_lose_no_update,
    a_lease_ends_and_frees_the_lock,
    a_held_lock_is_renewed,
    many_names_are_renewed_together,
    a_lease_is_lengthened_and_shortened,
    a_holder_enters_again,
    force_notifies_the_preempted_holder,
    a_job_that_must_run_once_stays_taken,
    a_dropped_guard_is_released,
    a_shutdown_gives_everything_back,
    tokens_rise_from_owner_to_owner,
    a_waiter_for_a_free_lock_is_woken,
    a_key_deleted_by_hand_is_a_loss,
    scripts_that_were_flushed_are_sent_again,
    commands_go_to_the_node_of_their_key,
    a_wait_that_is_over_leaves_nothing,
    reads_go_to_the_nodes_of_the_read_mode,
    a_fair_lock_is_given_in_the_order_of_asking,
    no_fair_queue_position_is_left_behind,
];

async fn one_at_a_time_and_free_again(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
    assert!(Lock::new(&two, &on.name).try_acquire().await.unwrap().is_none());
    assert!(on.observer.exists(&on.name).await.unwrap());
    guard.release().await.unwrap();
    assert!(!on.observer.exists(&on.name).await.unwrap());
    Lock::new(&two, &on.name).try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
    assert_eq!((one.stats(), two.stats()), (NOTHING, NOTHING));
}

/// A release wakes a waiter of another process by its message alone: the next poll comes too late.
async fn a_waiter_elsewhere_is_woken_by_the_release(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    for _ in 0..3 {
        let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
        let waiter = tokio::spawn(Lock::new(&two, &on.name).acquire().timeout(SOON).into_future());
        until_listening(&on, 1).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let entered = waiter.await.unwrap().unwrap();
        assert!(released.elapsed() < AT_ONCE, "{:?}", released.elapsed());
        entered.release().await.unwrap();
        until_listening(&on, 0).await;
    }
}

async fn until_listening(on: &Fixture, clients: u64) {
    let channel = format!("redisson_lock__channel:{{{}}}", on.name);
    let listening = async || {
        let plain = on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1;
        let sharded = on.observer.query::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
        plain + sharded.map_or(0, |(_, sharded)| sharded) == clients
    };
    wait_until(SOON, listening).await;
}

async fn tasks_of_two_processes_lose_no_update(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let counter = format!("{{{}}}:counter", on.name);
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let (client, name, counter) = (clients[task % 2].clone(), on.name.clone(), counter.clone());
            tokio::spawn(async move {
                let lock = Lock::new(&client, name);
                for _ in 0..10 {
                    let guard = lock.acquire().await.unwrap();
                    let value = read(&client, &counter).await;
                    let write = client.command("SET").key(&counter).unwrap().arg((value + 1).to_string());
                    write.query::<()>().await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(read(&clients[0], &counter).await, 120);
}

async fn read(client: &Client, key: &str) -> i64 {
    client.command("GET").key(key).unwrap().query::<Option<i64>>().await.unwrap().unwrap_or(0)
}

async fn a_lease_ends_and_frees_the_lock(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().lease(1000 * MS).await.unwrap();
    let next = Lock::new(&two, &on.name).acquire().timeout(SOON).await.unwrap();
    assert_eq!(guard.watch().lost().await, LostReason::Expired);
    assert!(next.token() > guard.token());
}

async fn a_held_lock_is_renewed(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let guard = Lock::new(&client, &on.name).acquire().await.unwrap();
    let began = Instant::now();
    wait_until(SOON, async || {
        assert!(guard.is_held());
        began.elapsed() > 2 * LEASE
    })
    .await;
    guard.release().await.unwrap();
}

async fn many_names_are_renewed_together(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let mut guards = Vec::new();
    for n in 0..150 {
        guards.push(Lock::new(&client, format!("{}:{n}", on.name)).acquire().await.unwrap());
    }
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > 2 * LEASE).await;
    let lost: Vec<_> = guards.iter().filter_map(|guard| Some((guard.name(), guard.watch().lost_reason()?))).collect();
    assert!(lost.is_empty(), "{} of {}: {lost:?}", lost.len(), guards.len());
    client.shutdown(SOON).await.unwrap();
}

async fn a_lease_is_lengthened_and_shortened(on: Fixture) {
    let client = on.client().await;
    let guard = Lock::new(&client, &on.name).acquire().lease(Duration::from_secs(10)).await.unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert!(on.observer.time_to_live(&on.name).await.unwrap().is_some_and(|left| left > Duration::from_secs(55)));
    guard.extend(Duration::from_secs(5)).await.unwrap();
    assert!(on.observer.time_to_live(&on.name).await.unwrap().is_some_and(|left| left < Duration::from_secs(7)));
    guard.release().await.unwrap();
}

async fn a_holder_enters_again(on: Fixture) {
    let client = on.client().await;
    let (lock, me) = (Lock::new(&client, &on.name), Holder::new());
    let outer = lock.acquire().holder(&me).await.unwrap();
    let inner = lock.acquire().holder(&me).await.unwrap();
    assert_eq!(outer.token(), inner.token());
    inner.release().await.unwrap();
    assert!(outer.is_held());
    outer.release().await.unwrap();
}

async fn force_notifies_the_preempted_holder(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
    let seen = Lock::new(&one, &on.name).inspect().await.unwrap().unwrap().holders.remove(0);
    // A message reports the loss at once; without one, the next renewal does.
    let thief = Lock::new(&two, &on.name).steal().await.unwrap();
    let lost = tokio::time::timeout(SOON, guard.watch().lost()).await.unwrap();
    assert!(matches!(lost, LostReason::Forced | LostReason::Gone), "{lost:?}");
    assert!(thief.is_held() && thief.token() > guard.token());
    // The holder that was inspected does not hold the lock any more.
    assert!(!Lock::new(&one, &on.name).force_release_if(&seen).await.unwrap().is_done());
    assert!(thief.is_held());
    let seen = Lock::new(&one, &on.name).inspect().await.unwrap().unwrap().holders.remove(0);
    assert!(Lock::new(&one, &on.name).force_release_if(&seen).await.unwrap().is_done());
    assert!(!on.observer.exists(&on.name).await.unwrap());
    assert!(!Lock::new(&one, &on.name).force_release().await.unwrap());
}

async fn a_job_that_must_run_once_stays_taken(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let began = Instant::now();
    let turn = Lock::new(&one, &on.name).try_acquire().hold_at_least(1500 * MS).await.unwrap().unwrap();
    turn.release().await.unwrap();
    assert!(Lock::new(&two, &on.name).try_acquire().await.unwrap().is_none());
    Lock::new(&two, &on.name).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    assert!(began.elapsed() >= 1500 * MS, "{:?}", began.elapsed());
}

async fn a_dropped_guard_is_released(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let lock = Lock::new(&one, &on.name);
    for _ in 0..10 {
        drop(lock.acquire().await.unwrap());
        drop(futures_util::poll!(std::pin::pin!(lock.acquire().into_future())));
    }
    Lock::new(&two, &on.name).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
}

async fn a_shutdown_gives_everything_back(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let mut guards = Vec::new();
    for n in 0..20 {
        guards.push(Lock::new(&one, format!("{}:{n}", on.name)).acquire().await.unwrap());
    }
    one.shutdown(SOON).await.unwrap();
    assert!(guards.iter().all(|guard| !guard.is_held()));
    for n in 0..20 {
        let name = format!("{}:{n}", on.name);
        Lock::new(&two, name).try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
    }
    assert!(matches!(
        Lock::new(&one, &on.name).acquire().await,
        Err(AcquireError::Failed(Failure::ShuttingDown { .. }))
    ));
}

async fn tokens_rise_from_owner_to_owner(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let mut last = None;
    for turn in 0..40 {
        let guard = Lock::new(&clients[turn % 2], &on.name).acquire().timeout(SOON).await.unwrap();
        assert!(last < Some(guard.token()), "{last:?} {:?}", guard.token());
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

async fn a_waiter_for_a_free_lock_is_woken(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
    let lock = Lock::new(&two, &on.name);
    assert!(lock.inspect().await.unwrap().is_some_and(|state| state.holders[0].client == one.id()));
    let free = tokio::spawn(async move { lock.wait_until_free(Some(SOON)).await });
    until_listening(&on, 1).await;
    guard.release().await.unwrap();
    assert!(free.await.unwrap().unwrap());
}

async fn a_key_deleted_by_hand_is_a_loss(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let guard = Lock::new(&client, &on.name).acquire().await.unwrap();
    on.observer.cmd(&["DEL", &on.name]).await.unwrap();
    let lost = tokio::time::timeout(SOON, guard.watch().lost()).await.unwrap();
    assert_eq!(lost, LostReason::Gone);
}

async fn scripts_that_were_flushed_are_sent_again(on: Fixture) {
    let client = on.client().await;
    for _ in 0..3 {
        on.observer.cmd(&["SCRIPT", "FLUSH"]).await.unwrap();
        let guard = Lock::new(&client, &on.name).acquire().await.unwrap();
        on.observer.cmd(&["SCRIPT", "FLUSH"]).await.unwrap();
        guard.release().await.unwrap();
    }
}

async fn commands_go_to_the_node_of_their_key(on: Fixture) {
    let client = on.client().await;
    for n in 0..20 {
        let key = format!("{}:{n}", on.name);
        client.command("SET").key(&key).unwrap().arg(n.to_string()).query::<()>().await.unwrap();
        assert_eq!(read(&client, &key).await, n);
    }
}

async fn a_wait_that_is_over_leaves_nothing(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let guard = Lock::new(&one, &on.name).acquire().await.unwrap();
    let waited = Lock::new(&two, &on.name).acquire().timeout(1000 * MS).await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    wait_until(SOON, async || two.stats() == NOTHING).await;
    until_listening(&on, 0).await;
    guard.release().await.unwrap();
}

static ROLE: Script<1> = Script::new("role", "return string.match(redis.call('INFO', 'replication'), 'role:(%a+)')");

async fn reads_go_to_the_nodes_of_the_read_mode(on: Fixture) {
    let alone = on.topology() == Topology::Single;
    for (mode, expected) in
        [(ReadMode::Primary, &["master"][..]), (ReadMode::Replica, &["slave"]), (ReadMode::Any, &["master", "slave"])]
    {
        // A replica that is slow on a busy machine is still used.
        let client = on.client_with(|config| config.read_mode(mode).max_replica_lag(SOON)).await;
        let ask =
            async || client.run::<String>(ROLE.with([client.key(&on.name.as_str().try_into().unwrap())]).reads()).await;
        // The client reads from replicas once it knows that they are usable.
        let expected = if alone { &["master"] } else { expected };
        wait_until(SOON, async || ask().await.is_ok_and(|role| role == *expected.last().unwrap())).await;
        let mut roles = std::collections::BTreeSet::new();
        for _ in 0..10 {
            roles.insert(ask().await.unwrap());
        }
        assert!(roles.iter().eq(expected), "{mode:?}: {roles:?}");
        // Writes go to the primary.
        client.command("SET").key(&on.name).unwrap().arg("1").query::<()>().await.unwrap();
    }
}

async fn until_queued(lock: &FairLock, places: usize) {
    wait_until(SOON, async || lock.waiting().await.unwrap().len() == places).await;
}

async fn a_fair_lock_is_given_in_the_order_of_asking(on: Fixture) {
    // A process that stalls for longer than `fair_wait` loses its queue positions.
    let client = async || on.client_with(|config| config.fair_wait(SOON)).await;
    let clients = [client().await, client().await];
    let lock = FairLock::new(&clients[0], &on.name);
    let gate = lock.acquire().await.unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for n in 0..8 {
        let (mine, order) = (FairLock::new(&clients[n % 2], &on.name), order.clone());
        waiting.push(tokio::spawn(async move {
            let guard = mine.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        until_queued(&lock, n + 1).await;
    }
    assert!(lock.try_acquire().await.unwrap().is_none());
    gate.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
}

async fn no_fair_queue_position_is_left_behind(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.watchdog_lease(LEASE)).await);
    let lock = FairLock::new(&one, &on.name);
    let gate = lock.acquire().await.unwrap();
    let dropped = tokio::spawn(FairLock::new(&two, &on.name).acquire().into_future());
    until_queued(&lock, 1).await;
    let shut_down = tokio::spawn(lock.acquire().into_future());
    until_queued(&lock, 2).await;
    let looker = on.client().await;
    let waiting = FairLock::new(&looker, &on.name);
    dropped.abort();
    drop(dropped);
    until_queued(&waiting, 1).await;
    drop(gate);
    let next = shut_down.await.unwrap().unwrap();
    // The lock was handed over inside the process. A separate request removes the queue position at
    // the server.
    until_queued(&waiting, 0).await;
    let timed_out = FairLock::new(&two, &on.name).acquire().timeout(3000 * MS).await;
    assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
    until_queued(&waiting, 0).await;
    let last = tokio::spawn(FairLock::new(&two, &on.name).acquire().into_future());
    until_queued(&waiting, 1).await;
    // Held locks and waiting tasks of a client end with its shutdown.
    one.shutdown(SOON).await.unwrap();
    assert!(!next.is_held());
    let last = last.await.unwrap().unwrap();
    assert!(waiting.force_release().await.unwrap());
    tokio::time::timeout(SOON, last.watch().lost()).await.unwrap();
    two.shutdown(SOON).await.unwrap();
    assert!(waiting.waiting().await.unwrap().is_empty() && !waiting.is_locked().await.unwrap());
}
