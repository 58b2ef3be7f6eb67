//! Waiting futures that are kept but not polled: losing `select!` branches, futures in a struct,
//! hanging tasks. Such a future gives up its grant, so it delays other waiters, of any process, by
//! at most two seconds.

mod trial;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_atomic_long::{AtomicLong, LongAdder};
use redgrid_barrier::{Barrier, Condition, DoubleBarrier, Event, Notify, Phaser};
use redgrid_bucket::Bucket;
use redgrid_core::Client;
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_list::List;
use redgrid_local_cached_map::LocalCachedMap;
use redgrid_locks::{Election, FairLock, FencedLock, Lock, MultiLock, RwLock, SegmentedLock, SpinLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_queue::{DelayedQueue, Deque, End, PriorityQueue, Queue, RingBuffer};
use redgrid_rate_limiter::{GcraLimiter, Quota, Rate, RateLimiter};
use redgrid_reliable_queue::ReliableQueue;
use redgrid_semaphore::Semaphore;
use redgrid_stream::{Start, Stream};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;
use trial::{Act, Case, Granted, Wait, Waiting, act, check, given, held, held_after, waiter};

clauses![
    "unpolled";
    locks,
    fair_locks,
    spin_locks,
    fenced_locks,
    reads,
    writes,
    reads_in_order_of_arrival,
    writes_in_order_of_arrival,
    upgradable_reads,
    upgrades,
    multi_locks,
    segments,
    all_segments,
    campaigns,
    semaphores_with_leases,
    semaphores_without_leases,
    fair_semaphores,
    many_permits_before_few,
    permit_expirable_semaphores,
    latches,
    barriers,
    double_barriers,
    phasers,
    events,
    notifications,
    conditions,
    queues,
    deques,
    several_queues,
    delayed_queues,
    priority_queues,
    rings,
    reliable_queues,
    many_messages,
    stream_consumers,
    rate_limiters,
    cells,
    numbers,
    adders,
    ids,
    updates,
    locally_cached_entries,
];

async fn locks(on: Fixture) {
    let wait = waiter!(|client, name| Lock::new(&client, &name).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn fair_locks(on: Fixture) {
    let wait = waiter!(|client, name| FairLock::new(&client, &name).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn spin_locks(on: Fixture) {
    let wait = waiter!(|client, name| SpinLock::new(&client, &name).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn fenced_locks(on: Fixture) {
    let wait = waiter!(|client, name| FencedLock::new(&client, &name).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

const READ: fn(Client, String) -> Waiting =
    |client, name| Box::pin(async move { Box::new(RwLock::new(&client, &name).read().await.unwrap()) as Granted });
const WRITE: fn(Client, String) -> Waiting =
    |client, name| Box::pin(async move { Box::new(RwLock::new(&client, &name).write().await.unwrap()) as Granted });

async fn reads(on: Fixture) {
    held(&on, READ, WRITE).await;
}

async fn writes(on: Fixture) {
    held(&on, WRITE, READ).await;
    held(&on, WRITE, WRITE).await;
}

async fn reads_in_order_of_arrival(on: Fixture) {
    let read = waiter!(|client, name| RwLock::new(&client, &name).fair().read().await.unwrap());
    let write = waiter!(|client, name| RwLock::new(&client, &name).fair().write().await.unwrap());
    held(&on, read, write).await;
}

async fn writes_in_order_of_arrival(on: Fixture) {
    let read = waiter!(|client, name| RwLock::new(&client, &name).fair().read().await.unwrap());
    let write = waiter!(|client, name| RwLock::new(&client, &name).fair().write().await.unwrap());
    held(&on, write, read).await;
    held(&on, write, write).await;
}

async fn upgradable_reads(on: Fixture) {
    let wait = waiter!(|client, name| RwLock::new(&client, &name).upgradable_read().await.unwrap());
    held(&on, wait, WRITE).await;
    held(&on, wait, wait).await;
}

/// The caller holds the read lock and keeps it. It does not hold the write lock that it requests.
async fn upgrades(on: Fixture) {
    let upgrade = waiter!(|client, name| {
        let guard = RwLock::new(&client, &name).upgradable_read().await.unwrap();
        guard.upgrade().await.unwrap()
    });
    held(&on, upgrade, READ).await;
}

async fn multi_locks(on: Fixture) {
    // These names are in two slots. Other waiters request only one of the names.
    let both = waiter!(|client, name| {
        let names = [format!("{name}:a"), format!("{name}:b"), format!("{{{name}:b}}:c")];
        MultiLock::new(&client, names).acquire().await.unwrap()
    });
    let one = waiter!(|client, name| Lock::new(&client, format!("{name}:b")).acquire().await.unwrap());
    held(&on, both, one).await;
    held(&on, both, both).await;
}

async fn segments(on: Fixture) {
    let next =
        waiter!(|client, name| SegmentedLock::new(&client, &name, 2).segments_for(1).next().await.unwrap().unwrap());
    let all = waiter!(|client, name| SegmentedLock::new(&client, &name, 2).acquire_all().await.unwrap());
    held(&on, next, all).await;
}

async fn all_segments(on: Fixture) {
    let all = waiter!(|client, name| SegmentedLock::new(&client, &name, 3).acquire_all().await.unwrap());
    held(&on, all, all).await;
}

async fn campaigns(on: Fixture) {
    let wait = waiter!(|client, name| Election::new(&client, &name).campaign().proclaim("me").await.unwrap());
    held(&on, wait, wait).await;
}

async fn semaphores_with_leases(on: Fixture) {
    let wait = waiter!(|client, name| Semaphore::new(&client, &name, 1).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn semaphores_without_leases(on: Fixture) {
    let set_up = act!(|client, name| Semaphore::plain(&client, &name).try_set_permits(1).await.unwrap());
    let wait = waiter!(|client, name| Semaphore::plain(&client, &name).acquire().await.unwrap());
    held_after(&on, set_up, wait, wait).await;
}

async fn fair_semaphores(on: Fixture) {
    let wait = waiter!(|client, name| Semaphore::new(&client, &name, 1).fair().acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn many_permits_before_few(on: Fixture) {
    let many = waiter!(|client, name| Semaphore::new(&client, &name, 3).acquire_many(3).await.unwrap());
    let few = waiter!(|client, name| Semaphore::new(&client, &name, 3).acquire().await.unwrap());
    held(&on, many, few).await;
}

async fn permit_expirable_semaphores(on: Fixture) {
    let set_up = act!(|client, name| PermitExpirableSemaphore::new(&client, &name).try_set_permits(1).await.unwrap());
    let wait = waiter!(|client, name| PermitExpirableSemaphore::new(&client, &name).acquire().await.unwrap());
    held_after(&on, set_up, wait, wait).await;
}

async fn latches(on: Fixture) {
    let set_up = act!(|client, name| CountDownLatch::new(&client, &name).try_set_count(1).await.unwrap());
    let wait = waiter!(|client, name| CountDownLatch::new(&client, &name).wait().await.unwrap());
    let open = act!(|client, name| CountDownLatch::new(&client, &name).count_down().await.unwrap());
    given(&on, Some(set_up), wait, open).await;
}

/// A partner comes to the barrier again and again, so that each other party finds one.
async fn barriers(on: Fixture) {
    let wait = waiter!(|client, name| Barrier::new(&client, &name, 2).wait().await.unwrap());
    let partner = act!(|client, name| {
        tokio::spawn(async move { while Barrier::new(&client, &name, 2).wait().timeout(SOON).await.is_ok() {} })
    });
    given(&on, None, wait, partner).await;
}

async fn double_barriers(on: Fixture) {
    let wait = waiter!(|client, name| DoubleBarrier::new(&client, &name, 2).enter().await.unwrap());
    let partner = act!(|client, name| {
        tokio::spawn(async move {
            while let Ok(inside) = DoubleBarrier::new(&client, &name, 2).enter().timeout(SOON).await {
                drop(inside);
            }
        })
    });
    given(&on, None, wait, partner).await;
}

async fn phasers(on: Fixture) {
    let wait = waiter!(|client, name| Phaser::new(&client, &name).wait_advance(0).await.unwrap());
    let advance = act!(|client, name| {
        let party = Phaser::new(&client, &name).register().await.unwrap();
        party.arrive().await.unwrap();
        std::mem::forget(party);
    });
    given(&on, None, wait, advance).await;
}

async fn events(on: Fixture) {
    let wait = waiter!(|client, name| Event::new(&client, &name).wait().await.unwrap());
    let set = act!(|client, name| Event::new(&client, &name).set().await.unwrap());
    given(&on, None, wait, set).await;
}

/// One waiter takes the notification.
async fn notifications(on: Fixture) {
    let wait = waiter!(|client, name| Notify::new(&client, &name).notified().await.unwrap());
    let notify = act!(|client, name| {
        tokio::spawn(async move {
            // Repeats until a waiter is in the queue.
            let notify = Notify::new(&client, &name);
            while !notify.notify_one().await.unwrap() {
                tokio::task::yield_now().await;
            }
        })
    });
    given(&on, None, wait, notify).await;
}

/// A notified waiter takes the lock again, and must not keep it from others.
async fn conditions(on: Fixture) {
    let wait = waiter!(|client, name| {
        let guard = Lock::new(&client, &name).acquire().await.unwrap();
        Condition::new(&client, format!("{name}:condition")).wait(guard).await.unwrap()
    });
    let lock = waiter!(|client, name| Lock::new(&client, &name).acquire().await.unwrap());
    let notify = act!(|client, name| Condition::new(&client, format!("{name}:condition")).notify_all().await.unwrap());
    check(&on, Case { set_up: None, kept: wait, other: lock, taken: false, then: Some(notify) }).await;
}

async fn queues(on: Fixture) {
    let wait = waiter!(|client, name| Queue::<u64>::new(&client, &name).take().await.unwrap());
    let push = act!(|client, name| Queue::<u64>::new(&client, &name).push(&1).await.unwrap());
    given(&on, None, wait, push).await;
}

async fn deques(on: Fixture) {
    let wait = waiter!(|client, name| Deque::<u64>::new(&client, &name).take(End::Back).await.unwrap());
    let push = act!(|client, name| Deque::<u64>::new(&client, &name).push_back(&1).await.unwrap());
    given(&on, None, wait, push).await;
}

async fn several_queues(on: Fixture) {
    let wait = waiter!(|client, name| {
        let other = Queue::<u64>::new(&client, format!("{name}:other"));
        Queue::<u64>::new(&client, &name).take_from_any(&[other]).await.unwrap()
    });
    let push = act!(|client, name| Queue::<u64>::new(&client, &name).push(&1).await.unwrap());
    given(&on, None, wait, push).await;
}

async fn delayed_queues(on: Fixture) {
    let wait = waiter!(|client, name| DelayedQueue::<u64>::new(&client, &name).take().await.unwrap());
    let push = act!(|client, name| {
        DelayedQueue::<u64>::new(&client, &name).push(&1, Duration::from_millis(1)).await.unwrap()
    });
    given(&on, None, wait, push).await;
}

async fn priority_queues(on: Fixture) {
    let wait = waiter!(|client, name| PriorityQueue::<u64>::new(&client, &name).take().await.unwrap());
    let push = act!(|client, name| PriorityQueue::<u64>::new(&client, &name).push(&1, 1).await.unwrap());
    given(&on, None, wait, push).await;
}

async fn rings(on: Fixture) {
    let set_up = act!(|client, name| RingBuffer::<u64>::new(&client, &name).try_set_capacity(2).await.unwrap());
    let wait = waiter!(|client, name| Queue::<u64>::new(&client, &name).take().await.unwrap());
    let push = act!(|client, name| RingBuffer::<u64>::new(&client, &name).push(&1).await.unwrap());
    given(&on, Some(set_up), wait, push).await;
}

async fn reliable_queues(on: Fixture) {
    let wait = waiter!(|client, name| ReliableQueue::<u64>::new(&client, &name).receive().await.unwrap());
    let push = act!(|client, name| ReliableQueue::<u64>::new(&client, &name).push(&1).await.unwrap());
    given(&on, None, wait, push).await;
}

async fn many_messages(on: Fixture) {
    let wait = waiter!(|client, name| ReliableQueue::<u64>::new(&client, &name).receive_many(5).await.unwrap());
    let push = act!(|client, name| ReliableQueue::<u64>::new(&client, &name).push(&1).await.unwrap());
    given(&on, None, wait, push).await;
}

/// An entry that was given to one consumer, but not taken, goes to another consumer.
async fn stream_consumers(on: Fixture) {
    static CONSUMERS: AtomicU64 = AtomicU64::new(0);
    let wait = waiter!(|client, name| {
        let group = Stream::<String, u64>::new(&client, &name).group("g");
        let consumer = format!("c{}", CONSUMERS.fetch_add(1, Ordering::Relaxed));
        // An entry that the server gave to a consumer is pending for that name, until another
        // consumer claims it as idle.
        let deliveries = group.consumer(consumer).create_if_missing(Start::Beginning);
        let mut deliveries = deliveries.claim_idle(Duration::from_millis(500));
        deliveries.try_next().await.unwrap().unwrap()
    });
    let add = act!(|client, name| Stream::<String, u64>::new(&client, &name).add("n", &1).await.unwrap());
    given(&on, None, wait, add).await;
}

async fn rate_limiters(on: Fixture) {
    let set_up = act!(|client, name| {
        RateLimiter::new(&client, &name).try_set_rate(Rate::overall(1, Duration::from_secs(600))).await.unwrap()
    });
    let wait = waiter!(|client, name| RateLimiter::new(&client, &name).acquire().await.unwrap());
    let give = act!(|client, name| {
        let _ = RateLimiter::new(&client, &name);
    });
    given(&on, Some(set_up), wait, give).await;
}

async fn cells(on: Fixture) {
    fn limiter(client: &Client, name: &str) -> GcraLimiter {
        GcraLimiter::new(client, name, Quota::new(2, Duration::from_secs(1)))
    }
    let wait = waiter!(|client, name| limiter(&client, &name).acquire().await.unwrap());
    held(&on, wait, wait).await;
}

async fn numbers(on: Fixture) {
    let wait = waiter!(|client, name| AtomicLong::new(&client, &name).increment().await.unwrap());
    held(&on, wait, wait).await;
}

async fn adders(on: Fixture) {
    let wait = waiter!(|client, name| LongAdder::new(&client, &name).sum().await.unwrap());
    held(&on, wait, wait).await;
}

async fn ids(on: Fixture) {
    let wait = waiter!(|client, name| IdGenerator::new(&client, &name).next().await.unwrap());
    held(&on, wait, wait).await;
}

async fn updates(on: Fixture) {
    let number = waiter!(|client, name| AtomicLong::new(&client, &name).update(|n| n + 1).await.unwrap());
    held(&on, number, number).await;
    let bucket = waiter!(|client, name| {
        Bucket::<u64>::new(&client, &name).update(|n| *n += 1).await.unwrap();
    });
    held(&on, bucket, bucket).await;
    let list = waiter!(|client, name| List::<u64>::new(&client, &name).push(&1).await.unwrap());
    held(&on, list, list).await;
}

async fn locally_cached_entries(on: Fixture) {
    let get = waiter!(|client, name| LocalCachedMap::<u64, u64>::new(&client, &name).get(&1).await.unwrap());
    held(&on, get, get).await;
}
