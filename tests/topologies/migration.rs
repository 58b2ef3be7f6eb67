//! Slots that move while they are in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use redgrid_bucket::Buckets;
use redgrid_core::{Client, Code, Config, Failure, ServerError};
use redgrid_locks::{AcquireError, Lock, LockGuard, MultiLock};
use redgrid_rate_limiter::{GcraLimiter, Quota, Rate, RateLimiter};
use redgrid_script::{Batch, Call};
use redgrid_testkit::{Cluster, RedisServer, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::either::EitherSemaphore;

use crate::fixture::{APP, Fixture, SECRET, Topology, by_seeds, connected, patient, published, scenarios};

scenarios![
    a_name_is_taken_held_and_freed_on_either_side_of_a_migration,
    a_name_is_taken_held_and_freed_on_either_side_under_the_published_permissions,
    missing_permissions_at_the_target_are_reported_at_once,
    slots_that_move_one_after_the_other_cause_no_error,
    several_names_on_both_sides_of_a_migration_are_given_back_one_by_one,
    permits_are_conserved_on_either_side_of_a_migration,
    many_values_are_read_and_set_while_they_are_on_both_sides,
    batches_go_on_while_their_slot_moves_and_nothing_is_carried_out_twice,
    rates_stand_still_while_their_slot_moves_and_nothing_is_taken_twice,
];

/// Returns the slot of a name, and a node to which the slot can move.
pub(super) async fn moving<'a>(cluster: &'a Cluster, name: &str) -> (u16, &'a RedisServer) {
    let slot = cluster.slot_of(name).await.unwrap();
    let from = cluster.primary_of(slot).await.unwrap().addr();
    let to = cluster.nodes().iter().find(|node| node.addr() != from).unwrap();
    (slot, to)
}

async fn a_name_is_taken_held_and_freed_on_either_side_of_a_migration() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    on_either_side(&cluster, by_seeds(&cluster)).await;
}

async fn a_name_is_taken_held_and_freed_on_either_side_under_the_published_permissions() {
    let options = RedisServer::builder().user(APP, published(Topology::Cluster));
    let cluster =
        Cluster::builder().primaries(3).replicas_per_primary(0).server_options(options).start().await.unwrap();
    on_either_side(&cluster, by_seeds(&cluster).credentials(Some(APP), SECRET)).await;
    for node in cluster.nodes() {
        let denied = Fixture::denied(&node.observer().await.unwrap()).await;
        assert!(denied.is_empty(), "{denied:#?}");
    }
}

/// A target node without the needed permission is reported at once. The call must not go back and
/// forth between the two nodes until its timeout.
async fn missing_permissions_at_the_target_are_reported_at_once() {
    let options = RedisServer::builder().user("hasty", format!("on >{SECRET} ~* &* +@all -asking"));
    let cluster =
        Cluster::builder().primaries(3).replicas_per_primary(0).server_options(options).start().await.unwrap();
    let client = connected(by_seeds(&cluster).credentials(Some("hasty"), SECRET)).await;
    let (slot, to) = moving(&cluster, "a").await;
    cluster.begin_migration(slot, to).await.unwrap();
    let refused = Lock::new(&client, "a").acquire().timeout(SOON).await;
    let is_named =
        |source: &ServerError| source.code() == Some(Code::NoPermission) && source.to_string().contains("asking");
    assert!(
        matches!(&refused, Err(AcquireError::Failed(Failure::Refused { source, .. })) if is_named(source)),
        "{refused:?}"
    );
}

async fn on_either_side(cluster: &Cluster, config: Config) {
    let client = connected(config.watchdog_lease(Duration::from_secs(6))).await;
    let (slot, to) = moving(cluster, "{tag}").await;
    let (present, absent) = (Lock::new(&client, "{tag}:present"), Lock::new(&client, "{tag}:absent"));
    let held = present.acquire().await.unwrap();
    cluster.begin_migration(slot, to).await.unwrap();
    // Existing keys are at the source node. A request for a missing key goes to the target.
    let taken = absent.acquire().timeout(SOON).await.unwrap();
    assert!(present.try_acquire().await.unwrap().is_none());
    assert!(absent.try_acquire().await.unwrap().is_none());
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > Duration::from_millis(2500)).await;
    assert!(held.is_held() && taken.is_held());
    absent_and_back(&absent, taken).await;
    cluster.move_keys(slot).await.unwrap();
    wait_until(SOON, async || began.elapsed() > Duration::from_millis(5000)).await;
    assert!(held.is_held());
    cluster.finish_migration(slot).await.unwrap();
    wait_until(SOON, async || began.elapsed() > Duration::from_millis(7500)).await;
    assert!(held.is_held());
    held.release().await.unwrap();
    present.acquire().await.unwrap().release().await.unwrap();
}

async fn several_names_on_both_sides_of_a_migration_are_given_back_one_by_one() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    // The leases are far longer than this test, so none of them ends by itself.
    let client = connected(by_seeds(&cluster).watchdog_lease(10 * SOON)).await;
    let (slot, to) = moving(&cluster, "{tag}").await;
    let names = || (0..4).map(|n| format!("{{tag}}:{n}"));
    let (released, dropped) = (MultiLock::new(&client, names()), MultiLock::new(&client, ["{tag}:a", "{tag}:b"]));
    let (released, dropped) = (released.acquire().await.unwrap(), dropped.acquire().await.unwrap());
    cluster.begin_migration(slot, to).await.unwrap();
    for name in ["{tag}:1", "{tag}:3", "{tag}:b"] {
        assert!(cluster.move_key(name).await.unwrap());
    }
    tokio::time::timeout(2 * SOON, released.release()).await.expect("it does not wait for the migration").unwrap();
    drop(dropped);
    wait_until(2 * SOON, async || client.stats().names == 0).await;
    for name in names().chain(["{tag}:a".into(), "{tag}:b".into()]) {
        Lock::new(&client, &name).acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    }
}

/// A script may notice late that its last lease, or the queue, is not on its node any more. It
/// still does all or nothing, so no permit is lost or doubled.
async fn permits_are_conserved_on_either_side_of_a_migration() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    // On a busy machine a migration takes longer than a request usually may.
    let (one, two) = (connected(patient(&cluster)).await, connected(patient(&cluster)).await);
    let (slot, to) = moving(&cluster, "{tag}").await;
    let kinds = [(true, false), (true, true), (false, false), (false, true)];
    let semaphores = async |client: &Client| {
        let mut all = Vec::new();
        for (leases, fair) in kinds {
            let semaphore = EitherSemaphore::new(client, format!("{{tag}}:{leases}{fair}"), 3, leases).await;
            all.push(if fair { semaphore.fair() } else { semaphore });
        }
        all
    };
    let (ours, theirs) = (semaphores(&one).await, semaphores(&two).await);
    let crowd = async |over: &AtomicBool| {
        let tasks = ours.iter().chain(&theirs).flat_map(|semaphore| [semaphore; 2]).map(|semaphore| async move {
            while !over.load(Ordering::Relaxed) {
                match semaphore.acquire_many(fastrand::u64(1..=2)).timeout(SOON * 2).await {
                    Ok(permit) => permit.release().await.unwrap(),
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        join_all(tasks).await;
    };
    let (over, moves) = (AtomicBool::new(false), async {
        for round in 0..6 {
            let (slot, home) = (slot, cluster.primary_of(slot).await.unwrap().addr());
            let to = if home == to.addr() { &cluster.nodes()[0] } else { to };
            let to = if to.addr() == home { &cluster.nodes()[1] } else { to };
            cluster.begin_migration(slot, to).await.unwrap();
            // During this pause, some requests go to the one node, and some to the other.
            tokio::time::sleep(Duration::from_millis(40 * round)).await;
            cluster.move_keys(slot).await.unwrap();
            cluster.finish_migration(slot).await.unwrap();
        }
    });
    join(crowd(&over), async {
        moves.await;
        over.store(true, Ordering::Relaxed);
    })
    .await;
    for semaphore in &ours {
        wait_until(SOON, async || semaphore.available_permits().await.unwrap() == 3).await;
        semaphore.acquire_many(3).timeout(SOON).await.unwrap().release().await.unwrap();
        assert_eq!(semaphore.available_permits().await.unwrap(), 3, "{semaphore:?}");
    }
}

async fn rates_stand_still_while_their_slot_moves_and_nothing_is_taken_twice() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let (one, two) = (connected(patient(&cluster)).await, connected(patient(&cluster)).await);
    let (slot, to) = moving(&cluster, "{tag}").await;
    let long = Duration::from_secs(600);
    let logs = [&one, &two].map(|client| RateLimiter::new(client, "a{tag}"));
    let cells = [&one, &two].map(|client| GcraLimiter::new(client, "b{tag}", Quota::new(1, long).burst(20)));
    logs[0].try_set_rate(Rate::overall(20, long)).await.unwrap();
    for n in 0..2 {
        logs[n].acquire().await.unwrap();
        cells[n].acquire().await.unwrap();
    }
    cluster.begin_migration(slot, to).await.unwrap();
    let mut asking = Vec::new();
    for n in 0..18 {
        let (log, cells) = (logs[n % 2].clone(), cells[n % 2].clone());
        asking.push(tokio::spawn(async move {
            let (taken, cell) =
                join(log.acquire().timeout(2 * SOON).into_future(), cells.acquire().timeout(2 * SOON).into_future())
                    .await;
            cell.unwrap();
            taken.unwrap();
        }));
    }
    // During this pause, some requests go to the one node, and some to the other.
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.move_keys(slot).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.finish_migration(slot).await.unwrap();
    for one in asking {
        one.await.unwrap();
    }
    for n in 0..2 {
        assert_eq!((logs[n].available_permits().await.unwrap(), cells[n].available_permits().await.unwrap()), (0, 0));
        assert!(logs[n].try_acquire().await.unwrap().is_none() && !cells[n].try_acquire().await.unwrap());
    }
    assert_eq!(logs[0].release(50).await.unwrap(), 20, "each permit has its entry");
}

async fn absent_and_back(lock: &Lock, taken: LockGuard) {
    taken.release().await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

async fn slots_that_move_one_after_the_other_cause_no_error() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster)).await;
    let names: Vec<String> = (0..12).map(|n| format!("moving:{n}")).collect();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tasks: Vec<_> = names
        .iter()
        .map(|name| {
            let (lock, stop) = (Lock::new(&client, name), stop.clone());
            tokio::spawn(async move {
                let mut taken = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
                    taken += 1;
                }
                taken
            })
        })
        .collect();
    for _ in 0..2 {
        for name in &names {
            let (slot, to) = moving(&cluster, name).await;
            cluster.migrate_slot(slot, to).await.unwrap();
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
}

async fn many_values_are_read_and_set_while_they_are_on_both_sides() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    // A client that repeats its request until all keys are on one side is too late.
    let client = connected(patient(&cluster)).await;
    let (slot, to) = moving(&cluster, "{tag}").await;
    let buckets: Buckets<u64> = Buckets::new(&client);
    let values: BTreeMap<String, u64> = (0..8).map(|n| (format!("{{tag}}:{n}"), n)).collect();
    let set = async |values: &BTreeMap<String, u64>| {
        let set = buckets.set_each(values);
        tokio::time::timeout(SOON, set).await.expect("it does not wait for the migration").unwrap();
    };
    let get = async |values: &BTreeMap<String, u64>| {
        let get = buckets.get_each(values.keys());
        tokio::time::timeout(SOON, get).await.expect("it does not wait for the migration").unwrap()
    };
    set(&values).await;
    cluster.begin_migration(slot, to).await.unwrap();
    for name in ["{tag}:1", "{tag}:5"] {
        assert!(cluster.move_key(name).await.unwrap());
    }
    assert_eq!(get(&values).await, values);
    let others: BTreeMap<String, u64> = values.keys().cloned().zip(10..).collect();
    set(&others).await;
    assert_eq!(get(&values).await, others);
    let delete = buckets.delete_each(values.keys());
    let deleted = tokio::time::timeout(SOON, delete).await.expect("it does not wait for the migration");
    assert_eq!(deleted.unwrap(), 8);
    cluster.move_keys(slot).await.unwrap();
    cluster.finish_migration(slot).await.unwrap();
    assert!(get(&values).await.is_empty());
}

/// A batch continues while its slot moves. One node refuses MULTI and the commands after it before
/// it executes any of them. The client then sends the whole batch to the other node.
async fn batches_go_on_while_their_slot_moves_and_nothing_is_carried_out_twice() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(patient(&cluster)).await;
    let (slot, to) = moving(&cluster, "{tag}").await;
    let atomic = async |names: &[&str]| {
        let mut batch = Batch::new(&client).atomic();
        let handles: Vec<_> =
            names.iter().map(|name| batch.push::<i64>(Call::command("INCRBY").key(name).int(1))).collect();
        let results = batch.send().await.unwrap();
        handles.iter().map(|handle| results.get(handle).unwrap()).collect::<Vec<_>>()
    };
    let plain = async || {
        let mut batch = Batch::new(&client);
        let names = ["{tag}:here", "{tag}:there", "{tag}:here", "{tag}:there", "elsewhere"];
        let handles = names.map(|name| batch.push::<i64>(Call::command("INCRBY").key(name).int(1)));
        let results = batch.send().await.unwrap();
        handles.map(|handle| results.get(&handle).unwrap())
    };
    assert_eq!(atomic(&["{tag}:here", "{tag}:there"]).await, [1, 1]);
    assert_eq!(plain().await, [2, 2, 3, 3, 1]);
    cluster.begin_migration(slot, to).await.unwrap();
    assert!(cluster.move_key("{tag}:there").await.unwrap());
    // These batches have keys of one side only.
    assert_eq!(atomic(&["{tag}:here", "{tag}:here"]).await, [4, 5]);
    assert_eq!(atomic(&["{tag}:there", "{tag}:there"]).await, [4, 5]);
    assert_eq!(plain().await, [6, 6, 7, 7, 2]);
    // A batch with keys of both sides waits.
    let both = async { atomic(&["{tag}:there", "{tag}:here"]).await };
    let mut both = std::pin::pin!(both);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut both).await.is_err());
    cluster.move_keys(slot).await.unwrap();
    cluster.finish_migration(slot).await.unwrap();
    assert_eq!(both.await, [8, 8]);
    assert_eq!(atomic(&["{tag}:there", "{tag}:here"]).await, [9, 9]);
    assert_eq!(plain().await, [10, 10, 11, 11, 3]);
}
